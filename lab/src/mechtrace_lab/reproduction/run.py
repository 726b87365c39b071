"""Compute missing rows: a model is trained once, and its measures are stored."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from mechtrace._runtime import duration
from mechtrace.errors import ConfigError
from mechtrace.estimator import Trace, load
from mechtrace.io import versions
from mechtrace.stage1 import Listener, resolve_device
from mechtrace.worlds import World

from ..benchmarks import machine
from ..jobs import FAILED, FINISHED, SKIPPED, Job, Row, collect, new_folder, peak_memory, plain
from .entries import MeasureCall, Source
from .measures import MEASURES
from .models import Model, Scale, Trained, scale_named
from .plan import TABLES, measure_calls
from .real_data import StudyJob

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ModelJob(Job):
    """The job of one model and seed, with the measures to take."""

    model: Model
    scale: Scale
    number: int
    calls: tuple[MeasureCall, ...]
    device: str

    @property
    def kind(self) -> str:
        """The model."""
        return self.model.name

    @property
    def label(self) -> str:
        """Also the name of its file."""
        return self.model.name

    @property
    def seed(self) -> int:
        """Of the world and of the training."""
        return self.number

    def about(self) -> dict[str, Any]:
        """The model without its measures: later measures are added to the same file."""
        scale = {"name": self.scale.name, "share": self.scale.share, "trials": self.scale.trials}
        settings = dict(self.scale.settings)
        model = self.model.about()
        return {"model": model, "seed": self.seed, "scale": scale | {"settings": settings}}

    def stored_row(self, folder: Path) -> Row | None:
        """Return the stored row if it has all measures."""
        row = super().stored_row(folder)
        answered = row is not None and all(call.key in row["measures"] for call in self.calls)
        return row if answered else None

    def describe(self, row: Row) -> str:
        """How long it took."""
        return f"{len(row['measures'])} measures, {duration(row['seconds'])}"

    def run(self, folder: Path, listeners: Sequence[Listener] = ()) -> Row:
        """Train or load the model and take the missing measures."""
        before = super().stored_row(folder) or {"measures": {}}
        clock = _Clock(dict(before.get("timings", {})))
        with clock("world"):
            world = self.model.draw(self.seed, self.scale)
        trace = self._trained(world, folder / "models" / f"{self.stem}.mechtrace", clock)
        one = Trained(world, trace, self.scale)
        measures = dict(before["measures"])
        for call in self.calls:
            if call.key not in measures:
                with clock(call.key):
                    found = MEASURES[call.measure](one, **dict(call.options))
                measures[call.key] = plain(found)
        return self.row(
            FINISHED,
            reason=None,
            measures=measures,
            timings=clock.seconds,
            seconds=sum(clock.seconds.values()),
            memory_mb=peak_memory() / 1e6,
            machine=machine(torch.device(self.device)),
            versions=versions(),
        )

    def _trained(self, world: World, stored: Path, clock: _Clock) -> Trace:
        if stored.exists():
            return load(stored)
        with clock("data"):
            panel = self.model.panel(world, self.scale)
        with clock("fit"):
            trace = self.model.train(panel, world, self.scale, self.seed, self.device)
        stored.parent.mkdir(exist_ok=True)
        trace.save(stored)
        return trace


class _Clock:
    """Stopwatch: seconds by name."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds = seconds

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - began, 3)


def reproduce(
    names: Sequence[str],
    out: Path,
    *,
    scale: str = "quick",
    seeds: int = 3,
    workers: int = 1,
    device: str = "auto",
    fresh: bool = False,
    live: bool = True,
) -> list[Row]:
    """Compute all rows that these tables need, unless they are stored.

    What needs data that is not here is skipped, and nothing is kept of that.
    """
    jobs = jobs_for(names, scale=scale, seeds=seeds, device=device)
    folder = out / scale
    new_folder(folder, out)
    rows: list[Row] = []
    without: dict[str, list[StudyJob]] = {}
    for job in [one for one in jobs if isinstance(one, StudyJob)]:
        reason = job.missing() if fresh or job.stored_row(folder) is None else None
        if reason is not None:
            without.setdefault(reason, []).append(job)
            rows.append(job.row(SKIPPED, reason=reason))
            jobs.remove(job)
    for reason, same in without.items():
        logger.info(f"{', '.join(dict.fromkeys(job.kind for job in same))}: skipped: {reason}")
    collect(jobs, folder, rows, workers=workers, fresh=fresh, live=live)
    return rows


def jobs_for(names: Sequence[str], *, scale: str, seeds: int, device: str) -> list[Job]:
    """One job for each source and seed."""
    for name in names:
        if name not in TABLES:
            raise ConfigError(f"there is no table {name!r}", fix=f"use one of {', '.join(TABLES)}")
    size, where = scale_named(scale), str(resolve_device(device))
    # what takes longest comes first, lest it be waited for at the end
    wanted = sorted(measure_calls(list(names)).items(), key=lambda one: -_size(one[0]))
    return [
        job_of(source, size, seed, where, calls)
        for source, calls in wanted
        for seed in range(seeds)
    ]


def _size(source: Source) -> int:
    if not isinstance(source, Model):
        return 0
    options = dict(source.options)
    return options["regimes"] * options.get("latents", 8)


def job_of(
    source: Source, scale: Scale, seed: int, device: str = "cpu", calls: Sequence[MeasureCall] = ()
) -> Job:
    """Make the job of a source; only models take measures."""
    if isinstance(source, Model):
        return ModelJob(source, scale, seed, tuple(calls), device)
    return source.job(scale, seed, device)


__all__ = ["FAILED", "ModelJob", "job_of", "jobs_for", "reproduce"]
