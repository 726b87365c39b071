"""Study of broken sensors: whether they are named, and what remains without them.

Faults are injected into recordings that were left out: of systems of the zoo, of experiments with
a pump rig and of people. What is known of the channels is measured as `fit` does, without a fit.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from mechtrace import worlds
from mechtrace.errors import DataWarning, FitWarning
from mechtrace.estimator import Trace
from mechtrace.io import natural_key, versions
from mechtrace.metrics import weight_correlation
from mechtrace.stage2 import ChannelStatistics, SensorFault, Trajectory
from mechtrace.worlds.zoo import Fault, Zoo

from ..datasets import cmu
from .zoo import LEFT_OUT, NEW, TRAIN

logger = logging.getLogger(__name__)

#: Faults of sensors; and of time, without time stamps: rows dropped, turned, shuffled.
OF_SENSORS, RATES = ("units", "stuck", "swapped"), {"half": 2, "tenth": 10}
KINDS = (*OF_SENSORS, *RATES, "double", "reversed", "shuffled")
#: Faults of each kind in a case, and shortest recording in rows.
REPEATS, SHORTEST = 24, 20
#: Swapping two sensors changes labelled recordings by less than this many nats per row: alike.
ALIKE = 5.0
#: Rows at the ends of a steady part that may still belong to the transition.
EDGE = 15


class Case(NamedTuple):
    """Labelled recordings (T, c) with their groups, and those that are left out."""

    name: str
    train: list[np.ndarray]
    groups: list[str] | None
    test: list[np.ndarray]


def sensor_study(
    data: Path | None = None,
    *,
    systems: Sequence[str],
    seeds: int = 1,
    first: int = 800,
    fits: Sequence[str] = (),
    on_result: Callable[[dict[str, Any]], None] = lambda result: None,
) -> dict[str, Any]:
    """Inject every kind of fault; recover without each sensor in turn.

    Parameters
    ----------
    data : path, optional
        Folder with `skab` and `cmu_mocap`, of which those present are used.
    systems : sequence of str
        Systems of the zoo.
    seeds, first : int
        Number of draws of each system, and the first seed.
    fits : sequence of str
        Systems on which a model is fitted, to recover without each sensor.
    on_result : callable
        Called with the result after every case.
    """
    result: dict[str, Any] = {"rows": [], "without": [], "versions": versions()}
    for case in [*_zoo(systems, range(first, first + seeds)), *_real(data)]:
        result["rows"].append(faults_of(case))
        result["summary"] = summary(result["rows"])
        on_result(result)
    for system in fits:
        result["without"] += left_out(system, first)
        on_result(result)
    return result


def faults_of(case: Case) -> dict[str, Any]:
    """Count how often each kind of fault is named, and how often one is named without any."""
    known, sparse = _learned(case), _learned(case, 2)
    rng = np.random.default_rng(0)
    test = [values for values in case.test if len(values) >= SHORTEST]
    row: dict[str, Any] = {"case": case.name, "recordings": len(test)}
    row["none"] = [len(test), sum(known.fault(values) is None for values in test)]
    for kind in KINDS:
        count = hit = 0
        for number in range(REPEATS if kind in OF_SENSORS else len(test)):
            values = test[number % len(test)]
            if kind in OF_SENSORS:
                fault = Fault.draw(kind, len(values), values.shape[1], rng)
                if kind == "swapped" and _alike(known, *fault.sensors):
                    continue
                found = known.fault(fault.apply(values[None], rng)[0])
                hit += found is not None and _named(found, kind, fault.sensors)
            else:
                changed = _in_other_time(kind, values, rng)
                if len(changed) < SHORTEST:
                    continue
                found = (sparse if kind == "double" else known).fault(changed)
                hit += found is not None and _of_time(found, kind)
            count += 1
        row[kind] = [count, hit]
    logger.info(f"{case.name}: {', '.join(f'{k} {row[k][1]}/{row[k][0]}' for k in _SHOWN)}")
    return row


_SHOWN = ("none", *KINDS)


def _learned(case: Case, every: int = 1) -> ChannelStatistics:
    parts = [values[::every] for values in case.train]
    rows, number = np.concatenate(parts), np.repeat(np.arange(len(parts)), [*map(len, parts)])
    scale = rows.std(axis=0)
    scale[scale == 0] = 1.0
    return ChannelStatistics.measure(rows, number, rows.mean(axis=0), scale, case.groups)


def _named(found: SensorFault, kind: str, sensors: tuple[int, ...]) -> bool:
    """Whether the right sensors are named, and that they were swapped or are stuck."""
    right = set(found.channels) == set(sensors)
    return right and found.kind in ({kind, "other"} if kind == "units" else {kind})


def _of_time(found: SensorFault, kind: str) -> bool:
    if kind in ("reversed", "shuffled"):
        return found.kind == kind
    wanted = 2.0 if kind == "double" else 1 / RATES[kind]
    return found.kind == "rate" and found.gain == wanted


def _in_other_time(kind: str, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if kind == "double":  # of what was learned from half of the rows
        return values
    if kind == "reversed":
        return values[::-1]
    return rng.permutation(values) if kind == "shuffled" else values[:: RATES[kind]]


def _alike(known: ChannelStatistics, first: int, second: int) -> bool:
    """Whether swapping two sensors would hardly change the labelled recordings."""
    c = len(known.centre)
    order = np.arange(2 * c)
    for half in (0, c):
        order[[half + first, half + second]] = half + second, half + first
    size, shift = np.ones(2 * c), np.zeros(2 * c)
    for to, of in ((first, second), (second, first)):
        size[[to, to + c]] = known.scale[of] / known.scale[to]
        shift[[to, to + c]] = (known.centre[of] - known.centre[to]) / known.scale[to]
    moved = size[:, None] * known.moment[np.ix_(order, order)] * size + np.outer(shift, shift)
    gained = 0.5 * float(np.trace(np.linalg.solve(known.moment, moved))) - c
    return gained < ALIKE


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, list[int]]]:
    """Sum the counts of each family of cases."""
    out: dict[str, dict[str, list[int]]] = {}
    for row in rows:
        family = out.setdefault(row["case"].partition("/")[0], {})
        for kind in _SHOWN:
            count, hit = family.get(kind, (0, 0))
            family[kind] = [count + row[kind][0], hit + row[kind][1]]
    return out


def markdown(result: dict[str, Any]) -> str:
    """Tables of the result."""
    lines = [f"| data | {' | '.join(_SHOWN)} |", "|---|" + "---|" * len(_SHOWN)]
    for name, family in result["summary"].items():
        counts = [f"{hit}/{count}" if count else "–" for count, hit in family.values()]
        lines.append(f"| {name} | {' | '.join(counts)} |")
    if result["without"]:
        lines += ["", "| system | without | correlation | error | expected | cover |"]
        lines.append("|---|---|---|---|---|---|")
    for row in result["without"]:
        figures = (row[key] for key in ("corr", "mae", "expected", "cover"))
        cells = " | ".join(f"{value:.3f}" for value in figures)
        lines.append(f"| {row['system']} | {row['without'] or 'none'} | {cells} |")
    return "\n".join(lines)


def left_out(system: str, seed: int) -> list[dict[str, Any]]:
    """Fit a system and recover transitions without each sensor in turn."""
    world = cast(Zoo, worlds.make(f"zoo/{system}", seed=seed, length=300))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        warnings.simplefilter("ignore", DataWarning)
        trace = Trace(seed=seed).fit(world.simulate(40, seed=TRAIN).panel, progress=False)
    runs = [world.transition(kind, series=6, seed=NEW + i)
            for i, kind in enumerate(("simple", "medium"))]  # fmt: skip
    out = []
    for name in ("", *runs[0].panel.channels):
        found = []
        for run in runs:
            paths = cast(
                list[Trajectory], trace.recover(run.panel, without=[name] if name else [])
            )
            found += [_scored(path, alpha) for path, alpha in zip(paths, run.alpha, strict=True)]
        mean = {key: float(np.mean([one[key] for one in found])) for key in found[0]}
        out.append({"system": system, "seed": seed, "without": name} | mean)
        logger.info(f"{system} without {name or 'none'}: corr {mean['corr']:.3f}, MAE"
                    f" {mean['mae']:.3f}, cover {mean['cover']:.2f}")  # fmt: skip
    return out


def _scored(path: Trajectory, alpha: np.ndarray) -> dict[str, float]:
    inside = (path.lower <= alpha + 1e-9) & (alpha <= path.upper + 1e-9)
    return {
        "corr": weight_correlation(alpha, path.alpha),
        "mae": float(np.abs(path.alpha - alpha).mean()),
        "expected": path.expected_error,
        "cover": float(inside.mean()),
    }


def _zoo(systems: Sequence[str], seeds: range) -> Iterator[Case]:
    for seed in seeds:
        for system in systems:
            world = cast(Zoo, worlds.make(f"zoo/{system}", seed=seed, length=300))
            runs = [world.transition(kind, series=12, seed=NEW + i)
                    for i, kind in enumerate(("simple", "medium"))]  # fmt: skip
            panels = [run.panel for run in (*runs, world.simulate(4, seed=LEFT_OUT))]
            train = [
                np.asarray(v, float) for v in world.simulate(40, seed=TRAIN).panel.to_arrays()
            ]
            test = [np.asarray(v, float) for panel in panels for v in panel.to_arrays()]
            yield Case(f"zoo/{system}/{seed}", train, None, test)


def _real(data: Path | None) -> Iterator[Case]:
    if data is not None and (data / "skab" / "valve2").is_dir():
        yield from _rig(data / "skab")
    if data is not None and (data / "cmu_mocap").is_dir():
        yield from _people(data / "cmu_mocap")


def _people(folder: Path) -> Iterator[Case]:
    """Directions of the legs of every subject, by those of the others."""
    recordings = cmu.read(folder, features="legs")
    groups = np.asarray(recordings.panel.groups)
    values = [np.asarray(one, float) for one in recordings.panel.to_arrays()]
    for subject in dict.fromkeys(groups.tolist()):
        train = [i for i in range(len(values)) if groups[i] != subject and recordings.labels[i]]
        test = [values[i] for i in np.flatnonzero(groups == subject)]
        if any(len(one) >= SHORTEST for one in test):
            own = [str(groups[i]) for i in train]
            yield Case(f"legs/{subject}", [values[i] for i in train], own, test)


def _rig(folder: Path) -> Iterator[Case]:
    """Every experiment with the valve by the steady parts of the others; then normal runs.

    The last case are the beginnings of experiments of other days, at other flows.
    """
    import pandas as pd

    tables = {
        f"{path.parent.name}/{path.stem}": pd.read_csv(path, sep=";")
        for path in sorted(folder.glob("*/*.csv"), key=lambda path: natural_key(str(path)))
    }
    marks = ("datetime", "anomaly", "changepoint")
    values = {
        name: table.drop(columns=list(marks), errors="ignore").to_numpy(float)
        for name, table in tables.items()
    }
    parts: list[tuple[str, np.ndarray]] = []
    for name, table in tables.items():
        if name.startswith("valve"):
            ends = np.flatnonzero(np.diff(table["anomaly"])) + 1
            steady = np.split(np.arange(len(table)), ends)
            parts += [(name, values[name][rows[EDGE:-EDGE]]) for rows in steady
                      if len(rows) > 3 * EDGE]  # fmt: skip
        elif name.startswith("anomaly-free"):
            parts += [(name, part) for part in np.array_split(values[name], 9)]
    for name in tables:
        if name.startswith("valve"):
            mine = [part for part in parts if part[0] != name]
            yield Case(f"rig/{name}", [v for _, v in mine], [g for g, _ in mine], [values[name]])
    others = [
        values[name][: int(np.argmax(table["anomaly"] > 0)) or len(table)]
        for name, table in tables.items()
        if name.startswith("other")
    ]
    if others:
        every = [v for _, v in parts], [g for g, _ in parts]
        yield Case("rig at other flows/all", *every, others)
