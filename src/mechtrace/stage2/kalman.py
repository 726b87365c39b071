"""Kalman filter in information form, of many series at once or row by row, and its innovations.

    beta_{t+1} = beta_t + w_t,   w_t ~ N(0, q elapsed_t I),   log10(q) ~ N(-2, 0.75^2)

with information (A_t, b_t) about beta_t. The causal answer is a mixture over the process noise q.
Layout: see `linalg`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from ..linalg import batched
from ..linalg.block_tridiagonal import Messages, forward_messages, propagate, random_walk_coupling
from ..linalg.simplex import helmert_basis
from .information import GaussianInformation, SimplexCoordinates

LOG_2PI = float(np.log(2 * np.pi))
#: Prior deviation of beta at the first step: covers the simplex, favours no corner.
START_SCALE = 0.7
#: Mean and deviation of log10(q) a priori: a change takes some tens of steps. A short series says
#: little about its own process noise; a long one overrules this.
PRIOR = (-2.0, 0.75)
#: log10 of the fixed grid of the causal posterior: from almost constant to jumps of half the
#: simplex per step.
GRID = np.arange(-5.0, -0.4, 0.75)
#: Process noise of the filter of `nis`; the same for pure and mixed series.
TESTED_PROCESS_NOISE = 1e-2
#: A value of q with less than this share of the probability is left out of the mixture.
NEGLIGIBLE = 1e-3
#: Process noise of the filter of `Innovations`. Generous, so that no fast change of alpha passes
#: for a foreign mechanism; the price in power is small.
PROCESS_NOISE = 0.1
#: Rows worked on at once; bounds memory for many series.
CHUNK_ROWS = 1 << 14


def coupling(process_noise: np.ndarray, elapsed: np.ndarray) -> np.ndarray:
    """Couplings (T + 1, ..., S) of the random walk with process noise (..., S)."""
    return random_walk_coupling(process_noise, elapsed, START_SCALE**-2)


def log_prior(log10_q: np.ndarray) -> np.ndarray:
    """Log density of log10(q) a priori, up to a constant."""
    return -0.5 * ((log10_q - PRIOR[0]) / PRIOR[1]) ** 2


def probabilities(log10_q: np.ndarray, log_likelihood: np.ndarray) -> np.ndarray:
    """Posterior probability of each value of q (first axis)."""
    shape = (*log10_q.shape, *[1] * (log_likelihood.ndim - log10_q.ndim))
    return np.asarray(softmax(log_likelihood + log_prior(log10_q).reshape(shape), axis=0))


class Filtered(NamedTuple):
    """Filtered moments of beta in a block of steps, and the terms of their likelihood.

    -2 log p(z_0 ... z_t) = sum_t (square_t + constant_t) + log_det_t
    """

    predicted: np.ndarray  # (m, T, ...) mean given the steps before
    mean: np.ndarray  # (m, T, ...)
    covariance: np.ndarray  # (m, m, T, ...)
    square: np.ndarray  # (T, ...) squared normalised innovation, less y' R^-1 y
    log_det: np.ndarray  # (T, ...) sum of log |I + C A|, C the predicted covariances so far


def _update(
    A: np.ndarray, b: np.ndarray, message: Messages, before: np.ndarray, log_det: np.ndarray
) -> Filtered:
    """Add information to the predicted one (overwritten).

    `before` is the mean of the step before, `log_det` the part of it that the steps before tell.
    """
    precision, vector, _ = message
    precision += A
    vector += b
    covariance, factors = batched.inverse(precision)
    mean = batched.apply(covariance, vector)
    predicted = np.concatenate([before, mean[:, :-1]], axis=1)
    score = b - batched.apply(A, predicted)
    square = -((b + score) * predicted).sum(axis=0)
    square -= (score * (mean - predicted)).sum(axis=0)
    log_det = log_det + batched.log_determinant(factors)
    return Filtered(predicted, mean, covariance, square, log_det)


def filter_series(
    A: np.ndarray, b: np.ndarray, chain: np.ndarray
) -> Iterator[tuple[slice, Filtered]]:
    """Filter whole series, a block of steps at a time; `chain` has the couplings (T + 1, ...)."""
    before, pivot = np.zeros((len(b), 1, *chain.shape[1:])), np.zeros((1, *chain.shape[1:]))
    total = np.zeros(chain.shape[1:])
    for steps, message in forward_messages(A, b, chain):
        log_pivot = np.asarray(message.log_pivot)
        passed = np.concatenate([pivot, log_pivot[:-1]]) - len(b) * np.log(chain[steps])
        passed = total + np.cumsum(passed, axis=0)
        found = _update(A[:, :, steps], b[:, steps], message, before, passed)
        before, pivot, total = found.mean[:, -1:], log_pivot[-1:], passed[-1]
        yield steps, found


class KalmanFilter:
    """The same filter row by row, for several values of the process noise q (...)."""

    def __init__(self, m: int, process_noise: np.ndarray) -> None:
        self.process_noise = process_noise
        eye = np.eye(m).reshape(m, m, 1, *[1] * process_noise.ndim)
        start = np.full((1, *process_noise.shape), START_SCALE**-2)
        self.message = Messages(eye * start, np.zeros((m, *start.shape)))
        self.mean = np.zeros((m, *start.shape))
        self.log_det = -m * np.log(start)
        self.started = False

    def update(self, A: np.ndarray, b: np.ndarray, elapsed: float) -> Filtered:
        """Take one row, (m, m, 1, ...) and (m, 1, ...)."""
        if self.started:
            link = 1.0 / (self.process_noise * elapsed)
            self.message, _, factors = propagate(*self.message[:2], link)
            self.log_det += batched.log_determinant(factors) - len(b) * np.log(link)
        self.started = True
        found = _update(A, b, self.message, self.mean, self.log_det)
        self.mean = found.mean
        return found


def nis(info: GaussianInformation, elapsed: np.ndarray) -> np.ndarray:
    """Squared normalised innovation (one-step prediction error) per dimension, (S, T).

    About 1 if the model holds; NaN where nothing was observed. `elapsed` (S, T) counts the usual
    steps since the row before.
    """
    plane = info.simplex_coordinates
    chain = coupling(np.full(len(elapsed), TESTED_PROCESS_NOISE), elapsed)
    square = plane.offset - info.log_det
    for steps, found in filter_series(plane.A, plane.b, chain):
        square[steps] += found.square
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(plane.dims > 0, (square / plane.dims).clip(0.0), np.nan).T


class Mixture(NamedTuple):
    """Moments of beta, averaged over the posterior of the process noise."""

    mean: np.ndarray  # (m, T, S)
    covariance: np.ndarray  # (m, m, T, S)
    process_noise: np.ndarray  # (T, S) geometric mean


def average_over_process_noise(found: Filtered, quadratic: np.ndarray) -> Mixture:
    """Mix the filters of q = 10**GRID (..., Q, S); `quadratic` (T, Q, S) sums square + constant.

    Each q is weighed by the likelihood of the observations up to the step, so nothing of the
    future is used, not even the process noise.
    """
    share = probabilities(GRID, -0.5 * (quadratic + found.log_det).swapaxes(0, 1))
    share[share < NEGLIGIBLE] = 0.0
    share /= share.sum(axis=0)
    first = np.zeros(found.mean[:, :, 0].shape)
    second = np.zeros(found.covariance[:, :, :, 0].shape)
    for i, w in enumerate(share):
        if w.any():
            mean = found.mean[:, :, i]
            first += w * mean
            second += w * (found.covariance[:, :, :, i] + mean[:, None] * mean)
    second -= first[:, None] * first
    return Mixture(first, second, 10 ** np.einsum("q,qts->ts", GRID, share))


def causal_average(info: SimplexCoordinates, elapsed: np.ndarray) -> Mixture:
    """Moments of beta at every step given the steps up to it."""
    m, steps, series = info.b.shape
    chain = coupling(np.repeat(10.0 ** GRID[:, None], series, axis=1), elapsed)
    constant = (info.offset + LOG_2PI * info.dims)[:, None]
    out = Mixture(
        np.empty((m, steps, series)), np.empty((m, m, steps, series)), np.empty((steps, series))
    )
    total = np.zeros(chain.shape[1:])
    for block, found in filter_series(info.A[:, :, :, None], info.b[:, :, None], chain):
        quadratic = total + np.cumsum(found.square + constant[block], axis=0)
        total = quadratic[-1]
        part = average_over_process_noise(found, quadratic)
        out.mean[:, block], out.covariance[:, :, block] = part.mean, part.covariance
        out.process_noise[block] = part.process_noise
    return out


@dataclass(frozen=True, eq=False)
class Observed:
    """What stage 2 saw of one recording, or of n trials of one schedule. Views, not copies."""

    values: np.ndarray  # (n, T, p) of the tested observation model
    expected: np.ndarray  # (n, T, K, p): what each regime predicts
    elapsed: np.ndarray  # (T,): usual steps since the row before
    stacking: np.ndarray  # (K, K'): how predictions are recombined for the regimes allowed
    latents: np.ndarray | None = None  # (n, T, d)
    channels: np.ndarray | None = None  # (n, T, c) as recorded
    channel_names: tuple[str, ...] = ()

    def innovations(self, precision: np.ndarray) -> Innovations:
        """Prediction errors of the one filter that all trials share."""
        allowed = self.stacking.T @ self.expected
        return Innovations.of(self.values[None], allowed[None], precision, self.elapsed)


@dataclass(frozen=True, eq=False)
class Innovations:
    """Prediction errors of unit variance, and the latents before them, in units of the noise."""

    error: np.ndarray  # (n, T, d), NaN where there is none
    past: np.ndarray  # (n, T, d)

    @classmethod
    def of(
        cls,
        latents: np.ndarray,
        expected: np.ndarray,
        precision: np.ndarray,
        elapsed: np.ndarray | None = None,
    ) -> Innovations:
        """From latents (G, n, T, d) and predictions (G, n, T, K, d).

        The n trials of a group share one alpha; groups do not. Everything is made white by
        `precision` first, so that linear maps of the latents change nothing.
        """
        root = np.linalg.cholesky(precision)
        groups, trials, steps, d = latents.shape
        size = max(1, CHUNK_ROWS // max(trials * steps, 1))
        parts = [
            _normalised(latents[g : g + size] @ root, expected[g : g + size] @ root, elapsed)
            for g in range(0, groups, size)
        ]
        past = np.full(latents.shape, np.nan)
        past[:, :, 1:] = latents[:, :, :-1] @ root
        error = np.concatenate(parts)
        error[~np.isfinite(past).all(axis=-1)] = np.nan
        return cls(error.reshape(-1, steps, d), past.reshape(-1, steps, d))


def _normalised(z: np.ndarray, means: np.ndarray, elapsed: np.ndarray | None) -> np.ndarray:
    """Innovations (G, n, T, d) of unit variance, of white latents under white predictions."""
    groups, _, steps, d = z.shape
    basis = helmert_basis(means.shape[-2])
    known = np.isfinite(z).all(axis=-1) & np.isfinite(means).all(axis=(-2, -1))
    # the filter of a group starts at its first known step: earlier ones go to the end
    order = (np.arange(steps) + known.any(axis=1).argmax(axis=1)[:, None]) % steps
    rolled = (np.arange(groups)[:, None], slice(None), order)  # (G, T, n, ...)
    waits = np.ones(order.shape) if elapsed is None else elapsed[order]
    there = known[rolled]
    means = np.where(there[..., None, None], means[rolled], 0.0)
    target = np.where(there[..., None], z[rolled], 0.0) - means.mean(axis=-2)
    slope = means.swapaxes(-1, -2) @ basis  # (G, T, n, d, m), zero where not known
    across = slope.swapaxes(-1, -2)
    A = (across @ slope).sum(axis=2).transpose(2, 3, 1, 0)
    b = (across @ target[..., None]).sum(axis=2)[..., 0].transpose(2, 1, 0)
    chain = coupling(np.full(groups, PROCESS_NOISE), waits)
    found = np.empty(target.shape)
    before, eye = np.zeros((*A.shape[:2], 1, groups)), np.eye(len(b))[:, :, None, None]
    for block, filtered in filter_series(A, b, chain):
        predicted = np.concatenate([before, filtered.covariance[:, :, :-1]], axis=2)
        predicted = (predicted + eye / chain[block]).transpose(3, 2, 0, 1)[:, :, None]
        before = filtered.covariance[:, :, -1:]
        mean = filtered.predicted.transpose(2, 1, 0)[:, :, None, :, None]
        gap = target[:, block] - (slope[:, block] @ mean)[..., 0]
        variance = slope[:, block] @ predicted @ across[:, block] + np.eye(d)
        values, vectors = np.linalg.eigh(variance)
        along = (vectors.swapaxes(-1, -2) @ gap[..., None]) / np.sqrt(values)[..., None]
        found[:, block] = (vectors @ along)[..., 0]
    out = np.empty(z.shape)
    out[rolled] = np.where(there[..., None], found, np.nan)
    return out
