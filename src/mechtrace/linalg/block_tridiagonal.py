"""Chains of Gaussian unknowns: what the steps before (or after) a step say about it.

    H = A_t on the diagonal, a bond w_t |beta_t - beta_{t-1}|^2 between neighbours

Eliminating beta_{t-1} leaves a message to step t, a precision R_t and a vector r_t:

    D = A_{t-1} + R_{t-1} + w_t,   R_t = w_t - w_t^2 D^-1,   r_t = w_t D^-1 (b_{t-1} + r_{t-1})

Everything else follows from messages: the filter (A + R), the smoother (messages from both
sides), the likelihood (the D of all steps) and the solution of H beta = b. Arrays are
(m, m, T, ...) and (m, T, ...), see `small`; bonds are (T + 1, ...), where the first is the pull of
step 0 to zero and the last is that of the last step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from . import small

#: With fewer chains than this, LAPACK's banded Cholesky is faster than a loop over the steps.
MANY = 300
#: Steps that LAPACK takes at once: the band stays in the processor's cache, memory is bounded.
PIECE = 1 << 13
#: Matrices that are inverted at once; more would leave the cache too.
BLOCK = 1 << 12


class Messages(NamedTuple):
    """What the steps on one side of each step say about it."""

    precision: np.ndarray  # (m, m, T, ...)
    vector: np.ndarray  # (m, T, ...)


def bonds(drift: np.ndarray, elapsed: np.ndarray, start: float) -> np.ndarray:
    """Bonds (T + 1, ..., S) of random walks: drifts (..., S) and waiting times (S, T)."""
    series, steps = elapsed.shape
    out = np.zeros((steps + 1, *drift.shape))
    out[0] = start
    waits = elapsed.T[1:].reshape(steps - 1, *[1] * (drift.ndim - 1), series)
    np.divide(1.0, drift * waits, out=out[1:-1])
    return out


def messages(A: np.ndarray, b: np.ndarray, bond: np.ndarray) -> Messages:
    """Messages forward in time: what the steps before each step say about it."""
    m, steps = b.shape[:2]
    out = Messages(np.empty((m, m, steps, *bond.shape[1:])), np.empty((m, steps, *bond.shape[1:])))
    _Sweep(m, bond).run(A, b, out)
    return out


def eliminate(A: np.ndarray, b: np.ndarray, bond: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log |H| and b' H^-1 b, both (...); `A` and `b` may be shared by several rows of bonds."""
    sweep = _Sweep(len(b), bond)
    sweep.run(A, b, None)
    return sweep.log_det, sweep.square


def backwards(A: np.ndarray, b: np.ndarray, bond: np.ndarray) -> Messages:
    """Messages backward in time: what the steps after each step say about it."""
    turned = bond[::-1].copy()
    turned[0], turned[-1] = 0.0, 1.0  # nothing is known beyond the end; the start is not asked
    R, r = messages(A[:, :, ::-1], b[:, ::-1], turned)
    return Messages(R[:, :, ::-1], r[:, ::-1])


