"""Figures over time: shares, calibration, residual, surprise, latents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError
from .inputs import as_curve, like, numbers, regime_number
from .style import (
    FLAG_COLOURS,
    GRID,
    INK,
    SOFT,
    axes_for,
    colour,
    dash,
    legend_above,
    panels_for,
    plain,
    tidy,
    time_axis,
)

if TYPE_CHECKING:
    from ..recover.known import Known
    from ..recover.trajectory import Trajectory

#: Room that a lane of latents has, in standard deviations.
LANE = 4.0


def trajectory(
    path: Trajectory | Any, ax: Any = None, truth: Any = None, *, events: bool = True
) -> Any:
    """alpha(t) with its intervals, flagged stretches shaded, handovers marked, truth dashed.

    `plot.trajectory(trace.recover(panel), truth=alpha)`
    """
    path = as_curve(path)
    known = None if truth is None else like(truth, path.alpha, "truth")
    ax = axes_for(ax)
    for k, name in enumerate(path.regimes):
        _band(ax, path, k, k, name)
        if known is not None:
            ax.plot(path.time, known[:, k], color=colour(k), lw=1.0, ls="--")
    if known is not None:
        ax.plot([], [], color=SOFT, lw=1.0, ls="--", label="truth")
    _shade_flags(path, ax)
    for event in path.events(minimum=2) if events else ():
        ax.axvline(event.midpoint, color=SOFT, lw=0.8, ls=":", zorder=1)
    _share_axis(ax, path)
    legend_above(ax)
    return ax


def compare_curves(
    found: Mapping[str, Trajectory | Any],
    ax: Any = None,
    *,
    regime: str | None = None,
    truth: Any = None,
) -> Any:
    """The share of one regime (by default the last) as several methods see it; truth is black.

    `plot.compare_curves({"mechtrace": path, "classifier": shares}, regime="run")`
    """
    if not found:
        raise DataError("there is no curve to compare", fix="give at least one")
    paths = {name: as_curve(one) for name, one in found.items()}
    first = next(iter(paths.values()))
    columns = [regime_number(path, regime) for path in paths.values()]
    known = None if truth is None else like(truth, first.alpha, "truth")
    ax = axes_for(ax)
    for i, (name, path) in enumerate(paths.items()):
        _band(ax, path, columns[i], i, name)
    k = columns[0]
    if known is not None:
        ax.plot(first.time, known[:, k], color=INK, lw=1.2, ls="--", label="truth")
    _share_axis(ax, first, f"share of {first.regimes[k]}")
    legend_above(ax)
    return ax


def calibration(
    before: Trajectory | Any,
    after: Trajectory | Any,
    ax: Any = None,
    *,
    truth: Any = None,
    known: Sequence[Known] = (),
) -> np.ndarray:
    """A curve as recovered and as calibrated, side by side; known stretches as bars on top.

    `plot.calibration(path, path.calibrate(known), known=known)`
    """
    from ..recover.known import stretches_of

    pair = as_curve(before), as_curve(after)
    stretches = [(one, one.truth(pair[0].regimes)) for one in stretches_of(known)]
    axes = panels_for(ax, 2, size=(4.4, 3.0))
    for one, path, title in zip(axes, pair, ("as recovered", "calibrated"), strict=True):
        trajectory(path, one, truth, events=False)
        one.set_title(title, fontsize=9, color=SOFT, loc="left")
        for stretch, weights in stretches:
            inside = path.time[stretch.inside(path.time)]
            here = stretch.series in (None, path.name) and len(inside)
            for k in np.flatnonzero(weights).tolist() if here else ():
                level = np.full(len(inside), weights[k])
                one.plot(
                    inside,
                    level,
                    color=colour(k),
                    lw=6,
                    alpha=0.35,
                    clip_on=False,
                    solid_capstyle="butt",
                )
    axes[1].set_ylabel("")
    axes[1].set_ylim(axes[0].get_ylim())
    axes[0].get_legend().remove()
    axes[1].get_legend().remove()
    handles, names = axes[0].get_legend_handles_labels()
    axes[1].legend(handles, names, fontsize=8, frameon=False, loc="center left",
                   bbox_to_anchor=(1.0, 0.5))  # fmt: skip
    return axes


def residual(path: Trajectory, ax: Any = None) -> Any:
    """How well the mixture explains each step; 1 is what pure regimes show.

    `plot.residual(path)`
    """
    path = as_curve(path)
    return _strip(path, path.residual, ax, "residual")


def surprise(path: Trajectory, ax: Any = None) -> Any:
    """Squared error of the prediction from the past, in units of its variance.

    `plot.surprise(path)`
    """
    path = as_curve(path)
    return _strip(path, path.surprise, ax, "surprise")


def latents(
    values: Any,
    ax: Any = None,
    *,
    time: Any = None,
    names: Sequence[str] | None = None,
    truth: Any = None,
) -> Any:
    """Latents (T, d) over time, each standardised and in a lane of its own; truth dashed.

    `plot.latents(trace.encode(panel)[0], time=path.time, names=trace.axes_.names)`
    """
    z = numbers(values, "latents", 2)
    steps, size = z.shape
    stamps = np.arange(steps) if time is None else np.asarray(time)
    labels = [f"z{i}" for i in range(size)] if names is None else list(names)
    if len(stamps) != steps or len(labels) != size:
        raise DataError(
            f"latents of shape {z.shape} have {len(stamps)} times and {len(labels)} names",
            fix="give one time for each row and one name for each column",
        )
    known = None if truth is None else like(truth, z, "truth")
    ax = axes_for(ax, (8, 0.8 + 0.45 * size))
    for i in range(size):
        floor = -i * LANE
        ax.axhline(floor, color=GRID, lw=0.8, zorder=0)
        ax.plot(stamps, floor + _standardised(z[:, i]), color=colour(0), lw=1.0)
        if known is not None:
            ax.plot(stamps, floor + _standardised(known[:, i]), color=INK, lw=0.8, ls="--")
    tidy(ax, "time", "latent (standardised)")
    ax.set_yticks(-LANE * np.arange(size), labels=list(map(plain, labels)))
    time_axis(ax.xaxis, stamps)
    return ax


# -- parts -------------------------------------------------------------------------------------


def _band(ax: Any, path: Trajectory, k: int, number: int, name: str) -> None:
    """The share of regime k and its interval, as line number so and so."""
    lower, upper = path.lower[:, k], path.upper[:, k]
    ax.fill_between(path.time, lower, upper, color=colour(number), alpha=0.18, lw=0)
    ax.plot(path.time, path.alpha[:, k], color=colour(number), ls=dash(number), lw=1.8,
            label=plain(name))  # fmt: skip


def _share_axis(ax: Any, path: Trajectory, label: str = "share of the mechanism") -> None:
    """From 0 to 1, or further where curves without the simplex go there."""
    shown = path.alpha[np.isfinite(path.alpha)]
    ax.set_ylim(min(-0.02, shown.min(initial=0.0)), max(1.02, shown.max(initial=1.0)))
    tidy(ax, "time", label, grid="y")
    time_axis(ax.xaxis, path.time)


def _strip(path: Trajectory, values: np.ndarray, ax: Any, label: str) -> Any:
    if not np.isfinite(values).any():
        raise DataError(f"nothing is known of the {label} of {path.name}", fix="recover it again")
    ax = axes_for(ax, (8, 1.8))
    ax.axhline(1.0, color=SOFT, lw=0.8, ls=":")
    ax.fill_between(path.time, 1.0, np.maximum(values, 1.0), color=FLAG_COLOURS["unexplained"],
                    alpha=0.25, lw=0)  # fmt: skip
    ax.plot(path.time, values, color=INK, lw=1.0)
    _shade_flags(path, ax)
    ax.set_ylim(0, max(2.0, 1.1 * float(np.nanmax(values))))
    tidy(ax, "time", label)
    time_axis(ax.xaxis, path.time)
    return ax


def _shade_flags(path: Trajectory, ax: Any) -> None:
    """One band per stretch of equal flags, half a step to each side."""
    if len(path) < 2:
        return
    half = (path.time[1] - path.time[0]) / 2
    named: set[str] = set()
    change = np.flatnonzero(path.flag[1:] != path.flag[:-1]) + 1
    for first, stop in zip([0, *change], [*change, len(path)], strict=True):
        flag = str(path.flag[first])
        if shade := FLAG_COLOURS.get(flag):
            left, right = path.time[first] - half, path.time[stop - 1] + half
            label = f"{'' if flag not in named else '_'}{flag}"  # "_": in the legend once
            ax.axvspan(left, right, color=shade, alpha=0.15, lw=0, zorder=0, label=label)
            named.add(flag)


def _standardised(values: np.ndarray) -> np.ndarray:
    known = values[np.isfinite(values)]
    if not len(known):
        return values
    return (values - known.mean()) / (known.std() or 1.0)
