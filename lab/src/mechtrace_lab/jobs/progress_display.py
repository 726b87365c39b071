"""What a person sees of long work: a line per finished job, bars on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from ..fit import Progress
from ..progress import duration
from .job import Job, Row


class Watch:
    """Speaks through `say`; bars appear on stderr if that is a terminal and `live`."""

    def __init__(self, say: Callable[[str], None], *, workers: int = 1, live: bool = True) -> None:
        self.say, self.workers = say, workers
        self.live = live and sys.stderr.isatty()
        self.done: dict[str, list[float]] = {}
        self.waiting: list[Job] = []
        self.total, self.count = 0, 0
        self._bars: Any = None
        self._tasks: dict[Job, Any] = {}
        self._began: dict[Job, float] = {}

    def begin(self, total: int, todo: Sequence[Job]) -> None:
        """Say how much there is to do."""
        self.total, self.count, self.waiting = total, total - len(todo), list(todo)
        if self.count:
            self.say(f"{self.count} of {total} results are kept from before")
        if self.live and todo:
            self._bars = _bars()
            self._bars.start()

    def started(self, job: Job) -> None:
        """A job begins."""
        self._began[job] = time.monotonic()
        self.waiting.remove(job)
        if self._bars is not None:
            name = f"{job.kind} seed {job.seed}"
            self._tasks[job] = self._bars.add_task(name, total=None, figures="")

    def training(self, job: Job, progress: Progress) -> None:
        """A job has learned a little more."""
        if self._bars is not None:
            figures = f"loss {progress.loss:.3f}  {duration(progress.seconds_left)} left"
            self._bars.update(
                self._tasks[job], completed=progress.step, total=progress.steps, figures=figures
            )

    def finished(self, job: Job, row: Row) -> None:
        """One line about a job."""
        seconds = time.monotonic() - self._began.pop(job)
        self.count += 1
        self.done.setdefault(job.kind, []).append(seconds)
        if self._bars is not None:
            self._bars.remove_task(self._tasks.pop(job))
        left = f"; {self.count} of {self.total}"
        left += f", about {duration(self.seconds_left())} left" if self.count < self.total else ""
        self.say(f"{job.line(row)}{left}")

    def seconds_left(self) -> float:
        """What the rest will take, if it takes as long as what is done."""
        every = [second for seconds in self.done.values() for second in seconds]
        usual = sum(every) / len(every)

        def expected(job: Job) -> float:
            known = self.done.get(job.kind)
            return sum(known) / len(known) if known else usual

        now = time.monotonic()
        rest = sum(expected(job) for job in self.waiting)
        rest += sum(max(0.0, expected(job) - (now - at)) for job, at in self._began.items())
        return rest / self.workers

    def close(self) -> None:
        """Give the terminal back."""
        if self._bars is not None:
            self._bars.stop()
            self._bars = None


def _bars() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    return Bars(
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        TimeElapsedColumn(),
        TextColumn("{task.fields[figures]}"),
        console=Console(stderr=True),
        transient=True,
        # what is printed meanwhile goes above the bars, unless it goes to a file
        redirect_stdout=sys.stdout.isatty(),
    )
