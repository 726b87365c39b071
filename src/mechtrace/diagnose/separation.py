"""Separation of the regimes: constant basis, conditional basis, duplicates."""

from __future__ import annotations

import numpy as np
from scipy.sparse.csgraph import connected_components

from ..linalg.simplex import helmert_basis
from ..stage2.pure_statistics import PureRegimeStatistics

#: Smallest share at some step that makes a regime active.
ACTIVE_SHARE = 0.15
#: Replaces an infinite standard deviation.
MAX_DEVIATION = 1e6


def static_sigma_min(means: np.ndarray) -> float:
    """Smallest singular value of the paper's basis [mu_1 - mu_0, ..., mu_{K-1} - mu_0].

    `means` (K, d) are the mean latents; 0 if K - 1 exceeds d, infinite for one regime.
    """
    basis = (means[1:] - means[0]).T
    if basis.shape[1] > basis.shape[0]:
        return 0.0
    return float(np.linalg.svd(basis, compute_uv=False)[-1]) if basis.size else float("inf")


def weight_deviation(means: np.ndarray, covariance: np.ndarray) -> float:
    """Largest standard deviation of a share estimated by the constant basis of means (K, d).

    Latents scatter with this covariance (d, d); the simplex is not imposed. The inverse is the
    distance of a regime's mean from mixtures of the others in standard deviations.

    >>> weight_deviation(np.array([[0.0], [2.0]]), np.array([[1.0]]))
    0.5
    """
    if not static_sigma_min(means) > 0:
        return MAX_DEVIATION
    inverse = np.linalg.pinv((means[1:] - means[0]).T)
    others = inverse @ covariance @ inverse.T
    worst = max(float(others.sum()), float(np.diagonal(others).max(initial=0.0)))
    return min(worst**0.5, MAX_DEVIATION)


def step_scatter(reference: PureRegimeStatistics, trials: int = 1) -> np.ndarray:
    """Covariance (d, d) of a pure recording's state around the estimated mean of its regime.

    Algorithm 1 projects every step to the simplex before it averages, so single steps count (or
    their mean over pooled trials); the second term is the error of the means.
    """
    per_regime = max(len(reference.surprise) / len(reference.means), 1.0)
    return reference.spread / trials + reference.between / per_regime


def active_regimes(alpha: np.ndarray) -> list[int]:
    """Regimes that reach `ACTIVE_SHARE` at some step of alpha (T, K), at least two of them."""
    known = np.isfinite(alpha).all(axis=1)
    highest = alpha[known].max(axis=0) if known.any() else np.ones(alpha.shape[1])
    active = highest >= ACTIVE_SHARE
    active[np.argsort(-highest, kind="stable")[:2]] = True
    return [int(k) for k in np.flatnonzero(active)]


def worst_deviation(information: np.ndarray, regimes: list[int] | None = None) -> float:
    """Largest standard deviation of a constant alpha, by information (K, K) sum_t M' R^-1 M."""
    chosen = list(range(len(information))) if regimes is None else regimes
    basis = helmert_basis(len(chosen))
    inside = basis.T @ information[np.ix_(chosen, chosen)] @ basis
    if not inside.size:
        return 0.0
    least = float(np.linalg.eigvalsh(inside)[0])
    return max(least, MAX_DEVIATION**-2) ** -0.5


def separation(information: np.ndarray) -> np.ndarray:
    """Squared distances (K, K) of the regimes' predictions by information sum_t M' R^-1 M."""
    own = np.diagonal(information)
    return np.maximum(own[:, None] + own[None] - 2 * information, 0.0)


def closest_pair(distance: np.ndarray) -> tuple[int, int]:
    """Return the two regimes of least distance."""
    hidden = distance + np.diag(np.full(len(distance), np.inf))
    first, second = np.unravel_index(int(hidden.argmin()), hidden.shape)
    return int(min(first, second)), int(max(first, second))


def clusters(alike: np.ndarray) -> list[list[int]]:
    """Group regimes that are alike (K, K), directly or through others, if two or more.

    >>> clusters(np.array([[1, 0, 1], [0, 1, 0], [1, 0, 1]], bool))
    [[0, 2]]
    """
    count, label = connected_components(alike, directed=False)
    groups = [np.flatnonzero(label == number).tolist() for number in range(count)]
    return sorted(group for group in groups if len(group) > 1)
