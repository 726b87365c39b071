"""Acclaim files: the skeleton in an ASF file, the frames of a trial in an AMC file."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .bvh import Captured, read_text, refuse
from .skeleton import Skeleton, rotations

#: AMC files do not say how fast they are; those of the CMU database have this rate.
RATE = 120.0
SECTION = re.compile(r"^:(\w+)[ \t]*(.*)$", re.MULTILINE)


@dataclass
class Bone:
    """A bone as the file describes it; its joint is its far end."""

    name: str
    offset: np.ndarray
    frame: np.ndarray  # (3, 3): axes about which its angles turn
    moves: list[str] = field(default_factory=list)  # its channels, as rx, ry, rz


def read_amc(path: Path, skeleton: Path | None = None, rate: float = RATE) -> Captured:
    """Joints of every frame; the skeleton of subject 02 is looked for in 02.asf beside 02_01.amc.

    Lengths are in the unit of BVH conversions of the database: that of the skeleton, multiplied
    by its `length` (0.45), is inches, and AMC places are divided by it already.
    """
    body = skeleton or path.with_name(path.stem.partition("_")[0] + ".asf")
    bones, parents, moves = _bones(body)
    frames = _frames(path, {bone.name: bone.moves for bone in bones[1:]} | {"root": moves})
    joints = Skeleton(
        tuple(bone.name for bone in bones),
        parents,
        np.array([bone.offset for bone in bones]),
        far_ends=True,
    )
    count = len(next(iter(frames.values())))
    turns = np.broadcast_to(np.eye(3), (count, len(bones), 3, 3)).copy()
    for j, bone in enumerate(bones):
        own = moves if j == 0 else bone.moves
        turning = [c for c, name in enumerate(own) if name.startswith("r")]
        # angles turn about fixed axes, the first listed first: the last one is the outermost
        order = [own[c][1] for c in reversed(turning)]
        local = rotations(frames[bone.name][:, turning[::-1]], order)
        turns[:, j] = bone.frame @ local @ bone.frame.T
    places = [moves.index(f"t{axis}") for axis in "xyz"]
    root = frames["root"][:, places]
    return Captured(joints.names, joints.positions(root, turns), rate)


def _bones(path: Path) -> tuple[list[Bone], tuple[int, ...], list[str]]:
    """Bones with the root first, the parent of each, and the channels of the root."""
    text = re.sub(r"#.*", "", read_text(path))
    parts = SECTION.split(text)[1:]
    sections = {parts[i]: parts[i + 1] + parts[i + 2] for i in range(0, len(parts), 3)}
    if not {"root", "bonedata", "hierarchy"} <= set(sections):
        refuse(path, "lacks :root, :bonedata or :hierarchy, so it is no ASF file")
    try:
        top = _fields(sections["root"])
        bones = [Bone("root", np.zeros(3), _frame(top["orientation"], top["axis"][0]))]
        for block in re.findall(r"begin(.*?)end\b", sections["bonedata"], re.DOTALL):
            bones.append(_bone(_fields(block)))
        order = {bone.name: j for j, bone in enumerate(bones)}
        parents = [-1] * len(bones)
        for line in sections["hierarchy"].splitlines():
            parent, *children = line.split() or [""]
            for child in children:
                parents[order[child]] = order[parent]
        moves = [name.lower() for name in top["order"]]
    except (KeyError, ValueError, IndexError):
        refuse(path, "describes a skeleton that cannot be read")
    if any(parent >= j for j, parent in enumerate(parents)) or -1 in parents[1:]:
        refuse(path, "has bones without a parent, or listed before it")
    return bones, tuple(parents), moves


def _fields(block: str) -> dict[str, list[str]]:
    """The first word of each line, and the others."""
    lines = [line.split() for line in block.splitlines()]
    return {words[0]: words[1:] for words in lines if words}


def _bone(about: dict[str, list[str]]) -> Bone:
    direction = np.array(about["direction"], dtype=float)
    offset = direction / np.linalg.norm(direction) * float(about["length"][0])
    *angles, order = about["axis"]
    moves = [name.lower() for name in about.get("dof", [])]
    return Bone(about["name"][0], offset, _frame(angles, order), moves)


def _frame(angles: list[str], order: str) -> np.ndarray:
    """Axes turned by angles about fixed axes, the first of `order` first."""
    return rotations(np.array(angles, dtype=float)[::-1], order.lower()[::-1])


def _frames(path: Path, moves: dict[str, list[str]]) -> dict[str, np.ndarray]:
    """Numbers (T, channels) of each bone; a bone without channels never moves."""
    rows: dict[str, list[list[float]]] = {name: [] for name in moves}
    count = 0
    try:
        for line in read_text(path).splitlines():
            words = line.split()
            if not words or words[0][0] in "#:":
                continue
            if words[0].isdigit():
                count += 1
            else:
                rows[words[0]].append([float(word) for word in words[1:]])
        found = {
            name: np.array(values, dtype=float).reshape(count, len(moves[name]))
            for name, values in rows.items()
        }
    except (KeyError, ValueError):
        refuse(path, "has frames that do not fit the skeleton")
    if not count:
        refuse(path, "has no frames")
    return found
