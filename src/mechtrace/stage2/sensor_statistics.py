"""What each sensor does in each regime, in the user's units, measured once after training.

Typical level, spread of the fast part, rhythm, and delays between sensors; and in which of them
regimes differ beyond chance. `description` puts it into sentences.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ..data.panel import Panel
from ..data.segments import Runs, cumcount
from ..io.frames import take_rows
from .recording_features import RecordingFeatures
from .regime_differences import differences

#: Quantiles of the level.
QUANTILES = (0.05, 0.5, 0.95)
#: Recordings of one regime and of all, and numbers in them, at most; rows of a run at least.
OF_ONE, OF_ALL, MOST_NUMBERS, FEWEST_ROWS = 100, 600, 1 << 22, 8
#: Kinds of features that are compared, in the order of `SensorStatistics.effect`.
KINDS = ("level", "spread", "period", "rhythm")
#: A delay is stated if its standard error is below so many rows, or below this share of it.
SURE_ROWS, SURE_SHARE = 0.5, 0.2
#: What time stamps are.
ROWS, NUMBERS, DATES = range(3)


@dataclass(frozen=True, eq=False)
class SensorStatistics:
    """Figures of c sensors in K regimes; m pairs of sensors respond to each other."""

    recordings: np.ndarray  # (K,) recordings behind the figures
    level: np.ndarray  # (3, K, c) quantiles of the values
    spread: np.ndarray  # (K, c) standard deviation of the fast part
    frequency: np.ndarray  # (K, c) of a rhythm in cycles per row; 0 without a clear one
    pairs: np.ndarray  # (m, 2) sensors: cause, and what follows
    sign: np.ndarray  # (m,) 1 if both rise together, -1 if one falls
    delay: np.ndarray  # (m, K) mean delay in rows; infinite where it is not clear
    effect: np.ndarray  # (4, c, K, K) of `KINDS`: [.., a, b] a less b, in deviations of recordings
    p_value: np.ndarray  # (4, c, K, K) corrected for all features
    delay_effect: np.ndarray  # (m, K, K)
    delay_p_value: np.ndarray  # (m, K, K)
    testable: np.ndarray  # (K, K) 1 where there are recordings enough to tell regimes apart
    time_kind: int = ROWS  # ROWS, NUMBERS or DATES

    @classmethod
    def of_runs(cls, panel: Panel, runs: Runs, seed: int) -> SensorStatistics | None:
        """From labelled runs of a panel; None if a regime has none of enough rows."""
        kinds, sensors = len(panel.regimes), len(panel.channels)
        runs = runs.where(np.argsort(runs.start))
        recording = _recordings(runs)
        keep = runs.length >= FEWEST_ROWS
        keep[keep] = _some(recording[keep], runs.regime[keep], seed)
        runs = runs.where(keep)
        if len(np.unique(runs.regime)) < kinds:
            return None
        _, first, recording = np.unique(recording[keep], return_index=True, return_inverse=True)
        most = max(FEWEST_ROWS, MOST_NUMBERS // (sensors * len(runs)))
        cut = np.minimum(runs.length, most)  # the middle of long runs
        runs = replace(runs, start=runs.start + (runs.length - cut) // 2, length=cut)
        values = np.asarray(take_rows(panel.values, runs.row_numbers()), float)
        features = RecordingFeatures.measure(np.split(values, np.cumsum(cut)[:-1]), recording)
        regime, code = runs.regime[first], np.repeat(runs.regime, cut)
        chosen = [regime == k for k in range(kinds)]
        rhythm = features.rhythm(features.peaks(regime >= 0))
        responses = features.responses
        parts = (features.level, features.spread, rhythm, responses.timing())
        block = runs.series if runs.group is None else runs.group
        found = differences(np.concatenate(parts, axis=1), regime, block[first], kinds, seed)
        effect, p_value = (np.moveaxis(part, -1, 0) for part in found[:2])
        one_by_one, pair = (len(KINDS), sensors, kinds, kinds), len(KINDS) * sensors
        delays = [responses.delays(mine) for mine in chosen]
        return cls(
            recordings=np.bincount(regime),
            level=np.stack(
                [np.quantile(values[code == k], QUANTILES, axis=0) for k in range(kinds)], 1
            ),
            spread=np.stack([np.exp(features.spread[mine].mean(axis=0)) for mine in chosen]),
            frequency=np.stack([features.peaks(mine) for mine in chosen]),
            pairs=responses.pairs,
            sign=responses.sign,
            delay=np.stack([_sure(*one) for one in delays], axis=1),
            effect=effect[:pair].reshape(one_by_one),
            p_value=p_value[:pair].reshape(one_by_one),
            delay_effect=effect[pair:],
            delay_p_value=p_value[pair:],
            testable=found.testable.astype(int),
            time_kind=ROWS
            if panel.time is None
            else DATES
            if panel.time.dtype.kind == "M"
            else NUMBERS,
        )

    def features(self) -> Iterator[tuple[str, tuple[int, ...], np.ndarray, np.ndarray]]:
        """Yield kind, numbers of the sensors, effects (K, K) and p-values (K, K) of each."""
        for kind, effects, p_values in zip(KINDS, self.effect, self.p_value, strict=True):
            for sensor, one in enumerate(zip(effects, p_values, strict=True)):
                yield kind, (sensor,), *one
        delays = zip(self.pairs, self.delay_effect, self.delay_p_value, strict=True)
        for (cause, effect), effects, p_values in delays:
            yield "delay", (int(cause), int(effect)), effects, p_values

    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays for storage."""
        return {f"sensors/{name}": np.asarray(value) for name, value in vars(self).items()}

    @classmethod
    def from_arrays(cls, stored: dict[str, np.ndarray]) -> SensorStatistics | None:
        """From stored arrays; None if there are none."""
        if "sensors/level" not in stored:
            return None
        found: dict[str, Any] = {f.name: stored[f"sensors/{f.name}"] for f in fields(cls)}
        return cls(**found | {"time_kind": int(found["time_kind"])})


def _recordings(runs: Runs) -> np.ndarray:
    """Number of the recording of each run: what may be exchanged with others.

    Runs of one regime that follow each other in a series are one; so are all runs of one regime
    in a group, where groups show one regime each.
    """
    change = (np.diff(runs.series) != 0) | (np.diff(runs.regime) != 0)
    number = np.append(0, np.cumsum(change))
    if runs.group is None:
        return number
    group = np.unique(runs.group, return_inverse=True)[1]
    cells, cell = np.unique(np.stack([group, runs.regime]), axis=1, return_inverse=True)
    several = np.bincount(cells[0]) > 1
    return number if several.mean() > 0.5 else cell.reshape(-1)


def _some(recording: np.ndarray, regime: np.ndarray, seed: int) -> np.ndarray:
    """Mask of the runs of recordings that are drawn from each regime."""
    names, first = np.unique(recording, return_index=True)
    order = np.random.default_rng(seed).permutation(len(names))
    place = np.empty(len(names), int)
    place[order] = cumcount(regime[first][order])
    most = min(OF_ONE, max(2, OF_ALL // max(len(np.unique(regime)), 1)))
    return np.isin(recording, names[place < most])


def _sure(delay: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Delays (m,) that are known well enough to be stated; else infinite."""
    good = error < np.maximum(SURE_ROWS, SURE_SHARE * np.where(np.isfinite(delay), delay, 0.0))
    return np.where(good & np.isfinite(delay), np.maximum(delay, 0.0), np.inf)
