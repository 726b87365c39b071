"""What sets regimes apart, as sentences: the most telling first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from .events import shown_duration
from .regime_differences import LEVEL, MOST_REGIMES
from .sensor_statistics import DATES, ROWS, SensorStatistics

#: Sentences about one regime at most, and factor on what each repetition of a kind tells.
MOST_SENTENCES, REPEATED = 5, 0.5
#: Periods that differ by less than this share are the same.
SAME_PERIOD = 0.05
#: Last parts of the names of time columns that say what their unit is, in seconds.
SECONDS = {
    "s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "min": 60.0, "minutes": 60.0, "h": 3600.0,
    "hours": 3600.0, "days": 86400.0,
}  # fmt: skip
#: What follows where figures show a difference.
SHOWN = re.compile(": |;|period")
#: Fewer recordings of a regime are few.
FEW = 8
#: A response this early, in rows, comes at once.
AT_ONCE = 0.5
NOTHING = "level, fluctuation, rhythm or response"


class TimeUnit(NamedTuple):
    """Length of a row in seconds, in other units of time, or just a row."""

    step: float
    seconds: bool
    name: str

    @classmethod
    def of(cls, step: float | None, kind: int, column: str | None) -> TimeUnit:
        """Unit of recordings with this usual step, kind of stamps and time column.

        >>> TimeUnit.of(0.5, 1, "time_ms"), TimeUnit.of(2.0, 1, "t").name
        (TimeUnit(step=0.0005, seconds=True, name='seconds'), 'time units')
        """
        if kind == ROWS or step is None:
            return cls(1.0, False, "steps")
        name = (column or "").lower()
        last = re.split(r"[^a-z]+", name.rstrip(")] "))[-1]
        known = SECONDS.get(last) if last != name or len(last) > 1 else None  # "s" may be a path
        if kind == DATES:
            known = 1.0
        if known is None:
            return cls(step, False, "time units")
        return cls(step * known, True, "seconds")

    def shown(self, *rows: float) -> str:
        """Write numbers of rows as times, the unit once where it is the same."""
        times = [
            shown_duration(value * self.step)
            if self.seconds
            else f"{_rounded(value * self.step)} {self.name}"
            for value in rows
        ]
        units = {time.partition(" ")[2] for time in times}
        if len(units) > 1:
            return _joined(times)
        return f"{_joined([time.partition(' ')[0] for time in times])} {units.pop()}"


class Difference(NamedTuple):
    """One feature in which a regime differs from others: its size, kind, sensors and words."""

    size: float
    kind: str
    sensors: tuple[str, ...]
    text: str


@dataclass(frozen=True, eq=False)
class Sentences:
    """Writes about the differences between regimes."""

    regimes: tuple[str, ...]
    sensors: tuple[str, ...]
    statistics: SensorStatistics
    unit: TimeUnit

    def alike(self) -> list[str]:
        """Write about pairs of more than two regimes between which nothing differs."""
        known = self.statistics
        return [
            f"{self.regimes[a]} and {self.regimes[b]}: {self._nothing([a, b])}."
            for a, b in combinations(range(len(self.regimes)), 2)
            if len(self.regimes) > 2
            and known.testable[a, b]
            and not any(p_value[a, b] <= LEVEL for *_, p_value in known.features())
        ]

    def about(self, k: int) -> list[str]:
        """Write the sentences about regime k."""
        found = _merged(list(self._differences(k)))
        chosen: list[Difference] = []
        while found and len(chosen) < MOST_SENTENCES:
            told = [one.kind for one in chosen]
            best = max(found, key=lambda one: one.size * REPEATED ** told.count(one.kind))
            chosen.append(best)
            found.remove(best)
        if chosen:
            return [one.text for one in chosen]
        if len(self.regimes) > MOST_REGIMES:
            return [f"not compared: there are more than {MOST_REGIMES} regimes"]
        if not self.statistics.testable[k].any():
            return ["too few recordings to tell whether other regimes differ"]
        return [self._nothing(range(len(self.regimes)))]

    def _nothing(self, regimes: Sequence[int]) -> str:
        counts = [str(self.statistics.recordings[k]) for k in regimes]
        few = min(map(int, counts)) < FEW
        note = f", but there are few recordings ({_joined(counts)})" if few else ""
        return f"no difference in {NOTHING} beyond chance{note}"

    def _differences(self, k: int) -> Iterator[Difference]:
        for kind, numbers, effect, p_value in self.statistics.features():
            sensors = tuple(self.sensors[i] for i in numbers)
            beyond = np.flatnonzero(p_value[k] <= LEVEL)
            up, down = (beyond[np.sign(effect[k, beyond]) == side] for side in (1, -1))
            more = np.abs(effect[k, up]).sum() >= np.abs(effect[k, down]).sum()
            others = up if more else down
            if kind == "period":
                others = self._apart(k, sensors[0], others)
            if len(others):
                size = float(np.abs(effect[k, others]).sum()) / (len(self.regimes) - 1)
                text = getattr(self, f"_{kind}")(k, sensors, others, more)
                # what no figure shows comes last
                yield Difference(size if SHOWN.search(text) else 0.0, kind, sensors, text)

    def _level(self, k: int, sensors: tuple[str, ...], others: np.ndarray, more: bool) -> str:
        i = self.sensors.index(sensors[0])
        low, own, high = self.statistics.level[:, k, i]
        theirs = self.statistics.level[1, others, i]
        text = f"{sensors[0]} is {'higher' if more else 'lower'} than in {self._names(others)}"
        if not ((theirs < own) if more else (theirs > own)).all():
            return f"{text}, in recordings of the same group"
        decimals = _decimals(own, theirs)
        median, first, last, *medians = (
            f"{round(value, decimals) + 0.0:,.{decimals}f}" for value in (own, low, high, *theirs)
        )
        return f"{text}: {median} instead of {_joined(medians)} (90 % of rows: {first} to {last})"

    def _spread(self, k: int, sensors: tuple[str, ...], others: np.ndarray, more: bool) -> str:
        spread = self.statistics.spread[:, self.sensors.index(sensors[0])]
        factors = _joined([f"{spread[k] / value:.2g}" for value in spread[others]])
        return (
            f"{sensors[0]} fluctuates {'more' if more else 'less'} than in {self._names(others)}:"
            f" by {_rounded(spread[k])} ({factors} times as much)"
        )

    def _period(self, k: int, sensors: tuple[str, ...], others: np.ndarray, more: bool) -> str:
        frequency, names = self._frequencies(sensors[0]), self._names(others)
        own, theirs = frequency[k], frequency[others]
        clear = own > 0 and (theirs > 0).all() and ((theirs < own) == more).all()
        if clear:
            return (
                f"{sensors[0]} swings {'faster' if more else 'slower'} than in {names}: period"
                f" {self.unit.shown(1 / own)} instead of {self.unit.shown(*(1 / theirs))}"
            )
        return f"{sensors[0]} moves at {'higher' if more else 'lower'} frequencies than in {names}"

    def _rhythm(self, k: int, sensors: tuple[str, ...], others: np.ndarray, more: bool) -> str:
        frequency, names = self._frequencies(sensors[0]), self._names(others)
        own, theirs = frequency[k], frequency[others]
        if more and own > 0 and not theirs.any():
            period = self.unit.shown(1 / own)
            return f"{sensors[0]} swings with a period of {period}; no clear rhythm in {names}"
        if not more and not own and (theirs > 0).all():
            period = self.unit.shown(*(1 / theirs))
            return f"{sensors[0]} has no clear rhythm; a period of {period} in {names}"
        return f"{sensors[0]} has a {'stronger' if more else 'weaker'} rhythm than in {names}"

    def _delay(self, k: int, sensors: tuple[str, ...], others: np.ndarray, more: bool) -> str:
        known, names = self.statistics, self._names(others)
        place = [tuple(self.sensors[i] for i in pair) for pair in known.pairs].index(sensors)
        own, theirs = known.delay[place, k], known.delay[place, others]
        rises = "rises" if known.sign[place] > 0 else "falls"
        text = (
            f"after a rise of {sensors[0]}, {sensors[1]} {rises} {'later' if more else 'sooner'}"
            f" than in {names}"
        )
        if not (np.isfinite(theirs).all() and np.isfinite(own) and ((theirs < own) == more).all()):
            return text
        first = "at once" if own < AT_ONCE else f"after about {self.unit.shown(own)}"
        return f"{text}: {first} instead of {self.unit.shown(*theirs)}"

    def _apart(self, k: int, sensor: str, others: np.ndarray) -> np.ndarray:
        """Keep the regimes whose period differs by more than is worth a word, if one is known."""
        frequency = self._frequencies(sensor)
        known = (frequency[others] > 0) & (frequency[k] > 0)
        same = known & (np.abs(frequency[others] / (frequency[k] or 1) - 1) <= SAME_PERIOD)
        clear = known & ~same
        return others[clear] if clear.any() else others[~same]

    def _frequencies(self, sensor: str) -> np.ndarray:
        """Frequencies (K,) of the first sensor with about the same, so that words are the same."""
        frequency = self.statistics.frequency
        own = frequency[:, [self.sensors.index(sensor)]]
        same = (np.abs(frequency - own) <= SAME_PERIOD * own).all(axis=0)
        return np.asarray(frequency[:, int(np.argmax(same))])

    def _names(self, others: np.ndarray) -> str:
        if len(others) == len(self.regimes) - 1 > 2:
            return "all others"
        return _joined([self.regimes[j] for j in others])


def _merged(found: Sequence[Difference]) -> list[Difference]:
    """Say once what holds for several sensors in the same words, such as a common period."""
    groups: dict[tuple[str, str], list[Difference]] = {}
    for one in found:
        rest = (
            one.text.removeprefix(one.sensors[0]) if one.kind in ("period", "rhythm") else one.text
        )
        groups.setdefault((one.kind, rest), []).append(one)
    out = []
    for (kind, rest), same in groups.items():
        sensors = tuple(sensor for one in same for sensor in one.sensors)
        text = same[0].text
        if len(same) > 1:
            verb, _, tail = rest.strip().partition(" ")
            plural = {"swings": "swing", "moves": "move", "has": "have"}[verb]
            text = f"{_joined(list(sensors))} {plural} {tail}"
        out.append(Difference(max(one.size for one in same), kind, sensors, text))
    return out


def _joined(words: Sequence[str]) -> str:
    """Write a list; equal words are said once.

    >>> _joined(["a", "b", "b"]), _joined(["a", "b", "c"])
    ('a and b', 'a, b and c')
    """
    *first, last = list(dict.fromkeys(words))
    return f"{', '.join(first)} and {last}" if first else last


def _rounded(value: float) -> str:
    """Write three digits, without an exponent.

    >>> _rounded(4888.0), _rounded(0.10327)
    ('4,890', '0.103')
    """
    short = float(f"{value:.3g}")
    return f"{short:,.12g}" if abs(short) >= 1e-4 else f"{short:.3g}"


def _decimals(value: float, others: np.ndarray) -> int:
    """Decimals that tell a value from others with two digits of the difference.

    >>> _decimals(1.2345, np.array([1.4012]))
    2
    """
    gap = max(float(np.abs(others - value).min()), 1e-5 * abs(value), 1e-12)
    return int(max(0, 1 - np.floor(np.log10(gap))))
