"""What is constant in one recording and not alpha: another subject, another day.

Expressed in units of alpha, where it does its harm: the evidence points at alpha + offset. How
large offsets are is known from left-out series (`Offsets.series`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .engine import state_space
from .evidence import Evidence
from .offsets import Offsets
from .simplex import plane_basis

ROUNDS = 30
#: Offsets of this size are thought possible by a user who asks for them, whatever was measured.
POSSIBLE = 0.1


@dataclass(frozen=True, eq=False)
class SeriesOffset:
    """The offset of each of S series, and how well it is known."""

    offsets: Offsets
    shift: np.ndarray | None = None  # (S, K)
    variance_left: np.ndarray | None = None  # (S, K)

    @classmethod
    def from_known(cls, evidence: Evidence, offsets: Offsets, weights: np.ndarray) -> SeriesOffset:
        """From steps whose weights are known: (S, T, K), NaN elsewhere."""
        inside = np.isfinite(weights).all(axis=-1, keepdims=True)
        part = Evidence(evidence.G * inside[..., None], evidence.h * inside, *evidence.parts()[2:])
        return cls(offsets, *_estimate(part, np.where(inside, weights, 0.0), offsets))

    @classmethod
    def from_simplex(
        cls, evidence: Evidence, offsets: Offsets, elapsed: np.ndarray
    ) -> SeriesOffset:
        """From the evidence alone: alpha must stay on the simplex, an offset need not.

        The most probable pair of curve and offset, found in turns. What an offset may be is
        hardly known afterwards: the intervals keep its whole variance.
        """
        shift = np.zeros(evidence.h[:, 0].shape)
        for _ in range(ROUNDS):
            alpha = state_space(evidence.shifted(shift), elapsed).alpha
            before, shift = shift, _estimate(evidence, alpha, offsets)[0]
            if np.abs(shift - before).max() < 1e-4:
                break
        return cls(offsets, shift)

    def removed_from(self, evidence: Evidence) -> Evidence:
        """The evidence about alpha itself."""
        return evidence if self.shift is None else evidence.shifted(self.shift)

    def variance(self, alpha: np.ndarray, trials: int = 1) -> np.ndarray:
        """As that of `Offsets`, with what is now known of this series."""
        total = self.offsets.variance(alpha, trials)
        if self.variance_left is None:
            return total
        usual = np.diagonal(self.offsets.series) / trials
        return total - usual + self.variance_left[:, None]


def _estimate(
    evidence: Evidence, alpha: np.ndarray, offsets: Offsets
) -> tuple[np.ndarray, np.ndarray]:
    """Offset (S, K) of series whose alpha (S, T, K) is given, and its variance."""
    basis = plane_basis(alpha.shape[-1])
    usual = basis.T @ offsets.series @ basis
    prior = np.linalg.inv(usual + POSSIBLE**2 * np.eye(len(usual)))
    information = basis.T @ evidence.G.sum(axis=1) @ basis + prior
    pull = (evidence.h - (evidence.G @ alpha[..., None])[..., 0]).sum(axis=1) @ basis
    covariance = np.linalg.inv(information)
    shift = (covariance @ pull[..., None])[..., 0] @ basis.T
    return shift, np.einsum("ki,sij,kj->sk", basis, covariance, basis)
