"""Correct the scale of alpha(t) from stretches whose regime is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import DataError
from .simplex import linear_bounds, project


@dataclass(frozen=True, eq=False)
class Correction:
    """The map alpha -> matrix @ alpha + shift."""

    matrix: np.ndarray  # (K, K)
    shift: np.ndarray  # (K,)

    def apply(self, weights: np.ndarray, *, simplex: bool = True) -> np.ndarray:
        """Corrected weights (T, K)."""
        out = weights @ self.matrix.T + self.shift
        return project(out) if simplex else out

    def interval(
        self, alpha: np.ndarray, lower: np.ndarray, upper: np.ndarray, *, simplex: bool = True
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Corrected weights with the interval that theirs becomes; it always contains them."""
        found = self.apply(alpha, simplex=simplex)
        bounds = [b + self.shift for b in linear_bounds(self.matrix, alpha, lower, upper)]
        if simplex:
            bounds = [np.clip(b, 0.0, 1.0) for b in bounds]
        return found, np.minimum(bounds[0], found), np.maximum(bounds[1], found)


def two_point_map(
    seen: np.ndarray, wanted: np.ndarray, names: Sequence[str] | None = None
) -> Correction:
    """One affine map per regime, a * alpha + b, from weights found and true, both (n, K).

    With more than two points it is the least-squares line. A regime whose true weight is the same
    at all of them tells nothing of its scale: it is only shifted.
    """
    regimes = seen.shape[1]
    slope, shift = np.ones(regimes), np.zeros(regimes)
    for k in range(regimes):
        if np.ptp(wanted[:, k]) > 1e-9:
            if np.ptp(seen[:, k]) < 1e-9:
                raise DataError(
                    f"regime {names[k] if names else k} has the same weight at all known rows",
                    fix="name other rows",
                )
            slope[k] = np.polyfit(seen[:, k], wanted[:, k], 1)[0]
        shift[k] = wanted[:, k].mean() - slope[k] * seen[:, k].mean()
    return Correction(np.diag(slope), shift)


def two_point(
    weights: np.ndarray, known: dict[int, np.ndarray], *, simplex: bool = True
) -> np.ndarray:
    """Correct weights (T, K) by the rows whose true weights (K,) are known (appendix E.2)."""
    if not known:
        raise DataError("no row with known weights was given", fix="name at least two")
    rows = np.array(sorted(known))
    truth = np.stack([np.asarray(known[row], float) for row in rows])
    return two_point_map(weights[rows], truth).apply(weights, simplex=simplex)


def mixing_matrix(pure: dict[int, np.ndarray]) -> np.ndarray:
    """M of alpha_found = M alpha_true, column k from rows (n, K) found where regime k was pure."""
    regimes = len(pure)
    if set(pure) != set(range(regimes)) or any(len(rows) == 0 for rows in pure.values()):
        raise DataError(
            "a regime has no pure stretch", fix="give rows of every regime, numbered from 0"
        )
    return np.stack([np.asarray(pure[k]).mean(axis=0) for k in range(regimes)], axis=1)


def unmixing_map(matrix: np.ndarray) -> Correction:
    """The inverse of a mixing matrix (appendix A.8, effect of basis error)."""
    if np.linalg.cond(matrix) > 1e6:
        raise DataError(
            "the recovered endpoints of two regimes coincide, so they cannot be told apart",
            fix="merge these regimes",
        )
    return Correction(np.linalg.inv(matrix), np.zeros(len(matrix)))


def unmix(weights: np.ndarray, matrix: np.ndarray, *, simplex: bool = True) -> np.ndarray:
    """Undo a known mixing of the weights."""
    return unmixing_map(matrix).apply(weights, simplex=simplex)
