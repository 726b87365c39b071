"""The command line: what works, what it leaves behind, and how it refuses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

import mechtrace as mt

FIT = ["--latents", "4", "--hidden", "16", "--steps", "240", "--batch", "12", "--lr", "0.01"]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    world = mt.worlds.make("paper", regimes=3, latents=4, channels=6, length=20)
    path = tmp_path_factory.mktemp("data") / "runs.csv"
    frame = world.simulate(12).panel.to_frame()
    frame.rename(columns={"series": "run", "regime": "mode"}).to_csv(path, index=False)
    return path


def test_help_names_every_command_with_an_example(command):
    code, out, _ = command("--help")
    assert code == 0
    for name in ("demo", "simulate", "fit", "recover", "calibrate", "info", "bench"):
        assert name in out
    for name in (["demo"], ["simulate"], ["fit"], ["recover"], ["calibrate"], ["info"],
                    ["bench", "train"], ["bench", "scale"], ["bench", "latents"],
                    ["bench", "convexity"], ["bench", "theory"],
                    ["bench", "scaling"]):  # fmt: skip
        code, out, _ = command(*name, "--help")
        assert code == 0
        assert "Example" in out
        assert f"mechtrace {' '.join(name)}" in out


def test_version(command):
    assert command("--version")[1].strip() == mt.__version__


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_simulate_writes_every_format(command, tmp_path, suffix):
    target = tmp_path / f"runs{suffix}"
    facts = tmp_path / "facts.json"
    code, out, _ = command(
        "simulate", "--out", target, "--series", 2, "--set", "regimes=3", "--json", facts
    )
    assert code == 0
    assert "6 series x 50 rows" in out
    assert json.loads(facts.read_text())["world"] == "paper"
    roles = {"time": "time", "series": "series", "regime": "regime"} if suffix != ".npz" else {}
    panel = mt.Panel.read(target, **roles)
    assert panel.regimes == ("R0", "R1", "R2")
    assert len(panel) == 6


def test_simulate_a_transition_with_its_truth(command, tmp_path):
    code, _, _ = command(
        "simulate", "--out", tmp_path / "glide.csv", "--transition", "simple", "--active", "0,2,4",
        "--series", 1, "--truth", tmp_path / "truth.npz", "--quiet",
    )  # fmt: skip
    assert code == 0
    with np.load(tmp_path / "truth.npz", allow_pickle=False) as truth:
        assert truth["alpha"].shape == (1, 50, 5)
        assert truth["alpha"][0, 0, 0] == 1
        assert truth["transition_matrices"].shape == (50, 8, 8)
        assert truth["conditional_means"].shape == (1, 50, 5, 8)
    assert "regime" not in pd.read_csv(tmp_path / "glide.csv").columns


def test_fit_and_info(command, table, tmp_path):
    model, facts = tmp_path / "gait.mechtrace", tmp_path / "facts.json"
    code, out, err = command("fit", table, "--out", model, *FIT, "--json", facts)
    assert code == 0, err
    assert "time = time (guessed), series = run (guessed), regime = mode (guessed)" in out
    assert "step 240/240" in err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["facts.json", "gait.mechtrace"]
    assert json.loads(facts.read_text())["regimes"] == ["R0", "R1", "R2"]
    code, out, _ = command("info", model)
    assert code == 0
    assert "3 regimes" in out
    assert "held-out ELBO" in out


def test_fit_with_a_config_file(command, table, tmp_path):
    config = tmp_path / "run.toml"
    config.write_text("[model]\nlatents = 3\nhidden = 16\n[fit]\nsteps = 240\nlr = 0.01\n")
    model = tmp_path / "m"
    code, out, err = command(
        "fit", table, "-o", model, "--config", config, "--batch", 12, "--quiet"
    )
    assert (code, out, err) == (0, "", "")
    settings = mt.load(model).get_params()
    assert (settings["latents"], settings["batch"], settings["steps"]) == (3, 12, 240)


def test_bench_train_writes_its_configuration(command, tmp_path):
    result = tmp_path / "train.json"
    code, out, _ = command(
        "bench", "train", "--seconds", "0.2", "--hidden", "16", "--latents", "4",
        "--channels", "6", "--json", result,
    )  # fmt: skip
    assert code == 0
    measured = json.loads(result.read_text())
    assert measured["transitions_per_second"] > 0
    assert measured["configuration"]["hidden"] == 16
    assert "transitions/s" in out


def test_bench_recover_shows_where_the_time_goes_and_how_it_grows(command, tmp_path):
    result = tmp_path / "recover.json"
    code, out, _ = command(
        "bench", "recover", "--series", "6", "--length", "20", "--regimes", "2", "--repeats", "1",
        "--lengths", "40", "--json", result,
    )  # fmt: skip
    assert code == 0
    assert "1 series of 40" in out
    found = json.loads(result.read_text())
    seconds = 120 / found["steps_per_second"]
    parts = found["microseconds_per_step"]
    assert set(parts) == {"encode", "predict", "evidence", "engine", "rest"}
    assert sum(parts.values()) * 120 / 1e6 == pytest.approx(seconds)
    assert found["scaling"][0]["length"] == 40
    assert found["scaling"][0]["peak_memory_mb"] > 0


def test_bench_scaling_writes_its_configuration(command, tmp_path):
    result = tmp_path / "scaling.json"
    code, out, _ = command(
        "bench", "scaling", "--seeds", "1", "--active", "2", "--trials", "5", "--json", result
    )
    assert code == 0
    assert "sigma_min" in out
    written = json.loads(result.read_text())
    assert written["regimes"] == 10
    assert written["versions"]["mechtrace"]


def test_bench_scale_and_latents(command, tmp_path):
    code, out, _ = command("bench", "scale", "--series", "4,8", "--steps", "5")
    assert code == 0
    assert "8 series per regime" in out
    result = tmp_path / "latents.json"
    code, _, _ = command(
        "bench", "latents", "--series", "60", "--seeds", "1", "--steps", "250", "--json", result
    )
    assert code == 0
    measured = json.loads(result.read_text())
    assert 0.5 < measured["r2_mean"] <= 1
    assert measured["rows"][0]["seed"] == 0


def test_demo(command, tmp_path):
    code, _, _ = command("demo", "--out", tmp_path / "demo", "--steps", "150", "--quiet")
    assert code == 0
    summary = json.loads((tmp_path / "demo" / "summary.json").read_text())
    assert {
        "weight_corr", "weight_corr_single", "oracle_weight_corr", "oracle_weight_corr_single",
        "mcc", "fit_seconds", "seconds",
    } <= summary.keys()  # fmt: skip
    assert summary["oracle_weight_corr"] > 0.97
    curve = pd.read_csv(tmp_path / "demo" / "trajectory.csv")
    assert list(curve.columns[:3]) == ["time", "R0", "R1"]
    assert {"R0_lower", "R0_upper", "residual", "flag"} <= set(curve.columns)
    assert np.allclose(curve[["R0", "R1", "R2", "R3", "R4"]].sum(axis=1), 1)
    page = (tmp_path / "demo" / "report.html").read_text()
    assert 'id="content"' in page
    assert "http" not in page.replace("http-equiv", "")
    truth = pd.read_csv(tmp_path / "demo" / "truth.csv")
    assert np.allclose(truth.drop(columns="time").sum(axis=1), 1)
    assert mt.load(tmp_path / "demo" / "model.mechtrace").regimes_[0] == "R0"


@pytest.fixture(scope="module")
def fitted(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "gait.mechtrace"
    frame = pd.read_csv(table)
    panel = mt.Panel.from_frame(frame, time="time", series="run", regime="mode")
    settings = {"latents": 4, "hidden": 16, "steps": 240, "batch": 12, "lr": 0.01}
    mt.Trace(**settings).fit(panel, progress=False).save(path)
    return path


def test_recover_writes_table_report_and_events(command, table, fitted, tmp_path):
    new = tmp_path / "new.csv"
    frame = pd.read_csv(table)
    frame[frame.run < 3].drop(columns="mode").assign(comment="x").to_csv(new, index=False)
    out, page, facts = tmp_path / "alpha.csv", tmp_path / "alpha.html", tmp_path / "a.json"
    code, said, err = command(
        "recover", fitted, new, "--out", out, "--report", page, "--json", facts, "--level", "0.8"
    )
    assert code == 0, err
    assert "time = time (guessed), series = run (guessed)" in said
    result = pd.read_csv(out)
    assert list(result.columns[:5]) == ["series", "time", "R0", "R1", "R2"]
    assert len(result) == 60
    assert np.allclose(result[["R0", "R1", "R2"]].sum(axis=1), 1)
    assert "<h1>mechtrace report: " in page.read_text()
    assert set(json.loads(facts.read_text())["events"]) == {"0", "1", "2"}
    code, _, err = command("recover", fitted, new, "--out", out, "--pool", "--causal", "--quiet")
    assert code == 0, err
    assert len(pd.read_csv(out)) == 20


def test_recover_writes_the_edges_of_the_network(command, table, fitted, tmp_path):
    out, edges = tmp_path / "alpha.csv", tmp_path / "edges.csv"
    code, _, err = command("recover", fitted, table, "--out", out, "--edges", edges, "--quiet")
    assert code == 0, err
    result = pd.read_csv(edges)
    assert list(result)[:5] == ["series", "time", "source", "target", "lag"]
    assert (result["weight"].abs() >= 0.05).all()
    assert set(result["source"]) == {"z0", "z1", "z2", "z3"}
    code, _, err = command(
        "recover", fitted, table, "--out", out, "--edges", tmp_path / "edges.txt"
    )
    assert (code, "use .csv, .parquet" in err) == (2, True)


def csv(folder, text, name="bad.csv"):
    path = folder / name
    path.write_text(text)
    return path


GOOD = "time,run,mode,x,y\n" + "".join(
    f"{t},{run},{'AB'[run % 2]},{t * 0.5},{t % 3}\n" for run in range(4) for t in range(9)
)
BAD_INPUT = {
    "no such file": (lambda d: ["fit", d / "none.csv", "-o", d / "m"], "none.csv.*no such file"),
    "unknown type": (lambda d: ["fit", csv(d, "x", "a.xlsx"), "-o", d / "m"], "a.xlsx.*type"),
    "empty file": (lambda d: ["fit", csv(d, ""), "-o", d / "m"], "bad.csv.*empty"),
    "header only": (lambda d: ["fit", csv(d, "time,mode,x\n"), "-o", d / "m"], "no rows"),
    "no regime": (
        lambda d: ["fit", csv(d, GOOD.replace("mode", "word")), "-o", d / "m"],
        "bad.csv.*column 'word', line 2",
    ),
    "no labels": (
        lambda d: ["fit", csv(d, "time,x\n0,1\n1,2\n2,3\n"), "-o", d / "m"],
        "bad.csv.*no regime labels",
    ),
    "one regime": (
        lambda d: ["fit", csv(d, GOOD.replace(",B,", ",A,")), "-o", d / "m"],
        "bad.csv.*one regime, 'A'",
    ),
    "too short": (
        lambda d: ["fit", csv(d, GOOD), "-o", d / "m", "--lags", "12"],
        "bad.csv.*regime 'A' has no stretch of more than 12 rows",
    ),
    "duplicate times": (
        lambda d: ["fit", csv(d, GOOD + "8,3,B,1,1\n"), "-o", d / "m"],
        "bad.csv.*38",
    ),
    "text in a cell": (
        lambda d: ["fit", csv(d, GOOD.replace("3,0,A,1.5,0", "3,0,A,oops,0")), "-o", d / "m"],
        "bad.csv.*line 5.*oops|bad.csv.*oops.*line 5",
    ),
    "missing cell": (
        lambda d: ["fit", csv(d, GOOD.replace("3,0,A,1.5,0", "3,0,A,,0")), "-o", d / "m"],
        "bad.csv.*line 5.*missing=",
    ),
    "infinity": (
        lambda d: ["fit", csv(d, GOOD.replace("3,0,A,1.5,0", "3,0,A,inf,0")), "-o", d / "m"],
        "bad.csv.*line 5",
    ),
    "unknown column": (
        lambda d: ["fit", csv(d, GOOD), "-o", d / "m", "--regime", "gait"],
        "bad.csv.*gait",
    ),
    "bad setting": (
        lambda d: ["fit", csv(d, GOOD), "-o", d / "m", "--latents", "0"],
        "latents = 0",
    ),
    "bad config": (
        lambda d: ["fit", csv(d, GOOD), "-o", d / "m", "--config", csv(d, "[x", "c.toml")],
        "c.toml.*TOML",
    ),
    "no folder": (
        lambda d: ["fit", csv(d, GOOD), "-o", d / "no" / "m"],
        "existing folder",
    ),
    "bad device": (
        lambda d: ["fit", csv(d, GOOD), "-o", d / "m", "--device", "abacus"],
        "abacus",
    ),
    "not a model": (lambda d: ["info", csv(d, GOOD)], "not a mechtrace file"),
    "unknown world": (
        lambda d: ["simulate", "--out", d / "r.csv", "--world", "moon"],
        "unknown world 'moon'",
    ),
    "bad option": (
        lambda d: ["simulate", "--out", d / "r.csv", "--set", "noise"],
        "not name=value",
    ),
    "bad active": (
        lambda d: ["simulate", "--out", d / "r.csv", "--transition", "simple", "--active", "a,b"],
        "not a list of whole numbers",
    ),
    "unwritable type": (lambda d: ["simulate", "--out", d / "r.txt", "--series", 1], "r.txt"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_gets_one_sentence_and_exit_code_2(command, tmp_path, case):
    import re

    make, message = BAD_INPUT[case]
    arguments = make(tmp_path)
    before = sorted(p.name for p in tmp_path.iterdir())
    code, _, err = command(*arguments)
    assert code == 2
    assert err.startswith("mechtrace: ")
    assert err.count("\n") == 1, err
    assert "Traceback" not in err
    assert re.search(message, err), err
    assert sorted(p.name for p in tmp_path.iterdir()) == before  # nothing half-written


def test_ctrl_c_then_resume(table, tmp_path):
    """As a user does it: interrupt the process, run the same command with --resume."""
    model = tmp_path / "m.mechtrace"
    command = [sys.executable, "-m", "mechtrace", "fit", str(table), "--out", str(model), *FIT]
    command[command.index("--steps") + 1] = "1500"
    one_core = {**os.environ, "OMP_NUM_THREADS": "1"}
    log = tmp_path / "log.jsonl"
    process = subprocess.Popen(
        [*command, "--log", str(log)], stderr=subprocess.PIPE, text=True, env=one_core
    )
    deadline = time.monotonic() + 60
    while not (log.exists() and log.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "--resume goes on" in err
    assert not model.exists()
    assert (tmp_path / "m.mechtrace.ckpt").exists()
    stopped_at = mt.load(tmp_path / "m.mechtrace.ckpt").facts_["training"]["steps"]
    done = subprocess.run(
        [*command, "--resume"], capture_output=True, text=True, timeout=120, env=one_core
    )
    assert done.returncode == 0, done.stderr
    assert f"goes on after step {stopped_at}" in done.stdout
    assert mt.load(model).facts_["training"]["steps"] > stopped_at
    assert not (tmp_path / "m.mechtrace.ckpt").exists()
