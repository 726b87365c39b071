"""Both public data sets as folders of a few small files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from motions import FRAME, bvh
from test_uavdt import write_tracks
from test_uavdt_frames import corner, write_sequence

SECONDS = 1.6


def write_people(folder: Path) -> None:
    """Three subjects who walk and run, and a fourth who begins to run halfway."""
    for subject in ("01", "02", "03"):
        for trial in (1, 2):
            bvh(folder / "walk" / f"{subject}_0{trial}.bvh", 1.1 + 0.1 * trial, SECONDS)
            fast = folder / "run" / f"{subject}_1{trial}.bvh"
            bvh(fast, 3.0 + 0.1 * trial, SECONDS, swing=45.0)
    count = round(2 * SECONDS / FRAME)
    speed = np.where(np.arange(count) < count // 2, 0.2, 3.2)
    so_far = np.cumsum(speed) / np.arange(1, count + 1)  # bvh multiplies by the time
    calm = 5.0  # degrees: the feet stand while the body is slow
    bvh(folder / "transition" / "04_01.bvh", so_far, 2 * SECONDS, swing=calm, pose=False)


def write_vehicles(folder: Path) -> None:
    """Boxes of three sequences, and the frames of a car that turns in two more."""
    write_tracks(folder)
    for path in sorted((folder / "gt_whole").iterdir()):
        _shape(path)
    for name in ("S1606", "S1301"):
        write_sequence(folder / "frames", name, corner())


def _shape(path: Path) -> None:
    """Boxes as long as the vehicle in the direction in which it goes, give or take a pixel."""
    rows = np.loadtxt(path, delimiter=",")
    rng = np.random.default_rng(0)
    for target in np.unique(rows[:, 1]):
        mine = rows[:, 1] == target
        centres = rows[mine, 2:4] + rows[mine, 4:6] / 2
        way = np.abs(np.gradient(centres, axis=0))
        sides = 20 + 20 * way / np.linalg.norm(way, axis=1, keepdims=True)
        sides = np.round(sides + rng.normal(size=sides.shape))
        rows[mine, 2:6] = np.hstack([np.round(centres - sides / 2), sides])
    np.savetxt(path, rows, fmt="%d", delimiter=",")


def write_data(folder: Path) -> None:
    """What MECHTRACE_DATA may name."""
    write_people(folder / "cmu_mocap")
    write_vehicles(folder / "uavdt")
