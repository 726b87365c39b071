"""What is measured of the pure regimes after training."""

from __future__ import annotations

import numpy as np
import pytest

from mechtrace.config import RunConfig
from mechtrace.data import Runs
from mechtrace.stage1 import encoding
from mechtrace.stage1.fit_run import FitRun
from mechtrace.stage2 import measure
from mechtrace.stage2.measure import measure_statistics


def test_statistics_are_not_measured_on_the_first_recordings_only(monkeypatch, panel, small):
    run = FitRun.prepare(panel, RunConfig.from_options(**small | {"holdout": 0.8}))
    seen = []
    monkeypatch.setattr("mechtrace.stage2.measure.MOST_RUNS", 3)
    monkeypatch.setattr("mechtrace.stage2.measure.FEWEST_RUNS", 3)

    def looked_at(*args):
        seen.append(args)
        raise StopIteration

    monkeypatch.setattr("mechtrace.stage2.measure.statistics_of", looked_at)
    with pytest.raises(StopIteration):
        measure_statistics(run)
    (_, pieces, _, regime, *_), held = seen[0], run.trainer.held_out.sampler.runs
    assert np.bincount(regime).tolist() == [3] * len(panel.regimes)
    # recordings lie in the order in which they were drawn; some wrong labels may come first
    first = [held.where(np.flatnonzero(held.regime == code)[:3]) for code in np.unique(regime)]
    values = np.concatenate([panel.values[runs.row_numbers()] for runs in first])
    assert pieces.values.shape == values.shape
    assert not np.array_equal(pieces.values, values)


def test_each_row_is_encoded_once_and_each_model_predicts_once(monkeypatch, panel, small):
    run = FitRun.prepare(panel, RunConfig.from_options(**small))
    rows, horizons = [], []

    def encode(model, pieces):
        rows.append(pieces.rows)
        return encoding.encode(model, pieces)

    def predict(model, mean, position, horizon):
        horizons.append(horizon)
        return plain(model, mean, position, horizon)

    plain = encoding.predict
    monkeypatch.setattr(measure, "encode", encode)
    monkeypatch.setattr(encoding, "predict", predict)
    statistics = measure_statistics(run)
    assert sum(rows) == (run.runs[0] + run.runs[1]).rows
    assert len(horizons) == len(set(horizons))
    assert {f"prediction({h})" for h in horizons} <= set(statistics.models)


def runs_of(series, group=None):
    series = np.asarray(series)
    start = 50 * np.arange(len(series))
    regime = np.arange(len(series)) % 2
    groups = None if group is None else np.asarray(group)
    return Runs(start, np.full(len(series), 50), series, regime, groups)


def test_groups_are_left_out_or_each_of_a_few_recordings():
    named = measure.Folds.of(runs_of(range(40), np.repeat(["a", "b", "c", "d"], 10)))
    assert named.groups.tolist() == ["a", "b", "c", "d"]
    assert named.fold.tolist() == [0, 1, 2, 3]
    few = runs_of(np.repeat(np.arange(12), 2))  # recordings that change their regime
    folds = measure.Folds.of(few)
    assert len(folds.groups) == 12
    assert folds.fold.max() == measure.MOST_FOLDS - 1
    assert folds.number(few)[:4].tolist() == [0, 0, 1, 1]
    assert measure.Folds.of(runs_of(range(measure.FEW_RECORDINGS + 1))) is None
    assert measure.Folds.of(runs_of(range(3))) is None  # one regime has a single recording
