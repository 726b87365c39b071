"""The process and its machine: files written whole, threads of BLAS, memory while training."""

from __future__ import annotations

import ctypes
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from ..errors import DataError

_lock = Lock()
_inside = 0  # blocks of `one_blas_thread` that are being run
_limit: Any = None  # set by the first of them
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
    import torch

    torch.set_num_threads(min(count, torch.get_num_threads()))
    _blas().limit(limits=count, user_api="blas")


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
    a CPU. Elsewhere than on glibc nothing is done.
    """
    libc = _glibc()
    if libc is None:
        yield
        return
    libc.mallopt(_MMAP_MAX, 0)
    libc.mallopt(_TRIM_THRESHOLD, 2**31 - 1)
    try:
        yield
    finally:
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
