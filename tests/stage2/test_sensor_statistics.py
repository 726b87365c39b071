"""What sensors do in each regime: found where it is, and nothing where there is nothing."""

from __future__ import annotations

import numpy as np
import pytest

import mechtrace as mt
from mechtrace.data.segments import training_runs
from mechtrace.stage2.sensor_statistics import DATES, KINDS, NUMBERS, ROWS, SensorStatistics

LEVEL = 0.05


def measured(panel, seed=0):
    return SensorStatistics.of_runs(panel, training_runs(panel, 1), seed)


def red_noise(rng, rows, sensors=3, memory=0.8):
    out = rng.standard_normal((rows + 50, sensors))
    for t in range(1, len(out)):
        out[t] += memory * out[t - 1]
    return out[50:]


def swinging(rng, rows, period):
    out = rng.standard_normal((rows + 50, 1))
    for t in range(2, len(out)):
        out[t] += 2 * 0.97 * np.cos(2 * np.pi / period) * out[t - 1] - 0.97**2 * out[t - 2]
    return out[50:]


def lagging(rng, rows, tau, gain=1.0):
    """A driver, and a sensor that follows it like a first-order lag."""
    driver = red_noise(rng, rows, 1, 0.95)
    follower = np.zeros_like(driver)
    for t in range(1, rows):
        aim = gain * driver[t - 1] + 0.3 * rng.standard_normal(1)
        follower[t] = follower[t - 1] + (aim - follower[t - 1]) / tau
    return np.concatenate([driver, follower], axis=1)


def two_regimes(make, first, second, recordings=12, rows=300, seed=0, **more):
    rng = np.random.default_rng(seed)
    values = [make(rng, rows, what) for what in (first, second) for _ in range(recordings)]
    names = ["a"] * recordings + ["b"] * recordings
    return mt.Panel.from_arrays(values, regime=names, **more)


def different(found):
    return min(found.p_value.min(), found.delay_p_value.min(initial=1.0)) <= LEVEL


def test_levels_and_spread_are_those_of_the_recordings():
    rng = np.random.default_rng(0)
    values = [rng.normal([5.0, 100.0 + 8 * k], [0.5, 1 + k], (200, 2)) for k in [0, 1] * 10]
    found = measured(mt.Panel.from_arrays(values, regime=["a", "b"] * 10))
    assert found.recordings.tolist() == [10, 10]
    np.testing.assert_allclose(found.level[1], [[5, 100], [5, 108]], rtol=0.01)
    np.testing.assert_allclose(found.level[[0, 2], 0, 0], [5 - 0.82, 5 + 0.82], atol=0.05)
    np.testing.assert_allclose(found.spread, [[0.5, 1], [0.5, 2]], rtol=0.06)
    level, spread = KINDS.index("level"), KINDS.index("spread")
    assert found.p_value[level, 1, 0, 1] <= LEVEL < found.p_value[level, 0, 0, 1]
    assert found.p_value[spread, 1, 0, 1] <= LEVEL < found.p_value[spread, 0, 0, 1]
    assert found.effect[level, 1, 0, 1] < 0 < found.effect[level, 1, 1, 0]


def test_a_rhythm_is_found_with_its_period_and_differences_of_it():
    found = measured(two_regimes(swinging, 12.0, 18.0))
    np.testing.assert_allclose(1 / found.frequency[:, 0], [12, 18], rtol=0.05)
    assert found.p_value[KINDS.index("period"), 0, 0, 1] <= LEVEL
    assert found.effect[KINDS.index("period"), 0, 0, 1] > 0  # of frequencies


def test_nothing_is_said_of_rhythm_where_there_is_only_noise():
    rng = np.random.default_rng(0)
    for memory in (0.0, 0.8, 0.98):
        for _ in range(5):
            values = [red_noise(rng, 400, 4, memory) for _ in range(20)]
            found = measured(mt.Panel.from_arrays(values, regime=["a", "b"] * 10))
            assert not found.frequency.any()


@pytest.mark.parametrize("sign", [1, -1])
def test_a_response_is_found_with_its_delay_and_differences_of_it(sign):
    def make(rng, rows, tau):
        return lagging(rng, rows, tau, sign)

    found = measured(two_regimes(make, 3.0, 9.0, rows=800))
    assert found.pairs.tolist() == [[0, 1]]
    assert found.sign.tolist() == [sign]
    np.testing.assert_allclose(found.delay[0], [3, 9], rtol=0.2)
    assert found.delay_p_value[0, 0, 1] <= LEVEL
    same = measured(two_regimes(make, 6.0, 6.0, rows=800))
    np.testing.assert_allclose(same.delay[0], [6, 6], rtol=0.2)
    assert not different(same)


def test_independent_sensors_do_not_respond_to_each_other():
    rng = np.random.default_rng(1)
    for _ in range(10):
        values = [red_noise(rng, 200, 4) for _ in range(16)]
        assert not len(measured(mt.Panel.from_arrays(values, regime=["a", "b"] * 8)).pairs)


