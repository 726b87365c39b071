"""The process and its machine: files written whole, threads, memory while training."""

from __future__ import annotations

import ctypes
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Lock, local
from typing import Any

from ..errors import DataError

_lock = Lock()
_inside = 0  # blocks of `one_blas_thread` that are being run
_limit: Any = None  # set by the first of them
_keeping = 0  # blocks of `keeping_freed_memory` that are being run
_most_threads: int | None = None  # of `keep_to_threads`
_own = local()  # whether this thread is in a block of `torch_threads`
_counts: list[int] = []  # of the outermost blocks of `torch_threads` that are being run
_usual = 1  # torch's number of threads before the first of them
#: Multiplications in a training step from which several threads are worth their cost, and how
#: many of them. Below, waiting for each other takes longer than the work: with two threads a
#: small model trains no faster on idle cores, and ten times slower on busy ones.
LARGE_STEP, MOST_THREADS = 1e10, 4
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # of mallopt, in malloc.h
_DEFAULTS = {_TRIM_THRESHOLD: 128 * 1024, _MMAP_MAX: 65536}


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path beside `path` that replaces it only if the block succeeds."""
    path = Path(path)
    if path.is_dir() or not path.parent.is_dir():
        what = "this is a folder" if path.is_dir() else "the folder does not exist"
        raise DataError(what, where=str(path), fix="choose a file in an existing folder")
    temporary = path.with_name(f".{secrets.token_hex(4)}.{path.name}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit numpy and scipy to one thread in this block: many small products run faster in one.

    The limit holds for the whole process, so blocks in several threads share one: the first to
    enter sets it, the last to leave restores the number of threads of before.
    """
    global _inside, _limit
    with _lock:
        if _inside == 0:
            _limit = _blas().limit(limits=1, user_api="blas")
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limit.restore_original_limits()


def keep_to_threads(count: int) -> None:
    """Limit torch and BLAS in this process, for good: parallel processes share the cores."""
    global _most_threads
    import torch

    _most_threads = count
    torch.set_num_threads(min(count, torch.get_num_threads()))
    _blas().limit(limits=count, user_api="blas")


def training_threads(multiplications: float) -> int:
    """Return the threads for training steps of this size.

    They depend on the work, the cores and `keep_to_threads`, not on torch's number of before:
    threads divide sums, so another number of them gives other weights.
    """
    if multiplications < LARGE_STEP:
        return 1
    own = getattr(os, "sched_getaffinity", None)
    cores = len(own(0)) if own else os.cpu_count() or 1
    return min(MOST_THREADS, cores, _most_threads or MOST_THREADS)


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let torch use so many threads in this block, and as many as before after it.

    Torch has a number for each Python thread; a new thread starts with the one set last. If that
    is the number of a block in another thread, the one from before all blocks is restored.
    """
    global _usual
    import torch

    inner = getattr(_own, "inside", False)
    with _lock:
        before = torch.get_num_threads()
        if not inner:
            if not _counts:
                _usual = before
            elif before in _counts:
                before = _usual
            _counts.append(count)
        torch.set_num_threads(count)
    _own.inside = True
    try:
        yield
    finally:
        _own.inside = inner
        with _lock:
            torch.set_num_threads(before)
            if not inner:
                _counts.remove(count)


@cache
def _blas() -> Any:
    # looked up once: searching the loaded libraries takes milliseconds
    import scipy.linalg  # noqa: F401  (its library must be loaded to be found)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def keeping_freed_memory() -> Iterator[None]:
    """Let glibc reuse freed memory in this block instead of returning it to the system.

    A training step frees and takes the same blocks of megabytes again and again; by default each
    is unmapped and mapped anew, and every page of it cleared, which takes a third of the time on
    a CPU. Elsewhere than on glibc nothing is done. The setting is the whole process's: the first
    of several blocks sets it, the last to leave restores it.
    """
    global _keeping
    libc = _glibc()
    if libc is None:
        yield
        return
    with _lock:
        if _keeping == 0:
            libc.mallopt(_MMAP_MAX, 0)
            libc.mallopt(_TRIM_THRESHOLD, 2**31 - 1)
        _keeping += 1
    try:
        yield
    finally:
        with _lock:
            _keeping -= 1
            if _keeping == 0:
                for option, value in _DEFAULTS.items():
                    libc.mallopt(option, value)
                libc.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
        return None
    try:
        libc = ctypes.CDLL("libc.so.6")
        _ = libc.mallopt, libc.malloc_trim
    except (OSError, AttributeError):
        return None
    return libc
