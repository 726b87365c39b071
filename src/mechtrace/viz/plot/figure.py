"""What every figure needs: checked inputs, colours, a place to draw, axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import ConfigError, DataError, MissingDependency
from ...stage2.trajectory import Trajectory
from ..narrative import Clock

#: Okabe and Ito's palette for colour-blind readers, blue and orange first.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#8C8C8C", "#000000")
#: From the ninth regime on, colours repeat with other dashes.
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (5, 2, 1, 2)), (0, (9, 3)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
FLAG_COLOURS = {
    "warm-up": "#8B95A1",
    "missing": "#4D5661",
    "unexplained": "#C0392B",
    "disagree": "#C98500",
}
LEVEL_COLOURS = {
    "good": "#1A6B3C",
    "caution": "#8A5300",
    "bad": "#B3261E",
    "untestable": "#59636E",
}
LEVEL_MARKERS = {"good": "o", "caution": "^", "bad": "X"}
PLUS, MINUS = "#0072B2", "#D55E00"
EARLY, LATE = "#C9B8E8", "#35126A"
INK, SOFT, GRID = "#1C2128", "#59636E", "#E9EDF1"
#: Between two colours of a map.
NEUTRAL = "#B9C1C9"


# -- inputs: result objects, or plain arrays, which are checked and converted -------------------


def curve(
    alpha: Any,
    time: Any = None,
    regimes: Sequence[str] | None = None,
    *,
    lower: Any = None,
    upper: Any = None,
    name: str = "curve",
) -> Trajectory:
    """Make a curve of plain arrays, such as that of another method.

    Parameters
    ----------
    alpha
        Shares (T, K).
    time
        Time of each step; by default its number.
    regimes
        Name of each regime.
    lower, upper
        Bounds of the intervals (T, K).
    name
        Name of the recording.

    Returns
    -------
    Trajectory

    Examples
    --------
    >>> curve([[1.0, 0.0], [0.4, 0.6]], regimes=["walk", "run"]).regimes
    ('walk', 'run')
    """
    shares = numbers(alpha, "alpha", 2)
    steps, kinds = shares.shape
    names = tuple(f"R{k}" for k in range(kinds)) if regimes is None else tuple(map(str, regimes))
    stamps = np.arange(steps) if time is None else np.asarray(time)
    if len(names) != kinds or stamps.shape != (steps,):
        raise DataError(
            f"alpha has shape {shares.shape}, with {len(names)} names and times of shape"
            f" {stamps.shape}",
            fix="give one time for each row and one name for each column",
        )
    nothing = np.full(steps, np.nan)
    return Trajectory(
        name,
        stamps,
        names,
        shares,
        shares if lower is None else like(lower, shares, "lower"),
        shares if upper is None else like(upper, shares, "upper"),
        residual=nothing,
        flag=np.full(steps, "", dtype=object),
        surprise=nothing,
        information=np.full((kinds, kinds), np.nan),
        latent_mean=np.full(0, np.nan),
        method="given",
    )


def as_curve(found: Any) -> Trajectory:
    """Return a Trajectory as it is, and shares (T, K) as one."""
    path = found if isinstance(found, Trajectory) else curve(found)
    if not len(path):
        raise DataError("the curve has no steps", fix="give at least one")
    return path


def curves_of_one_model(paths: Sequence[Trajectory | Any]) -> list[Trajectory]:
    """Return curves that can share a figure: at least one, the same regimes, one kind of time."""
    curves = [as_curve(path) for path in paths]
    if not curves:
        raise DataError("there is no series to show", fix="give at least one")
    if any(path.regimes != curves[0].regimes for path in curves):
        raise DataError("the series have different regimes", fix="use curves of one model")
    if len({path.time.dtype.kind == "M" for path in curves}) > 1:
        raise DataError("some series have dates, others numbers", fix="show them one by one")
    return curves


def regime_number(path: Any, regime: str | None) -> int:
    """Return the column of a regime; the last one by default."""
    if regime is None:
        return len(path.regimes) - 1
    if regime not in path.regimes:
        raise ConfigError(
            f"there is no regime {regime!r}", fix=f"the regimes are {', '.join(path.regimes)}"
        )
    return int(path.regimes.index(regime))


def numbers(values: Any, name: str, *dimensions: int) -> np.ndarray:
    """Return a non-empty array of floats with one of these numbers of dimensions."""
    try:
        out = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} is not made of numbers", fix="give an array") from error
    if out.ndim not in dimensions or not out.size:
        wanted = " or ".join(map(str, dimensions))
        raise DataError(
            f"{name} has shape {out.shape}", fix=f"give an array of {wanted} dimensions"
        )
    return out


def like(values: Any, other: np.ndarray, name: str) -> np.ndarray:
    """Return an array of floats; raise DataError unless it has the shape of another."""
    out = numbers(values, name, other.ndim)
    if out.shape != other.shape:
        raise DataError(
            f"{name} has shape {out.shape}, not {other.shape}", fix="give a value for each"
        )
    return out


def moments(path: Trajectory, steps: np.ndarray) -> list[str]:
    """Format the times of some steps with the precision of the sampling."""
    clock = Clock(path.time)
    return [clock.moment(path.time[step]) for step in steps]


def for_each_step(values: np.ndarray, path: Trajectory, name: str) -> np.ndarray:
    """Raise DataError unless there is a row for each step of a curve."""
    if len(values) != len(path):
        raise DataError(
            f"{name} has {len(values)} rows, the curve {len(path)} steps",
            fix="give one row for each step",
        )
    return values


# -- colours -----------------------------------------------------------------------------------


def colour(k: int) -> str:
    """Return the colour of regime or method number k."""
    return COLOURS[k % len(COLOURS)]


def dash(k: int) -> Any:
    """Return the line style of regime or method number k."""
    return DASHES[k // len(COLOURS) % len(DASHES)]


def colour_map(*stops: str) -> Any:
    """Interpolate between colours."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("mechtrace", stops)


