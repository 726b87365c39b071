"""What a fit found out about columns counts for every later command, on barer files."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest

import mechtrace as mt
from mechtrace.cli.inputs import read_labelled

SMALL = {"latents": 2, "hidden": 16, "steps": 100, "batch": 12, "lr": 1e-2, "evaluations": 2,
         "align": False}  # fmt: skip
FIRST = pd.Timestamp("2024-03-09 08:00")


def stamped(frame: pd.DataFrame, late: np.ndarray) -> pd.Series:
    """Dates of India at about 1 Hz: the steps after `late` rows take two seconds."""
    row = frame["time"].astype(int).to_numpy()
    seconds = pd.to_timedelta(row + np.concatenate([[0], np.cumsum(late)])[row], unit="s")
    hours = pd.factorize(frame["series"])[0] * pd.Timedelta("1h")
    return (FIRST + hours + seconds).strftime("%Y-%m-%dT%H:%M:%S+05:30")


@pytest.fixture(scope="module")
def rig(tmp_path_factory):
    """A table of the fit, another without ids and regimes, and the truth of the latter."""
    folder = tmp_path_factory.mktemp("rig")
    world = mt.worlds.make("paper", regimes=2, latents=2, channels=3, length=40)
    late = np.random.default_rng(0).random(40) < 0.1
    frame = world.simulate(12).panel.to_frame().astype({"series": str, "regime": str})
    table = pd.DataFrame({"run_id": pd.factorize(frame["series"])[0] + 1,
                          "timestamp": stamped(frame, late), "mode": frame["regime"],
                          "machine": pd.factorize(frame["series"])[0] % 4})  # fmt: skip
    table.join(frame[["x0", "x1", "x2"]]).to_csv(folder / "runs.csv", index=False)
    new = world.transition("simple", series=1)
    frame = new.panel.to_frame().astype({"series": str})
    bare = pd.DataFrame({"x2": frame["x2"], "note": "ok", "x0": frame["x0"], "room": 21.5,
                         "x1": frame["x1"], "timestamp": stamped(frame, late)})  # fmt: skip
    bare.to_csv(folder / "new.csv", index=False)
    labels = np.where(new.alpha[0].max(axis=1) > 0.95, new.alpha[0].argmax(axis=1), -1)
    names = np.array(["R0", "R1", ""])[labels]
    bare.assign(mode=names, day=1).to_csv(folder / "labelled.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def model(rig):
    """What `mechtrace fit runs.csv` learns."""
    reading = read_labelled([rig / "runs.csv"], {})
    assert "time = timestamp (detected), series = run_id (detected)" in reading.summary
    assert "group = machine (detected)" in reading.summary
    assert reading.panel.channels == ("x0", "x1", "x2")
    path = rig / "m.mechtrace"
    mt.Trace(**SMALL).fit(reading.panel, progress=False).save(path)
    return path


def test_recover_needs_neither_ids_nor_regimes_nor_the_gap(rig, model, command, tmp_path):
    out, report = tmp_path / "a.csv", tmp_path / "r.json"
    code, said, err = command("recover", model, rig / "new.csv", "-o", out, "--json", report)
    assert code == 0, err
    assert "as in the fit: gap = 2.5" in said
    table = pd.read_csv(out, keep_default_na=False)
    assert set(table["flag"]) <= {"", "unexplained", "disagree", "warm-up"}  # nothing is missing
    sent = pd.read_csv(rig / "new.csv")["timestamp"].str.replace("T", " ")
    assert table["time"].tolist() == sent.tolist()  # zone and resolution as they came in
    events = [e for found in json.loads(report.read_text())["events"].values() for e in found]
    for event in events:
        assert re.fullmatch(r"2024-03-09 08:\d\d:\d\d\+05:30", event["midpoint"])


@pytest.mark.parametrize("name", ["diagnose", "report"])
def test_other_commands_remember_it_too(rig, model, command, tmp_path, name):
    words = ["-o", tmp_path / "r.html"] if name == "report" else []
    code, said, err = command(name, model, rig / "new.csv", *words)
    assert code == 0, err
    assert "as in the fit: gap = 2.5" in said


def test_anchors_on_dates_count_from_the_first_or_are_dates(rig, model, command, tmp_path):
    found = []
    for span in ("0:9", "2024-03-09T08:00:00..2024-03-09T08:00:09"):
        out = tmp_path / "a.csv"
        code, _, err = command(
            "recover", model, rig / "new.csv", "-o", out, "--anchor", f"{span}=R0"
        )
        assert code == 0, err
        found.append(pd.read_csv(out)["R0"].to_numpy())
    np.testing.assert_allclose(*found)
    code, _, err = command("recover", model, rig / "new.csv", "-o", tmp_path / "a.csv",
                           "--anchor", "4000:5000=R0")  # fmt: skip
    assert code == 2
    assert "no row lies between 4000 and 5000" in err


def test_labels_of_rows_are_scored(rig, model, command):
    code, said, err = command("evaluate", rig / "labelled.csv", "--model", model, "--json", "-")
    assert code == 0, err
    assert json.loads(said)["summary"]["transition"]["recordings"] == 1


def test_groups_of_recordings_with_labels_of_rows_are_left_out(rig, command, tmp_path):
    table = pd.read_csv(rig / "runs.csv")
    table.loc[table.index % 40 > 30, "mode"] = ""  # the end of each recording is not labelled
    table.to_csv(tmp_path / "rows.csv", index=False)
    options = [f"{name}={json.dumps(value)}" for name, value in SMALL.items()]
    sets = [word for option in options for word in ("--set", option)]
    code, said, err = command("evaluate", tmp_path / "rows.csv", "--group-by", "machine", *sets)
    assert code == 0, err
    assert "transition, 24 recordings" in said


def test_a_column_of_the_fit_that_is_missing_is_named(rig, model, command, tmp_path):
    pd.read_csv(rig / "new.csv").drop(columns="x1").to_csv(tmp_path / "two.csv", index=False)
    code, _, err = command("recover", model, tmp_path / "two.csv", "-o", tmp_path / "a.csv")
    assert code == 2
    assert "no column 'x1'" in err
