"""Study of axis alignment in worlds with known truth."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from scipy.optimize import linear_sum_assignment

from mechtrace import worlds
from mechtrace.config import PAPER_SIZES
from mechtrace.errors import ConfigError
from mechtrace.estimator import Trace
from mechtrace.identifiability import (
    MECHANISM_FORM,
    NON_GAUSSIAN_NOISE,
    REGIME_DEPENDENT_NOISE,
    SPARSE_CHANGE,
    Axes,
    Transitions,
)
from mechtrace.io import versions
from mechtrace.metrics import linear_r2, mean_correlation
from mechtrace.stage1 import resolve_device
from mechtrace.stage2 import Trajectory

from ..benchmarks import machine
from ..jobs import parallel_map

logger = logging.getLogger(__name__)


def alignment_study(
    *,
    world: str = "paper",
    regimes: int = 5,
    series: int = 2000,
    seeds: int = 5,
    workers: int = 1,
    on_result: Callable[[dict[str, Any]], None] = lambda result: None,
    **settings: Any,
) -> dict[str, Any]:
    """Latents, verdicts, matrices and changed edges over fresh worlds.

    `on_result` is given the result so far after every world: a stopped study loses nothing.
    `workers` processes share the worlds among them.
    """
    settings, rows = PAPER_SIZES | settings, list[dict[str, Any]]()
    about = {
        "world": world,
        "regimes": regimes,
        "series_per_regime": series,
        "settings": Trace(**settings).get_params() | {"seed": None},
        "machine": machine(resolve_device(Trace(**settings).config().fit.device)),
        "workers": workers,
        "versions": versions(),
    }
    calls = [(world, regimes, series, settings, seed) for seed in range(seeds)]
    for row in parallel_map(_one, calls, workers):
        rows = [*rows, row]
        logger.info(_line(world, row))
        lowest = min(row["mcc"] for row in rows)
        result = about | {"rows": rows, "means": _means(rows), "mcc_min": lowest}
        on_result(result)
    return result


def _one(
    world: str, regimes: int, series: int, settings: dict[str, Any], seed: int
) -> dict[str, Any]:
    drawn = worlds.make(world, seed=seed, regimes=regimes)
    panel = drawn.simulate(series).panel
    began = time.perf_counter()
    trace = Trace(seed=seed, **settings).fit(panel, progress=False)
    seconds = time.perf_counter() - began
    return {"seed": seed, "seconds": seconds} | _scores(trace, drawn)


def _means(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Over worlds, of every figure."""
    figures = [name for name, value in rows[0].items() if not isinstance(value, (str, list))]
    known = {name: [row[name] for row in rows if row[name] is not None] for name in figures}
    return {name: float(np.mean(values)) for name, values in known.items() if values}


def _line(world: str, row: dict[str, Any]) -> str:
    right = "right" if row["verdict_right"] else "WRONG"
    return (
        f"{world} seed {row['seed']}: MCC {row['mcc']:.3f} (before {row['mcc_before']:.2f}),"
        f" verdict {right}: {row['verdict']} {row['seconds']:.0f} s"
    )


def _scores(trace: Trace, drawn: worlds.World) -> dict[str, Any]:
    lags = trace.record_.settings.model.lags
    test = drawn.simulate(100, seed=1)
    aligned = np.stack(trace.encode(test.panel))
    before = trace.axes_.native(aligned)
    truth, learned = test.latents[:, lags:], aligned[:, lags:]
    partner, slope = matching(truth, learned)
    named = {kind for axis in trace.axes_.axes for kind in axis.by}
    return {
        "mcc": mean_correlation(truth, learned),
        "mcc_rank": mean_correlation(truth, learned, rank=True),
        "mcc_all_steps": mean_correlation(test.latents, aligned),
        "mcc_before": mean_correlation(truth, before[:, lags:]),
        "r2": linear_r2(truth, learned),
        "verdict": trace.axes_.verdict,
        "verdict_right": verdict_is_right(trace.axes_, drawn, partner),
        "kinds": sorted(named),
        "identified": len(trace.axes_.identified),
        "curvature": trace.axes_.curvature,
        "alpha_moved": _alpha_moved(trace, drawn),
        "weight_correlation": _weights(trace.axes_, drawn, partner, slope),
        "changed_edges_right": _changed_edges(trace.axes_, drawn, partner),
    }


