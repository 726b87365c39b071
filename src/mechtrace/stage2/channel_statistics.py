"""How channels go together in the labelled recordings: to find a sensor that is off.

A Gaussian of the channels of two consecutive rows, y = (x_t, x_{t-1}), of all regimes together.
What an explanation of a new recording gains (`sensor_faults`) is compared with what it gains for
labelled series of other groups, by the Gaussian without them. Sensors that are statistically
alike gain nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..data.plausible import FARTHEST
from .sensor_faults import KINDS, OF_TIME, RATES, RIDGE, Explanation, Judge, Moments

#: Share of the labelled series below the limit of the distance, and series measured.
WITHIN, MEASURED = 0.99, 100
#: Folds of groups (of series without groups) that are judged by the others, at most; and ridges
#: on correlations among which the likelihood of left-out groups chooses: groups differ.
MOST_FOLDS, RIDGES = 8, (RIDGE, 1e-3, 1e-2, 1e-1)
#: Nats per row that an explanation must gain, at least (of time: all channels together), and in
#: units of what explanations of its kind gain for labelled series at most.
LEAST, LEAST_OF_TIME, GAINED = {"units": 3.0, "swapped": 5.0, "other": 10.0}, 1.0, 2.0
#: Other units are clear if they gain so many times as much; and far, whatever they gain, if the
#: logarithm of the factor is so many times what counts.
CLEAR, FAR = 8.0, 1.5
#: Smallest factor, and smallest offset in standard deviations, that count as other units, beyond
#: those by which labelled series of other groups differ.
OTHER_GAIN, OTHER_OFFSET = 1.4, 2.0
#: Nats per row that explanations gain for labelled series, in models stored without this figure;
#: and a factor on that of models which have one for all explanations.
FORMER_GAIN, GAINED_FORMERLY = 1.0, 2.5
#: The distance must fall below the limit or to the first share; for what labelled series never
#: show, the second is enough, and the third for explanations of time; if a channel is left out,
#: which always lowers it, it must be below the fourth as well.
SOLVED, LOWERED, LOWERED_BY_TIME, LEFT_OUT = 0.2, 0.55, 0.65, 0.4
#: Factor on what leaving a channel out gains.
VAGUE = 0.8
#: Multiple of the limit beyond which a recording is unusual: transitions are between regimes.
UNUSUAL = 3.0
#: Pairs of rows that a recording needs, and share of the rows in which a channel must be known.
FEWEST, KNOWN = 10, 0.5
#: Deviations at which cells are cut off; rare cells beyond `FARTHEST` are no measurements.
LARGEST = 1e8
#: A channel is stuck if it is the same for so many rows, and so many times as long as ever before.
STUCK_ROWS, STUCK_FACTOR = 20, 3
#: Share of a recording up to which a stuck channel may be one that was swapped with another.
LONG = 0.25
#: Channels of which the moments of each regime are kept, at most: more are compressed anyway.
FILLABLE = 16
#: Quantiles of the range of a channel.
RANGE = (0.01, 0.99)


class SensorFault(NamedTuple):
    """What is off, which channels, and which rows.

    `kind` is "missing", "stuck", "swapped", "units", "other", "rate", "reversed" or "shuffled".
    With "units", a recorded value is `gain` times the usual one, plus `offset`; with "rate", rows
    are `gain` times as frequent.
    """

    kind: str
    channels: tuple[int, ...]
    rows: tuple[int, int]  # first and last
    gain: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True, eq=False)
class ChannelStatistics:
    """Statistics of c channels in the labelled recordings."""

    centre: np.ndarray  # (c,)
    scale: np.ndarray  # (c,)
    moment: np.ndarray  # (2 c, 2 c) of standardised (x_t, x_{t-1}), with the chosen ridge
    limit: float  # of the distance of a labelled series
    still: np.ndarray  # (c,) longest run of equal values
    natural: np.ndarray  # (kinds, c) most nats per row that explanations gain for such a series
    lagged: np.ndarray | None = None  # (rates, c, c) moments of x_t and x_{t-r}
    varied: np.ndarray | None = None  # (2, c) largest `size` of other units in such a series
    span: np.ndarray | None = None  # (2, c) lowest and highest usual value
    regimes: np.ndarray | None = None  # (K, 2 c + 1, 2 c + 1) moments of (x_t, x_{t-1}, 1) of each

    @classmethod
    def measure(
        cls,
        values: np.ndarray,
        series: np.ndarray,
        centre: np.ndarray,
        scale: np.ndarray,
        groups: np.ndarray | Sequence[str] | None = None,
        regime: np.ndarray | None = None,
    ) -> ChannelStatistics:
        """From rows (N, c) of unbroken series with numbers (N,) that rise.

        `groups` names the group of each series, `regime` numbers its regime; groups are judged by
        the others.
        """
        c, starts = len(centre), np.flatnonzero(np.append(True, series[1:] != series[:-1]))
        parts = [(part - centre) / scale for part in np.split(values, starts[1:])]
        still = np.max([_longest_run(part)[0] for part in parts], axis=0)
        size = np.array([max(len(part) - 1, 0) for part in parts])
        fold = _folds(len(parts), groups)
        sums, lagged = np.zeros((fold.max() + 1, 2 * c, 2 * c)), np.zeros((len(RATES), c, c))
        count = np.zeros(len(RATES))
        for number, part in enumerate(parts):
            moments = Moments.of(part, 0)
            sums[fold[number]] += moments.plain[:-1, :-1] * size[number]
            for i, rate in enumerate(RATES):
                if rate in moments.apart:
                    lagged[i] += moments.apart[rate][:c, c:-1] * (len(part) - rate)
                    count[i] += max(len(part) - rate, 0)
        lagged /= np.maximum(count, 1)[:, None, None]
        rows = np.bincount(fold, size)
        mine = np.flatnonzero((size >= FEWEST) & (rows[fold] < size.sum()))
        mine = mine[np.linspace(0, len(mine) - 1, min(len(mine), MEASURED)).round().astype(int)]
        moments_of = {number: Moments.of(parts[number], FEWEST) for number in mine}
        others = {
            f: (sums.sum(axis=0) - sums[f]) / max(size.sum() - rows[f], 1)
            for f in np.unique(fold[mine])
        }

        def judges(ridge: float) -> dict[int, Judge]:
            more = ridge * np.eye(2 * c)
            return {f: Judge(centre, scale, one + more, lagged) for f, one in others.items()}

        def likelihood(ridge: float) -> float:
            of = judges(ridge)
            return sum(of[fold[n]].log_likelihood(moments_of[n].plain) for n in mine)

        ridge = max(RIDGES, key=likelihood) if len(mine) else RIDGE
        judge_of, limits = judges(ridge), [1.0]
        gained, varied = np.zeros((len(KINDS), c)), np.zeros((2, c))
        for number in mine:
            judge = judge_of[fold[number]]
            limits.append(judge.distance(moments_of[number].plain))
            for one in judge.explanations(moments_of[number]):
                at = KINDS.index(one.kind), list(one.channels) or slice(None)
                gained[at] = np.maximum(gained[at], one.gained)
                if one.kind == "units":
                    channel = one.channels[0]
                    varied[:, channel] = np.maximum(varied[:, channel], one.size)
        total = sums.sum(axis=0) / max(size.sum(), 1) + ridge * np.eye(2 * c)
        limit = max(1.0, float(np.quantile(limits, WITHIN)))
        span = np.quantile(values, RANGE, axis=0)
        regimes = None
        if regime is not None and c <= FILLABLE:
            of_regime = np.zeros((int(regime.max()) + 1, 2 * c + 1, 2 * c + 1))
            for part, rows_of, k in zip(parts, size, regime, strict=True):
                of_regime[k] += Moments.of(part, 0).plain * rows_of
            regimes = of_regime / np.maximum(of_regime[:, -1:, -1:], 1)
        return cls(centre, scale, total, limit, still, gained, lagged, varied, span, regimes)

    def fault(self, values: np.ndarray, without: Sequence[int] = ()) -> SensorFault | None:
        """Find the sensor that is off in a recording (T, c), NaN where nothing was observed.

        The channels `without` are not looked at.
        """
        present = np.setdiff1d(np.arange(values.shape[1]), without)
        last = len(values) - 1
        seen = np.isfinite(values[:, present]).mean(axis=0) if len(values) else np.zeros(0)
        empty = present[seen < KNOWN]
        if 0 < len(empty) < len(present) and seen.max() > KNOWN:
            return SensorFault("missing", tuple(map(int, empty)), (0, last))
        stuck = self._stuck(values, present)
        if stuck is not None and stuck.rows[1] - stuck.rows[0] > LONG * len(values):
            return stuck
        return self._explained(values, present) or stuck

    def _explained(self, values: np.ndarray, present: np.ndarray) -> SensorFault | None:
        """Find the explanation that gains most, among those that labelled series lack."""
        last = len(values) - 1
        white = np.clip((values - self.centre) / self.scale, -LARGEST, LARGEST)
        far = np.abs(white) > FARTHEST
        white[far & (far.mean(axis=0) < KNOWN)] = np.nan  # fill values now and then
        chosen = present[np.isfinite(white[:, present]).mean(axis=0) >= KNOWN]
        white = white[:, chosen]
        known = np.isfinite(white).all(axis=1)
        if (known[1:] & known[:-1]).sum() < FEWEST or len(chosen) < 2:
            return None
        judge, moments = self._judge(chosen), Moments.of(white, FEWEST)
        whole = judge.distance(moments.plain)
        found = [one for one in judge.explanations(moments) if self._explains(one, whole, chosen)]
        if not found:
            return None
        # leaving a channel out explains every fault of it, so a fault gains nearly as much
        best = max(found, key=lambda one: one.gained * (VAGUE if one.kind == "other" else 1))
        if best.kind in OF_TIME:
            rate = best.kind.strip("x/")
            if not rate.isdigit():
                return SensorFault(best.kind, (), (0, last))
            gain = float(rate) if best.kind[0] == "x" else 1 / float(rate)
            return SensorFault("rate", (), (0, last), gain)
        channels = tuple(int(chosen[channel]) for channel in best.channels)
        gain, offset = 1.0, 0.0
        if best.kind == "units":
            centre, scale = self.centre[channels[0]], self.scale[channels[0]]
            gain = 1 / best.gain
            offset = float(centre - gain * (centre + scale * best.offset))
        return SensorFault(best.kind, channels, (0, last), gain, offset)

    def _judge(self, chosen: np.ndarray) -> Judge:
        rows = np.concatenate([chosen, chosen + len(self.centre)])
        moment = self.moment[np.ix_(rows, rows)]
        lagged = None if self.lagged is None else self.lagged[:, chosen[:, None], chosen]
        return Judge(self.centre[chosen], self.scale[chosen], moment, lagged)

    def _explains(self, one: Explanation, whole: float, chosen: np.ndarray) -> bool:
        """Whether an explanation is one that labelled series do not have as well."""
        of_time, swapped = one.kind in OF_TIME, one.kind == "swapped"
        alike = np.array([KINDS.index(kind) for kind in (OF_TIME if of_time else [one.kind])])
        where = chosen if of_time or swapped else chosen[list(one.channels)]
        natural = float(self.natural[np.ix_(alike, where)].max())
        least = LEAST.get(one.kind, LEAST_OF_TIME)
        enough = one.gained > max(least, GAINED * natural)
        usual = one.distance <= max(self.limit, SOLVED * whole)
        lowered = usual or one.distance <= LOWERED * whole
        if of_time:
            lowered = one.distance <= LOWERED_BY_TIME * whole
            lowered |= one.kind.startswith("x") or (usual and whole > self.limit)
            return enough and lowered
        if swapped:
            return enough and lowered
        unusual = usual and whole > UNUSUAL * self.limit
        if one.kind == "other":
            return enough and unusual and one.distance <= LEFT_OUT * whole
        size, least_size = one.size, np.array([np.log(OTHER_GAIN), OTHER_OFFSET])
        size[0] *= one.gain > 0  # a factor that is not positive is no unit
        varied = np.zeros(2) if self.varied is None else self.varied[:, chosen[one.channels[0]]]
        factor, offset = size > least_size + varied
        beyond = lowered and (factor or (offset and whole > self.limit))
        clear = unusual or (usual and one.gained > CLEAR * max(least, natural))
        far = lowered and one.gained > least and size[0] > FAR * (least_size + varied)[0]
        return bool((enough and (beyond or (clear and (size > least_size).any()))) or far)

    def _stuck(self, values: np.ndarray, present: np.ndarray) -> SensorFault | None:
        length, last = _longest_run(values)
        for channel in present[np.argsort(-length[present])]:
            least = max(STUCK_ROWS, STUCK_FACTOR * int(self.still[channel]) + 1)
            if length[channel] >= least:
                end = int(last[channel])
                rows = (end - int(length[channel]) + 1, end)
                return SensorFault("stuck", (int(channel),), rows)
        return None

    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays for storage."""
        known = {name: value for name, value in vars(self).items() if value is not None}
        return {f"channels/{name}": np.asarray(value) for name, value in known.items()}

    @classmethod
    def from_arrays(cls, stored: dict[str, np.ndarray]) -> ChannelStatistics | None:
        """From stored arrays; None if there are none."""
        if "channels/centre" not in stored:
            return None
        known = {
            name.removeprefix("channels/"): value
            for name, value in stored.items()
            if name.startswith("channels/")
        }
        c, former = len(known["centre"]), float(known.pop("gained", FORMER_GAIN))
        if "natural" not in known:  # of earlier versions, which had no ridge either
            known["natural"] = np.full((len(KINDS), c), GAINED_FORMERLY * former)
            known["moment"] = known["moment"] + RIDGE * np.eye(2 * c)
        return cls(limit=float(known.pop("limit")), **known)


def _folds(series: int, groups: np.ndarray | Sequence[str] | None) -> np.ndarray:
    """Fold of each series: of its group, or, of less than two groups, its number."""
    if groups is not None:
        names, number = np.unique(np.asarray(groups), return_inverse=True)
        if len(names) > 1:
            return np.asarray(number % MOST_FOLDS)
    return np.arange(series) % MOST_FOLDS


def _longest_run(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Length (c,) of the longest run of equal values of each channel, and its last row (c,)."""
    rows = np.arange(len(values))[:, None]
    new = np.ones(values.shape, bool)
    new[1:] = values[1:] != values[:-1]
    start = np.maximum.accumulate(np.where(new, rows, 0), axis=0)
    length = rows - start + 1
    last = length.argmax(axis=0)
    return length.max(axis=0), last
