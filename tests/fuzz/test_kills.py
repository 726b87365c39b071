"""SIGKILL at a random moment: nothing half-written, nothing left behind, nobody works on."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import mechtrace as mt
from fuzz.guard import cases

pytestmark = pytest.mark.fuzz

KILLS = 40
#: Seconds after which no process of a killed command may live.
GRACE = 5
FIT = [
    "--latents",
    "2",
    "--lags",
    "2",
    "--hidden",
    "16",
    "--steps",
    "300",
    "--lr",
    "0.01",
    "--set",
    "align=false",
]
#: Words of each command, and the files and folders that it leaves behind.
COMMANDS = {
    "recover": (["recover", "m.mechtrace", "new.csv", "--out", "alpha.csv", "--json", "a.json"],
                {"alpha.csv", "a.json"}),
    "fit": (["fit", "runs.csv", "--out", "again.mechtrace", *FIT], {"again.mechtrace"}),
    "report": (["report", "m.mechtrace", "new.csv", "--out", "r.html"], {"r.html"}),
    "compare": (["compare", "runs.csv", "--methods", "nearest-mean,lda", "--out", "out"], {"out"}),
}  # fmt: skip
INPUTS = {"runs.csv", "new.csv", "m.mechtrace"}


@pytest.fixture(scope="module")
def material(tmp_path_factory):
    """Labelled recordings, a new one, and a model, in a folder."""
    folder = tmp_path_factory.mktemp("material")
    world = mt.worlds.make("paper", regimes=2, latents=2, channels=3, length=30)
    runs = world.simulate(12).panel
    runs.to_csv(folder / "runs.csv")
    world.transition("simple", series=3, length=300).panel.to_csv(folder / "new.csv")
    trace = mt.Trace(latents=2, lags=2, hidden=16, steps=240, lr=1e-2, batch=12, align=False)
    trace.fit(runs, progress=False).save(folder / "m.mechtrace")
    return folder


def start(words, folder):
    return subprocess.Popen(
        [sys.executable, "-m", "mechtrace", *words],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def alive(session):
    """Processes of a session that are not zombies."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, owner = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:  # it ended meanwhile
            continue
        if int(owner) == session and state != "Z":
            found.append(stat.parent.name)
    return found


def whole(path):
    """Check that an output is complete, if it is there."""
    if not path.exists() or path.is_dir():
        return
    if path.name == "alpha.csv":
        assert len(pd.read_csv(path)) == 900
    elif path.suffix in (".mechtrace", ".ckpt"):
        assert mt.load(path).regimes_ == ("R0", "R1")
    elif path.suffix == ".html":
        assert path.read_text(encoding="utf-8").rstrip().endswith("</html>")


@pytest.fixture(scope="module")
def seconds():
    """How long each command took when nobody killed it."""
    return {}


@pytest.mark.parametrize("seed", cases(KILLS))
def test_a_killed_command(material, seconds, tmp_path, seed):
    draw = random.Random(seed)
    name = list(COMMANDS)[seed % len(COMMANDS)]
    words, outputs = COMMANDS[name]
    for path in material.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    inputs = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    process = start(words, tmp_path)
    time.sleep(draw.uniform(0, seconds.get(name, 8)))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    deadline = time.monotonic() + GRACE
    while (orphans := alive(process.pid)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not orphans
    for path in tmp_path.iterdir():
        whole(path)
    more = ["--resume"] if (tmp_path / "again.mechtrace.ckpt").exists() else []
    began = time.monotonic()
    again = start([*words, *more], tmp_path)
    _, err = again.communicate(timeout=120)
    seconds[name] = time.monotonic() - began
    assert again.returncode == 0, err.decode()
    assert {path.name for path in tmp_path.iterdir()} == INPUTS | outputs
    for path in tmp_path.rglob("*"):
        whole(path)
        assert not path.name.startswith(".")
    assert {name: (tmp_path / name).read_bytes() for name in INPUTS} == inputs
    if name == "recover":
        shares = pd.read_csv(tmp_path / "alpha.csv")[["R0", "R1"]]
        assert np.allclose(shares.sum(axis=1), 1)
