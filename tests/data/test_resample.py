"""Other rates, trends, and stretches of time as rows."""

from __future__ import annotations

import numpy as np
import pytest

from mechtrace.data.panel import Panel
from mechtrace.data.resample import steps_in
from mechtrace.errors import ConfigError, DataError


def panel(values, rate=120.0, **more) -> Panel:
    rows = np.asarray(values, float)
    return Panel.from_arrays([rows[:, None]], time=[np.arange(len(rows)) / rate], **more)


def test_a_lower_rate_averages_whole_cells():
    found = panel(np.arange(10), regime=[["a"] * 5 + ["b"] * 5]).resampled(30)
    assert found.values[:, 0].tolist() == [1.5, 5.5]
    assert (found.time * 120).tolist() == pytest.approx([1.5, 5.5])
    assert found[0].regime.tolist() == ["a", "b"]


def test_a_fast_swing_does_not_become_a_slow_one():
    rows = np.arange(1200) / 120
    found = panel(np.sin(2 * np.pi * 31 * rows)).resampled(30)  # would look like 1 Hz
    assert np.abs(found.values).max() < 0.1


def test_a_higher_rate_joins_rows_by_lines():
    found = panel(np.arange(5)).resampled(240)
    assert found.values[:, 0].tolist() == pytest.approx(np.arange(9) / 2)
    assert found.usual_step == pytest.approx(1 / 240)


def test_gaps_and_missing_rows_stay_gaps():
    time = np.array([0, 1, 2, 3, 7, 8, 9]) / 120
    broken = Panel.from_arrays([np.arange(7.0)[:, None]], time=[time])
    fine = broken.resampled(240).values[:, 0]
    assert np.isnan(fine[7:14]).all()
    assert np.isfinite(np.delete(fine, range(7, 14))).all()
    coarse = broken.resampled(60).values[:, 0]
    assert coarse[[0, 1, 4]].tolist() == [0.5, 2.5, 5.5]
    assert np.isnan(coarse[[2, 3]]).all()
    holes = panel([0, 1, np.nan, np.nan, 4, 5], missing="gap").resampled(240).values[:, 0]
    assert np.isnan(holes[3:8]).all()


def test_dates_stay_dates():
    dates = np.datetime64("2026-01-01") + (np.arange(10) * 100).astype("timedelta64[ms]")
    found = Panel.from_arrays([np.arange(10.0)[:, None]], time=[dates]).resampled(5)
    assert found.values[:, 0].tolist() == [0.5, 2.5, 4.5, 6.5, 8.5]
    assert str(found.time[1]).startswith("2026-01-01T00:00:00.25")


def test_series_and_groups_keep_their_own():
    both = Panel.from_arrays(
        [np.zeros((8, 1)), np.ones((16, 1))],
        time=[np.arange(8) / 4, 100 + np.arange(16) / 4],
        names=["a", "b"], groups=["x", "y"],
    ).resampled(2)  # fmt: skip
    assert both.lengths.tolist() == [4, 8]
    assert both.values[:, 0].tolist() == [0.0] * 4 + [1.0] * 8
    assert both.groups.tolist() == ["x", "y"]
    assert both["b"].time[0] == pytest.approx(100.125)


def test_rows_without_a_time_are_one_apart():
    found = Panel.from_arrays([np.arange(6.0)[:, None]]).resampled(0.5)
    assert found.values[:, 0].tolist() == [0.5, 2.5, 4.5]
    assert found.time.tolist() == [0.5, 2.5, 4.5]


def test_trends_are_removed_series_by_series():
    rows = np.arange(20.0)
    swing = np.sin(rows)
    two = Panel.from_arrays([(swing + 5 + rows)[:, None], (swing - 9 * rows)[:, None]])
    flat = two.detrended("line").values.reshape(2, 20)
    assert flat[0] == pytest.approx(flat[1])
    level = two.detrended().values.reshape(2, 20)
    assert level.mean(axis=1) == pytest.approx([0, 0])
    assert np.ptp(level, axis=1) == pytest.approx(np.ptp(two.values.reshape(2, 20), axis=1))
    assert two.values[0, 0] == 5  # the panel itself is left alone


def test_times_become_rows():
    assert steps_in(panel(np.arange(10)), 0.066) == 8
    assert steps_in(panel(np.arange(10)), 0.001) == 1


def test_what_cannot_be_resampled_is_refused():
    with pytest.raises(ConfigError, match="positive"):
        panel(np.arange(5)).resampled(0)
    with pytest.raises(ConfigError, match="mean or line"):
        panel(np.arange(5)).detrended("parabola")
    with pytest.raises(ConfigError, match="no stretch"):
        steps_in(panel(np.arange(5)), -1)
    film = Panel.from_arrays(np.zeros((1, 4, 3, 3)), images=False)
    with pytest.raises(DataError, match="pictures"):
        film.detrended()
