"""From pixels to alpha(t): the world of section 6.3 of the paper, learned from its pictures."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from mechtrace import worlds
from mechtrace.estimator import Trace
from mechtrace.io import versions
from mechtrace.metrics import linear_r2, mean_correlation, weight_correlation
from mechtrace.stage1 import resolve_device
from mechtrace.stage2 import Trajectory
from mechtrace.worlds import SHOWN, oracle

from ..benchmarks import machine

logger = logging.getLogger(__name__)

LATENTS = ("x", "v", "theta", "omega")
#: Series of each regime on which the latents are compared with the truth.
TEST_SERIES = 100
#: True positions of so many steps are asked what they tell of a speed.
REMEMBERED = 20
#: Transitions that are recovered one by one.
SINGLES = 50
#: Of the model: the size of the state, and steps that an angle and a place need to have a speed.
SETTINGS: dict[str, Any] = {"latents": 4, "lags": 2}


def cartpole_study(
    *,
    series: int = 1000,
    size: int = 64,
    length: int = 100,
    active: Sequence[int] = (3, 5),
    schedules: Sequence[str] = ("simple",),
    trials: int = 200,
    seeds: int = 3,
    first: int = 0,
    on_result: Callable[[dict[str, Any]], None] = lambda result: None,
    **settings: Any,
) -> dict[str, Any]:
    """Latents and weights over fresh worlds, beside Algorithm 1 and the full-state oracle.

    Of `active` regimes the first so many take part. Which ones matters: R2 to R4 change latents
    that no picture shows. `on_result` is given the result so far after every world.
    """
    settings = SETTINGS | settings
    about = {
        "world": "cartpole",
        "series_per_regime": series,
        "size": size,
        "length": length,
        "trials": trials,
        "first": first,
        "settings": Trace(**settings).get_params() | {"seed": None},
        "machine": machine(resolve_device(Trace(**settings).config().fit.device)),
        "versions": versions(),
    }
    rows: list[dict[str, Any]] = []
    for seed in range(first, first + seeds):
        row = cartpole_of_seed(
            seed, series=series, size=size, length=length, active=active, schedules=schedules,
            trials=trials, **settings,
        )  # fmt: skip
        logger.info(_line(row))
        rows.append(row)
        result = about | {"rows": rows, "means": _means(rows)}
        on_result(result)
    return result


def cartpole_of_seed(
    seed: int,
    *,
    series: int,
    size: int,
    length: int,
    active: Sequence[int] = (3, 5),
    schedules: Sequence[str] = ("simple",),
    trials: int,
    **settings: Any,
) -> dict[str, Any]:
    """One fresh world: its pictures are learned, its latents and weights compared with truth."""
    drawn = worlds.make("cartpole", seed=seed, size=size, length=length)
    panel = drawn.simulate(series).panel
    began = time.perf_counter()
    trace = Trace(seed=seed, **SETTINGS | settings).fit(panel, progress=False)
    row = {"seed": seed, "seconds": time.perf_counter() - began} | score_latents(trace, drawn)
    row["steps"] = trace.facts_["training"]["steps"]
    row["step_seconds"] = trace.facts_["training"]["seconds"]
    row["unexplained"] = trace.facts_.get("pictures", {}).get("unexplained")
    row["recovery"] = [
        score_weights(trace, drawn, schedule, count, trials)
        for count in active
        for schedule in schedules
    ]
    return row


def score_latents(trace: Trace, drawn: worlds.World) -> dict[str, Any]:
    """MCC on what is visible, before and after alignment, and the share explained of each."""
    late = slice(trace.record_.settings.model.lags, None)
    test = drawn.simulate(TEST_SERIES, seed=1)
    aligned = np.stack(trace.encode(test.panel))[:, late]
    truth = test.latents[:, late]
    visible = truth[..., list(SHOWN)]
    return {
        "mcc": mean_correlation(visible, aligned),
        "mcc_rank": mean_correlation(visible, aligned, rank=True),
        "mcc_before": mean_correlation(visible, trace.axes_.native(aligned)),
        "r2": {
            name: linear_r2(truth[..., [number]], aligned) for number, name in enumerate(LATENTS)
        },
        "r2_possible": speeds_in_positions(test.latents),
        "verdict": trace.axes_.verdict,
    }


def speeds_in_positions(latents: np.ndarray) -> dict[str, float]:
    """Share of v and omega that the true x and theta of the last steps explain (linearly)."""
    memory = min(REMEMBERED, latents.shape[1] // 2)
    steps = np.arange(memory, latents.shape[1])
    past = [latents[:, steps - lag][..., list(SHOWN)] for lag in range(memory + 1)]
    seen = np.concatenate(past, axis=-1)
    return {
        name: linear_r2(latents[:, steps][..., [number]], seen)
        for number, name in enumerate(LATENTS)
        if number not in SHOWN
    }


def score_weights(
    trace: Trace, drawn: worlds.World, schedule: str, count: int, trials: int
) -> dict[str, Any]:
    """Correlation with the true weights: default, Algorithm 1 and oracle; pooled and single."""
    transition = drawn.transition(schedule, series=trials, active=list(range(count)), seed=1)
    some = drawn.transition(
        schedule, series=min(trials, SINGLES), active=list(range(count)), seed=1
    )
    truth, late = transition.alpha[0], slice(trace.record_.settings.model.lags, None)

    def corr(curves: Sequence[np.ndarray]) -> float:
        return float(np.mean([weight_correlation(truth[late], c[late]) for c in curves]))

    found: dict[str, Any] = {"schedule": schedule, "active": count}
    for name, method in (("", "state-space"), ("algorithm1_", "algorithm1")):
        pooled = cast(Trajectory, trace.recover(transition.panel, pool=True, method=method))
        singles = trace.recover(some.panel, method=method)
        singles = singles if isinstance(singles, list) else [singles]
        found[f"{name}pooled"] = corr([pooled.alpha])
        found[f"{name}single"] = corr([path.alpha for path in singles])
    found["oracle_pooled"] = corr(list(oracle(transition, pool=True).alpha))
    found["oracle_single"] = corr(list(oracle(some).alpha))
    return found


def _means(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Over worlds."""
    means: dict[str, Any] = {
        name: float(np.mean([row[name] for row in rows]))
        for name in ("mcc", "mcc_rank", "mcc_before", "seconds", "step_seconds")
    }
    for key in ("r2", "r2_possible"):
        means[key] = {
            name: float(np.mean([row[key][name] for row in rows])) for name in rows[0][key]
        }
    means["recovery"] = [
        {
            name: float(np.mean([part[name] for part in parts]))
            if isinstance(value, float)
            else value
            for name, value in parts[0].items()
        }
        for parts in zip(*(row["recovery"] for row in rows), strict=True)
    ]
    return means


def _line(row: dict[str, Any]) -> str:
    r2 = ", ".join(f"{name} {value:.3f}" for name, value in row["r2"].items())
    weights = "; ".join(
        f"{part['active']} active, {part['schedule']}: pooled {part['pooled']:.3f} (oracle"
        f" {part['oracle_pooled']:.3f}, algorithm 1 {part['algorithm1_pooled']:.3f}), single"
        f" {part['single']:.3f} ({part['oracle_single']:.3f}, {part['algorithm1_single']:.3f})"
        for part in row["recovery"]
    )
    return (
        f"cartpole seed {row['seed']}: MCC of (x, theta) {row['mcc']:.3f} (before"
        f" {row['mcc_before']:.2f}), R2 {r2}; {weights}; {row['seconds']:.0f} s"
    )
