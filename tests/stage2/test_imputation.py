"""Missing channels, filled in by the Gaussian of two rows."""

from __future__ import annotations

import numpy as np
import pytest

from mechtrace.stage2.channel_statistics import ChannelStatistics
from mechtrace.stage2.imputation import Imputation

A = np.array([[0.7, 0.5, 0.0], [-0.4, 0.7, 0.2], [0.1, 0.0, 0.8]])
STEPS = 400


def simulated(series, seed):
    rng = np.random.default_rng(seed)
    x = np.zeros((series, STEPS, 3))
    for t in range(1, STEPS):
        x[:, t] = x[:, t - 1] @ A.T + 0.3 * rng.standard_normal((series, 3))
    return 10 + 2 * x


@pytest.fixture(scope="module")
def known():
    rows, series = simulated(40, 0).reshape(-1, 3), np.repeat(np.arange(40), STEPS)
    regime = np.arange(40) % 2
    return ChannelStatistics.measure(
        rows, series, rows.mean(axis=0), rows.std(axis=0), regime=regime
    )


@pytest.fixture(scope="module")
def new():
    return simulated(6, 1)


@pytest.mark.parametrize("regime", [None, 1])
def test_the_posterior_is_as_far_off_as_it_says(known, new, regime):
    filled = Imputation.of(known, [1], regime=regime)
    errors = np.stack([filled.fill(one)[:, 1] - one[:, 1] for one in new])
    drawn = filled.draws(new[0], 50)[..., 0]
    assert errors.std() == pytest.approx(drawn.std(), rel=0.1)
    assert filled.determined[0] == pytest.approx(1 - errors.var() / new[..., 1].var(), abs=0.05)
    one_on = [float(np.corrcoef(e[1:], e[:-1])[0, 1]) for e in (*errors, *drawn)]
    assert np.mean(one_on[:6]) == pytest.approx(np.mean(one_on[6:]), abs=0.1)


def test_only_the_past_and_the_present_count(known, new):
    filled = Imputation.of(known, [1])
    found, later = filled.fill(new[0]), new[0].copy()
    later[200:] += 5
    assert np.array_equal(filled.fill(later)[:200], found[:200])
    assert np.array_equal(found[:, [0, 2]], new[0][:, [0, 2]])


def test_what_the_missing_channel_holds_does_not_matter(known, new):
    filled, broken = Imputation.of(known, [1]), new[0].copy()
    broken[:, 1] = np.nan
    assert np.array_equal(filled.fill(broken), filled.fill(new[0]))


def test_it_starts_anew_after_a_gap(known, new):
    filled, gap = Imputation.of(known, [1]), new[0].copy()
    gap[100] = np.nan
    found = filled.fill(gap)
    assert np.isnan(found[100]).all()
    assert np.allclose(found[101:], filled.fill(new[0][101:]))
    assert np.isfinite(filled.draws(gap, 3)).all()


def test_two_missing_channels(known, new):
    filled = Imputation.of(known, [0, 1])
    found = filled.fill(new[0])
    assert np.isfinite(found).all()
    assert filled.draws(new[0], 4).shape == (4, STEPS, 2)
    both, one = filled.determined, Imputation.of(known, [1]).determined
    assert both[1] < one[0]
