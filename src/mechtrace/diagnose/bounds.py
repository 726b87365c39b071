"""The quantities of the paper's theorems, from what can be measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Bounds:
    """Theorems 2 and 3 for the constant basis. O(.) constants are taken as 1."""

    sigma_min: float
    noise: float  # mean norm of the residual around the static mixture
    approximation: float  # delta_approx, where mixed data of known alpha was given
    snr: float  # sigma_min / (noise + approximation)
    pointwise: float  # Theorem 2: bound on |alpha_hat - alpha| at a step
    smooth: float  # Theorem 3: bound on the mean squared error of the smoothed curve


def theorem_bounds(
    means: np.ndarray, latents: np.ndarray, alpha: np.ndarray, approximation: float = 0.0
) -> Bounds:
    """From regime means (K, d), latents (T, d) and a recovered curve (T, K)."""
    from .geometry import static_sigma_min

    known = np.isfinite(latents).all(1) & np.isfinite(alpha).all(1)
    z, a = latents[known], alpha[known]
    error = z - a @ means
    sigma_min = static_sigma_min(means)
    noise = float(np.linalg.norm(error, axis=1).mean())
    per_component = float(error.std())
    steps, free = len(z), len(means) - 1
    variation = float(np.linalg.norm(np.diff(a, axis=0), axis=1).sum())
    with np.errstate(divide="ignore"):
        pointwise = np.divide(noise + approximation, sigma_min)
        smooth = (variation / steps) ** (2 / 3) * per_component ** (2 / 3) * free ** (
            1 / 3
        ) / np.float64(sigma_min) ** (2 / 3) + np.divide(approximation, sigma_min) ** 2
    return Bounds(
        sigma_min,
        noise,
        approximation,
        sigma_min / (noise + approximation),
        float(pointwise),
        float(smooth),
    )
