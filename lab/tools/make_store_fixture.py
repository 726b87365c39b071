"""Make the stored model of the first format. Run once; the files then stay as they are."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import mechtrace as mt

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    world = mt.worlds.make("paper", regimes=3, latents=3, channels=5, length=20)
    trace = mt.Trace(latents=3, hidden=8, steps=600, batch=12, lr=1e-2, evaluations=4)
    trace.fit(world.simulate(20).panel, progress=False)
    values = world.simulate(1, seed=5).observations
    trace.save(folder / "model-v1.mechtrace")
    latents = np.stack(trace.encode(mt.Panel.from_arrays(values)))
    np.savez(folder / "model-v1-latents.npz", values=values, latents=latents)
