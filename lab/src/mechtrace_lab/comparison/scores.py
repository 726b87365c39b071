"""Scores of one method's answers; None where it gives no answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from mechtrace.data import Panel
from mechtrace.metrics import linear_r2, mean_correlation, weight_correlation, weight_error
from mechtrace.stage2 import MixturePosterior
from mechtrace.worlds import Simulation, oracle

from ..baselines.protocol import Method
from .tasks import KnownTransition, Splices, TaskData

Figures = dict[str, float | None]
#: Probabilities are cut here before their logarithm is taken.
LEAST = 1e-6


class Answers(Protocol):
    """Answers to be scored; curves have one column per regime of the data."""

    def curves(self, panel: Panel, simulation: Simulation | None) -> list[np.ndarray] | None:
        """Weights (T, K) of each series."""

    def pooled(self, transition: KnownTransition) -> np.ndarray | None:
        """One curve of series that share a schedule."""

    def latents(self, panel: Panel) -> list[np.ndarray] | None:
        """Latents (T, d) of each series."""


class MethodAnswers:
    """The answers of a method."""

    def __init__(self, method: Method, regimes: Sequence[str]) -> None:
        self.method = method
        self.columns = [
            method.regimes_.index(name) if name in method.regimes_ else -1 for name in regimes
        ]

    def curves(self, panel: Panel, simulation: Simulation | None = None) -> list | None:
        """Weights, from recordings without their labels."""
        found = self.method.weights(panel.without_labels())
        return None if found is None else [self.named(curve) for curve in found]

    def pooled(self, transition: KnownTransition) -> np.ndarray | None:
        """One curve, as the method itself pools."""
        found = self.method.pooled(transition.panel.without_labels())
        return None if found is None else self.named(found)

    def latents(self, panel: Panel) -> list[np.ndarray] | None:
        """Latents; labels are shown only to a method that needs them."""
        shown = panel if self.method.traits.labels_to_encode else panel.without_labels()
        return self.method.encode(shown)

    def named(self, curve: np.ndarray) -> np.ndarray:
        """Columns by name; a regime that the method does not know has weight 0."""
        curve = np.asarray(curve, dtype=float)
        out = np.where(np.isfinite(curve).all(axis=1), 0.0, np.nan)[:, None]
        return np.hstack([curve[:, [k]] if k >= 0 else out for k in self.columns])


class OracleAnswers:
    """Answers of stage 2 with true latents and mechanisms: the upper bound."""

    def curves(self, panel: Panel, simulation: Simulation | None) -> list[np.ndarray] | None:
        """Weights of each simulated series."""
        assert simulation is not None  # only worlds have an oracle
        return list(_whole(oracle(simulation)))

    def pooled(self, transition: KnownTransition) -> np.ndarray | None:
        """One curve of all."""
        assert transition.simulation is not None
        return _whole(oracle(transition.simulation, pool=True))[0]

    def latents(self, panel: Panel) -> list[np.ndarray] | None:
        """None: the oracle has the true latents."""
        return None


def _whole(answer: MixturePosterior) -> np.ndarray:
    return np.asarray(answer.alpha, dtype=float)


def score_answers(answers: Answers, data: TaskData, lags: int) -> Figures:
    """Compute all scores that the data allows, over steps with a complete past."""
    figures = _latents(answers, data, lags) if data.truth is not None else {}
    figures |= _pure(answers, data, lags)
    each = [_transition(answers, transition, lags) for transition in data.transitions]
    for name in each[0] if each else ():
        found = [known for one in each if (known := one[name]) is not None]
        figures[name] = float(np.mean(found)) if len(found) == len(each) else None
        if len(each) > 1:
            pairs = zip(data.transitions, each, strict=True)
            figures |= {f"{name}:{transition.name}": one[name] for transition, one in pairs}
    if data.splices is not None:
        figures |= _splices(answers, data.splices, len(data.regimes))
    return {name: _known(value) for name, value in figures.items()}


def _known(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _latents(answers: Answers, data: TaskData, lags: int) -> Figures:
    names = ("mcc", "mcc_rank", "mcc_all_steps", "r2")
    found = answers.latents(data.pure)
    if found is None or data.pure_simulation is None:
        return dict.fromkeys(names)
    learned, truth = np.concatenate(found).astype(float), data.pure_simulation.latents
    truth = truth.reshape(-1, truth.shape[-1])
    every = np.isfinite(learned).all(axis=1)
    late = every & (_steps(data.pure) >= lags)
    if not late.any():
        return dict.fromkeys(names)
    y, x = truth[late], learned[late]
    return {
        "mcc": mean_correlation(y, x),
        "mcc_rank": mean_correlation(y, x, rank=True),
        "mcc_all_steps": mean_correlation(truth[every], learned[every]),
        "r2": linear_r2(y, x),
    }


def _steps(panel: Panel) -> np.ndarray:
    """Step number of each row within its series."""
    return np.arange(panel.rows) - np.repeat(panel.offsets[:-1], panel.lengths)


def _pure(answers: Answers, data: TaskData, lags: int) -> Figures:
    names = ("accuracy", "right_weight", "log_loss", "answered")
    curves = answers.curves(data.pure, data.pure_simulation)
    if curves is None:
        return dict.fromkeys(names)
    assert data.pure.codes is not None
    asked = (data.pure.codes >= 0) & (_steps(data.pure) >= lags)
    weights, codes = np.concatenate(curves)[asked], data.pure.codes[asked]
    said = np.isfinite(weights).all(axis=1)
    weights, codes = weights[said], codes[said]
    if not len(codes):
        return dict.fromkeys(names) | {"answered": 0.0}
    right = weights[np.arange(len(codes)), codes]
    return {
        "accuracy": float((weights.argmax(axis=1) == codes).mean()),
        "right_weight": float(right.mean()),
        "log_loss": float(-np.log(right.clip(LEAST, 1)).mean()),
        "answered": float(said.mean()),
    }


def _transition(answers: Answers, transition: KnownTransition, lags: int) -> Figures:
    single, pooled = (
        ("single", "single_rank", "single_mae"),
        ("pooled", "pooled_rank", "pooled_mae"),
    )
    curves = answers.curves(transition.panel, transition.simulation)
    if curves is None:
        return dict.fromkeys((*pooled, *single))
    pairs = zip(transition.weights, curves, strict=True)
    scores = np.array([_score(truth[lags:], curve[lags:]) for truth, curve in pairs])
    figures: Figures = dict(zip(single, _means(scores), strict=True))
    one = answers.pooled(transition) if transition.shared else None
    score = (math.nan,) * 3 if one is None else _score(transition.weights[0][lags:], one[lags:])
    return dict(zip(pooled, score, strict=True)) | figures


def _means(scores: np.ndarray) -> list[float]:
    """Over series; one whose weights do not vary has no correlation."""
    columns = [column[np.isfinite(column)] for column in scores.T]
    return [float(column.mean()) if len(column) else math.nan for column in columns]


def _score(truth: np.ndarray, curve: np.ndarray) -> tuple[float, float, float]:
    """Correlation, rank correlation, error; without any answer the correlation counts as 0."""
    if not np.isfinite(curve).all(axis=1).any():
        return 0.0, 0.0, math.nan
    return (
        weight_correlation(truth, curve),
        weight_correlation(truth, curve, rank=True),
        weight_error(truth, curve),
    )


def _splices(answers: Answers, splices: Splices, kinds: int) -> Figures:
    curves = answers.curves(splices.panel, None)
    if curves is None:
        return dict.fromkeys(("switch", "switch_mae", "midpoint_error", "midpoint_error_median"))
    scores, errors = [], []
    for i, curve in enumerate(curves):
        codes = np.full(len(curve), splices.before[i])
        codes[splices.cut[i] :] = splices.after[i]
        scores.append(_score(np.eye(kinds)[codes], curve))
        lead = np.nan_to_num(curve[:, splices.after[i]] - curve[:, splices.before[i]])
        errors.append(abs(midpoint(lead) - splices.cut[i]))
    correlation, _, error = _means(np.array(scores))
    return {
        "switch": correlation,
        "switch_mae": error,
        "midpoint_error": float(np.mean(errors)),
        "midpoint_error_median": float(np.median(errors)),
    }


def midpoint(lead: np.ndarray) -> int:
    """Row that best separates the earlier from the later regime, by their difference in weight.

    >>> midpoint(np.array([-1.0, -0.4, 0.1, -0.3, 0.8, 1.0]))
    4
    """
    before = np.concatenate([[0.0], np.cumsum(lead)])
    return int(np.argmax(before[-1] - 2 * before))
