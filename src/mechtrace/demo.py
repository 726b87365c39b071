"""The demonstration `mechtrace demo`: simulate, fit, recover, compare with the truth."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import Any, cast

import numpy as np

from . import worlds
from ._runtime.process import atomic_path
from .estimator import Trace
from .io.model_file import versions
from .io.tables import write_table
from .metrics import linear_r2, mean_correlation, weight_correlation
from .stage2.trajectory import Trajectory
from .viz.report import check_available, report
from .worlds.simulation import oracle

logger = logging.getLogger(__name__)

SERIES = 400  # per regime: what two cores learn from in about half a minute
#: What is written: the recordings, and the results.
FILES = (
    "transition.csv", "report.html", "trajectory.csv", "truth.csv", "summary.json",
    "model.mechtrace",
)  # fmt: skip
SCHEDULE, ACTIVE, TRIALS = "simple", [0, 2, 4], 200


def run_demo(out: Path, *, seed: int, steps: int | None, progress: bool) -> dict[str, Any]:
    """Write a transition with its truth, the recovered curve, a report and a summary to `out`."""
    import pandas as pd

    check_available()
    began = time.perf_counter()
    out.mkdir(parents=True, exist_ok=True)
    world = worlds.make("paper", seed=seed)
    logger.info(f"Simulating {SERIES} recordings of each of {len(world.regimes)} regimes ...")
    training = world.simulate(SERIES)
    glide = world.transition(SCHEDULE, active=ACTIVE, series=TRIALS, seed=1)
    glide.panel.to_csv(out / "transition.csv")
    truth = glide.alpha[0]
    columns = {"time": np.arange(len(truth)), **dict(zip(world.regimes, truth.T, strict=True))}
    write_table(pd.DataFrame(columns), out / "truth.csv")
    trace = Trace(seed=seed) if steps is None else Trace(seed=seed, steps=steps)
    logger.info("Learning one mechanism per regime ...")
    started = time.perf_counter()
    trace.fit(training.panel, progress=progress)
    fit_seconds = time.perf_counter() - started
    trace.save(out / "model.mechtrace")
    logger.info(f"Recovering alpha(t) from {TRIALS} new recordings that move between regimes ...")
    pooled = cast(Trajectory, trace.recover(glide.panel, pool=True))
    singles = cast(list[Trajectory], trace.recover(glide.panel))
    write_table(pooled.to_frame(), out / "trajectory.csv")
    command = f"mechtrace demo --out {out} --seed {seed}"
    command += f" --steps {steps}" if steps is not None else ""
    curves, page = [pooled, *singles[:2]], out / "report.html"
    report(trace, curves, page, panel=glide.panel, truth=truth, command=command)
    late = slice(trace.record_.settings.model.lags, None)

    def quality(curve: np.ndarray) -> float:
        return weight_correlation(truth[late], curve[late])

    test = world.simulate(100, seed=2)
    learned = np.stack(trace.encode(test.panel))
    native = trace.axes_.native(learned)
    ideal = oracle(glide)
    summary: dict[str, Any] = {
        "weight_corr": quality(pooled.alpha),
        "weight_corr_single": float(np.mean([quality(path.alpha) for path in singles])),
        "oracle_weight_corr": quality(oracle(glide, pool=True).alpha[0]),
        "oracle_weight_corr_single": float(np.mean([quality(alpha) for alpha in ideal.alpha])),
        "r2": linear_r2(test.latents[:, late], learned[:, late]),
        "mcc": mean_correlation(test.latents[:, late], learned[:, late]),
        "mcc_before": mean_correlation(test.latents[:, late], native[:, late]),
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
    logger.info(
        f"Done in {summary['seconds']:.0f} s. Weight correlation with the truth:"
        f" {summary['weight_corr']:.3f} from {TRIALS} trials together (with the true latents and"
        f" mechanisms: {summary['oracle_weight_corr']:.3f}), {summary['weight_corr_single']:.2f}"
        f" from one recording alone ({summary['oracle_weight_corr_single']:.2f})."
    )
    logger.info(
        f"{trace.axes_.verdict} Correlation with the true latents (MCC): {summary['mcc']:.3f},"
        f" {summary['mcc_before']:.2f} before alignment."
    )
    for sentence in trace.axes_.sentences():
        logger.info(f"  {sentence}")
    for name in FILES[1:]:
        logger.info(f"  {out / name}")
    return summary
