"""The vehicle experiment of section 6.4 on boxes of UAVDT, sequences left out in folds.

The paper's proxy is the direction of travel, and velocity is among its inputs, so a moving average
of the boxes' centres follows it best of all, and a line in time correlates as well. What is worth
knowing: does alpha follow where the two regimes have the same mean state (place and velocity, both
ways of travel in one regime), does it come back with the vehicle, what does it say of straight
tracks in a sequence never seen, and does it follow from the shape of the box alone?
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from mechtrace.errors import ConfigError
from mechtrace.estimator import Trace
from mechtrace.evaluate import UNKNOWN, EstimatedShares, figures, truth_of_share
from mechtrace.io import versions
from mechtrace.metrics import known_mean
from mechtrace.stage1 import resolve_device

from ..benchmarks import machine
from ..datasets import uavdt
from ..datasets.recordings import Recordings, data_folder
from ..datasets.tracks import Track, read_target
from ..datasets.vehicle import waits
from ..jobs import parallel_map
from .uavdt_folds import SequenceFold, by_track, deal, interval
from .uavdt_methods import ALGORITHM1, METHODS, FoldMethods
from .uavdt_turns import blind_turns, there_and_back

logger = logging.getLogger(__name__)

#: Rows per second: most vehicles take about a fifth of a second for the ten pixels over which the
#: direction of a box in whole pixels means something.
RATE = 5.0
#: A car that is annotated alone, in another sequence than all others.
SINGLE = "S1606_gt.txt"
#: Sets of channels.
KINDS = ("motion", "direction", "folded", "shape")
#: Sets of turns: seen to be some by eye (and partly by the shape of the box), chosen by headings
#: alone, and the car that is annotated alone.
SETS = ("verified", "blind", "single")


@dataclass(frozen=True, eq=False)
class Tracks:
    """Straight tracks, and turns with the sets that they belong to."""

    straight: list[Track]
    turns: list[Track]
    sets: dict[str, set[str]]

    @classmethod
    def of(cls, folder: Path) -> Tracks:
        """All of a folder."""
        every = uavdt.tracks_of(folder)
        single = [read_target(path) for path in sorted(folder.rglob(SINGLE))]
        sets = {"verified": uavdt.verified_turns(folder), "blind": blind_turns(every),
                "single": {track.name for track in single}}  # fmt: skip
        turns = [track for track in every if track.name in sets["verified"] | sets["blind"]]
        straight = [
            track
            for track in every
            if track.kind in uavdt.REGIMES and track.name not in sets["verified"]
        ]
        return cls(straight, turns + single, sets)

    def shares(self, folds: int) -> list[tuple[str, ...]]:
        """The sequences in so many folds."""
        straight, turns = self.straight, self.turns
        return deal([t.sequence for t in straight], [t.sequence for t in turns], folds)


def vehicle_study(
    folder: Path | None = None,
    *,
    features: Sequence[str] = KINDS,
    seeds: int = 5,
    methods: Sequence[str] = METHODS,
    folds: int = 5,
    workers: int = 1,
    on_result: Callable[[dict[str, Any]], None] = lambda result: None,
    **settings: Any,
) -> dict[str, Any]:
    """Every method on every left-out sequence; `on_result` is given the result after every seed.

    Settings of the fit are the defaults, unless some are given. Folds are learned by `workers`
    processes beside one another.
    """
    for names, known in ((features, KINDS), (methods, METHODS)):
        unknown = [name for name in names if name not in known]
        if unknown:
            fix = f"use some of {', '.join(known)}"
            raise ConfigError(f"there is nothing called {unknown[0]!r} here", fix=fix)
    folder = data_folder(uavdt.NAME, folder, uavdt.COMMAND)
    tracks = read_tracks(folder)
    shares = tracks.shares(folds)
    trace = Trace(**settings)
    about = {
        "rate": RATE,
        "folds": [list(share) for share in shares],
        "straight": len(tracks.straight),
        "sets": {name: sorted(tracks.sets[name]) for name in SETS},
        "settings": trace.get_params() | {"seed": None},
        "machine": machine(resolve_device(trace.config().fit.device)),
        "versions": versions(),
    }  # fmt: skip
    calls = [(folder, kind, share, methods, settings | {"seed": seed})
             for seed in range(seeds) for kind in features for share in shares]  # fmt: skip
    rows: list[dict[str, Any]] = []
    result: dict[str, Any] = {}
    of_a_seed = len(features) * len(shares)
    for done, (found, took) in enumerate(parallel_map(_of_share, calls, workers), start=1):
        rows += found
        _, kind, share, _, its = calls[done - 1]
        logger.info(f"{kind}, seed {its['seed']}, without {', '.join(share)}: {took:.0f} s")
        if done % of_a_seed == 0:
            of_seeds = [summarise([row for row in rows if row["seed"] == seed],
                                  features, methods, tracks.sets)
                        for seed in range(done // of_a_seed)]  # fmt: skip
            result = {"seeds": len(of_seeds), **about, "turns": turns_of(rows),
                      "summary": summarise(rows, features, methods, tracks.sets),
                      "of_seeds": of_seeds}  # fmt: skip
            on_result(result)
    for row in result["summary"]:
        logger.info(_words(row))
    return result


def vehicles_of_seed(
    folder: Path, kind: str, methods: Sequence[str], folds: int, settings: dict[str, Any]
) -> list[dict[str, Any]]:
    """Every method on all tracks of every left-out share, with the seed among the settings."""
    shares = read_tracks(folder).shares(folds)
    found = (_of_share(folder, kind, share, methods, settings)[0] for share in shares)
    return [row for rows in found for row in rows]


read_tracks = lru_cache(maxsize=1)(Tracks.of)  # a process learns several folds


def _of_share(
    folder: Path, kind: str, share: Sequence[str], methods: Sequence[str], settings: dict[str, Any]
) -> tuple[list[dict[str, Any]], float]:
    """Every method on the tracks of these sequences, learned from all others; and seconds."""
    began = time.perf_counter()
    tracks = read_tracks(folder)
    fold = SequenceFold.of(tracks.straight, tracks.turns, share)
    about = {"features": kind, "seed": settings["seed"]}
    rows = [about | row for row in _fold(fold, kind, methods, settings)]
    return rows, time.perf_counter() - began


def _fold(
    fold: SequenceFold, kind: str, methods: Sequence[str], settings: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Score all left-out tracks: straight ones, turns, and turns there and back."""
    learn = recordings(fold.learn, kind, [track.kind for track in fold.learn])
    methods_of_fold = FoldMethods(learn.panel, settings)
    parts = {"straight": fold.straight, "turn": fold.turns,
             "back": [there_and_back(track) for track in fold.turns]}  # fmt: skip
    for what, tracks in parts.items():
        if not tracks:
            continue
        test = recordings(tracks, kind)
        for method in methods:
            if not methods_of_fold.runs_with_this_seed(method):
                continue
            for i, answer in enumerate(methods_of_fold.answers(method, test, tracks)):
                row = {"method": method, "kind": what, "track": tracks[i].name}
                yield row | _figures(test, i, answer, tracks[i], what, methods_of_fold.vertical)
    if fold.turns and ALGORITHM1 in methods:
        yield from _basis(methods_of_fold, recordings(fold.turns, kind))


