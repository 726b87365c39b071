"""What results call to show themselves, by name (`_runtime.lazy`).

Sentences and figures come from their own modules. The HTML of notebook cells is written here:
small, self-contained, for light and dark themes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import singledispatch
from html import escape

import numpy as np

from ..data.panel import Panel
from ..diagnose.findings import Diagnosis
from ..estimator import Trace
from ..identifiability.mechanisms import Mechanisms
from ..stage2.description import Description
from ..stage2.events import shown_time
from ..stage2.trajectory import Trajectory
from .narrative import limit, sentence, within
from .plot.curves import trajectory as trajectory_plot
from .plot.figure import COLOURS, MINUS, PLUS
from .plot.matrices import mechanisms as mechanisms_plot
from .plot.sensors import contributions as contributions_plot
from .plot.verdicts import axes_evidence as axes_plot
from .plot.verdicts import diagnosis as diagnosis_plot

__all__ = [
    "axes_plot", "contributions_plot", "diagnosis_plot", "html", "mechanisms_plot", "sentence",
    "trajectory_plot",
]  # fmt: skip

WIDTH, HEIGHT = 640, 120
#: Points of a curve that are drawn.
POINTS = 320
#: Rows of a table, and rows and columns of a matrix.
ROWS, SIDE = 12, 8
#: Legible on white and on black.
LEVELS = {"good": "#2E8B57", "caution": "#C98500", "bad": "#D1495B", "untestable": "#6B7280"}
VERDICTS = {"trust": "good", "caution": "caution", "do not trust": "bad"}


@singledispatch
def html(result: object) -> str:
    """Write a result as HTML, for its `_repr_html_`."""
    raise TypeError(f"a {type(result).__name__} has no HTML of its own")


@html.register
def _(path: Trajectory) -> str:
    """Show the sentence, the shares as stacked areas, and the events."""
    legend = " ".join(
        f'<span style="white-space:nowrap"><span style="color:{_colour(k)}">&#9632;</span>'
        f" {escape(name)}</span>"
        for k, name in enumerate(path.regimes)
    )
    about = f"{len(path):,} steps, {path.method}{', causal' if path.causal else ''}"
    if path.trials > 1:
        about += f", {path.trials} trials pooled"
    events = path.events(minimum=2)
    rows = [
        [e.from_regime, e.to_regime, *map(shown_time, (e.onset, e.midpoint, e.end, e.duration))]
        for e in events
    ]
    head = ["from", "to", "onset", "midpoint", "end", "duration"]
    return _box(
        f"<b>{escape(str(path))}</b>",
        _areas(path.alpha),
        f"{legend} <small>({escape(about)})</small>",
        _table(head, rows) if rows else "",
    )


@html.register
def _(diagnosis: Diagnosis) -> str:
    """Show the verdict and the findings, the worst first."""
    rows = [
        [
            _Html(_coloured(f.level, f.level)),
            f.code,
            f.shown if f.level != "untestable" else "–",
            limit(f),
            f.meaning + (f" {f.next_step}" if f.next_step and f.level != "good" else ""),
        ]
        for f in diagnosis.by_weight()
    ]
    verdict = _coloured(diagnosis.verdict, VERDICTS[diagnosis.verdict])
    head = ["", "finding", "value", "limit", "what it means"]
    first = len(diagnosis.pressing())
    more = f"<summary>{len(rows) - first} findings that need no attention</summary>"
    folded = f"<details>{more}{_table(head, rows[first:], limit=None)}</details>"
    return _box(
        f"<b>{escape(diagnosis.name)}: {verdict}</b>{escape(within(diagnosis))}",
        _table(head, rows[:first], limit=None) if first else "",
        folded,
    )


@html.register
def _(description: Description) -> str:
    """List what sets each regime apart, and fold the figures of the sensors."""
    known = description.to_dict()["regimes"]
    parts = [
        f"<b>{escape(name)}</b> <small>({about['recordings']} recordings)</small>"
        f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in about['sentences'])}</ul>"
        for name, about in known.items()
    ]
    head = ["regime", "sensor", "median", "90 % of rows", "fluctuation", "period"]
    rows = [
        [name, sensor, f"{of['median']:.4g}", f"{of['low']:.4g} to {of['high']:.4g}",
         f"{of['spread']:.3g}", "–" if of["period"] is None else f"{of['period']:.3g}"]
        for name, about in known.items()
        for sensor, of in about["sensors"].items()
    ]  # fmt: skip
    figures = f"<details><summary>figures</summary>{_table(head, rows, limit=None)}</details>"
    return _box(*parts, *map(escape, description.alike), figures)


@html.register
def _(panel: Panel) -> str:
    """Show the size and the first recordings."""
    rows = []
    for i in range(min(len(panel), ROWS)):
        time, names = panel.time_of(i), panel.regime_names_of(i)
        labels = "" if names is None else ", ".join(dict.fromkeys(filter(None, names.tolist())))
        span = f"{shown_time(time[0])} to {shown_time(time[-1])}"
        rows.append([str(panel.names[i]), f"{len(time):,}", span, labels])
    head = ["series", "rows", "time", "regimes"]
    return _box(f"<b>{escape(repr(panel))}</b>", _table(head, rows, of=len(panel)))


@html.register
def _(trace: Trace) -> str:
    """Show the settings and, once fitted, data and training."""
    if not hasattr(trace, "record_"):
        return _box(f"<b>{escape(repr(trace))}</b>", "not fitted yet")
    data, training = trace.record_.data, trace.record_.training
    rows = [
        [name, str(data.training_series[name]), str(data.held_out_series[name])]
        for name in data.regimes
    ]
    elbo = trace.elbo_
    learned = f"{training.parameters:,} parameters, {training.steps:,} steps"
    quality = "" if elbo is None else f", held-out ELBO {elbo:.3f} nats per step"
    return _box(
        f"<b>{escape(repr(trace))}</b>",
        escape(f"learned from {data.source}: {len(trace.channels_)} channels, {learned}")
        + escape(quality),
        escape(trace.axes_.verdict),
        _table(["regime", "training series", "held-out series"], rows),
    )


@html.register
def _(mechanisms: Mechanisms) -> str:
    """Show the matrices of lag 1: orange for positive effects, blue for negative."""
    size = float(np.abs(mechanisms.jacobian).max(initial=0)) or 1.0
    pictures = "".join(
        f'<figure style="display:inline-block;margin:.3em .8em .3em 0"><figcaption>'
        f"{escape(name)}</figcaption>{_matrix(mechanisms.jacobian[k, 0] / size)}</figure>"
        for k, name in enumerate(mechanisms.regimes[:SIDE])
    )
    more = len(mechanisms.regimes) - SIDE
    d = mechanisms.jacobian.shape[-1]
    title = f"{len(mechanisms.regimes)} mechanisms of {d} latents, {mechanisms.lags} lags"
    return _box(
        f"<b>{title}</b>",
        f"effects at lag 1, rows act on columns; full colour is {size:.3g}",
        pictures + (f"<br>... and {more} more regimes" if more > 0 else ""),
    )


# --- pieces -------------------------------------------------------------------------------------


class _Html(str):
    """Text that is HTML already."""


def _box(*parts: str) -> str:
    inside = "".join(f"<div>{part}</div>" for part in parts if part)
    return f'<div style="max-width:{WIDTH + 80}px">{inside}</div>'


def _colour(k: int) -> str:
    found = COLOURS[k % len(COLOURS)]  # as in figures and reports
    return "currentColor" if found == "#000000" else found  # dark pages hide black


def _coloured(text: str, level: str) -> str:
    return f'<span style="color:{LEVELS[level]}">{escape(text)}</span>'


def _table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, limit: int | None = ROWS, of: int = 0
) -> str:
    def row(tag: str, cells: Iterable[str]) -> str:
        style = ' style="text-align:left;vertical-align:top;padding-right:.8em"'
        texts = [cell if isinstance(cell, _Html) else escape(cell) for cell in cells]
        return f"<tr>{''.join(f'<{tag}{style}>{text}</{tag}>' for text in texts)}</tr>"

    body = "".join(row("td", cells) for cells in rows[:limit])
    hidden = max(of, len(rows)) - len(rows[:limit])
    more = f"<small>... and {hidden:,} more</small>" if hidden > 0 else ""
    head_and_body = f"<thead>{row('th', head)}</thead><tbody>{body}</tbody>"
    return f'<table style="color:inherit">{head_and_body}</table>{more}'


def _areas(alpha: np.ndarray) -> str:
    """Draw the shares stacked over time; steps without shares stay empty."""
    chosen = np.unique(np.linspace(0, len(alpha) - 1, min(POINTS, len(alpha))).round().astype(int))
    shares = alpha[chosen]
    x = WIDTH * (np.arange(len(chosen)) / max(1, len(chosen) - 1))
    tops = HEIGHT * (1 - np.cumsum(shares, axis=1))
    floor = np.concatenate([np.full((len(chosen), 1), float(HEIGHT)), tops[:, :-1]], axis=1)
    known = np.isfinite(shares).all(axis=1)
    edges = np.flatnonzero(np.diff(known, prepend=False, append=False))
    shapes = [
        f'<polygon fill="{_colour(k)}" points="{_points(x[a:b], tops[a:b, k], floor[a:b, k])}"/>'
        for a, b in edges.reshape(-1, 2)
        for k in range(shares.shape[1])
    ]
    return _svg(WIDTH, HEIGHT, shapes, "shares over time")


def _points(x: np.ndarray, top: np.ndarray, floor: np.ndarray) -> str:
    corners = np.concatenate([np.stack([x, top], 1), np.stack([x, floor], 1)[::-1]])
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in corners)


def _matrix(effects: np.ndarray, cell: int = 14) -> str:
    """Draw effects between -1 and 1 as squares."""
    shapes = [
        f'<rect x="{j * cell}" y="{i * cell}" width="{cell - 1}" height="{cell - 1}"'
        f' fill="{PLUS if value > 0 else MINUS}" fill-opacity="{abs(value):.2f}"/>'
        for (i, j), value in np.ndenumerate(effects)
        if np.isfinite(value)
    ]
    side = cell * len(effects)
    return _svg(side, side, shapes, "matrix of effects")


def _svg(width: int, height: int, shapes: Iterable[str], title: str) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img"'
        f' style="max-width:100%;border:1px solid currentColor"><title>{escape(title)}</title>'
        f"{''.join(shapes)}</svg>"
    )
