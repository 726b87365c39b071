"""Qualitative structure: monotone stretches and the times at which thresholds are crossed.

The paper's appendix "Preservation of Qualitative Structure" says that a monotone alpha stays
monotone and crosses thresholds at about the right time. Here is how to see whether it did.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..recover.trajectory import Trajectory
from .findings import Finding, graded

#: Range that a regime must cover for its direction to mean anything.
MOVES = 0.5
#: Share of the way travelled that goes in the wrong direction.
WAVERS = 0.15


def backtracking(curve: np.ndarray) -> float:
    """Share of the way travelled that goes against the overall direction: 0 if monotone.

    >>> round(backtracking(np.array([0.0, 0.6, 0.5, 1.0])), 4)
    0.0833
    """
    change = np.diff(curve[np.isfinite(curve)])
    way = np.abs(change).sum()
    return float(0.5 * (1 - abs(change.sum()) / way)) if way > 0 else 0.0


def crossing(curve: np.ndarray, threshold: float) -> float:
    """Row, between rows where need be, at which a curve last leaves the side it starts on.

    NaN if it never does.

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
    """How well the shape of a known curve is kept."""

    ordered: float  # share of pairs of rows, clearly apart in the truth, in the right order
    shift: float  # mean absolute shift of crossings, in rows; NaN if there are none
    missed: float  # share of true crossings that the found curve does not have


def shape_kept(
    truth: np.ndarray,
    found: np.ndarray,
    *,
    apart: float = 0.1,
    thresholds: tuple[float, ...] = (0.25, 0.5, 0.75),
) -> Shape:
    """Compare curves (T,) on a stretch where the truth is monotone."""
    higher = truth[:, None] - truth[None] > apart
    ordered = (
        float((found[:, None] > found[None])[higher].mean()) if higher.any() else float("nan")
    )
    true_times = np.array([crossing(truth, level) for level in thresholds])
    times = np.array([crossing(found, level) for level in thresholds])
    wanted = np.isfinite(true_times)
    both = wanted & np.isfinite(times)
    shift = float(np.abs(times - true_times)[both].mean()) if both.any() else float("nan")
    missed = float(1 - both.sum() / wanted.sum()) if wanted.any() else float("nan")
    return Shape(ordered, shift, missed)


def longest_monotone(curve: np.ndarray) -> slice:
    """The longest stretch in which a curve never turns back.

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


def orderly(path: Trajectory) -> Finding | None:
    """Does each handover go one way? Only where there is exactly one."""
    events = path.events(minimum=2)
    known = np.isfinite(path.alpha).all(axis=1)
    if len(events) != 1 or known.sum() < 3:
        return None
    alpha = path.alpha[known]
    moving = [k for k in range(len(path.regimes)) if np.ptp(alpha[:, k]) >= MOVES]
    if not moving:
        return None
    ways = {path.regimes[k]: backtracking(alpha[:, k]) for k in moving}
    name = max(ways, key=lambda regime: ways[regime])
    return Finding(
        "monotonicity",
        graded(ways[name], WAVERS, np.inf),  # a real recording may waver
        ways[name],
        WAVERS,
        f"There is one handover, and {100 * ways[name]:.0f} % of the way of {name!r} goes against"
        " its direction.",
        "If the true change is one-way, the wavering is noise: pool trials or record longer before"
        " reading times of thresholds off the curve.",
    )
