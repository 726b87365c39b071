"""How channels go together in the labelled recordings: to find a sensor that is off.

A Gaussian of the channels of two consecutive rows, (x_t, x_{t-1}), of all regimes together. A
recording enters by its second moments alone, so any explanation (leave a channel out, swap two) is
tried by picking rows and columns of a small matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

#: Ridge on correlations: directions that hardly vary in training may vary a little.
RIDGE = 1e-4
#: Share of the labelled series below the limit.
WITHIN = 0.99
#: A recording is unusual beyond this multiple of the limit.
UNUSUAL = 2.0
#: An explanation must lower the distance to this share, and below this multiple of the limit or to
#: this smaller share.
LOWERED, EXPLAINED, SOLVED = 0.5, 1.5, 0.1
#: Channels of which pairs are tried, at most: those without which the distance is smallest.
SUSPECTS = 12
#: Pairs of rows that a recording needs.
FEWEST = 10
#: A channel is stuck if it is the same for so many rows, and so many times as long as ever before.
STUCK_ROWS, STUCK_FACTOR = 20, 3


class SensorFault(NamedTuple):
    """What is off: "stuck", "swapped" or "other", which channels, and which rows."""

    kind: str
    channels: tuple[int, ...]
    rows: tuple[int, int]  # first and last


@dataclass(frozen=True, eq=False)
class ChannelStatistics:
    """Statistics of c channels in the labelled recordings."""

    centre: np.ndarray  # (c,)
    scale: np.ndarray  # (c,)
    moment: np.ndarray  # (2 c, 2 c) of standardised (x_t, x_{t-1})
    limit: float  # of the distance of a labelled series
    still: np.ndarray  # (c,) longest run of equal values

    @classmethod
    def measure(
        cls, values: np.ndarray, series: np.ndarray, centre: np.ndarray, scale: np.ndarray
    ) -> ChannelStatistics:
        """From rows (N, c) of unbroken series with numbers (N,) that rise."""
        starts = np.flatnonzero(np.append(True, series[1:] != series[:-1]))
        parts = [(part - centre) / scale for part in np.split(values, starts[1:])]
        moments = [_moment(part) for part in parts]
        pairs = np.array([len(part) - 1 for part in parts])
        total = np.average(moments, axis=0, weights=np.maximum(pairs, 1e-9))
        still = np.max([_longest_run(part)[0] for part in parts], axis=0)
        found = cls(centre, scale, total, 1.0, still)
        long = [m for m, count in zip(moments, pairs, strict=True) if count >= FEWEST]
        distances = [found.distance(m) for m in long] or [1.0]
        return cls(centre, scale, total, max(1.0, float(np.quantile(distances, WITHIN))), still)

    def distance(self, moment: np.ndarray, channels: np.ndarray | None = None) -> float:
        """Mean squared distance per dimension of a recording by its moments: about 1."""
        c = len(self.centre)
        chosen = np.arange(c) if channels is None else channels
        rows = np.concatenate([chosen, chosen + c])
        grid = np.ix_(rows, rows)
        known = self.moment[grid] + RIDGE * np.eye(len(rows))
        return float(np.trace(np.linalg.solve(known, moment[grid]))) / len(rows)

    def fault(self, values: np.ndarray) -> SensorFault | None:
        """Find the sensor that is off in a recording (T, c), NaN where nothing was observed."""
        stuck = self._stuck(values)
        if stuck is not None:
            return stuck
        white = (values - self.centre) / self.scale
        moment = _moment(white)
        pairs = np.isfinite(white).all(axis=1)
        if (pairs[1:] & pairs[:-1]).sum() < FEWEST or len(self.centre) < 2:
            return None
        whole = self.distance(moment)
        if whole <= UNUSUAL * self.limit:
            return None
        tried = dict(self._explanations(white, moment))
        best = min(tried, key=lambda channels: tried[channels])
        if tried[best] > min(LOWERED * whole, max(EXPLAINED * self.limit, SOLVED * whole)):
            return None
        return SensorFault("swapped" if len(best) > 1 else "other", best, (0, len(values) - 1))

    def _explanations(
        self, white: np.ndarray, moment: np.ndarray
    ) -> Iterator[tuple[tuple[int, ...], float]]:
        """Yield channels and the distance without one of them, or with two of them swapped."""
        everything = np.arange(len(self.centre))
        left = [self.distance(moment, np.delete(everything, one)) for one in everything]
        for one in everything:
            yield (int(one),), left[one]
        raw = white * self.scale + self.centre
        for first, second in combinations(sorted(np.argsort(left)[:SUSPECTS].tolist()), 2):
            order = everything.copy()
            order[[first, second]] = second, first
            swapped = (raw[:, order] - self.centre) / self.scale
            yield (first, second), self.distance(_moment(swapped))

    def _stuck(self, values: np.ndarray) -> SensorFault | None:
        length, last = _longest_run(values)
        for channel in np.argsort(-length):
            least = max(STUCK_ROWS, STUCK_FACTOR * int(self.still[channel]) + 1)
            if length[channel] >= least:
                end = int(last[channel])
                rows = (end - int(length[channel]) + 1, end)
                return SensorFault("stuck", (int(channel),), rows)
        return None

    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays for storage."""
        return {f"channels/{name}": np.asarray(value) for name, value in vars(self).items()}

    @classmethod
    def from_arrays(cls, stored: dict[str, np.ndarray]) -> ChannelStatistics | None:
        """From stored arrays; None if there are none."""
        if "channels/centre" not in stored:
            return None
        centre, scale, moment, limit, still = (
            stored[f"channels/{name}"] for name in cls.__dataclass_fields__
        )
        return cls(centre, scale, moment, float(limit), still)


def _moment(values: np.ndarray) -> np.ndarray:
    """Second moments (2 c, 2 c) of consecutive rows of (T, c) that are known."""
    pairs = np.concatenate([values[1:], values[:-1]], axis=1)
    pairs = pairs[np.isfinite(pairs).all(axis=1)]
    return pairs.T @ pairs / max(len(pairs), 1)


def _longest_run(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Length (c,) of the longest run of equal values of each channel, and its last row (c,)."""
    rows = np.arange(len(values))[:, None]
    new = np.ones(values.shape, bool)
    new[1:] = values[1:] != values[:-1]
    start = np.maximum.accumulate(np.where(new, rows, 0), axis=0)
    length = rows - start + 1
    last = length.argmax(axis=0)
    return length.max(axis=0), last
