"""Message passing in Gaussian chains, that is, block tridiagonal systems H beta = b.

    beta' H beta = sum_t beta_t' A_t beta_t + c_0 |beta_0|^2 + sum_t c_t |beta_t - beta_{t-1}|^2

Eliminating beta_{t-1} leaves a message to step t, a precision R_t and a vector r_t:

    D = A_{t-1} + R_{t-1} + c_t,   R_t = c_t - c_t^2 D^-1,   r_t = c_t D^-1 (b_{t-1} + r_{t-1})

Filter (A + R), smoother (messages from both sides), likelihood (the D of all steps) and the
solution follow from messages. The coupling c is (T + 1, ...); its last entry, a coupling of the
last step to zero, is 0 in a random walk. Layout: see the package.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from . import batched

#: With fewer chains than this, LAPACK's banded Cholesky is faster than a loop over the steps.
MANY = 300
#: Matrices that LAPACK takes at once: the band stays in the processor's cache.
PIECE = 1 << 13
#: Matrices that are inverted at once; more would leave the cache too.
BLOCK = 1 << 12


class Messages(NamedTuple):
    """What the steps on one side of each step say about it."""

    precision: np.ndarray  # (m, m, T, ...)
    vector: np.ndarray  # (m, T, ...)
    log_pivot: np.ndarray | None = None  # (T, ...) log |D| of each step, of the filter

    @classmethod
    def empty(cls, shape: tuple[int, ...]) -> Messages:
        """To be filled; `shape` is (m, T, ...)."""
        return cls(np.empty((shape[0], *shape)), np.empty(shape))


def random_walk_coupling(
    process_noise: np.ndarray, elapsed: np.ndarray, start_precision: float
) -> np.ndarray:
    """1 / (q elapsed): (T + 1, ..., S) from process noise (..., S) and time steps (S, T)."""
    series, steps = elapsed.shape
    out = np.zeros((steps + 1, *process_noise.shape))
    out[0] = start_precision
    waits = elapsed.T[1:].reshape(steps - 1, *[1] * (process_noise.ndim - 1), series)
    np.divide(1.0, process_noise * waits, out=out[1:-1])
    return out


def propagate(
    precision: np.ndarray, vector: np.ndarray, coupling: np.ndarray
) -> tuple[Messages, np.ndarray, list[np.ndarray]]:
    """Eliminate a step with this information (overwritten): its message to the next one.

    Also returns D^-1 `vector` and the factors of |D|.
    """
    batched.diagonal(precision)[...] += coupling
    inverse, factors = batched.inverse(precision)
    solved = batched.apply(inverse, vector)
    np.multiply(inverse, -coupling * coupling, out=precision)
    batched.diagonal(precision)[...] += coupling
    return Messages(precision, coupling * solved), solved, factors


def forward_messages(
    A: np.ndarray, b: np.ndarray, coupling: np.ndarray
) -> Iterator[tuple[slice, Messages]]:
    """What the steps before each step say about it, with log |D|, a block at a time."""
    elimination = _Elimination(len(b), coupling)
    for steps in blocks_of(coupling):
        shape = (len(b), steps.stop - steps.start, *coupling.shape[1:])
        out = Messages.empty(shape)._replace(log_pivot=np.empty(shape[1:]))
        elimination.run(A[:, :, steps], b[:, steps], steps, out)
        yield steps, out


def messages(A: np.ndarray, b: np.ndarray, coupling: np.ndarray) -> Messages:
    """What the steps before each step say about it, of all steps at once."""
    out = Messages.empty((*b.shape[:2], *coupling.shape[1:]))
    elimination = _Elimination(len(b), coupling)
    for steps in blocks_of(coupling, PIECE):
        part = Messages(out.precision[:, :, steps], out.vector[:, steps])
        elimination.run(A[:, :, steps], b[:, steps], steps, part)
    return out


def backward_messages(A: np.ndarray, b: np.ndarray, coupling: np.ndarray) -> Messages:
    """What the steps after each step say about it."""
    turned = coupling[::-1].copy()
    turned[0], turned[-1] = 0.0, 1.0  # nothing is known beyond the end; the start is not asked
    R, r, _ = messages(A[:, :, ::-1], b[:, ::-1], turned)
    return Messages(R[:, :, ::-1], r[:, ::-1])


def log_det_and_quadratic(
    A: np.ndarray, b: np.ndarray, coupling: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Log |H| and b' H^-1 b, both (...); several couplings may share `A` and `b`."""
    elimination = _Elimination(len(b), coupling)
    for steps in blocks_of(coupling, PIECE):
        elimination.run(A[:, :, steps], b[:, steps], steps, None)
    return elimination.log_det, elimination.square


