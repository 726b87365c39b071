"""Compute what is missing: a model is trained once, and everything asked of it is kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..bench import machine
from ..errors import ConfigError
from ..estimator import Trace, load
from ..fit import Listener, resolve_device
from ..jobs import FAILED, FINISHED, SKIPPED, Job, Row, collect, new_folder, plain
from ..jobs.job import peak_memory
from ..progress import duration
from ..store import versions
from ..worlds import World
from .entries import Ask, Source
from .measures import MEASURES
from .models import Model, Scale, Trained, scale_named
from .plan import TABLES, asked
from .studied import StudyJob


@dataclass(frozen=True)
class ModelJob(Job):
    """A model with a seed, and what is asked of it."""

    model: Model
    scale: Scale
    number: int
    asks: tuple[Ask, ...]
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
        """The model, not what is asked of it: later questions go to the same file."""
        scale = {"name": self.scale.name, "share": self.scale.share, "trials": self.scale.trials}
        settings = dict(self.scale.settings)
        model = self.model.about()
        return {"model": model, "seed": self.seed, "scale": scale | {"settings": settings}}

    def kept(self, folder: Path) -> Row | None:
        """Its row if everything that is asked was answered before."""
        row = super().kept(folder)
        answered = row is not None and all(ask.key in row["measures"] for ask in self.asks)
        return row if answered else None

    def words(self, row: Row) -> str:
        """How long it took."""
        return f"{len(row['measures'])} measures, {duration(row['seconds'])}"

    def run(self, folder: Path, listeners: Sequence[Listener] = ()) -> Row:
        """Train, or take the trained model of before, and answer what is not yet answered."""
        before = super().kept(folder) or {"measures": {}}
        clock = _Clock(dict(before.get("timings", {})))
        with clock("world"):
            world = self.model.draw(self.seed, self.scale)
        trace = self._trained(world, folder / "models" / f"{self.stem}.mechtrace", clock)
        one = Trained(world, trace, self.scale)
        measures = dict(before["measures"])
        for ask in self.asks:
            if ask.key not in measures:
                with clock(ask.key):
                    found = MEASURES[ask.measure](one, **dict(ask.options))
                measures[ask.key] = plain(found)
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
    """Seconds of everything that was done, by name."""

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
    say: Callable[[str], None] = print,
    live: bool = True,
) -> list[Row]:
    """All rows that these tables need; what is kept in `out` is not computed again.

    What needs data that is not here is skipped, and nothing is kept of that.
    """
    jobs = jobs_for(names, scale=scale, seeds=seeds, device=device)
    folder = out / scale
    new_folder(folder, out)
    rows: list[Row] = []
    without: dict[str, list[StudyJob]] = {}
    for job in [one for one in jobs if isinstance(one, StudyJob)]:
        reason = job.missing() if fresh or job.kept(folder) is None else None
        if reason is not None:
            without.setdefault(reason, []).append(job)
            rows.append(job.row(SKIPPED, reason=reason))
            jobs.remove(job)
    for reason, same in without.items():
        say(f"{', '.join(dict.fromkeys(job.kind for job in same))}: skipped: {reason}")
    collect(jobs, folder, rows, workers=workers, fresh=fresh, say=say, live=live)
    return rows


def jobs_for(names: Sequence[str], *, scale: str, seeds: int, device: str) -> list[Job]:
    """One job for each source and seed."""
    for name in names:
        if name not in TABLES:
            raise ConfigError(f"there is no table {name!r}", fix=f"use one of {', '.join(TABLES)}")
    size, where = scale_named(scale), str(resolve_device(device))
    # what takes longest comes first, lest it be waited for at the end
    wanted = sorted(asked(list(names)).items(), key=lambda one: -_size(one[0]))
    return [
        job_of(source, size, seed, where, asks) for source, asks in wanted for seed in range(seeds)
    ]


def _size(source: Source) -> int:
    if not isinstance(source, Model):
        return 0
    options = dict(source.options)
    return options["regimes"] * options.get("latents", 8)


def job_of(
    source: Source, scale: Scale, seed: int, device: str = "cpu", asks: Sequence[Ask] = ()
) -> Job:
    """What computes the figures of a source; only a model waits to be asked."""
    if isinstance(source, Model):
        return ModelJob(source, scale, seed, tuple(asks), device)
    return source.job(scale, seed, device)


__all__ = ["FAILED", "ModelJob", "job_of", "jobs_for", "reproduce"]
