"""Correct the scale of alpha(t) from stretches whose regime is known."""

from __future__ import annotations

import numpy as np

from ..errors import DataError
from .simplex import project


def two_point(
    weights: np.ndarray, known: dict[int, np.ndarray], *, simplex: bool = True
) -> np.ndarray:
    """One affine map per regime, a * alpha + b, that meets the known rows (appendix E.2).

    `weights` is (T, K); `known` maps rows to their true weights (K,).
    """
    if not known:
        raise DataError("no row with known weights was given", fix="name at least two")
    rows = np.array(sorted(known))
    truth = np.stack([np.asarray(known[row], float) for row in rows])
    out = np.empty_like(weights)
    for k in range(weights.shape[1]):
        seen, wanted = weights[rows, k], truth[:, k]
        if np.ptp(seen) < 1e-9:
            if np.ptp(wanted) > 1e-9:
                raise DataError(
                    f"regime {k} has the same weight at all known rows", fix="name other rows"
                )
            out[:, k] = weights[:, k] + (wanted.mean() - seen.mean())
            continue
        slope, shift = np.polyfit(seen, wanted, 1)
        out[:, k] = slope * weights[:, k] + shift
    return project(out) if simplex else out


def mixing_matrix(pure: dict[int, np.ndarray]) -> np.ndarray:
    """M of alpha_found = M alpha_true, column k from rows (n, K) found where regime k was pure."""
    regimes = len(pure)
    if set(pure) != set(range(regimes)) or any(len(rows) == 0 for rows in pure.values()):
        raise DataError(
            "a regime has no pure stretch", fix="give rows of every regime, numbered from 0"
        )
    return np.stack([np.asarray(pure[k]).mean(axis=0) for k in range(regimes)], axis=1)


def unmix(weights: np.ndarray, matrix: np.ndarray, *, simplex: bool = True) -> np.ndarray:
    """Undo a known mixing of the weights (appendix A.8, effect of basis error)."""
    if np.linalg.cond(matrix) > 1e6:
        raise DataError(
            "the recovered endpoints of two regimes coincide, so they cannot be told apart",
            fix="merge these regimes",
        )
    out = np.linalg.solve(matrix, weights.T).T
    return project(out) if simplex else out
