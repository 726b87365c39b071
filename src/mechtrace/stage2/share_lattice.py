"""Recordings in blocks of rows, and alpha on a lattice of the simplex.

Of each block the likelihood of any alpha is known for any offsets of the predictions. Between
blocks alpha stays where it is, goes to a neighbour or, rarely, elsewhere; it likes to stay at the
corners.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
from scipy.special import comb

from .observation_models import Features, ObservationModel, known_steps

#: Blocks of a recording in which alpha is taken to be constant, at most.
BLOCKS = 200
#: Rows of all recordings that are worked on at once, about.
AT_ONCE = 1 << 15
#: States of alpha, at most; with more regimes than these allow, effects are not estimated.
STATES = 80
#: Probabilities to stay at a corner of the simplex, and elsewhere, and to go beyond neighbours.
AT_CORNER, BETWEEN, JUMP = 0.98, 0.5, 0.02
#: Factor on the noise of rows that nothing explains, and probability to get there.
UNKNOWN_NOISE, UNKNOWN = 9.0, 1e-4
#: Stands for a variance of zero where it divides.
LEAST = 1e-9


@dataclass(frozen=True, eq=False)
class Blocks:
    """Sums over J blocks of rows of S recordings, from which likelihoods of alpha follow."""

    A: np.ndarray  # (S, J, p, p) precision of the rows
    y: np.ndarray  # (S, J, p) precision times values
    M: np.ndarray  # (S, J, p, K) precision times predictions
    G: np.ndarray  # (S, J, K, K)
    h: np.ndarray  # (S, J, K)
    square: np.ndarray  # (S, J)
    weight: np.ndarray  # (S, J) rows

    @classmethod
    def of(cls, model: ObservationModel, noise: np.ndarray, features: Features) -> Blocks:
        """From features of recordings; `noise` (p, p) as it adds up over many rows."""
        steps = features.values.shape[1]
        size = -(-steps // BLOCKS)
        # rows worked on at once are whole blocks
        chunk = size * max(1, AT_ONCE // (size * len(features.values)))
        parts = [
            cls._sums(model, noise, features.of_steps(slice(first, first + chunk)), size)
            for first in range(0, steps, chunk)
        ]
        return cls(*(np.concatenate(part, axis=1) for part in zip(*parts, strict=True)))

    @classmethod
    def _sums(
        cls, model: ObservationModel, noise: np.ndarray, features: Features, size: int
    ) -> tuple[np.ndarray, ...]:
        """Sums over blocks of `size` rows."""
        values, predictions, doubt = features
        assert predictions is not None
        known = known_steps(values, predictions)
        sure = np.broadcast_to(np.asarray(model.certainty(doubt)), values.shape)
        root = np.linalg.cholesky(np.linalg.inv(noise))
        u = np.where(known[..., None], values, 0.0) * sure @ root
        m = np.where(known[..., None, None], predictions, 0.0) * sure[:, :, None] @ root
        scaled = np.where(known[..., None, None], sure[..., None] * root, 0.0)  # (S, T, p, w)
        first = np.arange(0, values.shape[1], size)

        def total(part: np.ndarray) -> np.ndarray:
            return np.asarray(np.add.reduceat(part, first, axis=1))

        return (
            total(scaled @ scaled.mT),
            total(np.einsum("ntpw,ntw->ntp", scaled, u)),
            total(scaled @ m.mT),
            total(m @ m.mT),
            total(np.einsum("ntkw,ntw->ntk", m, u)),
            total((u**2).sum(axis=2)),
            total(known.astype(float)),
        )

    def shares(self, offset: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Posterior (S, J, N) of alpha on the lattice and log likelihood, given b + d_k (S, K, p).

        Rows that nothing explains count for nothing.
        """
        states = lattice(offset.shape[1])
        f = states @ offset  # (S, N, p)
        quadratic = self.square[..., None] - 2 * self.h @ states.T
        outer = (states[:, :, None] * states[:, None]).reshape(len(states), -1)
        quadratic += self.G.reshape(*self.h.shape[:2], -1) @ outer.T
        quadratic -= 2 * self.y @ f.mT
        quadratic += 2 * np.einsum("nsp,njpk,sk->njs", f, self.M, states, optimize=True)
        power = (f[..., :, None] * f[..., None, :]).reshape(*f.shape[:2], -1)
        quadratic += self.A.reshape(*self.h.shape[:2], -1) @ power.mT
        least, rows = quadratic.min(axis=2), self.weight * self.y.shape[2]
        unknown = least / UNKNOWN_NOISE + rows * np.log(UNKNOWN_NOISE)
        emission = -0.5 * np.concatenate([quadratic, unknown[..., None]], axis=2)
        posterior, likelihood = _forward_backward(emission, _transitions(offset.shape[1]))
        return posterior[..., :-1], likelihood

    def offsets(self, mean: np.ndarray, square: np.ndarray, precision: np.ndarray) -> np.ndarray:
        """Posterior mean (S, K, p) of b + d_k, given moments of alpha (S, J, K), (S, J, K, K)."""
        series, _, kinds = mean.shape
        pull = mean.mT @ self.y - np.einsum("njkl,njpl->nkp", square, self.M, optimize=True)
        found = np.linalg.solve(self._information(square, self.A) + precision,
                                pull.reshape(series, -1, 1))  # fmt: skip
        return found.reshape(series, kinds, -1)

    def root(self, path: np.ndarray, precision: np.ndarray) -> np.ndarray:
        """Root (S, K p, K p) of the covariance of b + d_k, given a posterior of alpha (S, J, N).

        Between the corners alpha can follow an offset: rows there say nothing of directions in
        which predictions of the regimes differ.
        """
        states = lattice(self.h.shape[2])
        square = np.einsum("njs,sk,sl->njkl", path, states, states, optimize=True)
        inner = 1 - path[..., states.max(axis=1) > 1 - LEAST].sum(axis=2)
        A = self.A + LEAST * np.eye(self.A.shape[2])
        D = np.linalg.solve(A, self.M)
        D = D[..., 1:] - D[..., :1]
        lost = A @ D @ np.linalg.pinv(D.mT @ A @ D, hermitian=True) @ (A @ D).mT
        total = self._information(square, A - inner[..., None, None] * lost) + precision
        values, axes = np.linalg.eigh(0.5 * (total + total.mT))
        return np.asarray(axes / np.sqrt(np.maximum(values, LEAST))[:, None])

    def _information(self, square: np.ndarray, A: np.ndarray) -> np.ndarray:
        """Sum over the blocks (S, K p, K p) of alpha alpha' (x) A."""
        series, blocks, kinds, p = *self.h.shape, A.shape[2]
        flat = square.reshape(series, blocks, -1).mT @ A.reshape(series, blocks, -1)
        parts = flat.reshape(series, kinds, kinds, p, p).transpose(0, 1, 3, 2, 4)
        return parts.reshape(series, kinds * p, kinds * p)


