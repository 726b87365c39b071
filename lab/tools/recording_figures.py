"""Draw docs/images/gait.png and vehicle-turns.png; $MECHTRACE_DATA names the recordings.

Errors in lab/results/ decide what is shown: the trial with the median error, and turns from the
best to the worst.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from project_files import load, save

import mechtrace as mt
from mechtrace.viz import plot
from mechtrace_lab.datasets import cmu, uavdt
from mechtrace_lab.datasets.gait import mean_speeds, speed_proxy
from mechtrace_lab.datasets.motion import Motion, read_motion
from mechtrace_lab.datasets.recordings import data_folder
from mechtrace_lab.plot import skeletons, track
from mechtrace_lab.reproduction import uavdt_boxes as vehicles
from mechtrace_lab.reproduction.uavdt_folds import SequenceFold

#: Joints from one to the next, as the BVH files of the CMU database name them.
CHAINS = (
    ("Hips", "LeftUpLeg", "LeftLeg", "LeftFoot", "LeftToeBase"),
    ("Hips", "RightUpLeg", "RightLeg", "RightFoot", "RightToeBase"),
    ("Hips", "Spine", "Neck", "Head"),
    ("Neck", "LeftArm", "LeftForeArm", "LeftHand"),
    ("Neck", "RightArm", "RightForeArm", "RightHand"),
)
TURNS = 4


def by_error(rows: list[dict[str, Any]], name: str) -> list[str]:
    """Names of recordings, the best first."""
    error: dict[str, list[float]] = {}
    for row in rows:
        error.setdefault(row[name], []).append(row["mae"])
    return sorted(error, key=lambda one: float(np.mean(error[one])))


def body_of(motion: Motion, times: np.ndarray) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Joints (T, J, 3) at these times, seen from the side on the spot, and the bones."""
    names = list(dict.fromkeys(name for chain in CHAINS for name in chain))
    at = [motion.names.index(name) for name in names]
    places = motion.positions[:, at] - motion.hips[:, None] * [1, 0, 1]
    places = np.einsum("tij,tkj->tki", motion.heading(), places)
    rows = np.clip(np.round(times * motion.rate).astype(int), 0, len(motion) - 1)
    bones = [
        (names.index(one), names.index(two)) for chain in CHAINS for one, two in pairwise(chain)
    ]
    return places[rows], bones


def gait_figure() -> Figure:
    """Snapshots of the middle trial, and its share of running beside the proxy."""
    rows = load("gait-cmu")["rows"]
    mine = [r for r in rows if (r["features"], r["method"], r["kind"])
            == ("legs", "mechtrace", "change")]  # fmt: skip
    ranked = by_error(mine, "trial")
    trial = ranked[len(ranked) // 2]
    everything = cmu.read(features="legs")
    subject = trial.partition("_")[0]
    learn = everything.pure[np.array([str(g) != subject for g in everything.pure.panel.groups])]
    trace = mt.Trace().fit(learn.panel, progress=False)
    test = everything[[trial]]
    path = trace.recover(test.panel.without_labels())
    usual = mean_speeds(learn.column("hip speed"), learn.labels)
    share = speed_proxy(test.column("hip speed")[0], usual["walk"], usual["run"])
    files = cmu.find_trials(data_folder(cmu.NAME, None, cmu.COMMAND))
    motion = read_motion(next(file for file in files if file.stem == trial))
    joints, bones = body_of(motion, path.time)
    figure = Figure(figsize=(9, 5.4), layout="constrained")
    upper, lower = figure.subplots(2, 1, height_ratios=(1.3, 1))
    skeletons(joints, bones, path, upper, regime="run", count=8, plane=(2, 1))
    upper.set_title(f"Trial {trial}; subject {subject} was left out", loc="left", fontsize=10)
    run = path.regimes.index("run")
    truth = np.column_stack([1 - share, share] if run == 1 else [share, 1 - share])
    plot.trajectory(path, lower, truth=truth)
    for text in lower.get_legend().get_texts():
        if text.get_text() == "truth":  # nobody knows it
            text.set_text("proxy (speed of the hips)")
    lower.set_xlabel("time in seconds")
    return figure


def vehicle_figure() -> Figure:
    """Turns in plan view, from the best to the worst by the shape of the box alone."""
    r = load("vehicles-uavdt")
    mine = [row for row in r["turns"] if (row["features"], row["method"]) == ("shape", "mechtrace")
            and row["track"] in r["sets"]["verified"]]  # fmt: skip
    ranked = by_error(mine, "track")
    shown = [ranked[i] for i in np.linspace(0, len(ranked) - 1, TURNS).round().astype(int)]
    tracks = vehicles.Tracks.of(data_folder(uavdt.NAME, None, uavdt.COMMAND))
    figure = Figure(figsize=(11, 5.4), layout="constrained")
    upper, lower = figure.subplots(2, TURNS, height_ratios=(1.5, 1))
    for name, plan, curve in zip(shown, upper, lower, strict=True):
        turn = next(one for one in tracks.turns if one.name == name)
        out = next(share for share in r["folds"] if turn.sequence in share)
        learn = SequenceFold.of(tracks.straight, [], out).learn
        labelled = vehicles.recordings(learn, "shape", [track.kind for track in learn])
        settings = r["settings"].get("shape", r["settings"]) | {"seed": 0}
        trace = mt.Trace(**settings).fit(labelled.panel, progress=False)
        test = vehicles.recordings([turn], "shape")
        told = {"evidence": "static", "estimate_offset": True} if "fits" in r else {}
        path = trace.recover(test.panel.without_labels(), **told)
        whole = turn.filled()
        places = [np.interp(path.time * uavdt.RATE, whole.frames, x) for x in whole.centres.T]
        track(np.column_stack(places), path, plan, regime="vertical")
        plan.invert_yaxis()  # rows of a picture count downwards
        error = next(row["mae"] for row in mine if row["track"] == name)
        plan.set_title(f"{name}, error {error:.2f}", fontsize=10)
        share = test.column("proxy")[0]
        vertical = path.regimes.index("vertical")
        curve.fill_between(path.time, path.lower[:, vertical], path.upper[:, vertical], alpha=0.2)
        curve.plot(path.time, path.alpha[:, vertical])
        curve.plot(path.time, share, "k--", lw=1)
        curve.set(xlabel="seconds (dashed: proxy)", ylim=(-0.05, 1.05))
    lower[0].set_ylabel("share of vertical")
    return figure


if __name__ == "__main__":
    import sys

    drawers = {"gait": gait_figure, "vehicle-turns": vehicle_figure}
    for name in sys.argv[1:] or drawers:
        save(drawers[name](), name)
