"""What commands write: never over what they read, never over the checkpoint of another run."""

from __future__ import annotations

import os

import pytest

import mechtrace as mt
from mechtrace.errors import ConfigError, StoreError
from mechtrace.stage1.fit_run import FitRun


@pytest.fixture
def folder(tmp_path):
    """A folder of inputs whose content is of no matter: nothing of it is to be read."""
    (tmp_path / "data" / "sub").mkdir(parents=True)
    (tmp_path / "pictures").mkdir()
    for name in ("data/n.csv", "data/sub/deep.csv", "k.mechtrace", "notes.json"):
        (tmp_path / name).write_text(f"precious {name}")
    (tmp_path / "data" / "notes.json").write_text("not read")
    (tmp_path / "pictures" / "1.png").write_text("precious picture")
    (tmp_path / "run.toml").write_text("[fit]\nsteps = 10\n")
    os.link(tmp_path / "data" / "n.csv", tmp_path / "hard.csv")
    (tmp_path / "soft.csv").symlink_to(tmp_path / "data" / "n.csv")
    return tmp_path


def content(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


OVER = {
    "recover, a folder": "recover k.mechtrace data -o data/n.csv",
    "recover, deep in a folder": "recover k.mechtrace data -o data/sub/deep.csv",
    "recover, a pattern": "recover k.mechtrace data/*.csv -o data/n.csv",
    "recover, a hard link": "recover k.mechtrace data -o hard.csv",
    "recover, a symbolic link": "recover k.mechtrace data -o soft.csv",
    "recover, the input is a link": "recover k.mechtrace soft.csv -o data/n.csv",
    "recover, the report": "recover k.mechtrace data -o a.csv --report data/n.csv",
    "recover, the edges": "recover k.mechtrace data -o a.csv --edges data/n.csv",
    "recover, the model": "recover k.mechtrace data -o a.csv --json k.mechtrace",
    "recover, a picture": "recover k.mechtrace pictures -o a.csv --json pictures/1.png",
    "report": "report k.mechtrace data -o data/n.csv",
    "diagnose": "diagnose k.mechtrace data --json data/n.csv",
    "evaluate": "evaluate data --model k.mechtrace --json data/n.csv",
    "info": "info k.mechtrace --json k.mechtrace",
    "calibrate": "calibrate data/n.csv --anchor 0:1=a -o hard.csv",
    "fit": "fit data -o data/n.csv",
    "fit, JSON": "fit data -o m --json data/n.csv",
    "fit, the log": "fit data -o m --log data/n.csv",
    "fit, the settings": "fit data -o m --config run.toml --write-config run.toml",
}


@pytest.mark.parametrize("case", OVER)
def test_no_output_replaces_a_file_that_is_read(folder, command, monkeypatch, case):
    monkeypatch.chdir(folder)
    before = content(folder)
    code, out, err = command(*OVER[case].split())
    assert (code, out) == (2, "")
    assert err.startswith("mechtrace: ")
    assert err.endswith(": is read too; name another file.\n")
    assert content(folder) == before


def test_other_files_in_a_folder_of_inputs_are_written(trained, world, tmp_path, command):
    trained.save(tmp_path / "m")
    (tmp_path / "data").mkdir()
    world.transition("simple", series=1, seed=1).panel.to_csv(tmp_path / "data" / "n.csv")
    (tmp_path / "data" / "old.json").write_text("from before")
    code, _, err = command(
        "recover", tmp_path / "m", tmp_path / "data", "-o", tmp_path / "data" / "alpha.npz",
        "--json", tmp_path / "data" / "old.json", "--quiet",
    )  # fmt: skip
    assert (code, err) == (0, "")
    assert '"file"' in (tmp_path / "data" / "old.json").read_text()


def test_a_pipe_as_the_log_is_refused_before_training(tmp_path, command):
    (tmp_path / "n.csv").write_text("x\n1\n")
    os.mkfifo(tmp_path / "pipe")
    code, _, err = command(
        "fit", tmp_path / "n.csv", "-o", tmp_path / "m", "--log", tmp_path / "pipe"
    )
    assert (code, "this is a pipe or a device" in err) == (2, True)


@pytest.fixture(scope="module")
def stopped(panel, tmp_path_factory):
    """What a stopped run leaves behind."""
    path = tmp_path_factory.mktemp("stopped") / "run.ckpt"
    run = FitRun.prepare(panel, mt.Trace(latents=4, lags=2, hidden=16).config())
    run._save(path, run.trainer.state())
    return path.read_bytes()


@pytest.fixture
def checkpoint(panel, stopped, tmp_path):
    """Labelled recordings, and beside the model to be the checkpoint of another run."""
    panel.to_csv(tmp_path / "runs.csv")
    (tmp_path / "m.ckpt").write_bytes(stopped)
    return tmp_path / "m.ckpt"


FIT = [
    "--latents", "4", "--lags", "2", "--hidden", "16", "--steps", "240", "--batch", "12",
    "--lr", "0.01", "--set", "evaluations=4", "--set", "align=false", "--quiet",
]  # fmt: skip


def test_a_checkpoint_is_replaced_only_if_asked(checkpoint, command):
    before, model = checkpoint.read_bytes(), checkpoint.with_suffix("")
    words = ["fit", checkpoint.with_name("runs.csv"), "-o", model, *FIT]
    code, _, err = command(*words)
    assert code == 2
    assert "the checkpoint of another run is left there; continue that run with --resume" in err
    assert "or replace it with --restart.\n" in err
    assert checkpoint.read_bytes() == before
    code, _, err = command(*words, "--resume", "--restart")
    assert (code, "give one of --resume and --restart" in err) == (2, True)
    assert checkpoint.read_bytes() == before
    code, _, err = command(*words, "--restart")
    assert code == 0, err
    assert model.exists()
    assert not checkpoint.exists()


@pytest.mark.parametrize("kind", ["notes", "model", "cut"])
@pytest.mark.parametrize("words", [[], ["--restart"], ["--resume"]])
def test_a_file_that_is_no_checkpoint_is_never_replaced(checkpoint, trained, command, kind, words):
    if kind == "notes":
        checkpoint.write_text("my notes")
    elif kind == "model":
        trained.save(checkpoint)
    else:
        checkpoint.write_bytes(checkpoint.read_bytes()[:-100])
    before = checkpoint.read_bytes()
    table = checkpoint.with_name("runs.csv")
    code, _, err = command("fit", table, "-o", checkpoint.with_suffix(""), *FIT, *words)
    assert code == 2
    assert err.count("\n") == 1
    assert checkpoint.read_bytes() == before


def test_in_python_too_a_checkpoint_is_replaced_only_if_asked(checkpoint, panel, small):
    before = checkpoint.read_bytes()
    trace = mt.Trace(**small)
    how = {"progress": False, "checkpoint": checkpoint}
    with pytest.raises(StoreError, match="with resume=True, or replace it with restart=True"):
        trace.fit(panel, **how)
    with pytest.raises(ConfigError, match="one of resume=True and restart=True"):
        trace.fit(panel, resume=True, restart=True, **how)
    assert checkpoint.read_bytes() == before
    trace.fit(panel, restart=True, **how)
    assert mt.load(checkpoint).record_.training.steps == 240
