"""Independent calls in a pool of processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import active_children, get_context
from typing import Any, TypeVar

from mechtrace._runtime import EndWithParent, start_worker

from .runner import START

T = TypeVar("T")


def parallel_map(
    function: Callable[..., T], calls: Sequence[tuple[Any, ...]], workers: int
) -> Iterator[T]:
    """Yield `function(*call)` of every call in order; one worker means this process.

    Who does not wait for all of them (an error, Ctrl-C) does not wait for those at work either.

    >>> list(parallel_map(divmod, [(7, 2), (9, 4)], workers=1))
    [(3, 1), (2, 1)]
    """
    if workers == 1:
        for call in calls:
            yield function(*call)
        return
    threads = max(1, (os.cpu_count() or 1) // workers)
    others = set(active_children())
    pool = ProcessPoolExecutor(
        workers,
        mp_context=get_context(START),
        initializer=start_worker,
        initargs=(EndWithParent(), threads),
    )
    try:
        for future in [pool.submit(function, *call) for call in calls]:
            yield future.result()
    except BaseException:
        for worker in set(active_children()) - others:
            worker.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
