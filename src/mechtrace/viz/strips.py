"""Which regime each sensor speaks for over time, reduced to strips of a few columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

#: Sensors and columns at most.
MOST_SENSORS, MOST_COLUMNS = 8, 120
#: Columns that are averaged with their neighbours on both sides, where there are so many.
SMOOTHED, ENOUGH = 1, 40
#: Quantile of the strengths that gets the full colour.
FULL = 0.95


class Strips(NamedTuple):
    """Strips of all sensors together (first) and of the strongest, in columns of time."""

    names: tuple[str, ...]
    starts: np.ndarray  # (B,) first row of each column
    leader: np.ndarray  # (B, lanes) number of the regime that is spoken for
    strength: np.ndarray  # (B, lanes) nats per row by which it leads the next; NaN: no evidence
    full: float  # strength of the full colour

    @classmethod
    def of(cls, values: np.ndarray, sensors: tuple[str, ...], regimes: list[int]) -> Strips:
        """From contributions (T, K, c), of which these regimes compete."""
        values = values[:, regimes]
        size = np.nan_to_num(np.ptp(values, axis=1)).sum(axis=0)
        chosen = np.argsort(-size, kind="stable")[:MOST_SENSORS]
        lanes = np.concatenate([values.sum(axis=2, keepdims=True), values[:, :, chosen]], axis=2)
        rows = -(-len(lanes) // MOST_COLUMNS)
        starts = np.arange(0, len(lanes), rows)
        mean = _smooth(np.stack([_mean(lanes[a : a + rows]) for a in starts]))
        order = np.sort(mean, axis=1)
        strength = order[:, -1] - order[:, -2]
        leader = np.asarray(regimes)[np.nan_to_num(mean, nan=-np.inf).argmax(axis=1)]
        known = strength[:, 1:][np.isfinite(strength[:, 1:])]
        full = float(np.quantile(known, FULL)) if known.size else 1.0
        names = ("all", *(sensors[i] for i in chosen))
        return cls(names, starts, leader, strength, full or 1.0)


def _mean(part: np.ndarray) -> np.ndarray:
    """Mean over the first axis of what is known."""
    known = np.isfinite(part)
    total = np.where(known, part, 0.0).sum(axis=0)
    return np.where(known.any(axis=0), total / np.maximum(known.sum(axis=0), 1), np.nan)


def _smooth(columns: np.ndarray) -> np.ndarray:
    """Average each of many columns with its neighbours."""
    last = len(columns)
    if last < ENOUGH:
        return columns
    return np.stack([_mean(columns[max(i - SMOOTHED, 0) : i + SMOOTHED + 1]) for i in range(last)])
