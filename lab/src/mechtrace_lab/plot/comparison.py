"""Figures of a comparison of methods: figures side by side, and their curves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from mechtrace.errors import DataError
from mechtrace.viz.plot import (
    COLOURS,
    GRID,
    INK,
    SOFT,
    colour,
    dash,
    panels_for,
    plain,
    tidy,
    time_axis,
)

#: MechtraceMethod, and the reference that nobody can be better than.
OURS, CEILING = "mechtrace", "oracle"
#: Curves of more recordings than this are not drawn.
SHOWN = 4


class Mark(NamedTuple):
    """One kind of dot: figure, which selection it is of, and the word for it."""

    figure: str
    part: str
    word: str


class Side(NamedTuple):
    """One panel: its axis, the filled dot and the hollow one."""

    label: str
    filled: Mark
    hollow: Mark | None


WORLD = (
    Side(
        "correlation with the true weights",
        Mark("pooled", "figures", "all trials together"),
        Mark("single", "figures", "one recording alone"),
    ),
    Side(
        "correlation with the true latents (MCC)",
        Mark("mcc", "figures", "as it selects itself"),
        Mark("mcc", "oracle_selected", "selected by the truth"),
    ),
)
TEST_SERIES = Side(
    "correlation with the true weights",
    Mark("single", "figures", "new recordings"),
    Mark("switch", "figures", "spliced switches"),
)
DATA = (
    Side(
        "correlation with spliced switches",
        Mark("switch", "figures", "held-out recordings"),
        None,
    ),
    Side(
        "held-out steps",
        Mark("accuracy", "figures", "named rightly"),
        Mark("right_weight", "figures", "weight of the right regime"),
    ),
)


def comparison(result: Mapping[str, Any], ax: Any = None) -> np.ndarray:
    """What `mechtrace compare` found, in two panels: weights and latents, or switches and steps.

    Dots are means over seeds with one standard deviation, small dots the seeds; methods are
    sorted by the first figure, ours is marked, the oracle is a dashed line. `plot.comparison(
    json.load(open("comparison.json")))`
    """
    try:
        kind = result["configuration"]["data"]["kind"]
        found = [one for one in result["summary"] if one["finished"]]
        rows = list(result["rows"])
    except (TypeError, KeyError) as error:
        raise DataError(
            "this is no result of a comparison", fix="give what `mechtrace compare` wrote"
        ) from error
    methods = [one for one in found if one["method"] != CEILING]
    if not methods:
        raise DataError("no method has finished", fix="look at the reasons in its rows")
    ceiling = next((one for one in found if one["method"] == CEILING), None)
    axes = panels_for(ax, 2, size=(4.4, 0.9 + 0.34 * len(methods)))
    for place, side in zip(axes, WORLD if kind == "world" else _of_data(methods), strict=True):
        _draw(place, side, methods, rows, ceiling)
    axes[0].set_ylabel("method", color=INK)
    axes[0].set_yticks(range(len(methods)), labels=[plain(one["method"]) for one in methods])
    for one, label in zip(methods, axes[0].get_yticklabels(), strict=True):
        label.set(color=INK, fontsize=9)
        if one["method"] == OURS:
            label.set(fontweight="bold", color=COLOURS[0])
    axes[1].set_yticks([])
    return axes


def _of_data(methods: list[Any]) -> tuple[Side, Side]:
    """The panels for recordings; where the truth of new ones is known, it is shown first."""

    def known(figure: str) -> bool:
        return any(one["figures"].get(figure, {}).get("mean") is not None for one in methods)

    if known("pooled"):
        return WORLD[0], DATA[1]
    return (TEST_SERIES if known("single") else DATA[0]), DATA[1]


def _draw(ax: Any, side: Side, methods: list[Any], rows: list[Any], ceiling: Any) -> None:
    marks = [(side.filled, True)] + ([(side.hollow, False)] if side.hollow else [])
    tidy(ax, side.label, grid="x")
    ax.set_ylim(len(methods) - 0.4, -0.6)
    for place, one in enumerate(methods):
        ours = one["method"] == OURS
        ink = COLOURS[0] if ours else SOFT
        ax.axhline(place, color=GRID, lw=0.8, zorder=0)
        if ours:
            ax.axhspan(place - 0.42, place + 0.42, color=COLOURS[0], alpha=0.08, lw=0, zorder=0)
        known = [one[mark.part].get(mark.figure) for mark, _ in marks]
        if all(each is None or each["mean"] is None for each in known):
            ax.text(0.01, place, "NA", transform=ax.get_yaxis_transform(), color=SOFT, va="center",
                    fontsize=8)  # fmt: skip
            continue
        for (mark, filled), each in zip(marks, known, strict=True):
            if each is None or each["mean"] is None:
                continue
            shift = -0.13 if filled and len(marks) > 1 else 0.13 if len(marks) > 1 else 0.0
            runs = _runs(rows, one["method"], mark)
            if len(runs) > 1:
                ax.scatter(runs, np.full(len(runs), place + shift), s=7, color=ink, alpha=0.35,
                           lw=0, zorder=2)  # fmt: skip
                ax.plot([each["mean"] - each["sd"], each["mean"] + each["sd"]],
                        [place + shift] * 2, color=ink, lw=1.2, zorder=2)  # fmt: skip
            ax.plot(each["mean"], place + shift, "o", ms=6.5, mec=ink, mew=1.4,
                    mfc=ink if filled else "white", zorder=3)  # fmt: skip
    for mark, filled in marks:
        face = INK if filled else "white"
        ax.plot([], [], "o", ms=6.5, mfc=face, mec=INK, mew=1.4, label=mark.word)
    for (mark, _), dashes in zip(marks, ("--", ":"), strict=False):
        reference = ceiling and ceiling[mark.part].get(mark.figure)
        if reference and reference["mean"] is not None:
            ax.axvline(reference["mean"], color=INK, lw=1.0, ls=dashes, zorder=1,
                       label=f"oracle, {mark.word}")  # fmt: skip
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncol=2, frameon=False, fontsize=8,
              borderaxespad=0.2, labelspacing=0.3)  # fmt: skip
    low = min(0.0, *(ax.get_xlim()[:1]))
    ax.set_xlim(low, max(1.02, ax.get_xlim()[1]))


def _runs(rows: list[Any], method: str, mark: Mark) -> list[float]:
    mine = [row for row in rows if row["method"] == method and row["status"] == "finished"]
    found = [row[mark.part].get(mark.figure) for row in mine]
    return [value for value in found if value is not None]


def method_curves(
    frame: Any, ax: Any = None, *, seed: int | None = None, truth: Mapping[str, Any] | None = None
) -> np.ndarray:
    """The curves of curves.csv: a column for each recording (the first few), a row per method.

    `truth` gives known weights (T, K) by recording, drawn dashed. One seed is drawn, by default
    the first. `plot.method_curves(pandas.read_csv("curves.csv"))`
    """
    keys = ["method", "seed", "series", "time"]
    if not all(name in getattr(frame, "columns", ()) for name in keys) or not len(frame):
        raise DataError("this is no table of curves", fix="give curves.csv of a comparison")
    regimes = [name for name in frame.columns if name not in keys]
    frame = frame[frame["seed"] == (frame["seed"].min() if seed is None else seed)]
    methods = sorted(frame["method"].unique(), key=lambda name: (name != OURS, name))
    series = sorted(dict.fromkeys(frame["series"]), key=lambda name: name != "pooled")[:SHOWN]
    count = len(methods) * len(series)
    axes = panels_for(ax, count, columns=len(series), size=(7.6 / len(series) + 1, 1.15))
    for place, one in enumerate(axes):
        row, column = divmod(place, len(series))
        name, method = series[column], methods[row]
        mine = frame[(frame["method"] == method) & (frame["series"] == name)]
        time = mine["time"].to_numpy()
        for k, regime in enumerate(regimes):
            label = plain(regime) if place == 0 else None
            one.plot(time, mine[regime], color=colour(k), ls=dash(k), lw=1.4, label=label)
            known = (truth or {}).get(name)
            if known is not None:
                one.plot(time, np.asarray(known)[:, k], color=colour(k), lw=0.9, ls=":")
        tidy(one, "time", "" if column else "share", grid="y")
        one.yaxis.label.set_fontsize(8)
        if len(time):
            time_axis(one.xaxis, time)
        one.set(ylim=(-0.03, 1.03), yticks=[0, 0.5, 1])
        if row < len(methods) - 1:
            one.tick_params(labelbottom=False)
            one.xaxis.label.set_visible(False)
        if column:
            one.tick_params(labelleft=False)
        title = f"{method}" if len(series) == 1 else f"{method}, {name}"
        strong = "bold" if method == OURS else "normal"
        one.set_title(plain(title), fontsize=9, color=INK, loc="left", pad=3, fontweight=strong)
    if truth:
        axes[0].plot([], [], color=SOFT, lw=0.9, ls=":", label="truth")
    shown = {"handles": axes[0].get_legend_handles_labels()[0], "frameon": False, "fontsize": 8}
    columns = min(len(regimes) + bool(truth), 8)
    if ax is None:
        axes[0].figure.legend(loc="outside upper right", ncol=columns, **shown)
    else:  # the rest of the figure is not ours
        axes[0].legend(loc="lower left", bbox_to_anchor=(0, 1.16), ncol=columns, **shown)
    return axes
