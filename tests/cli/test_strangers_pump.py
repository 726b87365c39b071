"""A stranger's pump from table to shares: no column is named, and nothing is lost by that."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import mechtrace as mt
from mechtrace.cli.inputs import read_labelled
from mechtrace.metrics import weight_correlation

#: Quick training; everything about the columns is left to mechtrace.
QUICK = ["--latents", 8, "--hidden", 32, "--steps", 500, "--set", "align=false", "-q"]


def dated(frame: pd.DataFrame) -> pd.DataFrame:
    """The table of somebody else: recordings in any order, whole numbers as ids, dates at 1 Hz."""
    run = pd.factorize(frame["series"])[0]
    hours = pd.Timestamp("2024-03-09 08:00") + run * pd.Timedelta("1h")
    stamp = hours + pd.to_timedelta(frame["time"], unit="s")
    sensors = frame.drop(columns=["series", "time", "regime", "group"], errors="ignore")
    return pd.DataFrame({"run_id": run + 1, "timestamp": stamp}).join(sensors.round(4))


@pytest.mark.parametrize("kind", ["integer", "text"])
def test_a_strangers_pump(command, tmp_path, kind):
    world = mt.worlds.make("pump", length=200, machines=1)
    frame = world.simulate(14).panel.to_frame().astype({"series": str, "regime": str})
    order = np.random.default_rng(0).permutation(42)
    frame = frame.assign(place=order[pd.factorize(frame["series"])[0]])
    frame = frame.sort_values(["place", "time"], ignore_index=True).drop(columns="place")
    table = dated(frame).assign(condition=frame["regime"])
    if kind == "text":
        table["run_id"] = table["run_id"].map("R-{:03d}".format)
    data, model, out = tmp_path / "runs.csv", tmp_path / "m.mechtrace", tmp_path / "alpha.csv"
    table.to_csv(data, index=False)
    named = {"time": "timestamp", "series": "run_id", "regime": "condition"}
    told = read_labelled([data], named | {"channels": list(frame.columns[-9:])}).panel
    assert read_labelled([data], {}).panel.fingerprint() == told.fingerprint()
    if kind == "text":  # the same recordings, so the same model
        return
    code, _, err = command("fit", data, *QUICK, "--out", model)
    assert code == 0, err
    new = world.transition("simple", series=3)
    bare = dated(new.panel.to_frame().astype({"series": str}))
    files = []
    for run, one in bare.groupby("run_id"):
        files.append(tmp_path / f"new{run}.csv")
        one.drop(columns="run_id").to_csv(files[-1], index=False)
    code, _, err = command("recover", model, *files, "--out", out, "-q")
    assert code == 0, err
    found = pd.read_csv(out, keep_default_na=False)
    scores = []
    for k, (_, one) in enumerate(found.groupby("series", sort=False)):
        alpha = one[list(world.regimes)].replace("", np.nan).astype(float).to_numpy()
        known = np.isfinite(alpha).all(axis=1)
        scores.append(weight_correlation(new.alpha[k][known], alpha[known]))
    assert np.mean(scores) > 0.97
