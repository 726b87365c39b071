"""Figures in terms of the sensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import DataError
from ..strips import Strips
from .figure import SOFT, axes_for, colour, name_ticks, plain, tidy, time_axis

if TYPE_CHECKING:
    from ...stage2.contributions import Contributions


def contributions(found: Contributions, ax: Any = None) -> Any:
    """Draw which regime each sensor speaks for over time, as strips; the strongest first.

    Parameters
    ----------
    found
        The contributions of one recording, as `model.contributions` gives them.
    ax
        Axes to draw into; a new figure without.
    """
    if not hasattr(found, "sensors") or not len(found.time):
        raise DataError("these are no contributions", fix="give what model.contributions returns")
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Patch

    drawn = Strips.of(found.values, found.sensors, list(range(len(found.regimes))))
    lanes = len(drawn.names)
    ax = axes_for(ax, (8, 1.0 + 0.3 * lanes))
    own = np.array([to_rgb(colour(k)) for k in range(len(found.regimes))])[drawn.leader]
    share = np.clip(np.nan_to_num(drawn.strength) / drawn.full, 0, 1)[..., None]
    step = np.median(np.diff(found.time)) if len(found.time) > 1 else 1
    edges = np.append(found.time[drawn.starts], found.time[-1] + step)
    ax.pcolormesh(edges, np.arange(lanes + 1) - 0.5, (1 - share + share * own).swapaxes(0, 1))
    tidy(ax, "time", "sensor")
    time_axis(ax.xaxis, edges)
    name_ticks(ax.yaxis, drawn.names)
    ax.set_ylim(lanes - 0.5, -0.5)
    ax.axhline(0.5, color=SOFT, lw=1)
    ax.tick_params(axis="y", length=0)
    marks = [Patch(color=colour(k), label=plain(name)) for k, name in enumerate(found.regimes)]
    ax.legend(handles=marks, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=6,
              frameon=False, fontsize=8)  # fmt: skip
    about = f"full colour: {drawn.full:.2g} nats per row"
    ax.set_title(about, fontsize=8, color=SOFT, loc="right")
    return ax
