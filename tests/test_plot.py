"""Plots show what the result says."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np

mpl.use("Agg")


def test_plot_shows_every_regime_and_its_band(trained, world):
    path = trained.recover(world.transition("simple", seed=4).panel)
    truth = np.full(path.alpha.shape, 1 / 3)
    ax = path.plot(truth=truth)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == list(path.regimes)
    drawn = [line.get_ydata() for line in ax.get_lines() if line.get_linestyle() == "-"]
    assert all(np.allclose(y, path.alpha[:, k]) for k, y in enumerate(drawn))
    assert sum(line.get_linestyle() == "--" for line in ax.get_lines()) == 3
    mpl.pyplot.close("all")
