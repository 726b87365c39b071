"""Figures of studies: a score against a setting, errors against length and bound, methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mechtrace.errors import DataError
from mechtrace.viz.plot import (
    COLOURS,
    INK,
    MARKERS,
    SOFT,
    axes_for,
    colour,
    dash,
    legend_above,
    like,
    log_axis,
    numbers,
    panels_for,
    plain,
    tidy,
)

from ..studies.bounds import fitted_rate

if TYPE_CHECKING:
    import pandas as pd


def sweep(
    table: Any,
    x: str,
    y: str | Sequence[str],
    ax: Any = None,
    *,
    by: str | None = None,
    log: bool = False,
) -> Any:
    """Scores against a setting: means over the rows of equal x, and one standard deviation.

    The table is a DataFrame, the rows of a study or columns by name; `y` names one column or
    several, `by` one that tells methods apart. `plot.sweep(study["rows"], "active", ["pooled",
    "single"])`
    """
    scores = [y] if isinstance(y, str) else list(y)
    frame = _frame(table, [x, *scores], by)
    if log:
        _positive(frame[x].to_numpy(), x)
    groups = (
        [("", frame)] if by is None else [(str(k), g) for k, g in frame.groupby(by, sort=False)]
    )
    ax = axes_for(ax, (4.6, 3.2))
    lines = [(name, score, group) for name, group in groups for score in scores]
    for i, (name, score, group) in enumerate(lines):
        found = group.groupby(x)[score].agg(["mean", "std"])
        at, mean = found.index.to_numpy(float), found["mean"].to_numpy(float)
        spread = found["std"].fillna(0.0).to_numpy(float)
        label = ", ".join(filter(None, (name, score if len(scores) > 1 or not name else "")))
        ax.fill_between(at, mean - spread, mean + spread, color=colour(i), alpha=0.15, lw=0)
        ax.plot(at, mean, color=colour(i), ls=dash(i), marker=MARKERS[i % len(MARKERS)], ms=5,
                lw=1.6, label=plain(label))  # fmt: skip
    if log:
        log_axis(ax.xaxis, sorted(set(frame[x])))
    tidy(ax, x, scores[0] if len(scores) == 1 else "score", grid="both")
    if len(lines) > 1:
        legend_above(ax)
    return ax


def error_against_length(
    lengths: Any, errors: Mapping[str, Any] | Any, ax: Any = None, *, bound: Any = None
) -> Any:
    """Errors (n,) or (n, repeats) of recordings of n lengths, with the rate at which they fall.

    Of several methods: errors by name. `plot.error_against_length([50, 100, 200], errors)`
    """
    at = _positive(numbers(lengths, "lengths", 1), "lengths")
    named = errors if isinstance(errors, Mapping) else {"error": errors}
    found = {name: _repeats(values, name, at) for name, values in named.items()}
    limit = None if bound is None else like(bound, at, "bound")
    ax = axes_for(ax, (4.6, 3.4))
    for i, (name, repeats) in enumerate(found.items()):
        mean = repeats.mean(axis=1)
        rate = fitted_rate(at, mean)
        fitted = np.exp(np.log(mean).mean() + rate * (np.log(at) - np.log(at).mean()))
        ax.plot(np.repeat(at, repeats.shape[1]), repeats.ravel(), MARKERS[i % len(MARKERS)],
                color=colour(i), ms=4, alpha=0.6, mew=0)  # fmt: skip
        ax.plot(at, fitted, color=colour(i), lw=1.6, label=f"{plain(name)}: $T^{{{rate:.2f}}}$")
    if limit is not None:
        ax.plot(at, limit, color=INK, lw=1.0, ls="--", label="bound")
    log_axis(ax.xaxis, at.tolist())
    log_axis(ax.yaxis)
    tidy(ax, "length of the recording T", "error", grid="both")
    ax.legend(frameon=False, fontsize=8)
    return ax


def error_against_bound(
    errors: Any, bounds: Any, ax: Any = None, *, shade: str = COLOURS[0]
) -> Any:
    """Errors that were made against those that a theorem allows: all should lie below the line.

    `shade` is the colour of what lies below. `plot.error_against_bound(error, bound)`
    """
    made = _positive(numbers(errors, "errors", 1, 2).ravel(), "errors")
    allowed = _positive(like(np.ravel(bounds), made, "bounds"), "bounds")
    ax = axes_for(ax, (4, 3.6))
    ends = np.array([min(made.min(), allowed.min()) / 1.5, max(made.max(), allowed.max()) * 1.5])
    above = made > allowed
    ax.fill_between(ends, ends[0], ends, color=shade, alpha=0.06, lw=0)
    ax.plot(ends, ends, color=SOFT, lw=1.0, ls="--", label="error = bound")
    ax.scatter(allowed[~above], made[~above], s=16, color=shade, alpha=0.6, lw=0)
    ax.scatter(allowed[above], made[above], s=28, color=colour(4), marker="X", lw=0)
    log_axis(ax.xaxis)
    log_axis(ax.yaxis)
    ax.set_xlim(*ends)
    ax.set_ylim(*ends)
    tidy(ax, "bound", "error")
    within = 100 * (~above).mean()
    ax.set_title(f"{within:.3g} % within the bound", fontsize=9, color=SOFT, loc="left")
    ax.legend(frameon=False, fontsize=8, loc="upper left")
    return ax


def theory(rows: Any, ax: Any = None) -> np.ndarray:
    """Theorem 2 over worlds of varied noise and edges, as in the paper, in three panels.

    Errors against bounds, sigma_min against what was varied, errors against the signal-to-noise
    ratio. `plot.theory(theory_study()["rows"])`
    """
    frame = _frame(rows, ["value", "sigma_min", "snr", "error", "bound"], "varied")
    axes = panels_for(ax, 3, size=(3.4, 3.1))
    error_against_bound(frame["error"], frame["bound"], axes[0])
    sweep(frame, "value", "sigma_min", axes[1], by="varied")
    axes[1].set_xlabel("noise, or strength of the edges")
    for i, (name, group) in enumerate(frame.groupby("varied", sort=False)):
        axes[2].plot(group["snr"], group["error"], MARKERS[i % len(MARKERS)], color=colour(i),
                     alpha=0.7, mew=0, label=plain(name))  # fmt: skip
    tidy(axes[2], "effective signal-to-noise ratio", "error", grid="both")
    legend_above(axes[2])
    return axes


def methods(scores: Mapping[str, Any], ax: Any = None, *, label: str = "score") -> Any:
    """Methods one below the other: every run a dot, the mean a bar with its standard deviation.

    `plot.methods({"mechtrace": [0.98, 0.97], "algorithm 1": [0.91, 0.95]})`
    """
    if not isinstance(scores, Mapping) or not scores:
        raise DataError("there is no method to compare", fix="give scores by name")
    ax = axes_for(ax, (5, 1.0 + 0.45 * len(scores)))
    for row, (name, values) in enumerate(scores.items()):
        runs = np.atleast_1d(numbers(values, name, 0, 1))
        runs = runs[np.isfinite(runs)]
        if not len(runs):
            ax.text(0.5, row, "none", transform=ax.get_yaxis_transform(), color=SOFT, va="center")
            continue
        shift = np.linspace(-0.18, 0.18, len(runs)) if len(runs) > 1 else np.zeros(1)
        ax.scatter(runs, row + shift, s=14, color=colour(row), alpha=0.5, lw=0)
        mean, spread = runs.mean(), runs.std(ddof=1) if len(runs) > 1 else 0.0
        ax.plot([mean - spread, mean + spread], [row, row], color=colour(row), lw=2.2)
        ax.plot(mean, row, "D", color=colour(row), mec="white", ms=8)
        ax.annotate(f"{mean:.3g}", (1.01, row), xycoords=("axes fraction", "data"), va="center",
                    fontsize=8, color=INK)  # fmt: skip
    tidy(ax, label, "method", grid="x")
    ax.set_yticks(range(len(scores)), labels=list(map(plain, scores)))
    ax.set_ylim(len(scores) - 0.5, -0.5)
    return ax


def _frame(table: Any, columns: list[str], by: str | None) -> pd.DataFrame:
    """A table that has these columns of numbers, and one of names."""
    import pandas as pd

    try:
        frame = pd.DataFrame(table)
    except (TypeError, ValueError) as error:
        raise DataError("this is no table", fix="give rows or columns by name") from error
    missing = [name for name in [*columns, *([by] if by else [])] if name not in frame]
    if missing or frame.empty:
        what = f"no column {missing[0]!r}" if missing else "no rows"
        raise DataError(
            f"the table has {what}", fix=f"it has {', '.join(map(str, frame.columns)) or 'none'}"
        )
    return frame.assign(**{name: numbers(frame[name], name, 1) for name in columns})


def _repeats(values: Any, name: str, lengths: np.ndarray) -> np.ndarray:
    """Errors (n, repeats) of n lengths."""
    found = _positive(numbers(values, name, 1, 2), name)
    if len(found) != len(lengths) or len(lengths) < 2:
        raise DataError(
            f"{name} has {len(found)} rows for {len(lengths)} lengths",
            fix="give one for each, two at least",
        )
    return found.reshape(len(found), -1)


def _positive(values: np.ndarray, name: str) -> np.ndarray:
    if not (values > 0).all():
        raise DataError(f"{name} must be positive on a logarithmic scale", fix="leave out zeros")
    return values
