"""Draw docs/images/vehicle-frames.png from lab/results/vehicle-frames.json and the frames.

    python lab/tools/vehicle_frames_figure.py path/to/uavdt

The frames are UAVDT's (Du et al., ECCV 2018; for research purposes only) and stay where they are;
the picture shows a few of them at small size.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle
from project_files import load, save

from mechtrace_lab.datasets.trails import AROUND, RING
from mechtrace_lab.reproduction.uavdt_frames import STEP, sequence

NAME, SHOWN = "S1606", 6
#: Half the side of a view, in sizes of the vehicle.
VIEW = 4.0

if __name__ == "__main__":
    result = load("vehicle-frames")
    scene = sequence(Path(sys.argv[1]), NAME)
    seconds = scene.numbers[scene.rows(STEP)] / 30
    curves = np.array([row[NAME]["alpha"] for row in result["rows"]])
    figure = Figure(figsize=(9, 6.2), layout="constrained")
    above, *rows = figure.subplots(3, 1, height_ratios=[2.2, 1, 1])
    above.plot(seconds, result["curves"][NAME]["proxy"], "k--", lw=1, label="direction of travel")
    above.plot(seconds, curves.T, color="C0", lw=0.7, alpha=0.6)
    above.plot(seconds, curves.mean(axis=0), "C0", lw=2, label="alpha vertical, mean of the fits")
    above.plot(seconds, np.linspace(0, 1, len(seconds)), "0.7", lw=1, label="straight line")
    above.set(xlim=seconds[[0, -1]], ylim=(0, 1), xlabel="seconds")
    above.legend(frameon=False, loc="upper left")
    above.set_title(f"A vehicle that turns (UAVDT {NAME}), learned from straight ones", loc="left")
    places = np.linspace(0, len(seconds) - 1, SHOWN).round().astype(int)
    film = scene.film(scene.rows(STEP)[places])
    for number, place in enumerate(places):
        left = (number + 0.5) / SHOWN - 0.07
        frame = scene.rows(STEP)[place]
        (x, y), size = scene.centres[frame], scene.sizes[frame]
        width, height = AROUND * scene.sides[frame]
        view = rows[0].inset_axes([left, 0, 0.14, 1])
        view.imshow(scene.steady[frame], cmap="gray")
        view.set(xlim=(x - VIEW * size, x + VIEW * size), ylim=(y + VIEW * size, y - VIEW * size))
        view.add_patch(
            Rectangle((x - width / 2, y - height / 2), width, height, fill=False, color="y")
        )
        for radius in RING:
            view.add_patch(Circle((x, y), radius * size, fill=False, color="C0", lw=0.6))
        view.set_title(f"{seconds[place]:.1f} s", fontsize=9)
        seen = rows[1].inset_axes([left, 0, 0.14, 1])
        seen.imshow(film[number], cmap="gray")
        for axes in (view, seen):
            axes.set(xticks=[], yticks=[])
    for row, text in zip(rows, ("frames, camera steady", "what the model sees"), strict=True):
        row.axis("off")
        row.set_title(text, loc="left", fontsize=9, pad=18)
    save(figure, "vehicle-frames", dpi=100)
