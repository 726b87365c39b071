"""Which sensor is off: the explanation that makes a recording usual."""

from __future__ import annotations

import numpy as np
import pytest

from mechtrace.stage2.channel_statistics import ChannelStatistics

UNITS = ((1.8, 32.0), (100.0, 0.0), (0.1, 0.0), (3.28, 0.0))


#: States that turn, so that time has a direction.
MOVING = {"turn": 0.4, "error": 0.03}


def recordings(channels, series, steps=200, seed=0, states=2, turn=0.0, error=0.1):
    """Channels that see a few slow states, each with a level and a range of its own."""
    rng = np.random.default_rng(seed)
    world = np.random.default_rng([channels, 5])
    see = world.standard_normal((states, channels))
    level, size = world.uniform(-50, 50, channels), 10 ** world.uniform(-1, 2, channels)
    z = np.zeros((series, steps, states))
    z[:, 0] = rng.standard_normal((series, states))
    go_on, noise = 0.9 * np.eye(states), 0.44
    if turn:
        go_on = 0.99 * np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        noise = 0.05
    for t in range(1, steps):
        z[:, t] = z[:, t - 1] @ go_on + noise * rng.standard_normal((series, states))
    noise = error * rng.standard_normal((series, steps, channels))
    return level + size * (z @ see + noise)


def learned(values):
    n, steps, c = values.shape
    rows = values.reshape(-1, c)
    series = np.repeat(np.arange(n), steps)
    return ChannelStatistics.measure(rows, series, rows.mean(0), rows.std(0))


@pytest.fixture(scope="module")
def known():
    return learned(recordings(5, 24))


@pytest.fixture(scope="module")
def new():
    return recordings(5, 6, seed=1)


def test_usual_recordings_are_usual(known, new):
    assert [known.fault(values) for values in new] == [None] * len(new)


@pytest.mark.parametrize(("gain", "offset"), UNITS)
@pytest.mark.parametrize("channel", range(5))
def test_other_units_are_named_with_gain_and_offset(known, new, channel, gain, offset):
    values = new[channel].copy()
    values[:, channel] = gain * values[:, channel] + offset
    fault = known.fault(values)
    assert (fault.kind, fault.channels) == ("units", (channel,))
    assert fault.gain == pytest.approx(gain, rel=0.2)
    usual = known.centre[channel]
    expected, tolerance = gain * usual + offset, 0.5 * gain * known.scale[channel]
    assert fault.gain * usual + fault.offset == pytest.approx(expected, abs=tolerance)


def test_every_swapped_pair_is_named(known, new):
    for first in range(5):
        for second in range(first):
            values = new[0].copy()
            values[:, [first, second]] = values[:, [second, first]]
            fault = known.fault(values)
            assert (fault.kind, fault.channels) == ("swapped", (second, first))


def test_an_unrelated_signal_is_named(known, new):
    values = new[0].copy()
    values[:, 3] = new[1][:, 3]
    assert known.fault(values).channels == (3,)


def test_another_machine_is_no_broken_sensor(known, new):
    rng = np.random.default_rng(3)
    for values in new:
        gain, offset = 1 + 0.05 * rng.standard_normal(5), 0.1 * rng.standard_normal(5)
        values = known.centre + gain * (values - known.centre) + offset * known.scale
        assert known.fault(values) is None


def test_missing_cells_and_a_missing_channel(known, new):
    rng = np.random.default_rng(0)
    values = new[0].copy()
    values[rng.random(values.shape) < 0.05] = np.nan
    assert known.fault(values) is None
    values[:, 4] = np.nan
    assert known.fault(values)[:2] == ("missing", (4,))
    assert known.fault(values, [4]) is None
    values[:, 1] = 1.8 * values[:, 1] + 32
    assert known.fault(values, [4]).channels == (1,)
    assert known.fault(values, [1, 4]) is None
    assert known.fault(np.full_like(values, np.nan)) is None


