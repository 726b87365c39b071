"""The path of a curve on the simplex."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError
from .inputs import as_curve, like
from .style import (
    EARLY,
    GRID,
    INK,
    LATE,
    SOFT,
    axes_for,
    colour,
    colour_bar,
    colour_map,
    plain,
    tidy,
    time_axis,
)

if TYPE_CHECKING:
    from ..recover.trajectory import Trajectory

#: A regime that never gets this share is left out of the simplex.
AT_WORK = 0.1


def simplex_path(path: Trajectory | Any, ax: Any = None, *, truth: Any = None) -> Any:
    """The way through the simplex: a segment for two regimes, a triangle for three.

    Beyond, a polygon: each point is the mean of the corners weighted by alpha, a projection in
    which different mixtures can meet. Regimes that never reach a share of 0.1 are left out.
    `plot.simplex_path(path)`
    """
    path = as_curve(path)
    used = _at_work(path.alpha)
    known = None if truth is None else like(truth, path.alpha, "truth")
    ax = axes_for(ax, (4.2, 3.8))
    if len(used) == 2:
        _segment(ax, path, used, known)
    else:
        _polygon(ax, path, used, known)
    return ax


def _at_work(alpha: np.ndarray) -> np.ndarray:
    """Regimes that take part, at least two if there are two."""
    peak = np.where(np.isfinite(alpha), alpha, 0.0).max(axis=0)
    chosen = set(np.argsort(-peak)[:2]) | set(np.flatnonzero(peak >= AT_WORK))
    if len(chosen) < 2:
        raise DataError("one regime has no simplex to move in", fix="give at least two")
    return np.array(sorted(chosen))


def _shares(alpha: np.ndarray, used: np.ndarray) -> np.ndarray:
    """Shares among the regimes that take part."""
    total = alpha[:, used].sum(axis=1, keepdims=True)
    return alpha[:, used] / np.where(total > 0, total, np.nan)


def _segment(ax: Any, path: Trajectory, used: np.ndarray, truth: np.ndarray | None) -> None:
    """From one regime to the other, time running downwards."""
    for side, k in enumerate(used):
        ax.axvline(side, color=colour(k), lw=2.5)
        ax.annotate(plain(path.regimes[k]), (side, 1.02), xycoords=("data", "axes fraction"),
                    ha="center", va="bottom", color=colour(k), fontsize=9)  # fmt: skip
    if truth is not None:
        ax.plot(_shares(truth, used)[:, 1], path.time, color=INK, lw=1.0, ls="--")
    x = _shares(path.alpha, used)[:, 1]
    ax.plot(x, path.time, color=SOFT, lw=0.8)
    ax.scatter(x, path.time, c=np.arange(len(x)), cmap=colour_map(EARLY, LATE), s=14, zorder=3)
    ax.set_xlim(-0.08, 1.08)
    ax.set_xticks([0, 0.5, 1], labels=["1 : 0", "½ : ½", "0 : 1"])
    tidy(ax, "mixture", "time")
    time_axis(ax.yaxis, path.time[::-1])


def _polygon(ax: Any, path: Trajectory, used: np.ndarray, truth: np.ndarray | None) -> None:
    """Corners in a circle, the first one to the lower left of a triangle, else on top."""
    count = len(used)
    turn = np.pi / 2 + (2 * np.pi / 3 if count == 3 else 0) - 2 * np.pi * np.arange(count) / count
    corners = np.column_stack([np.cos(turn), np.sin(turn)])
    ring = np.concatenate([corners, corners[:1]])
    ax.plot(*ring.T, color=SOFT, lw=1.0, zorder=1)
    for i, share in product(range(3), (0.25, 0.5, 0.75)) if count == 3 else ():
        ends = share * corners[i] + (1 - share) * np.delete(corners, i, axis=0)
        ax.plot(*ends.T, color=GRID, lw=0.8, zorder=0)
    for corner, k in zip(corners, used, strict=True):
        ax.plot(*corner, "o", color=colour(k), ms=8, zorder=4)
        ax.annotate(plain(path.regimes[k]), 1.1 * corner, color=colour(k), fontsize=9,
                    ha=("center", "left", "right")[int(np.sign(corner[0].round(6)))],
                    va="bottom" if corner[1] > 0 else "top")  # fmt: skip
    if truth is not None:
        ax.plot(*(_shares(truth, used) @ corners).T, color=INK, lw=1.0, ls="--", zorder=2)
    x, y = (_shares(path.alpha, used) @ corners).T
    ax.plot(x, y, color=SOFT, lw=0.8, zorder=2)
    progress = np.linspace(0, 1, len(x))
    dots = ax.scatter(x, y, c=progress, cmap=colour_map(EARLY, LATE), s=16, zorder=3)
    ax.set_aspect("equal")
    ax.set_xlim(-1.35, 1.35)
    ax.set_ylim(-0.75 if count == 3 else -1.3, 1.3)
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_visible(False)
    ax.set_xlabel("each corner is a pure regime", color=SOFT, fontsize=8)
    bar = colour_bar(ax, dots, "time", shrink=0.5)
    bar.set_ticks([0, 1], labels=["start", "end"])
