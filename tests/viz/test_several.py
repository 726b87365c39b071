"""Several recordings in one figure."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest

from mechtrace.errors import ConfigError, DataError
from mechtrace.viz import plot

mpl.use("Agg")

TIME = np.arange(60) * 0.5
DATES = np.datetime64("2024-01-31T10:00") + np.arange(60) * np.timedelta64(1, "m")


def ramp(middle, name="one", time=TIME, regimes=("walk", "run")):
    """A curve that changes linearly within 20 rows around a row."""
    share = np.clip(0.5 + (np.arange(60) - middle) / 20, 0, 1)
    return plot.curve(np.column_stack([1 - share, share]), time, regimes, name=name)


def test_recordings_are_aligned_at_their_change():
    early, late, none = ramp(20), ramp(40, "two"), ramp(500, "none")
    axes = plot.aligned([early, late, none])
    lines = {line.get_label(): line for line in axes.get_lines()}
    (median,) = (line for label, line in lines.items() if "median" in label)
    assert median.get_label() == "median of 2 recordings (1 without this transition)"
    time, share = median.get_data()
    known = np.isfinite(share)
    half = np.interp(0.5, share[known], time[known])
    assert half == pytest.approx(0.0, abs=0.6)  # both change at once, 10 apart as recorded
    assert axes.get_xlabel() == "time since the midpoint of walk → run"
    assert axes.get_ylabel() == "share of run"


def test_dates_are_aligned_in_a_readable_unit():
    axes = plot.aligned([ramp(20, time=DATES), ramp(30, time=DATES)], event="onset")
    assert axes.get_xlabel() == "time since the onset of walk → run (min)"
    low, high = axes.get_xlim()
    assert -30 <= low < 0 < high <= 60


def test_the_transition_of_most_recordings_counts():
    back = ("run", "walk")
    curves = [ramp(20), ramp(25), plot.curve(ramp(30).alpha[::-1], TIME, ("walk", "run"))]
    assert "walk → run" in plot.aligned(curves).get_xlabel()
    with pytest.raises(DataError, match="different regimes"):
        plot.aligned([ramp(20), ramp(20, regimes=back)])


def test_what_cannot_be_aligned_is_said():
    with pytest.raises(DataError, match="no recording has a transition"):
        plot.aligned([ramp(500)])
    with pytest.raises(ConfigError, match="event='start'"):
        plot.aligned([ramp(20)], event="start")
    with pytest.raises(DataError, match="at least one"):
        plot.recordings([])
    with pytest.raises(DataError, match="2 recordings have 1 titles"):
        plot.recordings([ramp(20), ramp(20)], titles=["a"])


def test_each_recording_has_a_panel_and_the_colours_are_those_of_the_regimes():
    axes = plot.recordings([ramp(20), ramp(40, "two")])
    assert [one.get_title(loc="left") for one in axes] == ["one", "two"]
    for one in axes:
        assert [line.get_color() for line in one.get_lines()[:2]] == list(plot.COLOURS[:2])
