"""Streaming equals the causal batch answer, row by row."""

from __future__ import annotations

import numpy as np
import pytest

import mechtrace as mt
from mechtrace.errors import DataError


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
    trace = mt.Trace(latents=3, hidden=16, steps=240, batch=10, lr=1e-2)
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
    assert len(stream.latents) == 3


def test_wrong_rows_are_refused(trained):
    stream = trained.stream()
    with pytest.raises(DataError, match=r"shape \(2,\)"):
        stream.update(np.zeros(2))
    stream.update(np.zeros(6), time=5.0)
    with pytest.raises(DataError, match="time order"):
        stream.update(np.zeros(6), time=4.0)
