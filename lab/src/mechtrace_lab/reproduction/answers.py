"""The three answers to a simulated transition: Algorithm 1, the default and the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mechtrace.errors import DataError
from mechtrace.stage2 import Trajectory, two_point
from mechtrace.worlds import Simulation, oracle

from .models import Trained

#: Smoothing window of Algorithm 1.
WINDOW = 5
#: With more than this a regime counts as alone: single rows of its peak are too noisy to calibrate
#: by, and the first steps of Algorithm 1 are still on their way to the regime's mean.
PURE = 0.8


def simulate_transition(one: Trained, schedule: str, active: Sequence[int]) -> Simulation:
    """Simulate the recordings that share a schedule."""
    return one.world.transition(schedule, series=one.scale.trials, active=list(active), seed=1)


def groups_of_trials(transition: Simulation, size: int, most: int = 20) -> list[Simulation]:
    """Split the recordings into groups of equal size, at most `most` of them."""
    count = max(1, min(most, len(transition.latents) // size))
    return [select_trials(transition, slice(g * size, (g + 1) * size)) for g in range(count)]


def select_trials(transition: Simulation, part: slice) -> Simulation:
    """Select some of the recordings."""
    fields = ("observations", "latents", "alpha")
    return replace(transition, **{name: getattr(transition, name)[part] for name in fields})


def recovered(
    who: str, one: Trained, transition: Simulation, active: Sequence[int], *, pool: bool
) -> list[np.ndarray]:
    """Recover the weights by one of the three: "algorithm1", "default" or "oracle"."""
    if who == "algorithm1":
        return by_algorithm1(one, transition, active, pool=pool)
    return (by_default if who == "default" else by_oracle)(one, transition, pool=pool)


def by_default(
    one: Trained, transition: Simulation, *, pool: bool, simplex: bool = True
) -> list[np.ndarray]:
    """Recover without being told which regimes are active."""
    found = one.trace.recover(transition.panel, pool=pool, simplex=simplex)
    return _all_regimes(one, found)


def by_oracle(one: Trained, transition: Simulation, *, pool: bool) -> list[np.ndarray]:
    """Recover from true latents and mechanisms."""
    return [np.asarray(curve, float) for curve in oracle(transition, pool=pool).alpha]


def by_algorithm1(
    one: Trained,
    transition: Simulation,
    active: Sequence[int],
    *,
    pool: bool,
    window: int = WINDOW,
    simplex: bool = True,
) -> list[np.ndarray]:
    """Recover by the paper's Algorithm 1, told the active regimes as in the paper."""
    told = [one.world.regimes[k] for k in active if k in one.known]
    found = one.trace.recover(
        transition.panel,
        method="algorithm1",
        pool=pool,
        window=window,
        simplex=simplex,
        active=told if len(told) > 1 else None,
    )
    return _all_regimes(one, found)


def _all_regimes(one: Trained, found: Trajectory | list[Trajectory]) -> list[np.ndarray]:
    """Give each curve a column for every regime of the world, 0 where it was not learned."""
    out = []
    for path in found if isinstance(found, list) else [found]:
        curve = np.zeros((len(path.alpha), len(one.world.regimes)))
        curve[:, one.known] = path.alpha
        out.append(curve)
    return out


def pure_rows(truth: np.ndarray, lags: int) -> dict[int, np.ndarray]:
    """Find the rows at which one regime is nearly alone, with the true weights there."""
    late = truth[lags:]
    return {int(row): truth[row] for row in lags + np.flatnonzero(late.max(axis=1) > PURE)}


def calibrated(curve: np.ndarray, known: dict[int, np.ndarray]) -> np.ndarray:
    """Calibrate by two points for each regime; a curve that is constant there stays as it is."""
    try:
        return two_point(curve, known)
    except DataError:
        return curve


def rounded(curve: np.ndarray, active: Sequence[int]) -> list[list[float]]:
    """Round the active regimes of a curve to four digits, for a file."""
    return np.round(np.asarray(curve, float)[:, list(active)], 4).tolist()
