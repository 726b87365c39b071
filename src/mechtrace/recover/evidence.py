"""Evidence about alpha, in information form: blocks add up, and so do repeated trials.

At each step a block says z = M alpha + e with e ~ N(0, R), where M = [m_0 ... m_{K-1}]. What a
Gaussian engine needs of it is G = M' R^-1 M, h = M' R^-1 z, the number of observed dimensions and
z' R^-1 z + log det R. A step without evidence has zeros everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .simplex import plane_basis


@dataclass(frozen=True, eq=False)
class Evidence:
    """Information about alpha for S series of T steps; shorter series end in empty steps."""

    G: np.ndarray  # (S, T, K, K)
    h: np.ndarray  # (S, T, K)
    offset: np.ndarray  # (S, T): z' R^-1 z + log det R
    dims: np.ndarray  # (S, T): observed dimensions, 0 where there is no evidence
    log_det: np.ndarray  # (S, T): the part of `offset` that is log det R

    @classmethod
    def of_block(cls, means: np.ndarray, values: np.ndarray, precision: np.ndarray) -> Evidence:
        """From predictions (S, T, K, d), values (S, T, d) and a precision (d, d) or (S, T, d, d).

        Steps with a NaN in either carry no evidence.
        """
        known = np.isfinite(values).all(-1) & np.isfinite(means).all((-2, -1))
        d = values.shape[-1]
        means = np.where(known[..., None, None], means, 0.0)
        values = np.where(known[..., None], values, 0.0)
        root = np.linalg.cholesky(precision)  # white = root' z has unit noise
        white_means = means @ root
        white_values = (values[..., None, :] @ root)[..., 0, :]
        log_det = -2 * np.log(np.diagonal(root, axis1=-2, axis2=-1)).sum(-1)
        return cls(
            G=white_means @ white_means.swapaxes(-1, -2),
            h=(white_means @ white_values[..., None])[..., 0],
            offset=np.where(known, (white_values**2).sum(-1) + log_det, 0.0),
            dims=np.where(known, d, 0),
            log_det=np.where(known, log_det, 0.0),
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
        return Evidence(
            self.G[..., chosen, :][..., chosen], self.h[..., chosen], *self.parts()[2:]
        )

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

    def tempered(self, share: float) -> Evidence:
        """Counted as less than it is: steps that depend on each other say the same twice."""
        return self if share == 1 else Evidence(*(share * part for part in self.parts()))

    def widened(self, factor: np.ndarray) -> Evidence:
        """The noise covariance of each step multiplied by a factor (S, T), at least 1."""
        log_det = self.dims * np.log(factor)
        quadratic = self.offset - self.log_det
        return Evidence(
            self.G / factor[..., None, None],
            self.h / factor[..., None],
            quadratic / factor + self.log_det + log_det,
            self.dims,
            self.log_det + log_det,
        )

    def stacked(self, weights: np.ndarray) -> Evidence:
        """With predictions recombined by the columns of (K, K'): evidence about K' weights."""
        kinds, chosen = weights.shape
        if kinds == chosen and (weights == np.eye(kinds)).all():
            return self
        flat = self.G.reshape(-1, kinds * kinds) @ np.kron(weights, weights)
        G = flat.reshape(*self.h.shape[:-1], chosen, chosen)
        return Evidence(G, self.h @ weights, *self.parts()[2:])

    def shifted(self, offset: np.ndarray) -> Evidence:
        """Evidence about alpha when it seems to be alpha + offset (S, K) to the eye."""
        moved = (self.G @ offset[:, None, :, None])[..., 0]
        change = ((moved - 2 * self.h) * offset[:, None]).sum(-1)
        return Evidence(self.G, self.h - moved, self.offset + change, self.dims, self.log_det)

    def parts(self) -> tuple[np.ndarray, ...]:
        """The arrays, in the order of the fields."""
        return self.G, self.h, self.offset, self.dims, self.log_det

    def on_plane(self) -> Plane:
        """The same in coordinates of the plane: alpha = 1/K + N beta."""
        regimes = self.h.shape[-1]
        basis = plane_basis(regimes)
        from_centre = self.h - self.G.mean(axis=-1)
        middle = self.G.mean(axis=(-2, -1)) - 2 * self.h.mean(axis=-1)
        return Plane(
            A=basis.T @ self.G @ basis,
            b=from_centre @ basis,
            offset=self.offset + middle,
            dims=self.dims,
            basis=basis,
        )


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

    def weights(self, beta: np.ndarray) -> np.ndarray:
        """alpha of beta (..., m): (..., K)."""
        return beta @ self.basis.T + 1.0 / len(self.basis)
