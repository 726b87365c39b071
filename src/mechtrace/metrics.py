"""Metrics against a known truth: R2 and MCC of latents, correlation and error of alpha."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata


def linear_r2(truth: np.ndarray, learned: np.ndarray) -> float:
    """Return the R2 of a linear regression of the true latents on the learned ones.

    Parameters
    ----------
    truth, learned : ndarray (..., d)
        Latents of the same rows; the numbers of components may differ.

    Returns
    -------
    float
        Mean over the components of the truth that vary.
    """
    y = truth.reshape(-1, truth.shape[-1]).astype(float)
    x = learned.reshape(-1, learned.shape[-1]).astype(float)
    design = np.column_stack([x, np.ones(len(x))])
    fitted = design @ np.linalg.lstsq(design, y, rcond=None)[0]
    total = ((y - y.mean(0)) ** 2).sum(0)
    varies = total > 1e-12 * (y**2).sum(0)
    explained = 1 - ((y - fitted) ** 2).sum(0)[varies] / total[varies]
    return float(explained.mean()) if varies.any() else 0.0


def mean_correlation(truth: np.ndarray, learned: np.ndarray, rank: bool = False) -> float:
    """Return the mean correlation coefficient (MCC) after the best matching of components.

    Parameters
    ----------
    truth, learned : ndarray (..., d)
        Latents of the same rows; the numbers of components may differ.
    rank : bool
        Use Spearman instead of Pearson correlation.

    Returns
    -------
    float
        Mean absolute correlation over the components of the truth, matched by the Hungarian
        algorithm; a missing partner counts as 0.
    """
    y = truth.reshape(-1, truth.shape[-1]).astype(float)
    x = learned.reshape(-1, learned.shape[-1]).astype(float)
    if rank:
        y, x = rankdata(y, axis=0), rankdata(x, axis=0)
    y, x = _standardised(y), _standardised(x)
    correlation = np.abs(y.T @ x) / len(y)
    rows, columns = linear_sum_assignment(-correlation)
    return float(correlation[rows, columns].sum() / y.shape[1])


def _standardised(values: np.ndarray) -> np.ndarray:
    centred = values - values.mean(axis=0)
    deviation = centred.std(axis=0)
    return centred / np.where(deviation > 0, deviation, 1.0)


def weight_correlation(truth: np.ndarray, found: np.ndarray, rank: bool = False) -> float:
    """Return the mean correlation of recovered with true shares.

    Parameters
    ----------
    truth, found : ndarray (T, K)
        Shares alpha(t); rows in which `found` has NaN are left out.
    rank : bool
        Use Spearman instead of Pearson correlation.

    Returns
    -------
    float
        Mean over the regimes that vary in the truth, a constant answer counting as 0; NaN if
        none varies.
    """
    known = np.isfinite(found).all(axis=1)
    y, x = truth[known], found[known]
    varies = np.ptp(y, axis=0) > 1e-12
    if not varies.any():
        return float("nan")
    if rank:
        y, x = rankdata(y, axis=0), rankdata(x, axis=0)
    return float((_standardised(y) * _standardised(x)).mean(axis=0)[varies].mean())


def weight_error(truth: np.ndarray, found: np.ndarray) -> float:
    """Return the mean absolute error of shares (T, K); rows with NaN are left out."""
    known = np.isfinite(found).all(axis=1)
    return float(np.abs(truth[known] - found[known]).mean())


def invalid_fraction(found: np.ndarray, tolerance: float = 1e-9) -> float:
    """Return the fraction of entries of (T, K) shares outside [0, 1]."""
    known = found[np.isfinite(found).all(axis=1)]
    return float(((known < -tolerance) | (known > 1 + tolerance)).mean())


def known_mean(values: ArrayLike) -> float:
    """Return the mean of the finite values, NaN if there are none.

    >>> known_mean([1.0, np.nan, 2.0])
    1.5
    """
    known = np.asarray(values, dtype=float)
    known = known[np.isfinite(known)]
    return float(known.mean()) if len(known) else float("nan")
