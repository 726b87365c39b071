"""Observation models: their names, their noise, and their information about alpha."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechtrace.errors import ConfigError
from mechtrace.stage2 import observation_models
from mechtrace.stage2.information import GaussianInformation
from mechtrace.stage2.observation_models import ObservationModel, centre_lag
from mechtrace.stage2.recovery import _outliers
from mechtrace.stage2.window_moments import window_moments


@pytest.mark.parametrize(
    "name", ["", "prediction", "prediction(0)", "window_moments(x)", "statics"]
)
def test_unknown_observation_models_are_refused(name):
    with pytest.raises(ConfigError, match="not a kind of evidence"):
        observation_models.parse(name)


def test_candidates_fit_the_length_of_the_series():
    assert observation_models.candidates(lags=2, steps=5) == ["prediction(1)", "static"]
    assert "window_moments(32)" in observation_models.candidates(lags=2, steps=100)
    for name in observation_models.candidates(lags=2, steps=100):
        assert observation_models.history_length(name, 2) < 100


def autoregression(rng, series, steps, d, memory):
    out = np.empty((series, steps, d))
    out[:, 0] = rng.standard_normal((series, d))
    for t in range(1, steps):
        noise = rng.standard_normal((series, d)) * np.sqrt(1 - memory**2)
        out[:, t] = memory * out[:, t - 1] + noise
    return out


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.8])
def test_noise_and_its_memory_are_measured(memory):
    rng = np.random.default_rng(1)
    regime = np.repeat([0, 1], 60)
    means = np.array([[0.0, 0.0], [2.0, -1.0]])
    error = autoregression(rng, 120, 300, 2, memory) * [0.5, 2.0]
    offset = rng.standard_normal((120, 1, 2))  # of each series: not noise
    model = ObservationModel.measure(
        "static", means[regime][:, None] + error + offset, None, regime
    )
    assert np.sqrt(np.diagonal(model.noise)) == pytest.approx([0.5, 2.0], rel=0.05)
    assert abs(model.noise[0, 1]) < 0.05
    assert model.autocorrelation_time == pytest.approx((1 + memory) / (1 - memory), rel=0.15)
    np.testing.assert_allclose(model.means, means, atol=0.35)  # sixty offsets are averaged


def test_few_steps_do_not_pretend_to_know_a_covariance():
    rng = np.random.default_rng(2)
    z = rng.standard_normal((2, 9, 12))
    model = ObservationModel.measure("static", z, None, np.array([0, 1]))
    assert np.linalg.cond(model.noise) < 1e3


def test_one_step_of_one_regime_is_enough_for_an_answer():
    model = ObservationModel.measure(
        "static", np.array([[[0.0]], [[1.0]]]), None, np.array([0, 1])
    )
    assert np.isfinite(model.noise).all()
    assert model.autocorrelation_time == 1


def test_constant_predictions_say_what_least_squares_says():
    rng = np.random.default_rng(3)
    model = ObservationModel(
        "static", rng.standard_normal((3, 4)), np.diag([1.0, 2.0, 0.5, 1.0]), 4.0
    )
    alpha = np.array([0.2, 0.5, 0.3])
    found = model.information((alpha @ model.means)[None, None], None)
    np.testing.assert_allclose(found.G[..., 0, 0] @ alpha, found.h[:, 0, 0])
    white = model.means @ np.linalg.inv(model.noise) @ model.means.T
    np.testing.assert_allclose(found.G[..., 0, 0], white / 4)  # four dependent steps say it once
    assert found.dims[0, 0] == 1


def random_evidence(rng, kinds=3, d=4, shape=(2, 5)):
    means = rng.standard_normal((*shape, kinds, d))
    values = rng.standard_normal((*shape, d))
    return means, values, np.diag(rng.uniform(0.5, 2, d))


def test_what_is_like_no_pure_series_has_a_limit():
    """Series differ by a constant, which is not by itself strange; standing still is."""
    rng = np.random.default_rng(0)
    regime = np.repeat([0, 1], 10)
    swing = np.where(regime == 0, 1.0, 3.0)[:, None, None]
    latents = swing * rng.normal(size=(20, 60, 2)) + rng.normal(size=(20, 1, 2))
    position = np.tile(np.arange(60)[:, None], 20)
    name = "window_moments(8)"

    def seen(values):
        columns = values.swapaxes(0, 1)
        return window_moments(columns, position[:, : columns.shape[1]], 8).swapaxes(0, 1)

    model = ObservationModel.measure(name, seen(latents), None, regime)
    assert 1 < model.limit < 10

    def residual(values, k):
        error = (seen(values) - model.means[k])[:, 8:]
        squares = np.einsum("sti,ij,stj->st", error, np.linalg.inv(model.noise), error)
        return np.sqrt(squares / error.shape[-1])

    new = rng.normal(size=(5, 60, 2)) + 1.0
    assert (residual(new, 0) > model.limit).mean() < 0.02
    still = np.minimum(residual(0.01 * new, 0), residual(0.01 * new, 1))
    assert (still > model.outlier_residual).all()


def test_tails_of_pure_series_say_how_rare_a_large_error_is():
    rng = np.random.default_rng(1)
    regime, expected = np.repeat([0, 1], 20), np.zeros((40, 100, 2, 3))
    errors = rng.normal(size=(40, 100, 3))
    even = ObservationModel.measure("prediction(1)", errors, expected, regime)
    assert 2 < even.degrees_of_freedom <= 3
    # one regime is five times as noisy, so to their common noise its errors are large
    uneven = errors * np.where(regime == 0, 1.0, 5.0)[:, None, None]
    noisy = ObservationModel.measure("prediction(1)", uneven, expected, regime)
    assert 0.25 <= noisy.degrees_of_freedom < 2
    assert noisy.limit > even.limit
    assert replace(noisy, limit=np.inf).degrees_of_freedom == 3  # older models
    assert replace(noisy, limit=100.0).degrees_of_freedom == 0.25


def test_windows_at_both_ends_speak_of_the_rows_there():
    model = ObservationModel("window_moments(4)", np.zeros((2, 3)), np.eye(3), 1.0, limit=2.0)
    none = np.nan
    residual = np.array([[none, none, 3.0, 1.0, 1.0, 5.0, none], [none, none, 1, 3, 1, 1, none]])
    found = _outliers(model, residual, causal=False)
    assert found.tolist() == [
        [True, True, True, False, False, True, True], [False, False, False, True, *[False] * 3],
    ]  # fmt: skip
    causal = _outliers(model, residual, causal=True)
    assert np.flatnonzero(causal[0]).tolist() == [2, 5]


def test_a_window_speaks_of_its_middle():
    names = ("window_moments(8)", "window_moments(9)", "static", "prediction(4)")
    assert [centre_lag(name) for name in names] == [3, 4, 0, 0]
    rng = np.random.default_rng(0)
    evidence = GaussianInformation.from_constant_means(
        np.eye(2), rng.normal(size=(3, 10, 2)), np.eye(2)
    )
    moved = evidence.shift_back(4)
    for before, after in zip(evidence.parts(), moved.parts(), strict=True):
        assert (after[..., :6, :] == before[..., 4:, :]).all()
        assert not after[..., 6:, :].any()
    assert evidence.shift_back(0) is evidence
    assert not evidence.shift_back(20).dims.any()


def autocorrelation_time(error, known):
    """Lag by lag, as `observation_models._autocorrelation_time` is defined."""
    white = error / np.sqrt((error**2).sum(axis=(0, 1)) / known.sum())
    alone, total = (white**2).sum() / known.sum(), 1.0
    for lag in range(1, error.shape[1]):
        both = known[:, lag:] & known[:, :-lag]
        product = (white[:, lag:] * white[:, :-lag]).sum() / max(both.sum(), 1)
        if not product > 0:
            break
        total += 2 * product / alone
    return total


@given(st.integers(0, 10_000))
def test_autocorrelation_time_is_that_of_its_definition(seed):
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(1, 4)), int(rng.integers(2, 60)), 2)
    error = np.cumsum(rng.standard_normal(shape), axis=1)
    known = rng.random(shape[:2]) < 0.9
    known[0, 0] = True
    error = np.where(known[..., None], error, 0.0)
    found = observation_models._autocorrelation_time(error, known)
    assert found == pytest.approx(autocorrelation_time(error, known), rel=1e-9)


def test_autocorrelation_time_of_long_dependent_errors():
    """Half a wave: autocorrelations are positive over a third of 400,000 lags."""
    error = np.cos(np.linspace(0, np.pi, 400_000))[None, :, None]
    found = observation_models._autocorrelation_time(error, np.ones(error.shape[:2], bool))
    few = np.cos(np.linspace(0, np.pi, 400))[None, :, None]
    assert found == pytest.approx(1000 * autocorrelation_time(few, few[..., 0] < 2), rel=0.01)
    still = np.zeros((1, 5, 2))
    assert observation_models._autocorrelation_time(still, np.ones((1, 5), bool)) == 1.0
