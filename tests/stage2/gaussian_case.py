"""The random walk on the simplex plane against dense Gaussian algebra."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

import mechtrace as mt
from mechtrace.recover import chain, small, smoother
from mechtrace.recover.engine import Answer, nearest_on_simplex, state_space
from mechtrace.recover.evidence import Evidence, Plane
from mechtrace.recover.simplex import plane_basis
from mechtrace.recover.smoother import FINE, given_drift, smooth
from mechtrace.recover.statespace import (
    DRIFTS,
    JUDGED_DRIFT,
    START_SCALE,
    Filter,
    causal_average,
    drift_prior,
    run_filter,
    surprise,
)

seeds = st.integers(0, 2**31)


class Case:
    """Random predictions and values, with the dense joint Gaussian of what follows from them."""

    def __init__(
        self,
        seed: int = 0,
        series: int = 1,
        steps: int = 6,
        regimes: int = 3,
        d: int = 2,
        empty: tuple[int, ...] = (),
        noise: float = 0.3,
    ) -> None:
        rng = np.random.default_rng(seed)
        self.means = rng.standard_normal((series, steps, regimes, d))
        weights = rng.dirichlet(np.ones(regimes), size=(series, steps))
        self.values = np.einsum("stk,stkd->std", weights, self.means)
        self.values += noise * rng.standard_normal(self.values.shape)
        self.values[:, list(empty)] = np.nan
        root = rng.standard_normal((d, d))
        self.covariance = noise**2 * (root @ root.T + 0.5 * np.eye(d))
        self.elapsed = rng.uniform(0.2, 4.0, (series, steps))
        self.basis = plane_basis(regimes)

    @property
    def evidence(self) -> Evidence:
        return Evidence.of_block(self.means, self.values, np.linalg.inv(self.covariance))

    def alone(self, s: int) -> Evidence:
        """One of the series."""
        precision = np.linalg.inv(self.covariance)
        return Evidence.of_block(self.means[[s]], self.values[[s]], precision)

    def dense(self, drift: float, s: int = 0, upto: int | None = None):
        """Mean and covariance of all beta given the rows before `upto`, and log p(rows)."""
        steps, regimes = self.means.shape[1:3]
        m, d = regimes - 1, self.values.shape[-1]
        clock = np.concatenate([[0.0], np.cumsum(self.elapsed[s, 1:])])
        prior = START_SCALE**2 + drift * np.minimum.outer(clock, clock)
        prior = np.kron(prior, np.eye(m))
        seen = [t for t in range(steps if upto is None else upto) if self.known(s, t)]
        if not seen:
            return np.zeros((steps, m)), prior, 0.0
        C = np.zeros((len(seen) * d, steps * m))
        y = np.zeros(len(seen) * d)
        for i, t in enumerate(seen):
            M = self.means[s, t].T
            C[i * d : (i + 1) * d, t * m : (t + 1) * m] = M @ self.basis
            y[i * d : (i + 1) * d] = self.values[s, t] - M.mean(axis=1)
        joint = C @ prior @ C.T + np.kron(np.eye(len(seen)), self.covariance)
        gain = np.linalg.solve(joint, C @ prior).T
        fit = -0.5 * (
            y @ np.linalg.solve(joint, y)
            + np.linalg.slogdet(joint)[1]
            + len(y) * np.log(2 * np.pi)
        )
        return (gain @ y).reshape(steps, m), prior - gain @ C @ prior, fit

    def known(self, s: int, t: int) -> bool:
        return bool(np.isfinite(self.values[s, t]).all())


def smoothed(plane: Plane, drift: float | np.ndarray, elapsed: np.ndarray):
    """Means (T, m, S) and covariances (T, m, m, S) given the whole series."""
    drift = np.broadcast_to(np.asarray(drift, float), (len(elapsed),))
    A, b = plane.by_step()
    parts = list(given_drift(A, b, chain.bonds(drift, elapsed, START_SCALE**-2)))
    mean = np.concatenate([part[1] for part in parts], axis=1)
    covariance = np.concatenate([part[2] for part in parts], axis=2)
    return mean.transpose(1, 0, 2), covariance.transpose(2, 0, 1, 3)


@pytest.fixture(params=["step by step", "banded", "banded in pieces"])
def way(request, monkeypatch):
    """How chains are eliminated: many at a time, few, and few in pieces of three steps."""
    monkeypatch.setattr(chain, "MANY", 0 if request.param == "step by step" else 10**9)
    if request.param == "banded in pieces":
        monkeypatch.setattr(chain, "PIECE", 3)
        monkeypatch.setattr(chain, "BLOCK", 3)


def block(covariance: np.ndarray, t: int, m: int) -> np.ndarray:
    return covariance[t * m : (t + 1) * m, t * m : (t + 1) * m]


# --- many small matrices ----------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(seeds, st.integers(1, 7), st.integers(1, 5) | st.just(small.FEW + 1))
def test_small_inverses_and_products_equal_numpy(seed, m, many):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((many, m, m))
    a = root @ root.swapaxes(1, 2) + 0.1 * np.eye(m)
    before = a.copy()
    found, factors = small.inverse(a.transpose(1, 2, 0))
    log_det = small.log_determinant(factors)
    np.testing.assert_array_equal(a, before)  # the input is left alone
    np.testing.assert_allclose(found.transpose(2, 0, 1), np.linalg.inv(a), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(log_det, np.linalg.slogdet(a)[1], rtol=1e-9, atol=1e-9)
    b, x = rng.standard_normal((many, m, 3)), rng.standard_normal((many, m))
    product = small.product(a.transpose(1, 2, 0), b.transpose(1, 2, 0))
    np.testing.assert_allclose(product.transpose(2, 0, 1), a @ b, rtol=1e-10, atol=1e-10)
    applied = small.apply(a.transpose(1, 2, 0), x.T)
    np.testing.assert_allclose(applied.T, (a @ x[..., None])[..., 0], rtol=1e-10, atol=1e-10)


# --- filter and smoother ----------------------------------------------------------------------

CASES = {
    "plain": Case(1),
    "one step": Case(2, steps=1),
    "two regimes": Case(3, regimes=2),
    "five regimes, one dimension": Case(4, regimes=5, d=1, steps=5),
    "holes": Case(5, steps=9, empty=(0, 3, 4, 8)),
    "strong": Case(6, noise=0.01, d=3),
    "nothing seen": Case(7, steps=4, empty=(0, 1, 2, 3)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("drift", [1e-4, 0.05, 0.5])
def test_the_filter_equals_the_dense_gaussian(name, drift):
    case = CASES[name]
    found = run_filter(case.evidence.on_plane(), drift, case.elapsed)
    steps, m, _ = found.mean.shape
    for t in range(steps):
        mean, covariance, fit = case.dense(drift, upto=t + 1)
        np.testing.assert_allclose(found.mean[t, :, 0], mean[t], rtol=1e-9, atol=1e-9)
        expected = block(covariance, t, m)
        np.testing.assert_allclose(found.covariance[t, :, :, 0], expected, rtol=1e-9, atol=1e-9)
        assert found.log_likelihood[t, 0] == pytest.approx(fit, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("drift", [1e-4, 0.05, 0.5])
def test_the_smoother_equals_the_dense_conditional(way, name, drift):
    case = CASES[name]
    found, spread = smoothed(case.evidence.on_plane(), drift, case.elapsed)
    mean, covariance, _ = case.dense(drift)
    np.testing.assert_allclose(found[:, :, 0], mean, rtol=1e-9, atol=1e-9)
    for t, part in enumerate(spread):
        expected = block(covariance, t, part.shape[0])
        np.testing.assert_allclose(part[:, :, 0], expected, rtol=1e-9, atol=1e-9)


@settings(max_examples=15, deadline=None)
@given(seeds, st.integers(1, 8), st.integers(2, 5), st.floats(-5, -0.5))
def test_random_problems_equal_the_dense_gaussian(seed, steps, regimes, log_drift):
    case = Case(seed, steps=steps, regimes=regimes, d=1 + seed % 3)
    drift = 10**log_drift
    plane = case.evidence.on_plane()
    forward = run_filter(plane, drift, case.elapsed)
    mean, covariance, fit = case.dense(drift)
    found, _ = smoothed(plane, drift, case.elapsed)
    np.testing.assert_allclose(found[:, :, 0], mean, rtol=1e-8, atol=1e-8)
    assert forward.log_likelihood[-1, 0] == pytest.approx(fit, rel=1e-8, abs=1e-8)
    last = block(covariance, steps - 1, regimes - 1)
    np.testing.assert_allclose(forward.covariance[-1, :, :, 0], last, rtol=1e-8, atol=1e-9)


def test_each_series_may_have_its_own_drift_and_clock(way):
    case = Case(8, series=3)
    drift = np.array([1e-3, 0.02, 0.4])
    plane = case.evidence.on_plane()
    found, _ = smoothed(plane, drift, case.elapsed)
    forward = run_filter(plane, drift, case.elapsed)
    for s in range(3):
        mean, _, fit = case.dense(float(drift[s]), s)
        np.testing.assert_allclose(found[:, :, s], mean, rtol=1e-9, atol=1e-9)
        assert forward.log_likelihood[-1, s] == pytest.approx(fit, rel=1e-9)


def test_likelihoods_of_the_drifts_differ_as_those_of_the_filter(way):
    case = Case(25, series=3, steps=12, empty=(4,))
    plane = case.evidence.on_plane()
    found = smoother.log_likelihoods(*plane.by_step(), case.elapsed)
    forward = [run_filter(plane, 10**q, case.elapsed).log_likelihood[-1] for q in smoother.COARSE]
    np.testing.assert_allclose(found - found[0], forward - forward[0], rtol=1e-9, atol=1e-9)


def test_surprise_is_the_filters_prediction_error(way):
    case = Case(26, series=3, steps=12, empty=(0, 4, 5))
    plane = case.evidence.on_plane()
    log_det = np.linalg.slogdet(case.covariance)[1] * (plane.dims > 0)
    found = surprise(plane, case.elapsed, log_det)
    state = Filter(2, 3, JUDGED_DRIFT)
    for t in range(12):
        A, b = plane.A[:, t].transpose(1, 2, 0), plane.b[:, t].T
        squares, _ = state.step(A, b, case.elapsed[:, t])
        if t in (0, 4, 5):
            assert np.isnan(found[:, t]).all()
            continue
        expected = (plane.offset[:, t] - log_det[:, t] + squares) / 2
        np.testing.assert_allclose(found[:, t], expected, rtol=1e-9, atol=1e-9)


@settings(max_examples=15, deadline=None)
@given(seeds, st.integers(1, 40), st.integers(2, 6), st.floats(-5, -0.5))
def test_both_ways_of_elimination_agree(seed, steps, regimes, log_drift):
    case = Case(seed, series=3, steps=steps, regimes=regimes, d=1 + seed % 4)
    A, b = case.evidence.on_plane().by_step()
    bond = chain.bonds(np.full(3, 10**log_drift), case.elapsed, START_SCALE**-2)
    answers = []
    for many in (0, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(chain, "MANY", many)
            past, future = chain.messages(A, b, bond), chain.backwards(A, b, bond)
            sums = chain.eliminate(A, b, bond)
            answers.append([*past, *future, *sums, chain.solution(A, b, bond)])
    size = bond.max() + np.abs(A).max()
    for left, right in zip(*answers, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-13 * size)


def test_stepping_by_hand_equals_the_batch():
    case = Case(9, series=2, empty=(2,))
    plane = case.evidence.on_plane()
    batch = run_filter(plane, 0.03, case.elapsed)
    state = Filter(2, 2, 0.03)
    for t in range(6):
        state.step(
            plane.A[:, t].transpose(1, 2, 0), plane.b[:, t].transpose(1, 0), case.elapsed[:, t]
        )
        np.testing.assert_array_equal(state.mean, batch.mean[t])
        np.testing.assert_array_equal(state.covariance, batch.covariance[t])


def test_empty_steps_are_bridged_and_their_variance_grows():
    case = Case(10, steps=11, empty=(3, 4, 5, 6, 7), noise=0.05, d=3)
    case.elapsed[:] = 1
    forward = run_filter(case.evidence.on_plane(), 0.01, case.elapsed)
    causal = np.trace(forward.covariance[..., 0], axis1=1, axis2=2)
    np.testing.assert_allclose(np.diff(causal[2:8]), 2 * 0.01, rtol=1e-6)  # m q per step
    np.testing.assert_allclose(forward.mean[3:8, :, 0], np.tile(forward.mean[2, :, 0], (5, 1)))
    both, covariance = smoothed(case.evidence.on_plane(), 0.01, case.elapsed)
    spread = np.trace(covariance[..., 0], axis1=1, axis2=2)
    assert (spread[3:8] > max(spread[2], spread[8])).all()
    assert spread[2:9].argmax() == 3  # widest in the middle
    assert (spread[:-1] <= causal[:-1] + 1e-12).all()
    line = np.linspace(both[2, :, 0], both[8, :, 0], 7)  # a straight bridge
    np.testing.assert_allclose(both[2:9, :, 0], line, atol=1e-9)


def test_a_longer_wait_lets_alpha_move_further():
    case = Case(11, steps=2, empty=(1,))
    spread = []
    for wait in (0.5, 1.0, 8.0):
        case.elapsed[0, 1] = wait
        found = run_filter(case.evidence.on_plane(), 0.1, case.elapsed)
        spread.append(found.covariance[1, 0, 0, 0] - found.covariance[0, 0, 0, 0])
    np.testing.assert_allclose(spread, [0.05, 0.1, 0.8], rtol=1e-9)


def test_units_of_the_latents_and_of_time_do_not_matter():
    case = Case(12, steps=8, empty=(4,))
    base = run_filter(case.evidence.on_plane(), 0.02, case.elapsed)
    scaled = Evidence.of_block(
        1000 * case.means, 1000 * case.values, np.linalg.inv(case.covariance) / 1e6
    )
    found = run_filter(scaled.on_plane(), 0.02, case.elapsed)
    np.testing.assert_allclose(found.mean, base.mean, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(found.covariance, base.covariance, rtol=1e-8, atol=1e-9)
    shift = np.log(1000) * np.cumsum(case.evidence.dims[0])  # densities per unit
    np.testing.assert_allclose(
        found.log_likelihood[:, 0], base.log_likelihood[:, 0] - shift, rtol=1e-9
    )
    slower = run_filter(case.evidence.on_plane(), 0.02 / 60, 60 * case.elapsed)
    np.testing.assert_allclose(slower.mean, base.mean, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("noise", [1e-2, 1e-4])
def test_covariances_stay_positive_and_symmetric_in_long_series(way, noise):
    case = Case(13, steps=400, noise=noise, d=4, regimes=4)
    for drift in (1e-5, 0.2):
        matrices = smoothed(case.evidence.on_plane(), drift, case.elapsed)[1][..., 0]
        largest = np.abs(matrices).max(axis=(1, 2))
        twist = np.abs(matrices - matrices.swapaxes(1, 2)).max(axis=(1, 2))
        assert (twist <= 1e-9 * largest).all()
        assert np.linalg.eigvalsh(matrices).min() > 0


# --- averaging over drifts --------------------------------------------------------------------


def mixture(case: Case, drifts: np.ndarray, t: int, upto: int | None):
    """Share of each drift, mean and covariance of beta at a step, by dense algebra."""
    parts = [case.dense(q, upto=upto) for q in drifts]
    score = drift_prior(np.log10(drifts)) + [part[2] for part in parts]
    share = np.exp(score - logsumexp(score))
    mean = sum(w * part[0][t] for w, part in zip(share, parts, strict=True))
    second = sum(
        w * (block(part[1], t, 2) + np.outer(part[0][t], part[0][t]))
        for w, part in zip(share, parts, strict=True)
    )
    return share, mean, second - np.outer(mean, mean)


def test_the_causal_average_is_the_mixture_over_drifts():
    case = Case(14, steps=7, empty=(2,))
    found, drift = causal_average(case.evidence.on_plane(), case.elapsed)
    for t in range(7):
        share, mean, spread = mixture(case, DRIFTS, t, t + 1)
        # drifts of less than a thousandth are left out
        np.testing.assert_allclose(found.mean[0, t], mean, atol=2e-3)
        np.testing.assert_allclose(found.covariance[0, t], spread, atol=4e-3)
    assert np.log(drift[0]) == pytest.approx(share @ np.log(DRIFTS), abs=0.02)


@pytest.mark.parametrize("steps", [7, 40])
def test_the_offline_average_is_the_integral_over_drifts(steps):
    for seed in range(4):
        case = Case(seed, steps=steps, empty=(2,))
        plane = case.evidence.on_plane()
        found = smooth(plane, case.elapsed)
        for t in (0, steps // 2, steps - 1):
            share, mean, spread = mixture(case, 10 ** FINE[::2], t, None)
            # two drifts stand for all of them
            np.testing.assert_allclose(found.mean[0, t], plane.weights(mean), atol=0.02)
            variance = np.einsum("ki,ij,kj->k", plane.basis, spread, plane.basis)
            np.testing.assert_allclose(found.variance[0, t] ** 0.5, variance**0.5, rtol=0.1)
        assert np.log10(found.drift[0]) == pytest.approx(share @ FINE[::2], abs=0.05)


def test_a_fast_curve_has_a_larger_drift_than_a_slow_one():
    rng = np.random.default_rng(0)
    steps, corners = 120, np.eye(3)
    fast = corners[np.arange(steps) % 3]
    slow = np.linspace(corners[0], corners[1], steps)
    values = np.stack([fast, slow]) + 0.05 * rng.standard_normal((2, steps, 3))
    means = np.broadcast_to(corners, (2, steps, 3, 3))
    evidence = Evidence.of_block(means, values, np.eye(3) / 0.05**2)
    found = smooth(evidence.on_plane(), np.ones((2, steps)))
    assert found.drift[0] > 0.1
    assert found.drift[1] < 1e-3


def test_the_causal_average_does_not_know_the_future():
    case = Case(15, series=3, steps=30, empty=(7, 8))
    whole, _ = causal_average(case.evidence.on_plane(), case.elapsed)
    for stop in (1, 5, 8, 20):
        part = Evidence.of_block(
            case.means[:, :stop], case.values[:, :stop], np.linalg.inv(case.covariance)
        )
        found, _ = causal_average(part.on_plane(), case.elapsed[:, :stop])
        np.testing.assert_allclose(found.mean, whole.mean[:, :stop], rtol=0, atol=1e-12)
        np.testing.assert_allclose(
            found.covariance, whole.covariance[:, :stop], rtol=0, atol=1e-12
        )


def test_series_do_not_influence_each_other_in_the_causal_average():
    case = Case(16, series=5, steps=12)
    case.values[2, 4:] = np.nan  # one of them ends early
    together, drift = causal_average(case.evidence.on_plane(), case.elapsed)
    for s in range(5):
        alone, own = causal_average(case.alone(s).on_plane(), case.elapsed[[s]])
        np.testing.assert_allclose(alone.mean[0], together.mean[s], rtol=0, atol=1e-10)
        np.testing.assert_allclose(alone.covariance[0], together.covariance[s], rtol=0, atol=1e-10)
        assert own[0] == pytest.approx(drift[s], rel=1e-10)


def test_series_do_not_influence_each_other_offline(way):
    case = Case(16, series=5, steps=12)
    case.values[2, 4:] = np.nan
    together = smooth(case.evidence.on_plane(), case.elapsed)
    for s in range(5):
        alone = smooth(case.alone(s).on_plane(), case.elapsed[[s]])
        np.testing.assert_allclose(alone.mean[0], together.mean[s], rtol=0, atol=1e-10)
        np.testing.assert_allclose(alone.variance[0], together.variance[s], rtol=0, atol=1e-10)
        assert alone.drift[0] == pytest.approx(together.drift[s], rel=1e-10)


def test_padding_at_the_end_changes_nothing():
    case = Case(17, steps=9)
    short = smooth(case.evidence.on_plane(), case.elapsed)
    pad = ((0, 0), (0, 6), (0, 0))
    values = np.pad(case.values, pad, constant_values=np.nan)
    means = np.pad(case.means, (*pad, (0, 0)), constant_values=np.nan)
    padded = Evidence.of_block(means, values, np.linalg.inv(case.covariance))
    elapsed = np.pad(case.elapsed, pad[:2], constant_values=1.0)
    long = smooth(padded.on_plane(), elapsed)
    np.testing.assert_allclose(long.mean[:, :9], short.mean, atol=1e-10)
    np.testing.assert_allclose(long.drift, short.drift, rtol=1e-10)


# --- the engine -------------------------------------------------------------------------------

MODES = [
    {"causal": causal, "simplex": simplex} for causal in (False, True) for simplex in (False, True)
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", [[2, 0, 1, 3], [3, 2, 1, 0]])
def test_permuted_regimes_give_permuted_weights_and_intervals(mode, order):
    case = Case(18, series=2, steps=15, regimes=4, d=3, empty=(5,))
    base = state_space(case.evidence, case.elapsed, **mode)
    turned = state_space(case.evidence.of(order), case.elapsed, **mode)
    for part in ("alpha", "lower", "upper"):
        left, right = getattr(turned, part), getattr(base, part)[..., order]
        np.testing.assert_allclose(left, right, rtol=0, atol=1e-6)
    np.testing.assert_allclose(turned.drift, base.drift, rtol=1e-8)


@settings(max_examples=12, deadline=None)
@given(seeds, st.integers(1, 12), st.integers(2, 6), st.sampled_from(MODES), st.floats(0.05, 0.99))
def test_weights_lie_inside_their_intervals(seed, steps, regimes, mode, level):
    rng = np.random.default_rng(seed)
    case = Case(seed, series=2, steps=steps, regimes=regimes, noise=float(rng.uniform(0.01, 1)))
    case.values[rng.random((2, steps)) < 0.2] = np.nan
    found = state_space(case.evidence, case.elapsed, level=level, **mode)
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
        state_space(case.evidence, case.elapsed, level=level, **mode) for level in (0.5, 0.9, 0.99)
    ]
    for narrow, wide in pairwise(found):
        np.testing.assert_array_equal(narrow.alpha, wide.alpha)
        assert (wide.lower <= narrow.lower).all()
        assert (wide.upper >= narrow.upper).all()
        assert (wide.upper - wide.lower).mean() > 1.1 * (narrow.upper - narrow.lower).mean()


def test_without_the_simplex_the_answer_is_the_plain_average():
    case = Case(20, steps=10, noise=1.0)
    plane = case.evidence.on_plane()
    found = state_space(case.evidence, case.elapsed, simplex=False)
    average = smooth(plane, case.elapsed)
    np.testing.assert_allclose(found.alpha, average.mean, atol=1e-12)
    half = 1.6448536 * np.sqrt(average.variance)
    np.testing.assert_allclose(found.upper - found.alpha, half, rtol=1e-6)
    np.testing.assert_allclose(found.alpha - found.lower, half, rtol=1e-6)
    bad = Case(21, steps=6, noise=3.0)
    bad.values += 5  # far outside the mixtures
    free = state_space(bad.evidence, bad.elapsed, simplex=False)
    assert free.alpha.min() < 0
    np.testing.assert_allclose(free.alpha.sum(-1), 1, atol=1e-12)


@pytest.mark.parametrize("simplex", [False, True])
def test_causal_answers_do_not_change_with_more_data_and_offline_ones_do(simplex):
    case = Case(22, series=2, steps=20)

    def answers(causal: bool, stop: int) -> Answer:
        part = Evidence.of_block(
            case.means[:, :stop], case.values[:, :stop], np.linalg.inv(case.covariance)
        )
        return state_space(part, case.elapsed[:, :stop], causal=causal, simplex=simplex)

    whole, start = answers(True, 20), answers(True, 8)
    for part in ("alpha", "lower", "upper"):
        left, right = getattr(start, part), getattr(whole, part)[:, :8]
        np.testing.assert_allclose(left, right, rtol=0, atol=1e-9)
    assert np.abs(answers(False, 8).alpha - answers(False, 20).alpha[:, :8]).max() > 1e-3
    # with the same data, the last step of both is the same but for the simplex and for the
    # drifts: seven fixed ones here, two that fit the series there
    if not simplex:
        np.testing.assert_allclose(whole.alpha[:, -1], answers(False, 20).alpha[:, -1], atol=0.05)


def test_causal_intervals_are_wider_than_offline_ones():
    case = Case(23, series=4, steps=25)
    causal = state_space(case.evidence, case.elapsed, causal=True, simplex=False)
    offline = state_space(case.evidence, case.elapsed, simplex=False)
    wide, narrow = causal.upper - causal.lower, offline.upper - offline.lower
    assert wide[:, 2:-2].mean() > 1.2 * narrow[:, 2:-2].mean()


def test_the_nearest_point_under_a_round_gaussian_is_the_projection():
    from mechtrace.recover.simplex import project
    from mechtrace.recover.statespace import Estimate

    plane = Case(24, steps=6, regimes=4).evidence.on_plane()
    mean = np.random.default_rng(3).normal(0, 0.8, (1, 6, 3))
    round_ = Estimate(mean, np.broadcast_to(0.01 * np.eye(3), (1, 6, 3, 3)))
    found = nearest_on_simplex(plane, round_)
    np.testing.assert_allclose(found, project(plane.weights(mean)), atol=1e-6)
    assert (found.min(axis=-1) < 1e-6).any()


# --- with a known world -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def oracle() -> Callable[[str], tuple[Evidence, np.ndarray]]:
    world = mt.worlds.make("paper-positive")

    def make(schedule: str) -> tuple[Evidence, np.ndarray]:
        run = world.transition(schedule, series=60)
        precision = np.eye(world.config.latents) / 0.01
        evidence = Evidence.of_block(run.conditional_means(), run.latents.astype(float), precision)
        return evidence, np.asarray(run.alpha)

    return make


@pytest.mark.parametrize("schedule", ["simple", "medium", "step", "constant"])
def test_ninety_percent_intervals_cover_ninety_percent(oracle, schedule):
    evidence, truth = oracle(schedule)
    found = state_space(evidence, np.ones(evidence.dims.shape))
    slack = 1e-4  # a bound at 0 or 1 that the solver only all but reaches
    inside = (found.lower - slack <= truth) & (truth <= found.upper + slack)
    assert 0.84 <= inside[:, 2:].mean() <= 0.99
    assert (found.upper - found.lower)[:, 2:].mean() < 0.7  # and they say something


def test_coverage_follows_the_level(oracle):
    evidence, truth = oracle("medium")
    cover = []
    for level in (0.5, 0.8, 0.95):
        found = state_space(evidence, np.ones(evidence.dims.shape), level=level, simplex=False)
        cover.append(((found.lower <= truth) & (truth <= found.upper))[:, 2:].mean())
    assert cover == sorted(cover)
    np.testing.assert_allclose(cover, [0.5, 0.8, 0.95], atol=0.08)


@pytest.mark.parametrize("causal", [False, True])
def test_pooled_trials_recover_the_simple_schedule(oracle, causal):
    evidence, truth = oracle("simple")
    found = state_space(evidence.pooled(), np.ones((1, truth.shape[1])), causal=causal)
    got, true = found.alpha[0, 2:], truth[0, 2:]
    assert np.corrcoef(got.ravel(), true.ravel())[0, 1] > (0.98 if not causal else 0.93)
    single = state_space(evidence, np.ones(evidence.dims.shape), causal=causal)
    error = np.abs(single.alpha[:, 2:] - true).mean()
    assert np.abs(got - true).mean() < 0.6 * error  # pooling helps
