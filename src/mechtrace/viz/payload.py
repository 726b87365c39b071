"""Result objects -> the data of the page: plain dictionaries, lists, numbers and text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..recover.trajectory import FLAGS
from . import words
from .compact import (
    envelope,
    pack,
    pack_time,
    rows_with_extremes,
    runs,
    time_numbers,
    usual_step,
)
from .film import MOST_FILMS, film

if TYPE_CHECKING:
    from ..diagnose import Diagnosis
    from ..estimator import Trace
    from ..recover.trajectory import Trajectory
    from ..series import Panel

#: Numbers that all curves, and all latents and channels, may take; the file stays below 10 MB.
CURVE_VALUES, SIGNAL_VALUES = 1_100_000, 1_200_000
#: Steps of one recording: never thinned out below the first, never more than the second.
LEAST_STEPS, MOST_STEPS = 24, 4000
#: Recordings, flagged stretches of one kind, events, latents and channels that are shown.
MOST_SERIES, MOST_STRETCHES, MOST_EVENTS, MOST_LANES = 2000, 200, 200, 32
#: Named changes of mechanisms that are told.
MOST_CHANGES = 8
#: Recordings up to which the curves of single blocks of evidence are shown too.
FEW = 20


@dataclass(frozen=True)
class Share:
    """What each recording gets of the room in the file."""

    series: int  # recordings that are in the file
    steps: int  # of a curve
    with_signals: int  # recordings that have latents and channels
    signal_steps: int

    @classmethod
    def of(cls, series: int, regimes: int, lanes: int) -> Share:
        """Divide the room fairly; if that is too little, later recordings get nothing."""
        columns = 3 * regimes + 1
        shown = min(series, MOST_SERIES, max(1, CURVE_VALUES // (columns * LEAST_STEPS)))
        seen = min(shown, max(1, SIGNAL_VALUES // (max(lanes, 1) * LEAST_STEPS)))
        steps = CURVE_VALUES // (columns * max(shown, 1))
        signal_steps = SIGNAL_VALUES // (max(lanes, 1) * max(seen, 1))
        return cls(
            shown,
            int(np.clip(steps, LEAST_STEPS, MOST_STEPS)),
            seen,
            int(np.clip(signal_steps, LEAST_STEPS, MOST_STEPS)),
        )


def page_content(
    model: Trace,
    paths: Sequence[Trajectory],
    panel: Panel | None,
    truth: np.ndarray | None,
) -> dict[str, Any]:
    """Everything that the page draws."""
    latents = model.config().model.latents
    channels = [] if panel is None or panel.is_image else list(panel.channels)
    lanes = min(latents, MOST_LANES) + min(len(channels), MOST_LANES)
    share = Share.of(len(paths), len(model.regimes_), lanes)
    shown = list(paths[: share.series])
    signals = _Signals(model, panel, share.signal_steps)
    series = []
    for number, path in enumerate(shown):
        one = _recording(path, model.diagnose(path), share.steps)
        if len(shown) <= FEW and path.blocks:
            rows = _kept_rows(path, share.steps)
            one["blocks"] = {name: pack(c.alpha[rows]) for name, c in path.blocks.items()}
        if number < share.with_signals:
            one |= signals.of(path)
        if number < MOST_FILMS:
            one |= signals.film(path)
        series.append(one)
    return {
        "regimes": list(model.regimes_),
        "channels": channels[:MOST_LANES],
        "latents": list(model.axes_.names[:MOST_LANES]),
        "hidden": {"channels": max(0, len(channels) - MOST_LANES),
                   "latents": max(0, latents - MOST_LANES)},
        "flags": [{"name": flag, "words": words.FLAG_WORDS[flag]} for flag in FLAGS],
        "left_out": len(paths) - len(shown),
        "series": series,
        "truth": None if truth is None else _truth(truth, paths, share.steps),
        "mechanisms": _mechanisms(model, panel),
        "training": {
            "history": [
                {name: _number(value) for name, value in record.items()}
                for record in model.history_
            ],
            "best_step": model.facts_["training"].get("best_step"),
        },
    }  # fmt: skip


def _recording(path: Trajectory, diagnosis: Diagnosis, steps: int) -> dict[str, Any]:
    events = path.events(minimum=2)
    clock = words.Clock(path.time)
    time = time_numbers(path.time)
    rows = _kept_rows(path, steps)
    known = path.flag != "warm-up"
    width = (path.upper - path.lower)[known].mean() if known.any() else None
    return {
        "name": path.name,
        "answer": words.answer(path, events),
        "sequence": words.sequence(path, events),
        "verdict": words.trust(diagnosis),
        "how": words.how_recovered(path),
        "level": path.level,
        "dates": clock.dates,
        "steps": len(path),
        "trials": path.trials,
        "changes": len(events),
        "width": _number(width),
        "unexplained": float((path.flag == "unexplained").mean()),
        "time": pack_time(time[rows]),
        "curves": pack(np.column_stack([path.alpha, path.lower, path.upper, path.residual])[rows]),
        "stretches": _stretches(path, time),
        "events": [
            {
                "from": event.from_regime,
                "to": event.to_regime,
                "at": float(time_numbers(np.asarray(event.midpoint))),
                "onset": clock.moment(event.onset),
                "midpoint": clock.moment(event.midpoint),
                "end": clock.moment(event.end),
                "duration": clock.duration(event.duration),
            }
            for event in events[:MOST_EVENTS]
        ],
        "findings": [
            {
                "level": finding.level,
                "code": finding.code,
                "value": _number(finding.value),
                "threshold": _number(finding.threshold),
                "meaning": finding.meaning,
                "next": finding.next_step if finding.level != "good" else "",
            }
            for finding in diagnosis.by_weight()
        ],
    }


def _kept_rows(path: Trajectory, steps: int) -> np.ndarray:
    return rows_with_extremes(np.column_stack([path.alpha, path.residual]), steps)


def _stretches(path: Trajectory, time: np.ndarray) -> list[list[float]]:
    """[number of the flag, from, to], half a step to each side."""
    half = usual_step(time) / 2
    return [
        [number, float(time[first] - half), float(time[last] + half)]
        for number, flag in enumerate(FLAGS)
        for first, last in runs(path.flag == flag, MOST_STRETCHES)
    ]


def _truth(truth: np.ndarray, paths: Sequence[Trajectory], steps: int) -> dict[str, Any] | None:
    """The truth, on the time axis of the first curve that it fits."""
    fitting = next((path for path in paths if len(path) == len(truth)), None)
    if fitting is None:
        return None
    rows = rows_with_extremes(truth, steps)
    time = time_numbers(fitting.time)[rows]
    return {"steps": len(truth), "time": pack_time(time), "alpha": pack(truth[rows])}


class _Signals:
    """Latents and channels of recordings: of one, or the mean of the trials of a pool."""

    def __init__(self, model: Trace, panel: Panel | None, steps: int) -> None:
        self.model, self.panel, self.steps = model, panel, steps
        names = [] if panel is None else panel.names.tolist()
        self.positions = {name: i for i, name in enumerate(names)}

    def of(self, path: Trajectory) -> dict[str, Any]:
        """`signals` of the page, or nothing where nothing is known of them."""
        latents, channels = self._arrays(path)
        parts = {"latents": latents, "channels": channels}
        kept = {k: v[:, :MOST_LANES] for k, v in parts.items() if v is not None}
        if not kept:
            return {}
        time = time_numbers(path.time)
        packed: dict[str, Any] = {}
        for name, values in kept.items():
            rows, thin = envelope(values, self.steps)
            packed[name] = pack(thin)
            packed["time"] = pack_time(time[rows])
        return {"signals": packed}

    def film(self, path: Trajectory) -> dict[str, Any]:
        """`film` of the page, where recordings are pictures."""
        mine = self._recordings(path)
        return {} if mine is None or not mine.is_image else {"film": film(mine, path)}

    def _arrays(self, path: Trajectory) -> tuple[np.ndarray | None, np.ndarray | None]:
        mine = self._recordings(path)
        if mine is None:
            seen = path.observed
            # seen by the network, shown as `encode` would
            return (None if seen is None else self.model.axes_.aligned(_mean(seen.latents))), None
        channels = None if mine.is_image else _mean(np.stack(mine.to_arrays()))
        return _mean(np.stack(self.model.encode(mine))), channels

    def _recordings(self, path: Trajectory) -> Panel | None:
        """The recording of a curve, or the trials that were pooled for it."""
        if self.panel is None:
            return None
        if path.trials > 1:
            fits = len(self.panel) == path.trials and (self.panel.lengths == len(path)).all()
            return self.panel if fits else None
        at = self.positions.get(path.name)
        if at is None or self.panel.lengths[at] != len(path):
            return None
        return self.panel[at : at + 1]


def _mean(trials: np.ndarray) -> np.ndarray:
    """Mean over the first axis, of what is known."""
    known = np.isfinite(trials)
    total = np.where(known, trials, 0.0).sum(axis=0)
    count = known.sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _mechanisms(model: Trace, panel: Panel | None) -> dict[str, Any]:
    """The matrices of all regimes, flat, and what may be read from them."""
    from ..errors import DataError

    try:
        found = model.mechanisms(panel)
    except DataError:  # no recording is long enough to start from: typical states will do
        found = model.mechanisms()
    regimes, lags, latents, _ = found.jacobian.shape
    return {
        "axes": model.axes_.verdict,
        "changes": model.axes_.sentences()[:MOST_CHANGES],
        "states": found.states,
        "lags": lags,
        "latents": latents,
        "names": list(model.axes_.names),
        "matrices": pack(found.jacobian.reshape(regimes, -1).T),
    }


def _number(value: float | None) -> float | None:
    """JSON knows neither infinity nor NaN."""
    return float(value) if value is not None and np.isfinite(value) else None
