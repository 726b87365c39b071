"""Compared methods as sources of figures: the cells of `mechtrace compare`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..baselines.protocol import Settings
from ..comparison.cells import Cell
from ..comparison.tasks import WorldTask
from ..jobs import Row
from .models import Scale

#: Recordings of each regime, and trials of the transition, by scale.
SIZES = {"paper": (2000, 200), "quick": (400, 200), "smoke": (20, 8)}
#: Settings of all methods, by scale.
SETTINGS: dict[str, dict[str, Any]] = {
    "paper": {"transitions": 24_000_000},
    # with a third of it mechtrace has not yet found the latents (MCC 0.61 instead of 0.96)
    "quick": {"transitions": 1_000_000},
    "smoke": {"transitions": 6000, "window": 5, "evaluations": 2},
}
#: LEAP's recursion over steps leaves a GPU idle with its own 32 series.
OF_METHOD: dict[tuple[str, str], dict[str, Any]] = {("paper", "leap"): {"batch": 128}}


@dataclass(frozen=True)
class ComparedMethod:
    """A method in the world `paper`, or the oracle of the comparison."""

    method: str

    def job(self, scale: Scale, seed: int, device: str) -> PaperCell:
        """The cell of `mechtrace compare --world paper`."""
        series, trials = SIZES[scale.name]
        chosen = SETTINGS[scale.name] | OF_METHOD.get((scale.name, self.method), {})
        settings = Settings(**chosen, seed=seed, device=device)
        return PaperCell.of(self.method, WorldTask(series=series, trials=trials), settings)


class PaperCell(Cell):
    """A cell that also accepts a row stored for another device."""

    def stored_row(self, folder: Path) -> Row | None:
        """Return the row of its own device, or of another one."""
        for device in dict.fromkeys((self.settings.device, "cuda", "cpu")):
            twin = replace(self, settings=replace(self.settings, device=device))
            row = super(PaperCell, twin).stored_row(folder)
            if row is not None:
                return row
        return None
