"""Bounds of Theorems 2 and 3 from measured quantities.

Theorem 2 holds with its constants as printed. Theorem 3 is printed as O(...): with its
constant taken as 1, a curve may exceed it without contradiction; its rate can be tested.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mechtrace.diagnose import static_sigma_min


@dataclass(frozen=True)
class Bounds:
    """Theorems 2 and 3 for the constant basis."""

    sigma_min: float
    noise: float  # mean norm of the residual around the static mixture
    approximation: float  # delta_approx, where mixed data of known alpha was given
    snr: float  # sigma_min / (noise + approximation), equation of section 5.2
    pointwise: float  # Theorem 2: bound on |alpha_hat - alpha| at a step of mean noise
    smooth: float  # Theorem 3: the expression inside O(.), for the mean squared error


def theorem_bounds(
    means: np.ndarray, latents: np.ndarray, alpha: np.ndarray, approximation: float = 0.0
) -> Bounds:
    """From regime means (K, d), latents (T, d) and a recovered or known curve (T, K).

    alpha has K weights here and K - 1 in the paper, which leaves the baseline out; norms and the
    total variation are of the K - 1.
    """
    known = np.isfinite(latents).all(1) & np.isfinite(alpha).all(1)
    z, a = latents[known], alpha[known]
    error = z - a @ means
    sigma_min = static_sigma_min(means)
    noise = float(np.linalg.norm(error, axis=1).mean())
    steps, free = len(z), len(means) - 1
    variation = float(np.linalg.norm(np.diff(a[:, 1:], axis=0), axis=1).sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        pointwise = np.divide(noise + approximation, sigma_min)
        smooth = smooth_bound(steps, free, sigma_min, float(error.std()), variation, approximation)
    return Bounds(
        sigma_min,
        noise,
        approximation,
        sigma_min / (noise + approximation),
        float(pointwise),
        smooth,
    )


def pointwise_bounds(
    means: np.ndarray, latents: np.ndarray, mixed_means: np.ndarray, alpha: np.ndarray
) -> np.ndarray:
    """Theorem 2 at every step, with that step's own noise and approximation error: (..., T).

    `mixed_means` (..., T, d) is the true mean at each step, so that noise = z - mixed mean and
    the approximation error = |mixed mean - mu_0 - B alpha|.
    """
    noise = np.linalg.norm(latents - mixed_means, axis=-1)
    approximation = np.linalg.norm(mixed_means - alpha @ means, axis=-1)
    with np.errstate(divide="ignore"):
        return (noise + approximation) / np.float64(static_sigma_min(means))


def smooth_bound(
    steps: int,
    free: int,
    sigma_min: float,
    sigma: float,
    variation: float,
    approximation: float = 0.0,
) -> float:
    """(V / T)^(2/3) sigma^(2/3) (K - 1)^(1/3) / sigma_min^(2/3) + delta^2 / sigma_min^2."""
    least = np.float64(sigma_min)
    with np.errstate(divide="ignore", invalid="ignore"):
        first = (variation / steps * sigma / least) ** (2 / 3) * free ** (1 / 3)
        second = (approximation / least) ** 2 if approximation else 0.0
    return float(first + second)


def approximation_error(means: np.ndarray, mixed: np.ndarray, alpha: np.ndarray) -> float:
    """delta_approx from mixed data of known alpha (appendix "Empirical Estimation").

    `mixed` (n, d) are mean latents of data at the weights `alpha` (n, K), for example 0.25, 0.5
    and 0.75 of a regime; the largest distance from the linear prediction is returned.
    """
    return float(np.linalg.norm(mixed - alpha @ means, axis=-1).max())


def fitted_rate(lengths: np.ndarray, errors: np.ndarray) -> float:
    """Exponent r of errors ~ length^r, by least squares on logarithms.

    >>> round(fitted_rate(np.array([10.0, 100.0]), np.array([1.0, 0.1])), 6)
    -1.0
    """
    return float(np.polyfit(np.log(lengths), np.log(errors), 1)[0])


def static_residuals(latents: np.ndarray, means: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """|z - mu_0 - B alpha| of the paper, for latents (..., d) and shares (..., K)."""
    return np.linalg.norm(latents - alpha @ means, axis=-1)
