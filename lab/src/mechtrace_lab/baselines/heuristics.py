"""Vehicle heuristics: the direction of travel, from a track or from optical flow.

For two regimes only, one of vertical and one of horizontal travel. As direction is also what the
proxy of such recordings is made of, these are what any method must be compared with.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from mechtrace.data import Panel, find_runs, training_runs
from mechtrace.errors import DataError
from mechtrace.stage1 import Listener

from .features import curves_of, optional
from .protocol import Method, Traits, Truth

#: Rows over which a velocity is averaged: boxes in whole pixels make shorter ones noise.
CHORD = 15
#: Names of the two channels of a track; without them the first two channels are taken.
TRACKS = (("x", "y"), ("cx", "cy"))
#: Share of each side of a frame whose motion is taken for the camera's.
BORDER = 1 / 8
#: A pixel moves with the object if it is at least this share as fast as the fastest.
MOVING = 0.5
#: Motion in pixels per frame below which nothing moves.
STILL = 0.05
#: Farneback's pyramid scale, levels, window, iterations, neighbourhood, its width and flags.
FARNEBACK = (0.5, 3, 15, 3, 5, 1.2, 0)


def direction_proxy(track: np.ndarray, chord: int = CHORD) -> np.ndarray:
    """|vy| / (|vx| + |vy|) of centres (T, 2), velocities averaged over `chord` rows.

    NaN where nothing moves.

    >>> direction_proxy(np.column_stack([np.arange(4.0), 3 * np.arange(4.0)])).tolist()
    [0.75, 0.75, 0.75, 0.75]
    """
    if len(track) < 2:
        return np.full(len(track), np.nan)
    return _steepness(np.gradient(np.asarray(track, float), axis=0), chord, 0.0)


def flow_direction(frames: np.ndarray, chord: int = CHORD, *, ego: bool = True) -> np.ndarray:
    """|vy| / (|vx| + |vy|) of what moves in grey frames (T, H, W), by dense optical flow.

    `ego` takes the motion of the border away first, for cameras that move. NaN where nothing
    moves.
    """
    if len(frames) < 2:
        return np.full(len(frames), np.nan)
    flow = optional("cv2").calcOpticalFlowFarneback
    grey = _eight_bits(frames)
    moved = [_object_motion(flow(one, two, None, *FARNEBACK), ego) for one, two in pairwise(grey)]
    # a row has the motion since the row before; the first has none of its own
    return _steepness(np.stack([moved[0], *moved]), chord, STILL)


def flow_in_boxes(frames: np.ndarray, boxes: np.ndarray, chord: int = CHORD) -> np.ndarray:
    """Direction of what moves in a box (left, top, width, height) of each grey frame.

    The motion of the camera has to be taken out of the frames before, if at all.
    """
    flow = optional("cv2").calcOpticalFlowFarneback
    low = np.maximum(np.floor(boxes[:, :2]).astype(int), 0)
    high = np.maximum(np.ceil(boxes[:, :2] + boxes[:, 2:]).astype(int), low + 1)
    moved = [
        _object_motion(flow(one, two, None, *FARNEBACK)[top:bottom, left:right], ego=False)
        for (one, two), (left, top), (right, bottom) in zip(
            pairwise(frames), low, high[:-1], strict=False
        )
    ]
    return _steepness(np.stack([*moved, moved[-1]]), chord, STILL)


class Heuristic(Method):
    """Weights (1 - a, a) from the vertical share a of the motion."""

    def _learn(self, panel: Panel, listeners: Sequence[Listener], truth: Truth | None) -> None:
        self._check_kind(panel)
        if len(panel.regimes) != 2:
            raise DataError(
                f"{self.traits.title} tells two regimes apart, and these recordings have"
                f" {len(panel.regimes)}",
                where=panel.source,
                fix="select two of them",
            )
        training_runs(panel, 1)
        # each stretch of one regime alone, so that the chord never looks at the other
        runs = find_runs(panel, by_regime=True)
        steep, total = np.zeros(2), np.zeros(2)
        for start, length, code in zip(runs.start, runs.length, runs.regime, strict=True):
            found = self._proxy(panel, slice(start, start + length))
            known = np.isfinite(found)
            steep[code] += found[known].sum()
            total[code] += known.sum()
        if not total.all():
            still = panel.regimes[int(total.argmin())]
            raise DataError(f"nothing moves in the recordings of {still!r}", where=panel.source)
        self._steep = int((steep / total).argmax())
        self.regimes_ = tuple(panel.regimes)

    def _weights(self, panel: Panel) -> list[np.ndarray]:
        runs = find_runs(panel, by_regime=False)
        found = [
            self._proxy(panel, slice(start, start + length))
            for start, length in zip(runs.start, runs.length, strict=True)
        ]
        share = np.concatenate([np.zeros(0), *found])
        pair = [1 - share, share] if self._steep else [share, 1 - share]
        return curves_of(panel, runs.row_numbers(), np.stack(pair, axis=1))

    @abstractmethod
    def _check_kind(self, panel: Panel) -> None:
        """Refuse a panel that does not hold what the heuristic looks at."""

    @abstractmethod
    def _proxy(self, panel: Panel, rows: slice) -> np.ndarray:
        """Steepness (T,) of rows without a gap."""


class Centroid(Heuristic):
    """Direction of a tracked centre; the channels x, y or cx, cy, else the first two."""

    traits = Traits(
        title="Centroid tracking",
        about="Direction in which the tracked centre moves.",
    )

    def _check_kind(self, panel: Panel) -> None:
        if panel.is_image or panel.shape[0] < 2:
            what = "frames" if panel.is_image else "a single channel"
            raise DataError(
                f"{self.traits.title} needs a track of two channels, and this is {what}",
                where=panel.source,
                fix="give the centres x and y, or use optical-flow for frames",
            )

    def _proxy(self, panel: Panel, rows: slice) -> np.ndarray:
        return direction_proxy(panel.values[rows][:, _track_columns(panel.channels)])


class OpticalFlow(Heuristic):
    """Direction of the moving pixels, with the camera's own motion taken away."""

    traits = Traits(
        title="Optical flow",
        about="Direction in which the moving pixels of grey frames go.",
        package="cv2",
    )
    #: whether the motion of the frame's border is taken away
    ego: bool = True

    def _check_kind(self, panel: Panel) -> None:
        if not panel.is_image:
            raise DataError(
                f"{self.traits.title} needs grey frames, and these are channels",
                where=panel.source,
                fix="give (T, height, width) arrays, or use centroid for tracks",
            )
        optional("cv2")

    def _proxy(self, panel: Panel, rows: slice) -> np.ndarray:
        return flow_direction(np.asarray(panel.values[rows]), ego=self.ego)


