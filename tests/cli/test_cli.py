"""The command line: what works, what it leaves behind, and how it refuses."""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer

import mechtrace as mt
from mechtrace.cli.main import app, main

FIT = [
    "--latents", "4", "--lags", "2", "--hidden", "16", "--steps", "240", "--batch", "12",
    "--lr", "0.01", "--set", "align=false",
]  # fmt: skip


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    world = mt.worlds.make("paper", regimes=3, latents=4, channels=6, length=20)
    path = tmp_path_factory.mktemp("data") / "runs.csv"
    frame = world.simulate(12).panel.to_frame()
    frame.rename(columns={"series": "run", "regime": "mode"}).to_csv(path, index=False)
    return path


def commands():
    """Every command, as the words that call it."""
    tree = typer.main.get_command(app)
    for name, command in tree.commands.items():
        if hasattr(command, "commands"):
            yield from ([name, inner] for inner in command.commands)
        else:
            yield [name]


def test_help_names_the_commands_and_completion(command):
    for arguments in ([], ["--help"]):
        code, out, _ = command(*arguments)
        assert code == 0
        assert {words[0] for words in commands()} <= set(out.split())
        assert "mechtrace --install-completion" in out


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_every_command_has_an_example_json_and_quiet(command, words):
    code, out, _ = command(*words, "--help")
    assert code == 0
    assert "Example" in out
    example = next(line for line in out.splitlines() if f" mechtrace {' '.join(words)}" in line)
    assert len(example) < 100  # on a line of its own, to be copied
    assert "--json" in out
    assert "--quiet" in out