def blocks_of(coupling: np.ndarray, matrices: int | None = None) -> Iterator[slice]:
    """All steps, in blocks of about so many matrices (`BLOCK`)."""
    steps, size = len(coupling) - 1, max(1, (matrices or BLOCK) // coupling[0].size)
    for first in range(0, steps, size):
        yield slice(first, min(first + size, steps))


class Penalty(NamedTuple):
    """Quadratic penalty on some directions, on top of A: sum_k weight_k n_k n_k'."""

    outer: np.ndarray  # (m * m, K): n_k n_k'
    weight: np.ndarray  # (K, T, S)

    @classmethod
    def of_rows(cls, directions: np.ndarray, weight: np.ndarray) -> Penalty:
        """With directions (K, m)."""
        outer = directions[:, :, None] * directions[:, None, :]
        return cls(outer.reshape(len(directions), -1).T, weight)

    def added_to(self, A: np.ndarray, steps: int | slice) -> np.ndarray:
        """A with the penalty of these steps: (m, m, S) or (m, m, T, S)."""
        return A + batched.lift(self.outer, self.weight[:, steps]).reshape(A.shape)


def solve(
    A: np.ndarray, b: np.ndarray, coupling: np.ndarray, penalty: Penalty | None = None
) -> np.ndarray:
    """Beta (m, T, S) of H beta = b."""
    if coupling[0].size < MANY:
        return solve_banded(A, b, coupling, penalty)
    R, r, _ = into = Messages.empty(b.shape)
    elimination = _Elimination(len(b), coupling)
    for t in range(b.shape[1]):
        # added step by step, while it is in the processor's cache
        block = A[:, :, t] if penalty is None else penalty.added_to(A[:, :, t], t)
        into.precision[:, :, t], into.vector[:, t] = elimination.R, elimination.r
        elimination.step(block, b[:, t], coupling[t + 1])
    out = np.empty(b.shape)
    out[:, -1] = elimination.solved
    for t in range(b.shape[1] - 1, 0, -1):
        after = out[:, t]
        change = r[:, t] - batched.apply(R[:, :, t], after)
        change /= coupling[t]
        np.add(after, change, out=out[:, t - 1])
    return out


def solve_banded(
    A: np.ndarray, b: np.ndarray, coupling: np.ndarray, penalty: Penalty | None
) -> np.ndarray:
    """As `solve`, by Cholesky factors of pieces: for few chains, stable for stiff penalties."""
    elimination = _Elimination(len(b), coupling)
    done = []
    for steps in blocks_of(coupling, PIECE):
        block = A[:, :, steps] if penalty is None else penalty.added_to(A[:, :, steps], steps)
        done.append((steps, *elimination.piece(block, b[:, steps], steps, None)))
    out, after = np.empty(b.shape), np.zeros(b[:, 0].shape)
    for steps, factor, right in reversed(done):
        right[:, -1] += coupling[steps.stop] * after
        found = lapack.dpbtrs(factor, _by_chain(right).reshape(-1), lower=1)[0]
        out[:, steps] = found.reshape(right.shape[::-1]).transpose(2, 1, 0)
        after = out[:, steps.start]
    return out


class _Elimination:
    """State of the forward elimination: the message to the next step, and the sums so far."""

    def __init__(self, m: int, coupling: np.ndarray) -> None:
        self.coupling = coupling
        self.eye = np.eye(m).reshape(m, m, *[1] * (coupling.ndim - 1))
        self.R = self.eye * coupling[0]
        self.r = np.zeros((m, *coupling.shape[1:]))
        self.solved = self.r  # D^-1 (b + r) of the step before
        self.log_det, self.square = np.zeros(coupling.shape[1:]), np.zeros(coupling.shape[1:])

    def run(self, A: np.ndarray, b: np.ndarray, steps: slice, into: Messages | None) -> None:
        """Eliminate some steps; keeps their messages, or else the sums."""
        if self.coupling[0].size < MANY:
            self.piece(A, b, steps, into)
            return
        for i, coupling in enumerate(self.coupling[steps.start + 1 : steps.stop + 1]):
            if into is not None:
                into.precision[:, :, i], into.vector[:, i] = self.R, self.r
            informed, factors = self.step(A[:, :, i], b[:, i], coupling)
            if into is None:
                self.log_det += batched.log_determinant(factors)
                self.square += (informed * self.solved).sum(axis=0)
            elif into.log_pivot is not None:
                into.log_pivot[i] = batched.log_determinant(factors)

    def step(
        self, A: np.ndarray, b: np.ndarray, coupling: np.ndarray
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Eliminate one step of many chains; returns b + r and the factors of |D|."""
        self.R += A
        informed = self.r + b
        (self.R, self.r, _), self.solved, factors = propagate(self.R, informed, coupling)
        return informed, factors

    def piece(
        self, A: np.ndarray, b: np.ndarray, steps: slice, into: Messages | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Eliminate some steps of few chains: LAPACK's Cholesky factor holds every pivot.

        Returns the factor and the right side, with the message into the piece.
        """
        m = len(b)
        coupling = self.coupling[steps.start : steps.stop + 1].copy()
        coupling[0] = 0.0  # the message stands for it
        blocks = np.array(np.broadcast_to(A, (m, m, len(coupling) - 1, *coupling.shape[1:])))
        batched.diagonal(blocks)[...] += coupling[1:] + coupling[:-1]
        blocks[:, :, 0] += self.R
        right = np.array(np.broadcast_to(b, blocks.shape[1:]))
        right[:, 0] += self.r
        many = right[0].shape  # (T, ...)
        factor = _factorise(blocks, coupling[1:-1])
        white = lapack.dtbtrs(factor, _by_chain(right).reshape(-1, 1), uplo="L")[0]
        white = white.reshape(-1, many[0], m).transpose(2, 1, 0).reshape(right.shape)
        root = factor.T.reshape(-1, many[0], m, m + 1)
        last, weight = _lower(root[:, -1:], (1, *many[1:]))[:, :, 0], coupling[-1]
        inverse = batched.inverse(batched.product(last, last.swapaxes(0, 1)))[0]
        self.R = self.eye * weight - weight**2 * inverse
        self.r = weight * batched.apply(inverse, batched.apply(last, white[:, -1]))
        if into is None or into.log_pivot is not None:
            log_pivot = 2 * np.log(root[..., 0]).sum(axis=2).T.reshape(many)
        if into is None:
            self.square += (white * white).sum(axis=(0, 1))
            self.log_det += log_pivot.sum(axis=0)
            return factor, right
        R, r, pivot = into
        if pivot is not None:
            pivot[...] = log_pivot
        lower = _lower(root, many)
        for j in range(m):
            R[j:, j] = batched.apply(lower[j:, : j + 1], lower[j, : j + 1])
            R[j, j:] = R[j:, j]
        R -= A
        batched.diagonal(R)[...] -= coupling[1:]
        np.subtract(batched.apply(lower, white), b, out=r)
        return factor, right


def _lower(root: np.ndarray, many: tuple[int, ...]) -> np.ndarray:
    """Lower triangles (m, m, T, ...) of the pivots, out of LAPACK's band (chains, T, m, m + 1)."""
    m = root.shape[2]
    out = np.zeros((m, m, *many))
    for j in range(m):
        out[j:, j] = root[:, :, j, : m - j].transpose(2, 1, 0).reshape(m - j, *many)
    return out


def _by_chain(right: np.ndarray) -> np.ndarray:
    """(m, T, ...) -> (chains, T, m)."""
    return right.reshape(*right.shape[:2], -1).transpose(2, 1, 0)


def _factorise(blocks: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """Banded Cholesky factor of all chains in a row, lower form (m + 1, chains T m)."""
    m, steps = blocks.shape[1:3]
    blocks = blocks.reshape(m, m, steps, -1)
    band = np.zeros((blocks.shape[3], steps, m, m + 1))  # LAPACK's column order, transposed
    for j in range(m):
        band[:, :, j, : m - j] = blocks[j:, j].transpose(2, 1, 0)
    # nothing couples the end of one chain to the start of the next
    band[:, :-1, :, m] = -inner.reshape(steps - 1, len(band)).T[:, :, None]
    factor, info = lapack.dpbtrf(band.reshape(-1, m + 1).T, lower=1, overwrite_ab=1)
    if info:
        raise np.linalg.LinAlgError("the block tridiagonal matrix is not positive definite")
    return factor
