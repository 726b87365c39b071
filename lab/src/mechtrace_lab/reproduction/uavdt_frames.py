"""A vehicle that turns, in real frames: alpha(t) from pixels beside the direction of travel.

Learned from films of straight vehicles: one real vehicle, painted on a real road, moves as
vehicles did whose boxes are known. The recording in question is only looked at.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from mechtrace.data import Panel, PathLike
from mechtrace.errors import DataError
from mechtrace.estimator import Trace
from mechtrace.io import versions
from mechtrace.stage1 import resolve_device
from mechtrace.stage2 import Trajectory

from ..baselines.heuristics import direction_proxy, flow_in_boxes
from ..benchmarks import machine
from ..datasets.recordings import data_folder
from ..datasets.scene import VehicleScene, read_scene
from ..datasets.sprites import Sprite, cut_out, painted_film
from ..datasets.tracks import Track
from ..datasets.trails import spot_direction
from ..datasets.uavdt import COMMAND, NAME, REGIMES, tracks_of, verified_turns
from ..datasets.vehicle import chord_proxy, literal_proxy

logger = logging.getLogger(__name__)

#: The sequence whose road and vehicle the painted films show, and those that are recovered.
PAINTED, RECOVERED = "S1606", ("S1606", "S1301")
#: Its first frames, in which the vehicle goes straight, give what it looks like.
LOOKS = 30
#: Frames between two pictures: 6 pictures per second.
STEP = 5
#: Frames of the moving averages beside it.
AVERAGES = (15, 45)
#: What needs no learning.
HEURISTICS = (
    "straight line in time",
    "centroid",
    "centroid, camera steady, frame by frame",
    *(f"centroid, camera steady, mean of {frames}" for frames in AVERAGES),
    "optical flow",
    "optical flow, camera steady",
    "middle of the spot in the trail picture",
)
ROUND = 4

Curves = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Footage:
    """Frames to recover, tracks for painted films, and sprites."""

    scenes: dict[str, VehicleScene]
    tracks: list[Track]
    turns: list[Track]  # the verified ones
    looks: list[Sprite]

    @classmethod
    def of(cls, folder: Path) -> Footage:
        """All of a folder."""
        scenes = {name: sequence(folder, name) for name in RECOVERED}
        every, verified = tracks_of(folder), verified_turns(folder)
        turns = [track for track in every if track.name in verified]
        return cls(scenes, every, turns, cut_out(scenes[PAINTED], range(LOOKS)))

    def heuristics(self) -> dict[str, dict[str, dict[str, float]]]:
        """Scores of the heuristics on each scene."""
        return {
            name: {row: score(curve, proxy_of(scene)) for row, curve in heuristics(scene).items()}
            for name, scene in self.scenes.items()
        }


def frames_study(
    data: PathLike | None = None,
    *,
    tracks: int = 190,
    seeds: int = 3,
    on_result: Callable[[dict[str, Any]], None] = lambda result: None,
    **settings: Any,
) -> dict[str, Any]:
    """Correlation and error of alpha_vertical over seeds, beside heuristics on the same frames.

    Each seed draws `tracks` straight tracks of each regime anew. `turns` are the verified turns
    of other sequences, painted like the training films: what to choose settings by. `keep` is
    given the result so far after every seed.
    """
    footage = Footage.of(data_folder(NAME, data, COMMAND))
    scenes, every = footage.scenes, footage.tracks
    about = {
        "data": "UAVDT",
        "tracks_per_regime": tracks,
        "straight_tracks": {k: sum(track.kind == k for track in every) for k in REGIMES},
        "step_frames": STEP,
        "settings": Trace(**settings).get_params() | {"seed": None},
        "machine": machine(resolve_device(Trace(**settings).config().fit.device)),
        "versions": versions(),
        "heuristics": footage.heuristics(),
        "curves": {
            name: {"frame": scene.numbers[scene.rows(STEP)].tolist()}
            | {"proxy": proxy_of(scene).round(ROUND).tolist()}
            for name, scene in scenes.items()
        },
    }
    for name, rows in cast(dict[str, Any], about["heuristics"]).items():
        logger.info("\n".join(f"{name} {row}: {_said(found)}" for row, found in rows.items()))
    result: dict[str, Any] = about
    found: list[dict[str, Any]] = []
    for seed in range(seeds):
        row = frames_of_seed(footage, tracks, seed, settings)
        for name in scenes:
            logger.info(f"{name} seed {seed}: {_said(row[name]['mechtrace'])}")
        found.append(row)
        result = about | {"rows": found, "means": _means(found)}
        on_result(result)
    return result


def frames_of_seed(
    footage: Footage, tracks: int, seed: int, settings: dict[str, Any]
) -> dict[str, Any]:
    """Train on painted films of straight tracks and score with one seed."""
    painted = footage.scenes[PAINTED]
    began = time.perf_counter()
    panel = straight_films(footage.tracks, footage.looks, painted, tracks, seed)
    trace = Trace(seed=seed, **settings).fit(panel, progress=False)
    row: dict[str, Any] = {"seed": seed, "seconds": time.perf_counter() - began}
    row["unexplained"] = trace.facts_["pictures"]["unexplained"]
    row["default_blocks"] = trace.facts_["evidence"]["selected"]
    row["turns"] = score_painted_turns(trace, footage.turns, footage.looks, painted)
    for name, scene in footage.scenes.items():
        curves = recovered(trace, scene)
        row[name] = {way: score(curve, proxy_of(scene)) for way, curve in curves.items()}
        row[name]["alpha"] = curves["mechtrace"].round(ROUND).tolist()
    return row


def sequence(folder: Path, name: str) -> VehicleScene:
    """Frames and boxes of one sequence of the folder."""
    return read_scene(*paths_of(folder, name))


def paths_of(folder: Path, name: str) -> tuple[Path, Path]:
    """Paths of the frames and boxes of a sequence."""
    frames, boxes = folder / "frames" / f"{name}_half", folder / "frames" / f"{name}_gt.txt"
    for path in (frames, boxes):
        if not path.exists():
            fix = (
                f"put frames of half size and {name}_gt.txt there; `{COMMAND}` says whose they are"
            )
            raise DataError("there are no frames", where=str(path), fix=fix)
    return frames, boxes


def proxy_of(scene: VehicleScene) -> np.ndarray:
    """Proxy of a scene at the steps of the film."""
    return scene.proxy()[scene.rows(STEP)]


def straight_films(
    tracks: Sequence[Track], looks: Sequence[Sprite], scene: VehicleScene, count: int, seed: int
) -> Panel:
    """Painted films of so many horizontal and vertical tracks, drawn without replacement."""
    random = np.random.default_rng(seed)
    drawn = []
    for kind in REGIMES:
        straight = [track for track in tracks if track.kind == kind]
        drawn += [straight[place] for place in random.permutation(len(straight))[:count]]
    films = [
        painted_film(track, looks[int(random.integers(len(looks)))], scene, STEP)
        for track in drawn
    ]
    return Panel.from_arrays(
        films,
        regime=[track.kind for track in drawn],
        names=[track.name for track in drawn],
        groups=[track.sequence for track in drawn],
    )


def recovered(trace: Trace, scene: VehicleScene) -> Curves:
    """alpha_vertical of a scene, by default and by Algorithm 1."""
    panel = Panel.from_arrays([scene.film(scene.rows(STEP))])
    steep = trace.regimes_.index("vertical")
    ways: dict[str, dict[str, Any]] = {
        "mechtrace": {},
        "Algorithm 1": {"method": "algorithm1"},
    }
    return {
        way: cast(Trajectory, trace.recover(panel, **options)).alpha[:, steep]
        for way, options in ways.items()
    }


def score_painted_turns(
    trace: Trace, turns: Sequence[Track], looks: Sequence[Sprite], scene: VehicleScene
) -> dict[str, Any]:
    """Score painted films of other turns."""
    films = [painted_film(track, looks[0], scene, STEP) for track in turns]
    paths = trace.recover(Panel.from_arrays(films))
    paths = paths if isinstance(paths, list) else [paths]
    steep = trace.regimes_.index("vertical")
    scores = [
        score(path.alpha[:, steep], chord_proxy(track.filled().centres)[::STEP])
        for path, track in zip(paths, turns, strict=True)
    ]
    return {
        "count": len(turns),
        "median_correlation": float(np.median([one["correlation"] for one in scores])),
        "mean_error": float(np.mean([one["error"] for one in scores])),
    }


def heuristics(scene: VehicleScene) -> Curves:
    """Curves of the heuristics at the steps of the film."""
    rows = scene.rows(STEP)
    steady_boxes = np.hstack([scene.centres - scene.sides / 2, scene.sides])
    curves = {
        "straight line in time": np.linspace(0, 1, len(scene.numbers)),
        "centroid": direction_proxy(scene.seen_centres),
        "centroid, camera steady, frame by frame": literal_proxy(scene.centres),
    }
    for frames in AVERAGES:
        name = f"centroid, camera steady, mean of {frames}"
        curves[name] = direction_proxy(scene.centres, frames)
    curves["optical flow"] = flow_in_boxes(scene.frames, scene.boxes)
    curves["optical flow, camera steady"] = flow_in_boxes(scene.steady, steady_boxes)
    found = {name: curve[rows] for name, curve in curves.items()}
    return found | {"middle of the spot in the trail picture": spot_direction(scene.film(rows))}


def score(curve: np.ndarray, proxy: np.ndarray) -> dict[str, float]:
    """Correlation and mean absolute error where both are known, and how many steps that is."""
    known = np.isfinite(curve) & np.isfinite(proxy)
    return {
        "correlation": float(np.corrcoef(curve[known], proxy[known])[0, 1]),
        "error": float(np.abs(curve - proxy)[known].mean()),
        "steps": int(known.sum()),
    }


def _means(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Over seeds."""
    return {
        name: {
            way: {
                measure: float(np.mean([row[name][way][measure] for row in rows]))
                for measure in ("correlation", "error")
            }
            for way in rows[0][name]
            if way != "alpha"
        }
        for name in RECOVERED
    }


def _said(found: dict[str, float]) -> str:
    return f"correlation {found['correlation']:.3f}, mean error {found['error']:.3f}"
