"""Comparison of methods on the same data, with the same budget and the same scores.

Enters: a task (a simulated world, or labelled recordings) and methods. Happens: each cell (method
and seed) is a job that trains the method on the data of the task (`tasks`, `cells`) and scores its
answers (`scores`). Leaves: rows, their `summary`, comparison.json and comparison.csv.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mechtrace.io import versions
from mechtrace.stage1 import resolve_device

from ..baselines.protocol import Settings
from ..benchmarks import machine
from ..jobs import FAILED, FINISHED, Row, collect, new_folder
from .catalogue import MethodInfo, choose_methods, method_infos
from .cells import ORACLE, Cell
from .summary import all_skipped, conclusion, curves_frame, summarise, table, write_files
from .tasks import DataTask, WorldTask, truth_for

__all__ = [
    "FAILED", "FINISHED", "DataTask", "MethodInfo", "WorldTask", "choose_methods", "compare",
    "curves_frame", "method_infos", "table", "truth_for",
]  # fmt: skip


def compare(
    task: WorldTask | DataTask,
    methods: Sequence[MethodInfo],
    out: Path,
    *,
    seeds: int = 5,
    workers: int = 1,
    fresh: bool = False,
    skipped: dict[str, str] | None = None,
    live: bool = True,
    **settings: Any,
) -> dict[str, Any]:
    """Run every method with every seed and write the results to a folder.

    Parameters
    ----------
    task : WorldTask or DataTask
        Data to learn from and to be scored on.
    methods : sequence of MethodInfo
        Methods to compare.
    out : Path
        Folder of the results; stored cells are not run again.
    seeds, workers : int
        Number of seeds, and of cells that run at once.
    fresh : bool
        Run stored cells again.
    skipped : dict, optional
        Methods that cannot run, with the reason.
    live : bool
        Show progress bars on a terminal.
    **settings
        Fields of `Settings`.

    Returns
    -------
    dict
        Configuration, rows, summary and skipped methods. After Ctrl-C the finished rows are
        written before KeyboardInterrupt is raised again.
    """
    device = str(resolve_device(settings.pop("device", "auto")))
    known = [Settings(**settings, device=device, seed=seed) for seed in range(seeds)]
    cells = [Cell.of(one.name, task, setting) for setting in known for one in methods]
    if isinstance(task, WorldTask):
        cells = [Cell.of(ORACLE, task, setting) for setting in known] + cells
    folder = out / "cells"
    new_folder(folder, out)
    about = {
        "configuration": {
            "data": task.about(),
            "methods": [one.name for one in methods],
            "seeds": seeds,
            "workers": workers,
            "settings": asdict(known[0]) | {"seed": None},
        },
        "methods": {one.name: one.to_dict() for one in methods},
        "machine": machine(resolve_device(device)),
        "versions": versions(),
    }
    rows: list[Row] = []
    try:
        collect(cells, folder, rows, workers=workers, fresh=fresh, live=live)
    finally:
        order = {cell.stem: i for i, cell in enumerate(cells)}
        rows.sort(key=lambda row: order[row["stem"]])
        left_out = (skipped or {}) | all_skipped(rows)
        result = about | {"rows": rows, "summary": summarise(rows), "skipped": left_out}
        result["conclusion"] = conclusion(result)
        write_files(result, out)
    return result
