"""Numbers and pictures of a report, made small."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mechtrace as mt
from mechtrace.viz.downsample import envelope, pack_time, rows_with_extremes, runs
from mechtrace.viz.payload import LONGEST_SIDE, MOST_FRAMES, film, reduced


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
    path = mt.plot.curve(np.ones((steps, 1)), 10.0 + np.arange(steps))
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
