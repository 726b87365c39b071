"""Figures of several recordings: a panel each, and all aligned at an event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ...errors import ConfigError, DataError
from ...stage2.events import UNITS, common_transition
from .curves import trajectory
from .figure import (
    SOFT,
    axes_for,
    colour,
    curves_of_one_model,
    legend_above,
    panels_for,
    plain,
    regime_number,
    tidy,
)

if TYPE_CHECKING:
    from ...stage2.trajectory import Trajectory

#: Moments of a transition at which recordings can be aligned.
MOMENTS = ("onset", "midpoint", "end")
#: Time on both sides of the moment that is drawn, in durations of the longest transition.
AROUND = 2.0
#: Share of the recordings that a median needs, so that it does not jump where few of them end.
MOST = 0.8
#: Points of the median curve.
GRID_POINTS = 400


def recordings(
    paths: Sequence[Trajectory | Any], ax: Any = None, *, titles: Sequence[str] | None = None
) -> np.ndarray:
    """Draw the shares of several recordings, each in a panel of its own.

    Parameters
    ----------
    paths
        Recovered curves of one model.
    ax
        Axes to draw into: one that is divided, or one per panel; a new figure without.
    titles
        Title of each panel; by default the names of the recordings.
    """
    curves = curves_of_one_model(paths)
    names = [path.name for path in curves] if titles is None else list(titles)
    if len(names) != len(curves):
        what = f"{len(curves)} recordings have {len(names)} titles"
        raise DataError(what, fix="give one for each")
    axes = panels_for(ax, len(curves), columns=1, size=(8, 2.2))
    for one, path, name in zip(axes, curves, names, strict=True):
        trajectory(path, one)
        one.get_legend().remove()
        one.set_title(plain(name), fontsize=9, color=SOFT, loc="left")
        one.set_ylabel("share")
    handles: dict[str, Any] = {}  # a flag that only some recordings have is named too
    for one in axes:
        handles |= {
            name: handle for handle, name in zip(*one.get_legend_handles_labels(), strict=True)
        }
    axes[0].legend(handles.values(), handles, loc="lower right", bbox_to_anchor=(1.0, 1.0),
                   ncol=len(handles), frameon=False, fontsize=8)  # fmt: skip
    return axes


def aligned(
    paths: Sequence[Trajectory | Any],
    ax: Any = None,
    *,
    event: Literal["onset", "midpoint", "end"] = "midpoint",
    regime: str | None = None,
) -> Any:
    """Draw one share of several recordings over the time since their main transition.

    The main transition is the one that most recordings have; those without it are left out. The
    thick line is the median, where four of five of the others are known.

    Parameters
    ----------
    paths
        Recovered curves of one model.
    ax
        Axes to draw into; a new figure without.
    event
        Moment of the transition at which time is 0.
    regime
        Which share to show; by default that of the regime that the transition leads to.

    Raises
    ------
    DataError
        If no recording has a transition.
    """
    if event not in MOMENTS:
        raise ConfigError(f"event={event!r} is not known", fix=f"use {', '.join(MOMENTS)}")
    curves = curves_of_one_model(paths)
    found = common_transition([path.events(minimum=2) for path in curves])
    pairs = [(path, e) for path, e in zip(curves, found, strict=True) if e is not None]
    if not pairs:
        raise DataError("no recording has a transition", fix="give recordings that change")
    first = pairs[0][1]
    k = regime_number(curves[0], first.to_regime if regime is None else regime)
    times = [_elapsed(path.time, getattr(e, event)) for path, e in pairs]
    longest = max(float(_elapsed(np.array([e.end]), e.onset)[0]) for _, e in pairs)
    steps = [np.median(np.diff(time)) for time in times if len(time) > 1]
    reach = max(AROUND * longest, 10 * float(np.median(steps)) if steps else 1.0)
    low = max(-reach, min(time[0] for time in times))
    high = min(reach, max(time[-1] for time in times))
    dates = first.onset.__class__ is np.datetime64
    size, unit = next((u for u in UNITS if high - low >= 2 * u[0]), UNITS[-1])
    size, unit = (size, f" ({unit})") if dates else (1.0, "")
    ax = axes_for(ax, (7, 3.2))
    for (path, _), time in zip(pairs, times, strict=True):
        ax.plot(time / size, path.alpha[:, k], color=colour(k), lw=0.9, alpha=0.45)
    grid = np.linspace(low, high, GRID_POINTS)
    known = [
        np.interp(grid, time, path.alpha[:, k], np.nan, np.nan)
        for (path, _), time in zip(pairs, times, strict=True)
    ]
    enough = np.isfinite(known).mean(axis=0) >= MOST
    middle = np.full(len(grid), np.nan)
    middle[enough] = np.nanmedian(np.array(known)[:, enough], axis=0)
    change = plain(f"{first.from_regime} → {first.to_regime}")
    label = f"median of {len(pairs)} recordings"
    if len(pairs) < len(curves):
        label += f" ({len(curves) - len(pairs)} without this transition)"
    ax.plot(grid / size, middle, color=colour(k), lw=2.4, label=label)
    ax.axvline(0, color=SOFT, lw=0.8, ls=":")
    ax.set_ylim(-0.02, 1.02)
    ax.set_xlim(low / size, high / size)
    tidy(ax, "", f"share of {curves[0].regimes[k]}", grid="y")
    ax.set_xlabel(f"time since the {event} of {change}{unit}")
    legend_above(ax)
    return ax


def _elapsed(time: np.ndarray, moment: Any) -> np.ndarray:
    """Time since a moment; for dates in seconds."""
    passed = time - moment
    return passed / np.timedelta64(1, "s") if passed.dtype.kind == "m" else passed.astype(float)
