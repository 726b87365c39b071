"""Many series at once: a row for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError
from .inputs import as_curve, regime_number
from .style import (
    axes_for,
    colour,
    colour_bar,
    legend_above,
    name_ticks,
    plain,
    share_colours,
    tidy,
    time_axis,
)

if TYPE_CHECKING:
    from ..recover.trajectory import Trajectory

#: Pixels of the picture: across, and down at most; of a row, at most.
ACROSS, DOWN, ROW = 600, 960, 24
#: How much is left of a colour where a step is flagged.
PALE = 0.35


def overview(
    paths: Sequence[Trajectory | Any], ax: Any = None, *, regime: str | None = None
) -> Any:
    """One row per series: the shares stacked, or the share of one regime as a shade.

    Pale steps are flagged. Where there are hundreds of series, a row has one colour: that of the
    regime in the middle of the stack. `plot.overview(trace.recover(panel))`
    """
    curves = [as_curve(path) for path in paths]
    if not curves:
        raise DataError("there is no series to show", fix="give at least one")
    regimes = curves[0].regimes
    if any(path.regimes != regimes for path in curves):
        raise DataError("the series have different regimes", fix="use curves of one model")
    if len({path.time.dtype.kind == "M" for path in curves}) > 1:
        raise DataError("some series have dates, others numbers", fix="show them one by one")
    k = regime_number(curves[0], regime)
    ax = axes_for(ax, (8, float(np.clip(1.2 + 0.22 * len(curves), 2.4, 7))))
    shade = share_colours(k, len(regimes))
    span = np.array([min(p.time[0] for p in curves), max(p.time[-1] for p in curves)])
    first, last = _time_numbers(span)
    grid, height = np.linspace(first, last, ACROSS), int(np.clip(DOWN // len(curves), 1, ROW))
    gap = height // 8  # white, between the rows
    pixels = np.full((len(curves), height, ACROSS, 3), 255, dtype=np.uint8)
    for row, path in zip(pixels, curves, strict=True):
        step, inside = _nearest(_time_numbers(path.time), grid)
        alpha = path.alpha[step]
        found = (
            _stacked(alpha, height - gap) if regime is None else shade(alpha[:, k])[None, :, :3]
        )
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
        from matplotlib.cm import ScalarMappable

        colour_bar(ax, ScalarMappable(cmap=shade), f"share of {regime}")
    return ax


def _stacked(alpha: np.ndarray, height: int) -> np.ndarray:
    """Colours (height, T, 3) of shares stacked from the floor, the first regime lowest."""
    from matplotlib.colors import to_rgb

    pure = np.array([to_rgb(colour(k)) for k in range(alpha.shape[1])])
    level = (np.arange(height)[::-1] + 0.5) / height
    tops = np.cumsum(alpha, axis=1)[:, :-1]
    return pure[(tops < level[:, None, None]).sum(axis=-1)]


def _time_numbers(time: np.ndarray) -> np.ndarray:
    """Times as matplotlib counts them."""
    from matplotlib.dates import date2num

    return np.asarray(date2num(time) if time.dtype.kind == "M" else time, dtype=float)


def _nearest(time: np.ndarray, grid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The step nearest to each time of the grid, and whether it is near enough."""
    half = float(np.median(np.diff(time))) / 2 if len(time) > 1 else np.inf
    inside = (grid >= time[0] - half) & (grid <= time[-1] + half)
    return np.searchsorted((time[1:] + time[:-1]) / 2, grid), inside
