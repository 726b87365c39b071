"""Study of a water-pump rig (SKAB): a valve that closes, imbalance with a known course, unknowns.

Every experiment is recovered by a model that has not seen it. Regimes are learned from the steady
parts; an experiment is a group.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from mechtrace.data import Panel
from mechtrace.errors import DataError, DataWarning, FitWarning
from mechtrace.estimator import Trace
from mechtrace.io import versions
from mechtrace.stage2 import Trajectory

from ..baselines import make
from ..datasets import skab
from ..datasets.recordings import Recordings
from ..jobs import parallel_map
from .rig_scores import course, imbalance_score, summary, unknown_score, valve_score

logger = logging.getLogger(__name__)

#: Experiments of which all is known: a folder that begins with this.
VALVE = "valve"
#: Rotor imbalance with a known course; its folder holds the unknown faults too.
IMBALANCE, OTHERS = ("other/5", "other/6", "other/7", "other/8", "other/9"), "other/"
#: Parts that experiments are dealt to.
FOLDS = 4
#: Rows of the moving average that classifiers also see.
AVERAGED = 30
RIVALS = ("logistic-regression", "lda", "gaussian-hmm")
#: What is learned: the valve alone, or all faults whose steady parts are known.
TASKS = ("valve", "all")


@dataclass(frozen=True)
class Part:
    """Rows of an experiment that run in one regime."""

    experiment: str
    regime: str
    first: int
    end: int


def rig_study(
    folder: Path | None = None,
    *,
    tasks: Sequence[str] = TASKS,
    seeds: int = 3,
    rivals: bool = True,
    gap: float | None = None,
    workers: int = 1,
    on_result: Callable[[dict[str, Any]], None] = lambda result: None,
    **settings: Any,
) -> dict[str, Any]:
    """Leave experiments out in turn and score what is recovered of them.

    Parameters
    ----------
    folder : path, optional
        The folder of SKAB.
    tasks : sequence of str
        "valve": normal and fault of the valve experiments; "all": also imbalance and the normal
        rows of all experiments, scored on imbalance and on unknown faults.
    seeds : int
        Fits of each fold.
    rivals : bool
        Also score classifiers and a hidden Markov model.
    gap : float, optional
        Longest step in seconds that continues a recording.
    workers : int
        Fits that run at once.
    on_result : callable
        Called with the result after every fit.
    **settings
        Settings of `Trace`.
    """
    result: dict[str, Any] = {
        "rows": [], "seeds": seeds, "settings": Trace(**settings).get_params(),
        "versions": versions(),
    }  # fmt: skip
    calls = [
        (folder, gap, task, fold, seed, rivals and seed == 0, settings)
        for task in tasks
        for seed in range(seeds)
        for fold in range(FOLDS)
    ]
    for rows in parallel_map(_of_fold, calls, workers):
        result["rows"] += rows
        result["summary"] = summary(result["rows"])
        for row in rows:
            logger.info(_line(row))
        on_result(result)
    return result


def _of_fold(
    folder: Path | None, gap: float | None, task: str, fold: int, seed: int, rivals: bool,
    settings: dict[str, Any],
) -> list[dict[str, Any]]:  # fmt: skip
    recordings = skab.read(folder, gap=gap)
    parts = _parts(recordings, task)
    names = list(dict.fromkeys(part.experiment for part in parts))
    tested = [name for number, name in enumerate(names) if number % FOLDS == fold]
    train = _training_panel(recordings.panel, [p for p in parts if p.experiment not in tested])
    if not tested or len(train.regimes) < 2:
        return []
    test = recordings[tested]
    about = {"task": task, "fold": fold, "seed": seed}
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        warnings.simplefilter("ignore", DataWarning)
        began = time.perf_counter()
        trace = Trace(seed=seed, **settings).fit(train, progress=False)
        seconds = time.perf_counter() - began
        evidence = trace.record_.evidence.selected if trace.record_.evidence else ()
        for number in range(len(test.panel)):
            path = cast(Trajectory, trace.recover(test.panel[[number]]))
            diagnosis = trace.diagnose(path)
            found = {
                "verdict": diagnosis.verdict, "evidence": list(evidence), "fit_seconds": seconds,
                "bad": [one.code for one in diagnosis.findings if one.level == "bad"],
                "expected_error": path.expected_error,
            }  # fmt: skip
            rows += [found | row for row in _scored(test, number, "mechtrace", path)]
        if rivals and task == "valve":
            rows += [row for name in RIVALS for row in _rival(name, train, test)]
    return [about | row for row in rows]


def _parts(recordings: Recordings, task: str) -> list[Part]:
    """Steady parts of the experiments of a task."""
    found = []
    marks = recordings.column("changepoint")
    for name, changepoint in zip(recordings.panel.names.tolist(), marks, strict=True):
        fault = "imbalance" if name in IMBALANCE else VALVE
        valve = name.startswith(VALVE)
        for regime, first, end in skab.steady_parts(changepoint):
            if valve or (task == "all" and (regime == "normal" or name in IMBALANCE)):
                found.append(Part(name, "normal" if regime == "normal" else fault, first, end))
    if not found:
        raise DataError("there is no experiment with a valve", fix="give the folder of SKAB")
    return found


def _training_panel(panel: Panel, parts: Sequence[Part]) -> Panel:
    series = [panel.position(part.experiment) for part in parts]
    values, times = panel.to_arrays(), [panel.time_of(i) for i in range(len(panel))]
    return Panel.from_arrays(
        [values[i][part.first : part.end] for i, part in zip(series, parts, strict=True)],
        time=[times[i][part.first : part.end] for i, part in zip(series, parts, strict=True)],
        regime=[part.regime for part in parts],
        names=[f"{part.experiment}:{part.first}" for part in parts],
        groups=[part.experiment for part in parts],
        channels=panel.channels,
        gap=panel.gap,
    )


def _scored(test: Recordings, number: int, method: str, path: Trajectory) -> list[dict[str, Any]]:
    """Scores of one experiment: as a valve, as imbalance and as an unknown fault."""
    name = str(test.panel.names[number])
    anomaly, marks = (test.column(kind)[number] for kind in skab.MARKS)
    about = {"experiment": name, "method": method}
    if name.startswith(VALVE):
        share, *bounds = _curves(path, VALVE)
        return [about | valve_score(test.panel.time_of(number), share, anomaly, marks, *bounds)]
    unknown = unknown_score(path.flag == "unexplained", anomaly)
    if name in IMBALANCE:
        values = test.panel.to_arrays()[number]
        true = course(values[:, 0], marks)
        score = imbalance_score(_curves(path, "imbalance")[0], true, marks)
        return [about | score, about | unknown]
    return [about | unknown]


def _curves(path: Trajectory, regime: str) -> list[np.ndarray]:
    """Share of a regime and the ends of its intervals."""
    place = path.regimes.index(regime)
    return [one[:, place] for one in (path.alpha, path.lower, path.upper)]


def _rival(name: str, train: Panel, test: Recordings) -> list[dict[str, Any]]:
    """Scores of another method on rows, and on moving averages of rows."""
    rows = []
    for window in (1, AVERAGED):
        method = make(name).fit(_averaged(train, window))
        curves = method.weights(_averaged(test.panel, window)) or []
        title = name if window == 1 else f"{name}, {window} s"
        for number, curve in enumerate(curves):
            share = curve[:, list(method.regimes_).index(VALVE)]
            anomaly, marks = (test.column(kind)[number] for kind in skab.MARKS)
            about = {"experiment": str(test.panel.names[number]), "method": title}
            score = valve_score(test.panel.time_of(number), share, anomaly, marks)
            rows.append(about | score)
    return rows


def _averaged(panel: Panel, window: int) -> Panel:
    """Centred moving averages over so many rows, fewer at the ends."""
    if window == 1:
        return panel
    from dataclasses import replace

    kernel = np.ones(window)
    out = []
    for values in panel.to_arrays():
        weight = np.convolve(np.ones(len(values)), kernel, "same")
        sums = [np.convolve(column, kernel, "same") for column in values.T]
        out.append(np.stack(sums, axis=1)[: len(values)] / weight[: len(values), None])
    return replace(panel, values=np.concatenate(out))


def _line(row: dict[str, Any]) -> str:
    figures = ", ".join(
        f"{name} {value:.3f}" for name, value in row.items() if isinstance(value, float)
    )
    about = f"{row['task']} seed {row['seed']} {row['experiment']} {row['method']}"
    return f"{about}: {figures} {'+'.join(row.get('evidence', []))} {row.get('verdict', '')}"
