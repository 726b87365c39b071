"""Study of the recovery of alpha(t), with the oracle and Algorithm 1."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from mechtrace import worlds
from mechtrace.config import PAPER_SIZES
from mechtrace.estimator import Trace
from mechtrace.io import versions
from mechtrace.metrics import weight_correlation, weight_error
from mechtrace.stage2 import Trajectory
from mechtrace.worlds import oracle

from . import SCHEDULES

logger = logging.getLogger(__name__)

#: Weights nearer to 0 or 1 than this count as being at the edge of the simplex.
EDGE = 0.02


def recovery_study(
    *,
    world: str = "paper",
    regimes: int = 5,
    active: Sequence[int] = (3, 5),
    series: int = 2000,
    trials: int = 200,
    lengths: Sequence[int] = (50,),
    seeds: int = 5,
    **settings: Any,
) -> dict[str, Any]:
    """Score the learned model, the oracle and Algorithm 1 over fresh worlds, pooled and single.

    `active` counts the active regimes, which are spread evenly over all; `trials` recordings
    share a schedule and are pooled.
    """
    settings, rows = PAPER_SIZES | settings, list[dict[str, Any]]()
    for seed in range(seeds):
        drawn = worlds.make(world, seed=seed, regimes=regimes)
        trace = Trace(seed=seed, align=False, **settings)
        began = time.perf_counter()
        trace.fit(drawn.simulate(series).panel, progress=False)
        fit_seconds = time.perf_counter() - began
        for count in active:
            chosen = np.unique(np.linspace(0, regimes - 1, count).round().astype(int)).tolist()
            for schedule in SCHEDULES:
                for length in lengths:
                    transition = drawn.transition(
                        schedule, series=trials, active=chosen, length=length, seed=1
                    )
                    row = _compare(trace, transition)
                    about = {"seed": seed, "active": count, "schedule": schedule, "length": length}
                    rows.append(about | row | {"fit_seconds": fit_seconds})
                    logger.info(_line(world, rows[-1]))
    return {
        "world": world,
        "regimes": regimes,
        "series_per_regime": series,
        "trials": trials,
        "rows": rows,
        "settings": Trace(**settings).get_params(),
        "versions": versions(),
    }


def _compare(trace: Trace, transition: worlds.Simulation) -> dict[str, float]:
    truth = transition.alpha[0]
    late = slice(trace.record_.settings.model.lags, None)
    pooled = cast(Trajectory, trace.recover(transition.panel, pool=True))
    singles = cast(list[Trajectory], trace.recover(transition.panel))
    static = cast(Trajectory, trace.recover(transition.panel, pool=True, method="algorithm1"))
    static_singles = cast(list[Trajectory], trace.recover(transition.panel, method="algorithm1"))
    taking_part = [n for n, w in zip(trace.regimes_, truth.max(axis=0), strict=True) if w > 0]
    told = cast(
        Trajectory,
        trace.recover(transition.panel, pool=True, method="algorithm1", active=taking_part),
    )
    best, best_pooled = oracle(transition), oracle(transition, pool=True)

    def corr(curves: Sequence[np.ndarray]) -> float:
        return float(np.mean([weight_correlation(truth[late], c[late]) for c in curves]))

    # a weight of exactly 0 lies in every interval that reaches down to 0: look at the others too
    between = ((truth > EDGE) & (truth < 1 - EDGE))[late]

    def cover(
        name: str, lower: Sequence[np.ndarray], upper: Sequence[np.ndarray]
    ) -> dict[str, float]:
        inside = np.stack(
            [
                ((a <= truth + 1e-9) & (truth <= b + 1e-9))[late]
                for a, b in zip(lower, upper, strict=True)
            ]
        )
        return {name: float(inside.mean()), f"{name}_between": float(inside[:, between].mean())}

    return {
        "pooled": corr([pooled.alpha]),
        "single": corr([path.alpha for path in singles]),
        "oracle_pooled": corr(list(best_pooled.alpha)),
        "oracle_single": corr(list(best.alpha)),
        "algorithm1_pooled": corr([static.alpha]),
        "algorithm1_pooled_told_active": corr([told.alpha]),
        "algorithm1_single": corr([path.alpha for path in static_singles]),
        "pooled_mae": weight_error(truth[late], pooled.alpha[late]),
        **cover("cover_pooled", [pooled.lower], [pooled.upper]),
        **cover("cover_single", [p.lower for p in singles], [p.upper for p in singles]),
        **cover("oracle_cover_pooled", list(best_pooled.lower), list(best_pooled.upper)),
        **cover("oracle_cover_single", list(best.lower), list(best.upper)),
    }


def _line(world: str, row: dict[str, Any]) -> str:
    return (
        f"{world} seed {row['seed']} {row['schedule']} active {row['active']} T {row['length']}:"
        f" pooled {row['pooled']:.3f} (oracle {row['oracle_pooled']:.3f}, algorithm 1"
        f" {row['algorithm1_pooled']:.3f}), single {row['single']:.3f}"
        f" ({row['oracle_single']:.3f}, {row['algorithm1_single']:.3f}),"
        f" cover {row['cover_pooled']:.2f} / {row['cover_single']:.2f}"
    )
