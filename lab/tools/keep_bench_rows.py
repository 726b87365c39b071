"""Put what `mechtrace bench` found where `mechtrace reproduce --scale paper` looks for it.

Both make the same calls, so that single seeds in lab/results/gait-cmu.json, vehicles-uavdt.json,
vehicle-frames.json and cartpole-*.json need not be computed again where size and settings agree.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from project_files import RESULTS, read

from mechtrace.estimator import Trace
from mechtrace_lab.reproduction.models import SCALES
from mechtrace_lab.reproduction.plan import measure_calls
from mechtrace_lab.reproduction.real_data import (
    StudyJob,
    StudySource,
    by_method,
    cartpole_figures,
    frame_figures,
    gait_figures,
)
from mechtrace_lab.reproduction.reference_methods import NCTRL

#: Not part of what was found.
APART = ("seed", "device")

Found = Iterator[tuple[StudyJob, dict[str, Any]]]


def copy_rows(results: Path, folder: Path) -> list[str]:
    """Write a row for each seed that agrees; the stems of those that were taken."""
    taken = []
    for pattern, figures_of in KINDS:
        for path in sorted(results.glob(pattern)):
            result = read(path)
            where = result.get("machine", "a machine that was not noted")
            for job, figures in figures_of(result):
                if _trained_alike(job, result["settings"].get(job.features, result["settings"])):
                    row = job.found(figures, None, where, result["versions"])
                    job.store(folder, row | {"kept_from": path.name})
                    taken.append(job.stem)
    return taken


def _job(table: str, features: str, seed: int) -> StudyJob:
    return StudySource(table, features).job(SCALES["paper"], seed, "cpu")


def _trained_alike(job: StudyJob, settings: dict[str, Any]) -> bool:
    """Whether the model had the settings that it would have now."""
    now = json.loads(json.dumps(Trace(**job.settings).get_params()))
    return all(now.get(key) == value for key, value in settings.items() if key not in APART)


def _gait(result: dict[str, Any]) -> Found:
    rows = [
        {key: math.nan if x is None else x for key, x in row.items()} for row in result["rows"]
    ]
    for source in measure_calls(["gait"]):
        assert isinstance(source, StudySource)
        for seed in range(result["seeds"]):
            job = _job("gait", source.features, seed)
            mine = [r for r in rows if (r["features"], r["seed"]) == (source.features, seed)]
            known = {row["method"] for row in mine} | {NCTRL}  # learns with the first seed alone
            if result["rate"] == job.size["rate"] and known >= set(job.size["methods"]):
                yield job, gait_figures(mine, job.size["methods"])


def _vehicles(result: dict[str, Any]) -> Found:
    for source in measure_calls(["vehicles"]):
        assert isinstance(source, StudySource)
        for seed, summary in enumerate(result.get("of_seeds", ())):
            job = _job("vehicles", source.features, seed)
            mine = [one for one in summary if one["features"] == source.features]
            known = {one["method"] for one in mine} | {NCTRL}
            if len(result["folds"]) == job.size["folds"] and known >= set(job.size["methods"]):
                yield job, by_method(mine)


def _frames(result: dict[str, Any]) -> Found:
    for row in result["rows"]:
        job = _job("frames", "trails", row["seed"])
        if result["tracks_per_regime"] == job.size["tracks"]:
            yield job, frame_figures(row, result["heuristics"])


def _cartpole(result: dict[str, Any]) -> Found:
    size = {name: result[name] for name in ("size", "length", "trials")}
    size["series"] = result["series_per_regime"]
    for row in result["rows"]:
        job, found = _job("cartpole", "pictures", row["seed"]), cartpole_figures(row)
        if size == job.size and set(found["recovery"]) == {"3", "5"}:
            yield job, found


KINDS = (
    ("gait-cmu.json", _gait),
    ("vehicles-uavdt.json", _vehicles),
    ("vehicle-frames.json", _frames),
    ("cartpole-*.json", _cartpole),
)

if __name__ == "__main__":
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS / "paper"
    (out / "paper").mkdir(parents=True, exist_ok=True)
    print(*copy_rows(RESULTS, out / "paper"), sep="\n")
