"""Rough streams: `rows(seed, channels)` gives what a stream is fed, row by row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

FILLS = (1e9, -999999.0, 1e30, -1e37, 3.4e38, 1e308)
BROKEN_ROWS = (None, "text", [], [[1.0]], {}, object(), ["a", "b"])
BROKEN_TIMES = ("now", True, np.nan, np.inf, -1e9, np.datetime64("NaT"), datetime(2026, 1, 1), [0])


@dataclass(frozen=True)
class Fed:
    """One call of `Stream.update`."""

    row: Any
    time: Any
    kind: str  # "good", "missing", "implausible" or "refused"


def rows(seed: int, channels: int, length: int = 60, scale: float = 0.3) -> Iterator[Fed]:
    """Yield rows of a random walk of this scale: good ones, spoilt ones and ones to be refused.

    Time is in steps of 1, with gaps; every refused row comes with a time or values that no stream
    accepts, whatever came before.
    """
    random = np.random.default_rng([seed, 43])
    position, now = np.zeros(channels), 0.0
    for number in range(length):
        position = 0.8 * position + scale * random.standard_normal(channels)
        now += 1.0 if random.random() < 0.95 else float(random.integers(2, 12))
        # the first row sets the kind of time
        if number and random.random() < 0.1:
            yield _refused(random, position, now)
        row, chance = position.copy(), random.random()
        kind = "good"
        if chance < 0.06:
            row[random.integers(channels)] = np.nan
            kind = "missing"
        elif chance < 0.12:
            row[random.integers(channels)] = FILLS[int(random.integers(len(FILLS)))]
            kind = "implausible"
        yield Fed(row if random.random() < 0.5 else row.tolist(), now, kind)


def _refused(random: np.random.Generator, row: np.ndarray, now: float) -> Fed:
    if random.random() < 0.5:
        broken: Any = BROKEN_ROWS[int(random.integers(len(BROKEN_ROWS)))]
        if random.random() < 0.3:
            broken = np.append(row, 0.0)
        return Fed(broken, now, "refused")
    return Fed(row, BROKEN_TIMES[int(random.integers(len(BROKEN_TIMES)))], "refused")