def recordings(
    tracks: Sequence[Track], kind: str, labels: Sequence[str] | None = None
) -> Recordings:
    """Tracks at the rate of the study."""
    found = uavdt.recordings_of(tracks, labels or [""] * len(tracks), kind)
    return Recordings(found.panel.resampled(RATE), found.proxies.resampled(RATE))


def _figures(
    test: Recordings, i: int, answer: EstimatedShares, track: Track, what: str, vertical: int
) -> dict[str, Any]:
    share = answer.alpha[:, vertical]
    if what == "straight":
        own = share if track.kind == uavdt.REGIMES[1] else 1 - share
        return {"regime": track.kind, "own": known_mean(own)}
    proxy, literal = (test.column(name)[i] for name in uavdt.PROXIES)
    row = figures(answer, truth_of_share(proxy, vertical), vertical)
    if what == "back":
        mirrored = answer.time[0] + answer.time[-1] - answer.time
        known = np.isfinite(share)
        back = np.interp(mirrored, answer.time[known], share[known])
        return {"back_mae": row["mae"], "back_gap": known_mean(np.abs(share - back))}
    if np.isfinite(literal).any():
        plain = figures(answer, truth_of_share(literal, vertical), vertical)
        row |= {"literal_pearson": plain["pearson"], "literal_mae": plain["mae"]}
    whole = track.filled()
    frame = np.searchsorted(whole.frames, np.round(answer.time * uavdt.RATE))
    stops = waits(whole.centres)[np.minimum(frame, len(whole) - 1)]
    silent = ~np.isfinite(share)
    silent |= False if answer.flag is None else np.isin(answer.flag, UNKNOWN)
    return row | {"flagged_stops": known_mean(silent[stops]) if stops.any() else float("nan")}


