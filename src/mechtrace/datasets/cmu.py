"""The CMU motion capture database: trials of walking and running become a Panel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from ..readers.names import natural_key
from ..series import Panel, PathLike
from .gait import channels_of
from .motion import Motion, read_motion
from .recordings import Recordings, data_folder

NAME = "cmu_mocap"
COMMAND = "mechtrace datasets cmu"
#: Folders of trials that have no regime.
UNLABELLED = ("transition", "transitions")
#: Measured beside the channels, from the same frames.
BESIDE = ("hip speed", "flight fraction")


def read(
    folder: PathLike | None = None, *, features: str = "legs", rate: float = 30.0
) -> Recordings:
    """All trials below a folder, resampled to so many rows per second.

    Folders (walk, run) name the regimes, those in `transition` have none; a file 16_55.bvh is
    trial 55 of subject 16, who is its group. `features` is "paper" (188 channels, among them the
    speed of the hips) or "legs" (18, without it). Beside them are the hip speed in m/s and the
    flight fraction, both averaged over 0.6 s around each frame.
    """
    trials = find_trials(data_folder(NAME, folder, COMMAND))
    motions = [read_motion(path) for path in trials]
    tables = [channels_of(motion, features) for motion in motions]
    for motion, table in zip(motions, tables, strict=True):
        if list(table) != list(tables[0]):
            what, fix = f"has other joints than {motions[0].source}", "read one kind at a time"
            raise DataError(what, where=motion.source, fix=fix)
    regimes = ["" if path.parent.name in UNLABELLED else path.parent.name for path in trials]
    about: dict[str, Any] = {
        "time": [np.arange(len(motion)) / motion.rate for motion in motions],
        "names": [path.stem for path in trials],
        "groups": [path.stem.partition("_")[0] for path in trials],
        "source": f"{len(trials)} trials of {trials[0].parent.parent.name}",
    }
    panel = Panel.from_arrays(
        [np.column_stack(list(table.values())) for table in tables],
        regime=regimes,
        channels=list(tables[0]),
        **about,
    )
    beside = Panel.from_arrays([_beside(motion) for motion in motions], channels=BESIDE, **about)
    return Recordings(panel.resampled(rate), beside.resampled(rate))


def find_trials(folder: Path) -> list[Path]:
    """The .bvh and .amc files below a folder, in natural order."""
    found = [path for path in folder.rglob("*") if path.suffix.lower() in (".bvh", ".amc")]
    if not found:
        fix = f"put trials in folders walk, run and transition; `{COMMAND}` says where they are"
        raise DataError("holds no .bvh or .amc file", where=str(folder), fix=fix)
    return sorted(found, key=lambda path: natural_key(str(path)))


def _beside(motion: Motion) -> np.ndarray:
    return np.column_stack([motion.hip_speed(), motion.flight_fraction()])
