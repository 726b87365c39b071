"""A body of joints: where each one is in space, from the angles that a capture system stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Skeleton:
    """Joints from the root outwards; a joint moves with the turns of all joints before it.

    `offsets` (J, 3) lead from each joint's parent to it. In BVH files an offset turns with the
    parent; in ASF files a joint is the far end of a bone that turns with the joint itself.
    """

    names: tuple[str, ...]
    parents: tuple[int, ...]  # -1 for the root; parents come first
    offsets: np.ndarray
    far_ends: bool = False  # as in ASF files

    def positions(self, root: np.ndarray, turns: np.ndarray) -> np.ndarray:
        """Places (T, J, 3) from root places (T, 3) and each joint's own turns (T, J, 3, 3)."""
        out = np.empty((*turns.shape[:2], 3))
        whole = np.empty_like(turns)  # turns of a joint and of all before it
        for j, parent in enumerate(self.parents):
            if parent < 0:
                whole[:, j] = turns[:, j]
                out[:, j] = root + self.offsets[j]
                continue
            whole[:, j] = whole[:, parent] @ turns[:, j]
            carrier = j if self.far_ends else parent
            out[:, j] = out[:, parent] + whole[:, carrier] @ self.offsets[j]
        return out


def rotations(angles: np.ndarray, order: Sequence[str]) -> np.ndarray:
    """Matrices (..., 3, 3) of turns by angles (..., n) in degrees about the axes of `order`.

    The first axis is the outermost: order "zyx" is Rz Ry Rx.

    >>> rotations(np.array([90.0]), "z").round(6)[0].tolist()
    [0.0, -1.0, 0.0]
    """
    out = np.broadcast_to(np.eye(3), (*angles.shape[:-1], 3, 3))
    for place, axis in enumerate(order):
        out = out @ _about(axis, np.radians(angles[..., place]))
    return np.ascontiguousarray(out)


def _about(axis: str, angle: np.ndarray) -> np.ndarray:
    out = np.zeros((*angle.shape, 3, 3))
    fixed = "xyz".index(axis)
    one, two = (fixed + 1) % 3, (fixed + 2) % 3
    out[..., fixed, fixed] = 1.0
    out[..., one, one] = out[..., two, two] = np.cos(angle)
    out[..., two, one] = np.sin(angle)
    out[..., one, two] = -np.sin(angle)
    return out
