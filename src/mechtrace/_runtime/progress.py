"""Progress of a training run: a live bar on a terminal, plain lines in a pipe, log files."""

from __future__ import annotations

import json
import logging
import math
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from ..errors import MissingDependency
from .process import output_file
from .terminal import deliver, is_terminal, say

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

    from ..stage1.trainer import Progress

Item = TypeVar("Item")

#: Seconds between two lines about the progress, where there is no terminal.
LINE_SECONDS = 5.0

_library = logging.getLogger("mechtrace")
_lock = threading.Lock()
_handlers: list[logging.Handler] = []
_level = logging.NOTSET  # the user's, while there are handlers of ours


class Listener:
    """A context manager that is called with every Progress."""

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __call__(self, progress: Progress) -> None:
        """Take note of the progress."""

    def close(self) -> None:
        """Release files and the terminal."""


class PlainLines(Listener):
    """One line per evaluation, at most one every few seconds, for pipes and log files."""

    def __init__(self, stream: TextIO, seconds: float = LINE_SECONDS) -> None:
        self.stream, self.seconds, self._last = stream, seconds, -1e9
        self._unsaid: Progress | None = None

    def __call__(self, progress: Progress) -> None:
        """Write a line if it is time for one."""
        self._unsaid = progress
        if progress.step == progress.steps or time.monotonic() - self._last >= self.seconds:
            self.close()

    def close(self) -> None:
        """Write the newest figures, unless they are written; also after an early stop."""
        if self._unsaid is None:
            return
        progress, self._unsaid, self._last = self._unsaid, None, time.monotonic()
        with suppress(OSError):  # training goes on when nobody reads
            deliver(self.stream, f"step {progress.step}/{progress.steps}  {_figures(progress)}\n")


class LiveBar(Listener):
    """A bar with loss, held-out ELBO, throughput and remaining time, for terminals."""

    def __init__(self, stream: TextIO) -> None:
        self._bar = bars(stream, transient=False)
        self._task: Any = None

    def __call__(self, progress: Progress) -> None:
        """Move the bar."""
        with suppress(OSError):  # training goes on when the terminal is gone
            if self._task is None:
                self._bar.start()
                self._task = self._bar.add_task("fit", total=progress.steps, figures="")
            self._bar.update(self._task, completed=progress.step, figures=_figures(progress))

    def close(self) -> None:
        """Leave the last state on the screen."""
        if self._task is not None:
            with suppress(OSError):
                self._bar.stop()


class JsonLines(Listener):
    """Every Progress as one JSON line, appended, so that a resumed run continues its log."""

    def __init__(self, path: str | Path) -> None:
        self._file = output_file(path).open("a", encoding="utf-8")

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
    """Return a live bar for a terminal, plain lines for any other stream."""
    stream = stream or sys.stderr
    if stream is None:  # as after 2>&-
        return Listener()
    return LiveBar(stream) if is_terminal(stream) else PlainLines(stream)


@contextmanager
def listeners(
    shown: bool, log: str | Path | None = None, tensorboard: str | Path | None = None
) -> Iterator[list[Listener]]:
    """Open the listeners of a training run: terminal, JSON lines, TensorBoard."""
    with ExitStack() as stack:
        found: list[Listener] = [reporter()] if shown else []
        found += [] if log is None else [JsonLines(log)]
        found += [] if tensorboard is None else [TensorBoard(tensorboard)]
        yield [stack.enter_context(each) for each in found]


def watched(
    items: Sequence[Item], what: str, quiet: bool = False, sizes: Sequence[int] | None = None
) -> Iterator[Item]:
    """Iterate over items, with a bar on a terminal, else with a line every few seconds.

    `sizes` says how many things each item stands for; by default one.
    """
    if quiet or sys.stderr is None:
        yield from items
        return
    counts = [1] * len(items) if sizes is None else list(sizes)
    if not is_terminal(sys.stderr):
        yield from _with_lines(items, what, counts)
        return
    with bars(sys.stderr) as shown:
        task = shown.add_task(what, total=sum(counts), figures="")
        for item, count in zip(items, counts, strict=True):
            yield item
            shown.advance(task, count)
            left = shown.tasks[0].time_remaining
            shown.update(task, figures="" if left is None else f"{duration(left)} left")


def _with_lines(items: Sequence[Item], what: str, counts: Sequence[int]) -> Iterator[Item]:
    began = said = time.monotonic()
    done = 0
    for item, count in zip(items, counts, strict=True):
        yield item
        done += count
        now = time.monotonic()
        if now - said >= LINE_SECONDS and done < sum(counts):
            left = (sum(counts) - done) * (now - began) / done
            remark(f"{what} {done:,}/{sum(counts):,}  {duration(left)} left")
            said = now


def bars(stream: TextIO, *, transient: bool = True, elapsed: bool = False) -> RichProgress:
    """Return a rich Progress: description, count, bar and the field `figures` of a task."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.table import Column

    return Progress(
        TextColumn("{task.description}", table_column=Column(no_wrap=True)),
        MofNCompleteColumn(table_column=Column(no_wrap=True, min_width=9)),
        BarColumn(bar_width=None, table_column=Column(ratio=1, min_width=4)),
        *([TimeElapsedColumn()] if elapsed else []),
        TextColumn("{task.fields[figures]}", table_column=Column(overflow="ellipsis")),
        expand=True,
        console=Console(file=stream),
        transient=transient,
        # what is printed meanwhile goes above the bars, unless it goes to a file
        redirect_stdout=is_terminal(sys.stdout),
    )


@contextmanager
def handling(handler: logging.Handler) -> Iterator[None]:
    """Attach a handler to the library's logger for this block, at the handler's level.

    Blocks may overlap, also in several threads: the last one restores the level of the logger.
    """
    global _level
    with _lock:
        if not _handlers:
            _level = _library.level
        _handlers.append(handler)
        _library.addHandler(handler)
        _library.setLevel(min(_library.getEffectiveLevel(), handler.level))
    try:
        yield
    finally:
        with _lock:
            _handlers.remove(handler)
            _library.removeHandler(handler)
            if not _handlers:
                _library.setLevel(_level)


class _Stages(logging.Handler):
    """Write what this thread logs at DEBUG as indented lines to standard error."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line."""
        if record.levelno == logging.DEBUG and record.thread == self.thread:
            remark(f"  {self.format(record)}")


@contextmanager
def stages(shown: bool) -> Iterator[None]:
    """Show the DEBUG messages of this block on standard error, if `shown`."""
    if not shown:
        yield
        return
    with handling(_Stages()):
        yield


def remark(text: str) -> None:
    """Write one line to standard error."""
    say(text, err=True)


def _figures(progress: Progress) -> str:
    elbo = "" if progress.elbo is None else f"held-out ELBO {progress.elbo:.3f}  "
    return (
        f"loss {progress.loss:.3f}  {elbo}{progress.transitions_per_second:,.0f} transitions/s"
        f"  {duration(progress.seconds_left)} left"
    )


def duration(seconds: float) -> str:
    """Format seconds for people.

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
