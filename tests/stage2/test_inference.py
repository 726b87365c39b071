"""Weights and intervals from information; the smoother and the posterior of the process noise."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from gaussian_case import CASES, Case, block, mixture, oracle
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from mechtrace.linalg.simplex import project
from mechtrace.stage2.inference import (
    COARSE,
    FINE,
    MixturePosterior,
    log_likelihoods,
    nearest_on_simplex,
    smooth,
    smooth_given,
    state_space,
    two_point_quadrature,
)
from mechtrace.stage2.information import GaussianInformation, SimplexCoordinates
from mechtrace.stage2.kalman import Mixture, coupling, log_prior

MODES = [
    {"causal": causal, "simplex": simplex} for causal in (False, True) for simplex in (False, True)
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", [[2, 0, 1, 3], [3, 2, 1, 0]])
def test_permuted_regimes_give_permuted_weights_and_intervals(mode, order):
    case = Case(18, series=2, steps=15, regimes=4, d=3, empty=(5,))
    base = state_space(case.info, case.elapsed, **mode)
    turned = state_space(case.info.restrict_to(order), case.elapsed, **mode)
    for part in ("alpha", "lower", "upper"):
        left, right = getattr(turned, part), getattr(base, part)[..., order]
        np.testing.assert_allclose(left, right, rtol=0, atol=1e-6)
    np.testing.assert_allclose(turned.process_noise, base.process_noise, rtol=1e-8)


@settings(max_examples=12, deadline=None)
@given(
    st.integers(0, 2**31),
    st.integers(1, 12),
    st.integers(2, 6),
    st.sampled_from(MODES),
    st.floats(0.05, 0.99),
)
def test_weights_lie_inside_their_intervals(seed, steps, regimes, mode, level):
    rng = np.random.default_rng(seed)
    case = Case(seed, series=2, steps=steps, regimes=regimes, noise=float(rng.uniform(0.01, 1)))
    case.values[rng.random((2, steps)) < 0.2] = np.nan
    found = state_space(case.info, case.elapsed, level=level, **mode)
    assert found.alpha.shape == (2, steps, regimes)
    assert (found.lower <= found.alpha).all()
    assert (found.alpha <= found.upper).all()
    np.testing.assert_allclose(found.alpha.sum(-1), 1, atol=1e-10)
    if mode["simplex"]:
        assert found.lower.min() >= 0
        assert found.alpha.min() >= 0
        assert found.upper.max() <= 1 + 1e-12


@pytest.mark.parametrize("mode", MODES)
def test_a_higher_level_gives_wider_intervals_around_the_same_curve(mode):
    case = Case(19, series=2, steps=10)
    found = [
        state_space(case.info, case.elapsed, level=level, **mode) for level in (0.5, 0.9, 0.99)
    ]
    for narrow, wide in pairwise(found):
        np.testing.assert_array_equal(narrow.alpha, wide.alpha)
        assert (wide.lower <= narrow.lower).all()
        assert (wide.upper >= narrow.upper).all()
        assert (wide.upper - wide.lower).mean() > 1.1 * (narrow.upper - narrow.lower).mean()


def test_without_the_simplex_the_answer_is_the_plain_average():
    case = Case(20, steps=10, noise=1.0)
    plane = case.info.simplex_coordinates
    found = state_space(case.info, case.elapsed, simplex=False)
    average = smooth(plane, case.elapsed)
    np.testing.assert_allclose(found.alpha, average.mean.T, atol=1e-12)
    half = 1.6448536 * np.sqrt(average.variance.T)
    np.testing.assert_allclose(found.upper - found.alpha, half, rtol=1e-6)
    np.testing.assert_allclose(found.alpha - found.lower, half, rtol=1e-6)
    bad = Case(21, steps=6, noise=3.0)
    bad.values += 5  # far outside the mixtures
    free = state_space(bad.info, bad.elapsed, simplex=False)
    assert free.alpha.min() < 0
    np.testing.assert_allclose(free.alpha.sum(-1), 1, atol=1e-12)


@pytest.mark.parametrize("simplex", [False, True])
def test_causal_answers_do_not_change_with_more_data_and_offline_ones_do(simplex):
    case = Case(22, series=2, steps=20)

    def answers(causal: bool, stop: int) -> MixturePosterior:
        part = GaussianInformation.from_predictions(
            case.means[:, :stop], case.values[:, :stop], np.linalg.inv(case.covariance)
        )
        return state_space(part, case.elapsed[:, :stop], causal=causal, simplex=simplex)

    whole, start = answers(True, 20), answers(True, 8)
    for part in ("alpha", "lower", "upper"):
        left, right = getattr(start, part), getattr(whole, part)[:, :8]
        np.testing.assert_allclose(left, right, rtol=0, atol=1e-9)
    assert np.abs(answers(False, 8).alpha - answers(False, 20).alpha[:, :8]).max() > 1e-3
    # with the same data, the last step of both is the same but for the simplex and for the
    # process noise: seven fixed ones here, two that fit the series there
    if not simplex:
        np.testing.assert_allclose(whole.alpha[:, -1], answers(False, 20).alpha[:, -1], atol=0.05)


def test_causal_intervals_are_wider_than_offline_ones():
    case = Case(23, series=4, steps=25)
    causal = state_space(case.info, case.elapsed, causal=True, simplex=False)
    offline = state_space(case.info, case.elapsed, simplex=False)
    wide, narrow = causal.upper - causal.lower, offline.upper - offline.lower
    assert wide[:, 2:-2].mean() > 1.2 * narrow[:, 2:-2].mean()


def test_the_nearest_point_under_a_round_gaussian_is_the_projection():
    info = Case(24, steps=6, regimes=4).info.simplex_coordinates
    mean = np.random.default_rng(3).normal(0, 0.8, (3, 6, 1))
    covariance = np.tile(0.01 * np.eye(3)[:, :, None, None], (1, 1, 6, 1))
    found = nearest_on_simplex(info, Mixture(mean, covariance, np.ones((6, 1))))
    np.testing.assert_allclose(found.T, project(info.weights(mean).T), atol=1e-6)
    assert (found.min(axis=0) < 1e-6).any()


# --- with a known world -----------------------------------------------------------------------


@pytest.mark.parametrize("schedule", ["simple", "medium", "step", "constant"])
def test_ninety_percent_intervals_cover_ninety_percent(schedule):
    evidence, truth = oracle(schedule)
    found = state_space(evidence, np.ones(evidence.dims.T.shape))
    slack = 1e-4  # a bound at 0 or 1 that the solver only all but reaches
    inside = (found.lower - slack <= truth) & (truth <= found.upper + slack)
    assert 0.84 <= inside[:, 2:].mean() <= 0.99
    assert (found.upper - found.lower)[:, 2:].mean() < 0.7  # and they say something


def test_coverage_follows_the_level():
    evidence, truth = oracle("medium")
    cover = []
    for level in (0.5, 0.8, 0.95):
        found = state_space(evidence, np.ones(evidence.dims.T.shape), level=level, simplex=False)
        cover.append(((found.lower <= truth) & (truth <= found.upper))[:, 2:].mean())
    assert cover == sorted(cover)
    np.testing.assert_allclose(cover, [0.5, 0.8, 0.95], atol=0.08)


@pytest.mark.parametrize("causal", [False, True])
def test_pooled_trials_recover_the_simple_schedule(causal):
    evidence, truth = oracle("simple")
    found = state_space(evidence.pool(), np.ones((1, truth.shape[1])), causal=causal)
    got, true = found.alpha[0, 2:], truth[0, 2:]
    assert np.corrcoef(got.ravel(), true.ravel())[0, 1] > (0.98 if not causal else 0.93)
    single = state_space(evidence, np.ones(evidence.dims.T.shape), causal=causal)
    error = np.abs(single.alpha[:, 2:] - true).mean()
    assert np.abs(got - true).mean() < 0.6 * error  # pooling helps


# --- smoother and process noise ---


def smoothed(info: SimplexCoordinates, q: float | np.ndarray, elapsed: np.ndarray):
    """Means (m, T, S) and covariances (m, m, T, S) given the whole series."""
    q = np.broadcast_to(np.asarray(q, float), (len(elapsed),))
    parts = list(smooth_given(info.A, info.b, coupling(q, elapsed)))
    mean = np.concatenate([part[1] for part in parts], axis=1)
    return mean, np.concatenate([part[2] for part in parts], axis=2)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("q", [1e-4, 0.05, 0.5])
def test_the_smoother_equals_the_dense_conditional(way, name, q):
    case = CASES[name]
    found, covariances = smoothed(case.info.simplex_coordinates, q, case.elapsed)
    mean, covariance, _ = case.dense(q)
    np.testing.assert_allclose(found[..., 0].T, mean, rtol=1e-9, atol=1e-9)
    for t in range(len(mean)):
        expected = block(covariance, t, len(found))
        np.testing.assert_allclose(covariances[:, :, t, 0], expected, rtol=1e-9, atol=1e-9)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 8), st.integers(2, 5), st.floats(-5, -0.5))
def test_random_problems_equal_the_dense_gaussian(seed, steps, regimes, log10_q):
    case = Case(seed, steps=steps, regimes=regimes, d=1 + seed % 3)
    found, _ = smoothed(case.info.simplex_coordinates, 10**log10_q, case.elapsed)
    mean, _, _ = case.dense(10**log10_q)
    np.testing.assert_allclose(found[..., 0].T, mean, rtol=1e-8, atol=1e-8)


def test_each_series_may_have_its_own_process_noise_and_clock(way):
    case = Case(8, series=3)
    q = np.array([1e-3, 0.02, 0.4])
    found, _ = smoothed(case.info.simplex_coordinates, q, case.elapsed)
    for s in range(3):
        mean, _, _ = case.dense(float(q[s]), s)
        np.testing.assert_allclose(found[..., s].T, mean, rtol=1e-9, atol=1e-9)


def test_empty_steps_are_bridged():
    case = Case(10, steps=11, empty=(3, 4, 5, 6, 7), noise=0.05, d=3)
    case.elapsed[:] = 1
    mean, covariance = smoothed(case.info.simplex_coordinates, 0.01, case.elapsed)
    variance = np.trace(covariance[..., 0])
    assert (variance[3:8] > max(variance[2], variance[8])).all()
    assert variance[2:9].argmax() == 3  # widest in the middle
    line = np.linspace(mean[:, 2, 0], mean[:, 8, 0], 7)  # a straight bridge
    np.testing.assert_allclose(mean[:, 2:9, 0].T, line, atol=1e-9)
    causal = [np.trace(block(case.dense(0.01, upto=t + 1)[1], t, 2)) for t in range(10)]
    assert (variance[:-1] <= np.array(causal) + 1e-12).all()


@pytest.mark.parametrize("noise", [1e-2, 1e-4])
def test_covariances_stay_positive_and_symmetric_in_long_series(way, noise):
    case = Case(13, steps=400, noise=noise, d=4, regimes=4)
    for q in (1e-5, 0.2):
        matrices = smoothed(case.info.simplex_coordinates, q, case.elapsed)[1][..., 0]
        matrices = matrices.transpose(2, 0, 1)
        largest = np.abs(matrices).max(axis=(1, 2))
        twist = np.abs(matrices - matrices.swapaxes(1, 2)).max(axis=(1, 2))
        assert (twist <= 1e-9 * largest).all()
        assert np.linalg.eigvalsh(matrices).min() > 0


# --- the process noise ------------------------------------------------------------------------


def test_likelihoods_of_the_process_noise_differ_as_those_of_the_dense_gaussian(way):
    case = Case(25, series=3, steps=12, empty=(4,))
    info = case.info.simplex_coordinates
    found = log_likelihoods(info.A, info.b, case.elapsed)
    dense = np.array([[case.dense(10**x, s)[2] for s in range(3)] for x in COARSE])
    np.testing.assert_allclose(found - found[0], dense - dense[0], rtol=1e-8, atol=1e-8)


def test_two_nodes_have_the_moments_of_the_posterior():
    rng = np.random.default_rng(0)
    values, share = rng.standard_normal((30, 4)), rng.dirichlet(np.ones(30), 4).T
    mean, nodes, weights = two_point_quadrature(values, share)
    np.testing.assert_allclose((weights * nodes).sum(0), mean)
    for power in (2, 3):
        expected = ((values - mean) ** power * share).sum(axis=0)
        np.testing.assert_allclose((weights * (nodes - mean) ** power).sum(0), expected)


@pytest.mark.parametrize("steps", [7, 40])
def test_the_average_is_the_integral_over_the_process_noise(steps):
    for seed in range(4):
        case = Case(seed, steps=steps, empty=(2,))
        info = case.info.simplex_coordinates
        found = smooth(info, case.elapsed)
        for t in (0, steps // 2, steps - 1):
            share, mean, spread = mixture(case, 10 ** FINE[::2], t, None)
            # two values stand for all of them
            np.testing.assert_allclose(found.mean[:, t, 0], info.weights(mean), atol=0.02)
            deviation = np.sqrt(info.variances(spread))
            np.testing.assert_allclose(np.sqrt(found.variance[:, t, 0]), deviation, rtol=0.1)
        assert np.log10(found.process_noise[0]) == pytest.approx(share @ FINE[::2], abs=0.05)


@pytest.mark.parametrize(("schedule", "steps"), [("medium", 2000), ("simple", 20_000)])
def test_a_long_series_knows_its_process_noise_as_precisely_as_its_likelihood(schedule, steps):
    info = oracle(schedule, series=1, length=steps)[0].simplex_coordinates
    elapsed = np.ones((1, steps))
    found = np.log10(smooth(info, elapsed).process_noise[0])
    values = np.linspace(found - 0.4, min(found + 0.4, FINE[-1]), 41)
    scores = log_likelihoods(info.A, info.b, elapsed, values)[:, 0] + log_prior(values)
    share = np.exp(scores - logsumexp(scores))
    mean = share @ values
    deviation = np.sqrt(share @ (values - mean) ** 2)
    assert 0.02 < deviation < 0.2
    assert found == pytest.approx(mean, abs=0.1 * deviation)


def test_a_fast_curve_has_more_process_noise_than_a_slow_one():
    rng = np.random.default_rng(0)
    steps, corners = 120, np.eye(3)
    fast = corners[np.arange(steps) % 3]
    slow = np.linspace(corners[0], corners[1], steps)
    values = np.stack([fast, slow]) + 0.05 * rng.standard_normal((2, steps, 3))
    means = np.broadcast_to(corners, (2, steps, 3, 3))
    info = GaussianInformation.from_predictions(means, values, np.eye(3) / 0.05**2)
    found = smooth(info.simplex_coordinates, np.ones((2, steps)))
    assert found.process_noise[0] > 0.1
    assert found.process_noise[1] < 1e-3


def test_series_do_not_influence_each_other(way):
    case = Case(16, series=5, steps=12)
    case.values[2, 4:] = np.nan
    together = smooth(case.info.simplex_coordinates, case.elapsed)
    for s in range(5):
        alone = smooth(case.alone(s).simplex_coordinates, case.elapsed[[s]])
        for part in ("mean", "variance"):
            one, all_ = getattr(alone, part), getattr(together, part)
            np.testing.assert_allclose(one[..., 0], all_[..., s], rtol=0, atol=1e-10)
        assert alone.process_noise[0] == pytest.approx(together.process_noise[s], rel=1e-10)


def test_padding_at_the_end_changes_nothing():
    case = Case(17, steps=9)
    short = smooth(case.info.simplex_coordinates, case.elapsed)
    pad = ((0, 0), (0, 6), (0, 0))
    values = np.pad(case.values, pad, constant_values=np.nan)
    means = np.pad(case.means, (*pad, (0, 0)), constant_values=np.nan)
    padded = GaussianInformation.from_predictions(means, values, np.linalg.inv(case.covariance))
    elapsed = np.pad(case.elapsed, pad[:2], constant_values=1.0)
    long = smooth(padded.simplex_coordinates, elapsed)
    np.testing.assert_allclose(long.mean[:, :9], short.mean, atol=1e-10)
    np.testing.assert_allclose(long.process_noise, short.process_noise, rtol=1e-10)
