"""The probability simplex: coordinates, projection, bounds."""

from __future__ import annotations

import numpy as np
from scipy.linalg import helmert


def helmert_basis(regimes: int) -> np.ndarray:
    """Helmert contrasts: orthonormal columns that span sum(w) = 0: (K, K - 1).

    >>> bool(np.allclose(helmert_basis(4).sum(axis=0), 0))
    True
    """
    return helmert(regimes).T


def project(points: np.ndarray) -> np.ndarray:
    """The nearest point of the probability simplex, for each row of (..., K).

    >>> project(np.array([0.8, 0.6, -0.4])).round(2).tolist()
    [0.6, 0.4, 0.0]
    """
    ordered = np.sort(points, axis=-1)[..., ::-1]
    excess = np.cumsum(ordered, axis=-1) - 1.0
    count = np.arange(1, points.shape[-1] + 1)
    support = (ordered * count > excess).sum(axis=-1, keepdims=True)
    shift = np.take_along_axis(excess, support - 1, axis=-1) / support
    return np.maximum(points - shift, 0.0)


def linear_bounds(
    rows: np.ndarray, alpha: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """How far rows (n, K) @ alpha can lie if each weight lies in its interval: (..., n) each.

    Weights sum to one, so what all regimes have in common cannot vary: the median of each row is
    taken off before the intervals are added up. With two regimes the bounds are exact.
    """
    own = rows - np.median(rows, axis=1, keepdims=True)
    positive, negative = np.maximum(own, 0.0).T, np.maximum(-own, 0.0).T
    down, up = alpha - lower, upper - alpha
    value = alpha @ rows.T
    return (
        value - (down @ positive + up @ negative),
        value + (up @ positive + down @ negative),
    )
