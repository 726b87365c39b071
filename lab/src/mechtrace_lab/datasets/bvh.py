"""BVH files: a tree of joints with offsets and channels, then one line of numbers per frame."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from mechtrace.errors import DataError

from .skeleton import Skeleton, rotations

AXES = {"Xrotation": "x", "Yrotation": "y", "Zrotation": "z"}
PLACES = {"Xposition": 0, "Yposition": 1, "Zposition": 2}


class Captured(NamedTuple):
    """A recording in the file's own units."""

    names: tuple[str, ...]
    positions: np.ndarray  # (T, J, 3)
    rate: float  # frames per second


class Joint(NamedTuple):
    """A joint as the file describes it."""

    name: str
    parent: int
    offset: list[float]
    channels: list[str]


def read_bvh(path: Path) -> Captured:
    """Joints and ends (named after their joint, as LeftToeBaseEnd) of every frame."""
    text = read_text(path)
    head, found, body = text.partition("MOTION")
    if not found or "HIERARCHY" not in head:
        refuse(path, "has no HIERARCHY and MOTION, so it is no BVH file")
    joints = _joints(head.split()[1:], path)
    frames, rate, values = _motion(body, path)
    width = sum(len(joint.channels) for joint in joints)
    if values.size != frames * width:
        refuse(path, f"has {values.size} numbers for {frames} frames of {width} channels")
    values = values.reshape(frames, width)
    skeleton = Skeleton(
        tuple(joint.name for joint in joints),
        tuple(joint.parent for joint in joints),
        np.array([joint.offset for joint in joints]),
    )
    root = np.zeros((frames, 3))
    turns = np.broadcast_to(np.eye(3), (frames, len(joints), 3, 3)).copy()
    first = 0
    for j, joint in enumerate(joints):
        mine = values[:, first : first + len(joint.channels)]
        first += len(joint.channels)
        turning = [c for c, name in enumerate(joint.channels) if name in AXES]
        turns[:, j] = rotations(mine[:, turning], [AXES[joint.channels[c]] for c in turning])
        for c, name in enumerate(joint.channels):
            if name in PLACES and joint.parent < 0:
                root[:, PLACES[name]] = mine[:, c]
    return Captured(skeleton.names, skeleton.positions(root, turns), rate)


def _joints(words: list[str], path: Path) -> list[Joint]:
    joints: list[Joint] = []
    open_joints: list[int] = []
    at = 0
    try:
        while at < len(words):
            word = words[at]
            if word in ("ROOT", "JOINT", "End"):
                parent = open_joints[-1] if open_joints else -1
                name = joints[parent].name + "End" if word == "End" else words[at + 1]
                joints.append(Joint(name, parent, [0.0, 0.0, 0.0], []))
                at += 2
            elif word == "{":
                open_joints.append(len(joints) - 1)
                at += 1
            elif word == "}":
                open_joints.pop()
                at += 1
            elif word == "OFFSET":
                joints[open_joints[-1]].offset[:] = [float(w) for w in words[at + 1 : at + 4]]
                at += 4
            elif word == "CHANNELS":
                count = int(words[at + 1])
                joints[open_joints[-1]].channels.extend(words[at + 2 : at + 2 + count])
                at += 2 + count
            else:
                refuse(path, f"has {word!r} where a joint was expected")
    except (ValueError, IndexError):
        refuse(path, "has a hierarchy that cannot be read")
    if not joints or open_joints:
        refuse(path, "has a hierarchy that does not end")
    for joint in joints:
        unknown = [name for name in joint.channels if name not in (*AXES, *PLACES)]
        if unknown:
            refuse(path, f"has the unknown channel {unknown[0]!r}")
    return joints


def _motion(body: str, path: Path) -> tuple[int, float, np.ndarray]:
    words = body.split()
    try:
        if words[0] != "Frames:" or words[2:4] != ["Frame", "Time:"]:
            refuse(path, "does not say how many frames it has, or how long they are")
        frames, step = int(words[1]), float(words[4])
        values = np.array(words[5:], dtype=float)
    except (ValueError, IndexError):
        refuse(path, "has a motion part that cannot be read")
    if not step > 0 or not np.isfinite(values).all():
        refuse(path, "has frames without a length, or numbers that are not finite")
    return frames, 1 / step, values


def read_text(path: Path) -> str:
    """Read a text file."""
    try:
        return path.read_text(encoding="utf-8", errors="strict")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            "cannot be read as text", where=str(path), fix="name a readable file"
        ) from error


def refuse(path: Path, what: str) -> NoReturn:
    """Raise a DataError about a file."""
    raise DataError(what, where=path.name, fix="download it again, or leave it out")