def test_completion_knows_commands_and_choices(monkeypatch, capsys):
    def completed(words: str) -> str:
        monkeypatch.setenv("_MECHTRACE_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
        with pytest.raises(SystemExit):
            main()
        return capsys.readouterr().out

    assert completed("mechtrace re").split() == ["recover", "report", "reproduce"]
    assert "interpolate" in completed("mechtrace fit --missing ")
    assert "paper-positive" in completed("mechtrace simulate --world pa")


def test_the_help_and_a_command_import_no_other_command():
    code = (
        "import sys, mechtrace.cli.main as cli\n"
        "sys.argv = ['mechtrace', {!r}]\n"
        "try:\n    cli.main()\nexcept SystemExit:\n    pass\n"
        "print(*[name for name in sys.modules if 'cli.' in name or 'lab' in name])"
    )
    for word, mine in (("--help", set()), ("fit", {"mechtrace.cli.fit", "mechtrace.cli.inputs"})):
        done = subprocess.run(
            [sys.executable, "-c", code.format(word)], capture_output=True, text=True, check=True
        )
        loaded = set(done.stdout.splitlines()[-1].split())
        assert loaded - mine == {"mechtrace.cli.main", "mechtrace.cli.options"}


def test_warnings_are_shown_as_before_after_a_command(command):
    before = warnings.showwarning
    command("--version")
    assert warnings.showwarning is before


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
    assert "time = time (detected), series = run (detected), regime = mode (detected)" in out
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


def test_a_written_config_repeats_the_run(command, table, tmp_path):
    config = tmp_path / "run.toml"
    code, out, err = command("fit", table, *FIT, "--missing", "gap", "--write-config", config)
    assert code == 0, err
    assert f"--config {config}" in out
    assert os.listdir(tmp_path) == ["run.toml"]
    text = config.read_text()
    assert 'regime = "mode"  # column with the regime' in text
    assert 'missing = "gap"' in text
    assert "latents = 4  # " in text
    model = tmp_path / "m"
    code, out, err = command("fit", table, "--config", config, "-o", model)
    assert code == 0, err
    assert "(detected)" not in out  # the file says it all
    assert mt.load(model).get_params()["steps"] == 240
    code, _, _ = command("fit", "--write-config", tmp_path / "defaults.toml", "--quiet")
    assert code == 0
    assert "steps = 3500" in (tmp_path / "defaults.toml").read_text()


def test_a_dry_run_says_what_it_takes_and_writes_nothing(command, table, tmp_path, monkeypatch):
    monkeypatch.setattr("mechtrace.stage1.fit_cost.SECONDS", 0.1)
    code, out, err = command("fit", table, *FIT, "--set", "window=10", "--dry-run", "--json", "-")
    assert code == 0
    plan = json.loads(out)
    assert plan["training_series"] == {"R0": 11, "R1": 11, "R2": 11}
    assert plan["windows"] == 33 * 18
    assert plan["crops"] == 66
    assert plan["crop_rows"] == 10
    assert plan["seconds"] > 0
    assert plan["parameters"] > 100
    assert "training time: about" in err
    assert "measured on" in err


def test_json_on_stdout_leaves_messages_to_stderr(command, table, fitted, tmp_path):
    out = tmp_path / "alpha.npz"
    code, said, err = command("recover", fitted, table, "-o", out, "--json", "-")
    assert code == 0
    assert json.loads(said)["file"] == str(out)
    assert "36 series, 720 rows" in err
    code, said, err = command("info", fitted, "--json", "-", "--quiet")
    assert json.loads(said)["regimes"] == ["R0", "R1", "R2"]
    assert err == ""
    # and the next command speaks on stdout again
    assert "3 regimes" in command("info", fitted)[1]
    # and nothing of the command line is left in the library's logger
    assert logging.getLogger("mechtrace").handlers == []
    assert logging.getLogger("mechtrace").level == logging.NOTSET


def test_recover_with_a_report_computes_everything_once(
    command, table, fitted, tmp_path, monkeypatch
):
    import plotly.offline

    from mechtrace.stage2 import trajectory

    calls = []

    def counted(owner, name, told):
        inner = getattr(owner, name)

        def call(*given, **options):
            calls.append(told(*given))
            return inner(*given, **options)

        monkeypatch.setattr(owner, name, call)

    counted(mt.Trace, "diagnose", lambda trace, path: f"diagnosis of {path.name}")
    counted(trajectory, "find_events", lambda time, alpha, regimes: f"events of {id(alpha)}")
    counted(mt.Trace, "mechanisms", lambda trace, panel=None: "mechanisms")
    counted(mt.Trace, "encode", lambda trace, panel: "latents")
    counted(plotly.offline, "get_plotlyjs", lambda: "library")
    code, _, err = command(
        "recover", fitted, table, "-o", tmp_path / "a.csv", "--report", tmp_path / "r.html",
        "--edges", tmp_path / "e.csv", "--json", tmp_path / "a.json",
    )  # fmt: skip
    assert code == 0, err
    assert sorted(calls) == sorted(set(calls))
    assert sum(call.startswith("events") for call in calls) == 36
    assert "latents" not in calls  # those that recover has encoded
    assert {"library", "mechanisms", "diagnosis of 35"} <= set(calls)


def test_report_and_diagnose(command, table, fitted, tmp_path):
    page, facts = tmp_path / "r.html", tmp_path / "d.json"
    code, out, err = command("report", fitted, table, "--pool", "--out", page)
    assert code == 0, err
    assert f"{page}: open it in a browser" in out
    assert "mechtrace report" in page.read_text()
    code, out, _ = command("diagnose", fitted, table, "--json", facts)
    assert code == 0
    assert "36 recordings: " in out
    assert len(json.loads(facts.read_text())["diagnoses"]) == 36
    far = pd.read_csv(table)
    far.filter(regex="^x").columns.map(lambda name: far.__setitem__(name, far[name] + 100))
    far.to_csv(tmp_path / "far.csv", index=False)
    assert command("diagnose", fitted, tmp_path / "far.csv", "--strict", "--quiet")[0] == 1


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".tsv", ".parquet", ".npz"])
def test_curves_are_written_and_read_in_every_format(command, table, fitted, tmp_path, suffix):
    out, better = tmp_path / f"alpha{suffix}", tmp_path / "better.csv"
    code, _, err = command("recover", fitted, table, "-o", out, "--edges", tmp_path / f"e{suffix}")
    assert code == 0, err
    code, _, err = command(
        "calibrate", out, "--anchor", "0/2:19=R0", "--anchor", "12/2:19=R1", "--anchor",
        "24/2:19=R2", "-o", better,
    )  # fmt: skip
    assert code == 0, err
    assert len(pd.read_csv(better)) == 720


def test_dates_in_results_are_dates(command, fitted, tmp_path):
    world = mt.worlds.make("paper", regimes=3, latents=4, channels=6, length=20)
    frame = world.transition("step", active=[0, 2], series=1).panel.to_frame()
    frame["time"] = pd.Timestamp("2024-03-01 09:00") + pd.to_timedelta(frame["time"], "s")
    frame.to_csv(tmp_path / "new.csv", index=False)
    code, out, err = command(
        "recover", fitted, tmp_path / "new.csv", "-o", tmp_path / "a.csv", "--json", "-"
    )
    assert code == 0, err
    for event in json.loads(out)["events"]["0"]:
        assert event["onset"].startswith("2024-03-01T09:00:")
        assert 0 <= event["duration"] < 20


