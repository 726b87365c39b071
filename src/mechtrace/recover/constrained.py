"""The most probable alpha on the simplex: a quadratic programme, solved to its optimum.

    minimise  1/2 beta' H beta - b' beta   subject to   alpha = 1/K + N beta >= 0

with H a chain (see there). Guess which weights are zero, solve with these held at zero, correct
the guess by the signs of weights and multipliers, and so on until it stays: a primal-dual active
set method, at one solution of the chain per guess. A weight that goes below zero over a stretch
of steps is at first held where it is lowest: as a rule that lifts the rest of the stretch, and
the guess settles after four rounds instead of seven. Series that do not settle are left to the
interior-point method.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from . import interior, small
from .chain import bonds, solution
from .evidence import Plane
from .statespace import START_SCALE

MAX_ROUNDS = 40
#: Stationarity, relative to the size of the problem, at which a series is solved.
TOLERANCE = 1e-9
#: Weight of the pull to zero on weights that are held there, relative to the chain's own.
#: Much less needs more rounds to make it exact, much more costs digits.
HOLD = 1e6


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
    guess: np.ndarray | None = None,
) -> Optimum:
    """Solve the constrained problem of each series.

    `drift` is one number or one per series, `elapsed` (S, T) as for the filter; `guess` (S, T, K)
    are weights near the answer, on the plane but not on the simplex.
    """
    A, b = plane.by_step()
    drift = np.broadcast_to(np.asarray(drift, float), (b.shape[2],))
    bond = bonds(drift, elapsed, start_precision)
    beta = solution(A, b, bond) if guess is None else _coordinates(plane.basis, guess.T)
    problem = _Guess(A, b, bond, plane.basis, beta)
    alpha = np.empty((len(plane.basis), *b.shape[1:]))
    dual = np.empty_like(alpha)
    open_ = np.arange(b.shape[2])
    for _ in range(MAX_ROUNDS):
        solved = problem.improve()
        if solved.any():
            done = open_[solved]
            alpha[:, :, done], dual[:, :, done] = problem.of(solved)
            open_, problem = open_[~solved], problem.without(solved)
        if not len(open_):
            break
    else:
        alpha[:, :, open_], dual[:, :, open_] = interior.solve(
            A[..., open_], b[..., open_], bond[..., open_], plane.basis, problem.tolerance
        )
    gap = (alpha * dual).max(axis=(0, 1))
    return Optimum(alpha.transpose(2, 1, 0), dual.transpose(2, 1, 0), gap)


class _Guess:
    """Some series, which weights are thought to be zero, and the best point if they are."""

    def __init__(
        self, A: np.ndarray, b: np.ndarray, bond: np.ndarray, basis: np.ndarray, beta: np.ndarray
    ) -> None:
        self.A, self.b, self.bond, self.basis = A, b, bond, basis
        self.tolerance = TOLERANCE * (1.0 + np.abs(b).max(axis=(0, 1)))
        stiffness = np.einsum("iits->ts", A) + bond[1:] + bond[:-1]
        self.hold = HOLD * stiffness
        self.slack = np.minimum(0.1 * self.tolerance / stiffness, 1e-12)
        self.alpha = _weights(basis, beta)
        self.dual = np.zeros(self.alpha.shape)
        self.held = _lowest(self.alpha, self.slack)
        self.gradient = self._gradient(beta)

    def improve(self) -> np.ndarray:
        """The best point with the held weights at zero, and a new guess; says which are solved."""
        regimes = len(self.basis)
        force = np.where(self.held, self.dual - self.hold * self.alpha, 0.0)
        stiff = (self.held * self.hold).reshape(regimes, -1)
        outer = (self.basis[:, :, None] * self.basis[:, None, :]).reshape(regimes, -1)
        stiffened = self.A + (outer.T @ stiff).reshape(self.A.shape)
        right = _product(self.basis.T, force) - self.gradient
        step = solution(stiffened, right, self.bond)
        alpha = self.alpha + _product(self.basis, step)
        dual = np.where(self.held, self.dual - self.hold * alpha, 0.0)
        alpha[self.held] = 0.0
        held = np.where(self.held, dual > -0.1 * self.tolerance, _lowest(alpha, self.slack))
        settled = (held == self.held).all(axis=(0, 1))
        np.maximum(alpha, 0.0, out=alpha, where=settled)
        alpha /= alpha.sum(axis=0)
        self.alpha = alpha
        self.dual = np.where(held, np.maximum(dual, 0.0), 0.0)
        self.held = held
        self.gradient = self._gradient(_coordinates(self.basis, self.alpha))
        left = np.abs(self.gradient - _product(self.basis.T, self.dual)).max(axis=(0, 1))
        return settled & (left <= self.tolerance)

    def of(self, series: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights and multipliers of a mask of series."""
        return self.alpha[:, :, series], self.dual[:, :, series]

    def without(self, series: np.ndarray) -> _Guess:
        """The other series only."""
        for name, value in vars(self).items():
            if name != "basis":
                setattr(self, name, np.compress(~series, value, axis=-1))
        return self

    def _gradient(self, beta: np.ndarray) -> np.ndarray:
        out = small.apply(self.A, beta)
        out -= self.b
        jump = self.bond[1:-1] * (beta[:, 1:] - beta[:, :-1])
        out[:, 1:] += jump
        out[:, :-1] -= jump
        out[:, 0] += self.bond[0] * beta[:, 0]
        return out


def _lowest(alpha: np.ndarray, slack: np.ndarray) -> np.ndarray:
    """Where a weight is below zero and nowhere lower at the steps beside it."""
    out = alpha < -slack
    out[:, 1:] &= alpha[:, 1:] <= alpha[:, :-1]
    out[:, :-1] &= alpha[:, :-1] <= alpha[:, 1:]
    return out


def _product(matrix: np.ndarray, x: np.ndarray) -> np.ndarray:
    return (matrix @ x.reshape(len(x), -1)).reshape(-1, *x.shape[1:])


def _weights(basis: np.ndarray, beta: np.ndarray) -> np.ndarray:
    return _product(basis, beta) + 1.0 / len(basis)


def _coordinates(basis: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    return _product(basis.T, alpha)
