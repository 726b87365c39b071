"""Observations of alpha in information form: observation models and repeated trials add up.

At each step an observation model says z = M alpha + e with e ~ N(0, R), M = [m_0 ... m_{K-1}].
Inference needs G = M' R^-1 M, h = M' R^-1 z, the number of observed dimensions and
z' R^-1 z + log det R. A step without an observation has zeros everywhere. Data enter as
(S, T, ...); information has the layout of `linalg`: (K, K, T, S), (K, T, S), (T, S).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..linalg.batched import apply, lift
from ..linalg.simplex import helmert_basis

#: Steps that are worked on at once; more would leave the processor's cache.
BLOCK = 1 << 11


@dataclass(frozen=True, eq=False)
class GaussianInformation:
    """Information about alpha in S series of T steps; shorter series end in empty steps.

    Parameters
    ----------
    G : ndarray (K, K, T, S)
        M' R^-1 M.
    h : ndarray (K, T, S)
        M' R^-1 z.
    offset : ndarray (T, S)
        z' R^-1 z + log det R.
    dims : ndarray (T, S)
        Observed dimensions, 0 where there is no observation.
    log_det : ndarray (T, S)
        The part of `offset` that is log det R.
    """

    G: np.ndarray
    h: np.ndarray
    offset: np.ndarray
    dims: np.ndarray
    log_det: np.ndarray

    @classmethod
    def from_predictions(
        cls, means: np.ndarray, values: np.ndarray, precision: np.ndarray
    ) -> GaussianInformation:
        """Information of values (S, T, d) around the predictions (S, T, K, d) of each regime.

        Steps with a NaN carry no information. `precision` (d, d) or (S, T, d, d) is R^-1.
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
                own = root if root.ndim == 2 else root[part]
                white, value = _whitened(means[part], values[part], own)
                for k in range(regimes):
                    G[k, : k + 1, part] = (white[k] * white[: k + 1]).sum(axis=1)
                    G[:k, k, part] = G[k, :k, part]
                h[:, part] = (white * value).sum(axis=1)
                offset[part] = (value * value).sum(axis=0) + log_det[part]
            known = np.isfinite(offset + np.einsum("kkn->n", G))
        return cls._known(G, h, offset, log_det, known, d, (steps, series))

    @classmethod
    def from_constant_means(
        cls, means: np.ndarray, values: np.ndarray, precision: np.ndarray
    ) -> GaussianInformation:
        """Information of values (S, T, d) around predictions (K, d) that hold at all steps."""
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
    ) -> GaussianInformation:
        """From arrays (..., T S), of which only the known steps count."""
        if not known.all():
            log_det = log_det.copy()
            for array in (G, h, offset, log_det):
                np.copyto(array, 0.0, where=~known)
        parts = (G, h, offset, np.where(known, d, 0), log_det)
        return cls(*(part.reshape(*part.shape[:-1], *shape) for part in parts))

    @property
    def regimes(self) -> int:
        """K."""
        return len(self.h)

    def __add__(self, other: GaussianInformation) -> GaussianInformation:
        """Independent observations of the same alpha."""
        parts = zip(self.parts(), other.parts(), strict=True)
        return GaussianInformation(*(mine + its for mine, its in parts))

    def pool(self) -> GaussianInformation:
        """All series are trials of one schedule: one series with their joint information."""
        return self._each(lambda part: part.sum(axis=-1, keepdims=True))

    def restrict_to(self, regimes: Sequence[int]) -> GaussianInformation:
        """Only these regimes can be active."""
        chosen = list(regimes)
        if chosen == list(range(self.regimes)):
            return self
        return GaussianInformation(
            self.G[np.ix_(chosen, chosen)], self.h[chosen], *self.parts()[2:]
        )

    def select_series(self, chosen: np.ndarray) -> GaussianInformation:
        """These series, in this order."""
        return self._each(lambda part: part[..., chosen])

    @classmethod
    def concatenate(
        cls, several: Sequence[GaussianInformation], *, in_time: bool = False
    ) -> GaussianInformation:
        """The series of all side by side; or, in time, each continued by that of the next."""
        parts = zip(*(one.parts() for one in several), strict=True)
        return cls(*(np.concatenate(part, axis=-2 if in_time else -1) for part in parts))

    def shift_back(self, steps: int) -> GaussianInformation:
        """Information of a step counts for the one so many steps before; the last are empty."""
        if steps == 0:
            return self

        def moved(part: np.ndarray) -> np.ndarray:
            out = np.zeros_like(part)
            out[..., : max(part.shape[-2] - steps, 0), :] = part[..., steps:, :]
            return out

        return self._each(moved)

    def power(self, exponent: float) -> GaussianInformation:
        """The likelihood to a power below 1, for observations that depend on each other."""
        return self if exponent == 1 else self._each(lambda part: exponent * part)

    def inflate_noise(self, factor: np.ndarray) -> GaussianInformation:
        """With the noise covariance of each step multiplied by a factor (S, T)."""
        factor = factor.T
        log_det = self.log_det + self.dims * np.log(factor)
        offset = (self.offset - self.log_det) / factor + log_det
        return GaussianInformation(self.G / factor, self.h / factor, offset, self.dims, log_det)

    def recombine(self, weights: np.ndarray) -> GaussianInformation:
        """With predictions M W for W (K, K'): information about K' weights."""
        if weights.shape[0] == weights.shape[1] and (weights == np.eye(len(weights))).all():
            return self
        return GaussianInformation(
            _congruence(self.G, weights), lift(weights.T, self.h), *self.parts()[2:]
        )

    def subtract_offset(self, offset: np.ndarray) -> GaussianInformation:
        """Information about alpha if the observations are those of alpha + offset (K, S)."""
        moved = apply(self.G, offset[:, None])
        change = ((moved - 2 * self.h) * offset[:, None]).sum(axis=0)
        return GaussianInformation(
            self.G, self.h - moved, self.offset + change, self.dims, self.log_det
        )

    def quadratic(self, alpha: np.ndarray) -> np.ndarray:
        """Squared whitened residual (T, S) at alpha (K, T, S)."""
        found = ((apply(self.G, alpha) - 2 * self.h) * alpha).sum(axis=0)
        return np.asarray(found + self.offset - self.log_det)

    def parts(self) -> tuple[np.ndarray, ...]:
        """The arrays, in the order of the fields."""
        return self.G, self.h, self.offset, self.dims, self.log_det

    def _each(self, change: Callable[[np.ndarray], np.ndarray]) -> GaussianInformation:
        return GaussianInformation(*(change(part) for part in self.parts()))

    @cached_property
    def simplex_coordinates(self) -> SimplexCoordinates:
        """The same about beta, alpha = 1/K + N beta with N the Helmert basis."""
        basis = helmert_basis(self.regimes)
        pull = self.G.mean(axis=1)
        return SimplexCoordinates(
            A=_congruence(self.G, basis),
            b=lift(basis.T, self.h - pull),
            offset=self.offset + (pull - 2 * self.h).mean(axis=0),
            dims=self.dims,
            basis=basis,
        )