@pytest.mark.parametrize(("kinds", "groups"), [(2, 0), (3, 4)])
def test_equal_regimes_differ_in_at_most_a_tenth_of_the_draws(kinds, groups):
    draws, alarms = 60, 0
    for seed in range(draws):
        rng = np.random.default_rng([seed, kinds, groups])
        machine = 3 * rng.standard_normal((max(groups, 1), 2))
        values, names, codes = [], [], []
        for number in range(8 * kinds):
            offset = 0.5 * rng.standard_normal(2) + machine[number // kinds % max(groups, 1)]
            values.append(lagging(rng, 80, 4.0) + offset)
            names.append("abc"[number % kinds])
            codes.append(f"machine {number // kinds % max(groups, 1)}")
        panel = mt.Panel.from_arrays(values, regime=names, groups=codes if groups else None)
        alarms += different(measured(panel, seed))
    assert alarms <= 0.1 * draws


def test_machines_that_differ_are_no_difference_of_regimes_and_hide_none():
    rng = np.random.default_rng(0)
    offset = 20 * rng.standard_normal((6, 1))

    def panel(shift, machine_of):
        values = [
            red_noise(rng, 80, 1) + offset[machine_of(i)] + shift * (i % 2) for i in range(36)
        ]
        groups = [f"machine {machine_of(i)}" for i in range(36)]
        return mt.Panel.from_arrays(values, regime=["a", "b"] * 18, groups=groups)

    assert different(measured(panel(4.0, lambda i: i // 2 % 6)))  # each machine in both regimes
    apart = measured(panel(0.0, lambda i: i % 6))  # each machine in one: six recordings, not 36
    assert apart.recordings.tolist() == [3, 3]
    assert not different(apart)
    assert not apart.testable.any()


def test_stretches_of_one_long_recording_are_compared():
    rng = np.random.default_rng(0)
    values = red_noise(rng, 1600, 1)
    regime = np.repeat(["a", "b"] * 8, 100)
    values[regime == "b"] += 5
    found = measured(mt.Panel.from_arrays([values], regime=[regime]))
    assert found.recordings.tolist() == [8, 8]
    assert found.p_value[0, 0, 0, 1] <= LEVEL


def test_gaps_do_not_multiply_recordings():
    rng = np.random.default_rng(0)
    values = [red_noise(rng, 100, 1) for _ in range(6)]
    for one in values:
        one[[30, 60]] = np.nan
    panel = mt.Panel.from_arrays(values, regime=["a", "b"] * 3, missing="gap")
    assert measured(panel).recordings.tolist() == [3, 3]


def test_few_recordings_tell_no_difference_however_large_it_is():
    rng = np.random.default_rng(0)
    values = [red_noise(rng, 100, 1) + 100 * (i % 2) for i in range(6)]
    found = measured(mt.Panel.from_arrays(values, regime=["a", "b"] * 3))
    assert not different(found)
    assert not found.testable.any()


def test_short_constant_and_many_sensors():
    rng = np.random.default_rng(0)
    short = mt.Panel.from_arrays([np.ones((5, 1))] * 4, regime=["a", "b"] * 2)
    assert measured(short) is None
    values = [np.concatenate([np.ones((60, 1)), red_noise(rng, 60, 1)], 1) for _ in range(12)]
    constant = measured(mt.Panel.from_arrays(values, regime=["a", "b"] * 6))
    assert all(np.isfinite(part).all() for part in (constant.effect, constant.spread))
    assert not different(constant)
    many = measured(mt.Panel.from_arrays([red_noise(rng, 50, 60) for _ in range(12)],
                                         regime=["a", "b"] * 6))  # fmt: skip
    assert many.level.shape == (3, 2, 60)
    assert not different(many)


def test_many_regimes_are_described_but_not_compared():
    rng = np.random.default_rng(0)
    names = [f"r{k}" for k in range(21)] * 3
    values = [red_noise(rng, 40, 2) + 9 * int(name[1:]) for name in names]
    found = measured(mt.Panel.from_arrays(values, regime=names))
    assert found.level.shape == (3, 21, 2)
    assert not found.testable.any()
    assert not different(found)


def test_the_kind_of_time_is_remembered():
    values = [np.random.default_rng(0).standard_normal((20, 1))] * 4
    dates = np.datetime64("2024-01-01", "ns") + np.arange(20) * np.timedelta64(1, "s")
    kinds = [
        measured(mt.Panel.from_arrays(values, regime=["a", "b"] * 2, time=time)).time_kind
        for time in (None, np.arange(20.0), dates)
    ]
    assert kinds == [ROWS, NUMBERS, DATES]


def test_stored_arrays_give_the_same_and_older_models_have_none():
    found = measured(two_regimes(lagging, 3.0, 9.0, recordings=6, rows=100))
    again = SensorStatistics.from_arrays(found.arrays())
    for name, value in vars(found).items():
        np.testing.assert_array_equal(getattr(again, name), value)
    assert SensorStatistics.from_arrays({}) is None
