"""Result objects -> matplotlib axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import MissingDependency

if TYPE_CHECKING:
    from .recover.trajectory import Trajectory

#: Okabe and Ito's colours, which survive colour-blindness; blue and orange first.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#999999", "#000000")
FLAG_COLOURS = {
    "warm-up": "0.92",
    "missing": "0.85",
    "unexplained": "#f7c6c5",
    "disagree": "#fdebc8",
}


def trajectory(path: Trajectory, ax: Any = None, truth: np.ndarray | None = None) -> Any:
    """alpha(t) with its intervals, flagged stretches shaded; returns the axes."""
    ax = ax or _new_axes()
    for k, name in enumerate(path.regimes):
        colour = COLOURS[k % len(COLOURS)]
        ax.fill_between(
            path.time, path.lower[:, k], path.upper[:, k], color=colour, alpha=0.15, lw=0
        )
        ax.plot(path.time, path.alpha[:, k], color=colour, lw=1.8, label=name)
        if truth is not None:
            ax.plot(path.time, truth[:, k], color=colour, lw=1.0, ls="--")
    _shade_flags(path, ax)
    ax.set_ylim(-0.02, 1.02)
    ax.set_xlim(path.time[0], path.time[-1])
    ax.set_xlabel("time")
    ax.set_ylabel("share of the mechanism")
    ax.spines[["top", "right"]].set_visible(False)
    columns = min(len(path.regimes), 8)
    ax.legend(
        loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=columns, frameon=False, fontsize=8
    )
    return ax


def residual(path: Trajectory, ax: Any = None) -> Any:
    """How well the mixture explains each step; 1 is what pure regimes show."""
    ax = ax or _new_axes()
    ax.axhline(1.0, color="0.6", lw=0.8)
    ax.plot(path.time, path.residual, color="0.25", lw=1.0)
    _shade_flags(path, ax)
    ax.set_ylim(0, max(2.0, 1.1 * np.nanmax(path.residual, initial=0.0)))
    ax.set_xlim(path.time[0], path.time[-1])
    ax.set_ylabel("residual")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _shade_flags(path: Trajectory, ax: Any) -> None:
    """One band per stretch of equal flags, half a step to each side."""
    if len(path) < 2:
        return
    half = (path.time[1] - path.time[0]) / 2
    change = np.flatnonzero(path.flag[1:] != path.flag[:-1]) + 1
    for first, stop in zip([0, *change], [*change, len(path)], strict=True):
        colour = FLAG_COLOURS.get(str(path.flag[first]))
        if colour:
            ax.axvspan(
                path.time[first] - half, path.time[stop - 1] + half, color=colour, lw=0, zorder=0
            )


def _new_axes() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingDependency(
            "plots need the package matplotlib", fix='pip install "mechtrace[plot]"'
        ) from error
    return plt.subplots(figsize=(8, 3), layout="constrained")[1]
