"""Peak memory of each stage of `recover --report`, from the file to the page, by rows."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mechtrace import Panel, Trace, load, report, worlds
from mechtrace.data import read_inputs
from mechtrace.io import versions
from mechtrace.stage2 import write_curves

from .benchmarks import in_fresh_process, machine, threads
from .jobs.job import peak_memory

logger = logging.getLogger(__name__)

#: Recordings that are diagnosed by themselves, as `mechtrace recover` does.
DIAGNOSED = 10
#: Rows of the simulated stretch that is repeated.
ONCE = 1000


def bench_memory(
    rows: int, length: int | None = None, *, kind: str = ".npz", cpu_threads: int = 2
) -> dict[str, Any]:
    """Measure recordings of `length` rows each (one, by default) of 2 channels, 2 regimes.

    All stages run in one fresh process, one after the other, with what the stages before left.
    """
    world = worlds.make("paper", regimes=2, latents=2, channels=2, length=200)
    trace = Trace(latents=2, lags=2, hidden=16, steps=800, batch=64, lr=1e-2, align=False)
    trace.fit(world.simulate(12).panel, progress=False)
    length = min(length or rows, rows)
    with tempfile.TemporaryDirectory() as folder:
        trace.save(Path(folder) / "model.mechtrace")
        once = world.transition("simple", length=ONCE).panel.values
        again = np.resize(once, (rows // length, length, once.shape[1]))
        getattr(Panel.from_arrays(list(again)), f"to_{kind[1:]}")(Path(folder) / f"new{kind}")
        stages = in_fresh_process(_stages, folder, kind, cpu_threads)
    peak = max(stage["peak_mb"] for stage in stages.values())
    for name, stage in stages.items():
        logger.info(
            f"{name:9s} peak {stage['peak_mb']:6,.0f} MB, afterwards {stage['after_mb']:6,.0f} MB,"
            f" {stage['seconds']:.1f} s"
        )
    logger.info(f"{rows // length:,} recordings of {length:,} rows: peak memory {peak:,.0f} MB")
    return {
        "rows": rows, "length": length, "kind": kind, "threads": cpu_threads, "stages": stages,
        "peak_memory_mb": peak, "machine": machine(torch.device("cpu")), "versions": versions(),
    }  # fmt: skip


def _stages(folder: str, kind: str, cpu_threads: int) -> dict[str, dict[str, float]]:
    place, found = Path(folder), {}

    @contextmanager
    def stage(name: str) -> Iterator[None]:
        began = time.perf_counter()
        _forget_peak()
        yield
        found[name] = {
            "peak_mb": peak_memory() / 1e6,
            "after_mb": _memory() / 1e6,
            "seconds": time.perf_counter() - began,
        }

    with threads(cpu_threads):
        with stage("start"):
            trace = load(place / "model.mechtrace")
        with stage("read"):
            new = [place / f"new{kind}"]
            panel = read_inputs(new, channels=trace.channels_, labelled=False).panel
        with stage("recover"):
            answer = trace.recover(panel)
            paths = answer if isinstance(answer, list) else [answer]
        with stage("table"):
            write_curves(paths, place / "alpha.csv")
        with stage("diagnose"):
            for path in paths[:DIAGNOSED]:
                trace.diagnose(path)
        with stage("report"):
            report(trace, paths, place / "report.html", panel=panel)
    return found


def _forget_peak() -> None:
    """Let the peak memory of this process start anew; where that fails it is of all stages."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _memory() -> int:
    """Memory of this process now, in bytes; its peak where that is not told."""
    with suppress(OSError, IndexError, ValueError):
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(status.split("VmRSS:")[1].split()[0]) * 1024
    return peak_memory()
