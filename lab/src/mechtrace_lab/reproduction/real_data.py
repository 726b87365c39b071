"""Studies of pictures and real recordings as sources of figures, one seed at a time.

These are the studies of `mechtrace bench cartpole`, `gait`, `vehicles` and `turn`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from mechtrace._runtime import duration
from mechtrace.errors import DataError, MissingDependency
from mechtrace.io import versions
from mechtrace.stage1 import Listener

from ..benchmarks import machine
from ..datasets import cmu, uavdt
from ..datasets.recordings import data_folder
from ..jobs import FINISHED, SKIPPED, Job, Row, plain
from ..studies.cartpole import SETTINGS as OF_CART
from ..studies.cartpole import cartpole_of_seed
from . import gait, reference_methods, uavdt_boxes, uavdt_frames, uavdt_methods
from .models import Scale

Options = dict[str, Any]


@dataclass(frozen=True)
class Study:
    """A study: sizes by scale, the function that measures, and required data."""

    sizes: dict[str, Options]  # by scale
    measure: Callable[[StudyJob, Options], Options]  # with these settings of Trace
    settings: Callable[[str], Options]  # of Trace, by set of features
    light: dict[str, Options]  # other settings, by scale
    check: Callable[[], Any]  # raises where data is missing
    words: str  # its size, for people


@dataclass(frozen=True)
class StudySource:
    """A study with one set of features."""

    study: str
    features: str

    def job(self, scale: Scale, seed: int, device: str) -> StudyJob:
        """One seed of it."""
        return StudyJob(self.study, self.features, scale.name, seed, device)


@dataclass(frozen=True)
class StudyJob(Job):
    """The job of one study, set of features and seed; the device is not part of its hash."""

    study: str
    features: str
    scale: str
    number: int
    device: str

    @property
    def kind(self) -> str:
        """Study and features."""
        return f"{self.study}-{self.features}"

    @property
    def seed(self) -> int:
        """Of the world, or of the split, and of the training."""
        return self.number

    @property
    def size(self) -> Options:
        """Size at this scale."""
        return STUDIES[self.study].sizes[self.scale]

    @property
    def settings(self) -> Options:
        """Of Trace, without seed and device."""
        study = STUDIES[self.study]
        return study.settings(self.features) | study.light.get(self.scale, {})

    def about(self) -> dict[str, Any]:
        """Study, features, size and settings."""
        return {
            "study": self.study,
            "features": self.features,
            "seed": self.seed,
            "size": {key: _listed(value) for key, value in self.size.items()},
            "settings": self.settings,
        }

    def missing(self) -> str | None:
        """Missing data, as a sentence, or None."""
        try:
            STUDIES[self.study].check()
        except DataError as error:
            return str(error)
        return None

    def describe(self, row: Row) -> str:
        """Duration, if stored."""
        return "done" if row["seconds"] is None else duration(row["seconds"])

    def run(self, folder: Path, listeners: Sequence[Listener] = ()) -> Row:
        """Read or simulate the data, train and score."""
        began = time.perf_counter()
        reason = self.missing()
        if reason is not None:
            return self.row(SKIPPED, reason=reason)
        settings = self.settings | {"seed": self.seed, "device": self.device}
        try:
            figures = STUDIES[self.study].measure(self, settings)
        except MissingDependency as error:
            return self.row(SKIPPED, reason=str(error))
        seconds = time.perf_counter() - began
        return self.found(figures, seconds, machine(torch.device(self.device)), versions())

    def found(
        self, figures: Options, seconds: float | None, where: str, by: dict[str, str]
    ) -> Row:
        """Make the row of these figures; `seconds` may be None."""
        return self.row(
            FINISHED, reason=None, figures=plain(figures), seconds=seconds, machine=where,
            versions=by,
        )  # fmt: skip


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


# -- what each finds -----------------------------------------------------------------------------


def cartpole_figures(row: Options) -> Options:
    """Latents, and weights by the number of active regimes."""
    latents = {name: row[name] for name in ("mcc", "mcc_rank", "mcc_before", "r2", "unexplained")}
    return latents | {"recovery": {str(one["active"]): one for one in row["recovery"]}}


def gait_figures(rows: Sequence[Options], methods: Sequence[str]) -> Options:
    """Means over trials by method."""
    return {
        name: gait.summarise([row for row in rows if row["method"] == name]) for name in methods
    }


def vehicle_figures(
    rows: Sequence[Options], features: str, methods: Sequence[str], sets: dict[str, set[str]]
) -> Options:
    """Means and medians over turns, by method and set of turns."""
    return by_method(uavdt_boxes.summarise(rows, [features], methods, sets))


def by_method(summary: Sequence[Options]) -> Options:
    """Arrange the summary of vehicles by method and set of turns."""
    found: Options = {}
    for one in summary:
        found.setdefault(one["method"], {})[one["set"]] = one
    return found


def frame_figures(row: Options, heuristics: dict[str, Options]) -> Options:
    """Scores on each scene by method, heuristics among them; and on painted turns."""
    scenes = {
        name: heuristics[name] | {way: one for way, one in row[name].items() if way != "alpha"}
        for name in uavdt_frames.RECOVERED
    }
    return scenes | {"turns": row["turns"]}


def _cartpole(job: StudyJob, settings: Options) -> Options:
    seed = settings.pop("seed")
    return cartpole_figures(cartpole_of_seed(seed, **job.size, **settings))


def _gait(job: StudyJob, settings: Options) -> Options:
    methods = job.size["methods"]
    rows = gait.gait_of_seed(job.features, job.size["rate"], methods, settings)
    return gait_figures(rows, methods)


def _vehicles(job: StudyJob, settings: Options) -> Options:
    folder, methods = _uavdt(), job.size["methods"]
    rows = uavdt_boxes.vehicles_of_seed(folder, job.features, methods, job.size["folds"], settings)
    return vehicle_figures(rows, job.features, methods, uavdt_boxes.read_tracks(folder).sets)


def _frames(job: StudyJob, settings: Options) -> Options:
    footage, seed = uavdt_frames.Footage.of(_uavdt()), settings.pop("seed")
    row = uavdt_frames.frames_of_seed(footage, job.size["tracks"], seed, settings)
    return frame_figures(row, footage.heuristics())


def _uavdt() -> Path:
    return data_folder(uavdt.NAME, None, uavdt.COMMAND)


def _frames_there() -> None:
    for name in uavdt_frames.RECOVERED:
        uavdt_frames.paths_of(_uavdt(), name)


#: Left out of quick comparisons: these take as long as all others together.
SLOW = ("logistic-regression", "gaussian-hmm", reference_methods.NCTRL)


def _fast(methods: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in methods if name not in SLOW)


#: For the tests: everything runs, little is learned.
TINY = {"steps": 40, "hidden": 16}
STUDIES = {
    "cartpole": Study(
        sizes={
            "paper": {"series": 1000, "size": 64, "length": 100, "trials": 200},
            "quick": {"series": 60, "size": 32, "length": 100, "trials": 200},
            "smoke": {"series": 12, "size": 16, "length": 30, "trials": 4},
        },
        measure=_cartpole,
        settings=lambda features: OF_CART,
        light={"smoke": TINY, "paper": {"steps": 8000}},
        check=lambda: None,
        words="{series:,} recordings of each regime, pictures of {size} x {size}",
    ),
    "gait": Study(
        sizes={
            "paper": {"rate": 30.0, "methods": gait.METHODS},
            "quick": {"rate": 30.0, "methods": _fast(gait.METHODS)},
            "smoke": {"rate": 30.0, "methods": gait.METHODS},
        },
        measure=_gait,
        settings=lambda features: {},
        light={"smoke": TINY | {"steps": 120, "batch": 8}},
        check=lambda: data_folder(cmu.NAME, None, cmu.COMMAND),
        words="every subject left out in turn",
    ),
    "vehicles": Study(
        sizes={
            "paper": {"folds": 5, "methods": uavdt_methods.METHODS},
            "quick": {"folds": 2, "methods": _fast(uavdt_methods.METHODS)},
            "smoke": {"folds": 2, "methods": uavdt_methods.METHODS},
        },
        measure=_vehicles,
        settings=lambda features: {},
        light={"smoke": TINY | {"steps": 120}},
        check=_uavdt,
        words="sequences left out in {folds} folds",
    ),
    "frames": Study(
        sizes={"paper": {"tracks": 190}, "quick": {"tracks": 60}, "smoke": {"tracks": 12}},
        measure=_frames,
        settings=lambda features: {},
        light={"smoke": TINY},
        check=_frames_there,
        words="painted films of {tracks} straight tracks of each regime",
    ),
}


def size_in_words(study: str, scale: str) -> str:
    """Describe the size of a study at a scale.

    >>> size_in_words("vehicles", "quick")
    'sequences left out in 2 folds'
    """
    return STUDIES[study].words.format(**STUDIES[study].sizes[scale])
