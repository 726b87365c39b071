"""Mechanisms of the channels: they know where they know, and say so in the intervals."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest

import mechtrace as mt
from mechtrace.errors import FitWarning, StoreError
from mechtrace.stage2.bayesian_regression import Posterior, RegressionSums
from mechtrace.stage2.channel_experts import ChannelExperts
from mechtrace.stage2.channel_member import ChannelRows
from mechtrace.stage2.measure import _left_out
from mechtrace.stage2.observation_models import CHANNELS
from mechtrace.stage2.series_batch import EncodedSeries

SMALL = {"latents": 4, "lags": 2, "hidden": 16, "steps": 200, "batch": 12, "align": False}


@pytest.fixture(scope="module")
def tanks():
    return mt.worlds.make("zoo/tanks", seed=5, length=120)


@pytest.fixture(scope="module")
def model(tanks):
    with warnings.catch_warnings():  # the network hardly learns in so few steps
        warnings.simplefilter("ignore", FitWarning)
        return mt.Trace(**SMALL).fit(tanks.simulate(12).panel, progress=False)


def two_regimes(rng, rows=400):
    """x_t = 0.9 x_{t-1} + k + noise in regime k: at rest around 0 and around 10."""
    values = np.zeros((2 * rows, 1))
    regime = np.repeat([0, 1], rows)
    for t in range(1, 2 * rows):
        before = 10.0 if t == rows else values[t - 1, 0]
        values[t] = 0.9 * before + regime[t] + 0.1 * rng.standard_normal()
    return ChannelRows(values, np.tile(np.arange(rows), 2), regime)


def test_evidence_shrinks_what_the_regimes_share():
    rng = np.random.default_rng(0)
    design = np.column_stack([np.ones(600), rng.standard_normal((600, 3))])
    regime = np.repeat([0, 1], 300)
    y = design @ [[0.0], [1.0], [2.0], [3.0]] + 0.5 * regime[:, None]
    y = y + 0.1 * rng.standard_normal(y.shape)
    found = Posterior.of(RegressionSums.of(design, y, regime, 2), np.array([0, 1, 1, 1]), True)
    np.testing.assert_allclose(found.weights[:, 1:, 0], [[1, 2, 3]] * 2, atol=0.02)
    np.testing.assert_allclose(np.diff(found.weights[:, 0, 0]), 0.5, atol=0.03)
    # the regimes differ in the constant alone: their own slopes are shrunk to nothing
    assert np.abs(np.diff(found.weights[:, 1:, 0], axis=0)).max() < 0.01
    draws = np.stack([found.draw(rng) for _ in range(200)])
    assert draws.std(axis=0).max() < 0.1
    np.testing.assert_allclose(draws.mean(axis=0), found.weights, atol=0.02)


def test_folds_are_left_out_by_a_subtraction():
    rng = np.random.default_rng(4)
    rows = two_regimes(rng)
    fold = np.arange(len(rows.values)) // 50 % 4
    whole, *without = ChannelExperts.cross_fit(
        rows._replace(fold=fold), np.zeros(1), np.ones(1), seed=0
    )
    assert len(without) == 4
    # the regression of the other rows, with the prior precisions of the whole
    design, regime = np.column_stack([np.ones(800), rng.standard_normal((800, 2))]), rows.regime
    y, kind = design @ [[0.3], [1.0], [0.0]] + 0.1 * rng.standard_normal((800, 1)), np.arange(3)
    sums = [
        RegressionSums.of(design[mine], y[mine], regime[mine], 2) for mine in (fold < 9, fold == 1)
    ]
    precision = Posterior.of(sums[0], kind, True).precision
    rest = fold != 1
    expected = Posterior.of(
        RegressionSums.of(design[rest], y[rest], regime[rest], 2), kind, True, precision
    )
    found = Posterior.of(sums[0] - sums[1], kind, True, precision)
    np.testing.assert_allclose(found.weights, expected.weights, atol=1e-8)
    assert np.abs(without[0].members[0].weights - whole.members[0].weights).max() > 0


def test_normal_is_measured_in_every_group_by_mechanisms_that_have_not_seen_it():
    rng = np.random.default_rng(5)
    level, own = (np.repeat(rng.uniform(*ends, 6), 4)[:, None] for ends in ((-9, 9), (-0.5, 0.2)))
    regime, values = np.tile([0, 1], 12), np.zeros((24, 80, 2))
    values[:, 0] = level
    for t in range(1, 80):
        slope = np.where(regime, 0.3, 0.7)[:, None] + own
        push = 0.1 * rng.standard_normal((24, 2))
        values[:, t] = level + slope * (values[:, t - 1] - level) + push
    panel = mt.Panel.from_arrays(
        values[:, 20:], regime=["ab"[k] for k in regime], groups=[f"m{i // 4}" for i in range(24)]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        model = mt.Trace(**SMALL | {"latents": 2, "steps": 60}).fit(panel, progress=False)
    assert len(np.unique(model.statistics_.group)) == 6
    assert max(model.facts_["held_out_series"].values()) == 4  # two machines
    # the features of a machine are those of the mechanisms that were learned without it
    fold, kept = np.repeat(np.arange(6), 4), panel.values
    rows = ChannelRows(
        kept, np.tile(np.arange(60), 24), np.repeat(regime, 60), np.repeat(fold, 60)
    )
    whole, *without = ChannelExperts.cross_fit(rows, kept.mean(axis=0), kept.std(axis=0), seed=0)

    def features(experts, series):
        encoded = EncodedSeries.of_rows(model.model_, series, np.zeros((series.rows, 2)), experts)
        return encoded, encoded.features(CHANNELS).predictions

    found = _left_out(features(whole, panel)[0], without, fold).predictions
    third = features(without[2], panel[8:12])[1]
    np.testing.assert_allclose(found[8:12], third)
    mine = features(whole, panel[8:12])[1]
    assert np.nanmax(np.abs(found[8:12] - mine)) > 0.01


def test_doubt_grows_away_from_the_states_of_a_regime():
    rows = two_regimes(np.random.default_rng(1))
    experts = ChannelExperts.cross_fit(rows, np.zeros(1), np.ones(1), seed=0)[0]
    x = np.array([0.0, 5.0, 10.0, 30.0])[None, :, None].repeat(5, axis=0)
    position = np.arange(5)[:, None].repeat(4, axis=1)
    predicted = experts.predict(x, position)
    first = np.broadcast_to([1.0, 0.0], (5, 4, 2))
    errors = np.stack(list(experts.errors(x, position, predicted, first)))[:, -1, :, 0]
    spread = np.sqrt((errors**2).mean(axis=0))
    assert spread[0] < spread[2] < spread[3]
    assert np.isnan(predicted[0]).all()
    assert np.isfinite(predicted[1:]).all()


def test_regimes_in_other_regions_are_read_from_the_channels(tanks, model):
    assert model.statistics_.selection.selected == (CHANNELS,)
    run = tanks.transition("simple", series=6, seed=2)
    paths = model.recover(run.panel)
    error = np.mean([np.abs(p.alpha[2:] - run.alpha[0, 2:]).mean() for p in paths])
    latents = model.recover(run.panel, evidence="prediction(1)")
    other = np.mean([np.abs(p.alpha[2:] - run.alpha[0, 2:]).mean() for p in latents])
    assert error < 0.1 < other
    inside = [((p.lower <= run.alpha[0]) & (run.alpha[0] <= p.upper))[2:].mean() for p in paths]
    assert np.mean(inside) > 0.8
    expected = np.mean([p.expected_error for p in paths])
    assert error / 2 < expected < 2.5 * error


def test_the_stream_equals_the_causal_batch(tanks, model):
    panel = tanks.transition("simple", series=1, seed=2).panel
    batch = model.recover(panel, causal=True)
    stream = model.stream()
    rows = [stream.update(row) for row in np.asarray(panel.values)]
    for part in ("alpha", "lower", "upper"):
        together = np.stack([getattr(row, part) for row in rows])
        np.testing.assert_allclose(together, getattr(batch, part), atol=1e-9)


def test_a_stored_model_answers_alike(tmp_path, tanks, model):
    model.save(tmp_path / "m.mechtrace")
    again = mt.load(tmp_path / "m.mechtrace")
    panel = tanks.transition("simple", series=2, seed=2).panel
    for one, other in zip(model.recover(panel), again.recover(panel), strict=True):
        np.testing.assert_array_equal(one.alpha, other.alpha)
        np.testing.assert_array_equal(one.upper, other.upper)
        assert again.diagnose(other).verdict == model.diagnose(one).verdict
    arrays = model.statistics_.arrays()
    experts = model.statistics_.experts
    broken = dataclasses.replace(
        model.statistics_,
        experts=dataclasses.replace(experts, projection=experts.projection[:, :-1]),
    )
    model_copy = mt.load(tmp_path / "m.mechtrace")
    model_copy.statistics_ = broken
    model_copy.save(tmp_path / "broken.mechtrace")
    with pytest.raises(StoreError):
        mt.load(tmp_path / "broken.mechtrace")
    assert any("experts/0/weights" in name for name in arrays)


def test_many_channels_are_compressed_and_constant_ones_left_out():
    rng = np.random.default_rng(2)
    base = rng.standard_normal((500, 3)).cumsum(axis=0) / 10
    values = np.concatenate([base @ rng.standard_normal((3, 24)), np.ones((500, 1))], axis=1)
    values += 0.01 * rng.standard_normal(values.shape) * (np.arange(25) < 24)
    scale = np.where(np.arange(25) < 24, values.std(axis=0), 1.0)
    rows = ChannelRows(values, np.tile(np.arange(250), 2), np.repeat([0, 1], 250))
    experts = ChannelExperts.cross_fit(rows, values.mean(axis=0), scale, seed=0)[0]
    assert experts.projection.shape == (25, 16)
    assert np.isfinite(experts.coordinates(values)).all()
    few = ChannelRows(values[:, 22:], rows.position, rows.regime)
    experts = ChannelExperts.cross_fit(few, values[:, 22:].mean(axis=0), scale[22:], 0)[0]
    assert experts.projection.shape == (3, 2)
