"""Calls in several processes: their order, and what becomes of them when one fails."""

from __future__ import annotations

import time
from multiprocessing import active_children

import pytest

from mechtrace_lab.jobs.parallel_map import parallel_map


def after(seconds):
    if seconds < 0:
        raise ValueError("no such time")
    time.sleep(seconds)
    return seconds


@pytest.mark.parametrize("workers", [1, 2])
def test_answers_come_in_the_order_of_the_calls(workers):
    assert list(parallel_map(after, [(0.2,), (0.0,), (0.1,)], workers)) == [0.2, 0.0, 0.1]


def test_nobody_works_on_after_an_error():
    begun = time.monotonic()
    with pytest.raises(ValueError, match="no such time"):
        list(parallel_map(after, [(-1,), (600,), (600,)], workers=2))
    assert time.monotonic() - begun < 300  # and not 600 or more
    assert not active_children()


def test_nobody_works_on_if_nobody_listens():
    found = parallel_map(after, [(0,), (600,), (600,)], workers=2)
    assert next(found) == 0
    found.close()
    assert not active_children()
