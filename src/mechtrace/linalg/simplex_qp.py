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
from .chain import Held, bonds, solution
from .evidence import Plane
from .statespace import START_SCALE

MAX_ROUNDS = 40
#: Stationarity, relative to the size of the problem, at which a series is solved.
TOLERANCE = 1e-9
#: Weight of the pull to zero on weights that are held there, relative to the chain's own.
#: Much less needs another round to make it exact, much more costs digits.
HOLD = 1e6
#: Solved series are dropped when they are this share of those that are worked on.
DROP = 0.2


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
    beta = solution(A, b, bond) if guess is None else _product(plane.basis.T, guess.T)
    problem = _Guess(A, b, bond, plane.basis, beta)
    alpha = np.empty((len(plane.basis), *b.shape[1:]))
    dual = np.empty_like(alpha)
    for _ in range(MAX_ROUNDS):
        problem.improve()
        if problem.solved.mean() >= DROP or problem.solved.all():
            problem.hand_over(alpha, dual)
        if not len(problem.which):
            break
    else:
        rest = problem.which
        alpha[:, :, rest], dual[:, :, rest] = interior.solve(
            A[..., rest], b[..., rest], bond[..., rest], plane.basis, problem.tolerance
        )
    gap = (alpha * dual).max(axis=(0, 1))
    return Optimum(alpha.transpose(2, 1, 0), dual.transpose(2, 1, 0), gap)


class _Guess:
    """Some series, which weights are thought to be zero, and the best point if they are."""

    def __init__(
        self, A: np.ndarray, b: np.ndarray, bond: np.ndarray, basis: np.ndarray, beta: np.ndarray
    ) -> None:
        self.A, self.b, self.bond, self.basis = A, b, bond, basis
        self.which = np.arange(b.shape[2])
        self.solved = np.zeros(b.shape[2], bool)
        self.tolerance = TOLERANCE * (1.0 + np.abs(b).max(axis=(0, 1)))
        stiffness = np.einsum("iits->ts", A) + bond[1:] + bond[:-1]
        self.hold = HOLD * stiffness
        self.slack = np.minimum(0.1 * self.tolerance / stiffness, 1e-12)
        alpha = _product(basis, beta) + 1.0 / len(basis)
        self.dual = np.zeros(alpha.shape)
        self.held = _lowest(alpha, self.slack)
        self._move_to(alpha)

    def improve(self) -> None:
        """The best point with the held weights at zero, and from it a new guess."""
        pull = self.held * self.hold
        right = _product(self.basis.T, self.dual) - self.gradient
        outer = (self.basis[:, :, None] * self.basis[:, None, :]).reshape(len(pull), -1).T
        step = _product(self.basis, solution(self.A, right, self.bond, Held(outer, pull)))
        alpha, dual = self.alpha, self.dual
        alpha += step
        step *= pull
        dual -= step
        wrong = dual < -0.1 * self.tolerance
        below = _lowest(alpha, self.slack)
        below &= ~self.held
        settled = ~(wrong | below).any(axis=(0, 1))
        np.maximum(dual, 0.0, out=dual)
        self.held ^= wrong
        self.held |= below
        self._move_to(alpha)
        left = np.abs(self.gradient - _product(self.basis.T, dual)).max(axis=(0, 1))
        self.solved = settled & (left <= self.tolerance)

    def hand_over(self, alpha: np.ndarray, dual: np.ndarray) -> None:
        """Write the solved series to where they belong, and keep the others."""
        done = self.which[self.solved]
        inside = np.maximum(np.compress(self.solved, self.alpha, axis=-1), 0.0)
        alpha[:, :, done] = inside / inside.sum(axis=0)
        dual[:, :, done] = np.compress(self.solved, self.dual, axis=-1)
        rest = ~self.solved
        for name, value in vars(self).items():
            if name != "basis":
                setattr(self, name, np.compress(rest, value, axis=-1))

    def _move_to(self, alpha: np.ndarray) -> None:
        """Take a point, with the held weights at zero and the sum at one."""
        np.copyto(alpha, 0.0, where=self.held)
        alpha /= alpha.sum(axis=0)
        self.alpha = alpha
        self.gradient = self._gradient(_product(self.basis.T, alpha))

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