def _forward_backward(
    emission: np.ndarray, transitions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Posterior (S, J, N) of hidden states and log likelihoods (S,), from log emissions."""
    top = emission.max(axis=2)
    likely = np.exp(emission - top[..., None])
    forward, scale = np.empty_like(likely), np.empty(top.shape)
    state = np.full((len(likely), likely.shape[2]), 1 / likely.shape[2])
    for j in range(likely.shape[1]):
        state = (state @ transitions if j else state) * likely[:, j]
        scale[:, j] = state.sum(axis=1)
        state = state / scale[:, j, None]
        forward[:, j] = state
    back = np.ones_like(state)
    for j in range(likely.shape[1] - 1, 0, -1):
        back = (likely[:, j] * back) @ transitions.T / scale[:, j, None]
        forward[:, j - 1] *= back
    return forward, (np.log(scale) + top).sum(axis=1)


@cache
def lattice(kinds: int) -> np.ndarray:
    """Points (N, K) of a lattice on the simplex, its corners first."""
    levels = next((n for n in range(10, 0, -1) if _points(kinds, n) <= STATES), 1)
    bars = np.array(list(combinations(range(levels + kinds - 1), kinds - 1)), int)
    bars = bars.reshape(-1, kinds - 1)
    edges = np.concatenate(
        [np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), levels + kinds - 1)], axis=1
    )
    points = (np.diff(edges, axis=1) - 1) / levels
    return points[np.argsort(-points.max(axis=1), kind="stable")]


def _points(kinds: int, levels: int) -> float:
    """Count the points of a lattice with so many levels."""
    return float(comb(levels + kinds - 1, kinds - 1))


@cache
def _transitions(kinds: int) -> np.ndarray:
    """Probabilities of the next state of the lattice; the last one is the unknown."""
    points = lattice(kinds)
    apart = np.abs(points[:, None] - points).sum(axis=2)
    near = (apart > LEAST) & (apart < apart[apart > LEAST].min() + LEAST)
    stay = np.where(points.max(axis=1) > 1 - LEAST, AT_CORNER, BETWEEN)
    count = len(points)
    moved = (1 - JUMP) * near / near.sum(axis=1, keepdims=True) + JUMP / count
    out = (1 - stay)[:, None] * moved
    out[np.diag_indices(count)] += stay
    whole = np.empty((count + 1, count + 1))
    whole[:-1, :-1], whole[:-1, -1] = out * (1 - UNKNOWN), UNKNOWN
    whole[-1, :-1], whole[-1, -1] = (1 - BETWEEN) / count, BETWEEN
    return whole
