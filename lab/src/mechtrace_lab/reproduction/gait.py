"""The gait experiment of section 6.4 on public trials, leaving one subject out at a time.

The paper correlates alpha of running with the speed of the hips, which is also one of its inputs,
and a straight line in time correlates as well. So each method is judged by its distance to that
proxy, by the levels that it reaches, on trials of pure gait by subjects it has never seen, on
trials joined to a way there and back, and again on channels that hold no speed at all.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np

from mechtrace.data import Panel
from mechtrace.errors import ConfigError
from mechtrace.estimator import Trace
from mechtrace.evaluate import (
    UNKNOWN,
    EstimatedShares,
    Figures,
    GroupFold,
    estimated_shares,
    figures,
    leave_groups_out,
    mean_figures,
    truth_of_share,
)
from mechtrace.io import versions
from mechtrace.metrics import known_mean
from mechtrace.stage1 import resolve_device

from ..benchmarks import machine
from ..datasets import cmu
from ..datasets.gait import mean_speeds, speed_proxy
from ..datasets.recordings import Recordings
from ..jobs import parallel_map
from .reference_methods import NCTRL, TOLD_LINE, baseline_answers, fit_baseline, told_line

logger = logging.getLogger(__name__)

#: What practitioners would do instead; they learn from all training subjects, as none has
#: anything to select on the held-out ones.
CLASSIC = ("straight-line", "lda", "logistic-regression", "gaussian-hmm")
OURS: dict[str, dict[str, Any]] = {"algorithm1": {"method": "algorithm1"}, "mechtrace": {}}
METHODS = (TOLD_LINE, *CLASSIC, NCTRL, *OURS)
RUN, WALK = "run", "walk"
#: Hips slower than this (m/s) stand; at least so fast, they walk or run.
STANDING, MOVING = 0.3, 0.8
#: A trial changes its gait if its flights go from below the first to above the second share.
NO_FLIGHT, FLIGHT = 0.1, 0.2
#: Seconds between two trials that are joined: a gap, so that nobody takes the seam for a motion.
SEAM = 0.2
#: Figures whose spread over seeds and trials is kept.
SPREAD = ("pearson", "spearman", "mae", "walking", "running", "midpoint", "coverage",
          "unknown_standing", "unknown_moving")  # fmt: skip


@dataclass(frozen=True, eq=False)
class Trials:
    """Left-out trials of one fold, with proxies scaled by its training subjects."""

    test: Recordings
    speed: list[np.ndarray]
    by_speed: list[np.ndarray]  # share of running, cut to [0, 1]
    by_flight: list[np.ndarray]
    changes: list[bool]

    @classmethod
    def of(cls, recordings: Recordings, fold: GroupFold) -> Trials:
        """Scale the proxies by the mean speeds and flight fractions of the training trials."""
        learn, test = recordings[fold.learn], recordings[fold.test]
        shares = []
        for name in cmu.PROXIES:
            usual = mean_speeds(learn.column(name), learn.labels)
            shares.append([speed_proxy(x, usual[WALK], usual[RUN]) for x in test.column(name)])
        flight = test.column("flight fraction")
        changes = [bool(x.min() < NO_FLIGHT and x.max() > FLIGHT) for x in flight]
        return cls(test, test.column("hip speed"), shares[0], shares[1], changes)

    def back_and_forth(self) -> Trials | None:
        """Trials that speed up, each followed by one of the same subject that slows down.

        No trial changes its gait twice. Played backwards, one would not be a motion of a person;
        both parts of these are. None where no subject has both.
        """
        groups = self.test.panel.groups
        assert groups is not None  # folds are made of them
        rises = [x[-1] > x[0] for x in self.by_speed]
        pairs: list[tuple[int, int]] = []
        for subject in dict.fromkeys(groups.tolist()):
            mine = np.flatnonzero((groups == subject) & np.array(self.changes)).tolist()
            up, down = [i for i in mine if rises[i]], [i for i in mine if not rises[i]]
            pairs += zip(up, down, strict=False)
        if not pairs:
            return None

        def both(parts: list[np.ndarray]) -> list[np.ndarray]:
            return [np.concatenate([parts[i], parts[j]]) for i, j in pairs]

        test = Recordings(_joined(self.test.panel, pairs), _joined(self.test.proxies, pairs))
        shares = both(self.by_speed), both(self.by_flight)
        return Trials(test, both(self.speed), *shares, [True] * len(pairs))


def gait_study(
    folder: Path | None = None,
    *,
    features: Sequence[str] = ("paper", "legs"),
    seeds: int = 3,
    rate: float = 30.0,
    methods: Sequence[str] = METHODS,
    workers: int = 1,
    **settings: Any,
) -> dict[str, Any]:
    """Score every method on every left-out subject: rows of single trials and their means.

    Settings of the fit are the defaults, unless some are given. Folds are learned by `workers`
    processes beside one another.
    """
    unknown = [name for name in methods if name not in METHODS]
    if unknown:
        known = ", ".join(METHODS)
        raise ConfigError(f"there is no method {unknown[0]!r}", fix=f"use some of {known}")
    rows: list[dict[str, Any]] = []
    summary: list[dict[str, Any]] = []
    calls = [(folder, rate, kind, number, methods, settings | {"seed": seed})
             for kind in features for seed in range(seeds)
             for number in range(len(_read(folder, rate, kind)[1]))]  # fmt: skip
    for found, call in zip(parallel_map(_of_fold, calls, workers), calls, strict=True):
        rows += found
        _, _, kind, number, _, its = call
        groups = ", ".join(_read(folder, rate, kind)[1][number].groups)
        logger.info(f"{kind}, seed {its['seed']}, subjects {groups}: done")
    for kind in features:
        for method in methods:
            mine = [row for row in rows if (row["features"], row["method"]) == (kind, method)]
            summary.append({"features": kind, "method": method} | summarise(mine))
            logger.info(f"{kind} {method}: {_words(summary[-1])}")
    trace = Trace(**settings)
    where = machine(resolve_device(trace.config().fit.device))
    about = {"rate": rate, "seeds": seeds, "settings": trace.get_params(), "machine": where}
    return {"summary": summary, "rows": rows, **about, "versions": versions()}


def gait_of_seed(
    kind: str, rate: float, methods: Sequence[str], settings: dict[str, Any]
) -> list[dict[str, Any]]:
    """Score every method on every left-out subject with one seed."""
    folds = range(len(_read(None, rate, kind)[1]))
    found = (_of_fold(None, rate, kind, number, methods, settings) for number in folds)
    return [row for rows in found for row in rows]


def _of_fold(
    folder: Path | None,
    rate: float,
    kind: str,
    number: int,
    methods: Sequence[str],
    settings: dict[str, Any],
) -> list[dict[str, Any]]:
    recordings, folds = _read(folder, rate, kind)
    about = {"features": kind, "seed": settings["seed"]}
    return [row | about for row in _fold(recordings, folds[number], methods, settings)]


@lru_cache(maxsize=2)  # a process learns several folds
def _read(folder: Path | None, rate: float, kind: str) -> tuple[Recordings, list[GroupFold]]:
    recordings = cmu.read(folder, features=kind, rate=rate)
    return recordings, list(leave_groups_out(recordings.panel))


def _fold(
    recordings: Recordings, fold: GroupFold, methods: Sequence[str], settings: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    learn = recordings.panel[fold.learn]
    trials = Trials.of(recordings, fold)
    sets = [part for part in (trials, trials.back_and_forth()) if part is not None]
    trace = None
    for method in methods:
        chosen: dict[str, Any] = {}
        if method in OURS and trace is None:  # one model serves both recoveries
            trace = Trace(**settings).fit(learn, progress=False)
        if method in OURS and trace is not None:
            chosen = {"blocks": trace.facts_["evidence"]["selected"]}
        if method == NCTRL and settings["seed"] > 0:
            continue
        answer = _asked(method, learn, settings, trace)
        for part in sets:
            for i, one in enumerate(answer(part)):
                row = _trial(part, i, one, learn.regimes)
                if part is not trials:
                    row["kind"] = "back"
                yield {
                    "method": method, "trial": str(part.test.panel.names[i]), **row, **chosen
                }  # fmt: skip


def _asked(
    method: str, learn: Panel, settings: dict[str, Any], trace: Trace | None
) -> Callable[[Trials], list[EstimatedShares]]:
    """Fit a method and return the function that recovers the weights of trials."""
    if method == TOLD_LINE:
        run = learn.regimes.index(RUN)
        return lambda part: [
            told_line(part.test.panel.time_of(i), x, run) for i, x in enumerate(part.by_speed)
        ]
    if method in OURS:
        ours = cast(Trace, trace)
        return lambda part: estimated_shares(
            ours.recover(part.test.panel.without_labels(), **OURS[method])
        )
    learned = fit_baseline(method, learn, settings)
    return lambda part: baseline_answers(learned, part.test.panel.without_labels())


def _joined(panel: Panel, pairs: Sequence[tuple[int, int]]) -> Panel:
    """Join pairs of series."""
    values = panel.to_arrays()
    times = [panel.time_of(i) - panel.time_of(i)[0] for i in range(len(panel))]
    joined = Panel.from_arrays(
        [np.concatenate([values[i], values[j]]) for i, j in pairs],
        time=[np.append(times[i], times[i][-1] + SEAM + times[j]) for i, j in pairs],
        names=[f"{panel.names[i]}+{panel.names[j]}" for i, j in pairs],
        channels=panel.channels,
        source=panel.source,
    )
    return replace(joined, preparation=panel.preparation)  # resampled already


def _trial(
    trials: Trials, i: int, answer: EstimatedShares, regimes: tuple[str, ...]
) -> dict[str, Any]:
    run, label = regimes.index(RUN), trials.test.labels[i]
    share, speed = answer.alpha[:, run], trials.speed[i]
    if label:
        own = share if label == RUN else 1 - share
        row: dict[str, Any] = {"kind": "pure", "regime": label, "own": known_mean(own)}
        row["wander"] = _wander(share)
        return row | _flagged(answer, pure=np.ones(len(speed), bool))
    row = {"kind": "change" if trials.changes[i] else "steady", "run_share": known_mean(share)}
    row["wander"] = _wander(share)
    row |= figures(answer, truth_of_share(trials.by_speed[i], run), run)
    flights = figures(answer, truth_of_share(trials.by_flight[i], run), run)
    row |= {"flight_pearson": flights["pearson"], "flight_mae": flights["mae"]}
    # where the proxy is near 0, a person may stand as well as walk
    walks, runs = (trials.by_speed[i] < 0.15) & (speed > MOVING), trials.by_speed[i] > 0.85
    row |= {"walking": known_mean(share[walks]), "walking_rows": int(walks.sum())}
    row |= {"running": known_mean(share[runs]), "running_rows": int(runs.sum())}
    return row | _flagged(answer, standing=speed < STANDING, moving=speed > MOVING)


def _wander(share: np.ndarray) -> float:
    """Standard deviation of a curve over time."""
    return float(np.std(share[np.isfinite(share)])) if np.isfinite(share).any() else float("nan")


def _flagged(answer: EstimatedShares, **parts: np.ndarray) -> dict[str, float]:
    """Share of flagged steps, and of steps without an answer, in each part."""
    if answer.flag is None:
        return {}
    strange, silent = answer.flag == "unexplained", np.isin(answer.flag, UNKNOWN)
    out: dict[str, float] = {}
    for name, part in parts.items():
        if part.any():
            out[f"flagged_{name}"] = known_mean(strange[part])
            out[f"unknown_{name}"] = known_mean(silent[part])
    return out


def summarise(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over trials and seeds: of trials that change their gait, of pure and joined ones.

    `spread` has the standard deviation of some figures over seeds (of the mean over trials) and
    over trials (of the mean over seeds).
    """
    change = [row for row in rows if row["kind"] == "change"]
    out: dict[str, Any] = dict(mean_figures([_figures_of(row) for row in change]))
    for part in ("walking", "running"):
        seen = [row for row in change if row[f"{part}_rows"] and np.isfinite(row[part])]
        counts = [row[f"{part}_rows"] for row in seen]
        levels = [row[part] for row in seen]
        out[f"{part}_by_row"] = float(np.average(levels, weights=counts)) if seen else float("nan")
    for regime in (WALK, RUN):
        out[f"pure_{regime}"] = known_mean([r["own"] for r in rows if r.get("regime") == regime])
    pure, steady = ([r for r in rows if r["kind"] == kind] for kind in ("pure", "steady"))
    out["flagged_pure"] = known_mean([r["flagged_pure"] for r in pure if "flagged_pure" in r])
    out["unknown_pure"] = known_mean([r["unknown_pure"] for r in pure if "unknown_pure" in r])
    out["pure_wander"] = known_mean([r["wander"] for r in pure])
    out["steady_run"] = known_mean([r["run_share"] for r in steady])
    out["steady_wander"] = known_mean([r["wander"] for r in steady])
    back = mean_figures([_figures_of(row) for row in rows if row["kind"] == "back"])
    out |= {f"back_{name}": value for name, value in back.items()}
    out["spread"] = {name: _spread(change, name) for name in SPREAD}
    return out


