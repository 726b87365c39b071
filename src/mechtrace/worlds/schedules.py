"""Schedules: shares (T, K) of the active mechanisms over time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..errors import ConfigError

# Width of the bumps of `medium`, in units of their spacing: an inner bump then peaks at 0.70
# and an outer one at 0.82, the range that appendix E.4 of the paper gives.
BUMP_WIDTH = 0.57


def simple(length: int, regimes: int) -> np.ndarray:
    """One regime after the other, each reaching 1; at most two at a time.

    >>> simple(5, 2)[:, 1].tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    position = np.linspace(0.0, regimes - 1, length)
    return np.maximum(0.0, 1.0 - np.abs(position[:, None] - np.arange(regimes)))


def medium(length: int, regimes: int) -> np.ndarray:
    """Overlapping Gaussian bumps, two or three regimes at a time, peaks at 0.7 to 0.8."""
    position = np.linspace(0.0, regimes - 1, length)
    distance = (position[:, None] - np.arange(regimes)) / BUMP_WIDTH
    return _normalised(np.exp(-0.5 * distance**2))


def complex(length: int, regimes: int) -> np.ndarray:
    """Cosines of different frequency: all regimes at once, none dominant from four on."""
    k = np.arange(regimes)
    t = np.arange(length)[:, None] / length
    return _normalised(0.5 * (1 + np.cos((1 + 0.5 * k) * 2 * np.pi * t + k * np.pi / regimes)))


def linear(length: int, regimes: int) -> np.ndarray:
    """Follow a straight line from the first regime to the last."""
    return _between(np.linspace(0.0, 1.0, length), regimes)


def sinusoidal(length: int, regimes: int) -> np.ndarray:
    """From the first regime to the last and back, along a raised cosine."""
    return _between(0.5 * (1 - np.cos(2 * np.pi * np.linspace(0.0, 1.0, length))), regimes)


def step(length: int, regimes: int) -> np.ndarray:
    """Equal stretches of one pure regime after the other, with instant switches."""
    return np.eye(regimes)[np.arange(length) * regimes // max(length, 1)]


def constant(length: int, regimes: int) -> np.ndarray:
    """Keep an equal mixture."""
    return np.full((length, regimes), 1.0 / regimes)


#: Named schedules: (length, regimes) -> weights (length, regimes).
SCHEDULES: dict[str, Callable[[int, int], np.ndarray]] = {
    f.__name__: f for f in (simple, medium, complex, linear, sinusoidal, step, constant)
}


def make_schedule(
    schedule: str | np.ndarray, length: int, regimes: int, active: list[int] | None = None
) -> np.ndarray:
    """Make shares from a named schedule over the active regimes, or check an array.

    Parameters
    ----------
    schedule : str or (length, active) array
        One of `SCHEDULES`, or shares.
    length : int
        Steps.
    regimes : int
        Number of all regimes.
    active : list of int, optional
        Regimes of the schedule; all by default.

    Returns
    -------
    (length, regimes) array
        Shares.

    Raises
    ------
    ConfigError
        If the schedule is unknown or not a simplex, or `active` is not a set of regimes.

    Examples
    --------
    >>> make_schedule("linear", 3, regimes=4, active=[0, 3]).tolist()
    [[1.0, 0.0, 0.0, 0.0], [0.5, 0.0, 0.0, 0.5], [0.0, 0.0, 0.0, 1.0]]
    """
    active = list(range(regimes)) if active is None else list(active)
    if len(set(active)) != len(active) or not all(0 <= k < regimes for k in active) or not active:
        raise ConfigError(
            f"active regimes {active} are not distinct numbers from 0 to {regimes - 1}",
            fix="name each active regime once",
        )
    if isinstance(schedule, str):
        if schedule not in SCHEDULES:
            raise ConfigError(
                f"unknown schedule {schedule!r}", fix=f"use one of {sorted(SCHEDULES)}"
            )
        weights = SCHEDULES[schedule](length, len(active))
    else:
        weights = np.asarray(schedule, dtype=float)
        if weights.shape != (length, len(active)):
            raise ConfigError(
                f"the schedule has shape {weights.shape}, expected {(length, len(active))}",
                fix="give one row per step and one column per active regime",
            )
        off = np.abs(weights.sum(axis=1) - 1).max(initial=0.0)
        if not np.isfinite(weights).all() or (weights < 0).any() or off > 1e-6:
            raise ConfigError(
                "the schedule leaves the simplex", fix="make every row non-negative with sum 1"
            )
    full = np.zeros((length, regimes))
    full[:, active] = weights
    return full


def _normalised(weights: np.ndarray) -> np.ndarray:
    weights = np.maximum(weights, np.finfo(float).tiny)  # no step without any mechanism
    return weights / weights.sum(axis=1, keepdims=True)


def _between(share: np.ndarray, regimes: int) -> np.ndarray:
    weights = np.zeros((len(share), regimes))
    weights[:, 0] = 1 - share
    weights[:, -1] += share
    return weights
