"""Linear-Gaussian autoregressive emissions, with a full noise covariance for each state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

#: Least variance of the noise, in units of standardised channels: mixtures of fewer latents than
#: channels have directions without any noise.
FLOOR = 1e-6


@dataclass(frozen=True, eq=False)
class Emissions:
    """Emissions present = effects [1, past] + noise of each state; Gaussian without a past.

    A row of data is [past, present] side by side, the past possibly of no columns.
    """

    covariance: np.ndarray  # (K, p, p)
    whitening: np.ndarray  # (K, 1 + m + p, p): [1, past, present] -> noise of unit covariance
    log_scale: np.ndarray  # (K,)

    @classmethod
    def fit(cls, rows: np.ndarray, weights: np.ndarray, width: int) -> Self:
        """Fit by weighted least squares; `weights` (n, K) are responsibilities of states."""
        return cls.from_moments(moments(rows, weights), width)

    @classmethod
    def from_moments(cls, moments: np.ndarray, width: int) -> Self:
        """Compute from second moments (K, q, q) of [1, past, present]; `width` is of the present.

        The covariance is shrunk towards its diagonal, as if that had been seen in `width` rows.
        """
        covariances, whitenings, log_scales = [], [], []
        before = moments.shape[1] - width
        for moment in moments:
            seen = max(float(moment[0, 0]), 1e-3)
            ridge = FLOOR * seen * np.eye(before)
            effects = np.linalg.solve(moment[:before, :before] + ridge, moment[:before, before:])
            whole = np.concatenate([-effects, np.eye(width)])
            covariance = whole.T @ moment @ whole / seen
            own = np.diag(covariance.diagonal())
            covariance = (seen * covariance + width * own) / (seen + width) + FLOOR * np.eye(width)
            root = np.linalg.cholesky((covariance + covariance.T) / 2)
            covariances.append(covariance)
            whitenings.append(np.linalg.solve(root, whole.T).T)
            log_scales.append(np.log(root.diagonal()).sum() + 0.5 * width * np.log(2 * np.pi))
        return cls(np.stack(covariances), np.stack(whitenings), np.array(log_scales))

    @property
    def states(self) -> int:
        """Number of states."""
        return len(self.covariance)

    def log_likelihood(self, rows: np.ndarray) -> np.ndarray:
        """Log density (n, K) of each row's present given its past, in each state."""
        both = with_constant(rows)
        found = [
            -0.5 * ((both @ whitening) ** 2).sum(axis=1) - log_scale
            for whitening, log_scale in zip(self.whitening, self.log_scale, strict=True)
        ]
        return np.stack(found, axis=1)


def moments(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted second moments (K, q, q) of [1, past, present] for each state."""
    both = with_constant(rows)
    return np.stack([(both * share[:, None]).T @ both for share in weights.T])


def with_constant(rows: np.ndarray) -> np.ndarray:
    """Prepend a column of ones."""
    return np.concatenate([np.ones((len(rows), 1)), rows], axis=1)