def _steepness(velocity: np.ndarray, chord: int, still: float) -> np.ndarray:
    """|vy| / (|vx| + |vy|) of the centred moving average of velocities (T, 2)."""
    half = chord // 2
    sums = np.concatenate([np.zeros((1, 2)), np.cumsum(velocity, axis=0)])
    row = np.arange(len(velocity))
    last, first = np.minimum(row + half + 1, len(velocity)), np.maximum(row - half, 0)
    mean = np.abs(sums[last] - sums[first]) / (last - first)[:, None]
    total = mean.sum(axis=1)
    moves = total > max(still, 1e-9 * float(np.abs(velocity).max(initial=0.0)))
    return np.where(moves, mean[:, 1] / np.where(moves, total, 1.0), np.nan)


def _object_motion(flow: np.ndarray, ego: bool) -> np.ndarray:
    """Median motion (2,) of the pixels that move fastest."""
    if ego:
        edge = max(1, round(BORDER * min(flow.shape[:2])))
        outer = np.ones(flow.shape[:2], bool)
        outer[edge:-edge, edge:-edge] = False
        flow = flow - np.median(flow[outer], axis=0)
    speed = np.hypot(flow[..., 0], flow[..., 1])
    return np.median(flow[speed >= MOVING * speed.max()], axis=0).astype(np.float64)


def _eight_bits(frames: np.ndarray) -> np.ndarray:
    """Frames as OpenCV wants them; their darkest and brightest pixels are 0 and 255."""
    if frames.dtype == np.uint8:
        return frames
    low, high = float(frames.min()), float(frames.max())
    return np.round(255 * (frames - low) / max(high - low, 1e-12)).astype(np.uint8)


def _track_columns(channels: Sequence[str]) -> list[int]:
    names = [name.lower() for name in channels]
    for pair in TRACKS:
        if all(name in names for name in pair):
            return [names.index(name) for name in pair]
    return [0, 1]