def true_transitions(simulation: worlds.Simulation) -> Transitions:
    """Transitions of pure runs with true latents and mechanisms: what perfect learning gives."""
    if simulation.label is None:
        raise ConfigError("a transition has no regimes to compare", fix="simulate pure runs")
    lags, z = simulation.world.config.lags, simulation.latents.astype(float)
    series, steps, d = z.shape
    past = [z[:, lags - lag : steps - lag].reshape(-1, d) for lag in range(1, lags + 1)]
    kinds = len(simulation.world.mechanisms)
    return Transitions(
        value=z[:, lags:].reshape(-1, d),
        history=np.stack(past),
        expected=simulation.conditional_means()[:, lags:].reshape(-1, kinds, d),
        regime=np.repeat(simulation.label, steps - lags),
        unit=np.repeat(np.arange(series), steps - lags),
    )


def matching(truth: np.ndarray, learned: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The learned axis of each true one, and how it grows with it."""
    d = truth.shape[-1]
    y, x = truth.reshape(-1, d).astype(float), learned.reshape(-1, learned.shape[-1])
    y, x = y - y.mean(axis=0), x - x.mean(axis=0)
    covariance = y.T @ x / len(y)
    correlation = covariance / np.outer(y.std(axis=0), x.std(axis=0))
    partner = linear_sum_assignment(-np.abs(correlation))[1]
    return partner, covariance[np.arange(d), partner] / y.var(axis=0)


def present_evidence(drawn: worlds.World) -> list[str]:
    """Kinds of evidence that a world offers by construction, the strongest first."""
    config = drawn.config
    offers = {
        NON_GAUSSIAN_NOISE: config.noise_kind == "laplace",
        REGIME_DEPENDENT_NOISE: config.regime_scale_spread != 1,
        MECHANISM_FORM: config.start == "normal" and config.leak < 1,
        SPARSE_CHANGE: config.change != "dense",
    }
    return [kind for kind, there in offers.items() if there]


def verdict_is_right(axes: Axes, drawn: worlds.World, partner: np.ndarray) -> bool:
    """The strongest evidence is named and none that is not there.

    Where only sparse changes can be seen, just the axes that a change touches may be claimed.
    """
    offered = present_evidence(drawn)
    named = {kind for axis in axes.axes for kind in axis.by}
    if not offered:
        return not named
    if offered == [SPARSE_CHANGE]:
        touched = _change(drawn).sum(axis=(0, 1)) > 1e-9
        claimed = np.array([axes.axes[axis].identified for axis in partner])
        return named == {SPARSE_CHANGE} and bool((claimed == touched).all())
    return offered[0] in named and named <= set(offered)


def _change(drawn: worlds.World) -> np.ndarray:
    """How far each mechanism is from the usual one, edge by edge: (K, d, d)."""
    return np.abs(drawn.mechanisms - np.median(drawn.mechanisms, axis=0))


def _alpha_moved(trace: Trace, drawn: worlds.World) -> float:
    """Largest difference of alpha(t) with and without the aligned axes."""
    panel = drawn.transition("simple", series=3, seed=1).panel
    with_axes = cast(list[Trajectory], trace.recover(panel))
    kept, trace.axes_ = trace.axes_, Axes.unaligned(trace.axes_.matrix.shape[0])
    without = cast(list[Trajectory], trace.recover(panel))
    trace.axes_ = kept
    moved = [np.nanmax(np.abs(a.alpha - b.alpha)) for a, b in zip(with_axes, without, strict=True)]
    return float(max(moved))


def _weights(
    axes: Axes, drawn: worlds.World, partner: np.ndarray, slope: np.ndarray
) -> float | None:
    """Correlation of all entries of W^(k) with the truth, after matching and scaling."""
    if axes.weights is None:
        return None
    found = axes.weights.jacobian[:, 0][:, partner][:, :, partner]
    found = found * slope[:, None] / slope
    return float(np.corrcoef(found.ravel(), drawn.mechanisms.ravel())[0, 1])


def _changed_edges(axes: Axes, drawn: worlds.World, partner: np.ndarray) -> float | None:
    """Share of the regimes whose largest named change is the edge that was changed."""
    if drawn.config.change != "edge":
        return None
    changes = axes.changes()
    place = {axes.names[axis]: number for number, axis in enumerate(partner)}
    right = 0
    for change, name in zip(_change(drawn), drawn.regimes, strict=True):
        wanted = np.unravel_index(change.argmax(), change.shape)
        mine = changes[(changes["regime"] == name) & changes["named"]]
        if len(mine):
            best = mine.iloc[0]
            right += (place[best["source"]], place[best["target"]]) == wanted
    return right / len(drawn.regimes)
