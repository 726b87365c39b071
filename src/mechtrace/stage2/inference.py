"""From information about alpha to weights and intervals, for many series at once.

Offline, the marginal likelihood of few values of the process noise q, interpolated over log10(q),
gives the posterior of q; a long series knows q more precisely than knots so far apart can tell,
and gets knots around its own peak. Two values of q then stand for the posterior: a single best
one would understate the uncertainty, most of all for a short series. A fixed-interval smoother
is averaged over both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import ndtr, ndtri

from ..linalg import batched, block_tridiagonal
from ..linalg.block_tridiagonal import (
    backward_messages,
    blocks_of,
    log_det_and_quadratic,
    messages,
)
from ..linalg.simplex_qp import solve
from .information import GaussianInformation, SimplexCoordinates
from .kalman import (
    Mixture,
    causal_average,
    coupling,
    log_prior,
    probabilities,
)

#: log10 of the values whose likelihood is taken, and the finer ones to which it is interpolated.
COARSE = np.array([-5.0, -3.5, -2.75, -2.0, -1.25, -0.5])
FINE = np.linspace(COARSE[0], COARSE[-1], 46)
_INTERPOLATION = CubicSpline(COARSE, np.eye(len(COARSE)))(FINE)
#: Deviation of log10(q) below which these are too far apart.
NARROW = 0.15
#: Seven knots around a peak, half their range, and the points between them: the log likelihood of
#: n steps is n times a function that varies over decades, so they give it to about n 10^-6 nats.
HALF = 0.6
KNOTS, BETWEEN = HALF * np.linspace(-1.0, 1.0, 7), HALF * np.linspace(-1.0, 1.0, 401)
_POLYNOMIAL = np.vander(BETWEEN, 7) @ np.linalg.inv(np.vander(KNOTS, 7))
BOUNDS = COARSE[0] + HALF, COARSE[-1] - HALF
#: Longer series are looked at in so many pieces of so many steps, to find where the peak is.
PIECES, STEPS = 4, 2048
MAX_ROUNDS = 12
#: Stands for a variance of zero where it divides: the posterior lies on one value.
TINY = 1e-12
#: Two values of log10(q) that are closer give the same answer as their mean, to about 1e-5.
CLOSE = 0.05
#: Errors of curves on the simplex over those that the wider posterior without it expects; measured
#: on development seeds of the zoo.
NARROWER = 0.74
#: Probability, a priori, that a share is exactly 0, and that it is exactly 1.
CORNER = 0.2
#: Quantiles that stand for a distribution.
QUANTILES = (np.arange(9) + 0.5) / 9
#: Variance (S, T, K) at alpha (S, T, K) and process noise (S,).
Variance = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class MixturePosterior:
    """Weights of S series of T steps.

    Parameters
    ----------
    alpha, lower, upper : ndarray (S, T, K)
        Weights and the bounds of their intervals.
    process_noise : ndarray (S,)
        Posterior mean of the process noise q of the random walk, on a log scale.
    error : ndarray (S, T, K)
        Expected absolute error of each weight.
    """

    alpha: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    process_noise: np.ndarray
    error: np.ndarray


def state_space(
    info: GaussianInformation,
    elapsed: np.ndarray,
    *,
    causal: bool = False,
    simplex: bool = True,
    level: float = 0.9,
    misfit: Variance | None = None,
    doubt: Variance | None = None,
    extra: Callable[[np.ndarray], np.ndarray] | None = None,
) -> MixturePosterior:
    """Recover alpha under a Gaussian random walk with unknown process noise.

    `elapsed` (S, T) counts the usual steps since the row before: alpha may move further over a
    gap. `causal` filters instead of smoothing. With `simplex` alpha is, offline, the most probable
    curve on the simplex and, causally, at each step its most probable point; else the posterior
    mean. The intervals of coverage `level` come from the posterior without the simplex, cut to it;
    `misfit` gives the variance that the observed prediction errors imply, which counts where it
    exceeds that of the model; `doubt` and `extra` variance to be added, for errors of the
    mechanisms and of the observation models.
    """
    plane = info.simplex_coordinates
    if causal:
        found = causal_average(plane, elapsed)
        free, variance = plane.weights(found.mean), plane.variances(found.covariance)
        process_noise = found.process_noise[-1]
        alpha = nearest_on_simplex(plane, found) if simplex else free
    else:
        free, variance, process_noise = smooth(plane, elapsed)
        chain = coupling(process_noise, elapsed)
        alpha = solve(plane.A, plane.b, chain, plane.basis, free).alpha if simplex else free
    alpha, free, variance = alpha.T, free.T, variance.T
    if misfit is not None:
        variance = np.maximum(variance, misfit(alpha, process_noise))
    if doubt is not None:
        variance = variance + doubt(alpha, process_noise)
    if extra is not None:
        variance = variance + extra(alpha)
    lower, upper = interval(free, variance, level, simplex=simplex)
    error = expected_error(alpha, free, variance, simplex=simplex)
    return MixturePosterior(
        alpha, np.minimum(lower, alpha), np.maximum(upper, alpha), process_noise, error
    )


def expected_error(
    alpha: np.ndarray, mean: np.ndarray, variance: np.ndarray, *, simplex: bool
) -> np.ndarray:
    """Expected |alpha - a| for Gaussian a, by quantiles of a.

    On the simplex a is cut to [0, 1], and may be exactly 0 or 1, each with probability `CORNER` a
    priori: regimes are often pure.
    """
    deviation = np.sqrt(np.maximum(variance, TINY))
    low, high = np.zeros(mean.shape), np.ones(mean.shape)
    if simplex:
        low, high = ndtr(-mean / deviation), ndtr((1 - mean) / deviation)
    between = np.zeros(mean.shape)
    for share in QUANTILES:
        a = mean + deviation * ndtri(np.clip(low + share * (high - low), TINY, 1 - TINY))
        between += np.abs((np.clip(a, 0, 1) if simplex else a) - alpha) / len(QUANTILES)
    if not simplex:
        return between
    at_0, at_1 = (CORNER * _density((end - mean) / deviation) / deviation for end in (0, 1))
    inside = (1 - 2 * CORNER) * np.maximum(high - low, TINY)
    total = at_0 + at_1 + inside
    found = (at_0 * alpha + at_1 * (1 - alpha) + inside * between) / total
    return np.asarray(NARROWER * found)


def _density(x: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)


def response(
    plane: SimplexCoordinates,
    elapsed: np.ndarray,
    change: np.ndarray,
    process_noise: np.ndarray,
) -> np.ndarray:
    """Change (S, T, K) of alpha without the simplex if h changes by `change` (K, T, S).

    By the smoother for a process noise (S,).
    """
    b = batched.lift(plane.basis.T, change)
    beta = block_tridiagonal.solve(plane.A, b, coupling(process_noise, elapsed))
    return batched.lift(plane.basis, beta).T


def nearest_on_simplex(plane: SimplexCoordinates, found: Mixture) -> np.ndarray:
    """Most probable point (K, T, S) of the simplex under the Gaussian of each step alone."""
    m, *shape = found.mean.shape
    precision = batched.inverse(found.covariance.reshape(m, m, 1, -1))[0]
    vector = batched.apply(precision, found.mean.reshape(m, 1, -1))
    uncoupled = np.zeros((2, vector.shape[-1]))
    alpha = solve(precision, vector, uncoupled, plane.basis).alpha
    return alpha.reshape(-1, *shape)


def interval(
    mean: np.ndarray, variance: np.ndarray, level: float, *, simplex: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Central intervals of each weight, cut to [0, 1] on the simplex."""
    half = float(ndtri(0.5 + level / 2)) * np.sqrt(np.maximum(variance, 0.0))
    lower, upper = mean - half, mean + half
    return (np.clip(lower, 0, 1), np.clip(upper, 0, 1)) if simplex else (lower, upper)


