"""Turns of vehicles: selection by heading, and turns driven there and back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..datasets.tracks import FEWEST_BOXES, PURE, STEADY, Track


def blind_turns(tracks: Sequence[Track]) -> set[str]:
    """Names of turns from one pure direction to the other while other vehicles go straight.

    Headings alone decide, never the shape of a box; where the others turn too, the camera does.
    """
    return {
        track.name
        for track in tracks
        if track.kind == "turn" and _changes_axis(track) and _turns_alone(track, tracks)
    }


def _changes_axis(track: Track) -> bool:
    ends = np.radians([track.headings[0], track.headings[-1]])
    steep = np.abs(np.sin(ends)) / (np.abs(np.sin(ends)) + np.abs(np.cos(ends)))
    return bool(steep.min() < PURE and steep.max() > 1 - PURE)


def _turns_alone(track: Track, tracks: Sequence[Track]) -> bool:
    others = [
        part.net_turn
        for other in tracks
        if (other.sequence, other.target != track.target) == (track.sequence, True)
        and len(part := _during(other, track)) >= FEWEST_BOXES
        and part.moves
    ]
    return bool(others) and float(np.median(others)) <= STEADY


def _during(other: Track, track: Track) -> Track:
    kept = (other.frames >= track.frames[0]) & (other.frames <= track.frames[-1])
    return Track(
        other.sequence, other.target, other.segment, other.frames[kept], other.boxes[kept]
    )


def there_and_back(track: Track) -> Track:
    """Join a track with its reverse."""
    whole = track.filled()
    boxes = np.concatenate([whole.boxes, whole.boxes[::-1]])
    frames = whole.frames[0] + np.arange(len(boxes))
    return Track(track.sequence, track.target, track.segment, frames, boxes)
