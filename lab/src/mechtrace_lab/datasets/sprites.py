"""Films of vehicles of which only the boxes are known: a real vehicle painted on a real road.

The boxes say where it drives and how large it is; what it looks like is cut out of other frames.
From there on a painted recording goes the same way as a real one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from mechtrace.io import import_cv2

from .scene import VehicleScene
from .tracks import Track
from .trails import DIFFERENT, box_slices, draw_trail, film_of


class Sprite(NamedTuple):
    """A vehicle cut out of a frame: its pixels (h, w), and which of them are its own."""

    pixels: np.ndarray
    own: np.ndarray


def cut_out(scene: VehicleScene, rows: Sequence[int] | range) -> list[Sprite]:
    """The vehicle of a scene in some of its frames."""
    found = []
    for row in rows:
        box = box_slices(scene.centres[row], scene.sides[row], scene.road.shape)
        pixels = scene.steady[row][box].astype(np.int16)
        own = np.abs(pixels - scene.road[box]) > DIFFERENT
        found.append(Sprite(scene.steady[row][box], own))
    return found


def painted_film(track: Track, sprite: Sprite, scene: VehicleScene, step: int) -> np.ndarray:
    """Pictures, every so many frames, of a sprite that moves as the track on a scene's road."""
    track = track.filled()
    centres, sides = scene.scale * track.centres, scene.scale * track.boxes[:, 2:]
    trail = draw_trail(painted(sprite, scene.road, centres, sides), scene.road, centres, sides)
    return film_of(trail, centres[::step], scene.scale * track.size[::step])


def painted(
    sprite: Sprite, road: np.ndarray, centres: np.ndarray, sides: np.ndarray
) -> Iterator[np.ndarray]:
    """The road with a sprite that fills one box after the other."""
    cv2 = import_cv2()
    for centre, side in zip(centres, sides, strict=True):
        width, height = np.maximum(np.round(side), 1).astype(int)
        left, top = np.round(centre - side / 2).astype(int)
        pixels = cv2.resize(sprite.pixels, (width, height))
        own = cv2.resize(sprite.own.astype(np.uint8), (width, height)) > 0
        rows, columns = np.nonzero(own)
        inside = (rows + top >= 0) & (rows + top < road.shape[0])
        inside &= (columns + left >= 0) & (columns + left < road.shape[1])
        rows, columns = rows[inside], columns[inside]
        frame = road.copy()
        frame[rows + top, columns + left] = pixels[rows, columns]
        yield frame
