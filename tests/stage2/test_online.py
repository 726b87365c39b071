"""Streaming equals the causal batch answer, row by row."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest

import mechtrace as mt
from mechtrace.errors import DataError, DataWarning


def pushed(trained, values, times=None):
    stream = trained.stream()
    times = [None] * len(values) if times is None else times
    return [stream.update(row, time) for row, time in zip(values, times, strict=True)]


@pytest.fixture(scope="module")
def glide(world):
    return world.transition("simple", length=50, seed=3).panel


def test_stream_equals_the_causal_batch(trained, glide):
    batch = trained.recover(glide, causal=True)
    rows = pushed(trained, glide.values)
    for name in ("alpha", "lower", "upper"):
        together = np.stack([getattr(row, name) for row in rows])
        assert np.abs(together - getattr(batch, name)).max() < 1e-9
    assert [row.warm_up for row in rows[:3]] == [True, True, False]


def test_gaps_and_missing_rows_are_treated_alike(trained, glide):
    time = np.arange(50.0)
    time[20:] += 7.0
    values = glide.values.astype(float).copy()
    values[33] = np.nan
    panel = mt.Panel.from_arrays([values], time=[time], missing="gap")
    batch = trained.recover(panel, causal=True)
    rows = pushed(trained, values, time)
    together = np.stack([row.alpha for row in rows])
    assert np.abs(together - batch.alpha).max() < 1e-9
    assert batch.flag[33] == "missing"


def test_dates_stream_like_numbers():
    world = mt.worlds.make("paper", regimes=2, latents=3, channels=4, length=20)
    start = np.datetime64("2026-01-01T00:00:00", "ns")
    stamps = start + np.arange(20) * np.timedelta64(250, "ms")
    simulated = world.simulate(20)
    panel = mt.Panel.from_arrays(
        simulated.observations, regime=simulated.panel.regime_names_of(0)[:1].tolist() * 20
        + simulated.panel.regime_names_of(39)[:1].tolist() * 20, time=stamps,
    )  # fmt: skip
    trace = mt.Trace(latents=3, lags=2, hidden=16, steps=240, batch=10, lr=1e-2)
    trace.fit(panel, progress=False)
    one = panel.without_labels()[np.array([3])]
    batch = trace.recover(one, causal=True)
    rows = pushed(trace, one.values, one.time_of(0))
    assert np.abs(np.stack([row.alpha for row in rows]) - batch.alpha).max() < 1e-9
    assert rows[-1].time == stamps[-1]


def test_memory_does_not_grow(trained, glide):
    stream = trained.stream()
    for _ in range(3):
        for row in glide.values:
            stream.update(row)
    assert len(stream.rows) <= 3
    assert len(stream.latents) <= 5


def test_wrong_rows_are_refused(trained):
    stream = trained.stream()
    with pytest.raises(DataError, match=r"shape \(2,\)"):
        stream.update(np.zeros(2))
    stream.update(np.zeros(6), time=5.0)
    with pytest.raises(DataError, match="time order"):
        stream.update(np.zeros(6), time=4.0)


def estimates(rows):
    return np.stack([np.concatenate([row.alpha, row.lower, row.upper]) for row in rows])


@pytest.mark.parametrize("fill", [1e9, -999999.0, 1e37, np.inf])
def test_a_fill_value_is_a_missing_row_in_the_stream_and_in_the_batch(trained, glide, fill):
    values = glide.values.astype(float)
    values[20, 2] = fill
    gone = values.copy()
    gone[20] = np.nan
    expected = trained.recover(mt.Panel.from_arrays([gone], missing="gap"), causal=True)
    with pytest.warns(DataWarning, match=r"row 20: .* in channel 'x2' is no plausible") as told:
        rows = pushed(trained, values)
    assert len(told) == 1
    if np.isfinite(fill):
        with pytest.warns(DataWarning, match="series '0', row 20: .* in channel 'x2'"):
            batch = trained.recover(mt.Panel.from_arrays([values]), causal=True)
        assert np.array_equal(batch.alpha, expected.alpha)
        assert batch.flag[20] == "missing"
        trained.diagnose(batch)
    assert np.abs(np.stack([row.alpha for row in rows]) - expected.alpha).max() < 1e-9


def test_a_fill_value_leaves_other_recordings_alone(trained, world):
    panel = world.transition("simple", length=50, series=3, seed=3).panel
    values = panel.values.astype(float)
    values[70, 1] = 1e20
    spoilt = mt.Panel.from_arrays(values.reshape(3, 50, 6))
    with pytest.warns(DataWarning, match="series '1', row 20"):
        found = trained.recover(spoilt)
    with pytest.warns(DataWarning, match="series '1', row 20"):
        latents = trained.encode(spoilt)
    assert np.flatnonzero(np.isnan(latents[1]).any(axis=1)).tolist() == [20]
    for i, path in enumerate(trained.recover(panel)):
        assert np.allclose(found[i].alpha, path.alpha, rtol=0, atol=1e-9) == (i != 1)
        assert np.isfinite(found[i].alpha).all()


def test_a_stuck_fill_value_is_named_once(trained, glide):
    values = glide.values.astype(float)
    values[10:20, 2] = values[15:17, 4] = -1e30
    with pytest.warns(DataWarning) as told:
        pushed(trained, values)
    assert [str(one.message).split(":")[0] for one in told] == ["stream, row 10", "stream, row 15"]


START = np.datetime64("2026-03-01T12:00:00", "ns")
CLOCKS = {
    "datetime64": lambda k: START + np.timedelta64(k, "s"),
    "datetime64[s]": lambda k: (START + np.timedelta64(k, "s")).astype("datetime64[s]"),
    "Timestamp": lambda k: pd.Timestamp(START) + pd.Timedelta(k, "s"),
    "zoned Timestamp": lambda k: pd.Timestamp(START, tz="Europe/Berlin") + pd.Timedelta(k, "s"),
    "datetime": lambda k: datetime(2026, 3, 1, 12) + timedelta(seconds=k),
    "zoned datetime": lambda k: datetime(2026, 3, 1, tzinfo=UTC) + timedelta(seconds=k),
    "unsigned": lambda k: np.uint8(k),
    "fractions": lambda k: 0.5 + k,
}


@pytest.mark.parametrize("clock", CLOCKS.values(), ids=CLOCKS)
def test_every_kind_of_time_streams_like_numbers(trained, glide, clock):
    steps = np.arange(50) + 7 * (np.arange(50) >= 20)
    expected = pushed(trained, glide.values, steps.astype(float))
    stamps = [clock(int(k)) for k in steps]
    found = pushed(trained, glide.values, stamps)
    assert np.array_equal(estimates(found), estimates(expected))
    assert [row.time for row in found] == stamps


REFUSED = {
    "too few values": (np.zeros(2), 30.0),
    "text": (["a"] * 6, 30.0),
    "ragged": ([[1.0, 2.0], 3.0], 30.0),
    "nothing": (None, 30.0),
    "an earlier time": (np.ones(6), 9.0),
    "the same time": (np.ones(6), 19.0),
    "a date among numbers": (np.ones(6), datetime(2026, 1, 1)),
    "time as text": (np.ones(6), "20"),
    "no time": (np.ones(6), float("nan")),
    "no date": (np.ones(6), np.datetime64("NaT")),
    "a date too far": (np.ones(6), np.datetime64("9999-01-01")),
    "a truth value": (np.ones(6), True),
}


@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED)
def test_a_refused_row_leaves_no_trace(trained, glide, refused):
    times = np.arange(50.0)
    expected = pushed(trained, glide.values, times)
    stream, found = trained.stream(), []
    for k in range(50):
        if k == 20:
            with pytest.raises(DataError):
                stream.update(*refused)
        found.append(stream.update(glide.values[k], times[k]))
    assert np.array_equal(estimates(found), estimates(expected))


def test_dates_with_and_without_a_zone_do_not_mix(trained, glide):
    stream = trained.stream()
    stream.update(glide.values[0], datetime(2026, 1, 1, tzinfo=UTC))
    with pytest.raises(DataError, match="a date, but that of the row before a date with a time"):
        stream.update(glide.values[1], datetime(2026, 1, 2))


def test_a_large_offset_streams_like_none(world, panel, small):
    shift = np.array([0, 4.5e6, 0, 0, -1e7, 0])
    moved = replace(panel, values=panel.values.astype(float) + shift)
    plain, offset = (mt.Trace(**small).fit(data, progress=False) for data in (panel, moved))
    new = world.transition("simple", length=50, seed=3).panel
    far = replace(new, values=new.values.astype(float) + shift)
    for causal in (False, True):
        a, b = plain.recover(new, causal=causal), offset.recover(far, causal=causal)
        assert np.abs(a.alpha - b.alpha).max() < 1e-4
    assert (
        np.abs(np.stack([row.alpha for row in pushed(offset, far.values)]) - b.alpha).max() < 1e-9
    )