def blocks_of(bond: np.ndarray, matrices: int | None = None) -> Iterator[slice]:
    """All steps, in blocks of about so many matrices (`BLOCK`)."""
    steps, size = len(bond) - 1, max(1, (matrices or BLOCK) // bond[0].size)
    for first in range(0, steps, size):
        yield slice(first, min(first + size, steps))


class Held(NamedTuple):
    """Pulls to zero along some directions, on top of A: sum_k pull_k n_k n_k'."""

    outer: np.ndarray  # (m * m, K): n_k n_k'
    pull: np.ndarray  # (K, T, S)

    def over(self, steps: int | slice) -> np.ndarray:
        """What they add to A: (m, m, S) or (m, m, T, S)."""
        pull = self.pull[:, steps]
        m = int(len(self.outer) ** 0.5)
        return (self.outer @ pull.reshape(len(pull), -1)).reshape(m, m, *pull.shape[1:])


def solution(
    A: np.ndarray, b: np.ndarray, bond: np.ndarray, held: Held | None = None
) -> np.ndarray:
    """beta (m, T, S) of H beta = b."""
    if bond[0].size < MANY:
        return _banded_solution(A, b, bond, held)
    m, steps = b.shape[:2]
    R, r = into = Messages(np.empty(A.shape), np.empty(b.shape))
    sweep = _Sweep(m, bond)
    for t in range(steps):
        # added step by step, while it is in the processor's cache
        stiff = A[:, :, t] if held is None else A[:, :, t] + held.over(t)
        sweep.step(stiff, b[:, t], t, into)
    out = np.empty(b.shape)
    out[:, -1] = sweep.solved
    for t in range(steps - 1, 0, -1):
        after = out[:, t]
        change = r[:, t] - small.apply(R[:, :, t], after)
        change /= bond[t]
        np.add(after, change, out=out[:, t - 1])
    return out


def _banded_solution(
    A: np.ndarray, b: np.ndarray, bond: np.ndarray, held: Held | None
) -> np.ndarray:
    """Piece by piece: forward for the factors and what each piece tells the next, then back."""
    sweep = _Sweep(len(b), bond)
    done = []
    for steps in blocks_of(bond, PIECE):
        stiff = A[:, :, steps] if held is None else A[:, :, steps] + held.over(steps)
        done.append((steps, *sweep.piece(stiff, b[:, steps], steps, None)))
    out, after = np.empty(b.shape), np.zeros(b[:, 0].shape)
    for steps, factor, right in reversed(done):
        right[:, -1] += bond[steps.stop] * after
        found = lapack.dpbtrs(factor, _by_chain(right).reshape(-1), lower=1)[0]
        out[:, steps] = found.reshape(right.shape[::-1]).transpose(2, 1, 0)
        after = out[:, steps.start]
    return out


class _Sweep:
    """Where the elimination stands: the message to the next step, and the sums so far."""

    def __init__(self, m: int, bond: np.ndarray) -> None:
        self.bond = bond
        self.eye = _eye(m, bond.ndim)
        self.R = self.eye * bond[0]
        self.r = np.zeros((m, *bond.shape[1:]))
        self.solved = self.r  # D^-1 (b + r) of the step before
        self.log_det, self.square = np.zeros(bond.shape[1:]), np.zeros(bond.shape[1:])

    def run(self, A: np.ndarray, b: np.ndarray, into: Messages | None) -> None:
        """Over all steps; messages are kept, or else the sums are."""
        if self.bond[0].size >= MANY:
            for t in range(b.shape[1]):
                self.step(A[:, :, t], b[:, t], t, into)
        else:
            for steps in blocks_of(self.bond, PIECE):
                self.piece(A[:, :, steps], b[:, steps], steps, into)

    def step(self, A: np.ndarray, b: np.ndarray, t: int, into: Messages | None) -> None:
        """Eliminate one step of many chains."""
        if into is not None:
            into.precision[:, :, t], into.vector[:, t] = self.R, self.r
        weight = self.bond[t + 1]
        pivot, informed = self.R, self.r
        pivot += A
        small.diagonal(pivot)[...] += weight
        informed += b
        inverse, factors = small.inverse(pivot)
        self.solved = small.apply(inverse, informed)
        if into is None:
            self.log_det += small.log_determinant(factors)
            self.square += (informed * self.solved).sum(axis=0)
        np.multiply(weight, self.solved, out=self.r)
        np.multiply(inverse, -weight * weight, out=self.R)
        small.diagonal(self.R)[...] += weight

    def piece(
        self, A: np.ndarray, b: np.ndarray, steps: slice, into: Messages | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Eliminate some steps of few chains: LAPACK's Cholesky factor holds every pivot.

        Returns the factor and the right side, with the message into the piece.
        """
        m = len(b)
        bond = self.bond[steps.start : steps.stop + 1].copy()
        bond[0] = 0.0  # the message stands for it
        blocks = _blocks(A, bond)
        blocks[:, :, 0] += self.R
        right = np.array(np.broadcast_to(b, blocks.shape[1:]))
        right[:, 0] += self.r
        many = right[0].shape  # (T, ...)
        factor = factorise(blocks, bond[1:-1])
        white = lapack.dtbtrs(factor, _by_chain(right).reshape(-1, 1), uplo="L")[0]
        white = white.reshape(-1, many[0], m).transpose(2, 1, 0).reshape(right.shape)
        root = factor.T.reshape(-1, many[0], m, m + 1)
        self.square += (white * white).sum(axis=(0, 1))
        self.log_det += 2 * np.log(root[..., 0]).sum(axis=(1, 2)).reshape(many[1:])
        last, weight = _lower(root[:, -1:], (1, *many[1:]))[:, :, 0], bond[-1]
        inverse = small.inverse(small.product(last, last.swapaxes(0, 1)))[0]
        self.R = self.eye * weight - weight**2 * inverse
        self.r = weight * small.apply(inverse, small.apply(last, white[:, -1]))
        if into is not None:
            R, r = into.precision[:, :, steps], into.vector[:, steps]
            lower = _lower(root, many)
            for j in range(m):
                R[j:, j] = small.apply(lower[j:, : j + 1], lower[j, : j + 1])
                R[j, j:] = R[j:, j]
            R -= A
            small.diagonal(R)[...] -= bond[1:]
            np.subtract(small.apply(lower, white), b, out=r)
        return factor, right


def _lower(root: np.ndarray, many: tuple[int, ...]) -> np.ndarray:
    """Lower triangles (m, m, T, ...) of the pivots, out of LAPACK's band (chains, T, m, m + 1)."""
    m = root.shape[2]
    out = np.zeros((m, m, *many))
    for j in range(m):
        out[j:, j] = root[:, :, j, : m - j].transpose(2, 1, 0).reshape(m - j, *many)
    return out


def _eye(m: int, dimensions: int) -> np.ndarray:
    """The unit matrix, to be spread over chains: `dimensions` in all is one less than it has."""
    return np.eye(m).reshape(m, m, *[1] * (dimensions - 1))


def _by_chain(right: np.ndarray) -> np.ndarray:
    """(m, T, ...) -> (chains, T, m)."""
    return right.reshape(*right.shape[:2], -1).transpose(2, 1, 0)


def _blocks(A: np.ndarray, bond: np.ndarray) -> np.ndarray:
    """Diagonal blocks of H (m, m, T, ...): evidence and the bonds on both sides."""
    out = np.array(np.broadcast_to(A, (*A.shape[:2], len(bond) - 1, *bond.shape[1:])))
    small.diagonal(out)[...] += bond[1:] + bond[:-1]
    return out


def factorise(blocks: np.ndarray, inner: np.ndarray) -> np.ndarray:
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
        raise np.linalg.LinAlgError("the smoothing problem is not positive definite")
    return factor