class Smoothed(NamedTuple):
    """Without the simplex: mean and variance of each weight (K, T, S), and q."""

    mean: np.ndarray
    variance: np.ndarray
    process_noise: np.ndarray  # (S,)


def smooth(info: SimplexCoordinates, elapsed: np.ndarray) -> Smoothed:
    """Average over q; `elapsed` (S, T) counts the usual steps since the row before."""
    A, b = info.A, info.b
    centre, nodes, shares = two_point_quadrature(*posterior(A, b, elapsed))
    first = np.zeros((len(info.basis), *b.shape[1:]))
    second = np.zeros_like(first)
    # many series: both values of q side by side; few: one after the other, in less memory
    some_nodes = [slice(0, 1), slice(1, 2)]
    if len(elapsed) >= block_tridiagonal.MANY:
        some_nodes = [slice(0, 2)]
    elif np.ptp(nodes, axis=0).max() < CLOSE:
        nodes, shares, some_nodes = centre[None], np.ones((1, len(centre))), [slice(0, 1)]
    for some in some_nodes:
        chain = coupling(10 ** nodes[some], elapsed)
        for steps, mean, covariance in smooth_given(A[:, :, :, None], b[:, :, None], chain):
            alpha = info.weights(mean)
            square = info.variances(covariance) + alpha * alpha
            first[:, steps] += (shares[some] * alpha).sum(axis=2)
            second[:, steps] += (shares[some] * square).sum(axis=2)
    second -= first**2
    return Smoothed(first, second, 10**centre)


