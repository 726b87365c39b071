"""Draw docs/images/latents.png: the latents of a recording the model has never seen."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np

import mechtrace as mt

mpl.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).parent.parent

if __name__ == "__main__":
    world = mt.worlds.make("paper", seed=0)
    trace = mt.Trace(seed=0).fit(world.simulate(400).panel)
    new = world.transition("simple", active=[0, 2, 4], series=200, seed=1)
    learned = np.stack(trace.encode(new.panel))
    lags = 2
    design = np.concatenate([learned, np.ones((*learned.shape[:2], 1))], axis=-1)
    fit = [a[1:, lags:].reshape(-1, a.shape[-1]) for a in (design, new.latents)]
    mapped = design[0] @ np.linalg.lstsq(*fit, rcond=None)[0]  # from the other 199 recordings
    figure, axes = plt.subplots(2, 4, figsize=(11, 4.2), sharex=True, layout="constrained")
    for i, ax in enumerate(axes.flat):
        ax.plot(new.latents[0, :, i], color="0.75", lw=4, label="true")
        ax.plot(mapped[:, i], color="#0072b2", lw=1.3, label="learned (linear map)")
        ax.axvspan(0, lags - 1, color="0.93")
        ax.set_title(f"latent {i + 1}", fontsize=9)
        ax.tick_params(labelsize=8)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0, 0].legend(fontsize=7, frameon=False)
    figure.supxlabel("step (grey: before the first full history)", fontsize=9)
    target = ROOT / "docs" / "images" / "latents.png"
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=110)
    print(target)
