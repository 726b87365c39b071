"""Can the regimes be told apart at all? Constant basis, conditional basis, duplicates."""

from __future__ import annotations

import numpy as np

from ..recover.reference import Reference
from ..recover.simplex import plane_basis

#: A regime is active if it holds at least this share at some step.
REAL_WEIGHT = 0.15
#: Stands for a deviation without bound.
NOT_AT_ALL = 1e6


def static_sigma_min(means: np.ndarray) -> float:
    """Smallest singular value of the paper's basis [mu_k - mu_0]; 0 if K - 1 exceeds d."""
    basis = (means[1:] - means[0]).T
    if basis.shape[1] > basis.shape[0]:
        return 0.0
    return float(np.linalg.svd(basis, compute_uv=False)[-1]) if basis.size else float("inf")


def weight_deviation(means: np.ndarray, covariance: np.ndarray) -> float:
    """Standard deviation of the worst weight by the constant basis of means (K, d), before it is
    cut to the simplex, at latents that scatter with this covariance (d, d) around their mixture.

    One over it is how many standard deviations of the scatter a regime's mean is away from all
    mixtures of the others, along the direction by which the pseudoinverse tells them apart.

    >>> weight_deviation(np.array([[0.0], [2.0]]), np.array([[1.0]]))
    0.5
    """
    if not static_sigma_min(means) > 0:
        return NOT_AT_ALL
    inverse = np.linalg.pinv((means[1:] - means[0]).T)
    others = inverse @ covariance @ inverse.T
    worst = max(float(others.sum()), float(np.diagonal(others).max(initial=0.0)))
    return min(worst**0.5, NOT_AT_ALL)


def step_scatter(reference: Reference, trials: int = 1) -> np.ndarray:
    """Covariance (d, d) of the state at one step of a pure recording around its regime's mean.

    Algorithm 1 puts every step on the simplex before it averages, and no window brings back what
    is cut off on one side: so single steps count (their mean over the trials, if pooled). The
    means themselves are those of finitely many series.
    """
    per_regime = max(len(reference.surprise) / len(reference.means), 1.0)
    return reference.spread / trials + reference.between / per_regime


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
    return max(least, NOT_AT_ALL**-2) ** -0.5


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
