"""The demonstration: no data needed. Simulate, fit, recover, compare with the truth."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np

from . import worlds
from .atomic import atomic_path
from .estimator import Trace
from .metrics import linear_r2, mean_correlation, weight_correlation
from .oracle import oracle
from .recover.trajectory import Trajectory
from .reports import check_available, report
from .store import versions

SERIES = 400  # per regime: what two cores learn from in about half a minute
SCHEDULE, ACTIVE, TRIALS = "simple", [0, 2, 4], 200


def run_demo(
    out: Path, *, seed: int = 0, steps: int | None = None, progress: bool = True,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:  # fmt: skip
    """Write a transition with its truth, the recovered curve, a report and a summary."""
    check_available()
    began = time.perf_counter()
    out.mkdir(parents=True, exist_ok=True)
    world = worlds.make("paper", seed=seed)
    say(f"Simulating {SERIES} recordings of each of {len(world.regimes)} regimes ...")
    training = world.simulate(SERIES)
    glide = world.transition(SCHEDULE, active=ACTIVE, series=TRIALS, seed=1)
    glide.panel.to_csv(out / "transition.csv")
    truth = glide.alpha[0]
    with atomic_path(out / "truth.csv") as path:
        _truth_frame(glide).to_csv(path, index=False)
    trace = Trace(seed=seed)
    if steps is not None:
        trace.set_params(steps=steps)
    say("Learning one mechanism per regime ...")
    started = time.perf_counter()
    trace.fit(training.panel, progress=progress)
    fit_seconds = time.perf_counter() - started
    trace.save(out / "model.mechtrace")
    say(f"Recovering alpha(t) from {TRIALS} new recordings that move between regimes ...")
    pooled = cast(Trajectory, trace.recover(glide.panel, pool=True))
    singles = cast(list[Trajectory], trace.recover(glide.panel))
    with atomic_path(out / "trajectory.csv") as path:
        pooled.to_frame().to_csv(path, index=False)
    report(
        trace, [pooled, *singles[:2]], out / "report.html", panel=glide.panel, truth=truth,
        command=f"mechtrace demo --out {out} --seed {seed}"
        + (f" --steps {steps}" if steps is not None else ""),
    )  # fmt: skip
    late = slice(trace.config().model.lags, None)

    def quality(curve: np.ndarray) -> float:
        return weight_correlation(truth[late], curve[late])

    test = world.simulate(100, seed=2)
    learned = np.stack(trace.encode(test.panel))
    ideal = oracle(glide)
    summary: dict[str, Any] = {
        "weight_corr": quality(pooled.alpha),
        "weight_corr_single": float(np.mean([quality(path.alpha) for path in singles])),
        "oracle_weight_corr": quality(oracle(glide, pool=True).alpha[0]),
        "oracle_weight_corr_single": float(np.mean([quality(alpha) for alpha in ideal.alpha])),
        "r2": linear_r2(test.latents[:, late], learned[:, late]),
        "mcc": mean_correlation(test.latents[:, late], learned[:, late]),
        "mcc_before": mean_correlation(
            test.latents[:, late], trace.axes_.native(learned)[:, late]
        ),
        "axes": trace.axes_.verdict,
        "changes": trace.axes_.sentences(),
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
        f"Done in {summary['seconds']:.0f} s. Weight correlation with the truth:"
        f" {summary['weight_corr']:.3f} from {TRIALS} trials together (with the true latents and"
        f" mechanisms: {summary['oracle_weight_corr']:.3f}), {summary['weight_corr_single']:.2f}"
        f" from one recording alone ({summary['oracle_weight_corr_single']:.2f})."
    )
    say(
        f"{trace.axes_.verdict} Correlation with the true latents (MCC): {summary['mcc']:.3f},"
        f" {summary['mcc_before']:.2f} before alignment."
    )
    for sentence in trace.axes_.sentences():
        say(f"  {sentence}")
    for name in ("report.html", "trajectory.csv", "truth.csv", "summary.json", "model.mechtrace"):
        say(f"  {out / name}")
    return summary


def _truth_frame(transition: worlds.Simulation) -> Any:
    import pandas as pd

    columns = {"time": np.arange(transition.alpha.shape[1])}
    for k, name in enumerate(transition.world.regimes):
        columns[name] = transition.alpha[0, :, k]
    return pd.DataFrame(columns)
