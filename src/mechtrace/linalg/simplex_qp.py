"""Quadratic programs on a chain of simplexes, solved to their optimum.

    minimise  1/2 beta' H beta - b' beta   subject to   alpha_t = 1/K + N beta_t >= 0

with H block tridiagonal and N the Helmert basis. A primal-dual active-set method: guess which
weights are zero, solve with a stiff penalty on these, correct the guess by the signs of weights
and multipliers, and so on until it stays. Where a weight is below zero over a stretch of steps,
only its minimum is constrained at first: as a rule that lifts the rest of the stretch, and the
guess settles after four rounds instead of seven. Long series start from the solution of a coarser
chain, whose unknowns each stand for a few steps: almost all of the guess is right at once. Series
that do not settle go to a primal-dual interior-point method (Mehrotra), which is slower and always
converges.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..errors import DataError
from . import batched
from .batched import lift
from .block_tridiagonal import Penalty, solve_banded
from .block_tridiagonal import solve as solve_chain

MAX_ROUNDS = 40
MAX_ITERATIONS = 60
#: Stationarity, relative to the size of the problem, at which a series is solved.
TOLERANCE = 1e-9
#: Penalty on weights that are held at zero, relative to the chain's own stiffness. Much less
#: needs another round to make it exact, much more costs digits.
STIFFNESS = 1e6
#: Solved series are dropped when they are this share of those that are worked on.
DROP = 0.2
#: A series of LONG steps or more whose neighbours are coupled over FAR steps starts from a coarser
#: chain (others settle in few rounds anyway), of which one unknown stands for COARSER steps.
LONG, FAR, COARSER = 2000, 10.0, 3
#: A coarse chain is good enough when fewer of its steps than this share are unsettled.
FEW = 0.1
#: Later rounds improve only the steps this near to unsettled ones, and all every so often.
REACH, EVERY = 200, 5
#: Largest dual / alpha of the interior-point method, relative to the chain's own stiffness: more
#: would drown the stiffness in rounding, and the matrix would no longer be positive definite.
MAX_RATIO = 1e10


class Optimum(NamedTuple):
    """The solution with its multipliers, so that optimality can be checked."""

    alpha: np.ndarray  # (K, T, S)
    multipliers: np.ndarray  # (K, T, S), of alpha >= 0


def solve(
    A: np.ndarray,
    b: np.ndarray,
    coupling: np.ndarray,
    basis: np.ndarray,
    guess: np.ndarray | None = None,
) -> Optimum:
    """Solve the program of each series.

    `A` (m, m, T, S), `b` (m, T, S) and `coupling` (T + 1, S) as in `block_tridiagonal`; `basis`
    (K, m) is N; `guess` (K, T, S) are weights near the answer that need not be positive.
    """
    problem = _start(A, b, coupling, basis, guess)
    alpha = np.empty((len(basis), *b.shape[1:]))
    dual = np.empty_like(alpha)
    for i in range(MAX_ROUNDS):
        problem.improve(everywhere=i % EVERY == 0)
        solved = problem.solved
        if solved.mean() >= DROP or solved.all():
            problem.hand_over(alpha, dual)
        if not len(problem.which):
            break
    else:
        rest = problem.which
        alpha[:, :, rest], dual[:, :, rest] = _interior_point(
            A[..., rest], b[..., rest], coupling[..., rest], basis, problem.tolerance
        )
    return Optimum(alpha, dual)


def _start(
    A: np.ndarray,
    b: np.ndarray,
    coupling: np.ndarray,
    basis: np.ndarray,
    guess: np.ndarray | None = None,
) -> _ActiveSet:
    """A first guess: near the free solution, or, for long series, that of a coarser chain."""
    steps = b.shape[1]
    information = max(np.einsum("iits->", A) / A[0].size, 1e-300)
    if steps < LONG or coupling[1:-1].mean() < FAR**2 * information:
        beta = solve_chain(A, b, coupling) if guess is None else lift(basis.T, guess)
        return _ActiveSet(A, b, coupling, basis, beta)
    first = np.arange(0, steps, COARSER)
    centre = np.minimum(first + COARSER // 2, steps - 1)
    coarser = np.zeros((len(first) + 1, b.shape[2]))
    coarser[0] = coupling[0]
    # couplings in a row add up like resistances
    coarser[1:-1] = 1.0 / np.add.reduceat(1.0 / coupling[1:-1], centre[:-1], axis=0)
    coarse = _start(
        np.add.reduceat(A, first, axis=2), np.add.reduceat(b, first, axis=1), coarser, basis
    )
    for _ in range(MAX_ROUNDS):
        coarse.improve()
        if coarse.unsettled.mean() < FEW:
            break
    every = np.arange(steps)
    alpha = np.apply_along_axis(lambda known: np.interp(every, centre, known), 1, coarse.alpha)
    problem = _ActiveSet(A, b, coupling, basis, lift(basis.T, alpha))
    problem.held = np.repeat(coarse.held, COARSER, axis=1)[:, :steps]
    problem._settle(slice(0, steps))
    return problem


class _ActiveSet:
    """Some series, which weights are held at zero, and the best point if they are."""

    def __init__(
        self,
        A: np.ndarray,
        b: np.ndarray,
        coupling: np.ndarray,
        basis: np.ndarray,
        beta: np.ndarray,
    ) -> None:
        self.A, self.b, self.coupling, self.basis = A, b, coupling, basis
        self.which = np.arange(b.shape[2])
        self.tolerance = TOLERANCE * (1.0 + np.abs(b).max(axis=(0, 1)))
        stiffness = _stiffness(A, coupling)
        self.penalty = STIFFNESS * stiffness
        self.slack = np.minimum(0.1 * self.tolerance / stiffness, 1e-12)
        self.alpha = lift(basis, beta) + 1.0 / len(basis)
        self.dual = np.zeros(self.alpha.shape)
        self.gradient = np.empty(b.shape)
        self.held = _negative_minima(self.alpha, self.slack)
        self.unsettled = np.empty(b.shape[1:], bool)
        self._settle(slice(0, b.shape[1]))

    @property
    def solved(self) -> np.ndarray:
        """Whether all steps of a series are settled: (S,)."""
        return np.logical_not(self.unsettled.any(axis=0))

    def improve(self, *, everywhere: bool = True) -> None:
        """The best point with the held weights at zero, and from it a new guess."""
        for steps in self._stretches(everywhere):
            self._improve(steps)

    def _stretches(self, everywhere: bool) -> list[slice]:
        """All steps, or those around what is unsettled if these are few."""
        steps = len(self.unsettled)
        if everywhere or steps < LONG:
            return [slice(0, steps)]
        where = np.flatnonzero(self.unsettled.any(axis=1))
        breaks = np.flatnonzero(np.diff(where) > 2 * REACH)
        first = np.maximum(where[np.r_[0, breaks + 1]] - REACH, 0)
        last = np.minimum(where[np.r_[breaks, len(where) - 1]] + REACH, steps)
        if (last - first).sum() > 0.5 * steps:
            return [slice(0, steps)]
        return [slice(*ends) for ends in zip(first, last, strict=True)]

    def _improve(self, steps: slice) -> None:
        """Improve some steps, given those beside them."""
        held, dual, alpha = self.held[:, steps], self.dual[:, steps], self.alpha[:, steps]
        penalty = held * self.penalty[steps]
        right = lift(self.basis.T, dual) - self.gradient[:, steps]
        coupling = self.coupling[steps.start : steps.stop + 1]
        stiff = Penalty.of_rows(self.basis, penalty)
        step = lift(self.basis, solve_chain(self.A[:, :, steps], right, coupling, stiff))
        alpha += step
        step *= penalty
        dual -= step
        wrong = dual < -0.1 * self.tolerance
        below = _negative_minima(alpha, self.slack[steps])
        below &= ~held
        np.maximum(dual, 0.0, out=dual)
        held ^= wrong
        held |= below
        self._settle(steps)
        self.unsettled[steps] |= (wrong | below).any(axis=0)

    def hand_over(self, alpha: np.ndarray, dual: np.ndarray) -> None:
        """Write the solved series to where they belong, and keep the others."""
        solved = self.solved
        done = self.which[solved]
        inside = np.maximum(np.compress(solved, self.alpha, axis=-1), 0.0)
        alpha[:, :, done] = inside / inside.sum(axis=0)
        dual[:, :, done] = np.compress(solved, self.dual, axis=-1)
        for name, value in vars(self).items():
            if name != "basis":
                setattr(self, name, np.compress(~solved, value, axis=-1))

    def _settle(self, steps: slice) -> None:
        """Held weights to zero and sums to one; which steps are then not in balance."""
        alpha = self.alpha[:, steps]
        np.copyto(alpha, 0.0, where=self.held[:, steps])
        alpha /= alpha.sum(axis=0)
        # the steps beside these feel the change; their gradient needs one more on each side
        total = len(self.unsettled)
        first, last = max(steps.start - 1, 0), min(steps.stop + 1, total)
        near = slice(max(first - 1, 0), min(last + 1, total))
        gradient = _gradient(
            self.A[:, :, near], self.b[:, near], self.coupling[near.start : near.stop + 1],
            lift(self.basis.T, self.alpha[:, near]),
        )[:, first - near.start : last - near.start]  # fmt: skip
        self.gradient[:, first:last] = gradient
        gradient -= lift(self.basis.T, self.dual[:, first:last])
        self.unsettled[first:last] = np.abs(gradient).max(axis=0) > self.tolerance


def _gradient(A: np.ndarray, b: np.ndarray, coupling: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """H beta - b."""
    out = batched.apply(A, beta)
    out -= b
    jump = coupling[1:-1] * (beta[:, 1:] - beta[:, :-1])
    out[:, 1:] += jump
    out[:, :-1] -= jump
    out[:, 0] += coupling[0] * beta[:, 0]
    return out


def _stiffness(A: np.ndarray, coupling: np.ndarray) -> np.ndarray:
    """How firmly each step is held in place: (T, S)."""
    return np.einsum("iits->ts", A) + coupling[1:] + coupling[:-1]


def _negative_minima(alpha: np.ndarray, slack: np.ndarray) -> np.ndarray:
    """Where a weight is below zero and nowhere lower at the steps beside it."""
    out = alpha < -slack
    out[:, 1:] &= alpha[:, 1:] <= alpha[:, :-1]
    out[:, :-1] &= alpha[:, :-1] <= alpha[:, 1:]
    return out


def _interior_point(
    A: np.ndarray, b: np.ndarray, coupling: np.ndarray, basis: np.ndarray, tolerance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Alpha and multipliers (K, T, S); `tolerance` is (S,)."""
    alpha = np.full((len(basis), *b.shape[1:]), 1.0 / len(basis))
    dual = np.broadcast_to(0.1 * (1.0 + np.abs(b).max(axis=(0, 1))), alpha.shape).copy()
    left = np.arange(b.shape[2])
    for _ in range(MAX_ITERATIONS):
        new_alpha, new_dual, error = _mehrotra_step(
            A[..., left], b[..., left], coupling[..., left], basis, alpha[..., left],
            dual[..., left],
        )  # fmt: skip
        more = error > tolerance[left]
        left = left[more]
        if not len(left):
            return alpha, dual
        alpha[..., left], dual[..., left] = new_alpha[..., more], new_dual[..., more]
    raise DataError(
        f"the quadratic program of {len(left)} of {b.shape[2]} recordings is ill-conditioned",
        fix="look for channels that never vary, or recover without estimating an offset",
    )


