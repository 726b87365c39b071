"""One cell of a comparison: a method, data and a seed; what it finds, and where that is kept."""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...atomic import atomic_path
from ...bench import machine
from ...errors import DataError, FitWarning, MissingDependency
from ...fit import Listener
from ...store import versions
from .. import METHODS, make
from ..protocol import Settings
from .judge import Ceiling, Learned, judge
from .tasks import DataTask, Material, WorldTask

#: The reference row: true latents in our own engine.
ORACLE = "oracle"
FINISHED, FAILED, SKIPPED = "finished", "failed", "skipped"

Row = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """What is computed at once, and never again."""

    method: str
    place: tuple[str, str]  # module and class: a fresh process does not know what was registered
    task: WorldTask | DataTask
    settings: Settings

    @property
    def seed(self) -> int:
        """The seed of the world or of the split, and of the method."""
        return self.settings.seed

    def about(self) -> dict[str, Any]:
        """All that its result depends on."""
        return {
            "method": self.method,
            "seed": self.seed,
            "data": self.task.about(),
            "settings": asdict(self.settings),
        }

    @property
    def stem(self) -> str:
        """Name of its files, with a hash of what it depends on."""
        # tuples are lists after a round trip through JSON, so they must be in the hash
        text = json.dumps(self.about(), sort_keys=True)
        key = blake2b(text.encode(), digest_size=6).hexdigest()
        return f"{self.method}-{self.task.label}-seed{self.seed}-{key}"

    def kept(self, folder: Path) -> Row | None:
        """Its row if it was finished before."""
        try:
            row = json.loads((folder / f"{self.stem}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        whole = isinstance(row, dict) and row.get("status") == FINISHED
        curves = row.get("curves") if whole else None
        return row if whole and (curves is None or (folder / curves).exists()) else None

    def keep(self, folder: Path, row: Row) -> None:
        """Write its row, whole or not at all."""
        with atomic_path(folder / f"{self.stem}.json") as temporary:
            temporary.write_text(json.dumps(row, indent=1, allow_nan=False) + "\n", "utf-8")

    def row(self, status: str, **more: Any) -> Row:
        """A row about this cell."""
        return {"stem": self.stem} | self.about() | {"status": status} | more


def run_cell(cell: Cell, folder: Path, listeners: Sequence[Listener] = ()) -> Row:
    """Learn, answer and be judged, in this process."""
    if cell.method != ORACLE:
        METHODS[cell.method] = cell.place
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            facts = _facts(cell, folder, listeners)
        except MissingDependency as error:
            return cell.row(SKIPPED, reason=str(error))
    said = {str(one.message) for one in caught if issubclass(one.category, FitWarning)}
    return cell.row(FINISHED, reason=None, warnings=sorted(said), **facts)


def _facts(cell: Cell, folder: Path, listeners: Sequence[Listener]) -> dict[str, Any]:
    material = cell.task.material(cell.seed)
    before, lags = peak_memory(), cell.settings.lags
    began = time.perf_counter()
    if cell.method == ORACLE:
        figures = judge(Ceiling(), material, lags)
        seconds, answering = 0.0, time.perf_counter() - began
        chosen, selects, curves = figures, False, None
    else:
        method = make(cell.method, **asdict(cell.settings))
        method.fit(material.learn, listeners=listeners, truth=material.truth)
        seconds = time.perf_counter() - began
        answers = Learned(method, material.regimes)
        figures = judge(answers, material, lags)
        curves = _keep_curves(answers, material, folder / f"{cell.stem}.npz")
        answering = time.perf_counter() - began - seconds
        other = method.oracle_selected()
        selects = other is not method
        chosen = judge(Learned(other, material.regimes), material, lags) if selects else figures
    return {
        "figures": figures,
        "oracle_selected": chosen,
        "selects": selects,
        "seconds": seconds,
        "answer_seconds": answering,
        "memory_mb": peak_memory() / 1e6,
        "memory_before_mb": before / 1e6,
        "gpu_memory_mb": _gpu_memory() / 1e6,
        "curves": curves,
        "threads": torch.get_num_threads(),
        "machine": machine(torch.device(cell.settings.device)),
        "versions": versions(),
    }


def _gpu_memory() -> int:
    return torch.cuda.max_memory_allocated() if torch.cuda.is_initialized() else 0


def _keep_curves(answers: Learned, material: Material, path: Path) -> str | None:
    """The curves of the new recordings beside the row; returns the name of their file."""
    if material.new is None:
        return None
    found = answers.curves(material.new)
    if found is None:
        return None
    arrays = {"weights": np.concatenate(found)}
    if material.pool_new:
        pooled = answers.method.pooled(material.new)
        if pooled is None:
            raise DataError("there is no pooled curve", where=material.new.source)
        arrays["pooled"] = answers.named(pooled)
    with atomic_path(path) as temporary, temporary.open("wb") as out:
        np.savez_compressed(out, allow_pickle=False, **arrays)
    return path.name


def peak_memory() -> int:
    """Bytes, the most that this process has held.

    What getrusage says counts the process that started this one too, so it is the second choice.
    """
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(status.split("VmHWM:")[1].split()[0]) * 1024
    except (OSError, IndexError, ValueError):
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
