"""UAVDT: tracks of vehicles seen by a drone become a Panel; straight ones name the regimes."""

from __future__ import annotations

import csv
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mechtrace.data import Panel, PathLike
from mechtrace.errors import DataError, DataWarning
from mechtrace.io import ImageFiles, natural_key

from .recordings import Recordings, data_folder
from .tracks import Track, read_target, read_tracks, steady_camera
from .vehicle import channels_of, chord_proxy, literal_proxy

NAME = "uavdt"
COMMAND = "mechtrace datasets uavdt"
RATE = 30.0
REGIMES = ("horizontal", "vertical")
PROXIES = ("proxy", "literal proxy")
INDEX = "track_index.csv"

Turns = Literal["verified", "candidates"]


def read(
    folder: PathLike | None = None,
    *,
    features: str = "direction",
    turns: Turns = "verified",
    sequences: Sequence[str] | None = None,
) -> Recordings:
    """Straight horizontal and vertical tracks as regimes, turns without a label.

    `features` is "motion" (place and velocity, the paper's four), "direction" (the axis of travel
    and the speed in box sizes), "folded" (how far across and along it moves, of a unit, and that
    speed) or "shape" (of the box alone). Turns are those that
    `track_index.csv` lists as verified by eye, or all "candidates" by the paper's criteria, many
    of which are turns of the camera: sequences in which most tracks turn are warned about. The
    sequence is the group. Beside the channels are the proxy of appendix D.3 over chords of at
    least 10 pixels, and to the letter.
    """
    place = data_folder(NAME, folder, COMMAND)
    every = tracks_of(place, sequences)
    verified = verified_turns(place) if turns == "verified" else None
    chosen = [(track, kind) for track in every if (kind := _label(track, verified)) is not None]
    if not chosen:
        raise DataError("holds no straight track and no turn", where=str(place))
    tracks, labels = zip(*chosen, strict=True)
    return recordings_of(tracks, labels, features, f"{len(tracks)} tracks of {place.name}")


def recordings_of(
    tracks: Sequence[Track], labels: Sequence[str], features: str, source: str = "tracks"
) -> Recordings:
    """Tracks as recordings; a label is a regime, or '' for a turn."""
    whole = [track.filled() for track in tracks]
    tables = [channels_of(track, features) for track in whole]
    about: dict[str, Any] = {
        "time": [track.frames / RATE for track in whole],
        "names": [track.name for track in whole],
        "groups": [track.sequence for track in whole],
        "missing": "gap",  # a vehicle that waits has no direction
        "source": source,
    }
    panel = Panel.from_arrays(
        [np.column_stack(list(table.values())) for table in tables],
        regime=list(labels),
        channels=list(tables[0]),
        **about,
    )
    proxies = [
        np.column_stack([chord_proxy(track.centres), literal_proxy(track.centres)])
        for track in whole
    ]
    return Recordings(panel, Panel.from_arrays(proxies, channels=PROXIES, **about))


def tracks_of(folder: Path, sequences: Sequence[str] | None = None) -> list[Track]:
    """The tracks of all sequences in the folder, or of these; moving cameras are warned about."""
    files = sorted(folder.rglob("*_gt_whole.txt"), key=lambda path: natural_key(path.name))
    known = [path.name.partition("_")[0] for path in files]
    missing = [name for name in sequences or () if name not in known]
    if not files or missing:
        what = f"lacks {missing[0]}_gt_whole.txt" if missing else "holds no *_gt_whole.txt file"
        raise DataError(what, where=str(folder), fix=f"`{COMMAND}` says where they come from")
    out: list[Track] = []
    for path, name in zip(files, known, strict=True):
        if sequences is not None and name not in sequences:
            continue
        tracks = read_tracks(path)
        steady, turn = steady_camera(tracks)
        if not steady:
            said = f"{name}: most moving tracks turn by {turn:.0f} degrees, so the camera seems to"
            warnings.warn(f"{said} turn; do not take its turns for those of vehicles", DataWarning,
                          stacklevel=2)  # fmt: skip
        out += tracks
    return out


def verified_turns(folder: Path) -> set[str]:
    """Names of the tracks that `track_index.csv` says were looked at."""
    path = folder / INDEX
    if not path.exists():
        fix = 'take turns="candidates", which may be turns of the camera'
        raise DataError("there is no list of verified turns", where=str(path), fix=fix)
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return {
                f"{row['seq']}/{int(row['track_id'])}/{int(row['segment'])}"
                for row in csv.DictReader(file)
                if row["class"] == "turn_verified"
            }
    except (KeyError, ValueError, UnicodeDecodeError) as error:
        fix = "give it the columns seq, track_id, segment and class"
        raise DataError("is no index of tracks", where=str(path), fix=fix) from error


def _label(track: Track, verified: set[str] | None) -> str | None:
    """A regime, '' for a turn, None for what is left out."""
    if verified is not None and track.name in verified:
        return ""
    if verified is None and track.kind == "turn":
        return ""
    return track.kind if track.kind in REGIMES else None


def numbered_frames(frames: Path, annotation: Path) -> tuple[ImageFiles, np.ndarray, Track]:
    """Images of a folder, the frames that their names number, and the boxes of all frames."""
    track = read_target(annotation)
    images = ImageFiles.of(frames)
    found = [re.findall(r"\d+", path.stem) for path in images.files]
    numbers = np.array([int(parts[-1]) if parts else 0 for parts in found])
    if not 1 <= numbers.min() <= numbers.max() <= len(track):
        fix = "name a folder of img000001.jpg, ... and the annotation of its sequence"
        raise DataError("holds no numbered frames of this annotation", where=str(frames), fix=fix)
    return images, numbers, track
