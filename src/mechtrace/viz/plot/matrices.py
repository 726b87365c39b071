"""Figures of matrices: mechanisms, W(t), and the correlation of learned and true latents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import norm, rankdata

from ...errors import ConfigError, DataError
from ...identifiability.mechanisms import Mechanisms
from .figure import (
    GRID,
    INK,
    MINUS,
    PLUS,
    SOFT,
    as_curve,
    axes_for,
    colour,
    colour_bar,
    colour_map,
    moments,
    name_ticks,
    numbers,
    panels_for,
    plain,
    regime_number,
)

#: Effects closer to zero than this many standard errors may be none: two-sided, 5 %.
SURE = float(norm.isf(0.025))
#: Numbers are written into cells of matrices up to this size.
WRITTEN = 10
#: Radius of a node where the circle of all has radius 1.
NODE = 0.13


def mechanisms(
    found: Mechanisms | Any,
    ax: Any = None,
    *,
    lag: int = 1,
    difference: bool = False,
    columns: int = 5,
) -> np.ndarray:
    """Draw the effects of each regime as matrices, rows acting on columns.

    Effects that do not differ from zero are hatched where standard errors are known.

    Parameters
    ----------
    found
        Mechanisms, or matrices (K, d, d) or (K, lags, d, d).
    ax
        Axes to draw into: one that is divided, or one per panel; a new figure without.
    lag
        Which lag to show.
    difference
        Show the difference to the median regime, or to the first of two.
    columns
        Panels in a row.
    """
    found = as_mechanisms(found)
    weights, error = effects(found, lag, difference)
    axes = panels_for(ax, len(weights), columns=columns)
    largest = largest_of(weights)
    for k, one in enumerate(axes):
        drawn = _effects(one, weights[k], found.latents, largest)
        one.set_title(plain(found.regimes[k]), color=colour(k), fontsize=10)
        if error is not None:
            _hatch(one, np.abs(weights[k]) < SURE * error[k])
        if k % min(columns, len(axes)):
            one.set_ylabel("")
    what = "difference to the usual" if difference else "effect"
    colour_bar(list(axes), drawn, f"{what} at lag {lag}")
    return axes


def mechanisms_at(
    found: Mechanisms | Any, path: Any, times: Sequence[Any], ax: Any = None, *, lag: int = 1
) -> np.ndarray:
    """Draw W(t), the mixture of the mechanisms, at some times of a curve.

    Parameters
    ----------
    found
        Mechanisms, or matrices (K, d, d) or (K, lags, d, d).
    path
        A recovered curve, or shares (T, K).
    times
        The nearest step to each is shown.
    ax
        Axes to draw into: one that is divided, or one per panel; a new figure without.
    lag
        Which lag to show.
    """
    found, path = as_mechanisms(found), as_curve(path)
    if len(path.regimes) != len(found.regimes):
        raise DataError(
            f"the curve has {len(path.regimes)} regimes, the mechanisms {len(found.regimes)}",
            fix="use a curve of the same model",
        )
    if not len(times):
        raise DataError("there is no time to show", fix="give at least one")
    try:
        stamps = np.asarray(times, dtype="M8[ns]" if path.time.dtype.kind == "M" else float)
    except (TypeError, ValueError) as error:
        raise DataError("these are no times", fix=f"give times such as {path.time[0]}") from error
    steps = np.abs(path.time[:, None] - stamps).argmin(axis=0)
    weights = found.at(path.alpha[steps])[:, lag_number(found, lag)]
    axes = panels_for(ax, len(steps))
    largest = largest_of(weights)
    for one, moment, matrix in zip(axes, moments(path, steps), weights, strict=True):
        drawn = _effects(one, matrix, found.latents, largest)
        one.set_title(f"t = {moment}", fontsize=10, color=INK)
        if one is not axes[0]:
            one.set_ylabel("")
    colour_bar(list(axes), drawn, f"effect at lag {lag}")
    return axes


def mechanism_graph(
    found: Mechanisms | Any,
    regime: str | None = None,
    ax: Any = None,
    *,
    lag: int = 1,
    difference: bool = False,
    top: int = 20,
) -> Any:
    """Draw the strongest effects of one regime as a graph.

    Blue and solid is positive, orange and dashed negative, width is strength. Effects that do not
    differ from zero are left out where standard errors are known.

    Parameters
    ----------
    found
        Mechanisms, or matrices (K, d, d) or (K, lags, d, d).
    regime
        Which regime; by default the last.
    ax
        Axes to draw into; a new figure without.
    lag
        Which lag to show.
    difference
        Show the difference to the median regime, or to the first of two.
    top
        How many effects to show.
    """
    found = as_mechanisms(found)
    k = regime_number(found, regime)
    weights, error = effects(found, lag, difference)
    shown, largest = np.nan_to_num(weights[k]), largest_of(weights)
    if error is not None:
        shown = np.where(np.abs(shown) >= SURE * error[k], shown, 0.0)
    if top < 1:
        raise ConfigError(f"top = {top}", fix="show at least one effect")
    ax = axes_for(ax, (4, 4))
    size = len(shown)
    turn = np.pi / 2 - 2 * np.pi * np.arange(size) / size
    place = np.column_stack([np.cos(turn), np.sin(turn)])
    for edge in np.argsort(-np.abs(shown), axis=None)[:top]:
        source, target = divmod(int(edge), size)
        weight = float(shown[source, target])
        if weight:
            _arrow(ax, place[source], place[target], weight, abs(weight) / largest)
    ax.scatter(*place.T, s=420, color="white", edgecolor=SOFT, lw=1.2, zorder=3)
    for name, spot in zip(found.latents, place, strict=True):
        ax.annotate(plain(name), spot, ha="center", va="center", fontsize=9, color=INK, zorder=4)
    ax.set_aspect("equal")
    ax.set_xlim(-1.55, 1.55)
    ax.set_ylim(-1.55, 1.55)
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_visible(False)
    ax.set_title(plain(found.regimes[k]), color=colour(k), fontsize=10)
    what = "differences to the usual" if difference else "effects"
    ax.set_xlabel(f"{what} at lag {lag}: solid +, dashed \N{MINUS SIGN}", color=SOFT, fontsize=8)
    return ax


def correlation(
    truth: Any, learned: Any, ax: Any = None, *, rank: bool = False, match: bool = True
) -> Any:
    """Draw the absolute correlations of true and learned latents, with their MCC.

    Parameters
    ----------
    truth, learned
        Latents (..., d).
    ax
        Axes to draw into; a new figure without.
    rank
        Use rank correlations (Spearman).
    match
        Order learned latents by their partners (Hungarian matching).
    """
    from ...metrics import mean_correlation

    y, x = (numbers(z, name, 2, 3) for z, name in ((truth, "truth"), (learned, "learned")))
    y, x = y.reshape(-1, y.shape[-1]), x.reshape(-1, x.shape[-1])
    if len(y) != len(x):
        raise DataError(
            f"there are {len(y)} true and {len(x)} learned rows", fix="give the same rows of both"
        )
    known = np.isfinite(y).all(axis=1) & np.isfinite(x).all(axis=1)
    if known.sum() < 2:
        raise DataError("fewer than two rows are known of both", fix="give more rows")
    y, x = y[known], x[known]
    values = _correlations(*((rankdata(y, axis=0), rankdata(x, axis=0)) if rank else (y, x)))
    order = np.arange(x.shape[1])
    if match:
        partner = linear_sum_assignment(-values)[1]
        order = np.array([*partner, *(i for i in order if i not in partner)])
    side = 1.6 + 0.38 * len(order)
    ax = axes_for(ax, (side + 0.8, side))
    shown = values[:, order]
    drawn = ax.imshow(shown, cmap=colour_map("#FFFFFF", PLUS), vmin=0, vmax=1)
    _write(ax, shown)
    _frame(ax, [f"z{i}" for i in order], [f"z{i}" for i in range(len(values))])
    ax.set_xlabel("learned latent", color=INK)
    ax.set_ylabel("true latent", color=INK)
    ax.set_title(f"MCC = {mean_correlation(y, x, rank):.3f}", fontsize=10, color=INK)
    colour_bar(ax, drawn, "absolute correlation")
    return ax


# -- what is shown -----------------------------------------------------------------------------


def as_mechanisms(found: Any) -> Mechanisms:
    """Return Mechanisms as they are, and matrices as such."""
    if isinstance(found, Mechanisms):
        return found
    matrices = numbers(found, "the mechanisms", 3, 4)
    if matrices.shape[-1] != matrices.shape[-2]:
        raise DataError(f"the mechanisms have shape {matrices.shape}", fix="give square matrices")
    matrices = matrices if matrices.ndim == 4 else matrices[:, None]
    return Mechanisms(tuple(f"R{k}" for k in range(len(matrices))), matrices)


def lag_number(found: Mechanisms, lag: int) -> int:
    """Return the index of a lag."""
    if not 1 <= lag <= found.lags:
        raise ConfigError(f"there is no lag {lag}", fix=f"use one between 1 and {found.lags}")
    return lag - 1


def effects(found: Mechanisms, lag: int, difference: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """Return effects (K, d, d) at one lag, or their differences, with standard errors."""
    at = lag_number(found, lag)
    weights = found.jacobian[:, at]
    error = None if found.error is None else found.error[:, at]
    if not difference:
        return weights, error
    kinds = len(weights)
    weights = weights - (weights[0] if kinds == 2 else np.median(weights, axis=0))
    if error is not None:  # the median of many is surer than any one of them
        error = np.sqrt(error**2 + (error**2).mean(axis=0) / max(1, kinds - 1))
    return weights, error


def largest_of(weights: np.ndarray) -> float:
    """Return the largest finite effect, 1 if there is none."""
    return float(np.abs(weights[np.isfinite(weights)]).max(initial=0.0)) or 1.0


def _correlations(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    y, x = y - y.mean(axis=0), x - x.mean(axis=0)
    size = np.linalg.norm(y, axis=0)[:, None] * np.linalg.norm(x, axis=0)
    return np.abs(y.T @ x) / np.where(size > 0, size, 1.0)


# -- how it is drawn ---------------------------------------------------------------------------


def _effects(ax: Any, matrix: np.ndarray, names: Sequence[str], largest: float) -> Any:
    shades = colour_map(MINUS, "#FFFFFF", PLUS)
    drawn = ax.imshow(matrix, cmap=shades, vmin=-largest, vmax=largest)
    _frame(ax, names, names)
    ax.set_xlabel("to", color=INK)
    ax.set_ylabel("from", color=INK)
    return drawn


def _frame(ax: Any, columns: Sequence[str], rows: Sequence[str]) -> None:
    """Draw names along both sides and lines between the cells."""
    name_ticks(ax.xaxis, columns, most=12)
    name_ticks(ax.yaxis, rows, most=12)
    ax.set_xticks(np.arange(len(columns) + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(len(rows) + 1) - 0.5, minor=True)
    ax.grid(which="minor", color=GRID, lw=0.8)
    ax.tick_params(which="both", length=0, colors=SOFT, labelsize=8)
    ax.spines[:].set_visible(False)


def _hatch(ax: Any, cells: np.ndarray) -> None:
    """Hatch some cells."""
    edges = np.arange(len(cells) + 1) - 0.5
    ax.pcolor(
        edges,
        edges,
        np.ma.masked_where(~cells, np.zeros(cells.shape)),
        facecolor="none",
        edgecolor="#D3D9DF",
        linewidth=0,
        hatch="////",
    )


def _write(ax: Any, values: np.ndarray) -> None:
    """Write numbers into the cells of small matrices."""
    if max(values.shape) > WRITTEN:
        return
    for (i, j), value in np.ndenumerate(values):
        ink = "white" if value > 0.6 else SOFT
        ax.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=7, color=ink)


def _arrow(ax: Any, start: np.ndarray, end: np.ndarray, weight: float, strength: float) -> None:
    """Draw a bent arrow, so that both directions can be seen, or a loop."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    if np.allclose(start, end):
        out = start / np.linalg.norm(start)
        aside = np.array([-out[1], out[0]])
        points = [(0.8, 0.9), (3.8, 2.0), (3.8, -2.0), (0.9, -1.0)]
        curve = [start + NODE * (a * out + b * aside) for a, b in points]
    else:
        way = end - start
        bend = (start + end) / 2 + 0.14 * np.array([-way[1], way[0]])
        curve = [_towards(start, bend), bend, _towards(end, bend)]
    kinds = [Path.MOVETO] + [Path.CURVE4 if len(curve) == 4 else Path.CURVE3] * (len(curve) - 1)
    ax.add_patch(
        FancyArrowPatch(
            path=Path(curve, kinds),
            arrowstyle="-|>",
            mutation_scale=7 + 6 * strength,
            color=PLUS if weight > 0 else MINUS,
            lw=0.6 + 2.6 * strength,
            alpha=0.3 + 0.7 * strength,
            ls="-" if weight > 0 else (0, (4, 2)),
            zorder=2,
        )
    )


def _towards(node: np.ndarray, point: np.ndarray) -> np.ndarray:
    """Return the point on the rim of a node that faces a point."""
    way = point - node
    return node + (NODE + 0.02) * way / np.linalg.norm(way)
