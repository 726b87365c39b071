"""The demonstration: no data needed. Simulate, fit, compare with the truth."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from . import worlds
from .atomic import atomic_path
from .estimator import Trace
from .metrics import linear_r2, mean_correlation
from .store import versions

SERIES = 400  # per regime: what two cores learn from in about half a minute
SCHEDULE, ACTIVE = "simple", [0, 2, 4]


def run_demo(
    out: Path, *, seed: int = 0, steps: int | None = None, progress: bool = True,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:  # fmt: skip
    """Write a labelled panel, a transition with its truth, a model and a summary to a folder."""
    began = time.perf_counter()
    out.mkdir(parents=True, exist_ok=True)
    world = worlds.make("paper", seed=seed)
    say(f"Simulating {SERIES} recordings of each of {len(world.regimes)} regimes ...")
    training = world.simulate(SERIES)
    transition = world.transition(SCHEDULE, active=ACTIVE, seed=1)
    transition.panel.to_csv(out / "transition.csv")
    with atomic_path(out / "truth.csv") as path:
        _truth_frame(transition).to_csv(path, index=False)
    trace = Trace(seed=seed)
    if steps is not None:
        trace.set_params(steps=steps)
    say("Learning one mechanism per regime ...")
    started = time.perf_counter()
    trace.fit(training.panel, progress=progress)
    fit_seconds = time.perf_counter() - started
    trace.save(out / "model.mechtrace")
    test = world.simulate(100, seed=2)
    learned = np.stack(trace.encode(test.panel))
    late = slice(trace.config().model.lags, None)
    summary: dict[str, Any] = {
        "r2": linear_r2(test.latents[:, late], learned[:, late]),
        "mcc": mean_correlation(test.latents[:, late], learned[:, late]),
        "held_out_elbo": trace.elbo_,
        "fit_seconds": fit_seconds,
        "seconds": time.perf_counter() - began,
        "seed": seed,
        "settings": trace.get_params(),
        "versions": versions(),
    }
    with atomic_path(out / "summary.json") as path:
        path.write_text(json.dumps(summary, indent=1))
    say(
        f"Done in {summary['seconds']:.0f} s. The learned latents explain"
        f" {100 * summary['r2']:.1f} % of the variance of the true ones (new recordings)."
    )
    say(f"Axes are not aligned yet: MCC {summary['mcc']:.2f}, a rotation is free.")
    for name in ("model.mechtrace", "transition.csv", "truth.csv", "summary.json"):
        say(f"  {out / name}")
    return summary


def _truth_frame(transition: worlds.Simulation) -> Any:
    import pandas as pd

    columns = {"time": np.arange(transition.alpha.shape[1])}
    for k, name in enumerate(transition.world.regimes):
        columns[name] = transition.alpha[0, :, k]
    return pd.DataFrame(columns)
