"""Regimes in terms of the sensors: figures of each, and sentences that set them apart."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from .._runtime.lazy import render
from .difference_sentences import Sentences, TimeUnit
from .regime_differences import LEVEL
from .sensor_statistics import SensorStatistics

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Description:
    """What each sensor does in each regime, and what sets the regimes apart.

    Parameters
    ----------
    regimes, sensors : tuple of str
        Names.
    statistics : SensorStatistics
        The figures behind it, measured on the labelled recordings of the fit.
    unit : TimeUnit
        How times are written.

    Notes
    -----
    A difference is stated if it is beyond chance: names of regimes, exchanged at random between
    recordings, give no difference of any sensor as large in 95 % of cases. The sentences are
    ordered by effect size, the difference over the standard deviation between recordings of one
    regime; it counts half for each sentence before that tells the same of another sensor.
    """

    regimes: tuple[str, ...]
    sensors: tuple[str, ...]
    statistics: SensorStatistics
    unit: TimeUnit

    @cached_property
    def by_regime(self) -> dict[str, list[str]]:
        """Sentences about each regime, the most telling first."""
        write = self._sentences.about
        return {name: write(k) for k, name in enumerate(self.regimes)}

    def sentences(self) -> list[str]:
        """List all sentences, each with the regime that it is about.

        Returns
        -------
        list of str
            As "worn: current_A is lower than in ...".
        """
        found = [f"{name}: {text}." for name, texts in self.by_regime.items() for text in texts]
        return found + self.alike

    @cached_property
    def alike(self) -> list[str]:
        """Sentences about pairs of more than two regimes between which nothing differs."""
        return self._sentences.alike()

    @property
    def _sentences(self) -> Sentences:
        return Sentences(self.regimes, self.sensors, self.statistics, self.unit)

    def to_frame(self) -> pd.DataFrame:
        """Tabulate the figures: one row per regime and sensor.

        Returns
        -------
        pandas.DataFrame
            Median and middle 90 % of the values, standard deviation of the fast part, and the
            period of a clear rhythm (NaN without one) in `unit`.
        """
        import pandas as pd

        rows = [
            {"regime": name, "sensor": sensor} | figures
            for name, of_regime in self.to_dict()["regimes"].items()
            for sensor, figures in of_regime["sensors"].items()
        ]
        return pd.DataFrame(rows).astype({"period": float})

    def to_dict(self) -> dict[str, Any]:
        """Give everything as one dictionary for JSON; what is not clear is None."""
        known = self.statistics
        return {
            "time_unit": self.unit.name,
            "regimes": {
                name: {
                    "recordings": int(known.recordings[k]),
                    "sentences": self.by_regime[name],
                    "sensors": {s: self._figures(k, i) for i, s in enumerate(self.sensors)},
                }
                for k, name in enumerate(self.regimes)
            },
            "responses": [
                {
                    "after": self.sensors[cause],
                    "follows": self.sensors[effect],
                    "direction": "rises" if sign > 0 else "falls",
                    "delay": {
                        name: self._time(rows)
                        for name, rows in zip(self.regimes, delays, strict=True)
                    },
                }
                for (cause, effect), sign, delays in zip(
                    known.pairs, known.sign, known.delay, strict=True
                )
            ],
            "differences": [
                {
                    "kind": kind,
                    "sensors": [self.sensors[i] for i in numbers],
                    "regimes": [self.regimes[a], self.regimes[b]],
                    "effect": float(effect[a, b]),
                    "p_value": float(p_value[a, b]),
                }
                for kind, numbers, effect, p_value in known.features()
                for a, b in combinations(range(len(self.regimes)), 2)
                if p_value[a, b] <= LEVEL
            ],
        }

    def __str__(self) -> str:
        lines = []
        for k, (name, texts) in enumerate(self.by_regime.items()):
            lines.append(f"{name} ({self.statistics.recordings[k]} recordings)")
            lines += [f"  - {text}" for text in texts]
        return "\n".join(lines + self.alike)

    def _repr_html_(self) -> str:
        return render("html", self)

    def _figures(self, k: int, i: int) -> dict[str, float | None]:
        known = self.statistics
        low, median, high = (float(value) for value in known.level[:, k, i])
        frequency = float(known.frequency[k, i])
        period = self._time(1 / frequency) if frequency else None
        spread = float(known.spread[k, i])
        return {"median": median, "low": low, "high": high, "spread": spread, "period": period}

    def _time(self, rows: float) -> float | None:
        return float(rows) * self.unit.step if np.isfinite(rows) else None
