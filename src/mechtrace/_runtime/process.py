"""The process and its machine: files written whole, threads, memory while training."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import re
import secrets
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path
from threading import Lock, Thread, local
from typing import Any

from ..errors import DataError

#: How the names of temporary files begin; the process, the machine and a token follow.
TEMPORARY = ".mechtrace-tmp."
_OWNER = re.compile(r"([0-9]+)-[0-9a-f]{6}-[0-9a-f]{8}")

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


def output_file(path: str | os.PathLike[str]) -> Path:
    """Return the file that writing to `path` replaces: symbolic links are followed.

    Raises
    ------
    DataError
        If nothing can be written there, or only into a pipe or a device.
    """
    path = Path(path)
    fix = "choose a file in an existing folder"
    folder = os.path.realpath(path.parent)
    if path.is_dir():
        what = "this is a folder"
    elif not path.parent.is_dir():
        what = "the folder does not exist"
    elif path.is_symlink() and not path.exists():
        what, fix = "this symbolic link leads to no file", "remove it, or choose another file"
    elif (path.exists() and not path.is_file()) or folder == "/dev" or folder.startswith("/proc/"):
        what, fix = "this is a pipe or a device", "choose an ordinary file"
    else:
        target = Path(os.path.realpath(path))
        if os.access(target.parent, os.W_OK):
            return target
        what = "the folder cannot be written to"
    raise DataError(what, where=str(path), fix=fix)


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path beside `path` that replaces it only if the block succeeds.

    An existing file keeps its mode and owner, and a symbolic link stays one. What writers that
    were killed left behind is removed.
    """
    target = output_file(path)
    _remove_stale(target)
    owner = f"{os.getpid()}-{_machine()}-{secrets.token_hex(4)}"
    # the end of the name is its own: writers tell the format by it
    temporary = target.with_name(f"{TEMPORARY}{owner}.{_shortened(target.name)}")
    try:
        before = target.stat()
    except FileNotFoundError:
        before = None
    try:
        if before is not None:  # what is secret is so from the first byte on
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            created = temporary.stat()
        yield temporary
        if before is not None:
            if temporary.stat() == created:
                raise FileNotFoundError(errno.ENOENT, "nothing was written", str(temporary))
            with suppress(PermissionError, AttributeError):  # only root gives files away
                os.chown(temporary, before.st_uid, before.st_gid)
            os.chmod(temporary, stat.S_IMODE(before.st_mode))
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _shortened(name: str) -> str:
    """Cut the beginning of a name that has no room for more."""
    return os.fsdecode(os.fsencode(name)[-200:])


def _remove_stale(target: Path) -> None:
    """Remove temporary files of `target` whose process, on this machine, is dead."""
    kept, ours = _shortened(target.name), f"-{_machine()}-"
    try:
        entries = os.listdir(target.parent)
    except OSError:  # a folder that can be written but not listed
        return
    for entry in entries:
        if not (entry.startswith(TEMPORARY) and entry.endswith(f".{kept}") and ours in entry):
            continue
        owner = entry.removeprefix(TEMPORARY).removesuffix(f".{kept}")
        found = _OWNER.fullmatch(owner)
        if found is not None and not _alive(int(found[1])):
            with suppress(OSError):  # another process may be as quick, or own it
                (target.parent / entry).unlink()


def _alive(process: int) -> bool:
    if os.name != "posix":  # there is no harmless signal
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # it belongs to someone else
        return True
    return True


@cache
def _machine() -> str:
    """Return a short mark of where process numbers are valid: the host and its container."""
    where = platform.node()
    with suppress(OSError):
        where += os.readlink("/proc/self/ns/pid")
    return blake2b(where.encode("utf-8", "replace"), digest_size=3).hexdigest()


def end_with_parent(parent: int) -> None:
    """In a worker process: end it as soon as the process that asked for it is gone.

    A killed process cannot stop its workers, so each watches it from a thread. An orphan gets
    another parent, even while the number of its first one is still taken; the parent of a worker
    of a fork server is the server.
    """
    direct = os.getppid() == parent

    def watch() -> None:
        while os.getppid() == parent if direct else _alive(parent):
            time.sleep(0.5)
        os._exit(1)

    Thread(target=watch, name="end-with-parent", daemon=True).start()


class EndWithParent:
    """An argument for a worker process that calls `end_with_parent` when it is unpickled.

    As the first argument it watches before the others are unpickled, which imports modules.
    """

    def __init__(self, parent: int | None = None) -> None:
        if parent is not None:
            end_with_parent(parent)

    def __reduce__(self) -> tuple[Any, ...]:
        return EndWithParent, (os.getpid(),)


def as_worker(_: EndWithParent, function: Callable[..., None], *arguments: Any) -> None:
    """Call a function in a worker process that ends with its parent."""
    function(*arguments)


def start_worker(_: EndWithParent, threads: int) -> None:
    """Prepare a worker of a pool: it ends with its parent and keeps to its threads."""
    keep_to_threads(threads)


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
