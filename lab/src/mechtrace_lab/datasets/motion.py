"""A motion capture in metres, with speed, foot contacts and flight phases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mechtrace.errors import ConfigError, DataError

from .asf import read_amc
from .bvh import Captured, read_bvh

#: One unit of the CMU files in metres: 1 / 0.45 of an inch.
METRES = 0.0254 / 0.45
#: Joints by what they are, as BVH conversions and ASF files call them.
ROOT = ("Hips", "root")
LEGS = {
    "left hip": ("LeftUpLeg", "lhipjoint"),
    "left knee": ("LeftLeg", "lfemur"),
    "left ankle": ("LeftFoot", "ltibia"),
    "left ball": ("LeftToeBase", "lfoot"),
    "right hip": ("RightUpLeg", "rhipjoint"),
    "right knee": ("RightLeg", "rfemur"),
    "right ankle": ("RightFoot", "rtibia"),
    "right ball": ("RightToeBase", "rfoot"),
}
#: Hips, and any joint, that move faster than this (m/s) between two frames were not moved by a
#: person: the recording jumps, or a pose was put in front of it.
JUMP, POSE = 20.0, 30.0
#: A foot stands if it is this low above its own lowest place (m) and this slow (m/s); its lowest
#: place is a quantile, as single frames may be wrong.
LOW, SLOW, LOWEST = 0.08, 1.0, 0.02
#: Seconds over which speed and flights are averaged, as a step takes about half of it.
STRIDE = 0.6


@dataclass(frozen=True, eq=False)
class Motion:
    """Places (T, J, 3) of joints in metres, the second axis up, at `rate` frames per second."""

    names: tuple[str, ...]
    positions: np.ndarray
    rate: float
    source: str = "motion"

    def __len__(self) -> int:
        return len(self.positions)

    def joint(self, usual: Sequence[str]) -> np.ndarray:
        """Places (T, 3) of the joint that has one of these names, as mixamorig:Hips too."""
        plain = [name.rpartition(":")[2] for name in self.names]
        for name in usual:
            if name in plain:
                return self.positions[:, plain.index(name)]
        what = f"there is no joint {' or '.join(usual)}"
        raise DataError(what, where=self.source, fix="rename joints as the CMU database does")

    def leg(self, what: str) -> np.ndarray:
        """Places (T, 3) of a joint of the legs, as "left knee"."""
        return self.joint(LEGS[what])

    @property
    def hips(self) -> np.ndarray:
        """Places (T, 3) of the root."""
        return self.joint(ROOT)

    def velocity(self, places: np.ndarray) -> np.ndarray:
        """Metres per second, by central differences."""
        return np.gradient(places, 1 / self.rate, axis=0)

    def hip_speed(self, seconds: float = STRIDE) -> np.ndarray:
        """Horizontal speed of the hips (m/s), averaged over about one stride."""
        moved = self.velocity(self.hips)
        return centred_mean(np.hypot(moved[:, 0], moved[:, 2]), seconds * self.rate)

    def contacts(self) -> np.ndarray:
        """Foot contacts (T, 2) of the left and the right foot."""
        return np.column_stack([self._stands("left"), self._stands("right")])

    def _stands(self, side: str) -> np.ndarray:
        standing = np.zeros(len(self), dtype=bool)
        for part in ("ankle", "ball"):
            places = self.leg(f"{side} {part}")
            low = places[:, 1] < np.quantile(places[:, 1], LOWEST) + LOW
            standing |= low & (np.linalg.norm(self.velocity(places), axis=1) < SLOW)
        return standing

    def flight_fraction(self, seconds: float = STRIDE) -> np.ndarray:
        """Share of the time without a foot on the ground, about one stride around each frame."""
        aloft = np.logical_not(self.contacts()).all(axis=1)
        return centred_mean(np.asarray(aloft), seconds * self.rate)

    def heading(self) -> np.ndarray:
        """Turns (T, 3, 3) into the frame of a person who looks along +z: left is +x, up is +y."""
        across = self.leg("left hip") - self.leg("right hip")
        across[:, 1] = 0.0
        width = np.linalg.norm(across, axis=1, keepdims=True)
        if not (width > 1e-9).all():
            raise DataError("the hips have no width", where=self.source, fix="check the skeleton")
        left, up = across / width, np.broadcast_to([0.0, 1.0, 0.0], across.shape)
        return np.stack([left, up, np.cross(left, up)], axis=1)

    def cleaned(self) -> Motion:
        """Without a pose put in front, and only the longest stretch without a jump of the hips."""
        moved = np.linalg.norm(np.diff(self.positions, axis=0), axis=2) * self.rate
        root = np.linalg.norm(np.diff(self.hips, axis=0), axis=1) * self.rate
        cut = np.flatnonzero(root > JUMP) + 1
        if len(moved) and moved[0].max() > POSE:
            cut = np.union1d(cut, [1])
        edges = [0, *cut.tolist(), len(self)]
        longest = int(np.argmax(np.diff(edges)))
        kept = slice(edges[longest], edges[longest + 1])
        return Motion(self.names, self.positions[kept], self.rate, self.source)


def read_motion(path: Path, unit: float = METRES) -> Motion:
    """A cleaned .bvh or .amc recording, in metres; `unit` is one of the file's in metres."""
    if not unit > 0:
        raise ConfigError(f"unit = {unit}", fix="give the length of a unit in metres, as 0.01")
    reader = {".bvh": read_bvh, ".amc": read_amc}.get(path.suffix.lower())
    if reader is None:
        raise DataError("is no motion", where=path.name, fix="name a .bvh or .amc file")
    found: Captured = reader(path)
    if len(found.positions) < 3:
        raise DataError("has fewer than 3 frames", where=path.name, fix="leave it out")
    return Motion(found.names, found.positions * unit, found.rate, path.name).cleaned()


def centred_mean(values: np.ndarray, window: float) -> np.ndarray:
    """Mean over a centred window of so many rows; at the ends over what there is of it."""
    half, count = max(int(window) // 2, 0), len(values)
    total = np.concatenate([[0.0], np.cumsum(values, dtype=float)])
    row = np.arange(count)
    first, last = np.maximum(row - half, 0), np.minimum(row + half + 1, count)
    return (total[last] - total[first]) / (last - first)
