"""Cost of a fit before it is run: sizes counted, memory and time measured."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any

import torch

from .._runtime.process import keeping_freed_memory, torch_threads
from .._runtime.progress import duration
from ..config import RunConfig
from ..data.panel import Panel
from .fit_run import FitRun

#: Steps before the clock starts, and seconds that it then runs.
WARM_UP_STEPS, SECONDS = 3, 2.0


@dataclass(frozen=True)
class Plan:
    """Sizes, memory and time of a fit on this machine."""

    training_series: dict[str, int]
    held_out_series: dict[str, int]
    windows: int  # rows with a full history, which is what experts learn from
    crops: int
    crop_rows: int
    crops_per_step: int
    steps: int
    parameters: int
    device: str
    memory_mb: float | None
    timed_steps: int
    seconds: float

    @classmethod
    def measure(cls, panel: Panel, config: RunConfig, seconds: float = SECONDS) -> Plan:
        """Prepare the run as `fit` does and time a few of its steps."""
        run = FitRun.prepare(panel, config)
        trainer, lags = run.trainer, run.config.model.lags
        with keeping_freed_memory(), torch_threads(trainer.threads):
            trainer.capture()
            timed, pace = _pace(run, seconds)
            trainer.held_out.load(0, noise_seed=-1)
            began = time.perf_counter()
            trainer.evaluate()
            evaluation = time.perf_counter() - began
            memory = _memory_mb(trainer.device)
        sampler = trainer.batches.sampler
        lengths = sampler.runs.length
        return cls(
            training_series=run.data.training_series,
            held_out_series=run.data.held_out_series,
            windows=int((lengths - lags).sum()),
            crops=int((lengths // sampler.length).clip(min=1).sum()),
            crop_rows=sampler.length,
            crops_per_step=sampler.regimes * sampler.per_regime,
            steps=config.fit.steps,
            parameters=sum(p.numel() for p in run.model.parameters()),
            device=trainer.device.type,
            memory_mb=memory,
            timed_steps=timed,
            seconds=pace * config.fit.steps + evaluation * config.fit.evaluations,
        )

    def __str__(self) -> str:
        series = ", ".join(
            f"{name} {count} + {self.held_out_series[name]}"
            for name, count in self.training_series.items()
        )
        memory = "not measured" if self.memory_mb is None else f"about {self.memory_mb:,.0f} MB"
        place = "process" if self.device == "cpu" else "GPU"
        return "\n".join(
            [
                f"series per regime (training + held out): {series}",
                f"windows: {self.windows:,} rows with a full history, in {self.crops:,} crops of"
                f" up to {self.crop_rows} rows",
                f"each of {self.steps:,} steps: {self.crops_per_step} crops, as many of each"
                " regime",
                f"parameters: {self.parameters:,}",
                f"memory: {memory} (measured, peak of the whole {place})",
                f"training time: about {duration(self.seconds)} on {self.device} (measured on"
                f" {self.timed_steps} steps; an early stop makes it shorter, and axes and the"
                " evidence for recovery are looked for after it)",
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return dict(vars(self))


def _pace(run: FitRun, seconds: float) -> tuple[int, float]:
    """Return the number of timed steps and the seconds per step."""
    for step in range(WARM_UP_STEPS):
        run.trainer.step(step)
    _wait(run.trainer.device)
    began, steps = time.perf_counter(), 0
    while steps == 0 or time.perf_counter() - began < seconds:
        run.trainer.step(WARM_UP_STEPS + steps)
        steps += 1
    _wait(run.trainer.device)
    return steps, (time.perf_counter() - began) / steps


def _memory_mb(device: torch.device) -> float | None:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e6
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
