"""Published values and our answers in one figure, against a setting or row by row.

An answer is a mean with its spread, or None where there is none. Everywhere, colours tell who
answers, and printed values are open marks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mechtrace.viz.plot import COLOURS, GRID, INK, SOFT, plain

#: A mean, and its spread where there is one.
MeanAndSpread = tuple[float, float | None] | None
Answers = Mapping[str, Sequence[MeanAndSpread]]


class LineStyle(NamedTuple):
    """Style of one method's line and marks."""

    label: str
    colour: str
    width: float  # of the line; 0: marks only
    size: float  # of the marks
    open: bool = False


#: In the order in which they are drawn: ours on top of all but what is printed.
STYLES = {
    "oracle": LineStyle("oracle", SOFT, 1.0, 0.0),
    "algorithm1": LineStyle("Algorithm 1", COLOURS[1], 1.0, 3.5),
    "default": LineStyle("mechtrace", COLOURS[0], 2.0, 5.0),
    "paper": LineStyle("printed in the paper", INK, 0.0, 6.5, open=True),
}
READ = ("paper", "algorithm1", "default", "oracle")
#: How the line of the oracle differs from one that is merely dashed.
DOTTED = (0, (1, 1.5))
#: How marks differ where they lie on the line of their spread, and no other line leads to them.
ON_A_LINE: dict[str, dict[str, Any]] = {
    "oracle": {"marker": "|", "ms": 9, "mew": 1.6},
    "algorithm1": {"ms": 5},
    "paper": {"mfc": "white"},
}


def against(
    ax: Any, x: Sequence[float], answers: Answers, *, dashes: Any = "-", mark: str = "o"
) -> None:
    """Answers at each x: lines with a bar for the spread; printed ones as open marks."""
    for who in STYLES:
        at, mean, spread = _known(x, answers.get(who, ()))
        if not len(at):
            continue
        looks = _looks(who, dashes, mark)
        ax.errorbar(at, mean, spread, elinewidth=0.9, zorder=3, label=STYLES[who].label, **looks)


def dots(ax: Any, names: Sequence[str], answers: Answers) -> None:
    """A line for each name, on it who answers what."""
    shown = [who for who in READ if any(answers.get(who, ()))]
    shifts = 0.15 * (np.arange(len(shown)) - (len(shown) - 1) / 2)
    for place in range(len(names)):
        ax.axhline(place, color=GRID, lw=0.8, zorder=0)
    for who, shift in zip(shown, shifts, strict=True):
        at, mean, spread = _known(range(len(names)), answers[who])
        looks = _looks(who) | {"ls": "none"} | ON_A_LINE.get(who, {})
        ax.errorbar(mean, at + shift, xerr=spread, elinewidth=0.9, zorder=3,
                    label=STYLES[who].label, **looks)  # fmt: skip
    ax.set_yticks(range(len(names)), labels=list(map(plain, names)))
    ax.set_ylim(len(names) - 0.4, -0.6)


def level(ax: Any, who: str, answer: MeanAndSpread) -> None:
    """An answer that does not depend on the setting: a line across, shaded by its spread."""
    if answer is None:
        return
    look, (mean, spread) = STYLES[who], answer
    dashes = DOTTED if who == "oracle" else "-"
    ax.axhline(mean, color=look.colour, lw=look.width, ls=dashes, label=look.label)
    if spread:
        ax.axhspan(mean - spread, mean + spread, color=look.colour, alpha=0.12, lw=0)


def legend(axes: Sequence[Any], more: Mapping[str, Any] | None = None) -> None:
    """Draw a legend above the panels; `more` adds labelled line styles."""
    from matplotlib.lines import Line2D

    drawn: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            drawn.setdefault(label, handle)
    handles = [drawn[STYLES[who].label] for who in READ if STYLES[who].label in drawn]
    for label, looks in (more or {}).items():
        handles.append(Line2D([], [], label=label, **{"color": INK, "lw": 1.2} | looks))
    axes[0].figure.legend(
        handles=handles, loc="outside upper center", ncol=len(handles), frameon=False, fontsize=8
    )


def _looks(who: str, dashes: Any = "-", mark: str = "o") -> dict[str, Any]:
    """Options of matplotlib for one method."""
    look = STYLES[who]
    dashes = "none" if not look.width else DOTTED if who == "oracle" else dashes
    face = "none" if look.open else look.colour
    return {"color": look.colour, "ls": dashes, "lw": look.width, "marker": mark,
            "ms": look.size, "mfc": face, "mec": look.colour, "mew": 1.1}  # fmt: skip


def _known(x: Iterable[float], answers: Sequence[MeanAndSpread]) -> tuple[np.ndarray, ...]:
    """Where there is an answer, what it is, and its spread (0 where that is not known)."""
    pairs = [(at, one[0], one[1] or 0.0) for at, one in zip(x, answers, strict=False) if one]
    return tuple(np.array(pairs, float).reshape(-1, 3).T)
