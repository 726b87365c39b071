"""Which regimes take part: the choice, its symmetry, and the likelihood it rests on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

import mechtrace as mt
from mechtrace.linalg.simplex import helmert_basis
from mechtrace.stage2.active_set import Shown, choose_active, marginal_likelihood
from mechtrace.stage2.information import GaussianInformation
from mechtrace.stage2.kalman import GRID, PRIOR, START_SCALE


def true_evidence(regimes, active, *, schedule="simple", series=200, seed=0, **options):
    """Information of a transition from the true latents and conditional means."""
    world = mt.worlds.make("paper", regimes=regimes, seed=seed, **options)
    run = world.transition(schedule, series=series, active=active, seed=1)
    precision = np.diag(1 / (world.scales**2).mean(axis=0))
    return GaussianInformation.from_predictions(
        run.conditional_means(), run.latents.astype(float), precision
    )


def chosen(evidence, **options):
    return choose_active(evidence, np.ones(evidence.dims.T.shape), **options)


@pytest.mark.parametrize("schedule", ["simple", "complex"])
def test_three_of_twenty_are_found_in_pooled_trials(schedule):
    evidence = true_evidence(20, [1, 7, 18], schedule=schedule).pool()
    assert chosen(evidence) == [1, 7, 18]


def test_all_five_are_kept_if_all_take_part():
    evidence = true_evidence(5, None, schedule="medium")
    assert chosen(evidence.pool()) == [0, 1, 2, 3, 4]


def test_a_short_recording_keeps_the_regimes_that_take_part():
    evidence = true_evidence(5, [0, 2], series=6)
    for s in range(6):
        alone = evidence.select_series(np.array([s]))
        assert {0, 2} <= set(chosen(alone))


@settings(max_examples=8, deadline=None)
@given(st.permutations(range(6)))
def test_renaming_the_regimes_renames_the_choice(order):
    evidence = true_evidence(6, [0, 3, 4], series=60).pool()
    found = chosen(evidence.restrict_to(order))
    assert sorted(order[k] for k in found) == chosen(evidence)


def test_several_series_share_one_choice():
    evidence = true_evidence(6, [1, 4], series=40)
    assert chosen(evidence) == [1, 4]


def one_more(beside, *parts):
    shown = Shown(beside, 5)
    for part in parts:
        shown.add(part, np.ones(part.dims.T.shape))
    return shown.best()


def test_a_regime_that_few_of_many_recordings_show_is_found():
    many = true_evidence(5, [0, 1], series=1000)
    few = true_evidence(5, [2], series=3, schedule="constant")
    assert chosen(GaussianInformation.concatenate([many, few])) == [0, 1], (
        "the many outweigh the few"
    )
    assert one_more([0, 1], many) is None
    assert one_more([0, 1], many, few) == 2
    assert one_more([0, 1, 2], many, few) is None


def test_at_least_so_many_are_kept():
    evidence = true_evidence(6, [2], series=60, schedule="constant").pool()
    assert chosen(evidence, least=1) == [2]
    assert len(chosen(evidence)) == 2
    assert 2 in chosen(evidence)


def test_without_any_evidence_nothing_is_dropped():
    empty = GaussianInformation.from_predictions(
        np.full((1, 9, 4, 3), np.nan), np.zeros((1, 9, 3)), np.eye(3)
    )
    assert chosen(empty) == [0, 1, 2, 3]


def dense_likelihood(means, values, precision, elapsed):
    """The same integral as one large Gaussian, for each process noise."""
    steps, regimes, d = means.shape
    basis = helmert_basis(regimes)
    m = regimes - 1
    loading = np.zeros((steps * d, steps * m))
    for t in range(steps):
        loading[t * d : (t + 1) * d, t * m : (t + 1) * m] = means[t].T @ basis
    noise = np.kron(np.eye(steps), np.linalg.inv(precision))
    clock = np.concatenate([[0], np.cumsum(elapsed[1:])])
    shared = np.minimum(clock[:, None], clock)  # time that two steps have walked together
    logs = []
    for q in 10**GRID:
        walk = np.kron(START_SCALE**2 + q * shared, np.eye(m))
        covariance = loading @ walk @ loading.T + noise
        centre = means.mean(axis=1).ravel()
        logs.append(multivariate_normal(centre, covariance).logpdf(values.ravel()))
    prior = -0.5 * ((GRID - PRIOR[0]) / PRIOR[1]) ** 2
    return np.logaddexp.reduce(logs + prior) - np.logaddexp.reduce(prior)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 4))
def test_the_marginal_likelihood_is_that_of_one_large_gaussian(seed, regimes):
    rng = np.random.default_rng(seed)
    steps, d = 6, 2
    means, values = rng.standard_normal((steps, regimes, d)), rng.standard_normal((steps, d))
    root = rng.standard_normal((d, d))
    precision = root @ root.T + np.eye(d)
    elapsed = rng.uniform(0.5, 3, steps)
    evidence = GaussianInformation.from_predictions(means[None], values[None], precision)
    got = marginal_likelihood(evidence, elapsed[None]).item()
    assert got == pytest.approx(dense_likelihood(means, values, precision, elapsed), rel=1e-8)


def test_one_regime_alone_has_the_density_of_its_prediction():
    rng = np.random.default_rng(0)
    means, values = rng.standard_normal((1, 5, 3, 2)), rng.standard_normal((1, 5, 2))
    precision = np.diag([2.0, 5.0])
    evidence = GaussianInformation.from_predictions(means, values, precision).restrict_to([1])
    noise = multivariate_normal(np.zeros(2), np.linalg.inv(precision))
    wanted = noise.logpdf((values - means[:, :, 1])[0]).sum()
    assert marginal_likelihood(evidence, np.ones((1, 5))).item() == pytest.approx(wanted)
