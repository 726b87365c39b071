"""Qualitative structure: monotone stretches and the times of threshold crossings.

The paper's appendix "Preservation of Qualitative Structure" predicts that the estimate of a
monotone alpha is monotone and crosses thresholds at about the right time.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np


def crossing(curve: np.ndarray, threshold: float) -> float:
    """Interpolated row at which a curve last leaves the side it starts on, or NaN.

    >>> crossing(np.array([0.0, 0.4, 0.6, 1.0]), 0.5)
    1.5
    """
    side = curve > threshold
    before = np.flatnonzero(side == side[0])
    last = int(before[-1])
    if last == len(curve) - 1:
        return float("nan")
    low, high = curve[last], curve[last + 1]
    return last + float((threshold - low) / (high - low))


@dataclass(frozen=True)
class Shape:
    """Agreement of an estimated curve with the shape of the true one."""

    ordered: float  # share of pairs of rows in the right order
    shift: float  # mean absolute shift of crossings, in rows; NaN if there are none
    missed: float  # share of true crossings without a counterpart


def shape_kept(
    truth: np.ndarray,
    found: np.ndarray,
    *,
    apart: float = 0.1,
    thresholds: tuple[float, ...] = (0.25, 0.5, 0.75),
) -> Shape:
    """Compare an estimated curve with a true one where the truth is monotone.

    Parameters
    ----------
    truth, found : (T,)
        The two curves.
    apart : float
        Pairs of rows count whose truth differs by more than this.
    thresholds : tuple of float
        Levels whose crossings are compared.

    Returns
    -------
    Shape
        Share of ordered pairs, mean shift of crossings in rows, share of missed crossings.
    """
    order = np.argsort(truth, kind="stable")
    lower = np.searchsorted(truth[order], truth[order] - apart)  # rows clearly below each
    pairs = lower.sum()
    ordered = float(_count_below(found[order], lower).sum() / pairs) if pairs else float("nan")
    true_times = np.array([crossing(truth, level) for level in thresholds])
    times = np.array([crossing(found, level) for level in thresholds])
    wanted = np.isfinite(true_times)
    both = wanted & np.isfinite(times)
    shift = float(np.abs(times - true_times)[both].mean()) if both.any() else float("nan")
    missed = float(1 - both.sum() / wanted.sum()) if wanted.any() else float("nan")
    return Shape(ordered, shift, missed)


def _count_below(values: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Count which of the first `before` (T,) values are below each value (T,).

    O(T log T) by a wavelet matrix over the bits of the ranks.

    >>> _count_below(np.array([3.0, 1.0, 2.0, 2.5]), np.array([0, 1, 2, 3])).tolist()
    [0, 0, 1, 2]
    """
    rank = np.unique(values, return_inverse=True)[1]
    sorting, below = rank, np.zeros(len(rank), int)
    first, stop = np.zeros(len(rank), int), before
    for bit in reversed(range(int(rank.max(initial=0)).bit_length())):
        zero = (sorting >> bit & 1) == 0
        zeros = np.concatenate([[0], np.cumsum(zero)])
        one = (rank >> bit & 1) == 1
        below += np.where(one, zeros[stop] - zeros[first], 0)
        first = np.where(one, zeros[-1] + first - zeros[first], zeros[first])
        stop = np.where(one, zeros[-1] + stop - zeros[stop], zeros[stop])
        sorting = np.concatenate([sorting[zero], sorting[~zero]])
    return below


def longest_monotone(curve: np.ndarray) -> slice:
    """Find the longest monotone stretch of a curve (T,), rising or falling.

    >>> longest_monotone(np.array([1.0, 0.0, 0.5, 0.7, 0.6]))
    slice(1, 4, None)
    """
    best = slice(0, 0)
    for sign in (1, -1):
        breaks = np.flatnonzero(sign * np.diff(curve) < 0) + 1
        edges = [0, *breaks.tolist(), len(curve)]
        for a, b in pairwise(edges):
            if b - a > best.stop - best.start:
                best = slice(a, b)
    return best
