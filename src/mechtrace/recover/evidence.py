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
        )

    def __add__(self, other: Evidence) -> Evidence:
        """Independent evidence about the same alpha."""
        return Evidence(
            self.G + other.G, self.h + other.h, self.offset + other.offset, self.dims + other.dims
        )

    def pooled(self) -> Evidence:
        """All series are trials of one schedule: one series with their joint information."""
        return Evidence(*(part.sum(axis=0, keepdims=True) for part in self._parts()))

    def of(self, regimes: Sequence[int]) -> Evidence:
        """Only these regimes can be active."""
        chosen = list(regimes)
        return Evidence(
            self.G[..., chosen, :][..., chosen], self.h[..., chosen], *self._parts()[2:]
        )

    def _parts(self) -> tuple[np.ndarray, ...]:
        return self.G, self.h, self.offset, self.dims

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
