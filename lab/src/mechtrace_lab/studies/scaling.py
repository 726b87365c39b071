"""The paper's scaling table: Algorithm 1 on true latents."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from mechtrace import worlds
from mechtrace.diagnose import static_sigma_min
from mechtrace.io import versions
from mechtrace.metrics import weight_correlation
from mechtrace.stage2 import centred_window, static_weights

from . import SCHEDULES

logger = logging.getLogger(__name__)


def scaling_study(
    *,
    world: str = "paper",
    regimes: int = 10,
    active: Sequence[int] = tuple(range(2, 11)),
    seeds: int = 5,
    trials: int = 200,
    pure: int = 400,
    window: int = 5,
) -> dict[str, Any]:
    """Algorithm 1 on the mean of `trials` true latents that share a schedule.

    The first K_active regimes take part: their changed edges end in distinct latents up to the
    sixth, later ones share a target. Means come from `pure` series of each regime.
    """
    rows = []
    for seed in range(seeds):
        drawn = worlds.make(world, seed=seed, regimes=regimes)
        lags = drawn.config.lags
        held = drawn.simulate(pure, seed=3)
        late = held.latents[:, lags:].astype(float)
        means = np.stack([late[held.label == k].mean(axis=(0, 1)) for k in range(regimes)])
        for count in active:
            for schedule in SCHEDULES:
                transition = drawn.transition(
                    schedule, active=list(range(count)), series=trials, seed=1
                )
                truth = transition.alpha[0, lags:, :count]
                z = transition.latents[:, lags:].astype(float)
                curves = {
                    "pooled": static_weights(z.mean(axis=0), means[:count]),
                    "averaged": static_weights(z, means[:count]).mean(axis=0),
                }
                found = {
                    name: weight_correlation(truth, centred_window(curve, window))
                    for name, curve in curves.items()
                }
                one = centred_window(static_weights(z[:20], means[:count]), window)
                found["single"] = float(np.mean([weight_correlation(truth, c) for c in one]))
                about = {"seed": seed, "active": count, "schedule": schedule}
                rows.append(about | found | {"sigma_min": static_sigma_min(means[:count])})
                logger.info(_line(rows[-1]))
    return {
        "world": world,
        "regimes": regimes,
        "latents": drawn.config.latents,
        "trials": trials,
        "pure_series_per_regime": pure,
        "window": window,
        "seeds": seeds,
        "rows": rows,
        "versions": versions(),
    }


def _line(row: dict[str, Any]) -> str:
    return (
        f"seed {row['seed']} active {row['active']} {row['schedule']}: pooled {row['pooled']:.3f},"
        f" averaged {row['averaged']:.3f}, single {row['single']:.3f},"
        f" sigma_min {row['sigma_min']:.3f}"
    )