def test_a_time_column_that_is_not_found_is_asked_for(command, fitted, table, tmp_path):
    frame = pd.read_csv(table).rename(columns={"time": "clock"})
    frame = frame.assign(clock=frame["clock"] * 0.1)
    world_of_tenths = mt.Panel.from_frame(frame, time="clock", series="run", regime="mode")
    model = mt.load(fitted)
    data = replace(model.record_.data, step=world_of_tenths.usual_step)
    model.record_ = replace(model.record_, data=data)
    model.save(tmp_path / "m")
    frame[frame.run == 0].drop(columns=["run", "mode"]).to_csv(tmp_path / "new.csv", index=False)
    words = ["recover", tmp_path / "m", tmp_path / "new.csv", "-o", tmp_path / "a.csv"]
    code, _, err = command(*words)
    assert (code, "name it: --time COLUMN" in err) == (2, True)
    assert command(*words, "--time", "clock")[0] == 0


def test_from_two_tables_to_a_report_as_the_readme_says(command, table, tmp_path, monkeypatch):
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    block = readme.split("From two tables to a report")[1].split("##")[0]
    lines = re.findall(r"^    (mechtrace .*?)\s*(?:#.*)?$", block, re.M)
    assert 1 < len(lines) <= 3
    frame = pd.read_csv(table)
    frame.to_csv(tmp_path / "runs.csv", index=False)
    frame[frame.run == 3].drop(columns=["mode", "run"]).to_csv(tmp_path / "new.csv", index=False)
    monkeypatch.chdir(tmp_path)
    for line in lines:
        words = shlex.split(line)[1:]
        code, _, err = command(*words, *(FIT if words[0] == "fit" else []))
        assert code == 0, err
    assert (tmp_path / "report.html").stat().st_size > 1000
    assert len(pd.read_csv(tmp_path / "alpha.csv")) == 20


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
    assert "time = time (as in the fit), series = run (as in the fit)" in said
    result = pd.read_csv(out)
    assert list(result.columns[:5]) == ["series", "time", "R0", "R1", "R2"]
    assert len(result) == 60
    assert np.allclose(result[["R0", "R1", "R2"]].sum(axis=1), 1)
    assert "<h1>mechtrace report: " in page.read_text()
    told = json.loads(facts.read_text())
    assert set(told["events"]) == {"0", "1", "2"}
    for one in told["diagnoses"]:
        assert one["verdict"] in ("trust", "caution", "do not trust")
        assert one["expected_error"] is None or 0 < one["expected_error"] < 1
        assert {"code", "level", "value", "threshold", "side", "decisive"} <= set(
            one["findings"][0]
        )
        assert f"verdict: {one['verdict']}" in told["summary"][one["name"]]
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
    assert (code, "use .csv, " in err) == (2, True)


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, marks=pytest.mark.slow),
    ],
)
def test_ctrl_c_then_resume(table, tmp_path, number):
    """As a user or a cluster does it: end the process, run the same command with --resume."""
    model = tmp_path / "m.mechtrace"
    command = [sys.executable, "-m", "mechtrace", "fit", str(table), "--out", str(model), *FIT]
    command[command.index("--steps") + 1] = "1500"
    one_core = {**os.environ, "OMP_NUM_THREADS": "1"}
    log = tmp_path / "log.jsonl"
    words = [*command, "--log", str(log)]
    # in the background, where a cluster's request comes, shells have Ctrl-C ignored
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if number == signal.SIGTERM else None
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=one_core)
    if before is not None:
        signal.signal(signal.SIGINT, before)
    deadline = time.monotonic() + 60
    while not (log.exists() and log.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "--resume goes on" in err
    assert not model.exists()
    assert (tmp_path / "m.mechtrace.ckpt").exists()
    stopped_at = mt.load(tmp_path / "m.mechtrace.ckpt").record_.training.steps
    done = subprocess.run(
        [*command, "--resume"], capture_output=True, text=True, timeout=120, env=one_core
    )
    assert done.returncode == 0, done.stderr
    assert f"goes on after step {stopped_at}" in done.stdout
    assert mt.load(model).record_.training.steps > stopped_at
    assert not (tmp_path / "m.mechtrace.ckpt").exists()
