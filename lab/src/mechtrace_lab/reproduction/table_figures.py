"""Figures of tables: the printed numbers, Algorithm 1, mechtrace and the oracle together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mechtrace.viz.plot import INK, SOFT, log_axis, panels_for, tidy

from ..plot import published_vs_ours
from ..plot.sweeps import error_against_bound
from . import tables
from .models import SCALES
from .plan import SCHEDULES
from .result_store import Cells, ResultStore, answers, worlds

CORRELATION = "correlation with the true weights"
#: What is printed, the option that is varied, and the mark, by table.
SWEEPS = {
    "noise": (tables.NOISE, "noise", "o"),
    "perturbation": (tables.PERTURBATION, "edge", "s"),
}
TICKS = [digit * 10.0**power for power in range(-4, 5) for digit in (1, 2, 5)]


def theory(store: ResultStore) -> Any:
    """Errors below their bounds, sigma_min against what is varied, errors against the SNR."""
    every = [
        one for name in SWEEPS for _, found in store.measure_calls(name, "bounds") for one in found
    ]
    made = [one for one in every if one["error"] and one["bound"]]  # a bound may be infinite
    if not made:
        return None
    axes = panels_for(None, 3, size=(3.4, 3.2))
    error_against_bound(
        [one["error"] for one in made],
        [one["bound"] for one in made],
        axes[0],
        shade=published_vs_ours.STYLES["algorithm1"].colour,
    )
    below = 100 * np.mean([one["below"] for one in made])
    axes[0].set_title(f"{below:.4g} % of all steps below", fontsize=9, color=SOFT, loc="left")
    tidy(axes[0], "bound of Theorem 2", "error of Algorithm 1, mean of a world")
    cells: Cells = {}
    for name, (printed, option, mark) in SWEEPS.items():
        mine = store.cells(name)
        if mine:
            rows = [f"{option} {value:g}" for value in printed]
            found = answers(mine, rows, "sigma_min")
            published_vs_ours.against(axes[1], list(printed), found, mark=mark)
            _against_snr(axes[2], mine, rows, mark)
        cells |= mine
    tidy(axes[1], "noise, or size of the change", "smallest singular value", grid="both")
    tidy(axes[2], "effective signal-to-noise ratio", "mean absolute error, raw", grid="both")
    for axis in (axes[0].xaxis, axes[0].yaxis, axes[1].xaxis, axes[1].yaxis):
        _few_ticks(axis)
    marks = {f"{option} varied": mark for _, option, mark in SWEEPS.values()}
    look = {"ls": "none", "mfc": "none", "ms": 5, "color": SOFT}
    return _finished(
        store, cells, axes, {word: look | {"marker": mark} for word, mark in marks.items()}
    )


def _against_snr(ax: Any, cells: Cells, rows: list[str], mark: str) -> None:
    """Errors against the ratio; ours stand at that of Algorithm 1, which has the same latents."""
    ratio, error = (answers(cells, rows, column) for column in ("snr", "MAE raw"))
    for who, whose in (
        ("paper", "paper"),
        ("algorithm1", "algorithm1"),
        ("default", "algorithm1"),
    ):
        known = [(x.value, y) for x, y in zip(ratio[whose], error[who], strict=True) if x and y]
        at, found = [x for x, _ in known], [y for _, y in known]
        published_vs_ours.against(ax, at, {who: found}, dashes="none", mark=mark)


def scaling(store: ResultStore) -> Any:
    """Correlation against the number of active regimes, of alpha and of W."""
    return _by_schedule(store, "scaling", list(tables.SCALING), ("alpha", "W"))


def capacity(store: ResultStore) -> Any:
    """The same regimes active, in a model of 5 and of 10."""
    return _by_schedule(store, "capacity", list(tables.CAPACITY), ("K = 5", "K = 10"))


def window(store: ResultStore) -> Any:
    """Algorithm 1 against its window; ours and the oracle have none."""
    cells = store.cells("window")
    if not cells:
        return None
    widths = list(tables.WINDOW)
    axes = panels_for(None, 2, size=(3.8, 3.0))
    columns = {"corr": CORRELATION, "MAE": "mean absolute error"}
    for ax, (column, label) in zip(axes, columns.items(), strict=True):
        found = answers(cells, [f"w = {width}" for width in widths], column)
        for who in ("default", "oracle"):
            published_vs_ours.level(ax, who, found.pop(who)[0])
        published_vs_ours.against(ax, widths, found)
        tidy(ax, "smoothing window of Algorithm 1", label, grid="y")
        ax.set_xticks(widths)
    return _finished(store, cells, axes)


def samples(store: ResultStore) -> Any:
    """MCC and correlation against the recordings of each regime."""
    cells = store.cells("samples")
    if not cells:
        return None
    counts = sorted(tables.SAMPLES)
    share = SCALES[store.scale].share
    x = "recordings per regime" + ("" if share == 1 else f" (here {100 * share:g} %)")
    axes = panels_for(None, 3, size=(3.2, 3.0))
    columns = {
        "MCC": "MCC of the latents",
        "3 active": "correlation, 3 active",
        "5 active": "correlation, 5 active",
    }
    rows = [f"{count:,} per regime" for count in counts]
    for ax, (column, label) in zip(axes, columns.items(), strict=True):
        published_vs_ours.against(ax, counts, answers(cells, rows, column))
        log_axis(ax.xaxis, counts)
        tidy(ax, x, label, grid="y")
        ax.set_ylim(top=1.03)
    return _finished(store, cells, axes)


def beyond(store: ResultStore) -> Any:
    """Fifty regimes in few latents and in many."""
    cells = store.cells("beyond")
    return _finished(store, cells, _dots(cells, {"corr": CORRELATION})) if cells else None


def impurity(store: ResultStore) -> Any:
    """Impure regimes and wrong labels."""
    cells = store.cells("impurity")
    columns = {"MCC": "MCC of the latents", "corr": CORRELATION}
    return _finished(store, cells, _dots(cells, columns)) if cells else None


# -- parts -------------------------------------------------------------------------------------


def _few_ticks(axis: Any) -> None:
    """Use ticks at 1, 2 and 5 of each decade."""
    log_axis(axis)
    low, high = sorted(axis.get_view_interval())
    log_axis(axis, [tick for tick in TICKS if low <= tick <= high])


def _by_schedule(store: ResultStore, table: str, counts: list[int], parts: tuple[str, str]) -> Any:
    """A panel for each schedule: correlation against the number of active regimes."""
    cells = store.cells(table)
    if not cells:
        return None
    axes = panels_for(None, len(SCHEDULES), size=(3.2, 3.2))
    for ax in axes[1:]:
        ax.sharey(axes[0])
    looks = dict(zip(parts, (("-", "o"), ("--", "D")), strict=True))
    for ax, schedule in zip(axes, SCHEDULES, strict=True):
        for part, (dashes, mark) in looks.items():
            found = answers(cells, [f"{part}, {count} active" for count in counts], schedule)
            published_vs_ours.against(ax, counts, found, dashes=dashes, mark=mark)
        tidy(ax, "active regimes", "correlation with the truth", grid="y")
        ax.set_title(schedule, fontsize=9, color=INK, loc="left")
        ax.set_xticks(counts)
        ax.label_outer()
    shared = {"color": SOFT, "ms": 4}
    more = {part: shared | {"ls": d, "marker": m} for part, (d, m) in looks.items()}
    return _finished(store, cells, axes, more)


def _dots(cells: Cells, columns: Mapping[str, str]) -> Any:
    """A panel for each column, a line for each row of the table."""
    rows = list(dict.fromkeys(row for row, column in cells if column in columns))
    axes = panels_for(None, len(columns), size=(3.8, 0.8 + 0.42 * len(rows)))
    for ax, (column, label) in zip(axes, columns.items(), strict=True):
        published_vs_ours.dots(ax, rows, answers(cells, rows, column))
        tidy(ax, label, grid="x")
        ax.tick_params(axis="y", labelleft=ax is axes[0])
    return axes


def _finished(
    store: ResultStore, cells: Cells, axes: Any, more: Mapping[str, Any] | None = None
) -> Any:
    """Add the legend, the scale and the number of worlds."""
    figure = axes[0].figure
    published_vs_ours.legend(axes, more)
    count = worlds(cells)
    figure.supxlabel(
        f"scale {store.scale}, {count} {'world' if count == 1 else 'worlds'}",
        x=0.99, ha="right", fontsize=7, color=SOFT,
    )  # fmt: skip
    return figure
