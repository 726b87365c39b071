"""Draw docs/images/trajectory.png: 200 pooled trials, and the median of 200 single recordings."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from project_files import save

import mechtrace as mt
from mechtrace.metrics import weight_correlation
from mechtrace.viz import plot


def learned(name: str) -> tuple[mt.Trace, mt.Panel, np.ndarray]:
    """A model of a world, 200 transitions and their common truth."""
    world = mt.worlds.make(name, seed=0)
    trace = mt.Trace(seed=0).fit(world.simulate(400).panel)
    transition = world.transition("simple", active=[0, 2, 4], series=200, seed=1)
    return trace, transition.panel, transition.alpha[0]


if __name__ == "__main__":
    figure = Figure(figsize=(9, 5.2), layout="constrained")
    upper, lower = figure.subplots(2, 1)
    trace, panel, truth = learned("paper")
    plot.trajectory(trace.recover(panel, pool=True), upper, truth=truth)
    trace, panel, truth = learned("paper-positive")
    paths = trace.recover(panel)
    paths.sort(key=lambda path: weight_correlation(truth, path.alpha))
    plot.trajectory(paths[len(paths) // 2], lower, truth=truth)
    upper.set_xlabel("")
    lower.set_xlabel("step (dashed: truth)")
    lower.get_legend().remove()
    save(figure, "trajectory")
