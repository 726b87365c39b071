"""Compare the answers of two versions of mechtrace on ten small cases.

Run it with the sources of one version (`--write FOLDER`), then with those of the other
(`--compare FOLDER`), on the same machine: curves, intervals, latents, MCC and verdicts must agree
to 1e-8. The cases are five synthetic worlds, a pump, pictures, gait and two kinds of vehicle
channels; the last three need recordings below $MECHTRACE_DATA.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

import mechtrace as mt
from mechtrace.metrics import mean_correlation

#: Worlds, with the options of each.
WORLDS: dict[str, dict[str, Any]] = {
    "paper": {}, "paper-positive": {}, "laplace": {}, "regime-noise": {}, "linear-gaussian": {},
    "pump": {}, "cartpole": {"size": 32},
}  # fmt: skip
#: Ways to recover the weights.
WAYS: dict[str, dict[str, Any]] = {
    "smooth": {}, "causal": {"causal": True}, "algorithm1": {"method": "algorithm1"},
    "auto": {"active": "auto"},
}  # fmt: skip
#: Largest absolute difference between answers that count as equal.
TOLERANCE = 1e-8

#: Arrays, numbers and words by name.
Answers = dict[str, Any]


def world_case(name: str, options: dict[str, Any]) -> Answers:
    """Fit a small model in a simulated world and recover a transition.

    Parameters
    ----------
    name : str
        A preset of `mechtrace.worlds`.
    options : dict
        Options of the world.

    Returns
    -------
    dict
        Answers of `answers`, and the MCC where the latents are known.
    """
    world = mt.worlds.make(name, seed=3, **options)
    pictures = name == "cartpole"
    train = world.simulate(12 if pictures else 60)
    model = mt.Trace(seed=1, steps=120 if pictures else 400).fit(train.panel, progress=False)
    found = answers(model, world.transition("simple", series=4, seed=5).panel)
    test = world.simulate(10, seed=9)
    if test.latents is not None:
        latents = np.stack(model.encode(test.panel))
        both = min(test.latents.shape[-1], latents.shape[-1])
        found["mcc"] = mean_correlation(test.latents[:, 2:, :both], latents[:, 2:, :both])
    return found


def recordings_case(dataset: str, features: str) -> Answers:
    """Fit a small model to real recordings of one regime each and recover three transitions.

    Parameters
    ----------
    dataset : {"cmu", "uavdt"}
        Name of the data set.
    features : str
        Set of channels.

    Returns
    -------
    dict
        Answers of `answers`.
    """
    try:
        reader = import_module(f"mechtrace_lab.datasets.{dataset}")
    except ImportError:  # a version before the lab was a package of its own
        reader = import_module(f"mechtrace.datasets.{dataset}")
    panel = reader.read(features=features).panel
    names = [panel.regime_names_of(i) for i in range(len(panel))]
    labelled = np.array([bool(name is not None and name[0]) for name in names])
    pure, unlabelled = np.flatnonzero(labelled), np.flatnonzero(~labelled)
    model = mt.Trace(latents=4, seed=1, steps=150).fit(panel[pure[:60]], progress=False)
    return answers(model, panel[unlabelled[:3]])


def answers(model: mt.Trace, panel: mt.Panel) -> Answers:
    """Collect everything that must not change between versions.

    Parameters
    ----------
    model : Trace
        A fitted model.
    panel : Panel
        Recordings of transitions.

    Returns
    -------
    dict
        ELBO, verdict on the axes, and of each recording the curve and its interval for each of
        `WAYS`, the diagnosis and the latents.
    """
    found: Answers = {"elbo": model.elbo_, "axes": model.axes_.verdict}
    for way, options in WAYS.items():
        paths = model.recover(panel, **options)
        for i, path in enumerate(paths if isinstance(paths, list) else [paths]):
            for part in ("alpha", "lower", "upper"):
                found[f"{way}/{i}/{part}"] = getattr(path, part)
            if way == "smooth":
                diagnosis = model.diagnose(path)
                levels = (f"{finding.code}: {finding.level}" for finding in diagnosis.findings)
                found[f"{way}/{i}/verdict"] = diagnosis.verdict
                found[f"{way}/{i}/findings"] = "; ".join(levels)
    return found | {f"latents/{i}": latents for i, latents in enumerate(model.encode(panel))}


CASES: dict[str, Callable[[], Answers]] = {
    **{name: partial(world_case, name, options) for name, options in WORLDS.items()},
    "gait": partial(recordings_case, "cmu", "legs"),
    "vehicles-motion": partial(recordings_case, "uavdt", "motion"),
    "vehicles-shape": partial(recordings_case, "uavdt", "shape"),
}


def store(folder: Path, name: str, found: Answers) -> None:
    """Write the numbers of a case to NAME.npz and its words to NAME.json."""
    words = {key: value for key, value in found.items() if isinstance(value, str)}
    numbers = {key: np.asarray(value) for key, value in found.items() if key not in words}
    np.savez_compressed(folder / f"{name}.npz", allow_pickle=False, **numbers)
    (folder / f"{name}.json").write_text(json.dumps(words, indent=1), encoding="utf-8")


def differences(folder: Path, name: str, found: Answers) -> list[str]:
    """List what differs from a stored case, one line each."""
    out = []
    with np.load(folder / f"{name}.npz", allow_pickle=False) as stored:
        for key, old in stored.items():
            new = np.asarray(found.get(key, np.nan))
            if old.shape != new.shape:
                out.append(f"{key}: shape {old.shape} -> {new.shape}")
            elif not np.allclose(old, new, rtol=0, atol=TOLERANCE, equal_nan=True):
                out.append(f"{key}: differs by {np.nanmax(np.abs(old - new)):.2e}")
    words = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    changed = [key for key, old in words.items() if found.get(key) != old]
    return out + [f"{key}: {words[key]!r} -> {found.get(key)!r}" for key in changed]


def main() -> int:
    """Write or compare; the exit code is 1 if an answer differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--write", type=Path, metavar="FOLDER", help="store the answers")
    way.add_argument("--compare", type=Path, metavar="FOLDER", help="compare with stored answers")
    parser.add_argument("--only", nargs="+", choices=CASES, help="only these cases")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.write:
        options.write.mkdir(parents=True, exist_ok=True)
    different = 0
    for name in options.only or CASES:
        began, lines = time.perf_counter(), []
        found = CASES[name]()
        if options.write:
            store(options.write, name, found)
        else:
            lines = differences(options.compare, name, found)
        state = "stored" if options.write else "differs" if lines else "equal"
        print(f"{name:20s} {state} ({time.perf_counter() - began:.0f} s)", flush=True)
        print(*(f"    {line}" for line in lines[:12]), sep="\n", end="\n" if lines else "")
        different += bool(lines)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
