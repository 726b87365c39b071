"""Can the regimes be told apart at all? Constant basis, conditional basis, duplicates."""

from __future__ import annotations

import numpy as np


def static_sigma_min(means: np.ndarray) -> float:
    """Smallest singular value of the paper's basis [mu_k - mu_0]; 0 if K - 1 exceeds d."""
    basis = (means[1:] - means[0]).T
    if basis.shape[1] > basis.shape[0]:
        return 0.0
    return float(np.linalg.svd(basis, compute_uv=False)[-1])


def separation(information: np.ndarray) -> np.ndarray:
    """Squared distance of the predictions of each two regimes, in units of the noise: (K, K).

    `information` is sum_t M_t' R^-1 M_t. The square root says by how many standard deviations
    the whole recording could tell one regime from the other, were it pure.
    """
    own = np.diagonal(information)
    return np.maximum(own[:, None] + own[None] - 2 * information, 0.0)


def closest_pair(distance: np.ndarray) -> tuple[int, int]:
    """The two regimes that are hardest to tell apart."""
    hidden = distance + np.diag(np.full(len(distance), np.inf))
    first, second = np.unravel_index(int(hidden.argmin()), hidden.shape)
    return int(min(first, second)), int(max(first, second))