@dataclass(frozen=True, eq=False)
class SimplexCoordinates:
    """Information in the m = K - 1 Helmert coordinates beta of the simplex."""

    A: np.ndarray  # (m, m, T, S)
    b: np.ndarray  # (m, T, S)
    offset: np.ndarray  # (T, S): y' R^-1 y + log det R with y = z - mean of the predictions
    dims: np.ndarray  # (T, S)
    basis: np.ndarray  # (K, m)

    def weights(self, beta: np.ndarray) -> np.ndarray:
        """Alpha (K, ...) of beta (m, ...)."""
        return lift(self.basis, beta) + 1.0 / len(self.basis)

    def variances(self, covariance: np.ndarray) -> np.ndarray:
        """Variance (K, ...) of each weight from covariances (m, m, ...) of beta."""
        outer = self.basis[:, :, None] * self.basis[:, None, :]
        flat = covariance.reshape(-1, *covariance.shape[2:])
        return lift(outer.reshape(len(outer), -1), flat)


def _congruence(G: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """W' G W of all matrices at once, (K, K, ...) -> (K', K', ...)."""
    kinds, chosen = weights.shape
    half = (weights.T @ G.reshape(kinds, -1)).reshape(chosen, kinds, -1)
    return (weights.T @ half).reshape(chosen, chosen, *G.shape[2:])


def _whitened(
    means: np.ndarray, values: np.ndarray, root: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Predictions (K, d, N) and values (d, N) with unit noise, of (N, K, d) and (N, d)."""
    if root.ndim == 2:
        return root.T @ means.transpose(1, 2, 0), root.T @ values.T
    white = (values[:, None] @ root)[:, 0]
    return np.ascontiguousarray((means @ root).transpose(1, 2, 0)), np.ascontiguousarray(white.T)