def _mehrotra_step(
    A: np.ndarray,
    b: np.ndarray,
    coupling: np.ndarray,
    basis: np.ndarray,
    alpha: np.ndarray,
    dual: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One predictor-corrector step of each series; also returns the error (S,) at its start."""
    gradient = _gradient(A, b, coupling, lift(basis.T, alpha))
    stationarity = np.abs(lift(basis.T, dual) - gradient).max(axis=(0, 1))
    error = np.maximum((alpha * dual).max(axis=(0, 1)), stationarity)
    ratio = np.minimum(dual / alpha, MAX_RATIO * _stiffness(A, coupling))
    barrier = Penalty.of_rows(basis, ratio)
    # predictor: straight at the boundary; it tells how much centring is needed
    d_alpha = lift(basis, solve_banded(A, -gradient, coupling, barrier))
    d_dual = -dual - ratio * d_alpha
    length = np.minimum(_step_length(alpha, d_alpha), _step_length(dual, d_dual))
    gap = (alpha * dual).mean(axis=(0, 1))
    after = ((alpha + length * d_alpha) * (dual + length * d_dual)).mean(axis=(0, 1))
    # corrector: second-order term of the products, damped against cycles, and the centring
    target = ((after / gap) ** 3 * gap - length**2 * d_alpha * d_dual) / alpha
    right = lift(basis.T, target) - gradient
    d_alpha = lift(basis, solve_banded(A, right, coupling, barrier))
    d_dual = target - dual - ratio * d_alpha
    length = 0.995 * np.minimum(_step_length(alpha, d_alpha), _step_length(dual, d_dual))
    return alpha + length * d_alpha, dual + length * d_dual, error


def _step_length(x: np.ndarray, step: np.ndarray) -> np.ndarray:
    """How far each series can go before a coordinate reaches zero, at most 1: (S,)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        limit = np.where(step < 0, -x / step, np.inf)
    return np.minimum(1.0, limit.min(axis=(0, 1)))
