"""Run jobs in fresh processes; a crash affects one job, and stored rows are reused."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from mechtrace._runtime import EndWithParent, as_worker, keep_to_threads
from mechtrace.errors import DataError, MechtraceError
from mechtrace.stage1 import Progress

from .job import FAILED, Job, Row
from .progress_display import ProgressDisplay

#: How a process is started: nothing of this one is in it, and it can use a GPU.
START = "spawn"
#: Seconds between two words from a process that learns, and that a stopped one has to end.
PATIENCE, GRACE = 0.5, 5.0


def collect(
    jobs: Sequence[Job],
    folder: Path,
    rows: list[Row],
    *,
    workers: int,
    fresh: bool,
    live: bool,
) -> None:
    """Put the row of each job into `rows` as it is ready; after Ctrl-C it has what is finished."""
    watch = ProgressDisplay(workers=workers, live=live)
    found = run_jobs(jobs, folder, workers=workers, fresh=fresh, watch=watch)
    try:
        for row in found:
            rows.append(row)
    finally:
        found.close()
        watch.close()


def new_folder(folder: Path, out: Path) -> None:
    """Create the folder of results."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise DataError("this is a file", where=str(out), fix="name a folder") from error


@dataclass(eq=False)
class _Running:
    job: Job
    process: BaseProcess
    pipe: Connection
    log: Path
    row: Row | None = None

    def listen(self, watch: ProgressDisplay) -> None:
        """Take what has arrived."""
        try:
            while self.pipe.poll():
                kind, what = self.pipe.recv()
                if kind == "row":
                    self.row = what
                else:
                    watch.training(self.job, what)
        except (EOFError, OSError):
            self.process.join(GRACE)

    def ended(self) -> Row:
        """Its row, also if it never sent one."""
        self.process.join()
        self.pipe.close()
        if self.row is None:
            self.row = self.job.row(FAILED, reason=_reason(self.process.exitcode, self.log))
        if self.row["status"] != FAILED:
            self.log.unlink(missing_ok=True)
        return self.row


def run_jobs(
    jobs: Sequence[Job], folder: Path, *, workers: int, fresh: bool, watch: ProgressDisplay
) -> Generator[Row]:
    """Yield and store the row of each job as it is ready, stored rows first."""
    todo = []
    for job in jobs:
        row = None if fresh else job.stored_row(folder)
        if row is None:
            todo.append(job)
        else:
            yield row
    watch.begin(len(jobs), todo)
    threads = max(1, (os.cpu_count() or 1) // workers)
    running: list[_Running] = []
    try:
        while todo or running:
            while todo and len(running) < workers:
                running.append(_start(todo.pop(0), folder, threads))
                watch.started(running[-1].job)
            wait([x for one in running for x in (one.pipe, one.process.sentinel)], timeout=1.0)
            for one in list(running):
                alive = one.process.is_alive()
                one.listen(watch)
                if alive and one.process.is_alive():
                    continue
                one.listen(watch)
                running.remove(one)
                row = one.ended()
                one.job.store(folder, row)
                watch.finished(one.job, row)
                yield row
    finally:
        for one in running:
            _stop(one)


def _start(job: Job, folder: Path, threads: int) -> _Running:
    context: Any = get_context(START)
    ours, theirs = context.Pipe(duplex=False)
    log = folder / f"{job.stem}.log"
    arguments = (EndWithParent(), _work, job, folder, theirs, log, threads)
    process = context.Process(target=as_worker, args=arguments)
    with _deaf():
        process.start()
    theirs.close()
    return _Running(job, process, ours, log)


@contextmanager
def _deaf() -> Iterator[None]:
    """Make processes that are started inside ignore Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _stop(one: _Running) -> None:
    one.process.terminate()
    one.process.join(GRACE)
    if one.process.is_alive():
        one.process.kill()
        one.process.join()
    one.pipe.close()
    one.log.unlink(missing_ok=True)


def _work(job: Job, folder: Path, pipe: Connection, log: Path, threads: int) -> None:
    """What a fresh process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _write_to(log)
    keep_to_threads(threads)
    last = 0.0

    def tell(progress: Progress) -> None:
        nonlocal last
        if time.monotonic() - last > PATIENCE:
            last = time.monotonic()
            pipe.send(("progress", progress))

    try:
        row = job.run(folder, [tell])
    except Exception as error:  # whatever it is: the others go on
        traceback.print_exc()
        row = job.row(FAILED, reason=_sentence(error))
    pipe.send(("row", row))
    pipe.close()


def _write_to(log: Path) -> None:
    """Redirect the output of this process to a file."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    os.dup2(target, 1)
    os.dup2(target, 2)
    os.close(target)
    # a test or a notebook may have put something else there
    sys.stdout, sys.stderr = sys.__stdout__ or sys.stdout, sys.__stderr__ or sys.stderr


def _sentence(error: Exception) -> str:
    if isinstance(error, MechtraceError):
        return str(error)
    first = (str(error).strip().splitlines() or ["no message"])[0]
    return f"{type(error).__name__}: {first}"


def _reason(code: Any, log: Path) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
        hint = ", as happens when memory runs out" if name == "SIGKILL" else ""
        return f"the process was ended by {name}{hint}; see {log.name}"
    return f"the process ended with code {code} before it answered; see {log.name}"
