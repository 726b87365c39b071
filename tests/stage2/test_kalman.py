"""The Kalman filter against dense Gaussian algebra, and its mixture over the process noise."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from gaussian_case import CASES, Case, block, mixture, oracle
from hypothesis import given, settings
from hypothesis import strategies as st

from mechtrace.stage2.information import GaussianInformation, SimplexCoordinates
from mechtrace.stage2.kalman import (
    GRID,
    LOG_2PI,
    TESTED_PROCESS_NOISE,
    Filtered,
    KalmanFilter,
    causal_average,
    coupling,
    filter_series,
    nis,
)


def filtered(info: SimplexCoordinates, q: float | np.ndarray, elapsed: np.ndarray) -> Filtered:
    """All steps in one piece, with the log likelihood (T, S) up to each in place of log_det."""
    q = np.broadcast_to(np.asarray(q, float), (len(elapsed),))
    blocks = [part for _, part in filter_series(info.A, info.b, coupling(q, elapsed))]
    axes = {"square": 0, "log_det": 0, "covariance": 2}
    whole = Filtered(
        *(
            np.concatenate([getattr(part, name) for part in blocks], axis=axes.get(name, 1))
            for name in Filtered._fields
        )
    )
    constant = info.offset + LOG_2PI * info.dims
    return whole._replace(
        log_det=-0.5 * (np.cumsum(whole.square + constant, axis=0) + whole.log_det)
    )


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("q", [1e-4, 0.05, 0.5])
def test_the_filter_equals_the_dense_gaussian(way, name, q):
    case = CASES[name]
    found = filtered(case.info.simplex_coordinates, q, case.elapsed)
    m, steps, _ = found.mean.shape
    for t in range(steps):
        mean, covariance, fit = case.dense(q, upto=t + 1)
        np.testing.assert_allclose(found.mean[:, t, 0], mean[t], rtol=1e-9, atol=1e-9)
        expected = block(covariance, t, m)
        np.testing.assert_allclose(found.covariance[:, :, t, 0], expected, rtol=1e-9, atol=1e-9)
        assert found.log_det[t, 0] == pytest.approx(fit, rel=1e-9, abs=1e-9)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 8), st.integers(2, 5), st.floats(-5, -0.5))
def test_random_problems_equal_the_dense_gaussian(seed, steps, regimes, log10_q):
    case = Case(seed, steps=steps, regimes=regimes, d=1 + seed % 3)
    found = filtered(case.info.simplex_coordinates, 10**log10_q, case.elapsed)
    _, covariance, fit = case.dense(10**log10_q)
    assert found.log_det[-1, 0] == pytest.approx(fit, rel=1e-8, abs=1e-8)
    last = block(covariance, steps - 1, regimes - 1)
    np.testing.assert_allclose(found.covariance[:, :, -1, 0], last, rtol=1e-8, atol=1e-9)


def test_each_series_may_have_its_own_process_noise_and_clock(way):
    case = Case(8, series=3)
    q = np.array([1e-3, 0.02, 0.4])
    found = filtered(case.info.simplex_coordinates, q, case.elapsed)
    for s in range(3):
        assert found.log_det[-1, s] == pytest.approx(case.dense(float(q[s]), s)[2], rel=1e-9)


@pytest.mark.parametrize("regimes", [2, 3, 4])
def test_row_by_row_equals_whole_series(way, regimes):
    case = Case(9, regimes=regimes, empty=(2,), steps=8)
    info = case.info.simplex_coordinates
    values = np.array([1e-4, 0.03, 0.2])
    state = KalmanFilter(regimes - 1, values)
    whole = [filtered(info, q, case.elapsed) for q in values]
    total = np.zeros((1, 3))
    for t in range(8):
        found = state.update(info.A[:, :, [t]], info.b[:, [t]], case.elapsed[0, t])
        total += found.square + info.offset[t] + LOG_2PI * info.dims[t]
        fit = -0.5 * (total + found.log_det)
        for i, batch in enumerate(whole):
            np.testing.assert_allclose(found.mean[:, 0, i], batch.mean[:, t, 0], rtol=1e-9)
            np.testing.assert_allclose(
                found.covariance[:, :, 0, i], batch.covariance[:, :, t, 0], rtol=1e-9, atol=1e-12
            )
            assert fit[0, i] == pytest.approx(batch.log_det[t, 0], rel=1e-9)


def test_nis_is_the_squared_innovation_over_its_covariance(way):
    case = Case(26, series=3, steps=12, empty=(0, 4, 5))
    found = nis(case.info, case.elapsed)
    m = case.basis.shape[1]
    for s in range(3):
        for t in range(12):
            if t in (0, 4, 5):
                assert np.isnan(found[s, t])
                continue
            mean, covariance, _ = case.dense(TESTED_PROCESS_NOISE, s, upto=t)
            slope = case.means[s, t].T @ case.basis
            error = case.values[s, t] - case.means[s, t].mean(axis=0) - slope @ mean[t]
            expected = slope @ block(covariance, t, m) @ slope.T + case.covariance
            square = error @ np.linalg.solve(expected, error) / len(error)
            assert found[s, t] == pytest.approx(square, rel=1e-8)


def test_the_variance_of_empty_steps_grows_by_the_process_noise():
    case = Case(10, steps=11, empty=(3, 4, 5, 6, 7), noise=0.05, d=3)
    case.elapsed[:] = 1
    found = filtered(case.info.simplex_coordinates, 0.01, case.elapsed)
    variance = np.trace(found.covariance[..., 0])
    np.testing.assert_allclose(np.diff(variance[2:8]), 2 * 0.01, rtol=1e-6)  # m q per step
    np.testing.assert_allclose(found.mean[:, 3:8, 0], np.tile(found.mean[:, 2], (1, 5)))


def test_a_longer_wait_lets_alpha_move_further():
    case = Case(11, steps=2, empty=(1,))
    growth = []
    for wait in (0.5, 1.0, 8.0):
        case.elapsed[0, 1] = wait
        found = filtered(case.info.simplex_coordinates, 0.1, case.elapsed)
        growth.append(found.covariance[0, 0, 1, 0] - found.covariance[0, 0, 0, 0])
    np.testing.assert_allclose(growth, [0.05, 0.1, 0.8], rtol=1e-9)


def test_units_of_the_latents_and_of_time_do_not_matter():
    case = Case(12, steps=8, empty=(4,))
    base = filtered(case.info.simplex_coordinates, 0.02, case.elapsed)
    scaled = GaussianInformation.from_predictions(
        1000 * case.means, 1000 * case.values, np.linalg.inv(case.covariance) / 1e6
    )
    found = filtered(scaled.simplex_coordinates, 0.02, case.elapsed)
    np.testing.assert_allclose(found.mean, base.mean, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(found.covariance, base.covariance, rtol=1e-8, atol=1e-9)
    shift = np.log(1000) * np.cumsum(case.info.dims, axis=0)  # densities per unit
    np.testing.assert_allclose(found.log_det, base.log_det - shift, rtol=1e-9)
    slower = filtered(case.info.simplex_coordinates, 0.02 / 60, 60 * case.elapsed)
    np.testing.assert_allclose(slower.mean, base.mean, rtol=1e-9, atol=1e-12)


# --- averaged over the process noise ----------------------------------------------------------


def test_the_causal_average_is_the_mixture_over_process_noise():
    case = Case(14, steps=7, empty=(2,))
    found = causal_average(case.info.simplex_coordinates, case.elapsed)
    for t in range(7):
        share, mean, spread = mixture(case, 10**GRID, t, t + 1)
        # values with less than a thousandth of the probability are left out
        np.testing.assert_allclose(found.mean[:, t, 0], mean, atol=2e-3)
        np.testing.assert_allclose(found.covariance[:, :, t, 0], spread, atol=4e-3)
        assert np.log10(found.process_noise[t, 0]) == pytest.approx(share @ GRID, abs=0.01)


def test_the_causal_average_does_not_hold_every_process_noise_of_every_step():
    info = oracle("simple", series=1, length=20_000)[0].simplex_coordinates
    elapsed = np.ones((1, 20_000))
    tracemalloc.start()
    found = causal_average(info, elapsed)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # all of it at once would take seven times as much
    assert most < 3 * (found.mean.nbytes + found.covariance.nbytes)


def test_the_causal_average_does_not_know_the_future(way):
    case = Case(15, series=3, steps=30, empty=(7, 8))
    whole = causal_average(case.info.simplex_coordinates, case.elapsed)
    for stop in (1, 5, 8, 20):
        part = GaussianInformation.from_predictions(
            case.means[:, :stop], case.values[:, :stop], np.linalg.inv(case.covariance)
        )
        found = causal_average(part.simplex_coordinates, case.elapsed[:, :stop])
        np.testing.assert_allclose(found.mean, whole.mean[:, :stop], rtol=0, atol=1e-10)
        np.testing.assert_allclose(
            found.covariance, whole.covariance[:, :, :stop], rtol=0, atol=1e-10
        )


def test_series_do_not_influence_each_other():
    case = Case(16, series=5, steps=12)
    case.values[2, 4:] = np.nan  # one of them ends early
    together = causal_average(case.info.simplex_coordinates, case.elapsed)
    for s in range(5):
        alone = causal_average(case.alone(s).simplex_coordinates, case.elapsed[[s]])
        for one, all_ in zip(alone, together, strict=True):
            np.testing.assert_allclose(one[..., 0], all_[..., s], rtol=0, atol=1e-10)
