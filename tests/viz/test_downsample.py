"""The parts of a report: numbers made small, and sentences."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mechtrace as mt
from mechtrace.recover.events import Event
from mechtrace.reports.compact import envelope, pack_time, rows_with_extremes, runs
from mechtrace.reports.film import LONGEST_SIDE, MOST_FRAMES, film, reduced
from mechtrace.reports.words import Clock, answer, sequence


class Path:
    """As much of a trajectory as sentences need."""

    name, regimes = "run", ("walk", "run")

    def __init__(self, time):
        self.time = time

    def __str__(self):
        return "run: no change, walk throughout"


def test_the_answer_is_one_sentence():
    path = Path(np.arange(0, 5, 0.1))
    one = Event("walk", "run", 1.8, 2.0, 2.2, 0.4)
    assert answer(path, [one]) == "walk until 1.8, blending for 0.4, run from 2.2"
    back = Event("run", "walk", 3.0, 3.5, 4.0, 1.0)
    assert answer(path, [one, back]).endswith(
        "run from 2.2 until 3.0, blending for 1.0, walk from 4.0"
    )
    assert answer(path, []) == "no change, walk throughout"
    assert sequence(path, [one, back]) == "walk → run → walk"


def test_many_changes_are_counted():
    path = Path(np.arange(100))
    events = [Event("walk", "run", t, t, t, 0) for t in range(9)]
    assert answer(path, events).startswith("9 changes of the leading regime, the first from walk")
    assert "…" in sequence(path, events)


@pytest.mark.parametrize(
    ("step", "unit", "moment", "duration"),
    [(1, "D", "2026-01-03", "2 days"), (1, "m", "00:02", "2 min"),
     (5, "ms", "00:00:00.010", "10 ms")],
)  # fmt: skip
def test_clocks_are_as_precise_as_the_stamps(step, unit, moment, duration):
    time = np.datetime64("2026-01-01", "ns") + np.arange(4) * np.timedelta64(step, unit)
    clock = Clock(time)
    assert clock.moment(time[2]) == moment
    assert clock.duration(time[2] - time[0]) == duration


@given(st.integers(1, 400), st.integers(1, 4), st.integers(8, 50), st.integers(0, 9))
def test_thinning_keeps_the_extremes_of_every_column(steps, columns, most, seed):
    random = np.random.default_rng(seed)
    table = random.normal(size=(steps, columns))
    table[random.random(table.shape) < 0.1] = np.nan
    for kept in (table[rows_with_extremes(table, most)], envelope(table, most)[1]):
        known = np.isfinite(table).any(axis=0)
        np.testing.assert_array_equal(
            np.nanmax(kept[:, known], axis=0), np.nanmax(table[:, known], axis=0)
        )
        np.testing.assert_array_equal(
            np.nanmin(kept[:, known], axis=0), np.nanmin(table[:, known], axis=0)
        )
    assert len(envelope(table, most)[0]) <= max(most, 2)


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.integers(1, 10))
def test_runs_cover_what_is_true_and_are_few(mask, most):
    mask = np.array(mask)
    found = runs(mask, most)
    assert len(found) <= most
    covered = np.zeros(len(mask), dtype=bool)
    for first, last in found:
        assert mask[first]
        assert mask[last]
        covered[first : last + 1] = True
    assert (covered >= mask).all()
    if len(runs(mask, len(mask))) <= most:
        assert (covered == mask).all()


def test_uneven_stamps_are_kept_one_by_one():
    assert "stamps" in pack_time(np.array([0.0, 1.0, 3.0]))
    assert pack_time(np.array([7.0])) == {"rows": 1, "first": 7.0, "last": 7.0}


@pytest.mark.parametrize("steps", [1, 5, 200])
def test_pictures_are_those_of_their_time(steps):
    frames = np.zeros((steps, 8, 12), dtype=np.uint8)
    frames[:] = np.arange(steps)[:, None, None]  # each says which step it is
    panel = mt.Panel.from_arrays([frames, frames[::-1]])
    path = Path(10.0 + np.arange(steps))
    found = film(panel, path)
    assert len(found["time"]) == min(steps, MOST_FRAMES)
    grey = np.frombuffer(base64.b64decode(found["grey"]), np.uint8)
    grey = grey.reshape(-1, found["height"], found["width"])
    np.testing.assert_array_equal(grey[:, 3, 5], np.array(found["time"]) - 10)
    assert found["time"] == sorted(set(found["time"]))


def test_large_pictures_become_small_ones_of_the_same_brightness():
    ramp = np.tile(np.linspace(0, 255, 1000), (1, 500, 1))
    small = reduced(ramp.astype(np.uint8))
    assert max(small.shape[1:]) <= LONGEST_SIDE
    assert abs(small.mean() - ramp.mean()) < 2
    dim = reduced(ramp / 1000)  # not bytes: stretched to what can be seen
    assert (dim.min(), dim.max()) == (0, 255)
