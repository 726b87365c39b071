"""The comparison: every method on the same data, with the same budget, judged alike.

`tasks` says what is learned and what is asked, `judge` turns answers into figures, `cells` are
the jobs that compute them, `summary` puts them together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...bench import machine
from ...fit import resolve_device
from ...jobs import FAILED, FINISHED, Row, collect, new_folder
from ...store import versions
from ..protocol import Settings
from .catalogue import Entry, chosen, entries
from .cells import ORACLE, Cell
from .summary import all_skipped, curves_frame, summarise, table, write_files
from .tasks import DataTask, WorldTask, truth_for

__all__ = [
    "FAILED", "FINISHED", "DataTask", "Entry", "WorldTask", "chosen", "compare", "curves_frame",
    "entries", "table", "truth_for",
]  # fmt: skip


def compare(
    task: WorldTask | DataTask,
    methods: Sequence[Entry],
    out: Path,
    *,
    seeds: int = 5,
    workers: int = 1,
    fresh: bool = False,
    skipped: dict[str, str] | None = None,
    say: Callable[[str], None] = print,
    live: bool = True,
    **settings: Any,
) -> dict[str, Any]:
    """Run every method with every seed; results go to the folder `out` as they are ready.

    Cells that are kept there from before are not run again, unless `fresh`. `settings` are those
    of `Settings`. After Ctrl-C what is finished is written too, and KeyboardInterrupt goes on.
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
        collect(cells, folder, rows, workers=workers, fresh=fresh, say=say, live=live)
    finally:
        order = {cell.stem: i for i, cell in enumerate(cells)}
        rows.sort(key=lambda row: order[row["stem"]])
        left_out = (skipped or {}) | all_skipped(rows)
        result = about | {"rows": rows, "summary": summarise(rows), "skipped": left_out}
        write_files(result, out)
    return result
