"""Figures of matrices: mechanisms, W(t), and the correlation of learned and true latents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import norm, rankdata

from ..errors import ConfigError, DataError
from ..recover.network import Mechanisms
from .inputs import as_curve, moments, numbers
from .style import (
    GRID,
    INK,
    PLUS,
    SOFT,
    axes_for,
    colour,
    colour_bar,
    colour_map,
    effect_colours,
    name_ticks,
    panels_for,
    plain,
)

#: Effects closer to zero than this many standard errors may be none: two-sided, 5 %.
SURE = float(norm.isf(0.025))
#: Numbers are written into cells of matrices up to this size.
WRITTEN = 10


def mechanisms(
    found: Mechanisms | Any,
    ax: Any = None,
    *,
    lag: int = 1,
    difference: bool = False,
    columns: int = 5,
) -> np.ndarray:
    """The effects of each regime, rows acting on columns; hatched where they may be none.

    With `difference`, what sets each regime apart from the usual: the median of all, or of two
    regimes the first. `plot.mechanisms(trace.weights_, difference=True)`
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
    found: Mechanisms | Any,
    path: Any,
    times: Sequence[Any],
    ax: Any = None,
    *,
    lag: int = 1,
) -> np.ndarray:
    """W(t) at some times of a recovered curve: at the step nearest to each.

    `plot.mechanisms_at(trace.mechanisms(), path, times=[0, 25, 49])`
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


def correlation(
    truth: Any, learned: Any, ax: Any = None, *, rank: bool = False, match: bool = True
) -> Any:
    """Absolute correlations of true and learned latents (..., d), and their MCC.

    With `match`, learned latents are put into the order of their partners (Hungarian matching);
    `rank` takes Spearman's. `plot.correlation(latents, np.concatenate(trace.encode(panel)))`
    """
    from ..metrics import mean_correlation

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
    _write(ax, shown, "{:.2f}")
    _frame(ax, [f"z{i}" for i in order], [f"z{i}" for i in range(len(values))])
    ax.set_xlabel("learned latent", color=INK)
    ax.set_ylabel("true latent", color=INK)
    ax.set_title(f"MCC = {mean_correlation(y, x, rank):.3f}", fontsize=10, color=INK)
    colour_bar(ax, drawn, "absolute correlation")
    return ax


# -- what is shown -----------------------------------------------------------------------------


def as_mechanisms(found: Any) -> Mechanisms:
    """Mechanisms as they are; matrices (K, d, d) or (K, L, d, d) as such."""
    if isinstance(found, Mechanisms):
        return found
    matrices = numbers(found, "the mechanisms", 3, 4)
    if matrices.shape[-1] != matrices.shape[-2]:
        raise DataError(f"the mechanisms have shape {matrices.shape}", fix="give square matrices")
    matrices = matrices if matrices.ndim == 4 else matrices[:, None]
    return Mechanisms(tuple(f"R{k}" for k in range(len(matrices))), matrices)


def lag_number(found: Mechanisms, lag: int) -> int:
    """Where a lag is in the array."""
    if not 1 <= lag <= found.lags:
        raise ConfigError(f"there is no lag {lag}", fix=f"use one between 1 and {found.lags}")
    return lag - 1


def effects(found: Mechanisms, lag: int, difference: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """Effects (K, d, d) of one lag, or what sets them apart from the usual, and their errors."""
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
    """The size of the strongest effect that is known, 1 where there is none."""
    return float(np.abs(weights[np.isfinite(weights)]).max(initial=0.0)) or 1.0


def _correlations(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    y, x = y - y.mean(axis=0), x - x.mean(axis=0)
    size = np.linalg.norm(y, axis=0)[:, None] * np.linalg.norm(x, axis=0)
    return np.abs(y.T @ x) / np.where(size > 0, size, 1.0)


# -- how it is drawn ---------------------------------------------------------------------------


def _effects(ax: Any, matrix: np.ndarray, names: Sequence[str], largest: float) -> Any:
    drawn = ax.imshow(matrix, cmap=effect_colours(), vmin=-largest, vmax=largest)
    _frame(ax, names, names)
    ax.set_xlabel("to", color=INK)
    ax.set_ylabel("from", color=INK)
    return drawn


def _frame(ax: Any, columns: Sequence[str], rows: Sequence[str]) -> None:
    """Names along both sides and white lines between the cells."""
    name_ticks(ax.xaxis, columns, most=12)
    name_ticks(ax.yaxis, rows, most=12)
    ax.set_xticks(np.arange(len(columns) + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(len(rows) + 1) - 0.5, minor=True)
    ax.grid(which="minor", color=GRID, lw=0.8)
    ax.tick_params(which="both", length=0, colors=SOFT, labelsize=8)
    ax.spines[:].set_visible(False)


def _hatch(ax: Any, cells: np.ndarray) -> None:
    """Grey strokes over some cells."""
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


def _write(ax: Any, values: np.ndarray, form: str) -> None:
    """Numbers in the cells, where there is room for them."""
    if max(values.shape) > WRITTEN:
        return
    for (i, j), value in np.ndenumerate(values):
        ink = "white" if value > 0.6 else SOFT
        ax.text(j, i, form.format(value), ha="center", va="center", fontsize=7, color=ink)
