"""The gait experiment of section 6.4 on the public trials, subjects left out one after another.

The paper correlates alpha of running with the speed of the hips, which is also one of its inputs,
and a straight line in time correlates as well. So each method is judged by its distance to that
proxy, by the levels that it reaches, on trials of pure gait by subjects it has never seen, and
again on channels that hold no speed at all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..baselines import make
from ..datasets import cmu
from ..datasets.gait import mean_speeds, speed_proxy
from ..datasets.recordings import Recordings
from ..errors import ConfigError
from ..estimator import Trace
from ..evaluate import (
    Answer,
    Fold,
    answers_of,
    figures,
    leave_groups_out,
    mean_figures,
    truth_of_share,
)
from ..metrics import known_mean
from ..series import Panel
from ..store import versions
from .yardsticks import TOLD, told_line

#: What practitioners would do instead; they learn from all training subjects, as none has
#: anything to select on the held-out ones.
CLASSIC = ("straight-line", "lda", "logistic-regression", "gaussian-hmm")
OURS: dict[str, dict[str, Any]] = {"algorithm1": {"method": "algorithm1"}, "mechtrace": {}}
METHODS = (TOLD, *CLASSIC, *OURS)
RUN, WALK = "run", "walk"
#: Hips slower than this (m/s) stand; at least so fast, they walk or run.
STANDING, MOVING = 0.3, 0.8
#: A trial changes its gait if its flights go from below the first to above the second share.
NO_FLIGHT, FLIGHT = 0.1, 0.2
#: Of eight latents, as in the paper, some follow a subject rather than a gait; a fit of so few
#: trials is at its best on left-out subjects after some hundred steps.
SETTINGS: dict[str, Any] = {"latents": 4, "holdout": 0.3, "steps": 600, "align": False}


@dataclass(frozen=True, eq=False)
class Trials:
    """What is left out in one fold, with the stand-ins for the truth by its training subjects."""

    test: Recordings
    speed: list[np.ndarray]
    by_speed: list[np.ndarray]  # share of running, cut to [0, 1]
    by_flight: list[np.ndarray]
    changes: list[bool]

    @classmethod
    def of(cls, recordings: Recordings, fold: Fold) -> Trials:
        """Usual speeds and flights are those of the trials that are learned from."""
        learn, test = recordings[fold.learn], recordings[fold.test]
        shares = []
        for name in cmu.BESIDE:
            usual = mean_speeds(learn.column(name), learn.labels)
            shares.append([speed_proxy(x, usual[WALK], usual[RUN]) for x in test.column(name)])
        flight = test.column("flight fraction")
        changes = [x.min() < NO_FLIGHT and x.max() > FLIGHT for x in flight]
        return cls(test, test.column("hip speed"), shares[0], shares[1], changes)


def gait_study(
    folder: Path | None = None,
    *,
    features: Sequence[str] = ("paper", "legs"),
    seeds: int = 3,
    rate: float = 30.0,
    methods: Sequence[str] = METHODS,
    say: Callable[[str], None] = print,
    **settings: Any,
) -> dict[str, Any]:
    """Every method on every left-out subject; rows of single trials and their means."""
    unknown = [name for name in methods if name not in METHODS]
    if unknown:
        known = ", ".join(METHODS)
        raise ConfigError(f"there is no method {unknown[0]!r}", fix=f"use some of {known}")
    settings = SETTINGS | settings
    rows: list[dict[str, Any]] = []
    summary: list[dict[str, Any]] = []
    for kind in features:
        recordings = cmu.read(folder, features=kind, rate=rate)
        for seed in range(seeds):
            rows += gait_of_seed(recordings, kind, methods, settings | {"seed": seed}, say)
        for method in methods:
            mine = [row for row in rows if (row["features"], row["method"]) == (kind, method)]
            summary.append({"features": kind, "method": method} | summarise(mine))
            say(f"{kind} {method}: {_words(summary[-1])}")
    about = {"rate": rate, "seeds": seeds, "settings": Trace(**settings).get_params()}
    return {"summary": summary, "rows": rows, **about, "versions": versions()}


def gait_of_seed(
    recordings: Recordings,
    kind: str,
    methods: Sequence[str],
    settings: dict[str, Any],
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Every method on every left-out subject, with the seed among the settings."""
    rows: list[dict[str, Any]] = []
    seed = settings["seed"]
    for fold in leave_groups_out(recordings.panel):
        began = time.perf_counter()
        found = list(_fold(recordings, fold, methods, settings))
        rows += [row | {"features": kind, "seed": seed} for row in found]
        took = time.perf_counter() - began
        say(f"{kind}, seed {seed}, subjects {', '.join(fold.groups)}: {took:.0f} s")
    return rows


