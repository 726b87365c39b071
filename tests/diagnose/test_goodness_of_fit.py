"""The level test: right size, power, places, groups."""

from __future__ import annotations

import numpy as np
import pytest
from diagnose_cases import dependent_surprise
from scipy.stats import t

from mechtrace.diagnose import goodness_of_fit
from mechtrace.diagnose.dependence import Dependence, PureSeries, share_above
from mechtrace.diagnose.goodness_of_fit import DRAWS, TO_LEVEL, Convexity, level_test, paper_test
from mechtrace.diagnose.verdict import MARGINAL, REJECTED


def test_size_holds_under_dependence():
    """500 valid recordings: 3-7 % false alarms at the 5 % level."""
    rng = np.random.default_rng(0)
    pure = dependent_surprise(rng, 400, 50)
    p = [
        level_test(row, pure, seed=i).p_value
        for i, row in enumerate(dependent_surprise(rng, 500, 50))
    ]
    assert 0.03 <= np.mean(np.array(p) <= 0.05) <= 0.07


@pytest.mark.parametrize("steps", [50, 400, 60_000])
def test_the_level_alone_can_refuse_a_recording_of_any_length(steps):
    """Also by the small share of the allowed false alarms that the level has."""
    rng = np.random.default_rng(0)
    pure, row = dependent_surprise(rng, 60, 50), dependent_surprise(rng, 1, steps)[0]
    calm = Dependence(1.0, 0.0, ())
    for loud in (100 * row, np.where(np.arange(steps) < 10, 1000 * row, row)):
        assert Convexity(level_test(loud, pure), calm).p_value < REJECTED / 10


@pytest.mark.parametrize("trials", [1, 3])
def test_resampling_in_blocks_of_steps_gives_the_same(trials, monkeypatch):
    rng = np.random.default_rng(0)
    pure, row = dependent_surprise(rng, 20, 60), dependent_surprise(rng, 1, 500)[0]
    row[200:210] *= 5
    group = np.arange(20) % 4
    found = []
    for values in (10**9, 3 * DRAWS, 77 * DRAWS):  # shorter than a window, and than a series
        monkeypatch.setattr(goodness_of_fit, "BLOCK_VALUES", values)
        found.append(level_test(row, pure, group, trials=trials))
    whole = found[0]
    assert whole.unusual.any()
    for other in found[1:]:
        assert other.p_window == whole.p_window
        assert other.p_overall == pytest.approx(whole.p_overall, rel=1e-9)
        assert other.excess == pytest.approx(whole.excess, rel=1e-12)
        assert (other.unusual == whole.unusual).all()


@pytest.mark.parametrize("known", [1, 3, 8, 20, 60])
def test_few_pure_series_raise_few_alarms(known):
    """Larger than all of a few is not yet odd; the levels are those at which convexity judges."""
    rng = np.random.default_rng(known)
    p = np.array([
        level_test(row, pure, seed=i).p_value
        for i in range(20)
        for pure in [dependent_surprise(rng, known, 50)]
        for row in dependent_surprise(rng, 10, 50)
    ])  # fmt: skip
    assert np.mean(p <= 0.05) <= 0.1
    assert np.mean(p <= TO_LEVEL * MARGINAL) <= 0.02


def test_p_values_beyond_the_draws_are_those_of_the_distribution():
    """Where the tail is exponential; and for Student's t, which is what groups are judged by."""
    rng = np.random.default_rng(0)
    for x in (2.0, 7.0, 10.0):
        p = np.mean([share_above(rng.exponential(size=1000), x) for _ in range(200)])
        assert 0.9 < p / np.exp(-x) < 2.0  # what is not known of the tail is allowed for
    series = PureSeries(np.full(3, 9), np.arange(3))
    normal = np.tile([-1.0, 0.0, 1.0], 334)  # three groups, a standard deviation of 1 apart
    spread = series.of_another_group(normal, rng)
    for x in (1.0, 5.0, 20.0):
        assert share_above(spread, x * np.sqrt(4 / 3)) == pytest.approx(t.sf(x, 2), rel=0.2)
    assert share_above(np.ones(1000), 5.0) == 1.0
    assert share_above(rng.normal(size=1000), 1e9) > 0


