"""One thread for the many small products of stage 2: waking others costs more than they help."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Inside the block the linear algebra of numpy and scipy runs in the calling thread."""
    with _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> Any:
    # looked up once: searching the loaded libraries takes milliseconds
    import scipy.linalg  # noqa: F401  (its library must be loaded to be found)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