def smooth_given(
    A: np.ndarray, b: np.ndarray, chain: np.ndarray
) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Means (m, T, ...) and covariances (m, m, T, ...) given q, a block of steps at a time."""
    past, future = messages(A, b, chain), backward_messages(A, b, chain)
    for steps in blocks_of(chain):
        precision = A[:, :, steps] + past.precision[:, :, steps]
        precision += future.precision[:, :, steps]
        vector = b[:, steps] + past.vector[:, steps]
        vector += future.vector[:, steps]
        covariance = batched.inverse(precision)[0]
        yield steps, batched.apply(covariance, vector), covariance


def log_likelihoods(
    A: np.ndarray, b: np.ndarray, elapsed: np.ndarray, log10_q: np.ndarray = COARSE
) -> np.ndarray:
    """Marginal log likelihood (Q, S) of values (Q,) or (Q, S), up to what all of them share."""
    shape = (len(log10_q), len(elapsed))
    q = 10 ** np.broadcast_to(log10_q.reshape(len(log10_q), -1), shape)
    chain = coupling(q, elapsed)
    log_det, square = log_det_and_quadratic(A[:, :, :, None], b[:, :, None], chain)
    return 0.5 * (square - log_det + len(b) * np.log(chain[1:-1]).sum(axis=0))


def posterior(A: np.ndarray, b: np.ndarray, elapsed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values (N, S) of log10(q) given whole series, and the probability (N, S) of each."""
    steps, series = b.shape[1:]
    if steps <= 2 * PIECES * STEPS:
        values, share = _interpolated(log_likelihoods(A, b, elapsed))
        mean, variance = _moments(values, share)
        left = np.flatnonzero(variance < NARROW**2)
    else:  # a sample of a long series tells where to look
        rows = np.linspace(0, steps - STEPS, PIECES).astype(int) + np.arange(STEPS)[:, None]
        sampled = log_likelihoods(
            A[:, :, rows].reshape(*A.shape[:2], STEPS, -1),
            b[:, rows].reshape(len(b), STEPS, -1),
            elapsed.T[rows].reshape(STEPS, -1).T,
        )
        mean_of_pieces = sampled.reshape(len(COARSE), PIECES, series).mean(axis=1)
        values, share = _interpolated(steps / STEPS * mean_of_pieces)
        mean, left = _moments(values, share)[0], np.arange(series)
    if not len(left):
        return values, share
    out_values = np.concatenate([values, np.repeat(values[-1:], len(BETWEEN) - len(FINE), axis=0)])
    out_share = np.concatenate([share, np.zeros((len(BETWEEN) - len(FINE), series))])
    centre = np.clip(mean[left], *BOUNDS)
    for _ in range(MAX_ROUNDS):
        knots, points = centre + KNOTS[:, None], centre + BETWEEN[:, None]
        likelihood = log_likelihoods(A[..., left], b[..., left], elapsed[left], knots)
        out_values[:, left] = points
        out_share[:, left] = probabilities(points, _POLYNOMIAL @ likelihood)
        wanted = np.clip(_peak(centre, likelihood + log_prior(knots)), *BOUNDS)
        beyond = np.abs(wanted - centre) > HALF
        if not beyond.any():
            break
        centre, left = wanted[beyond], left[beyond]
    return out_values, out_share


def _peak(centre: np.ndarray, score: np.ndarray) -> np.ndarray:
    """Where scores (7, S) at the knots are largest; beyond them, the vertex of a parabola."""
    best = score.argmax(axis=0)
    out = centre + KNOTS[best]
    for first, second, third in ((0, 1, 2), (-1, -2, -3)):
        slope = score[second] - score[first]
        bend = np.minimum(score[third] - 2 * score[second] + score[first], -TINY)
        spacing = KNOTS[second] - KNOTS[first]
        outwards = np.clip(slope / bend - 0.5, 0.0, 2.0 / abs(spacing))  # at most two decades
        at_edge = best == first % len(KNOTS)
        out = np.where(at_edge, centre + KNOTS[first] - outwards * spacing, out)
    return out


def _interpolated(log_likelihood: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    share = probabilities(FINE, _INTERPOLATION @ log_likelihood)
    return np.repeat(FINE[:, None], share.shape[1], axis=1), share


def _moments(values: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance (S,)."""
    mean = (values * share).sum(axis=0)
    return mean, ((values - mean) ** 2 * share).sum(axis=0)


def two_point_quadrature(
    values: np.ndarray, share: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean (S,) of values (N, S) with their probabilities, and two nodes (2, S) with weights.

    The nodes have the same mean, variance and skewness (Gauss quadrature: what is cubic in
    log10(q) is averaged exactly).
    """
    centre, variance = _moments(values, share)
    skew = ((values - centre) ** 3 * share).sum(axis=0) / (2 * np.maximum(variance, TINY))
    spread = np.sqrt(variance + skew**2)
    nodes = centre + np.stack([skew - spread, skew + spread])
    low = 0.5 * (1 + skew / np.maximum(spread, TINY))
    return centre, nodes, np.stack([low, 1 - low])
