"""A cell of a comparison: one method on one task with one seed."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from mechtrace._runtime import atomic_path, duration
from mechtrace.errors import ConfigError, DataError, FitWarning, MissingDependency
from mechtrace.io import versions
from mechtrace.stage1 import Listener

from ..baselines import METHODS, make
from ..baselines.protocol import Settings
from ..benchmarks import machine
from ..jobs import FINISHED, SKIPPED, Job, Row, peak_memory
from .scores import MethodAnswers, OracleAnswers, score_answers
from .tasks import DataTask, TaskData, WorldTask

#: The reference row: true latents in our own engine.
ORACLE = "oracle"

#: What a line says about a finished cell: figure, word; those of worlds and those of data.
SPOKEN = (
    ("pooled", "pooled"), ("single", "single"), ("switch", "switch"), ("accuracy", "accuracy"),
    ("mcc", "MCC"),
)  # fmt: skip


@dataclass(frozen=True)
class Cell(Job):
    """The job of one method, task and seed."""

    method: str
    place: tuple[str, str]  # module and class: a fresh process does not know what was registered
    task: WorldTask | DataTask
    settings: Settings

    @classmethod
    def of(cls, method: str, task: WorldTask | DataTask, settings: Settings) -> Self:
        """Make the cell of a method or of the oracle."""
        place = ("", "") if method == ORACLE else METHODS[method]
        return cls(method, place, task, settings)

    @property
    def kind(self) -> str:
        """The method."""
        return self.method

    @property
    def seed(self) -> int:
        """The seed of the world or of the split, and of the method."""
        return self.settings.seed

    @property
    def label(self) -> str:
        """Method and data."""
        return f"{self.method}-{self.task.label}"

    def about(self) -> dict[str, Any]:
        """All that its result depends on."""
        return {
            "method": self.method,
            "seed": self.seed,
            "data": self.task.about(),
            "settings": asdict(self.settings),
        }

    def stored_row(self, folder: Path) -> Row | None:
        """Return the stored row if its curves are there too."""
        row = super().stored_row(folder)
        curves = row.get("curves") if row else None
        return row if curves is None or (folder / curves).exists() else None

    def describe(self, row: Row) -> str:
        """Figures and cost."""
        own, oracle = row["figures"], row["oracle_selected"]
        said = [f"{word} {own[name]:.3f}" for name, word in SPOKEN if own.get(name) is not None]
        if own.get("mcc") is not None and row["selects"]:
            said[-1] += f" (oracle-selected {oracle['mcc']:.3f})"
        cost = f"{duration(row['seconds'])}, {row['memory_mb']:,.0f} MB"
        return ", ".join([*said, cost])

    def run(self, folder: Path, listeners: Sequence[Listener] = ()) -> Row:
        """Train the method, recover weights and score them."""
        if self.method != ORACLE:
            METHODS[self.method] = self.place
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                facts = _facts(self, folder, listeners)
            # no package, or nothing that the method can learn from these data
            except (MissingDependency, DataError, ConfigError) as error:
                return self.row(SKIPPED, reason=str(error))
        said = {str(one.message) for one in caught if issubclass(one.category, FitWarning)}
        return self.row(FINISHED, reason=None, warnings=sorted(said), **facts)


def _facts(cell: Cell, folder: Path, listeners: Sequence[Listener]) -> dict[str, Any]:
    data = cell.task.data(cell.seed)
    before, lags = peak_memory(), cell.settings.lags
    began = time.perf_counter()
    if cell.method == ORACLE:
        figures = score_answers(OracleAnswers(), data, lags)
        seconds, answering = 0.0, time.perf_counter() - began
        chosen, selects, curves = figures, False, None
    else:
        method = make(cell.method, **asdict(cell.settings))
        method.fit(data.learn, listeners=listeners, truth=data.truth)
        seconds = time.perf_counter() - began
        answers = MethodAnswers(method, data.regimes)
        figures = score_answers(answers, data, lags)
        curves = _keep_curves(answers, data, folder / f"{cell.stem}.npz")
        answering = time.perf_counter() - began - seconds
        other = method.oracle_selected()
        selects = other is not method
        chosen = (
            score_answers(MethodAnswers(other, data.regimes), data, lags) if selects else figures
        )
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


def _keep_curves(answers: MethodAnswers, data: TaskData, path: Path) -> str | None:
    """The curves of the new recordings beside the row; returns the name of their file."""
    if data.new is None:
        return None
    found = answers.curves(data.new)
    if found is None:
        return None
    arrays = {"weights": np.concatenate(found)}
    if data.pool_new:
        pooled = answers.method.pooled(data.new)
        if pooled is None:
            raise DataError("there is no pooled curve", where=data.new.source)
        arrays["pooled"] = answers.named(pooled)
    with atomic_path(path) as temporary, temporary.open("wb") as out:
        np.savez_compressed(out, allow_pickle=False, **arrays)
    return path.name
