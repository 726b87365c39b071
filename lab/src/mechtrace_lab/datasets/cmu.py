"""The CMU motion capture database: trials of walking and running become a Panel."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mechtrace.data import Panel, PathLike
from mechtrace.errors import DataError
from mechtrace.io import natural_key

from .gait import channels_of
from .motion import METRES, Motion, read_motion
from .recordings import Recordings, data_folder

NAME = "cmu_mocap"
COMMAND = "mechtrace datasets cmu"
#: Folders of trials that have no regime.
UNLABELLED = ("transition", "transitions", "new")
#: Measured beside the channels, from the same frames.
PROXIES = ("hip speed", "flight fraction")


def read(
    folder: PathLike | None = None,
    *,
    features: str = "legs",
    rate: float = 30.0,
    unit: float | None = None,
) -> Recordings:
    """All trials below a folder, resampled to so many rows per second.

    Folders (walk, run) name the regimes; trials in `transition` or `new`, or in no folder, have
    none. A file 16_55.bvh is trial 55 of subject 16, who is its group. `features` is "paper" (188
    channels, among them the speed of the hips) or "legs" (18, without it). `unit` is the length
    of a unit in metres, if it is not that of the CMU files. Beside the channels are the hip speed
    in m/s and the flight fraction, both averaged over 0.6 s around each frame.
    """
    root = data_folder(NAME, folder, COMMAND)
    trials = find_trials(root)
    motions = [read_motion(path, METRES if unit is None else unit) for path in trials]
    tables = [channels_of(motion, features) for motion in motions]
    for motion, table in zip(motions, tables, strict=True):
        if list(table) != list(tables[0]):
            what, fix = f"has other joints than {motions[0].source}", "read one kind at a time"
            raise DataError(what, where=motion.source, fix=fix)
    regimes = [_regime(path, root) for path in trials]
    about: dict[str, Any] = {
        "time": [np.arange(len(motion)) / motion.rate for motion in motions],
        "names": [path.stem for path in trials],
        "groups": [path.stem.partition("_")[0] for path in trials],
        "source": f"{len(trials)} trials of {root.resolve().name}",
    }
    panel = Panel.from_arrays(
        [np.column_stack(list(table.values())) for table in tables],
        regime=regimes,
        channels=list(tables[0]),
        **about,
    )
    proxies = Panel.from_arrays([_beside(motion) for motion in motions], channels=PROXIES, **about)
    return Recordings(panel.resampled(rate), proxies.resampled(rate))


def find_trials(folder: Path) -> list[Path]:
    """The .bvh and .amc files below a folder, in natural order."""
    found = [path for path in folder.rglob("*") if path.suffix.lower() in (".bvh", ".amc")]
    if not found:
        fix = f"put trials in folders walk, run and transition; `{COMMAND}` says where they are"
        raise DataError("holds no .bvh or .amc file", where=str(folder), fix=fix)
    return sorted(found, key=lambda path: natural_key(str(path)))


def with_named_groups(panel: Panel) -> Panel:
    """Rename subject 16 to S16, so that the column is not read as a measurement."""
    assert panel.groups is not None  # every trial has a subject
    return replace(panel, groups=np.array([f"S{name}" for name in panel.groups]))


def _regime(path: Path, root: Path) -> str:
    nowhere = path.parent == root or path.parent.name in UNLABELLED
    return "" if nowhere else path.parent.name


def _beside(motion: Motion) -> np.ndarray:
    return np.column_stack([motion.hip_speed(), motion.flight_fraction()])
