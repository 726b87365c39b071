"""How channels go together in the labelled recordings: to find a sensor that is off.

A Gaussian of the channels of two consecutive rows, y = (x_t, x_{t-1}), of all regimes together. A
recording enters by its second moments alone. An explanation undoes a possible fault: two channels
are swapped back, a gain and an offset of one channel are removed, or a channel is left out. The
log-likelihood that this gains, in nats per row, is compared with what it gains for labelled
series, by the Gaussian of other series. Sensors that are statistically alike gain nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from ..data.plausible import FARTHEST

#: Ridge on correlations: directions that hardly vary in training may vary a little.
RIDGE = 1e-4
#: Shares of the labelled series below the limits of distance and gain, and series measured.
WITHIN, USUALLY, MEASURED = 0.99, 0.95, 100
#: Nats per row that an explanation must gain, at least, and in units of what explanations gain
#: for labelled series at most; and that of models stored without this figure.
LEAST_GAIN, GAINED, FORMER_GAIN = 3.0, 5.0, 1.0
#: The distance must fall to this share (a smaller one if a channel is left out, which always
#: lowers it), and below this multiple of the limit or to a smaller share.
LOWERED, LEFT_OUT, EXPLAINED, SOLVED = 0.65, 0.4, 2.0, 0.2
#: Smallest factor, and smallest offset in standard deviations, that count as other units: sensors
#: of machines of one kind differ by less.
OTHER_GAIN, OTHER_OFFSET = 1.4, 2.0
#: Channels of which pairs are tried, at most: those that gain most by being left out.
SUSPECTS = 24
#: Pairs of rows that a recording needs, and share of the rows in which a channel must be known.
FEWEST, KNOWN = 10, 0.5
#: Deviations at which cells are cut off; rare cells beyond `FARTHEST` are no measurements.
LARGEST = 1e8
#: A channel is stuck if it is the same for so many rows, and so many times as long as ever before.
STUCK_ROWS, STUCK_FACTOR = 20, 3


class SensorFault(NamedTuple):
    """What is off: "stuck", "swapped", "units" or "other", which channels, and which rows.

    With "units", a recorded value is `gain` times the usual one, plus `offset`.
    """

    kind: str
    channels: tuple[int, ...]
    rows: tuple[int, int]  # first and last
    gain: float = 1.0
    offset: float = 0.0


class Explanation(NamedTuple):
    """A fault undone: nats per row that it gains, and the squared distance that is left."""

    kind: str
    channels: tuple[int, ...]
    gained: float
    distance: float
    gain: float = 1.0  # of the undoing, in standard deviations
    offset: float = 0.0

    @property
    def small(self) -> bool:
        """Whether sensors of machines of one kind may differ by so much."""
        return 1 / OTHER_GAIN < self.gain < OTHER_GAIN and abs(self.offset) < OTHER_OFFSET


@dataclass(frozen=True, eq=False)
class ChannelStatistics:
    """Statistics of c channels in the labelled recordings."""

    centre: np.ndarray  # (c,)
    scale: np.ndarray  # (c,)
    moment: np.ndarray  # (2 c, 2 c) of standardised (x_t, x_{t-1})
    limit: float  # of the distance of a labelled series
    still: np.ndarray  # (c,) longest run of equal values
    gained: float = FORMER_GAIN  # most nats per row that an explanation gains for such a series

    @classmethod
    def measure(
        cls, values: np.ndarray, series: np.ndarray, centre: np.ndarray, scale: np.ndarray
    ) -> ChannelStatistics:
        """From rows (N, c) of unbroken series with numbers (N,) that rise."""
        starts = np.flatnonzero(np.append(True, series[1:] != series[:-1]))
        parts = [(part - centre) / scale for part in np.split(values, starts[1:])]
        still = np.max([_longest_run(part)[0] for part in parts], axis=0)
        size = np.array([max(len(part) - 1, 0) for part in parts])
        halves = np.zeros((2, 2 * len(centre), 2 * len(centre)))
        for number, part in enumerate(parts):
            halves[number % 2] += _moment(part)[:-1, :-1] * size[number]
        total = halves.sum(axis=0) / max(size.sum(), 1)
        limits = [(1.0, 0.0)]
        for half in (0, 1):  # series of one half by the Gaussian of the other
            mine, rows = np.flatnonzero(size >= FEWEST), size[1 - half :: 2].sum()
            mine = mine[mine % 2 == half] if rows else mine[:0]
            known = cls(centre, scale, halves[1 - half] / max(rows, 1), 1.0, still)
            judge = _Gaussian(known, np.arange(len(centre)))
            spread = np.linspace(0, len(mine) - 1, min(len(mine), MEASURED // 2)).round()
            for number in mine[spread.astype(int)]:
                moment = _moment(parts[number])
                gained = max((one.gained for one in judge.explanations(moment)), default=0.0)
                limits.append((judge.distance(moment), gained))
        distances, gains = np.array(limits).T
        limit = max(1.0, float(np.quantile(distances, WITHIN)))
        return cls(
            centre, scale, total, limit, still, float(max(np.quantile(gains, USUALLY), 1e-3))
        )

    def fault(self, values: np.ndarray) -> SensorFault | None:
        """Find the sensor that is off in a recording (T, c), NaN where nothing was observed."""
        stuck = self._stuck(values)
        if stuck is not None:
            return stuck
        white = np.clip((values - self.centre) / self.scale, -LARGEST, LARGEST)
        far = np.abs(white) > FARTHEST
        white[far & (far.mean(axis=0) < KNOWN)] = np.nan  # fill values now and then
        chosen = np.flatnonzero(np.isfinite(white).mean(axis=0) >= KNOWN)
        white = white[:, chosen]
        known = np.isfinite(white).all(axis=1)
        if (known[1:] & known[:-1]).sum() < FEWEST or len(chosen) < 2:
            return None
        judge, moment = _Gaussian(self, chosen), _moment(white)
        whole = judge.distance(moment)
        found = [one for one in judge.explanations(moment) if self._explains(one, whole)]
        if not found:
            return None
        # leaving a channel out explains every fault of it, so it comes last
        best = max(found, key=lambda one: (one.kind != "other", one.gained))
        channels = tuple(int(chosen[channel]) for channel in best.channels)
        gain, offset = 1.0, 0.0
        if best.kind == "units":
            centre, scale = self.centre[channels[0]], self.scale[channels[0]]
            gain = 1 / best.gain
            offset = float(centre - gain * (centre + scale * best.offset))
        return SensorFault(best.kind, channels, (0, len(values) - 1), gain, offset)

    def _explains(self, one: Explanation, whole: float) -> bool:
        enough = one.gained > max(LEAST_GAIN, GAINED * self.gained)
        usual = one.distance <= max(EXPLAINED * self.limit, SOLVED * whole)
        share = LEFT_OUT if one.kind == "other" else LOWERED
        return enough and usual and one.distance <= share * whole

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
            stored[f"channels/{name}"] for name in ("centre", "scale", "moment", "limit", "still")
        )
        gained = float(stored.get("channels/gained", FORMER_GAIN))
        return cls(centre, scale, moment, float(limit), still, gained)


class _Gaussian:
    """Log-likelihoods of moments of some channels, and of explanations of them.

    Moments are (2 c + 1, 2 c + 1) of (x_t, x_{t-1}, 1), so that offsets are a column.
    """

    def __init__(self, known: ChannelStatistics, chosen: np.ndarray) -> None:
        c = self.channels = len(chosen)
        self.centre, self.scale = known.centre[chosen], known.scale[chosen]
        rows = np.concatenate([chosen, chosen + len(known.centre)])
        self.precision = np.zeros((2 * c + 1, 2 * c + 1))
        ridge = known.moment[np.ix_(rows, rows)] + RIDGE * np.eye(2 * c)
        self.precision[:-1, :-1] = np.linalg.inv(ridge)

    def distance(self, moment: np.ndarray) -> float:
        """Mean squared distance per dimension: about 1."""
        return float((self.precision * moment).sum()) / (2 * self.channels)

    def explanations(self, moment: np.ndarray) -> Iterator[Explanation]:
        """Yield all that changes much."""
        whole = self.distance(moment)
        alone, left = self._without(moment, whole)
        for channel in range(self.channels):
            units = self._units(moment, whole, channel)
            if not units.small:
                yield units
                yield Explanation("other", (channel,), float(alone[channel]), float(left[channel]))
        for pair in combinations(sorted(np.argsort(-alone)[:SUSPECTS].tolist()), 2):
            distance = self._swapped(moment, whole, *pair)
            gained = self.channels * (whole - distance)
            yield Explanation("swapped", pair, gained, distance)

    def _of(self, channel: int) -> list[int]:
        return [channel, channel + self.channels]

    def _without(self, moment: np.ndarray, whole: float) -> tuple[np.ndarray, np.ndarray]:
        """Gain (c,) by giving a channel a Gaussian of its own, and distance (c,) of the others."""
        seen = self.precision @ moment @ self.precision
        gained, left = np.empty(self.channels), np.empty(self.channels)
        for channel in range(self.channels):
            own = np.ix_(self._of(channel), self._of(channel))
            given = np.linalg.inv(self.precision[own])  # covariance given the other channels
            square = np.sum(given * seen[own])
            mean = moment[-1, self._of(channel)]
            itself = moment[own] - np.outer(mean, mean) + RIDGE * np.eye(2)
            ratio = np.linalg.slogdet(given)[1] - np.linalg.slogdet(itself)[1]
            gained[channel] = 0.5 * (square + ratio) - 1
            left[channel] = whole * self.channels - 0.5 * square
        return gained, left / max(self.channels - 1, 1)

    def _units(self, moment: np.ndarray, whole: float, channel: int) -> Explanation:
        """Find gain g and offset o for which g x + o fits best: the likelihood in closed form."""
        own, product = self._of(channel), self.precision * moment
        mean = self.precision[:-1, own] @ np.ones(2)  # of the offset with the other coordinates
        gg = product[np.ix_(own, own)].sum()
        oo, go = mean[own].sum(), (mean * moment[-1, :-1])[own].sum()
        g, o = product[own].sum() - gg, (mean * moment[-1, :-1]).sum() - go
        curvature = max(gg - go * go / oo, 1e-12)
        slope = g - go * o / oo
        root = np.sqrt(slope * slope + 8 * curvature)
        best = None
        for gain in ((-slope + root) / (2 * curvature), (-slope - root) / (2 * curvature)):
            offset = -(o + gain * go) / oo
            square = whole * 2 * self.channels + (gain * gain - 1) * gg + 2 * (gain - 1) * g
            square += 2 * offset * o + 2 * gain * offset * go + offset * offset * oo
            gained = self.channels * whole - 0.5 * square + 2 * np.log(np.abs(gain))
            if best is None or gained > best.gained:
                distance = float(square) / (2 * self.channels)
                best = Explanation(
                    "units", (channel,), float(gained), distance, float(gain), float(offset)
                )
        assert best is not None
        return best

    def _swapped(self, moment: np.ndarray, whole: float, first: int, second: int) -> float:
        """Distance with two channels exchanged."""
        c, own = self.channels, np.array([*self._of(first), *self._of(second)])
        back = np.zeros((4, 2 * c + 1))
        for row, (to, of) in enumerate(((first, second),) * 2 + ((second, first),) * 2):
            back[row, of + c * (row % 2)] = self.scale[of] / self.scale[to]
            back[row, -1] = (self.centre[of] - self.centre[to]) / self.scale[to]
        block = np.ix_(own, own)
        rows, within = back @ moment, back @ moment @ back.T
        before = 2 * (self.precision[own] * moment[own]).sum()
        before -= (self.precision[block] * moment[block]).sum()
        rest = np.delete(np.arange(2 * c + 1), own)
        after = 2 * (self.precision[np.ix_(own, rest)] * rows[:, rest]).sum()
        after += (self.precision[block] * within).sum()
        return whole + float(after - before) / (2 * c)


def _moment(values: np.ndarray) -> np.ndarray:
    """Second moments of (x_t, x_{t-1}, 1) over the rows of (T, c) that are known."""
    pairs = np.concatenate([values[1:], values[:-1], np.ones((len(values[1:]), 1))], axis=1)
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
