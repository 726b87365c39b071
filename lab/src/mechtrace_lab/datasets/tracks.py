"""Boxes of vehicles over time: tracks, where they head, and what class of track that makes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from .bvh import read_text, refuse
from .motion import centred_mean

#: A track goes on over so many missing frames, and counts from so many boxes on.
LONGEST_GAP, FEWEST_BOXES = 3, 20
#: Frames over which centres are averaged, and pixels of a chord, before a heading is taken: boxes
#: are in whole pixels, and most vehicles move by one or two of them per frame.
SMOOTH, CHORD = 15, 15.0
#: Straight tracks stay within so many degrees; turns make at least so many, and not twice that
#: much back and forth.
STRAIGHT, TURN, HALF_TURN, BACK = 35.0, 60.0, 180.0, 1.3
#: Share of vertical travel below which, or one minus which above, a straight track is pure.
PURE = 1 / 3
#: A track that covers fewer pixels, or fewer of its own sizes, hardly moves.
LEAST_PATH, LEAST_SIZES = 40.0, 4.0
#: In a sequence whose moving tracks turn by more than this in the middle, the camera turns.
STEADY = 30.0


@dataclass(frozen=True, eq=False)
class Track:
    """Boxes (n, 4) as left, top, width and height in the frames (n,) of one vehicle."""

    sequence: str
    target: int
    segment: int  # a vehicle that is lost for long has several tracks
    frames: np.ndarray
    boxes: np.ndarray

    def __len__(self) -> int:
        return len(self.frames)

    @property
    def name(self) -> str:
        """As M0203/27/0: sequence, target and segment."""
        return f"{self.sequence}/{self.target}/{self.segment}"

    @property
    def centres(self) -> np.ndarray:
        """Middle of each box, (n, 2)."""
        return self.boxes[:, :2] + self.boxes[:, 2:] / 2

    @property
    def size(self) -> np.ndarray:
        """Side of a square of the box's area, (n,)."""
        return np.sqrt(self.boxes[:, 2] * self.boxes[:, 3])

    @cached_property
    def smooth(self) -> np.ndarray:
        """Centres averaged over some frames."""
        return np.column_stack([centred_mean(column, SMOOTH) for column in self.centres.T])

    @cached_property
    def path(self) -> float:
        """Pixels travelled."""
        return float(np.linalg.norm(np.diff(self.smooth, axis=0), axis=1).sum())

    @cached_property
    def headings(self) -> np.ndarray:
        """Directions in degrees from chord to chord, never jumping by a full circle."""
        found, last = [], self.smooth[0]
        for place in self.smooth[1:]:
            if np.linalg.norm(place - last) >= CHORD:
                found.append(np.arctan2(*(place - last)[::-1]))
                last = place
        return np.degrees(np.unwrap(found)) if found else np.zeros(1)

    @property
    def net_turn(self) -> float:
        """Degrees between the first heading and the last."""
        return float(abs(self.headings[-1] - self.headings[0]))

    @property
    def heading_range(self) -> float:
        """Degrees between the two headings that are furthest apart."""
        return float(np.ptp(self.headings))

    @property
    def vertical_share(self) -> float:
        """|dy| / (|dx| + |dy|) from the first centre to the last."""
        gone = np.abs(self.centres[-1] - self.centres[0])
        return float(gone[1] / gone.sum()) if gone.any() else 0.5

    @property
    def moves(self) -> bool:
        """Whether it covers some distance."""
        return self.path >= max(LEAST_PATH, LEAST_SIZES * float(self.size.mean()))

    @property
    def kind(self) -> str:
        """static, horizontal, vertical, turn (to be looked at: it may be the camera) or other."""
        if not self.moves:
            return "static"
        if TURN <= self.net_turn <= HALF_TURN and self.heading_range <= BACK * self.net_turn:
            return "turn"
        if self.heading_range < STRAIGHT and self.vertical_share < PURE:
            return "horizontal"
        if self.heading_range < STRAIGHT and self.vertical_share > 1 - PURE:
            return "vertical"
        return "other"

    def filled(self) -> Track:
        """With a box in every frame, missing ones between their neighbours."""
        frames = np.arange(self.frames[0], self.frames[-1] + 1)
        boxes = [np.interp(frames, self.frames, column) for column in self.boxes.T]
        return Track(self.sequence, self.target, self.segment, frames, np.column_stack(boxes))


def read_tracks(path: Path) -> list[Track]:
    """Tracks of a MOT text file: frame, target, left, top, width, height and more."""
    rows = _numbers(path, least=6)
    sequence = path.name.partition("_")[0]
    out = []
    for target in np.unique(rows[:, 1]):
        mine = rows[rows[:, 1] == target]
        mine = mine[np.argsort(mine[:, 0], kind="stable")]
        if (np.diff(mine[:, 0]) == 0).any():
            refuse(path, f"has two boxes of target {target:.0f} in one frame")
        cuts = np.flatnonzero(np.diff(mine[:, 0]) > LONGEST_GAP + 1) + 1
        for segment, part in enumerate(np.split(mine, cuts)):
            if len(part) >= FEWEST_BOXES:
                out.append(Track(sequence, int(target), segment, part[:, 0], part[:, 2:6]))
    return out


def read_target(path: Path) -> Track:
    """The track of a single-target file: left, top, width, height of frame 1, 2, ..."""
    boxes = _numbers(path, least=4)[:, :4]
    frames = np.arange(1.0, len(boxes) + 1)
    return Track(path.name.partition("_")[0], 1, 0, frames, boxes)


def steady_camera(tracks: Iterable[Track]) -> tuple[bool, float]:
    """Whether the moving tracks of a sequence go straight in the middle, and their median turn.

    Where a drone turns or pans, all vehicles seem to.
    """
    turns = [track.net_turn for track in tracks if track.moves]
    typical = float(np.median(turns)) if turns else 0.0
    return typical <= STEADY, typical


def _numbers(path: Path, least: int) -> np.ndarray:
    try:
        lines = read_text(path).replace(",", " ").splitlines()
        rows = np.array([line.split() for line in lines if line.strip()], dtype=float)
    except ValueError:
        refuse(path, "has lines of unequal length, or words among its numbers")
    if rows.ndim != 2 or rows.shape[1] < least or not np.isfinite(rows).all():
        refuse(path, f"has no lines of at least {least} numbers")
    return rows
