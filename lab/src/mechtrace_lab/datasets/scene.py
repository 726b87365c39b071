"""A vehicle in real frames, with camera motion removed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from .camera import camera_motion, carried, stabilised
from .trails import draw_trail, film_of
from .uavdt import numbered_frames
from .vehicle import chord_proxy

#: Frames whose median is the empty road.
ROAD = 50


@dataclass(frozen=True, eq=False)
class VehicleScene:
    """Frames as they are and steady, the empty road, and boxes of one vehicle; in pixels."""

    numbers: np.ndarray  # (n,) of the frames, 30 per second
    frames: np.ndarray  # (n, H, W)
    steady: np.ndarray  # (n, H, W), laid over the middle frame
    road: np.ndarray  # (H, W)
    boxes: np.ndarray  # (n, 4) left, top, width and height in the frames as they are
    centres: np.ndarray  # (n, 2) of the boxes, in the steady frames
    sides: np.ndarray  # (n, 2) of the boxes, in the steady frames
    scale: float  # width of these frames over that of the annotated ones

    @property
    def sizes(self) -> np.ndarray:
        """Sides (n,) of squares as large as the boxes."""
        return np.sqrt(self.sides.prod(axis=1))

    @property
    def seen_centres(self) -> np.ndarray:
        """Middle (n, 2) of the boxes in the frames as they are."""
        return self.boxes[:, :2] + self.boxes[:, 2:] / 2

    def proxy(self) -> np.ndarray:
        """The share of vertical travel (n,) over chords of 10 annotated pixels, camera steady."""
        return chord_proxy(self.centres / self.scale)

    def film(self, rows: np.ndarray) -> np.ndarray:
        """Pictures of which way the vehicle goes in some of the frames."""
        return film_of(self._trail, self.centres[rows], self.sizes[rows])

    @cached_property
    def _trail(self) -> np.ndarray:
        """Where the vehicle ever is: every film of the scene is cut out of it."""
        return draw_trail(self.steady, self.road, self.centres, self.sides)

    def rows(self, step: int) -> np.ndarray:
        """Frames that lie as near as the recording allows to so many frames apart."""
        apart = float(np.median(np.diff(self.numbers)))
        return np.arange(0, len(self.numbers), max(1, round(step / apart)))


def read_scene(frames: Path, annotation: Path, *, scale: float = 0.5) -> VehicleScene:
    """The scene of a folder of numbered frames and the boxes of one vehicle."""
    images, numbers, track = numbered_frames(frames, annotation)
    pictures, boxes = images[:], scale * track.boxes[numbers - 1]
    motion = camera_motion(pictures)
    steady = stabilised(pictures, motion)
    some = np.unique(np.linspace(0, len(steady) - 1, ROAD).round().astype(int))
    grown = np.sqrt(np.abs(np.linalg.det(motion[:, :2, :2])))  # where the camera zooms or climbs
    return VehicleScene(
        numbers=numbers,
        frames=pictures,
        steady=steady,
        road=np.median(steady[some], axis=0).astype(np.uint8),
        boxes=boxes,
        centres=carried(boxes[:, :2] + boxes[:, 2:] / 2, motion),
        sides=boxes[:, 2:] * grown[:, None],
        scale=scale,
    )
