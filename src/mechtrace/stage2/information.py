"""Evidence about alpha, in information form: blocks add up, and so do repeated trials.

At each step a block says z = M alpha + e with e ~ N(0, R), where M = [m_0 ... m_{K-1}]. What a
Gaussian engine needs of it is G = M' R^-1 M, h = M' R^-1 z, the number of observed dimensions and
z' R^-1 z + log det R. A step without evidence has zeros everywhere.

Arrays are (S, T, ...) to the reader, but lie in memory as (..., T, S): the engine works on the
same entry of many small matrices at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .simplex import plane_basis

#: Steps that are worked on at once; more would leave the processor's cache.
BLOCK = 1 << 11


@dataclass(frozen=True, eq=False)
class Evidence:
    """Information about alpha for S series of T steps; shorter series end in empty steps."""

    G: np.ndarray  # (S, T, K, K)
    h: np.ndarray  # (S, T, K)
    offset: np.ndarray  # (S, T): z' R^-1 z + log det R
    dims: np.ndarray  # (S, T): observed dimensions, 0 where there is no evidence
    log_det: np.ndarray  # (S, T): the part of `offset` that is log det R

    @classmethod
    def of_block(
        cls,
        means: np.ndarray,
        values: np.ndarray,
        precision: np.ndarray,
        stacking: np.ndarray | None = None,
    ) -> Evidence:
        """From predictions (S, T, K, d), values (S, T, d) and a precision (d, d) or (S, T, d, d).

        Steps with a NaN in either carry no evidence. `stacking` (K, K) recombines the
        predictions first, as `stacked` would do afterwards.
        """
        series, steps, regimes, d = means.shape
        root = np.linalg.cholesky(precision)  # white = root' z has unit noise
        log_det = -2 * np.log(np.diagonal(root, axis1=-2, axis2=-1)).sum(-1)
        log_det = np.broadcast_to(log_det, (series, steps)).T.reshape(-1)
        means = means.swapaxes(0, 1).reshape(-1, regimes, d)
        values = values.swapaxes(0, 1).reshape(-1, d)
        if root.ndim > 2:
            root = root.swapaxes(0, 1).reshape(-1, d, d)
        G, h = np.empty((regimes, regimes, len(means))), np.empty((regimes, len(means)))
        offset = np.empty(len(means))
        with np.errstate(invalid="ignore", over="ignore"):  # NaN ends up in NaN, see below
            for first in range(0, len(means), BLOCK):
                part = slice(first, first + BLOCK)
                white, value = _whitened(means[part], values[part], _of_part(root, part))
                if stacking is not None:
                    white = (stacking.T @ white.reshape(regimes, -1)).reshape(white.shape)
                for k in range(regimes):
                    G[k, : k + 1, part] = (white[k] * white[: k + 1]).sum(axis=1)
                    G[:k, k, part] = G[k, :k, part]
                h[:, part] = (white * value).sum(axis=1)
                offset[part] = (value * value).sum(axis=0) + log_det[part]
            known = np.isfinite(offset + np.einsum("kkn->n", G))
        return cls._known(G, h, offset, log_det, known, d, (steps, series))

    @classmethod
    def of_constant(cls, means: np.ndarray, values: np.ndarray, precision: np.ndarray) -> Evidence:
        """From predictions (K, d) that are the same at all steps of values (S, T, d)."""
        series, steps, d = values.shape
        flat = values.swapaxes(0, 1).reshape(-1, d).T
        weighed = precision @ flat
        log_det = np.full(flat.shape[1], -np.linalg.slogdet(precision)[1])
        G = np.repeat((means @ precision @ means.T)[:, :, None], flat.shape[1], axis=2)
        with np.errstate(invalid="ignore"):
            offset = (flat * weighed).sum(axis=0) + log_det
        known = np.isfinite(offset)
        return cls._known(G, means @ weighed, offset, log_det, known, d, (steps, series))

    @classmethod
    def _known(
        cls,
        G: np.ndarray,
        h: np.ndarray,
        offset: np.ndarray,
        log_det: np.ndarray,
        known: np.ndarray,
        d: int,
        shape: tuple[int, int],
    ) -> Evidence:
        """From arrays (..., T S), of which only the known steps count."""
        if not known.all():
            log_det = log_det.copy()
            for array in (G, h, offset, log_det):
                np.copyto(array, 0.0, where=~known)
        regimes = len(h)
        return cls(
            G=G.reshape(regimes, regimes, *shape).transpose(3, 2, 0, 1),
            h=h.reshape(regimes, *shape).transpose(2, 1, 0),
            offset=offset.reshape(shape).T,
            dims=np.where(known, d, 0).reshape(shape).T,
            log_det=log_det.reshape(shape).T,
        )

    def __add__(self, other: Evidence) -> Evidence:
        """Independent evidence about the same alpha."""
        parts = zip(self.parts(), other.parts(), strict=True)
        return Evidence(*(mine + its for mine, its in parts))

    def pooled(self) -> Evidence:
        """All series are trials of one schedule: one series with their joint information."""
        return Evidence(*(part.sum(axis=0, keepdims=True) for part in self.parts()))

    def of(self, regimes: Sequence[int]) -> Evidence:
        """Only these regimes can be active."""
        chosen = list(regimes)
        if chosen == list(range(self.h.shape[-1])):
            return self
        G = self.G.transpose(2, 3, 1, 0)[np.ix_(chosen, chosen)].transpose(3, 2, 0, 1)
        return Evidence(G, self.h.transpose(2, 1, 0)[chosen].transpose(2, 1, 0), *self.parts()[2:])

    def rows(self, chosen: np.ndarray) -> Evidence:
        """These series, in this order."""
        return Evidence(*(part[chosen] for part in self.parts()))

    @classmethod
    def joined(cls, several: Sequence[Evidence]) -> Evidence:
        """The series of all, one after the other."""
        parts = zip(*(evidence.parts() for evidence in several), strict=True)
        return cls(*(np.concatenate(part) for part in parts))

    def followed_by(self, other: Evidence) -> Evidence:
        """Each series continued in time by one of the other."""
        parts = zip(self.parts(), other.parts(), strict=True)
        return Evidence(*(np.concatenate(pair, axis=1) for pair in parts))

    def earlier(self, steps: int) -> Evidence:
        """What was seen at a step counts for the one so many steps before; the last are empty."""
        if steps == 0:
            return self

        def moved(part: np.ndarray) -> np.ndarray:
            out = np.zeros_like(part)
            out[:, : max(part.shape[1] - steps, 0)] = part[:, steps:]
            return out

        return Evidence(*(moved(part) for part in self.parts()))

    def tempered(self, share: float) -> Evidence:
        """Counted as less than it is: steps that depend on each other say the same twice."""
        return self if share == 1 else Evidence(*(share * part for part in self.parts()))

    def widened(self, factor: np.ndarray) -> Evidence:
        """The noise covariance of each step multiplied by a factor (S, T), at least 1."""
        log_det = self.log_det + self.dims * np.log(factor)
        return Evidence(
            self.G / factor[..., None, None],
            self.h / factor[..., None],
            (self.offset - self.log_det) / factor + log_det,
            self.dims,
            log_det,
        )

    def stacked(self, weights: np.ndarray) -> Evidence:
        """With predictions recombined by the columns of (K, K'): evidence about K' weights."""
        kinds, chosen = weights.shape
        if kinds == chosen and (weights == np.eye(kinds)).all():
            return self
        shape = self.dims.T.shape
        G, h = self._by_entry()
        G = _recombined(G, weights).reshape(chosen, chosen, *shape)
        h = (weights.T @ h).reshape(chosen, *shape)
        return Evidence(G.transpose(3, 2, 0, 1), h.transpose(2, 1, 0), *self.parts()[2:])

    def shifted(self, offset: np.ndarray) -> Evidence:
        """Evidence about alpha when it seems to be alpha + offset (S, K) to the eye."""
        moved = (self.G @ offset[:, None, :, None])[..., 0]
        change = ((moved - 2 * self.h) * offset[:, None]).sum(-1)
        return Evidence(self.G, self.h - moved, self.offset + change, self.dims, self.log_det)

    def parts(self) -> tuple[np.ndarray, ...]:
        """The arrays, in the order of the fields."""
        return self.G, self.h, self.offset, self.dims, self.log_det

    def _by_entry(self) -> tuple[np.ndarray, np.ndarray]:
        """G (K K, T S) and h (K, T S), as they lie in memory."""
        kinds = self.h.shape[-1]
        G = self.G.transpose(2, 3, 1, 0).reshape(kinds**2, -1)
        return G, self.h.transpose(2, 1, 0).reshape(kinds, -1)

    def on_plane(self) -> Plane:
        """The same in coordinates of the plane: alpha = 1/K + N beta."""
        return self._plane

    @cached_property
    def _plane(self) -> Plane:
        series, steps, regimes = self.h.shape
        basis = plane_basis(regimes)
        m = regimes - 1
        G, h = self._by_entry()
        pull = G.reshape(regimes, regimes, -1).mean(axis=1)
        shape = (steps, series)
        middle = (pull - 2 * h).mean(axis=0).reshape(shape)
        A = _recombined(G, basis)
        b = basis.T @ (h - pull)
        return Plane(
            A=A.reshape(m, m, *shape).transpose(3, 2, 0, 1),
            b=b.reshape(m, *shape).transpose(2, 1, 0),
            offset=self.offset + middle.T,
            dims=self.dims,
            basis=basis,
        )


def _recombined(G: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """W' G W of all matrices at once, (K K, N) -> (K' K', N)."""
    kinds, chosen = weights.shape
    half = (weights.T @ G.reshape(kinds, -1)).reshape(chosen, kinds, -1)
    return (weights.T @ half).reshape(chosen**2, -1)


def _of_part(root: np.ndarray, part: slice) -> np.ndarray:
    return root if root.ndim == 2 else root[part]


def _whitened(
    means: np.ndarray, values: np.ndarray, root: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Predictions (K, d, N) and values (d, N) with unit noise, of (N, K, d) and (N, d)."""
    if root.ndim == 2:
        return root.T @ means.transpose(1, 2, 0), root.T @ values.T
    white = (values[:, None] @ root)[:, 0]
    return np.ascontiguousarray((means @ root).transpose(1, 2, 0)), np.ascontiguousarray(white.T)


@dataclass(frozen=True, eq=False)
class Plane:
    """Evidence in the m = K - 1 coordinates beta of the simplex plane."""

    A: np.ndarray  # (S, T, m, m)
    b: np.ndarray  # (S, T, m)
    offset: np.ndarray  # (S, T): y' R^-1 y + log det R with y = z - mean of the predictions
    dims: np.ndarray  # (S, T)
    basis: np.ndarray  # (K, m)

    def repeated(self, times: int) -> Plane:
        """All series again and again."""
        return Plane(
            A=np.tile(self.A, (times, 1, 1, 1)),
            b=np.tile(self.b, (times, 1, 1)),
            offset=np.tile(self.offset, (times, 1)),
            dims=np.tile(self.dims, (times, 1)),
            basis=self.basis,
        )

    def by_step(self) -> tuple[np.ndarray, np.ndarray]:
        """A (m, m, T, S) and b (m, T, S), contiguous: as the engine works on them."""
        return (
            np.ascontiguousarray(self.A.transpose(2, 3, 1, 0)),
            np.ascontiguousarray(self.b.transpose(2, 1, 0)),
        )

    def weights(self, beta: np.ndarray) -> np.ndarray:
        """alpha of beta (..., m): (..., K)."""
        return beta @ self.basis.T + 1.0 / len(self.basis)
