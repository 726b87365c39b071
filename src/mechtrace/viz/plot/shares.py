"""Figures of shares as colours and places: many series, the simplex, frames of a film."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import ConfigError, DataError
from .figure import (
    EARLY,
    GRID,
    INK,
    LATE,
    NEUTRAL,
    SOFT,
    as_curve,
    axes_for,
    colour,
    colour_bar,
    colour_map,
    curves_of_one_model,
    for_each_step,
    legend_above,
    like,
    moments,
    name_ticks,
    numbers,
    plain,
    regime_number,
    tidy,
    time_axis,
)

if TYPE_CHECKING:
    from ...stage2.trajectory import Trajectory

#: Pixels: width, largest height, and largest height of a row.
ACROSS, DOWN, ROW = 600, 960, 24
#: Saturation of flagged steps.
PALE = 0.35
#: Regimes that never reach this share are left out.
AT_WORK = 0.1


def overview(
    paths: Sequence[Trajectory | Any], ax: Any = None, *, regime: str | None = None
) -> Any:
    """Draw many series, a row each: the shares stacked, or the share of one regime.

    Flagged steps are pale. With hundreds of series, a row shows only the regime in the middle of
    the stack.

    Parameters
    ----------
    paths
        Recovered curves, or shares (T, K).
    ax
        Axes to draw into; a new figure without.
    regime
        Show only the share of this regime, as a shade.
    """
    curves = curves_of_one_model(paths)
    regimes = curves[0].regimes
    k = regime_number(curves[0], regime)
    ax = axes_for(ax, (8, float(np.clip(1.2 + 0.22 * len(curves), 2.4, 7))))
    shade = ShareColours(curves[0], k)
    span = np.array([min(p.time[0] for p in curves), max(p.time[-1] for p in curves)])
    first, last = _time_numbers(span)
    grid, height = np.linspace(first, last, ACROSS), int(np.clip(DOWN // len(curves), 1, ROW))
    gap = height // 8  # white, between the rows
    pixels = np.full((len(curves), height, ACROSS, 3), 255, dtype=np.uint8)
    for row, path in zip(pixels, curves, strict=True):
        step, inside = _nearest(_time_numbers(path.time), grid)
        alpha = path.alpha[step]
        if regime is None:
            found = _stacked(alpha, height - gap)
        else:
            found = shade.map(alpha[:, k])[None, :, :3]
        found = np.where((path.flag[step] != "")[:, None], 1 - PALE * (1 - found), found)
        known = inside & np.isfinite(alpha).all(axis=1)
        row[gap:, known] = (255 * found)[:, known]
    edges = (first, max(last, first + 1e-9), len(curves) - 0.5, -0.5)
    ax.imshow(pixels.reshape(-1, ACROSS, 3), aspect="auto", extent=edges, interpolation="nearest")
    tidy(ax, "time", "series")
    time_axis(ax.xaxis, span)
    name_ticks(ax.yaxis, [path.name for path in curves])
    if regime is None:
        for i, name in enumerate(regimes):
            ax.plot([], [], "s", color=colour(i), label=plain(name))
        legend_above(ax)
    else:
        shade.bar(ax)
    return ax


def _stacked(alpha: np.ndarray, height: int) -> np.ndarray:
    """Return colours (height, T, 3) of stacked shares, the first regime lowest."""
    from matplotlib.colors import to_rgb

    pure = np.array([to_rgb(colour(k)) for k in range(alpha.shape[1])])
    level = (np.arange(height)[::-1] + 0.5) / height
    tops = np.cumsum(alpha, axis=1)[:, :-1]
    return pure[(tops < level[:, None, None]).sum(axis=-1)]


def _time_numbers(time: np.ndarray) -> np.ndarray:
    """Convert times to the numbers of matplotlib."""
    from matplotlib.dates import date2num

    return np.asarray(date2num(time) if time.dtype.kind == "M" else time, dtype=float)


def _nearest(time: np.ndarray, grid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the step nearest to each time of the grid, and whether it is close enough."""
    half = float(np.median(np.diff(time))) / 2 if len(time) > 1 else np.inf
    inside = (grid >= time[0] - half) & (grid <= time[-1] + half)
    return np.searchsorted((time[1:] + time[:-1]) / 2, grid), inside


