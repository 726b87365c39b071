"""Can the regimes be told apart at all? Constant basis, conditional basis, duplicates."""

from __future__ import annotations

import numpy as np

from ..recover.simplex import plane_basis

#: A regime is active if it holds at least this share at some step.
REAL_WEIGHT = 0.15


def static_sigma_min(means: np.ndarray) -> float:
    """Smallest singular value of the paper's basis [mu_k - mu_0]; 0 if K - 1 exceeds d."""
    basis = (means[1:] - means[0]).T
    if basis.shape[1] > basis.shape[0]:
        return 0.0
    return float(np.linalg.svd(basis, compute_uv=False)[-1]) if basis.size else float("inf")


def active_regimes(alpha: np.ndarray, share: float = REAL_WEIGHT) -> list[int]:
    """Regimes with real weight somewhere in the curve (T, K), at least two of them."""
    known = np.isfinite(alpha).all(axis=1)
    highest = alpha[known].max(axis=0) if known.any() else np.ones(alpha.shape[1])
    active = highest >= share
    active[np.argsort(-highest, kind="stable")[:2]] = True
    return [int(k) for k in np.flatnonzero(active)]


def worst_deviation(information: np.ndarray, regimes: list[int] | None = None) -> float:
    """Standard deviation of a constant alpha along the direction that is seen worst.

    `information` (K, K) is sum_t M' R^-1 M; only directions inside the simplex plane count. It is
    what one would know after the whole recording if alpha stood still.
    """
    chosen = list(range(len(information))) if regimes is None else regimes
    basis = plane_basis(len(chosen))
    inside = basis.T @ information[np.ix_(chosen, chosen)] @ basis
    if not inside.size:
        return 0.0
    least = float(np.linalg.eigvalsh(inside)[0])
    return max(least, 1e-12) ** -0.5  # a million stands for "not at all"


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


def clusters(alike: np.ndarray) -> list[list[int]]:
    """Groups of two or more regimes that are alike, directly or through others: (K, K) bool.

    >>> clusters(np.array([[1, 0, 1], [0, 1, 0], [1, 0, 1]], bool))
    [[0, 2]]
    """
    reach = alike | np.eye(len(alike), dtype=bool)
    for _ in range(len(alike)):
        reach = reach @ reach
    groups = {tuple(np.flatnonzero(row).tolist()) for row in reach}
    return [list(group) for group in sorted(groups) if len(group) > 1]
