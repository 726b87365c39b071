"""What is measured of the pure regimes after training."""

from __future__ import annotations

import numpy as np
import pytest

from mechtrace.config import RunConfig
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
