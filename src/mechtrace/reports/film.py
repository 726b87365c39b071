"""A few pictures of a recording for the page, small and spread over its time."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import numpy as np

from .compact import time_numbers

if TYPE_CHECKING:
    from ..recover.trajectory import Trajectory
    from ..series import Panel

#: Pictures of one recording: as many as fit side by side and can still be made out.
MOST_FRAMES = 14
#: Pixels of the longer side of a picture.
LONGEST_SIDE = 96
#: Recordings that have pictures; a hundred kilobytes each.
MOST_FILMS = 24


def film(panel: Panel, path: Trajectory) -> dict[str, Any]:
    """Pictures of the first recording of a panel, at equal distances in time.

    Grey from 0 to 255, row by row, as base64; `every` is the distance of two pictures.
    """
    frames = panel[:1].values  # not yet read where they are in files
    count = min(MOST_FRAMES, len(frames))
    # the middles of equal stretches: the first and the last picture stay inside the axis
    rows = ((np.arange(count) + 0.5) * len(frames) / count).astype(int)
    small = reduced(np.asarray(frames[rows]))
    time = time_numbers(path.time)
    span = float(time[-1] - time[0]) * len(time) / max(len(time) - 1, 1)
    return {
        "time": time[rows].tolist(),
        "every": span / count,
        "height": small.shape[1],
        "width": small.shape[2],
        "grey": base64.b64encode(small.tobytes()).decode(),
    }


def reduced(frames: np.ndarray) -> np.ndarray:
    """Bytes (n, h, w) whose longer side is at most LONGEST_SIDE, by means over squares.

    >>> reduced(np.full((1, 192, 100), 7, dtype=np.uint8)).shape
    (1, 96, 50)
    """
    block = -(-max(frames.shape[1:]) // LONGEST_SIDE)
    height, width = (max(1, side // block) for side in frames.shape[1:])
    cut = frames[:, : height * block, : width * block].astype(np.float64)
    squares = cut.reshape(len(cut), height, cut.shape[1] // height, width, -1)
    small = squares.mean(axis=(2, 4))
    if frames.dtype != np.uint8:  # of an unknown scale: from the darkest to the brightest
        small = 255 * (small - small.min()) / max(float(np.ptp(small)), 1e-12)
    return np.round(small).astype(np.uint8)
