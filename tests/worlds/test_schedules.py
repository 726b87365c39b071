"""Schedules: on the simplex, and of the shape that their names say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechtrace.worlds import (
    SCHEDULES,
    make_schedule,
)

few = settings(max_examples=40, deadline=None)


@few
@given(
    name=st.sampled_from(sorted(SCHEDULES)),
    length=st.integers(1, 120),
    regimes=st.integers(1, 8),
)
def test_schedules_stay_on_the_simplex(name: str, length: int, regimes: int) -> None:
    if name == "complex" and regimes == 1:
        return  # see the test below
    weights = make_schedule(name, length, regimes)
    assert weights.shape == (length, regimes)
    assert (weights >= 0).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-12)


def test_complex_schedule_of_one_regime() -> None:
    np.testing.assert_allclose(make_schedule("complex", 4, 3, active=[1])[:, 1], 1)


@pytest.mark.parametrize("regimes", [2, 3, 5, 8])
def test_simple_visits_each_regime_in_turn(regimes: int) -> None:
    weights = SCHEDULES["simple"](10 * (regimes - 1) + 1, regimes)
    np.testing.assert_allclose(weights.max(axis=0), 1)
    assert weights.argmax(axis=0).tolist() == [10 * k for k in range(regimes)]
    assert ((weights > 0).sum(axis=1) <= 2).all()
    for length in (7, 50, 101):
        assert ((SCHEDULES["simple"](length, regimes) > 0).sum(axis=1) <= 2).all()


@pytest.mark.parametrize("regimes", [2, 3, 5, 8])
def test_medium_overlaps_with_moderate_peaks(regimes: int) -> None:
    weights = SCHEDULES["medium"](20 * (regimes - 1) + 1, regimes)
    peaks = weights.max(axis=0)
    assert (peaks > 0.6).all()
    assert (peaks < 0.85).all()
    assert weights.argmax(axis=0).tolist() == [20 * k for k in range(regimes)]
    if regimes > 2:
        assert set((weights > 0.05).sum(axis=1)) <= {2, 3}


@pytest.mark.parametrize("regimes", [2, 3, 5, 8])
def test_complex_follows_the_formula(regimes: int) -> None:
    length = 60
    raw = np.empty((length, regimes))
    for t in range(length):
        for k in range(regimes):
            angle = (1 + 0.5 * k) * 2 * np.pi * t / length + k * np.pi / regimes
            raw[t, k] = (1 + np.cos(angle)) / 2
    weights = SCHEDULES["complex"](length, regimes)
    np.testing.assert_allclose(weights, raw / raw.sum(axis=1, keepdims=True), atol=1e-12)


@pytest.mark.parametrize("regimes", [4, 5, 6, 8])
def test_complex_lets_no_regime_rule(regimes: int) -> None:
    for length in (20, 50, 333):
        weights = SCHEDULES["complex"](length, regimes)
        assert weights.max() < 0.75
        assert ((weights > 0.02).sum(axis=1) >= 3).mean() > 0.5


def test_the_plain_schedules() -> None:
    step = SCHEDULES["step"](12, 4)
    assert step.argmax(axis=1).tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    for length in (1, 5, 50):
        weights = SCHEDULES["step"](length, 4)
        assert set(np.unique(weights)) == {0.0, 1.0}
        assert (np.diff(weights.argmax(axis=1)) >= 0).all()
    assert (SCHEDULES["constant"](6, 4) == 0.25).all()
    linear = SCHEDULES["linear"](11, 3)
    np.testing.assert_allclose(linear[:, 2], np.arange(11) / 10)
    assert (linear[:, 1] == 0).all()
    wave = SCHEDULES["sinusoidal"](41, 3)
    np.testing.assert_allclose(wave, wave[::-1], atol=1e-12)
    assert wave[[0, 20], [0, 2]].tolist() == [1.0, 1.0]
    assert wave[10, 2] == pytest.approx(0.5)
