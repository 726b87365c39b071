"""Who listens to a training run: a live bar on a terminal, plain lines in a pipe, log files."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from .errors import MissingDependency

if TYPE_CHECKING:
    from .fit import Progress


Item = TypeVar("Item")


class Listener:
    """A context manager that is called with every Progress."""

    def __enter__(self) -> Listener:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __call__(self, progress: Progress) -> None:
        """Take note of the progress."""

    def close(self) -> None:
        """Give back files and the terminal."""


class PlainLines(Listener):
    """One line per evaluation, at most one every few seconds, for pipes and log files."""

    def __init__(self, stream: TextIO, seconds: float = 5.0) -> None:
        self.stream, self.seconds, self._last = stream, seconds, -1e9
        self._unsaid: Progress | None = None

    def __call__(self, progress: Progress) -> None:
        """Write a line if it is time for one."""
        self._unsaid = progress
        if progress.step == progress.steps or time.monotonic() - self._last >= self.seconds:
            self._write()

    def close(self) -> None:
        """Say the last thing, also after an early stop."""
        self._write()

    def _write(self) -> None:
        if self._unsaid is None:
            return
        progress, self._unsaid, self._last = self._unsaid, None, time.monotonic()
        self.stream.write(f"step {progress.step}/{progress.steps}  {_figures(progress)}\n")
        self.stream.flush()


class LiveBar(Listener):
    """A bar with loss, held-out ELBO, throughput and remaining time, for terminals."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as Bar
        from rich.table import Column

        self._bar = Bar(
            MofNCompleteColumn(table_column=Column(no_wrap=True, min_width=9)),
            BarColumn(bar_width=None, table_column=Column(ratio=1, min_width=4)),
            TextColumn("{task.fields[figures]}", table_column=Column(overflow="ellipsis")),
            expand=True,
            console=Console(file=stream),
        )
        self._task: Any = None

    def __call__(self, progress: Progress) -> None:
        """Move the bar."""
        if self._task is None:
            self._bar.start()
            self._task = self._bar.add_task("fit", total=progress.steps, figures="")
        self._bar.update(self._task, completed=progress.step, figures=_figures(progress))

    def close(self) -> None:
        """Leave the last state on the screen."""
        if self._task is not None:
            self._bar.stop()


class JsonLines(Listener):
    """Every Progress as one JSON line, appended, so that a resumed run continues its log."""

    def __init__(self, path: str | Path) -> None:
        self._file = Path(path).open("a", encoding="utf-8")  # noqa: SIM115 (closed in close)

    def __call__(self, progress: Progress) -> None:
        """Append a line."""
        self._file.write(json.dumps(asdict(progress)) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class TensorBoard(Listener):
    """Curves for TensorBoard."""

    def __init__(self, folder: str | Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise MissingDependency(
                "TensorBoard logs need the package tensorboard",
                fix='pip install "mechtrace[tensorboard]"',
            ) from error
        self._writer = SummaryWriter(str(folder))

    def __call__(self, progress: Progress) -> None:
        """Add a point to each curve."""
        self._writer.add_scalar("loss", progress.loss, progress.step)
        self._writer.add_scalar("lr", progress.lr, progress.step)
        if progress.evaluated and progress.elbo is not None:
            self._writer.add_scalar("held_out_elbo", progress.elbo, progress.step)

    def close(self) -> None:
        """Flush and close."""
        self._writer.close()


def reporter(stream: TextIO | None = None) -> Listener:
    """The right listener for a stream (standard error unless said)."""
    stream = stream or sys.stderr
    return LiveBar(stream) if stream.isatty() else PlainLines(stream)


def watched(items: Sequence[Item], what: str, quiet: bool = False) -> Iterator[Item]:
    """The items one by one, with a bar and the remaining time if it is a person who waits."""
    if quiet or not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(items, what, console=Console(stderr=True), transient=True)


def remarks(wanted: bool) -> Callable[[str], None]:
    """How the stages after training speak: one indented line each, or not at all."""
    return (lambda text: remark(f"  {text}")) if wanted else lambda text: None


def remark(text: str, stream: TextIO | None = None) -> None:
    """One line for whoever watches, after the bar is gone."""
    out = stream or sys.stderr
    out.write(f"{text}\n")
    out.flush()


def _figures(progress: Progress) -> str:
    elbo = "" if progress.elbo is None else f"held-out ELBO {progress.elbo:.3f}  "
    return (
        f"loss {progress.loss:.3f}  {elbo}{progress.transitions_per_second:,.0f} transitions/s"
        f"  {duration(progress.seconds_left)} left"
    )


def duration(seconds: float) -> str:
    """A short time for people.

    >>> duration(75), duration(3.2)
    ('1:15', '3 s')
    """
    if not math.isfinite(seconds):
        return "?"
    if round(seconds) < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
