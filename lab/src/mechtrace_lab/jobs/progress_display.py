"""Progress of jobs: a line per finished job, bars on a terminal."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Sequence
from typing import Any

from mechtrace._runtime import bars, duration, is_terminal
from mechtrace.stage1 import Progress

from .job import Job, Row

logger = logging.getLogger(__name__)


class ProgressDisplay:
    """Logs a line per job; bars appear on stderr if that is a terminal and `live`."""

    def __init__(self, *, workers: int = 1, live: bool = True) -> None:
        self.workers = workers
        self.live = live and is_terminal(sys.stderr)
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
            logger.info(f"{self.count} of {total} results are kept from before")
        if self.live and todo:
            self._bars = bars(sys.stderr, elapsed=True)
            self._bars.start()

    def started(self, job: Job) -> None:
        """A job begins."""
        self._began[job] = time.monotonic()
        self.waiting.remove(job)
        if self._bars is not None:
            name = f"{job.kind} seed {job.seed}"
            self._tasks[job] = self._bars.add_task(name, total=None, figures="")

    def training(self, job: Job, progress: Progress) -> None:
        """Update the bar of a job."""
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
        logger.info(f"{job.line(row)}{left}")

    def seconds_left(self) -> float:
        """Estimate the remaining seconds from the finished jobs."""
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
        """Remove the progress bars."""
        if self._bars is not None:
            self._bars.stop()
            self._bars = None
