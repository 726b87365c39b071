"""Figures of evidence: for axes, of a diagnosis, of the training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import DataError
from ..narrative import limit
from .figure import (
    GRID,
    INK,
    LEVEL_COLOURS,
    LEVEL_MARKERS,
    SOFT,
    axes_for,
    colour,
    log_axis,
    name_ticks,
    panels_for,
    plain,
    tidy,
)

if TYPE_CHECKING:
    from ...diagnose.findings import Diagnosis, Finding
    from ...identifiability.axes import Axes

#: Factor between a finding and its limit that is still drawn to scale.
FAR = 30.0


def axes_evidence(found: Axes, ax: Any = None) -> Any:
    """Draw which evidence identifies which axis: a disc if used, a ring if it agrees.

    Parameters
    ----------
    found
        The `axes_` of a model.
    ax
        Axes to draw into; a new figure without.
    """
    _expect(found, "axes", "the axes_ of a model")
    kinds = list(dict.fromkeys([*(e.kind for e in found.evidence),
                                *(kind for axis in found.axes for kind in axis.by)]))  # fmt: skip
    kinds = kinds or ["no evidence"]
    size = len(found.axes)
    ax = axes_for(ax, (3.2 + 1.3 * len(kinds), 1.4 + 0.32 * size))
    for row, axis in enumerate(found.axes):
        ax.axhline(row, color=GRID, lw=0.8, zorder=0)
        for column, kind in enumerate(kinds):
            used, agrees = axis.by[:1] == (kind,), kind in axis.by
            shade = colour(column) if agrees else "#C4CBD2"
            face = shade if used or not agrees else "white"
            ax.scatter(column, row, s=90 if agrees else 12, color=face, edgecolor=shade, lw=1.6)
        text = f"{axis.rotation_loss:.2g}" if axis.identified else "up to rotation"
        ax.text(len(kinds) - 0.4, row, text if axis.used else "unused", va="center", fontsize=8,
                color=INK if axis.identified else SOFT)  # fmt: skip
    counts = {e.kind: f"{e.kind}: {e.identified} of {size}" for e in found.evidence}
    tidy(ax, "evidence, and how many axes it identifies alone", "axis")
    labels = [plain(counts.get(kind, kind)) for kind in kinds]
    ax.set_xticks(range(len(kinds)), labels=labels, rotation=25, ha="right")
    name_ticks(ax.yaxis, found.names)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_xlim(-0.6, len(kinds) + 0.4)
    ax.set_ylim(size - 0.5, -0.5)
    ax.set_title(
        "likelihood lost by rotating (nats per step)", fontsize=8, color=SOFT, loc="right"
    )
    return ax


def diagnosis(found: Diagnosis, ax: Any = None) -> Any:
    """Draw every finding against its limit; right of the line is worse.

    Parameters
    ----------
    found
        A diagnosis.
    ax
        Axes to draw into; a new figure without.
    """
    _expect(found, "findings", "a diagnosis")
    findings = found.by_weight()
    ax = axes_for(ax, (7, 1.2 + 0.32 * len(findings)))
    ax.axvspan(1, FAR * 1.5, color=LEVEL_COLOURS["bad"], alpha=0.05, lw=0)
    ax.axvline(1, color=SOFT, lw=1.0)
    for row, finding in enumerate(findings):
        shade = LEVEL_COLOURS[finding.level]
        if np.isfinite(finding.value):
            place = _against_limit(finding)
            ax.plot([1, place], [row, row], color=shade, lw=1.2, alpha=0.5)
            ax.plot(place, row, LEVEL_MARKERS[finding.level], color=shade, ms=7)
        text = finding.shown if np.isfinite(finding.value) else "unknown"
        text += f"  ({limit(finding)})"
        if finding.level == "untestable":
            text = "not testable from data"
        ax.text(FAR * 1.7, row, text, va="center", fontsize=8, color=INK)
    log_axis(ax.xaxis)
    ax.set_xlim(1 / (FAR * 1.5), FAR * 1.5)
    ax.set_xticks([0.1, 1, 10], labels=["10 times better", "limit", "10 times worse"])
    tidy(ax, "distance from the limit", "finding")
    name_ticks(ax.yaxis, [finding.code for finding in findings])
    ax.set_ylim(len(findings) - 0.4, -0.6)
    for label, finding in zip(ax.get_yticklabels(), findings, strict=False):
        label.set_color(LEVEL_COLOURS[finding.level])
    ax.set_title(f"{plain(found.name)}: {found.verdict}", fontsize=10, loc="left", color=INK)
    return ax


def training(found: Any, ax: Any = None) -> np.ndarray:
    """Draw held-out ELBO and training loss over the training steps.

    Parameters
    ----------
    found
        A fitted model, or its `history_`.
    ax
        Axes to draw into: one that is divided, or one per panel; a new figure without.
    """
    history = getattr(found, "history_", found)
    record = getattr(found, "record_", None)
    try:
        steps = [record["step"] for record in history]
        curves = [
            np.array([record[key] for record in history], dtype=float)
            for key in ("held_out_elbo", "loss")
        ]
    except (TypeError, KeyError, ValueError) as error:
        raise DataError("this is no history of a fit", fix="give a fitted model") from error
    if not steps:
        raise DataError("no evaluations were kept", fix="fit with evaluations")
    axes = panels_for(ax, 2, size=(3.8, 2.6))
    titles = ("held-out ELBO (nats per step)", "training loss")
    for k, (one, values, title) in enumerate(zip(axes, curves, titles, strict=True)):
        one.plot(steps, values, "o-", color=colour(k), lw=1.6, ms=3.5)
        if record is not None:
            one.axvline(record.training.best_step, color=SOFT, lw=0.8, ls="--")
        tidy(one, "step", title, grid="y")
    return axes


def _expect(found: Any, attribute: str, what: str) -> None:
    if not hasattr(found, attribute):
        raise DataError(f"{type(found).__name__} cannot be drawn here", fix=f"give {what}")


def _against_limit(finding: Finding) -> float:
    """Ratio of value and limit, inverted if large is good: 1 at the limit, larger is worse."""
    value, threshold = abs(finding.value), abs(finding.threshold)
    ratio = float(np.clip(FAR if threshold == 0 else value / threshold, 1 / FAR, FAR))
    return ratio if finding.side == "at most" else 1 / ratio
