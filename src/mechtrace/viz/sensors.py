"""The report in terms of the sensors: what sets regimes apart, and which sensors carry a curve."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from ..diagnose.separation import active_regimes
from ..errors import MechtraceError
from .downsample import pack, time_numbers
from .strips import Strips

if TYPE_CHECKING:
    from .report import Results

#: Sentences of each regime that are not folded, and regimes with sentences.
OPEN, MOST_REGIMES = 2, 12
#: Recordings with strips, and trials of a pool that they are the mean of.
MOST_RECORDINGS = 50


def first_screen(results: Results) -> str:
    """Write what sets each regime apart, as HTML; empty if the model does not know it."""
    try:
        found = results.model.describe()
    except MechtraceError:
        return ""
    parts = []
    for k, (name, texts) in enumerate(list(found.by_regime.items())[:MOST_REGIMES]):
        more = (
            f"<details><summary>{len(texts) - OPEN} more</summary>{_items(texts[OPEN:])}</details>"
        )
        mark = f'<i style="background:var(--c{k % 8})"></i>'
        parts.append(
            f'<div class="regime"><h3>{mark} {escape(name)}</h3>{_items(texts[:OPEN])}'
            f"{more if len(texts) > OPEN else ''}</div>"
        )
    left = len(found.regimes) - MOST_REGIMES
    parts += [f'<p class="note">{left} more regimes are not listed.</p>'] if left > 0 else []
    parts += [f'<p class="note">{escape(text)}</p>' for text in found.alike[:MOST_REGIMES]]
    return (
        '<section id="apart"><h2>What sets the regimes apart</h2>'
        f'<div class="regimes">{"".join(parts)}</div></section>'
    )


def _items(texts: list[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in texts)}</ul>"


def strips(results: Results, i: int) -> dict[str, Any]:
    """Pack which sensors speak for which regime over time, for curve `i`; empty if not known."""
    path, mine = results.paths[i], results.recordings(i)
    if mine is None or mine.is_image or path.method == "algorithm1":
        return {}
    if i >= MOST_RECORDINGS or len(path) < 2:
        return {}
    names = list(path.by_evidence) or None
    try:
        some = mine[:MOST_RECORDINGS]
        found = results.model.contributions(some, evidence=names, causal=path.causal)
    except MechtraceError:  # of a model that is not finished
        return {}
    trials = found if isinstance(found, list) else [found]
    values = np.mean([one.values for one in trials], axis=0)  # (T, K, c)
    if not np.isfinite(values).any():
        return {}
    drawn = Strips.of(values, trials[0].sensors, active_regimes(path.alpha))
    time = time_numbers(path.time)
    half = 0.5 * float(np.median(np.diff(time)))
    return {
        "sensors": {
            "names": list(drawn.names),
            "more": len(trials[0].sensors) + 1 - len(drawn.names),
            "exact": trials[0].exact,
            "edges": [*(time[drawn.starts] - half).tolist(), float(time[-1] + half)],
            "full": drawn.full,
            "leader": drawn.leader.T.tolist(),
            "strength": pack(drawn.strength),
        }
    }
