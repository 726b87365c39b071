"""Bounds of a fuzz case: ten seconds, one gigabyte; and how many cases a run takes."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager

#: Seconds after which a case hangs.
PATIENCE = 10
#: Bytes that a case may take on top of what the process has held before.
ROOM = 1 << 30
#: Addresses that it may reserve: allocators reserve more than they use.
RESERVED = 6 << 30


def cases(of_long_run: int, at_least: int = 1) -> range:
    """Seeds of the cases: a hundredth of the long run, all of them with MECHTRACE_FUZZ=100."""
    share = float(os.environ.get("MECHTRACE_FUZZ", "1")) / 100
    return range(max(at_least, round(share * of_long_run)))


def most_held() -> int:
    """Return the most bytes that this process ever held."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@contextmanager
def guarded() -> Iterator[None]:
    """Fail if the block hangs, or takes much memory."""

    def hangs(number: int, frame: object) -> None:
        raise TimeoutError(f"no answer within {PATIENCE} s")

    before = signal.signal(signal.SIGALRM, hangs)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", encoding="ascii") as statm:
        now = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + RESERVED, hard))
    held = most_held()
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGALRM, before)
    assert most_held() - held < ROOM
