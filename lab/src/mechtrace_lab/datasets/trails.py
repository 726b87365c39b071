"""Pictures of which way a vehicle goes: the trail that it draws, seen from the vehicle.

All places in which the vehicle differs from the empty road make one picture, its trail (the
motion-energy image of Bobick and Davis, 2001). A film shows, for every step, where the trail
crosses a ring around the vehicle. The ring is measured in sizes of the vehicle and holds no time,
so neither distance nor speed matters; and as the trail lies on both sides, nothing lags behind.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mechtrace.io import import_cv2

#: Grey levels by which a vehicle differs from the road.
DIFFERENT = 15
#: A frame adds to the trail what differs within its box, made larger by this factor.
AROUND = 1.2
#: Inner and outer radius of the ring, and the stretch of both axes that a picture shows; in sizes
#: of the vehicle from its middle.
RING, SHOWN = (1.0, 2.0), (-0.75, 2.25)
#: Pixels on a side of a picture, and of the finer one that it is made of; radius of the blur in
#: sizes: a spot with soft edges is followed evenly by key points.
SIDE, FINE, BLUR = 32, 96, 0.2


def draw_trail(
    frames: Iterable[np.ndarray], road: np.ndarray, centres: np.ndarray, sides: np.ndarray
) -> np.ndarray:
    """Where (H, W) the vehicle with these boxes (n, 2) ever covers the road: 255, else 0."""
    cv2 = import_cv2()
    trail = np.zeros(road.shape, np.uint8)
    for frame, centre, side in zip(frames, centres, sides, strict=True):
        box = box_slices(centre, AROUND * side, road.shape)
        if trail[box].size:
            trail[box][cv2.absdiff(frame[box], road[box]) > DIFFERENT] = 255
    return trail


def film_of(trail: np.ndarray, centres: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Pictures (n, SIDE, SIDE) of the trail around each centre, whichever way it leads.

    The way ahead is laid over the way behind, and what leads up over what leads down, so that a
    spot on the right means horizontal, and one at the bottom vertical travel.
    """
    cv2 = import_cv2()
    half = SHOWN[1]
    pixel = 2 * half / FINE
    steps = (np.arange(FINE) + 0.5) * pixel - half
    x, y = np.meshgrid(steps, steps)
    radius = np.hypot(x, y)
    ring = ((radius >= RING[0]) & (radius <= RING[1])).astype(np.uint8)
    first = round((SHOWN[0] + half) / pixel)
    film = np.empty((len(centres), SIDE, SIDE), np.uint8)
    for row, (centre, size) in enumerate(zip(centres, sizes, strict=True)):
        step = size * pixel
        corner = np.asarray(centre) + size * steps[0]
        window = np.array([[step, 0, corner[0]], [0, step, corner[1]]])
        how = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        seen = cv2.warpAffine(trail, window, (FINE, FINE), flags=how) * ring
        seen = np.maximum(seen, seen[::-1, ::-1])
        if (seen * x * y).sum() < 0:
            seen = seen[:, ::-1]
        soft = cv2.GaussianBlur(np.ascontiguousarray(seen), (0, 0), BLUR / pixel)
        film[row] = cv2.resize(soft[first:, first:], (SIDE, SIDE), interpolation=cv2.INTER_AREA)
    return film


def spot_direction(film: np.ndarray) -> np.ndarray:
    """|y| / (|x| + |y|) of the middle of the spot in each picture; NaN where there is none."""
    low, high = SHOWN
    steps = low + (np.arange(SIDE) + 0.5) * (high - low) / SIDE
    x, y = np.abs(film.sum(axis=1) @ steps), np.abs(film.sum(axis=2) @ steps)
    with np.errstate(invalid="ignore"):
        return y / (x + y)


def box_slices(
    centre: np.ndarray, side: np.ndarray, shape: tuple[int, ...]
) -> tuple[slice, slice]:
    """Rows and columns of a box, as far as they are in the picture."""
    low = np.clip(np.round(centre - side / 2), 0, shape[1::-1]).astype(int)
    high = np.clip(np.round(centre + side / 2), 0, shape[1::-1]).astype(int)
    return slice(low[1], high[1]), slice(low[0], high[0])