def test_a_local_excess_is_found_and_located():
    rng = np.random.default_rng(1)
    pure = dependent_surprise(rng, 300, 60)
    hits, located = 0, 0
    for row in dependent_surprise(rng, 50, 60):
        row[30:42] *= 2.5
        test = level_test(row, pure)
        hits += test.p_value < 0.05
        located += 22 <= test.peak <= 42
        assert test.excess > 1
    assert hits >= 45
    assert located >= 45


def test_pooled_recordings_are_compared_with_pooled_ones():
    rng = np.random.default_rng(2)
    pure = dependent_surprise(rng, 300, 40)
    p = [level_test(dependent_surprise(rng, 10, 40).mean(axis=0), pure, trials=10).p_value
         for _ in range(40)]  # fmt: skip
    assert np.mean(np.array(p) < 0.05) < 0.2


def test_missing_steps_and_short_recordings():
    rng = np.random.default_rng(3)
    pure = dependent_surprise(rng, 50, 30)
    row = dependent_surprise(rng, 1, 30)[0]
    row[[0, 1, 7]] = np.nan
    test = level_test(row, pure)
    assert 0 < test.p_value <= 1
    assert not test.unusual[[0, 1, 7]].any()
    assert 0 < level_test(row[2:4], pure).p_value <= 1


def of_groups(rng, groups, each, steps=40, apart=0.5):
    """Surprises of series whose groups differ by factors, and whose they are."""
    group = np.repeat(np.arange(groups), each)
    factor = np.exp(apart * rng.standard_normal(groups))[group]
    return dependent_surprise(rng, groups * each, steps) * factor[:, None], group


def alarms(rng, groups, *, told, factor=1.0, recordings=150, each=6):
    """Share of recordings of other groups that the level calls odd at 5 %."""
    p = []
    for _ in range(recordings):
        pure, group = of_groups(rng, groups, each)
        (row,), _ = of_groups(rng, 1, each=1)
        p.append(level_test(factor * row, pure, group if told else None).p_value)
    return np.mean(np.array(p) <= 0.05)


@pytest.mark.parametrize("groups", [2, 3, 6])
def test_another_group_is_not_odd_by_itself(groups):
    """Size holds where groups differ, even if few are known."""
    assert alarms(np.random.default_rng(groups), groups, told=True) <= 0.09


def test_who_is_not_told_of_groups_raises_alarms():
    """From many series, which leave no doubt of their own about what is normal."""
    assert alarms(np.random.default_rng(2), 2, told=False, each=30) >= 0.2
    assert alarms(np.random.default_rng(2), 2, told=True, each=30) <= 0.09


def test_what_no_group_does_is_odd_all_the_same():
    rng = np.random.default_rng(0)
    assert alarms(rng, 6, told=True, factor=10.0) >= 0.8


def test_groups_of_one_kind_cost_next_to_nothing():
    """Groups that do not differ leave the level where it was."""
    rng = np.random.default_rng(1)
    pure, group = of_groups(rng, 8, each=10, apart=0.0)
    row = 2.0 * dependent_surprise(rng, 1, 40)[0]
    assert level_test(row, pure, group).p_value < 0.05


def test_more_groups_than_made_up_recordings():
    """Not every group has its turn then, and that is no reason for an alarm."""
    rng = np.random.default_rng(3)
    pure, group = of_groups(rng, DRAWS + 200, each=1, apart=0.0)
    found = [level_test(row, pure, group) for row in dependent_surprise(rng, 60, 40)]
    assert np.mean([test.p_value <= 0.05 for test in found]) <= 0.15
    assert found[0].groups == DRAWS + 200


def test_made_up_recordings_are_of_one_group():
    lengths, group = np.array([9, 8, 0, 7, 9]), np.array([4, 4, 4, 6, 6])
    series = PureSeries(lengths, group)
    assert series.groups == 2
    wanted = np.arange(50)
    for place, which, start in series.stretches(20, wanted, np.random.default_rng(0)):
        assert np.array_equal(group[which], np.where(wanted % 2, 6, 4))
        assert start.shape == (50,)
        assert (start + place.stop - place.start <= lengths[which]).all()
    assert PureSeries(lengths, np.empty(0)).groups == 0


def test_the_papers_test_is_there_for_comparison():
    rng = np.random.default_rng(4)
    same = paper_test(rng.random(200), rng.random((10, 50)))
    other = paper_test(rng.random(200) + 0.5, rng.random((10, 50)))
    assert same > 0.01 > other
