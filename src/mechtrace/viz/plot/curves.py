"""Figures over time: shares, calibration, residual, prediction error, latents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...diagnose.findings import rounded
from ...errors import DataError
from .figure import (
    FLAG_COLOURS,
    GRID,
    INK,
    SOFT,
    as_curve,
    axes_for,
    colour,
    dash,
    legend_above,
    like,
    numbers,
    panels_for,
    plain,
    regime_number,
    tidy,
    time_axis,
)

if TYPE_CHECKING:
    from ...stage2.calibration import IntervalLike
    from ...stage2.trajectory import Trajectory

#: Height of a lane of latents, in standard deviations.
LANE = 4.0


def trajectory(
    path: Trajectory | Any, ax: Any = None, truth: Any = None, *, events: bool = True
) -> Any:
    """Draw shares with their intervals, flagged stretches, transitions and the truth.

    Parameters
    ----------
    path
        A recovered curve, or shares (T, K).
    ax
        Axes to draw into; a new figure without.
    truth
        True shares (T, K), drawn dashed.
    events
        Mark the midpoint of each transition.
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
    """Draw the share of one regime as recovered by several methods.

    Parameters
    ----------
    found
        Curve of each method, by its name.
    ax
        Axes to draw into; a new figure without.
    regime
        Which share to show; by default that of the last regime.
    truth
        True shares (T, K), drawn in black.
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
    known: Sequence[IntervalLike] = (),
) -> np.ndarray:
    """Draw a curve before and after calibration side by side.

    Parameters
    ----------
    before, after
        The curve as recovered and as calibrated.
    ax
        Axes to draw into: one that is divided, or one per panel; a new figure without.
    truth
        True shares (T, K), drawn dashed.
    known
        Intervals of known regime, drawn as bars.
    """
    from ...stage2.calibration import as_intervals

    pair = as_curve(before), as_curve(after)
    stretches = [(one, one.shares(pair[0].regimes)) for one in as_intervals(known)]
    axes = panels_for(ax, 2, size=(4.4, 3.0))
    for one, path, title in zip(axes, pair, ("as recovered", "calibrated"), strict=True):
        trajectory(path, one, truth, events=False)
        one.set_title(title, fontsize=9, color=SOFT, loc="left")
        for stretch, weights in stretches:
            inside = path.time[stretch.contains(path.time)]
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
    """Draw the residual of each step; pure regimes have 1.

    Parameters
    ----------
    path
        A recovered curve.
    ax
        Axes to draw into; a new figure without.
    """
    path = as_curve(path)
    return _strip(path, path.residual, ax, "residual")


def surprise(path: Trajectory, ax: Any = None) -> Any:
    """Draw the squared one-step prediction error in units of its variance.

    Parameters
    ----------
    path
        A recovered curve.
    ax
        Axes to draw into; a new figure without.
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
    """Draw latents over time, each standardised and in a lane of its own.

    Parameters
    ----------
    values
        Latents (T, d).
    ax
        Axes to draw into; a new figure without.
    time
        Time of each row; by default its number.
    names
        Name of each latent.
    truth
        True latents (T, d), drawn dashed.
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
    """Draw the share of regime k and its interval in the colour and dash of `number`."""
    lower, upper = path.lower[:, k], path.upper[:, k]
    ax.fill_between(path.time, lower, upper, color=colour(number), alpha=0.18, lw=0)
    ax.plot(path.time, path.alpha[:, k], color=colour(number), ls=dash(number), lw=1.8,
            label=plain(name))  # fmt: skip


def _share_axis(ax: Any, path: Trajectory, label: str = "share of the mechanism") -> None:
    """Set the limits to [0, 1], or wider for curves off the simplex."""
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
    most, usual = float(np.nanmax(values)), float(np.nanquantile(values, 0.98))
    top = 1.1 * max(1.8, min(most, 3 * usual))  # a few huge values must not flatten all others
    ax.set_ylim(0, top)
    tidy(ax, "time", f"{label} (to {rounded(most)})" if most > top else label)
    time_axis(ax.xaxis, path.time)
    return ax


def _shade_flags(path: Trajectory, ax: Any) -> None:
    """Shade each flagged stretch, half a step wider on both sides."""
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
