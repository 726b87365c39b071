"""Explanations of a recording that differs from training: one fault of its sensors undone.

A recording enters by the second moments of (x_t, x_{t-1}, 1), its channels standardised as in
training. An explanation gains log-likelihood, in nats per row, under the Gaussian of labelled
recordings: two channels are swapped back, a gain and an offset of one channel are removed, a
channel is left out; or the rows come at another rate or in another order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

#: Ridge on correlations: directions that hardly vary in training may vary a little.
RIDGE = 1e-4
#: Nats per row by which a negative factor must fit better than a positive one.
UPSIDE_DOWN = 1.0
#: Channels of which pairs are tried, at most: those that gain most by being left out.
SUSPECTS = 24
#: Factors by which rows may come more or less often than in training.
RATES = (2, 3, 5, 10)
#: Kinds of explanations, each with a natural gain of its own; and which are about time.
KINDS = ("units", "other", "swapped", *(f"{way}{rate}" for way in "x/" for rate in RATES),
         "reversed", "shuffled")  # fmt: skip
OF_TIME = KINDS[3:]


class Explanation(NamedTuple):
    """A fault undone: nats per row that it gains, and the squared distance that is left."""

    kind: str  # one of `KINDS`; "x2": twice as many rows per unit of time
    channels: tuple[int, ...]
    gained: float
    distance: float
    gain: float = 1.0  # of the undoing, in standard deviations
    offset: float = 0.0

    @property
    def size(self) -> np.ndarray:
        """Logarithm of the factor, and offset in standard deviations, without their signs."""
        return np.abs([np.log(np.abs(self.gain)), self.offset])


@dataclass(frozen=True, eq=False)
class Moments:
    """Second moments of (x_t, x_{t-1}, 1), and of (x_t, x_{t-r}, 1) for each of `RATES`."""

    plain: np.ndarray  # (2 c + 1, 2 c + 1)
    apart: dict[int, np.ndarray]  # only where there are enough rows

    @classmethod
    def of(cls, values: np.ndarray, fewest: int) -> Moments:
        """From the rows of (T, c) that are known."""
        found = {rate: _moment(values, rate) for rate in RATES if len(values) >= fewest + rate}
        return cls(_moment(values), found)


def _moment(values: np.ndarray, lag: int = 1) -> np.ndarray:
    pairs = np.concatenate([values[lag:], values[:-lag], np.ones((len(values[lag:]), 1))], axis=1)
    pairs = pairs[np.isfinite(pairs).all(axis=1)]
    return pairs.T @ pairs / max(len(pairs), 1)


class Judge:
    """Log-likelihoods of moments of c channels, and of explanations of them.

    `moment` (2 c, 2 c) is that of labelled recordings, ridge included, `lagged` (rates, c, c)
    their moments of x_t and x_{t-r}.
    """

    def __init__(
        self,
        centre: np.ndarray,
        scale: np.ndarray,
        moment: np.ndarray,
        lagged: np.ndarray | None = None,
    ) -> None:
        self.channels, self.centre, self.scale = len(centre), centre, scale
        self.moment, self.lagged = moment, lagged
        self.precision = self._inverse(moment)

    def _inverse(self, moment: np.ndarray) -> np.ndarray:
        out = np.zeros((2 * self.channels + 1, 2 * self.channels + 1))
        out[:-1, :-1] = np.linalg.inv(moment)
        return out

    def distance(self, moment: np.ndarray) -> float:
        """Mean squared distance per dimension: about 1."""
        return float((self.precision * moment).sum()) / (2 * self.channels)

    def log_likelihood(self, moment: np.ndarray) -> float:
        """Of a pair of rows on average, but for a constant."""
        return -self.channels * self.distance(moment) - 0.5 * np.linalg.slogdet(self.moment)[1]

    def explanations(self, moments: Moments) -> Iterator[Explanation]:
        """Yield all that changes much."""
        moment, whole = moments.plain, self.distance(moments.plain)
        alone, left = self._without(moment, whole)
        product = self.precision * moment
        for channel in range(self.channels):
            yield self._units(moment, product, whole, channel)
            yield Explanation("other", (channel,), float(alone[channel]), float(left[channel]))
        for pair in combinations(sorted(np.argsort(-alone)[:SUSPECTS].tolist()), 2):
            distance = self._swapped(moment, whole, *pair)
            gained = self.channels * (whole - distance)
            yield Explanation("swapped", pair, gained, distance)
        if self.lagged is not None:
            yield from self._of_time(moments)

    def _of_time(self, moments: Moments) -> Iterator[Explanation]:
        """Rows at another rate, backwards, or in no order: other moments of consecutive rows.

        Gained is the difference of divergences: rows further apart are other data.
        """
        assert self.lagged is not None
        before, c = self._divergence(moments.plain), self.channels
        backwards = np.r_[c : 2 * c, :c, 2 * c]
        others = [("reversed", self, moments.plain[np.ix_(backwards, backwards)])]
        others += [(f"x{rate}", self, apart) for rate, apart in moments.apart.items()]
        ways = [*zip((f"/{rate}" for rate in RATES), self.lagged, strict=True)]
        for name, cross in [*ways, ("shuffled", np.zeros((c, c)))]:
            expected = self.moment.copy()
            expected[:c, c:], expected[c:, :c] = cross, cross.T
            if np.linalg.eigvalsh(expected)[0] > 0:
                judge = Judge(self.centre, self.scale, expected)
                others.append((name, judge, moments.plain))
        for name, judge, moment in others:
            gained = before - judge._divergence(moment)
            yield Explanation(name, (), float(gained), judge.distance(moment))

    def _divergence(self, moment: np.ndarray) -> float:
        """Of a recording's Gaussian from this one, but for a constant."""
        mean = moment[-1, :-1]
        own = moment[:-1, :-1] - np.outer(mean, mean) + RIDGE * np.eye(len(mean))
        return -self.log_likelihood(moment) - 0.5 * float(np.linalg.slogdet(own)[1])

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

    def _units(
        self, moment: np.ndarray, product: np.ndarray, whole: float, channel: int
    ) -> Explanation:
        """Find gain g and offset o for which g x + o fits best: the likelihood in closed form."""
        own = self._of(channel)
        mean = self.precision[:-1, own] @ np.ones(2)  # of the offset with the other coordinates
        gg = product[np.ix_(own, own)].sum()
        oo, go = mean[own].sum(), (mean * moment[-1, :-1])[own].sum()
        g, o = product[own].sum() - gg, (mean * moment[-1, :-1]).sum() - go
        curvature = max(gg - go * go / oo, 1e-12)
        slope = g - go * o / oo
        root = np.sqrt(slope * slope + 8 * curvature)
        found = []
        for gain in ((-slope + root) / (2 * curvature), (-slope - root) / (2 * curvature)):
            offset = -(o + gain * go) / oo
            square = whole * 2 * self.channels + (gain * gain - 1) * gg + 2 * (gain - 1) * g
            square += 2 * offset * o + 2 * gain * offset * go + offset * offset * oo
            gained = self.channels * whole - 0.5 * square + 2 * np.log(np.abs(gain))
            figures = (gained, square / (2 * self.channels), gain, offset)
            found.append(Explanation("units", (channel,), *map(float, figures)))
        positive, negative = found  # where both fit, a sensor is not taken to be upside down
        return negative if negative.gained > positive.gained + UPSIDE_DOWN else positive

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
