"""The programme of `constrained` by a primal-dual interior-point method (Mehrotra).

Slower than active sets, but sure to arrive: it takes the few series on which those do not settle.
H is block tridiagonal, so a step costs one banded Cholesky factorisation; all series go through
LAPACK in one call, each with its own step length.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from ..errors import DataError
from .chain import factorise

MAX_ITERATIONS = 60
#: Keeps the products finite when a coordinate is all but zero.
MAX_RATIO = 1e30


def solve(
    A: np.ndarray, b: np.ndarray, bond: np.ndarray, basis: np.ndarray, tolerance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """alpha and multipliers (K, T, S), from the arrays of `chain`; `tolerance` is (S,)."""
    series, steps = b.shape[2], b.shape[1]
    regimes = len(basis)
    weight = bond[1:-1].T  # of the bond between a step and the one before
    diagonal = A.transpose(3, 2, 0, 1) + (bond[1:] + bond[:-1]).T[..., None, None] * np.eye(len(b))
    linear = b.transpose(2, 1, 0)
    alpha = np.full((series, steps, regimes), 1.0 / regimes)
    start = 0.1 * (1.0 + np.abs(linear).max(axis=(1, 2)))
    dual = np.broadcast_to(start[:, None, None], alpha.shape).copy()
    open_ = np.arange(series)
    for _ in range(MAX_ITERATIONS):
        part = _Problem(diagonal[open_], linear[open_], weight[open_], basis)
        new_alpha, new_dual, error = part.improve(alpha[open_], dual[open_])
        solved = error <= tolerance[open_]
        alpha[open_[~solved]], dual[open_[~solved]] = new_alpha[~solved], new_dual[~solved]
        open_ = open_[~solved]
        if not len(open_):
            return alpha.transpose(2, 1, 0), dual.transpose(2, 1, 0)
    raise DataError(
        f"the curves of {len(open_)} of {series} recordings cannot be computed: what they show is"
        " too certain for numbers of a computer",
        fix="look for channels that never vary, or recover without bias",
    )


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
        """Banded Cholesky factor with the pull of the boundary added, all series in a row."""
        products = (self.basis[:, :, None] * self.basis[:, None, :]).reshape(len(self.basis), -1)
        blocks = self.diagonal + (ratio @ products).reshape(self.diagonal.shape)
        return factorise(blocks.transpose(2, 3, 1, 0), self.weight.T)

    def _solve(self, factor: np.ndarray, right: np.ndarray) -> np.ndarray:
        solution, _ = lapack.dpbtrs(factor, right.reshape(-1), lower=1)
        return solution.reshape(right.shape)


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
