"""The paper's own procedure, to the letter: constant basis, pseudoinverse, projection, window."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solveh_banded

from ..errors import ConfigError
from ..linalg.simplex import project


def static_weights(latents: np.ndarray, means: np.ndarray, *, simplex: bool = True) -> np.ndarray:
    """Weights (..., K) of latents (..., d) by least squares on the regimes' means (K, d).

    The first regime is the baseline; its weight is one minus the others, formed before the
    projection, since the pseudoinverse gives only K - 1 values.
    """
    baseline = means[0]
    basis = (means[1:] - baseline).T
    others = (latents - baseline) @ np.linalg.pinv(basis).T
    weights = np.concatenate([1 - others.sum(-1, keepdims=True), others], axis=-1)
    return project(weights) if simplex else weights


def centred_window(weights: np.ndarray, half_width: int = 5) -> np.ndarray:
    """Mean over 2w + 1 steps of (..., T, K); the first and last w steps stay as they are.

    The window looks w steps ahead: the answer is not causal. Where a step in the window is
    missing the step is left alone too.
    """
    out = weights.copy()
    whole = whole_windows(weights, half_width)
    if half_width == 0 or not whole.any():
        return out
    steps, width = weights.shape[-2], 2 * half_width + 1
    windows = np.lib.stride_tricks.sliding_window_view(weights, width, axis=-2)
    inside = slice(half_width, steps - half_width)
    mean = windows.mean(axis=-1)
    np.copyto(out[..., inside, :], mean, where=whole[..., inside, None])
    return out


def whole_windows(weights: np.ndarray, half_width: int) -> np.ndarray:
    """Steps (..., T) whose window of 2w + 1 steps lies inside (..., T, K) and misses nothing."""
    steps, width = weights.shape[-2], 2 * half_width + 1
    out = np.zeros(weights.shape[:-1], bool)
    if steps >= width:
        known = np.isfinite(weights).all(axis=-1)
        windows = np.lib.stride_tricks.sliding_window_view(known, width, axis=-1)
        out[..., half_width : steps - half_width] = windows.all(axis=-1)
    return out


def regularised(
    weights: np.ndarray, strength: float | str = "gcv", *, simplex: bool = True
) -> np.ndarray:
    """Theorem 3's smoother of pointwise weights (T, K), in O(T K): (I + s D'D) a = weights.

    `strength` is a number, "rule" for the T^(1/3) of the theorem, or "gcv" for generalised
    cross-validation. Missing rows are bridged.
    """
    smooth = _tridiagonal(weights, strength_of(weights, strength))
    return project(smooth) if simplex else smooth


def strength_of(weights: np.ndarray, strength: float | str) -> float:
    """The strength that is meant, for these weights (T, K)."""
    if strength == "rule":
        return float(len(weights) ** (1 / 3))
    if strength == "gcv":
        return _by_cross_validation(weights[np.isfinite(weights).all(axis=1)])
    if isinstance(strength, str) or not strength >= 0:
        raise ConfigError(f"strength = {strength!r}", fix='use a number >= 0, "rule" or "gcv"')
    return float(strength)


def averaging(steps: int, strength: float) -> float:
    """By how much the smoother lowers the variance of independent errors, mean over the steps."""
    return float((1 / (1 + strength * _eigenvalues(steps)) ** 2).mean())


def _eigenvalues(steps: int) -> np.ndarray:
    """Of D'D, first differences of so many steps: known cosines."""
    return 2 - 2 * np.cos(np.pi * np.arange(steps) / steps)


def _tridiagonal(weights: np.ndarray, strength: float) -> np.ndarray:
    steps = len(weights)
    known = np.isfinite(weights).all(axis=1)
    if steps == 1 or strength == 0 or not known.any():
        return weights.copy()
    band = np.empty((2, steps))
    band[0] = -strength
    band[1] = known + 2 * strength
    band[1, [0, -1]] -= strength
    return solveh_banded(band, np.where(known[:, None], weights, 0.0))


def _by_cross_validation(weights: np.ndarray) -> float:
    """Least T |a - Sa|^2 / (T - tr S)^2 over a grid."""
    steps = len(weights)
    grid = 10.0 ** np.arange(-2.0, 5.01, 0.25)
    scores = []
    for strength in grid:
        error = ((weights - _tridiagonal(weights, strength)) ** 2).sum()
        freedom = (1 / (1 + strength * _eigenvalues(steps))).sum()
        scores.append(error / (steps - freedom) ** 2 if steps > freedom else np.inf)
    return float(grid[int(np.argmin(scores))])
