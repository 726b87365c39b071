"""Camera motion: homographies that register every frame with the middle one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from mechtrace.errors import DataError
from mechtrace.io import import_cv2

#: Corners to follow, and the window (pixels) and pyramid levels in which they are looked for.
CORNERS: dict[str, Any] = {"maxCorners": 800, "qualityLevel": 0.01, "minDistance": 6}
SEARCH: dict[str, Any] = {"winSize": (21, 21), "maxLevel": 4}
#: Pixels by which a corner may miss its place when it is followed there and back.
THERE_AND_BACK = 0.3
#: Pixels by which a corner of the ground may miss the common motion; vehicles miss it by more.
GROUND = 0.7
#: A homography has eight unknowns; it is trusted with so many corners of the ground, and so
#: large a share of all that were to be followed.
FEWEST, LEAST_SHARE = 12, 0.25


def camera_motion(frames: np.ndarray) -> np.ndarray:
    """Homographies (n, 3, 3) from grey frames (n, H, W) to the middle frame.

    Every frame is compared with the middle one directly, so that errors do not add up. Where too
    little of that is left in sight, the last frame that was placed takes over as the key.
    """
    middle = len(frames) // 2
    motion = np.repeat(np.eye(3)[None], len(frames), axis=0)
    _follow(frames, motion, middle, range(middle + 1, len(frames)))
    _follow(frames, motion, middle, range(middle - 1, -1, -1))
    return motion


def stabilised(frames: np.ndarray, motion: np.ndarray) -> np.ndarray:
    """Register the frames with the middle one."""
    cv2 = import_cv2()
    size = frames.shape[2], frames.shape[1]
    return np.stack(
        [
            cv2.warpPerspective(frame, one, size, borderMode=cv2.BORDER_REPLICATE)
            for frame, one in zip(frames, motion, strict=True)
        ]
    )


def carried(places: np.ndarray, motion: np.ndarray) -> np.ndarray:
    """Map one point (n, 2) of each frame to the middle frame.

    >>> shift = np.array([[[1.0, 0, 5], [0, 1, -2], [0, 0, 1]]])
    >>> carried(np.array([[10.0, 20.0]]), shift).tolist()
    [[15.0, 18.0]]
    """
    moved = np.einsum("nij,nj->ni", motion, np.column_stack([places, np.ones(len(places))]))
    return moved[:, :2] / moved[:, 2:]


def _follow(frames: np.ndarray, motion: np.ndarray, first: int, rows: Iterable[int]) -> None:
    """Fill in the motion of rows that lead away from the first."""
    key, last, corners = first, first, _corners(frames[first])
    for row in rows:
        found = _between(frames[key], corners, frames[row])
        if found is None:
            key, corners = last, _corners(frames[last])
            found = _between(frames[key], corners, frames[row])
        if found is None:
            what = f"the camera is lost between frames {last} and {row} of {len(frames)}"
            raise DataError(what, fix="give more frames per second, or a stretch without cuts")
        motion[row] = motion[key] @ found
        motion[row] /= motion[row, 2, 2]
        last = row


def _corners(frame: np.ndarray) -> np.ndarray:
    """Places (n, 1, 2) that can be told from their surroundings."""
    found = import_cv2().goodFeaturesToTrack(frame, **CORNERS)
    return np.zeros((0, 1, 2), np.float32) if found is None else found


def _between(key: np.ndarray, corners: np.ndarray, frame: np.ndarray) -> np.ndarray | None:
    """Homography (3, 3) from a frame to the key, None where too few corners agree on one."""
    if len(corners) < FEWEST:
        return None
    cv2 = import_cv2()
    there, seen, _ = cv2.calcOpticalFlowPyrLK(key, frame, corners, None, **SEARCH)
    back, seen_again, _ = cv2.calcOpticalFlowPyrLK(frame, key, there, None, **SEARCH)
    kept = (seen & seen_again).ravel() == 1
    kept &= np.abs(back - corners).max(axis=(1, 2)) < THERE_AND_BACK
    if kept.sum() < FEWEST:
        return None
    found, ground = cv2.findHomography(there[kept], corners[kept], cv2.RANSAC, GROUND)
    if found is None or ground.sum() < max(FEWEST, LEAST_SHARE * len(corners)):
        return None
    return np.asarray(found)