def _fold(
    recordings: Recordings, fold: Fold, methods: Sequence[str], settings: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    trials = Trials.of(recordings, fold)
    learn, test = recordings.panel[fold.learn], trials.test.panel.without_labels()
    regimes, trace = learn.regimes, None
    for method in methods:
        chosen: dict[str, Any] = {}
        if method == TOLD:
            answers = [told_line(test.time_of(i), share, regimes.index(RUN))
                       for i, share in enumerate(trials.by_speed)]  # fmt: skip
        elif method in CLASSIC:
            answers = _classic(method, learn, test, settings["seed"])
        else:
            if trace is None:  # one model serves both recoveries
                trace = Trace(**settings).fit(learn, progress=False)
            answers = answers_of(trace.recover(test, **OURS[method]))
            chosen = {"blocks": list(trace.facts_["evidence"]["blocks"])}
        for i, answer in enumerate(answers):
            row = _trial(trials, i, answer, regimes)
            yield {"method": method, "trial": str(test.names[i]), **row, **chosen}


def _classic(method: str, learn: Panel, test: Panel, seed: int) -> list[Answer]:
    curves = make(method, seed=seed, holdout=0.0).fit(learn).weights(test)
    assert curves is not None  # all of these answer
    return [Answer(test.time_of(i), curve) for i, curve in enumerate(curves)]


def _trial(trials: Trials, i: int, answer: Answer, regimes: tuple[str, ...]) -> dict[str, Any]:
    run, label = regimes.index(RUN), trials.test.labels[i]
    share, speed = answer.alpha[:, run], trials.speed[i]
    if label:
        own = share if label == RUN else 1 - share
        row: dict[str, Any] = {"kind": "pure", "regime": label, "own": known_mean(own)}
        return row | _flagged(answer, pure=np.ones(len(speed), bool))
    row = {"kind": "change" if trials.changes[i] else "steady", "run_share": known_mean(share)}
    row |= figures(answer, truth_of_share(trials.by_speed[i], run), run)
    flights = figures(answer, truth_of_share(trials.by_flight[i], run), run)
    row |= {"flight_pearson": flights["pearson"], "flight_mae": flights["mae"]}
    # where the proxy is near 0, a person may stand as well as walk
    row["walking"] = known_mean(share[(trials.by_speed[i] < 0.15) & (speed > MOVING)])
    row["running"] = known_mean(share[trials.by_speed[i] > 0.85])
    return row | _flagged(answer, standing=speed < STANDING, moving=speed > MOVING)


def _flagged(answer: Answer, **parts: np.ndarray) -> dict[str, float]:
    """Share of each part that is said to be like none of the known gaits."""
    if answer.flag is None:
        return {}
    strange = answer.flag == "unexplained"
    return {
        f"flagged_{name}": known_mean(strange[part]) for name, part in parts.items() if part.any()
    }


def summarise(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Means over trials and seeds: of trials that change their gait, and of pure ones."""
    number = (int, float)
    change = [
        {k: v for k, v in row.items() if isinstance(v, number) and k not in ("seed", "run_share")}
        for row in rows
        if row["kind"] == "change"
    ]
    out = mean_figures(change)
    for regime in (WALK, RUN):
        out[f"pure_{regime}"] = known_mean([r["own"] for r in rows if r.get("regime") == regime])
    out["flagged_pure"] = known_mean([r["flagged_pure"] for r in rows if "flagged_pure" in r])
    out["steady_run"] = known_mean([r["run_share"] for r in rows if r["kind"] == "steady"])
    return out


def _words(found: dict[str, Any]) -> str:
    shown = ("pearson", "mae", "flight_mae", "walking", "running", "midpoint", "coverage",
             "flagged_standing", "flagged_moving", "flagged_pure", "pure_walk", "pure_run",
             "steady_run")  # fmt: skip
    known = {name: found[name] for name in shown if np.isfinite(found.get(name, np.nan))}
    return ", ".join(f"{name} {value:.3f}" for name, value in known.items())
