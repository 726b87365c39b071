"""Every step given the whole series, averaged over how fast alpha may move.

The likelihood of a few drifts tells, interpolated, what is believed of log10(drift). The answer is
then averaged over two drifts that stand for this belief: a single best drift would understate the
uncertainty, most of all for a short series.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicSpline

from . import chain, small
from .chain import backwards, blocks_of, bonds, eliminate, messages
from .evidence import Plane
from .statespace import START_SCALE, drift_prior

#: log10 of the drifts whose likelihood is taken, and the finer ones to which it is interpolated.
COARSE = np.array([-5.0, -3.5, -2.75, -2.0, -1.25, -0.5])
FINE = np.linspace(COARSE[0], COARSE[-1], 46)
_INTERPOLATION = CubicSpline(COARSE, np.eye(len(COARSE)))(FINE)
#: Stands for a variance of zero where it divides: the belief lies on one value.
TINY = 1e-12


@dataclass(frozen=True, eq=False)
class Smoothed:
    """Free of the simplex: mean and variance of each weight, (S, T, K), and the typical drift."""

    mean: np.ndarray
    variance: np.ndarray
    drift: np.ndarray  # (S,)


def smooth(plane: Plane, elapsed: np.ndarray) -> Smoothed:
    """The average over drifts; `elapsed` (S, T) counts the usual steps since the row before."""
    A, b = plane.by_step()
    centre, nodes, shares = believed_drift(log_likelihoods(A, b, elapsed))
    first = np.zeros((len(plane.basis), *b.shape[1:]))
    second = np.zeros_like(first)
    outer = (plane.basis[:, :, None] * plane.basis[:, None, :]).reshape(len(plane.basis), -1)
    # many series: both drifts side by side; few: one after the other, in less memory
    together = [slice(0, 2)] if len(elapsed) >= chain.MANY else [slice(0, 1), slice(1, 2)]
    for some in together:
        bond = bonds(10 ** nodes[some], elapsed, START_SCALE**-2)
        for block, mean, covariance in given_drift(A[:, :, :, None], b[:, :, None], bond):
            shape = (len(first), *mean.shape[1:])
            alpha = plane.basis @ mean.reshape(len(mean), -1) + 1.0 / len(plane.basis)
            square = outer @ covariance.reshape(len(mean) ** 2, -1) + alpha * alpha
            first[:, block] += (shares[some] * alpha.reshape(shape)).sum(axis=2)
            second[:, block] += (shares[some] * square.reshape(shape)).sum(axis=2)
    second -= first**2
    return Smoothed(first.transpose(2, 1, 0), second.transpose(2, 1, 0), 10**centre)


def given_drift(
    A: np.ndarray, b: np.ndarray, bond: np.ndarray
) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Means (m, T, ...) and covariances (m, m, T, ...) of beta, a block of steps at a time."""
    past, future = messages(A, b, bond), backwards(A, b, bond)
    for block in blocks_of(bond):
        precision = A[:, :, block] + past.precision[:, :, block]
        precision += future.precision[:, :, block]
        vector = b[:, block] + past.vector[:, block]
        vector += future.vector[:, block]
        covariance = small.inverse(precision)[0]
        yield block, small.apply(covariance, vector), covariance


def log_likelihoods(A: np.ndarray, b: np.ndarray, elapsed: np.ndarray) -> np.ndarray:
    """Of each drift (Q, S), but for what is the same for all of them."""
    drift = np.repeat(10 ** COARSE[:, None], len(elapsed), axis=1)
    bond = bonds(drift, elapsed, START_SCALE**-2)
    log_det, square = eliminate(A[:, :, :, None], b[:, :, None], bond)
    return 0.5 * (square - log_det + len(b) * np.log(bond[1:-1]).sum(axis=0))


def believed_drift(log_likelihood: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What is believed of log10(drift), given likelihoods (Q, S).

    Its mean (S,), and two values (2, S) with their shares that have the same mean, variance and
    skewness (Gauss quadrature: what is cubic in log10(drift) is averaged exactly).
    """
    scores = _INTERPOLATION @ log_likelihood + drift_prior(FINE)[:, None]
    belief = np.exp(scores - scores.max(axis=0))
    belief /= belief.sum(axis=0)
    centre = FINE @ belief
    away = FINE[:, None] - centre
    variance = (away**2 * belief).sum(axis=0)
    lean = (away**3 * belief).sum(axis=0) / (2 * np.maximum(variance, TINY))
    reach = np.sqrt(variance + lean**2)
    nodes = centre + np.stack([lean - reach, lean + reach])
    low = 0.5 * (1 + lean / np.maximum(reach, TINY))
    return centre, nodes, np.stack([low, 1 - low])
