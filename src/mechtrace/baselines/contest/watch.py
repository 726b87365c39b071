"""What a person sees of a comparison that runs: a line per finished cell, bars on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from ...fit import Progress
from ...progress import duration
from .cells import FINISHED, Cell, Row

#: What a line says about a finished cell: figure, word; those of worlds and those of data.
SPOKEN = (
    ("pooled", "pooled"), ("single", "single"), ("switch", "switch"), ("accuracy", "accuracy"),
    ("mcc", "MCC"),
)  # fmt: skip


class Watch:
    """Speaks through `say`; bars appear on stderr if that is a terminal and `live`."""

    def __init__(self, say: Callable[[str], None], *, workers: int = 1, live: bool = True) -> None:
        self.say, self.workers = say, workers
        self.live = live and sys.stderr.isatty()
        self.done: dict[str, list[float]] = {}
        self.waiting: list[Cell] = []
        self.total, self.count = 0, 0
        self._bars: Any = None
        self._tasks: dict[Cell, Any] = {}
        self._began: dict[Cell, float] = {}

    def begin(self, total: int, todo: Sequence[Cell]) -> None:
        """Say how much there is to do."""
        self.total, self.count, self.waiting = total, total - len(todo), list(todo)
        if self.count:
            self.say(f"{self.count} of {total} cells are kept from before")
        if self.live and todo:
            self._bars = _bars()
            self._bars.start()

    def started(self, cell: Cell) -> None:
        """A cell begins."""
        self._began[cell] = time.monotonic()
        self.waiting.remove(cell)
        if self._bars is not None:
            name = f"{cell.method} seed {cell.seed}"
            self._tasks[cell] = self._bars.add_task(name, total=None, figures="")

    def training(self, cell: Cell, progress: Progress) -> None:
        """A cell has learned a little more."""
        if self._bars is not None:
            figures = f"loss {progress.loss:.3f}  {duration(progress.seconds_left)} left"
            self._bars.update(
                self._tasks[cell], completed=progress.step, total=progress.steps, figures=figures
            )

    def finished(self, cell: Cell, row: Row) -> None:
        """One line about a cell."""
        seconds = time.monotonic() - self._began.pop(cell)
        self.count += 1
        self.done.setdefault(cell.method, []).append(seconds)
        if self._bars is not None:
            self._bars.remove_task(self._tasks.pop(cell))
        left = f"; {self.count} of {self.total}"
        left += f", about {duration(self.seconds_left())} left" if self.count < self.total else ""
        self.say(f"{line(row)}{left}")

    def seconds_left(self) -> float:
        """What the rest will take, if it takes as long as what is done."""
        every = [second for seconds in self.done.values() for second in seconds]
        usual = sum(every) / len(every)

        def expected(cell: Cell) -> float:
            known = self.done.get(cell.method)
            return sum(known) / len(known) if known else usual

        now = time.monotonic()
        rest = sum(expected(cell) for cell in self.waiting)
        rest += sum(max(0.0, expected(cell) - (now - at)) for cell, at in self._began.items())
        return rest / self.workers

    def close(self) -> None:
        """Give the terminal back."""
        if self._bars is not None:
            self._bars.stop()
            self._bars = None


def line(row: Row) -> str:
    """A row in words."""
    head = f"{row['method']} seed {row['seed']}: "
    if row["status"] != FINISHED:
        return f"{head}{row['status']}: {row['reason']}".rstrip(".")
    own, oracle = row["figures"], row["oracle_selected"]
    said = [f"{word} {own[name]:.3f}" for name, word in SPOKEN if own.get(name) is not None]
    if own.get("mcc") is not None and row["selects"]:
        said[-1] += f" (oracle-selected {oracle['mcc']:.3f})"
    cost = f"{duration(row['seconds'])}, {row['memory_mb']:,.0f} MB"
    return head + ", ".join([*said, cost])


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
