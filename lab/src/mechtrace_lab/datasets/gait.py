"""Channels of a gait, independent of the place in the room, and proxies for the truth."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mechtrace.errors import ConfigError

from .motion import Motion
from .recordings import check_features

#: Joints of the skeleton proper; ends of fingers and toes are not counted by the paper.
JOINTS = 31
SIDES = ("left", "right")
SEGMENTS = {"thigh": ("hip", "knee"), "shank": ("knee", "ankle"), "foot": ("ankle", "ball")}
AXES = ("left", "up", "ahead")

Channels = dict[str, np.ndarray]


def paper_channels(motion: Motion) -> Channels:
    """The paper's 188: places and velocities of 31 joints, height and speed of the hips.

    Places are relative to the hips (the height above the floor stays) and turned with the body;
    velocities are relative to the hips too, and those of the hips are their own. In the room's
    own frame the place in the laboratory would pass for a mechanism.
    """
    joints = [j for j, name in enumerate(motion.names) if not name.endswith("End")][:JOINTS]
    turn, hips = motion.heading(), motion.hips
    moved = motion.velocity(hips)
    floor = hips * [1.0, 0.0, 1.0]
    out: Channels = {}
    for j in joints:
        place = motion.positions[:, j]
        out |= _axes(f"{motion.names[j]} place", turn, place - floor)
        speed = motion.velocity(place)
        same = np.array_equal(place, hips)
        out |= _axes(f"{motion.names[j]} velocity", turn, speed if same else speed - moved)
    out["hip height"] = hips[:, 1]
    out["hip speed"] = np.hypot(moved[:, 0], moved[:, 2])
    return out


def leg_channels(motion: Motion) -> Channels:
    """Directions of thighs, shanks and feet as seen from the body: no place, no speed, no size.

    The speed of the hips, which is the stand-in for the truth, is not among them.
    """
    turn = motion.heading()
    out: Channels = {}
    for side in SIDES:
        for segment, (upper, lower) in SEGMENTS.items():
            along = motion.leg(f"{side} {lower}") - motion.leg(f"{side} {upper}")
            along = along / np.linalg.norm(along, axis=1, keepdims=True)
            out |= _axes(f"{side} {segment}", turn, along)
    return out


FEATURES: dict[str, Callable[[Motion], Channels]] = {
    "paper": paper_channels,
    "legs": leg_channels,
}


def channels_of(motion: Motion, features: str) -> Channels:
    """Compute the channels of a set of features."""
    check_features(features, FEATURES)
    return FEATURES[features](motion)


def speed_proxy(speed: np.ndarray, walk: float, run: float, *, clip: bool = True) -> np.ndarray:
    """Appendix D.4: speed between the mean speeds of pure walks (0) and pure runs (1).

    >>> speed_proxy(np.array([0.0, 1.5, 2.5, 4.0]), 1.5, 3.5).tolist()
    [0.0, 0.0, 0.5, 1.0]
    """
    if not run > walk:
        raise ConfigError(f"running at {run:g} m/s is not faster than walking at {walk:g} m/s")
    share = (np.asarray(speed, dtype=float) - walk) / (run - walk)
    return np.clip(share, 0.0, 1.0) if clip else share


def mean_speeds(speeds: Sequence[np.ndarray], regimes: Sequence[str]) -> dict[str, float]:
    """Mean speed over all frames of each regime."""
    return {
        name: float(np.concatenate([s for s, r in zip(speeds, regimes, strict=True) if r == name])
                    .mean())
        for name in dict.fromkeys(regimes)
    }  # fmt: skip


def _axes(name: str, turn: np.ndarray, vectors: np.ndarray) -> Channels:
    turned = (turn @ vectors[..., None])[..., 0]
    return {f"{name} {axis}": turned[:, a] for a, axis in enumerate(AXES)}
