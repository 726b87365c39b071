"""One self-contained HTML file about a recovery: the answer, the picture, the evidence."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..atomic import atomic_path

if TYPE_CHECKING:
    from ..diagnose import Diagnosis
    from ..estimator import Trace
    from ..recover.trajectory import Trajectory

#: Series that are drawn one by one; the others are in the table.
SHOWN = 12
STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;
color:#1a1a1a;background:#fff}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}img{max-width:100%}
table{border-collapse:collapse;font-size:.9rem}td,th{padding:.2rem .7rem;text-align:left;
border-bottom:1px solid #ddd;vertical-align:top}.bad{color:#a1260d}.caution{color:#8a5a00}
.good{color:#2e6b34}.level{font-weight:600;white-space:nowrap}.lead{font-size:1.15rem}pre{white-space:pre-wrap;font-size:.85rem}
"""


def report(
    model: Trace,
    paths: Trajectory | Sequence[Trajectory],
    file: str | Path,
    *,
    truth: np.ndarray | None = None,
) -> None:
    """Write the report; `truth` (T, K) is drawn dashed where it is known."""
    many = list(paths) if isinstance(paths, Sequence) else [paths]
    judged = [model.diagnose(path) for path in many[:SHOWN]]
    body = [_lead(many[0], judged[0])] if many else []
    for path, diagnosis in zip(many, judged, strict=False):
        body.append(_section(path, truth) + _findings(diagnosis))
    if len(many) > SHOWN:
        body.append(f"<p>{len(many) - SHOWN} more recordings are not drawn.</p>")
    body.append(f"<h2>The model</h2><pre>{escape(model.card_)}</pre>")
    html = (
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>mechtrace report</title>"
        f"<style>{STYLE}</style><h1>mechtrace report</h1>{''.join(body)}</html>"
    )
    with atomic_path(file) as temporary:
        temporary.write_text(html, encoding="utf-8")


#: What each verdict asks of the reader.
ADVICE = {
    "trust": "Nothing speaks against this curve.",
    "caution": "Read this curve with caution.",
    "do not trust": "Do not trust this curve.",
}


def _lead(path: Trajectory, diagnosis: Diagnosis) -> str:
    """The answer, the verdict and the worst finding, before anything else."""
    worst = diagnosis.by_weight()[0]
    why = "" if worst.level == "good" else f" {escape(worst.meaning)}"
    return (
        f"<p class='lead'>{escape(str(path))}. <span class='level {worst.level}'>"
        f"{ADVICE[diagnosis.verdict]}</span>{why}</p>"
    )


def _findings(diagnosis: Diagnosis) -> str:
    rows = "".join(
        f"<tr><td class='level {f.level}'>{f.level}</td><td>{escape(f.code)}</td>"
        f"<td>{f.value:.3g}</td><td>{f.threshold:.3g}</td><td>{escape(f.meaning)}"
        + (f" <em>{escape(f.next_step)}</em>" if f.next_step and f.level != "good" else "")
        + "</td></tr>"
        for f in diagnosis.by_weight()
    )
    head = "".join(f"<th>{h}</th>" for h in ("", "finding", "value", "limit", "what it means"))
    return (
        f"<h3>Can it be trusted? <span class='level'>{escape(diagnosis.verdict)}</span></h3>"
        f"<table><tr>{head}</tr>{rows}</table>"
    )


def _section(path: Trajectory, truth: np.ndarray | None) -> str:
    events = path.events(minimum=2)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(str(v))}</td>" for v in vars(e).values()) + "</tr>"
        for e in events
    )
    head = "".join(f"<th>{h}</th>" for h in ("from", "to", "onset", "midpoint", "end", "duration"))
    table = f"<table><tr>{head}</tr>{rows}</table>" if events else "<p>No change.</p>"
    kind = "causal (uses only the past)" if path.causal else "offline (uses the whole recording)"
    trials = f", {path.trials} trials pooled" if path.trials > 1 else ""
    calibrated = f", {path.calibration} calibration" if path.calibration else ""
    odd = float((path.flag == "unexplained").mean())
    return (
        f"<h2>{escape(path.name)}</h2><p>{escape(path.method)}, {kind}{trials}{calibrated};"
        f" bands hold {100 * path.level:.0f} %; {100 * odd:.1f} % of the steps are explained by"
        f" none of the known mechanisms.</p>"
        f"<img alt='alpha over time' src='{_picture(path, truth)}'>{table}"
    )


def _picture(path: Trajectory, truth: np.ndarray | None) -> str:
    from matplotlib.figure import Figure

    from .. import plot

    figure = Figure(figsize=(9, 4.2), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
    plot.trajectory(path, upper, truth)
    upper.set_xlabel("")
    plot.residual(path, lower)
    lower.set_xlabel("time (shaded: warm-up, missing or unexplained; dashed: truth, if known)")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
