"""The paper's own procedure: by hand, against slow loops, and where it stops working."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mechtrace as mt
from mechtrace.errors import ConfigError
from mechtrace.linalg.simplex import project
from mechtrace.stage2 import algorithm1
from mechtrace.stage2.algorithm1 import centred_window, regularised, static_weights
from mechtrace.stage2.inference import state_space
from mechtrace.stage2.information import GaussianInformation

MEANS = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]])


# --- weights ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("latents", "raw", "weights"),
    [
        ([0.25, 1.0], [0.25, 0.25, 0.5], [0.25, 0.25, 0.5]),
        ([0.0, 0.0], [1, 0, 0], [1, 0, 0]),
        ([1.0, 2.0], [-1, 1, 1], [0, 0.5, 0.5]),
        ([-0.5, 0.0], [1.5, -0.5, 0], [1, 0, 0]),
        ([0.8, 0.8], [-0.2, 0.8, 0.4], [0, 0.7, 0.3]),
    ],
)
def test_an_example_by_hand(latents, raw, weights):
    z = np.array([latents])
    np.testing.assert_allclose(static_weights(z, MEANS, simplex=False), [raw], atol=1e-12)
    np.testing.assert_allclose(static_weights(z, MEANS), [weights], atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 6), st.integers(0, 3))
def test_mixtures_of_the_means_are_recovered_exactly(seed, regimes, more):
    rng = np.random.default_rng(seed)
    d = regimes - 1 + more
    means = rng.standard_normal((regimes, d)) + 2 * np.eye(regimes, d)
    steps = np.diff(means, axis=0)
    if np.linalg.svd(steps, compute_uv=False).min() < 0.05:
        return  # the means hardly span the simplex
    alpha = rng.dirichlet(np.full(regimes, 0.5), size=(2, 9))
    for simplex in (True, False):
        found = static_weights(alpha @ means, means, simplex=simplex)
        np.testing.assert_allclose(found, alpha, atol=1e-9)


def test_the_baseline_is_formed_before_the_projection():
    rng = np.random.default_rng(0)
    z = rng.normal(0, 2, (40, 2))
    raw = static_weights(z, MEANS, simplex=False)
    np.testing.assert_allclose(raw.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(raw[:, 1:], z @ np.linalg.inv(MEANS[1:]), atol=1e-12)
    found = static_weights(z, MEANS)
    np.testing.assert_allclose(found, project(raw), atol=1e-12)
    clipped = np.clip(raw[:, 1:], 0, 1)  # the other order gives something else
    late = project(np.column_stack([1 - clipped.sum(1), clipped]))
    assert np.abs(found - late).max() > 0.1


def test_the_answer_does_not_depend_on_which_regime_is_the_baseline():
    rng = np.random.default_rng(1)
    means, z = rng.standard_normal((3, 4)), rng.standard_normal((10, 4))
    # least squares with a sum constraint has no favourite
    base = static_weights(z, means, simplex=False)
    order = [2, 0, 1]
    turned = static_weights(z, means[order], simplex=False)
    np.testing.assert_allclose(turned, base[:, order], atol=1e-9)


def test_more_regimes_than_dimensions_cannot_be_told_apart():
    rng = np.random.default_rng(2)
    means = rng.standard_normal((6, 2))
    alpha = rng.dirichlet(np.ones(6), size=50)
    raw = static_weights(alpha @ means, means, simplex=False)
    np.testing.assert_allclose(raw @ means, alpha @ means, atol=1e-9)  # it does explain them
    assert np.abs(raw - alpha).max() > 0.1


# --- window -----------------------------------------------------------------------------------


@pytest.mark.parametrize("half", [0, 1, 3, 5])
@pytest.mark.parametrize("steps", [1, 7, 10, 11, 40])
def test_the_window_equals_a_slow_loop_and_leaves_the_edges(half, steps):
    weights = np.random.default_rng(half).dirichlet(np.ones(3), size=(2, steps))
    before = weights.copy()
    expected = weights.copy()
    for s in range(2):
        for t in range(half, steps - half):
            expected[s, t] = np.mean([weights[s, u] for u in range(t - half, t + half + 1)], 0)
    found = centred_window(weights, half)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    np.testing.assert_array_equal(found[:, :half], before[:, :half])
    np.testing.assert_array_equal(weights, before)
    assert found is not weights
    if steps == 40 and half:
        assert not np.allclose(found[:, half:-half], before[:, half:-half])


def test_a_missing_step_leaves_its_neighbours_as_they_are():
    weights = np.random.default_rng(3).dirichlet(np.ones(2), size=30)
    weights[12] = np.nan
    found = centred_window(weights, 2)
    assert np.isnan(found[12]).all()
    np.testing.assert_array_equal(found[10:15], weights[10:15])
    assert np.isfinite(np.delete(found, 12, axis=0)).all()
    np.testing.assert_allclose(found[9], weights[7:12].mean(axis=0))


# --- smoother ---------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 25), st.floats(0, 1e4))
def test_the_smoother_equals_the_dense_solve(seed, steps, strength):
    weights = np.random.default_rng(seed).standard_normal((steps, 3))
    D = np.diff(np.eye(steps), axis=0)
    expected = np.linalg.solve(np.eye(steps) + strength * D.T @ D, weights)
    found = regularised(weights, strength, simplex=False)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(regularised(weights, strength), project(expected), atol=1e-7)


def test_the_extremes_of_strength():
    weights = np.random.default_rng(4).standard_normal((30, 2))
    np.testing.assert_array_equal(regularised(weights, 0, simplex=False), weights)
    flat = regularised(weights, 1e9, simplex=False)
    np.testing.assert_allclose(flat, np.tile(weights.mean(0), (30, 1)), atol=1e-5)


def test_the_rule_of_the_theorem():
    weights = np.random.default_rng(5).standard_normal((64, 2))
    np.testing.assert_allclose(
        regularised(weights, "rule", simplex=False),
        regularised(weights, 4.0, simplex=False),
        atol=1e-12,
    )


def test_cross_validation_smooths_noisy_input_more_and_helps():
    rng = np.random.default_rng(6)
    truth = mt.worlds.make_schedule("medium", 300, 3)
    strengths, better = [], []
    for noise in (0.01, 0.1, 0.5):
        noisy = truth + noise * rng.standard_normal(truth.shape)
        strengths.append(algorithm1._by_cross_validation(noisy))
        found = regularised(noisy, "gcv", simplex=False)
        better.append(((found - truth) ** 2).mean() / ((noisy - truth) ** 2).mean())
    assert strengths[0] < strengths[1] < strengths[2]
    assert better[0] < 0.6
    assert better[2] < 0.1


def test_cross_validation_minimises_its_score():
    rng = np.random.default_rng(7)
    weights = np.cumsum(rng.standard_normal((40, 2)), axis=0) + rng.standard_normal((40, 2))
    D = np.diff(np.eye(40), axis=0)

    def score(strength: float) -> float:
        S = np.linalg.inv(np.eye(40) + strength * D.T @ D)
        return float(((weights - S @ weights) ** 2).sum() / (40 - np.trace(S)) ** 2)

    grid = 10.0 ** np.arange(-2.0, 5.01, 0.25)
    assert algorithm1._by_cross_validation(weights) == pytest.approx(min(grid, key=score))


@pytest.mark.parametrize("strength", ["gcv", "rule", 3.0])
def test_one_and_two_steps_can_be_smoothed(strength):
    for steps in (1, 2):
        weights = np.random.default_rng(8).dirichlet(np.ones(3), size=steps)
        found = regularised(weights, strength)
        assert found.shape == (steps, 3)
        np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-12)


def test_a_long_series_takes_linear_time_and_memory():
    weights = np.random.default_rng(9).dirichlet(np.ones(3), size=200_000)
    start = time.perf_counter()
    found = regularised(weights, "rule")
    assert time.perf_counter() - start < 10
    assert found.shape == weights.shape
    assert found.std() < 0.5 * weights.std()


@pytest.mark.parametrize("strength", [-1, -0.001, "much", "", "GCV"])
def test_a_strength_that_makes_no_sense_is_refused(strength):
    with pytest.raises(ConfigError, match="strength"):
        regularised(np.ones((5, 2)) / 2, strength)


# --- the paper's table ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ten():
    world = mt.worlds.make("paper", regimes=10)
    pure = world.simulate(500).latents.reshape(10, 500, world.config.length, -1)
    return world, pure[:, :, 2:].mean(axis=(1, 2), dtype=float)


def correlation(found: np.ndarray, truth: np.ndarray) -> float:
    """Mean over the regimes; a constant curve counts as 0."""
    parts = [
        np.corrcoef(a, b)[0, 1] if np.ptp(a) > 1e-9 else 0.0
        for a, b in zip(found.T, truth.T, strict=True)
    ]
    return float(np.mean(parts))


@pytest.mark.parametrize("count", [3, 9])
def test_static_weights_collapse_with_many_regimes_and_the_state_space_does_not(ten, count):
    world, means = ten
    active = list(range(count))
    run = world.transition("simple", series=200, active=active)
    truth = run.alpha[0, 2:][:, active]
    averaged = run.latents.mean(axis=0, dtype=float)[2:]
    static = centred_window(static_weights(averaged, means[active]), 5)
    if count == 3:
        assert correlation(static, truth) > 0.7
    else:
        assert correlation(static, truth) < 0.5
    precision = np.eye(world.config.latents) / world.config.noise**2
    evidence = GaussianInformation.from_predictions(
        run.conditional_means(), run.latents.astype(float), precision
    )
    found = state_space(evidence.restrict_to(active).pool(), np.ones((1, run.alpha.shape[1])))
    assert correlation(found.alpha[0, 2:], truth) > 0.9


@pytest.mark.parametrize("strength", ["rule", "gcv", 3.0])
def test_missing_rows_are_bridged(strength):
    rng = np.random.default_rng(11)
    share = np.linspace(0, 1, 60)[:, None]
    weights = np.hstack([1 - share, share]) + 0.05 * rng.standard_normal((60, 2))
    holes = weights.copy()
    holes[25:30] = np.nan
    found = regularised(holes, strength, simplex=False)
    assert np.isfinite(found).all()
    assert np.abs(found[25:30] - np.hstack([1 - share, share])[25:30]).max() < 0.15
    known = np.isfinite(holes).all(axis=1)
    # stationarity of sum over known |a - w|^2 + s |D a|^2
    s = algorithm1.strength_of(holes, strength)
    slope = np.diff(found, axis=0, prepend=found[:1], append=found[-1:])
    pull = np.where(known[:, None], found - np.nan_to_num(holes), 0.0)
    np.testing.assert_allclose(pull, s * np.diff(slope, axis=0), atol=1e-8)


def test_averaging_is_the_variance_that_is_left():
    rng = np.random.default_rng(12)
    noise = rng.standard_normal((80, 4000))
    left = regularised(noise, 5.0, simplex=False).var()
    assert algorithm1.averaging(80, 5.0) == pytest.approx(left, rel=0.03)