def _figures_of(row: dict[str, Any]) -> Figures:
    number, no = (int, float), ("seed", "run_share", "wander")
    return {k: v for k, v in row.items() if isinstance(v, number) and k not in no}


def _spread(rows: Sequence[dict[str, Any]], name: str) -> dict[str, float]:
    """Standard deviations of a figure: over seeds, over trials."""
    out = {}
    for what, key in (("seeds", "seed"), ("trials", "trial")):
        found: dict[Any, list[float]] = {}
        for row in rows:
            value = row.get(name, np.nan)
            value = abs(value) if name == "midpoint" else value
            found.setdefault(row.get(key, 0), []).append(value)
        means = [mean for mean in map(known_mean, found.values()) if np.isfinite(mean)]
        out[what] = float(np.std(means, ddof=1)) if len(means) > 1 else float("nan")
    return out


def _words(found: dict[str, Any]) -> str:
    shown = ("pearson", "mae", "flight_mae", "walking", "running", "midpoint", "coverage",
             "flagged_standing", "unknown_standing", "flagged_moving", "flagged_pure",
             "pure_walk", "pure_run", "steady_run", "back_pearson", "back_mae")  # fmt: skip
    known = {name: found[name] for name in shown if np.isfinite(found.get(name, np.nan))}
    return ", ".join(f"{name} {value:.3f}" for name, value in known.items())
