"""The most probable alpha on the simplex: a quadratic programme, solved to its optimum.

    minimise  1/2 beta' H beta - g' beta   subject to   alpha = 1/K + N beta >= 0

H is block tridiagonal, so a primal-dual interior-point method costs a few banded Cholesky
factorisations; all series go through LAPACK in one call, each with its own step length.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from .evidence import Plane
from .statespace import START_SCALE

MAX_ITERATIONS = 60
#: Complementarity and stationarity, relative to the size of the problem, at which it is solved.
TOLERANCE = 1e-9
#: Keeps the products finite when a coordinate is all but zero.
MAX_RATIO = 1e30


@dataclass(frozen=True, eq=False)
class Optimum:
    """The solution with its multipliers, so that optimality can be checked."""

    alpha: np.ndarray  # (S, T, K)
    multipliers: np.ndarray  # (S, T, K), of alpha >= 0
    gap: np.ndarray  # (S,) largest product alpha * multiplier left


def solve(
    plane: Plane,
    drift: float | np.ndarray,
    elapsed: np.ndarray,
    start_precision: float = START_SCALE**-2,
) -> Optimum:
    """Solve the constrained problem of each series; arguments as for the filter."""
    series, steps, _ = plane.b.shape
    regimes = len(plane.basis)
    per_step = np.broadcast_to(np.asarray(drift, float).reshape(-1, 1), (series, 1)) * elapsed
    weight = 1.0 / per_step[:, 1:]  # of the bond between a step and the one before
    scale = 1.0 + np.abs(plane.b).max(axis=(1, 2))
    alpha = np.full((series, steps, regimes), 1.0 / regimes)
    dual = np.broadcast_to(0.1 * scale[:, None, None], alpha.shape).copy()
    open_ = np.arange(series)
    diagonal = _diagonal_blocks(plane, weight, start_precision)
    for _ in range(MAX_ITERATIONS):
        part = _Problem(diagonal[open_], plane.b[open_], weight[open_], plane.basis)
        new_alpha, new_dual, error = part.improve(alpha[open_], dual[open_])
        solved = error <= TOLERANCE * scale[open_]
        alpha[open_[~solved]], dual[open_[~solved]] = new_alpha[~solved], new_dual[~solved]
        open_ = open_[~solved]
        if not len(open_):
            break
    else:
        raise FloatingPointError(
            f"{len(open_)} of {series} series missed their optimum in {MAX_ITERATIONS} steps"
        )
    return Optimum(alpha, dual, (alpha * dual).max(axis=(1, 2)))


@dataclass(frozen=True, eq=False)
class _Problem:
    """The programmes of some series, stacked into one chain."""

    diagonal: np.ndarray  # (S, T, m, m)
    linear: np.ndarray  # (S, T, m)
    weight: np.ndarray  # (S, T - 1)
    basis: np.ndarray  # (K, m)

    def improve(
        self, alpha: np.ndarray, dual: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """One predictor-corrector step (Mehrotra); also returns how wrong the start was."""
        basis = self.basis
        beta = (alpha - 1.0 / len(basis)) @ basis
        gradient = _times(self.diagonal, self.weight, beta) - self.linear
        stationarity = dual @ basis - gradient
        gap = (alpha * dual).mean(axis=(1, 2))
        error = np.maximum((alpha * dual).max(axis=(1, 2)), np.abs(stationarity).max(axis=(1, 2)))
        ratio = np.minimum(dual / alpha, MAX_RATIO)
        factor = self._factorise(ratio)
        # predictor: straight at the boundary; it tells how much centring is needed
        d_alpha = self._solve(factor, -gradient) @ basis.T
        d_dual = -dual - ratio * d_alpha
        far = np.minimum(_room(alpha, d_alpha), _room(dual, d_dual))
        after = ((alpha + far * d_alpha) * (dual + far * d_dual)).mean(axis=(1, 2))
        centre = ((after / gap) ** 3 * gap)[:, None, None]
        # corrector: second-order term of the products, and the centring
        # (damped by how far the predictor could go: without that the steps can fall into a cycle)
        target = (centre - far**2 * d_alpha * d_dual) / alpha
        d_alpha = self._solve(factor, target @ basis - gradient) @ basis.T
        d_dual = target - dual - ratio * d_alpha
        far = 0.995 * np.minimum(_room(alpha, d_alpha), _room(dual, d_dual))
        return alpha + far * d_alpha, dual + far * d_dual, error

    def _factorise(self, ratio: np.ndarray) -> np.ndarray:
        """Banded Cholesky factor of the whole chain of series, lower form (m + 1, S T m)."""
        series, steps, m = self.linear.shape
        products = (self.basis[:, :, None] * self.basis[:, None, :]).reshape(len(self.basis), -1)
        flat = self.diagonal.reshape(-1, m, m) + (ratio @ products).reshape(-1, m, m)
        band = np.zeros((series * steps, m, m + 1))  # LAPACK's column order, transposed
        for j in range(m):
            band[:, j, : m - j] = flat[:, j:, j]
        bonds = np.zeros((series, steps, 1))  # nothing couples one series to the next
        bonds[:, :-1, 0] = -self.weight
        band[:, :, m] = bonds.reshape(-1, 1)
        factor, info = lapack.dpbtrf(band.reshape(-1, m + 1).T, lower=1, overwrite_ab=1)
        if info:
            raise np.linalg.LinAlgError("the smoothing problem is not positive definite")
        return factor

    def _solve(self, factor: np.ndarray, right: np.ndarray) -> np.ndarray:
        solution, _ = lapack.dpbtrs(factor, right.reshape(-1), lower=1)
        return solution.reshape(right.shape)


def _diagonal_blocks(plane: Plane, weight: np.ndarray, start: float) -> np.ndarray:
    """Diagonal blocks of H: evidence, start and the bonds to both neighbours."""
    series, steps, m = plane.b.shape
    pull = np.zeros((series, steps))
    pull[:, 0] = start
    pull[:, 1:] += weight
    pull[:, :-1] += weight
    return plane.A + pull[..., None, None] * np.eye(m)


def _times(diagonal: np.ndarray, weight: np.ndarray, beta: np.ndarray) -> np.ndarray:
    out = (diagonal @ beta[..., None])[..., 0]
    out[:, 1:] -= weight[..., None] * beta[:, :-1]
    out[:, :-1] -= weight[..., None] * beta[:, 1:]
    return out


def _room(x: np.ndarray, step: np.ndarray) -> np.ndarray:
    """How far each series can go before a coordinate reaches zero, at most 1: (S, 1, 1)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        limit = np.where(step < 0, -x / step, np.inf)
    return np.minimum(1.0, limit.min(axis=(1, 2)))[:, None, None]
