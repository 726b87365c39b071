"""The study of the theorems as a source of figures: true latents, no training."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from mechtrace._runtime import duration
from mechtrace.io import versions
from mechtrace.stage1 import Listener

from ..benchmarks import machine
from ..jobs import FINISHED, Job, Row, plain
from ..studies.theory import Sweeps, theory_of_seed
from .models import Scale

#: What is swept at every scale; a scale decides over the number of recordings only.
SWEEPS = Sweeps()


def case(varied: str, value: float) -> str:
    """Name of a world of the sweeps.

    >>> case("noise", 0.10)
    'noise 0.1'
    """
    return f"{varied} {value:g}"


@dataclass(frozen=True)
class Theorems:
    """The study of both theorems as a source, with true latents."""

    def job(self, scale: Scale, seed: int, device: str) -> TheoremsJob:
        """The sweeps with one seed."""
        return TheoremsJob(Sweeps(series=scale.trials), seed)


@dataclass(frozen=True)
class TheoremsJob(Job):
    """The study of the theorems with a seed."""

    sweeps: Sweeps
    number: int

    @property
    def kind(self) -> str:
        """Always "theorems"."""
        return "theorems"

    @property
    def seed(self) -> int:
        """Of the worlds and of the noise."""
        return self.number

    def about(self) -> dict[str, Any]:
        """The sweeps."""
        return {"sweeps": asdict(self.sweeps), "seed": self.seed}

    def describe(self, row: Row) -> str:
        """How many worlds, how long."""
        return f"{len(row['worlds'])} worlds, {duration(row['seconds'])}"

    def run(self, folder: Path, listeners: Sequence[Listener] = ()) -> Row:
        """Errors and bounds of every world by its name, squared errors by length, their rates."""
        began = time.perf_counter()
        rows, growth = theory_of_seed(self.sweeps, self.seed)
        curves = ("squared_error", "squared_error_gcv", "smooth_bound")
        lengths = {
            str(length): {name: growth[name][i] for name in curves}
            for i, length in enumerate(growth["lengths"])
        }
        return self.row(
            FINISHED,
            reason=None,
            worlds=plain({case(row["varied"], row["value"]): row for row in rows}),
            lengths=lengths,
            rates={"rule": growth["rate"], "gcv": growth["rate_gcv"]},
            seconds=time.perf_counter() - began,
            machine=machine(torch.device("cpu")),
            versions=versions(),
        )
