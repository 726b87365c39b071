"""Which steps in time continue a recording."""

from __future__ import annotations

import numpy as np
import pytest

from mechtrace.data.panel import Panel
from mechtrace.data.steps import longest_step
from mechtrace.io.parts import Preparation

SHARES = (0.05, 0.1, 0.3)


@pytest.mark.parametrize("share", SHARES)
def test_a_clock_that_is_late_now_and_then_breaks_nothing(share):
    rng = np.random.default_rng(0)
    steps = np.where(rng.random(2000) < share, 2.0, 1.0)
    assert longest_step(steps) == 2.5
    assert longest_step(0.1 * steps) == pytest.approx(0.25)
    night = np.append(steps, [3600.0, 7.0])
    assert longest_step(night) == 2.5


def test_single_rows_that_are_missing_stay_gaps():
    steps = np.ones(2000)
    steps[::400] = 2.0
    assert longest_step(steps) == 1.5
    assert longest_step(np.array([1.0, 1.0, 2.0, 1.0])) == 1.5  # too few to be regular
    assert longest_step(np.ones(0)) == np.inf


def test_longer_steps_count_only_if_shorter_ones_do():
    steps = np.concatenate([np.ones(900), np.full(60, 2.0), np.full(20, 3.0), np.full(20, 5.0)])
    assert longest_step(steps) == 3.5


def test_the_limit_of_the_fit_is_prepared_for_new_recordings():
    time = np.cumsum(np.where(np.arange(200) % 12 == 0, 2.0, 1.0))
    panel = Panel.from_arrays(np.zeros((1, 200, 1)), time=time)
    how = Preparation.of(panel)
    assert how.gap == 2.5
    new = Panel.from_arrays(np.zeros((1, 4, 1)), time=[[0.0, 2.0, 3.0, 7.0]])
    assert how.apply(new).breaks().tolist() == [True, False, False, True]
    even = Panel.from_arrays(np.zeros((1, 4, 1)), time=[[0.0, 1.0, 2.0, 3.0]])
    assert Preparation.of(even).gap is None
