"""Figures along time: the trajectory, its calibration, one stage against two, residuals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mechtrace.viz import plot
from mechtrace.viz.plot import COLOURS, GRID, INK, SOFT, colour, legend_above, panels_for, tidy

from . import tables
from .result_store import ResultStore


def trajectory(store: ResultStore) -> Any:
    """Truth, calibrated Algorithm 1 and our band over time; beside it the way on the simplex."""
    found = _first_world(store, "trajectory", "curves")
    if found is None:
        return None
    active, answer = found
    part = _curves(answer)
    path = _curve(part["default"], active, lower=part["lower"], upper=part["upper"])
    axes = panels_for(None, 2, size=(5.0, 3.4))
    plot.trajectory(path, axes[0], part["truth"], events=False)
    axes[0].plot([], [], color=INK, lw=1.8, label="mechtrace, with its band")
    _dotted(axes[0], part["algorithm1_calibrated"], "Algorithm 1, calibrated")
    # where the shares that are shown do not sum to 1, the rest should be seen
    axes[0].plot(1 - part["default"].sum(axis=1), color=SOFT, lw=1.0, label="all other regimes")
    legend_above(axes[0])
    plot.simplex_path(path, axes[1], truth=part["truth"])
    return axes[0].figure


def calibration(store: ResultStore) -> Any:
    """A change between two regimes: raw, and after calibration by two points."""
    found = _first_world(store, "calibration", "curves")
    if found is None:
        return None
    active, answer = found
    part = _curves(answer)
    labels = {"default": "mechtrace", "algorithm1": "Algorithm 1"}
    axes = panels_for(None, 2, size=(4.4, 3.2))
    for ax, name, suffix, error in (
        (axes[0], "raw", "", "_mse_raw"),
        (axes[1], "after two-point calibration", "_calibrated", "_mse"),
    ):
        shown = {label: _curve(part[who + suffix], active) for who, label in labels.items()}
        plot.compare_curves(shown, ax, truth=part["truth"])
        errors = [f"{label} {answer[who + error]:.2g}" for who, label in labels.items()]
        errors += [f"paper {tables.CALIBRATION.value:g}"] if suffix else []
        _title(ax, f"{name}\nMSE: {', '.join(errors)}")
    axes[1].set_ylabel("")
    _one_legend(axes)
    return axes[0].figure


def ood(store: ResultStore) -> Any:
    """The gating network alone, and both stages, on a transition that was never seen."""
    asked = {
        call.key: (call, found)
        for call, found in store.measure_calls("ood", "two_stages")
        if found
    }
    answers = [(dict(call.options), found[0]) for call, found in asked.values()]
    if not answers or any("curves" not in answer for _, answer in answers):
        return None
    axes = panels_for(None, len(answers) + 1, size=(4.0, 3.0))
    for ax, (options, answer) in zip(axes, answers, strict=False):
        _one_stage(ax, options, answer, "stage 1 only", f"gating network, {_sees(options)}")
    last = axes[len(answers)]
    options, answer = answers[0]
    _one_stage(last, options, answer, "default", "both stages")
    last.plot([], [], color=INK, lw=1.8, label="mechtrace")
    _dotted(last, _curves(answer["curves"])["algorithm1"], "Algorithm 1")
    for ax in axes[1:]:
        ax.set_ylabel("")
    _one_legend(axes)
    return axes[0].figure


def _one_stage(
    ax: Any, options: Mapping[str, Any], answer: Mapping[str, Any], who: str, name: str
) -> None:
    part = _curves(answer["curves"])
    plot.trajectory(_curve(part[who], list(options["active"])), ax, part["truth"], events=False)
    _title(ax, f"{name}: correlation {answer[f'OOD, {who}']['pooled']:.3f}")


def _sees(options: Mapping[str, Any]) -> str:
    return f"sees {options['past']} steps" if "past" in options else "sees what experts see"


def assumption(store: ResultStore) -> Any:
    """Residuals along a transition, valid and with an edge that no regime has."""
    found = _first_world(store, "assumption", "convexity")
    if found is None:
        return None
    _, answer = found
    cases = {name: _curves(answer[name]) for name in ("valid", "emergent edge")}
    usual = cases["valid"]["algorithm1_residual"].mean()
    axes = panels_for(None, 2, size=(4.4, 3.0))
    for ax, who, scale, title in (
        (axes[0], "algorithm1", usual, "Algorithm 1: distance from the mixture of means"),
        (axes[1], "default", 1.0, "mechtrace: error of the mixed predictions"),
    ):
        for name, look in (("valid", SOFT), ("emergent edge", COLOURS[3])):
            ax.plot(cases[name][f"{who}_residual"] / scale, color=look, label=name, lw=1.6)
        _shade(ax, cases["valid"]["edge"] > 0)
        tidy(ax, "step", "residual, valid transitions: about 1", grid="y")
        _title(ax, title)
    axes[1].set_ylabel("")
    _one_legend(axes)
    return axes[0].figure


# -- parts -------------------------------------------------------------------------------------


def _first_world(
    store: ResultStore, table: str, measure: str
) -> tuple[list[int], dict[str, Any]] | None:
    """Which regimes are active, and the answer to a measure in the first world that is stored."""
    for call, figures in store.measure_calls(table, measure):
        if figures:
            return list(dict(call.options)["active"]), figures[0]
    return None


def _curves(answer: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The curves among the figures of an answer."""
    lists = {name: value for name, value in answer.items() if isinstance(value, list)}
    return {name: np.array(value, float) for name, value in lists.items()}


def _curve(alpha: np.ndarray, active: list[int], lower: Any = None, upper: Any = None) -> Any:
    names = [f"regime {k}" for k in active]
    return plot.curve(alpha, regimes=names, lower=lower, upper=upper)


def _dotted(ax: Any, curve: np.ndarray, label: str) -> None:
    """Another answer in the colours of the regimes."""
    for k in range(curve.shape[1]):
        ax.plot(curve[:, k], color=colour(k), lw=1.4, ls=":")
    ax.plot([], [], color=INK, lw=1.4, ls=":", label=label)


def _shade(ax: Any, steps: np.ndarray) -> None:
    """Where the edge is there."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], steps, [False]])))
    for number, (a, b) in enumerate(zip(edges[::2], edges[1::2], strict=True)):
        label = "the edge is active" if number == 0 else None
        ax.axvspan(a, b - 1, color=GRID, zorder=0, lw=0, label=label)


def _title(ax: Any, words: str) -> None:
    ax.set_title(words, fontsize=9, color=INK, loc="left")


def _one_legend(axes: Any) -> None:
    """That of the last panel, above all."""
    for ax in axes:
        if ax.get_legend() is not None:
            ax.get_legend().remove()
    handles, labels = axes[-1].get_legend_handles_labels()
    axes[0].figure.legend(
        handles, labels, loc="outside upper center", ncol=len(labels), frameon=False, fontsize=8
    )
