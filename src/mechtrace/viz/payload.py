"""Results -> the data of the page: plain dictionaries, lists, numbers and text."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError
from ..stage2.trajectory import FLAGS
from . import narrative
from .downsample import envelope, pack, pack_time, rows_with_extremes, runs, time_numbers

if TYPE_CHECKING:
    from ..data.panel import Panel
    from ..stage2.trajectory import Trajectory
    from .report import Results

#: Numbers stored for all curves, and for all latents and channels: the file stays below 10 MB.
CURVE_VALUES, SIGNAL_VALUES = 1_100_000, 1_200_000
#: Fewest and most steps that are stored of one recording.
LEAST_STEPS, MOST_STEPS = 24, 4000
#: Most recordings, flagged stretches of one kind, events, and latents or channels.
MOST_SERIES, MOST_STRETCHES, MOST_EVENTS, MOST_LANES = 2000, 200, 200, 32
#: Most sentences about changes of mechanisms.
MOST_CHANGES = 8
#: Up to this many recordings, the curve of each kind of evidence is stored too.
FEW = 20
#: Pictures of one recording: as many as fit side by side.
MOST_FRAMES = 14
#: Pixels of the longer side of a picture.
LONGEST_SIDE = 96
#: Recordings with pictures, about 100 kB each.
MOST_FILMS = 24


@dataclass(frozen=True)
class Share:
    """How the room in the file is divided among the recordings."""

    series: int  # recordings in the file
    steps: int  # steps of each curve
    with_signals: int  # recordings with latents and channels
    signal_steps: int

    @classmethod
    def of(cls, series: int, regimes: int, lanes: int) -> Share:
        """Divide the room evenly; the first recordings get it if there are too many."""
        columns = 3 * regimes + 1
        shown = min(series, MOST_SERIES, max(1, CURVE_VALUES // (columns * LEAST_STEPS)))
        signals = min(shown, max(1, SIGNAL_VALUES // (max(lanes, 1) * LEAST_STEPS)))
        steps = CURVE_VALUES // (columns * max(shown, 1))
        signal_steps = SIGNAL_VALUES // (max(lanes, 1) * max(signals, 1))
        return cls(
            shown,
            int(np.clip(steps, LEAST_STEPS, MOST_STEPS)),
            signals,
            int(np.clip(signal_steps, LEAST_STEPS, MOST_STEPS)),
        )


def payload(results: Results, truth: np.ndarray | None) -> dict[str, Any]:
    """Collect everything that the page draws."""
    model, panel = results.model, results.panel
    latents = model.record_.settings.model.latents
    channels = [] if panel is None or panel.is_image else list(panel.channels)
    lanes = min(latents, MOST_LANES) + min(len(channels), MOST_LANES)
    share = Share.of(len(results.paths), len(model.regimes_), lanes)
    series = []
    for i in range(share.series):
        one = _recording(results, i, share)
        if i < share.with_signals:
            one |= _signals(results, i, share.signal_steps)
        mine = results.recordings(i) if i < MOST_FILMS else None
        if mine is not None and mine.is_image:
            one["film"] = film(mine, results.paths[i])
        series.append(one)
    return {
        "regimes": list(model.regimes_),
        "channels": channels[:MOST_LANES],
        "latents": list(model.axes_.names[:MOST_LANES]),
        "hidden": {"channels": max(0, len(channels) - MOST_LANES),
                   "latents": max(0, latents - MOST_LANES)},
        "flags": [{"name": flag, "meaning": narrative.FLAG_MEANINGS[flag]} for flag in FLAGS],
        "left_out": len(results.paths) - len(series),
        "series": series,
        "truth": None if truth is None else _truth(truth, results.paths, share.steps),
        "mechanisms": _mechanisms(results),
        "training": {
            "history": [
                {name: _number(value) for name, value in record.items()}
                for record in model.history_
            ],
            "best_step": model.record_.training.best_step,
        },
    }  # fmt: skip


def _recording(results: Results, i: int, share: Share) -> dict[str, Any]:
    path, diagnosis = results.paths[i], results.diagnosis(i)
    off = diagnosis.off is not None
    events = [] if off else path.events(minimum=2)
    clock = narrative.Clock(path.time)
    time = time_numbers(path.time)
    rows = rows_with_extremes(np.column_stack([path.alpha, path.residual]), share.steps)
    known = path.flag != "warm-up"
    width = (path.upper - path.lower)[known].mean() if known.any() else None
    few, pressing = share.series <= FEW, diagnosis.pressing()
    return {
        "name": path.name,
        "answer": narrative.headline(path, events, diagnosis),
        "sequence": "nothing can be told" if off else narrative.sequence(path, events),
        "off": off,
        "verdict": narrative.trust(diagnosis),
        "how": narrative.how_recovered(path),
        "level": path.level,
        "dates": clock.dates,
        "steps": len(path),
        "trials": path.trials,
        "changes": len(events),
        "width": _number(width),
        "unexplained": float((path.flag == "unexplained").mean()),
        "time": pack_time(time[rows]),
        "curves": pack(np.column_stack([path.alpha, path.lower, path.upper, path.residual])[rows]),
        "evidence": {n: pack(c.alpha[rows]) for n, c in path.by_evidence.items()} if few else {},
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
                "limit": narrative.limit(finding),
                "pressing": finding in pressing,
                "meaning": finding.meaning,
                "next": finding.next_step if finding.level != "good" else "",
            }
            for finding in diagnosis.by_weight()
        ],
    }


def _stretches(path: Trajectory, time: np.ndarray) -> list[list[float]]:
    """[index of the flag, from, to] of each flagged stretch, half a step wider on both sides."""
    half = narrative.usual_step(time) / 2
    return [
        [number, float(time[first] - half), float(time[last] + half)]
        for number, flag in enumerate(FLAGS)
        for first, last in runs(path.flag == flag, MOST_STRETCHES)
    ]


def _truth(truth: np.ndarray, paths: Sequence[Trajectory], steps: int) -> dict[str, Any] | None:
    """Pack the truth with the time of the first curve of the same length."""
    fitting = next((path for path in paths if len(path) == len(truth)), None)
    if fitting is None:
        return None
    rows = rows_with_extremes(truth, steps)
    time = time_numbers(fitting.time)[rows]
    return {"steps": len(truth), "time": pack_time(time), "alpha": pack(truth[rows])}


def _signals(results: Results, i: int, steps: int) -> dict[str, Any]:
    """Latents and channels of a recording (the mean of pooled trials), where they are known."""
    latents, mine = results.latents(i), results.recordings(i)
    known = {} if latents is None else {"latents": latents}
    if mine is not None and not mine.is_image:
        known["channels"] = np.stack(mine.to_arrays())
    packed: dict[str, Any] = {}
    for name, values in known.items():
        rows, thin = envelope(_mean(values)[:, :MOST_LANES], steps)
        packed |= {name: pack(thin), "time": pack_time(time_numbers(results.paths[i].time)[rows])}
    return {"signals": packed} if packed else {}


def _mean(trials: np.ndarray) -> np.ndarray:
    """Mean over the first axis, ignoring NaN."""
    known = np.isfinite(trials)
    total = np.where(known, trials, 0.0).sum(axis=0)
    count = known.sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def film(panel: Panel, path: Trajectory) -> dict[str, Any]:
    """Pictures of the first recording of a panel, evenly spaced in time.

    Grey levels from 0 to 255, row by row, as base64; `every` is the time between two pictures.
    """
    frames = panel[:1].values  # still on disk, if they come from files
    count = min(MOST_FRAMES, len(frames))
    # centres of equal intervals: the first and the last picture stay inside the axis
    rows = ((np.arange(count) + 0.5) * len(frames) / count).astype(int)
    small = reduced(np.asarray(frames[rows]))
    time = time_numbers(path.time)
    span = float(time[-1] - time[0]) * len(time) / max(len(time) - 1, 1)
    return {
        "time": time[rows].tolist(),
        "every": span / count,
        "height": small.shape[1],
        "width": small.shape[2],
        "grey": base64.b64encode(small.tobytes()).decode(),
    }


def reduced(frames: np.ndarray) -> np.ndarray:
    """Reduce pictures to bytes (n, h, w) with sides of at most LONGEST_SIDE, by block means.

    >>> reduced(np.full((1, 192, 100), 7, dtype=np.uint8)).shape
    (1, 96, 50)
    """
    block = -(-max(frames.shape[1:]) // LONGEST_SIDE)
    height, width = (max(1, side // block) for side in frames.shape[1:])
    cut = frames[:, : height * block, : width * block].astype(np.float64)
    squares = cut.reshape(len(cut), height, cut.shape[1] // height, width, -1)
    small = squares.mean(axis=(2, 4))
    if frames.dtype != np.uint8:  # unknown scale: stretch from darkest to brightest
        small = 255 * (small - small.min()) / max(float(np.ptp(small)), 1e-12)
    return np.round(small).astype(np.uint8)


def _mechanisms(results: Results) -> dict[str, Any]:
    """Pack the matrices of all regimes, and say which latents are interpretable."""
    model = results.model
    try:
        found = results.mechanisms
    except DataError:  # every recording is shorter than the lags: use typical states
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
    """None instead of NaN and infinity, which JSON does not have."""
    return float(value) if value is not None and np.isfinite(value) else None
