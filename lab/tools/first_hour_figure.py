"""Draw docs/images/first-hour.png: the first tutorial's recording, and twenty of them pooled."""

from __future__ import annotations

from matplotlib.figure import Figure
from project_files import save

import mechtrace as mt
from mechtrace.viz import plot

if __name__ == "__main__":
    world = mt.worlds.make("paper-positive", regimes=2, latents=4, channels=12, edge=0.6)
    model = mt.Trace(latents=4, lags=2, hidden=32, steps=700, seed=0)
    model.fit(world.simulate(series=60).panel)
    one = world.transition("simple", series=1, length=60)
    many = world.transition("simple", series=20, length=60, seed=1)
    figure = Figure(figsize=(8, 4.6), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True)
    plot.trajectory(model.recover(one.panel), upper, truth=one.alpha[0])
    plot.trajectory(model.recover(many.panel, pool=True), lower, truth=many.alpha[0])
    upper.set_xlabel("")
    lower.get_legend().remove()
    lower.set_xlabel("step (dashed: truth)")
    save(figure, "first-hour", dpi=100)