def simplex_path(path: Trajectory | Any, ax: Any = None, *, truth: Any = None) -> Any:
    """Draw the path of a curve on the simplex: a segment, a triangle, or a polygon.

    With more than three regimes, a point is the mean of the corners weighted by the shares: a
    projection in which different mixtures can coincide. Regimes that never reach a share of 0.1
    are left out.

    Parameters
    ----------
    path
        A recovered curve, or shares (T, K).
    ax
        Axes to draw into; a new figure without.
    truth
        True shares (T, K), drawn dashed.
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
    """Return the regimes that take part, at least two."""
    peak = np.where(np.isfinite(alpha), alpha, 0.0).max(axis=0)
    chosen = set(np.argsort(-peak)[:2]) | set(np.flatnonzero(peak >= AT_WORK))
    if len(chosen) < 2:
        raise DataError("one regime has no simplex to move in", fix="give at least two")
    return np.array(sorted(chosen))


def _shares(alpha: np.ndarray, used: np.ndarray) -> np.ndarray:
    """Normalise the shares of the regimes that take part."""
    total = alpha[:, used].sum(axis=1, keepdims=True)
    return alpha[:, used] / np.where(total > 0, total, np.nan)


def _segment(ax: Any, path: Trajectory, used: np.ndarray, truth: np.ndarray | None) -> None:
    """Draw two regimes, with time running down."""
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
    """Draw three or more regimes as corners."""
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


def frames(
    images: Any,
    path: Trajectory | Any,
    ax: Any = None,
    *,
    regime: str | None = None,
    count: int = 6,
) -> Any:
    """Draw some images in a row, framed in the colour of the share of one regime.

    Parameters
    ----------
    images
        Images (T, H, W) or (T, H, W, colours).
    path
        A recovered curve, or shares (T, K).
    ax
        Axes to draw into; a new figure without.
    regime
        Which share to show; by default that of the last regime.
    count
        How many images, evenly spaced.
    """
    path = as_curve(path)
    film = for_each_step(numbers(images, "images", 3, 4), path, "images")
    if film.ndim == 4 and film.shape[3] not in (1, 3, 4):
        raise DataError(f"images have shape {film.shape}", fix="put 1, 3 or 4 colours last")
    film = film[..., 0] if film.shape[3:] == (1,) else film
    seen = film[np.isfinite(film)]
    if not len(seen):
        raise DataError("the images show nothing", fix="give some that are known")
    low, high = float(seen.min()), float(seen.max())
    k, steps = regime_number(path, regime), evenly_spaced(len(path), count)
    ax = axes_for(ax, (1.5 * count + 1, 2.2))
    from matplotlib.patches import Rectangle

    shade = ShareColours(path, k)
    height, width = film.shape[1:3]
    apart, line = 1.15 * width, 0.03 * width
    for place, step in enumerate(steps):
        left = place * apart
        picture = (film[step] - low) / ((high - low) or 1.0)
        ax.imshow(picture, cmap="gray", vmin=0, vmax=1, extent=(left, left + width, height, 0))
        ax.add_patch(
            Rectangle((left - line, -line), width + 2 * line, height + 2 * line, fill=False,
                      ec=shade.map(shade.share[step]), lw=3.5)
        )  # fmt: skip
    ax.set_xlim(-0.1 * width, (len(steps) - 1) * apart + 1.1 * width)
    ax.set_ylim(1.1 * height, -0.1 * height)
    ax.set_yticks([])
    ax.set_xticks(apart * np.arange(len(steps)) + width / 2, labels=moments(path, steps))
    tidy(ax, "time")
    ax.spines[:].set_visible(False)
    shade.bar(ax)
    return ax


class ShareColours:
    """Colours of the steps of a curve by the share of regime `k`."""

    def __init__(self, path: Trajectory, k: int) -> None:
        self.share = path.alpha[:, k]
        low = (colour(1 - k), NEUTRAL) if len(path.regimes) == 2 else ("#DDE2E7",)
        self.map = colour_map(*low, colour(k)).with_extremes(bad=SOFT)
        self.label = f"share of {path.regimes[k]}"

    def bar(self, ax: Any) -> None:
        """Draw the colour bar."""
        from matplotlib.cm import ScalarMappable

        colour_bar(ax, ScalarMappable(cmap=self.map), self.label)


def evenly_spaced(steps: int, count: int) -> np.ndarray:
    """Return the indices of at most `count` of the steps, evenly spaced."""
    if count < 1:
        raise ConfigError(f"count = {count}", fix="show at least one")
    return np.unique(np.linspace(0, steps - 1, min(count, steps)).round().astype(int))