# -- where to draw -----------------------------------------------------------------------------


def axes_for(ax: Any, size: tuple[float, float] = (8, 3)) -> Any:
    """Return the given axes, or those of a new figure of this size in inches."""
    if ax is None:
        return _figure(size).subplots()
    if not hasattr(ax, "plot") or not hasattr(ax, "figure"):
        raise ConfigError(f"ax is {type(ax).__name__}", fix="give the axes of a matplotlib figure")
    return ax


def panels_for(
    ax: Any, count: int, *, columns: int | None = None, size: tuple[float, float] = (2.4, 2.4)
) -> np.ndarray:
    """Return `count` axes: the given ones, one given that is divided, or new ones."""
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
    """Escape a name, so that "$" starts no formula and "_" hides nothing from a legend."""
    text = str(name).replace("$", r"\$")
    return f"\N{ZERO WIDTH SPACE}{text}" if text.startswith("_") else text


def tidy(ax: Any, x: str = "", y: str = "", *, grid: str = "") -> None:
    """Set labels, remove two spines, and add a faint grid along "x", "y" or "both"."""
    ax.set_xlabel(plain(x), color=INK)
    ax.set_ylabel(plain(y), color=INK)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(SOFT)
    ax.tick_params(colors=SOFT, labelsize=8)
    if grid:
        ax.grid(axis=grid, color=GRID, lw=0.8)
        ax.set_axisbelow(True)


def time_axis(axis: Any, time: np.ndarray) -> None:
    """Set the limits to the first and last time, and format dates concisely."""
    if time.dtype.kind == "M":
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator, across = AutoDateLocator(), axis.axis_name == "x"
        axis.set_major_locator(locator)
        axis.set_major_formatter(ConciseDateFormatter(locator, show_offset=across))
    if time[0] != time[-1]:
        axis.axes.set(**{f"{axis.axis_name}lim": (time[0], time[-1])})


def legend_above(ax: Any) -> None:
    """Put the legend above the axes, in as many columns as fit."""
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
    """Put names at 0, 1, 2, ...; only some of them if there are many."""
    shown = range(0, len(names), -(-len(names) // most))
    axis.set_ticks(shown, labels=[plain(names[i]) for i in shown])


def colour_bar(ax: Any, drawn: Any, label: str, *, shrink: float = 1.0) -> Any:
    """Add a slim colour bar beside one axes, or beside several."""
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
    """Make an axis logarithmic, without minor ticks."""
    from matplotlib.ticker import NullLocator

    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    if ticks is not None:
        axis.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    axis.set_minor_locator(NullLocator())
