"""Threads of linear algebra: for many small products, waking others costs more than it helps."""

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


def keep_to_threads(count: int) -> None:
    """From now on no library of this process uses more: processes beside it share the cores."""
    import torch

    torch.set_num_threads(min(count, torch.get_num_threads()))
    _controller().limit(limits=count, user_api="blas")


@cache
def _controller() -> Any:
    # looked up once: searching the loaded libraries takes milliseconds
    import scipy.linalg  # noqa: F401  (its library must be loaded to be found)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
