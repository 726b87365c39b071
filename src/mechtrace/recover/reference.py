"""What stage 2 knows of the pure regimes, measured on series that training never saw."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..errors import DataError


@dataclass(frozen=True, eq=False)
class Reference:
    """Means of the latents and the noise of the experts' predictions, regime by regime."""

    means: np.ndarray  # (K, d) mean latents of each regime
    spread: np.ndarray  # (d, d) covariance of the latents within a regime
    noise: np.ndarray  # (K, d, d) second moments of z - m_k(history) in regime k
    width: np.ndarray  # (d,) mean square of the encoder's standard deviation
    steps: np.ndarray  # (K,) steps behind these figures

    @classmethod
    def measure(
        cls, latents: np.ndarray, width: np.ndarray, predicted: np.ndarray, regime: np.ndarray
    ) -> Reference:
        """From rows: latents and encoder widths (n, d), predictions (n, K, d), codes (n,)."""
        regimes, d = predicted.shape[1:]
        known = np.isfinite(latents).all(1) & np.isfinite(predicted).all((1, 2))
        means, noise, steps = np.zeros((regimes, d)), np.zeros((regimes, d, d)), np.zeros(regimes)
        spread = np.zeros((d, d))
        for k in range(regimes):
            rows = known & (regime == k)
            if not rows.any():
                raise DataError(f"regime number {k} has no step with a full history")
            error = latents[rows] - predicted[rows, k]
            steps[k] = rows.sum()
            means[k] = latents[rows].mean(axis=0)
            noise[k] = error.T @ error / steps[k]
            centred = latents[rows] - means[k]
            spread += centred.T @ centred / steps[k] / regimes
        return cls(means, spread, noise, (width[known] ** 2).mean(axis=0), steps)

    @property
    def precision(self) -> np.ndarray:
        """Inverse of the noise covariance, all regimes alike, kept away from singularity."""
        covariance = self.noise.mean(axis=0)
        floor = 1e-6 * np.trace(covariance) / len(covariance)
        return np.linalg.inv(covariance + floor * np.eye(len(covariance)))

    def arrays(self) -> dict[str, np.ndarray]:
        """For storage."""
        return {f"reference_{name}": value for name, value in asdict(self).items()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Reference | None:
        """From storage; None where a model was stored without."""
        names = cls.__annotations__
        if not all(f"reference_{name}" in arrays for name in names):
            return None
        return cls(**{name: arrays[f"reference_{name}"] for name in names})
