"""What is seen of a vehicle in its boxes, and the paper's stand-in for the truth."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .recordings import check_features
from .tracks import Track

#: Pixels over which a direction is taken: boxes are in whole pixels.
CHORD = 10.0
#: A vehicle that takes more frames for them (two seconds) waits.
PATIENCE = 60

Channels = dict[str, np.ndarray]


def literal_proxy(centres: np.ndarray) -> np.ndarray:
    """Appendix D.3 to the letter: |sin| / (|cos| + |sin|) of the step to the next centre.

    NaN where that step is zero; the last row has the value of the one before.

    >>> literal_proxy(np.array([[0.0, 0.0], [3.0, 1.0], [3.0, 2.0]])).tolist()
    [0.25, 1.0, 1.0]
    """
    steps = np.abs(np.diff(centres, axis=0))
    return _steepness(np.concatenate([steps, steps[-1:]]))


def chord_proxy(centres: np.ndarray, chord: float = CHORD) -> np.ndarray:
    """The same over the shortest centred chord of at least so many pixels; NaN without one."""
    return _steepness(np.abs(chord_velocity(centres, chord)))


def chord_velocity(
    centres: np.ndarray, chord: float = CHORD, patience: int | None = None
) -> np.ndarray:
    """Pixels per frame (n, 2) over the shortest centred chord that is long enough.

    At the ends of a track a chord is cut off on one side; NaN where no chord is long enough, or
    none within `patience` frames.
    """
    count = len(centres)
    row = np.arange(count)
    out = np.full((count, 2), np.nan)
    for half in range(1, count if patience is None else min(count, patience // 2 + 1)):
        open_rows = row[np.isnan(out[:, 0])]
        if not len(open_rows):
            break
        first, last = np.maximum(open_rows - half, 0), np.minimum(open_rows + half, count - 1)
        moved = centres[last] - centres[first]
        enough = np.linalg.norm(moved, axis=1) >= chord
        out[open_rows[enough]] = (moved / (last - first)[:, None])[enough]
    return out


def waits(centres: np.ndarray) -> np.ndarray:
    """Rows (n,) at which a vehicle hardly moves, so that it has no direction."""
    return np.isnan(chord_velocity(centres, patience=PATIENCE)[:, 0])


def _steepness(speed: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return speed[:, 1] / speed.sum(axis=1)


def motion_channels(track: Track) -> Channels:
    """The paper's four: place and velocity in pixels; of the velocity the proxy is made.

    No velocity where it waits: what jitters there is the box.
    """
    velocity = np.gradient(track.centres, axis=0)
    velocity[waits(track.centres)] = np.nan
    return {
        "x": track.centres[:, 0],
        "y": track.centres[:, 1],
        "vx": velocity[:, 0],
        "vy": velocity[:, 1],
    }


def direction_channels(track: Track) -> Channels:
    """The axis of travel, whichever way, and the speed in sizes of the box per frame.

    NaN where it waits.
    """
    velocity = chord_velocity(track.centres, patience=PATIENCE)
    twice = 2 * np.arctan2(velocity[:, 1], velocity[:, 0])
    speed = np.linalg.norm(velocity, axis=1) / track.size
    return {"cos 2 heading": np.cos(twice), "sin 2 heading": np.sin(twice), "speed": speed}


def folded_channels(track: Track) -> Channels:
    """The heading folded into a quarter turn, and the speed in sizes of the box per frame.

    No more is known than by `direction_channels`, but less far from the formula of the proxy.
    """
    velocity = np.abs(chord_velocity(track.centres, patience=PATIENCE))
    pace = np.linalg.norm(velocity, axis=1)
    across, along = (velocity / pace[:, None]).T
    return {"|cos heading|": across, "|sin heading|": along, "speed": pace / track.size}


def shape_channels(track: Track) -> Channels:
    """The shape of the box alone: nothing of where it is or how it moves."""
    return {"log aspect": np.log(track.boxes[:, 2] / track.boxes[:, 3])}


FEATURES: dict[str, Callable[[Track], Channels]] = {
    "motion": motion_channels,
    "direction": direction_channels,
    "folded": folded_channels,
    "shape": shape_channels,
}


def channels_of(track: Track, features: str) -> Channels:
    """Compute the channels of a set of features."""
    check_features(features, FEATURES)
    return FEATURES[features](track)