def _basis(methods_of_fold: FoldMethods, turns: Recordings) -> Iterator[dict[str, Any]]:
    """Whether the diagnosis says that the constant basis of Algorithm 1 cannot be trusted."""
    for path in methods_of_fold.paths(ALGORITHM1, turns.panel.without_labels()):
        found = methods_of_fold.trace.diagnose(path)["sigma_min"]
        row = {"method": ALGORITHM1, "kind": "basis", "track": path.name}
        yield row | {"warned": float(found.level != "good")}


def turns_of(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row per turn and method, seeds averaged; digits that mean nothing are cut off."""
    kinds = dict.fromkeys((row["features"], row["method"]) for row in rows)
    return [
        {key: round(value, 4) if isinstance(value, float) else value
         for key, value in row.items() if key not in ("seed", "kind")}
        for kind in kinds
        for row in by_track([r for r in rows if r["kind"] == "turn"
                             and (r["features"], r["method"]) == kind])
    ]  # fmt: skip


def summarise(
    rows: Sequence[dict[str, Any]],
    features: Sequence[str],
    methods: Sequence[str],
    sets: dict[str, set[str]],
) -> list[dict[str, Any]]:
    """Each method on each set of turns, and on straight tracks; seeds are averaged first."""
    out = []
    for kind in features:
        for method in methods:
            mine = [r for r in rows if (r["features"], r["method"]) == (kind, method)]
            if not mine:
                continue
            straight = by_track([r for r in mine if r["kind"] == "straight"])
            common = {
                f"straight_{regime}": known_mean([r["own"] for r in straight
                                                  if r["regime"] == regime])
                for regime in uavdt.REGIMES
            } | {"seeds": len({r["seed"] for r in mine})}  # fmt: skip
            warned = [r["warned"] for r in mine if r["kind"] == "basis"]
            common |= {"basis_warned": known_mean(warned)} if warned else {}
            for name in SETS:
                of_set = [r for r in mine if r["track"] in sets[name]]
                turns = by_track([r for r in of_set if r["kind"] == "turn"])
                back = by_track([r for r in of_set if r["kind"] == "back"])
                if turns:
                    about = {"features": kind, "method": method, "set": name}
                    seed = min(r["seed"] for r in mine)
                    out.append(about | _summary(turns, back, seed) | common)
    return out


def _summary(turns: list[dict[str, Any]], back: list[dict[str, Any]], seed: int) -> dict[str, Any]:
    # what never varies follows nothing
    pearson = np.nan_to_num([row["pearson"] for row in turns])
    turns = [row | {"pearson": float(r)} for row, r in zip(turns, pearson, strict=True)]
    names = [key for key, value in turns[0].items() if isinstance(value, float)]
    worst = int(pearson.argmin())
    return {
        "turns": len(turns),
        **{key: known_mean([row[key] for row in turns]) for key in names},
        "midpoint": known_mean(np.abs([row["midpoint"] for row in turns])),
        "median_pearson": float(np.median(pearson)),
        "median_interval": interval(turns, np.median, "pearson", seed),
        "mae_interval": interval(turns, np.nanmean, "mae", seed),
        "worst_pearson": float(pearson[worst]),
        "worst_turn": turns[worst]["track"],
        "back_mae": known_mean([row["back_mae"] for row in back]),
        "back_gap": known_mean([row["back_gap"] for row in back]),
    }


def _words(found: dict[str, Any]) -> str:
    shown = ("median_pearson", "mae", "worst_pearson", "low", "high", "back_gap",
             "straight_horizontal", "straight_vertical", "flagged_stops",
             "basis_warned")  # fmt: skip
    known = {name: found[name] for name in shown if np.isfinite(found.get(name, np.nan))}
    told = ", ".join(f"{name} {value:.3f}" for name, value in known.items())
    return f"{found['features']} {found['set']} {found['method']}: {told}"
