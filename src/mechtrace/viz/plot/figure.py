"""What all figures share: the colours of the report, where to draw, how axes look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import ConfigError, MissingDependency

#: Okabe and Ito's colours, which survive colour-blindness; blue and orange first.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#8C8C8C", "#000000")
#: From the ninth regime on colours come again, with other dashes.
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (5, 2, 1, 2)), (0, (9, 3)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
FLAG_COLOURS = {
    "warm-up": "#8B95A1",
    "missing": "#4D5661",
    "unexplained": "#C0392B",
    "disagree": "#C98500",
}
LEVEL_COLOURS = {"good": "#1A6B3C", "caution": "#8A5300", "bad": "#B3261E"}
LEVEL_MARKERS = {"good": "o", "caution": "^", "bad": "X"}
PLUS, MINUS = "#0072B2", "#D55E00"
EARLY, LATE = "#C9B8E8", "#35126A"
INK, SOFT, GRID = "#1C2128", "#59636E", "#E9EDF1"
#: Between two colours, where neither is meant.
NEUTRAL = "#B9C1C9"


def colour(k: int) -> str:
    """The colour of regime or method number k."""
    return COLOURS[k % len(COLOURS)]


def dash(k: int) -> Any:
    """The line style of regime or method number k."""
    return DASHES[k // len(COLOURS) % len(DASHES)]


def colour_map(*stops: str) -> Any:
    """A smooth change from colour to colour."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("mechtrace", stops)


def effect_colours() -> Any:
    """Orange for negative, white for none, blue for positive: as in the report."""
    return colour_map(MINUS, "#FFFFFF", PLUS)


def share_colours(k: int, regimes: int) -> Any:
    """From none to all of regime k; of two regimes, from the colour of the other one."""
    low = (colour(1 - k), NEUTRAL) if regimes == 2 else ("#DDE2E7",)
    return colour_map(*low, colour(k))


# -- where to draw -----------------------------------------------------------------------------


def axes_for(ax: Any, size: tuple[float, float] = (8, 3)) -> Any:
    """The axes that were given, or new ones of a figure of this size in inches."""
    if ax is None:
        return _figure(size).subplots()
    if not hasattr(ax, "plot") or not hasattr(ax, "figure"):
        raise ConfigError(f"ax is {type(ax).__name__}", fix="give the axes of a matplotlib figure")
    return ax


def panels_for(
    ax: Any, count: int, *, columns: int | None = None, size: tuple[float, float] = (2.4, 2.4)
) -> np.ndarray:
    """`count` axes: those that were given, or one given that is divided, or new ones."""
    columns = min(count, columns or count)
    rows = -(-count // columns)
    if ax is not None and (count == 1 or not hasattr(ax, "plot")):
        given = np.array(ax, dtype=object).ravel()
        if len(given) < count:
            raise ConfigError(
                f"{count} panels do not fit into {len(given)} axes", fix=f"give {count} axes"
            )
        return np.array([axes_for(one) for one in given[:count]], object)
    if ax is None:
        figure = _figure((size[0] * columns + 0.8, size[1] * rows + 0.3))
        grid = figure.add_gridspec(rows, columns)
    else:
        spec = axes_for(ax).get_subplotspec()
        if spec is None:
            raise ConfigError(
                f"axes without a place in a grid cannot be divided into {count}",
                fix="make them by subplots, or give a list of axes",
            )
        figure, grid = ax.figure, spec.subgridspec(rows, columns)
        ax.set_axis_off()
    return np.array([figure.add_subplot(grid[divmod(i, columns)]) for i in range(count)], object)


def _figure(size: tuple[float, float]) -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingDependency(
            "plots need the package matplotlib", fix='pip install "mechtrace[plot]"'
        ) from error
    return plt.figure(figsize=size, layout="constrained")


# -- how axes look -----------------------------------------------------------------------------


def plain(name: Any) -> str:
    """A name of the user's as text: "$" starts no formula, "_" hides nothing from a legend."""
    text = str(name).replace("$", r"\$")
    return f"\N{ZERO WIDTH SPACE}{text}" if text.startswith("_") else text


def tidy(ax: Any, x: str = "", y: str = "", *, grid: str = "") -> None:
    """Labels, two spines instead of four, and a faint grid along "x", "y" or "both"."""
    ax.set_xlabel(plain(x), color=INK)
    ax.set_ylabel(plain(y), color=INK)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(SOFT)
    ax.tick_params(colors=SOFT, labelsize=8)
    if grid:
        ax.grid(axis=grid, color=GRID, lw=0.8)
        ax.set_axisbelow(True)


def time_axis(axis: Any, time: np.ndarray) -> None:
    """From the first time to the last; dates are written once where they are the same."""
    if time.dtype.kind == "M":
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator, across = AutoDateLocator(), axis.axis_name == "x"
        axis.set_major_locator(locator)
        axis.set_major_formatter(ConciseDateFormatter(locator, show_offset=across))
    if time[0] != time[-1]:
        axis.axes.set(**{f"{axis.axis_name}lim": (time[0], time[-1])})


def legend_above(ax: Any) -> None:
    """A legend above the axes, where it covers nothing, in as many columns as fit."""
    names = ax.get_legend_handles_labels()[1]
    width = ax.get_window_extent().width / ax.figure.dpi
    needed = sum(0.35 + 0.05 * len(name) for name in names)  # inches, about
    ax.legend(
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncol=int(np.clip(len(names) * width / needed, 1, len(names))),
        frameon=False,
        fontsize=8,
    )


def name_ticks(axis: Any, names: Sequence[str], *, most: int = 25) -> None:
    """Names at 0, 1, 2 and so on; only some of them where there are many."""
    shown = range(0, len(names), -(-len(names) // most))
    axis.set_ticks(shown, labels=[plain(names[i]) for i in shown])


def colour_bar(ax: Any, drawn: Any, label: str, *, shrink: float = 1.0) -> Any:
    """A slim scale beside one axes, or beside several."""
    first = ax if hasattr(ax, "plot") else ax[0]
    bar = first.figure.colorbar(
        drawn,
        ax=ax,
        label=plain(label),
        fraction=0.04,
        pad=0.02,
        aspect=25 * shrink,
        shrink=shrink,
    )
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=SOFT, labelsize=8)
    return bar


def log_axis(axis: Any, ticks: Sequence[float] | None = None) -> None:
    """A logarithmic scale without minor ticks, whose labels would run into each other."""
    from matplotlib.ticker import NullLocator

    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    if ticks is not None:
        axis.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    axis.set_minor_locator(NullLocator())
