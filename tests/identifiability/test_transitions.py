"""Which series axes are fitted to and tested on, and which latents are used."""

from __future__ import annotations

import numpy as np

import mechtrace as mt
from mechtrace.data.segments import Runs, split_runs, training_runs
from mechtrace.identifiability import NON_GAUSSIAN_NOISE, REGIME_DEPENDENT_NOISE, SPARSE_CHANGE
from mechtrace.identifiability.transitions import split_for_alignment


def rows_of(runs):
    return set(runs.row_numbers().tolist())


def test_axes_are_tested_on_series_that_training_did_not_see(world):
    runs = training_runs(world.simulate(360, seed=4).panel, 2)
    train, held = split_runs(runs, 0.1, 2, seed=0)
    found = split_for_alignment(train, held, 3, 2, seed=0)
    assert found.held_out
    assert rows_of(found.test) == rows_of(held)
    assert rows_of(found.fit) | rows_of(found.selection) == rows_of(train)
    assert not set(found.fit.series) & set(found.selection.series)
    np.testing.assert_array_equal(np.bincount(found.selection.regime), [108, 108, 108])
    other = split_for_alignment(train, held, 3, 2, seed=1)
    assert rows_of(other.fit) != rows_of(found.fit)


def test_many_short_runs_of_one_recording_are_split_by_stretches():
    start = np.arange(0, 9000, 100)
    runs = Runs(start, np.full(90, 100), np.zeros(90, int), np.arange(90) % 3)
    train, held = split_runs(runs, 0.1, 2, seed=0)
    found = split_for_alignment(train, held, 3, 2, seed=0)
    for part in found[:3]:
        assert (np.bincount(part.regime) >= 10).all()
        assert part.length.max() <= 66
    sizes = [len(rows_of(part)) for part in found[:3]]
    assert sum(sizes) == len(set.union(*map(rows_of, found[:3])))


def test_a_few_long_recordings_are_enough_to_test_axes(world, small):
    panel = world.simulate(1, length=900).panel
    trace = mt.Trace(**small | {"align": True}).fit(panel, progress=False)
    assert {found.kind for found in trace.axes_.evidence} >= {
        NON_GAUSSIAN_NOISE,
        REGIME_DEPENDENT_NOISE,
        SPARSE_CHANGE,
    }
    runs = training_runs(panel, 2)
    found = split_for_alignment(*split_runs(runs, 0.1, 2, seed=0), 3, 2, seed=0)
    sizes = [len(rows_of(part)) for part in found[:3]]
    assert sum(sizes) == len(set.union(*map(rows_of, found[:3])))
    assert not found.held_out


def test_where_too_few_series_are_held_out_the_verdict_says_so(world, small):
    runs = training_runs(world.simulate(12).panel, 2)
    train, held = split_runs(runs, 0.1, 2, seed=0)  # one of each regime
    found = split_for_alignment(train, held, 3, 2, seed=0)
    assert not found.held_out
    assert rows_of(held) < rows_of(found.test)
    series = [set(part.series.tolist()) for part in found[:3]]
    assert sum(map(len, series)) == len(set.union(*series)) == 36
    assert split_for_alignment(train.where(train.series % 2 == 0), held, 3, 2, seed=0) is None
    trace = mt.Trace(**small | {"align": True}).fit(world.simulate(12).panel, progress=False)
    assert trace.axes_.verdict.endswith("Training series were tested too: too few were held out.")
    assert trace.axes_.verdict in trace.card_
