"""Benchmarks of mechtrace: speed, memory, scale and the quality of the latents."""

from __future__ import annotations

import logging
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mechtrace import worlds
from mechtrace._runtime import keeping_freed_memory
from mechtrace.config import PAPER_SIZES, RunConfig
from mechtrace.data import Panel
from mechtrace.estimator import Trace, load
from mechtrace.io import versions
from mechtrace.metrics import linear_r2, mean_correlation
from mechtrace.stage1 import FitRun, resolve_device

from .jobs.job import peak_memory

logger = logging.getLogger(__name__)


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Limit torch to so many CPU threads inside the block."""
    before = torch.get_num_threads()
    if count:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def bench_train(
    *,
    experts: str = "affine",
    regimes: int = 5,
    latents: int = 8,
    channels: int = 16,
    length: int = 50,
    hidden: int = 128,
    lags: int = 2,
    batch: int | None = None,
    layers: int = 2,
    expert_layers: int | None = None,
    seconds: float = 10.0,
    cpu_threads: int | None = 1,
    device: str = "cpu",
    graph: bool = True,
) -> dict[str, Any]:
    """Transitions per second of complete training steps (data, forward, backward, update)."""
    world = worlds.make(
        "paper", regimes=regimes, latents=latents, channels=channels, length=length, lags=lags
    )
    panel = world.simulate(64).panel
    config = RunConfig.from_options(
        latents=latents, lags=lags, hidden=hidden, experts=experts, batch=batch, device=device,
        layers=layers, expert_layers=expert_layers, window=length, graph=graph, holdout=0.0,
    )  # fmt: skip
    with threads(cpu_threads), keeping_freed_memory():
        before = _peak_memory(device)
        run = FitRun.prepare(panel, config)
        trainer = run.trainer
        trainer.capture()
        for step in range(3):
            trainer.step(step)
        _wait(trainer.device)
        began, steps = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            for _ in range(50 if trainer.device.type == "cuda" else 1):
                trainer.step(steps)
                steps += 1
            _wait(trainer.device)
        elapsed = time.perf_counter() - began
        used = _peak_memory(device) - before
        where = machine(trainer.device)
    sampler, transitions = trainer.batches.sampler, trainer.batches.transitions(lags)
    result = {
        "transitions_per_second": steps * transitions / elapsed,
        "steps_per_second": steps / elapsed,
        "peak_memory_mb": used / 1e6,
        "series_per_step": sampler.regimes * sampler.per_regime,
        "threads": cpu_threads if device == "cpu" else None,
        "configuration": config.options() | {"regimes": regimes, "channels": channels},
        "machine": where,
        "versions": versions(),
    }
    logger.info(
        f"{experts} experts on {where}: {result['transitions_per_second']:,.0f}"
        f" transitions/s, {used / 1e6:,.0f} MB, {result['series_per_step']} series per step"
    )
    return result


def bench_scale(series: list[int], *, steps: int = 300, device: str = "cpu") -> dict[str, Any]:
    """Cost per transition and peak memory against the number of series, trained from disk."""
    rows = []
    for count in series:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "panel.npz"
            simulate_to_file(path, count)
            # a fresh process: its peak memory is that of training alone
            rows.append(in_fresh_process(_train_from_disk, str(path), steps, device))
        rows[-1]["series_per_regime"] = count
        logger.info(
            f"{count:,} series per regime:"
            f" {rows[-1]['transitions_per_second']:,.0f} transitions/s,"
            f" peak memory {rows[-1]['peak_memory_mb']:,.0f} MB,"
            f" {rows[-1]['prepare_seconds']:.1f} s to prepare"
        )
    rates = [row["transitions_per_second"] for row in rows]
    return {
        "rows": rows,
        "slowest_over_fastest": min(rates) / max(rates),
        "steps": steps,
        "machine": machine(torch.device(device)),
        "versions": versions(),
    }


def bench_latents(
    *,
    world: str = "paper",
    series: int = 400,
    seeds: int = 5,
    **settings: Any,
) -> dict[str, Any]:
    """How well the learned latents explain the true ones, over fresh worlds."""
    settings, rows = PAPER_SIZES | settings, list[dict[str, Any]]()
    for seed in range(seeds):
        drawn = worlds.make(world, seed=seed)
        panel = drawn.simulate(series).panel
        trace = Trace(seed=seed, align=False, **settings)
        began = time.perf_counter()
        trace.fit(panel, progress=False)
        elapsed = time.perf_counter() - began
        test = drawn.simulate(100, seed=1)
        learned = np.stack(trace.encode(test.panel))
        lags = trace.record_.settings.model.lags
        row = {
            "seed": seed,
            "r2": linear_r2(test.latents[:, lags:], learned[:, lags:]),
            "r2_all_steps": linear_r2(test.latents, learned),
            "mcc_unaligned": mean_correlation(test.latents[:, lags:], learned[:, lags:]),
            "fit_seconds": elapsed,
            "held_out_elbo": trace.elbo_,
        }
        rows.append(row)
        logger.info(f"{world} seed {seed}: R2 {row['r2']:.4f} after {elapsed:.1f} s")
    r2 = np.array([row["r2"] for row in rows])
    return {
        "world": world,
        "series_per_regime": series,
        "r2_mean": float(r2.mean()),
        "r2_sd": float(r2.std(ddof=1)) if seeds > 1 else 0.0,
        "r2_min": float(r2.min()),
        "fit_seconds_max": max(row["fit_seconds"] for row in rows),
        "rows": rows,
        "settings": Trace(**settings).get_params(),
        "machine": machine(resolve_device(Trace(**settings).config().fit.device)),
        "versions": versions(),
    }


def bench_recover(
    *,
    series: int = 4000,
    length: int = 50,
    regimes: int = 5,
    method: str = "state-space",
    causal: bool = False,
    cpu_threads: int = 1,
    repeats: int = 5,
    shapes: list[tuple[int, int]] | None = None,
) -> dict[str, Any]:
    """Steps per second from observations to weights with intervals, best of some repeats.

    `shapes` are further (series, length) to measure, each in a fresh process with its peak
    memory: cost should be linear in both.
    """
    world = worlds.make("paper", regimes=regimes)
    trace = Trace(**PAPER_SIZES, steps=400).fit(world.simulate(100).panel, progress=False)
    panel = world.transition("simple", series=series, length=length).panel
    how = {"method": method, "causal": causal, "window": 0 if causal else 5}
    with threads(cpu_threads):
        times = [_timed(trace, panel, how) for _ in range(repeats)]
        where = machine(torch.device("cpu"))
    seconds, split = min(times, key=lambda pair: pair[0])
    result = {
        "steps_per_second": panel.rows / seconds,
        "microseconds_per_step": {k: 1e6 * v / panel.rows for k, v in split.items()},
        "series": series,
        "length": length,
        "regimes": regimes,
        "method": method,
        "causal": causal,
        "threads": cpu_threads,
        "repeats": repeats,
        "machine": where,
        "versions": versions(),
    }
    logger.info(
        f"{method}: {result['steps_per_second']:,.0f} steps/s ({series:,} series of {length})"
    )
    if shapes:
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "model.mechtrace")
            trace.save(path)
            result["scaling"] = rows = []
            for shape in shapes:
                rows.append(in_fresh_process(_recover_shape, path, shape, how, cpu_threads))
                logger.info(
                    f"{shape[0]:,} series of {shape[1]:,}:"
                    f" {rows[-1]['steps_per_second']:,.0f} steps/s,"
                    f" peak memory {rows[-1]['peak_memory_mb']:,.0f} MB"
                )
    return result


def _timed(trace: Trace, panel: Panel, how: dict[str, Any]) -> tuple[float, dict[str, float]]:
    """Seconds of one recovery, and of its parts."""
    from mechtrace.stage1 import encoding as latents
    from mechtrace.stage2 import ObservationModel
    from mechtrace.stage2 import recovery as stage2

    split = dict.fromkeys(("encode", "predict", "evidence", "engine"), 0.0)
    began = time.perf_counter()
    with (
        _clocked(latents, "encode", split),
        _clocked(latents, "predict", split),
        _clocked(ObservationModel, "information", split, "evidence"),
        _clocked(stage2, "state_space", split, "engine"),
    ):
        trace.recover(panel, **how)
    seconds = time.perf_counter() - began
    return seconds, split | {"rest": seconds - sum(split.values())}


@contextmanager
def _clocked(
    place: Any, name: str, seconds: dict[str, float], label: str | None = None
) -> Iterator[None]:
    """Add up the time that a function takes, inside the block."""
    function = getattr(place, name)

    def timed(*arguments: Any, **options: Any) -> Any:
        began = time.perf_counter()
        try:
            return function(*arguments, **options)
        finally:
            seconds[label or name] += time.perf_counter() - began

    before = vars(place)[name]
    setattr(place, name, timed)
    try:
        yield
    finally:
        setattr(place, name, before)


def _recover_shape(
    path: str, shape: tuple[int, int], how: dict[str, Any], cpu_threads: int
) -> dict[str, float]:
    trace = load(path)
    series, length = shape
    # one simulated stretch, again and again: what is measured does not depend on the values
    world = worlds.make("paper", regimes=len(trace.regimes_))
    once = world.transition("simple", length=min(length, 1000)).panel.values
    again = np.resize(once, (series * length, once.shape[1])).reshape(series, length, -1)
    panel = Panel.from_arrays(list(again))
    with threads(cpu_threads):
        _timed(trace, world.transition("simple", length=1000).panel, how)  # imports, caches
        seconds, _ = _timed(trace, panel, how)
    return {
        "series": series,
        "length": length,
        "steps_per_second": panel.rows / seconds,
        "seconds": seconds,
        "peak_memory_mb": _peak_memory("cpu") / 1e6,
    }


def simulate_to_file(path: Path, series: int, world: str = "paper") -> None:
    """Pure runs of a world, as a file that training can map."""
    worlds.make(world).simulate(series).panel.to_npz(path)


def machine(device: torch.device) -> str:
    """Describe the processor."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{torch.get_num_threads()} CPU threads ({platform.machine()})"


def _train_from_disk(path: str, steps: int, device: str) -> dict[str, float]:
    began = time.perf_counter()
    config = RunConfig.from_options(**PAPER_SIZES, steps=steps, device=device)
    run = FitRun.prepare(Panel.from_npz(path), config)
    prepared = time.perf_counter()
    run.train([], None, 60.0)
    elapsed = time.perf_counter() - prepared
    transitions = run.trainer.batches.transitions(run.config.model.lags)
    return {
        "transitions_per_second": steps * transitions / elapsed,
        "prepare_seconds": prepared - began,
        "peak_memory_mb": _peak_memory("cpu") / 1e6,
    }


def in_fresh_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a process of its own, whose peak memory is the function's."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def _peak_memory(device: str) -> int:
    """Peak memory of this process, or of the GPU, in bytes."""
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated()
    return peak_memory()


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