@pytest.mark.parametrize("rate", [2, 10])
def test_rows_at_another_rate_are_named_without_time_stamps(rate):
    fine = recordings(5, 12, steps=rate * 100, **MOVING)
    new = recordings(5, 1, steps=rate * 100, seed=1, **MOVING)[0]
    assert learned(fine).fault(new) is None
    less = learned(fine).fault(new[::rate])
    assert (less.kind, less.channels, less.gain) == ("rate", (), 1 / rate)
    more = learned(fine[:, ::rate]).fault(new)
    assert (more.kind, more.channels, more.gain) == ("rate", (), rate)


def test_rows_in_another_order_are_named():
    known, new = learned(recordings(5, 24, **MOVING)), recordings(5, 1, seed=1, **MOVING)[0]
    assert known.fault(new) is None
    assert known.fault(new[::-1]).kind == "reversed"
    shuffled = known.fault(np.random.default_rng(0).permutation(new))
    assert shuffled.kind == "shuffled" or (shuffled.kind, shuffled.gain) == ("rate", 0.1)


def test_differences_of_groups_are_no_faults():
    rng, groups = np.random.default_rng(4), np.repeat(np.arange(8), 3)
    values = recordings(5, 30)
    offset = 1.5 * values.std(axis=(0, 1)) * rng.standard_normal((10, 5))
    values += np.repeat(offset, 3, axis=0)[:, None]
    rows, number = values[:24].reshape(-1, 5), np.repeat(np.arange(24), 200)
    units = rows.mean(axis=0), rows.std(axis=0)
    known = ChannelStatistics.measure(rows, number, *units, groups)
    assert [known.fault(one) for one in values[24:]] == [None] * 6
    broken = values[24].copy()
    broken[:, 2] = 100 * broken[:, 2]
    assert known.fault(broken).channels == (2,)


def test_fill_values_now_and_then_are_no_broken_sensor(known, new):
    values = new[0].copy()
    values[[3, 50, 51, 120], [0, 2, 2, 2]] = [1e30, -1e300, 1e9, 1e30]
    assert known.fault(values) is None
    values[:, 4] = 1e9 * values[:, 4]
    assert known.fault(values).channels == (4,)


def test_sensors_that_are_alike_cannot_be_told_apart():
    values = recordings(2, 24)
    values = np.concatenate([values, values[..., :1] + 1e-3], axis=2)
    values[..., [0, 2]] += (
        0.1
        * values[..., 0].std()
        * np.random.default_rng(0).standard_normal((*values.shape[:2], 2))
    )
    known = learned(values)
    swapped = recordings(2, 1, seed=1)[0]
    swapped = np.concatenate([swapped, swapped[:, :1]], axis=1)[:, [2, 1, 0]]
    assert known.fault(swapped) is None


@pytest.mark.parametrize("series", [1, 3])
def test_few_series_are_enough_to_find_gross_faults(series):
    known, new = learned(recordings(3, series)), recordings(3, 1, seed=2)[0]
    assert known.fault(new) is None
    new[:, 0] = 100 * new[:, 0]
    assert known.fault(new).channels == (0,)


def test_two_hundred_channels():
    known, new = learned(recordings(200, 12, states=8)), recordings(200, 1, seed=3, states=8)[0]
    assert known.fault(new) is None
    swapped = new.copy()
    swapped[:, [17, 150]] = swapped[:, [150, 17]]
    assert known.fault(swapped).channels == (17, 150)
    new[:, 42] = 1.8 * new[:, 42] + 32
    assert known.fault(new).channels == (42,)


def test_a_stuck_sensor_is_named_with_its_rows(known, new):
    values = new[0].copy()
    values[80:, 2] = values[80, 2]
    assert known.fault(values)[:3] == ("stuck", (2,), (80, 199))


def test_stored_arrays_give_the_same_and_older_ones_load(known, new):
    stored = known.arrays()
    values = new[0].copy()
    values[:, 1] *= 1.8
    assert ChannelStatistics.from_arrays(stored).fault(values) == known.fault(values)
    for name in ("natural", "lagged", "varied", "span"):
        del stored[f"channels/{name}"]
    assert ChannelStatistics.from_arrays(stored).fault(values).channels == (1,)
    stored["channels/gained"] = np.array(1.2)
    assert ChannelStatistics.from_arrays(stored).fault(values).channels == (1,)
    assert ChannelStatistics.from_arrays({}) is None
