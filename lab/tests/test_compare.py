"""The comparison: figures, resuming, failures that stay alone, and what it refuses."""

from __future__ import annotations

import json
import multiprocessing
import re

import numpy as np
import pandas as pd
import pytest

import mechtrace as mt
from mechtrace.errors import DataError
from mechtrace.evaluate import TruthTable
from mechtrace_lab import baselines
from mechtrace_lab.cli.compare import _data_task
from mechtrace_lab.comparison import cells, scores, summary, tasks
from mechtrace_lab.jobs import runner

KINDS = {
    "good": "Good", "selecting": "Selecting", "failing": "Failing", "dying": "Dying",
    "lacking": "Lacking", "weightless": "Weightless", "blind": "Blind", "absent": "Absent",
    "picky": "Picky",
}  # fmt: skip
TINY = ["--world", "paper", "--series", 4, "--trials", 3, "--regimes", 3, "--seeds", 1]


@pytest.fixture(scope="module", autouse=True)
def log(tmp_path_factory):
    """Where fakes write that they learned: fixed, like the environment of their processes."""
    path = tmp_path_factory.mktemp("fakes") / "log"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAKE_LOG", str(path))
        yield path


@pytest.fixture(autouse=True)
def fakes(monkeypatch, log):
    """Only fakes are known; their processes start from one that has torch already."""
    for name in list(baselines.METHODS):
        monkeypatch.delitem(baselines.METHODS, name)
    for name, kind in KINDS.items():
        monkeypatch.setitem(baselines.METHODS, name, ("fakes.methods", kind))
    monkeypatch.setattr(runner, "START", "forkserver")
    multiprocessing.set_forkserver_preload(["mechtrace_lab.jobs.runner"])
    log.write_text("")


@pytest.fixture
def runs(log):
    """Which methods have learned."""
    return lambda: log.read_text().split("\n")[:-1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Labelled recordings whose regimes differ in their means, and a glide with its truth."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    means = {"A": (0.0, 0.0), "B": (3.0, 0.0), "C": (0.0, 3.0)}
    names = [name for name in means for _ in range(4)]
    values = [rng.normal(means[name], 0.3, (20, 2)) for name in names]
    panel = mt.Panel.from_arrays(values, regime=names, channels=["x", "y"])
    panel.to_frame().rename(columns={"regime": "mode"}).to_csv(folder / "runs.csv", index=False)
    share = np.linspace(0, 1, 20)
    glide = [share[:, None] * means["B"] + rng.normal(0, 0.3, (20, 2)) for _ in range(2)]
    new = mt.Panel.from_arrays(glide, names=["n1", "n2"], channels=["x", "y"])
    new.to_frame().to_csv(folder / "new.csv", index=False)
    truth = pd.DataFrame({"time": np.arange(20), "A": 1 - share, "B": share, "C": 0.0})
    truth.to_csv(folder / "truth.csv", index=False)
    return folder


def read(path):
    return json.loads(path.read_text())


# --- worlds ----------------------------------------------------------------------------------


def test_failures_stay_alone(command, tmp_path):
    out = tmp_path / "out"
    code, said, err = command(
        "compare", *TINY, "--methods", "good,failing,dying,lacking", "--workers", 2,
        "--latents", 8, "--transitions", 1000, "--out", out, "--json", tmp_path / "r.json",
    )  # fmt: skip
    assert (code, err) == (1, "")
    assert "failed: failing seed 0: ValueError: the numbers were bad\n" in said
    assert "failed: dying seed 0: the process ended with code 9" in said
    assert "left out: lacking: it needs a package; pip install it." in said
    result = read(tmp_path / "r.json")
    assert result == read(out / "comparison.json")
    status = {row["method"]: row["status"] for row in result["rows"]}
    assert status == {
        "oracle": "finished", "good": "finished", "failing": "failed", "dying": "failed",
        "lacking": "skipped",
    }  # fmt: skip
    good = next(row for row in result["rows"] if row["method"] == "good")
    assert good["settings"]["transitions"] == 1000
    assert good["versions"]["mechtrace"] == mt.__version__
    assert good["machine"]
    assert "the numbers were bad" in next((out / "cells").glob("failing*.log")).read_text()
    assert not list((out / "cells").glob("good*.log"))
    assert (out / "comparison.png").stat().st_size > 5000


def test_a_world_is_judged_on_weights_and_latents(command, tmp_path, runs):
    out, words = tmp_path / "out", ["--methods", "selecting,weightless,blind", "--quiet"]
    words += ["--schedule", "simple,step", "--seeds", 2]
    code, said, err = command("compare", *TINY, *words, "--out", out)
    assert (code, said, err) == (0, "", "")
    assert len(runs()) == 6
    result = read(out / "comparison.json")
    found = {one["method"]: one for one in result["summary"]}
    assert next(iter(found)) == "oracle"
    assert found["oracle"]["figures"]["pooled"]["mean"] > 0.9
    assert found["selecting"]["figures"]["pooled"]["n"] == 2
    assert found["selecting"]["figures"]["pooled"]["sd"] > 0
    figures = result["rows"][2]["figures"]
    assert figures["pooled"] == pytest.approx(
        np.mean([figures["pooled:simple"], figures["pooled:step"]])
    )
    assert {"mcc_rank", "mcc_all_steps", "r2", "accuracy", "single_mae"} <= figures.keys()
    chosen = found["selecting"]
    assert chosen["figures"]["mcc"]["mean"] != chosen["oracle_selected"]["mcc"]["mean"]
    assert found["blind"]["figures"]["mcc"]["mean"] is None
    assert found["weightless"]["figures"]["pooled"]["mean"] is None
    assert found["weightless"]["figures"]["accuracy"]["mean"] is None
    lines = {line.split()[0]: line.split()[1:] for line in summary.table(result).splitlines()}
    assert lines["weightless"][:2] == ["NA", "NA"]
    assert "several" not in summary.table(result)
    result["rows"][0]["versions"]["mechtrace"] = "0.0.1"
    assert "of several versions of mechtrace (0.0.1, " in summary.table(result)
    table = pd.read_csv(out / "comparison.csv")
    assert list(table["method"]) == ["oracle"] * 2 + ["selecting", "weightless", "blind"] * 2
    assert "mcc_oracle_selected" in table


def test_a_finished_cell_is_not_run_again(command, tmp_path, runs):
    words = ["compare", *TINY, "--methods", "good,blind", "--out", tmp_path / "out"]
    assert command(*words)[0] == 0
    assert runs() == ["Good 0", "Blind 0"]
    code, said, _ = command(*words)
    assert (code, len(runs())) == (0, 2)
    assert "3 of 3 results are kept from before" in said
    (next((tmp_path / "out" / "cells").glob("blind*.json"))).write_text("{")
    code, said, _ = command(*words, "--seeds", 2)  # one is damaged, one seed is new
    assert runs()[2:] == ["Blind 0", "Good 1", "Blind 1"]
    assert "about" in said
    assert command(*words, "--lags", 1)[0] == 0
    assert len(runs()) == 7
    assert command(*words, "--fresh")[0] == 0
    assert len(runs()) == 9


def test_ctrl_c_keeps_what_is_finished(command, tmp_path, monkeypatch):
    def stop(*arguments, **options):
        if next((tmp_path / "out" / "cells").glob("good*.json"), None):
            raise KeyboardInterrupt
        return usual(*arguments, **options)

    usual = runner._start
    monkeypatch.setattr(runner, "_start", stop)
    words = ["compare", *TINY, "--methods", "good,blind", "--out", tmp_path / "out"]
    code, _, err = command(*words)
    assert code == 130
    assert "stopped; 2 cells are kept, the same command goes on" in err
    assert len(read(tmp_path / "out" / "comparison.json")["rows"]) == 2
    monkeypatch.setattr(runner, "_start", usual)
    code, said, _ = command(*words)
    assert (code, "2 of 3 results are kept" in said) == (0, True)


def test_methods_are_listed(command, tmp_path):
    code, said, _ = command("compare", "--methods", "list", "--json", tmp_path / "l.json")
    lines = said.splitlines()
    assert code == 0
    assert len(lines) == len(KINDS)
    assert lines[0] == (
        "absent      The absent one: needs labels, gives latents and weights"
        " (first: pip install there_is_no_such_package)"
    )
    assert "gives weights" in lines[1]
    assert read(tmp_path / "l.json")["methods"][3]["title"] == "The failing one"


# --- data ------------------------------------------------------------------------------------


def test_recordings_are_held_out_and_switches_are_spliced(command, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "START", "spawn")  # as users have it
    out = tmp_path / "out"
    code, said, err = command(
        "compare", folder / "runs.csv", "--regime", "mode", "--methods", "good",
        "--seeds", 1, "--out", out,
    )  # fmt: skip
    assert code == 0, err
    assert "instant" in said
    (row,) = read(out / "comparison.json")["rows"]
    assert row["figures"]["accuracy"] == 1
    assert row["figures"]["log_loss"] < 0.1
    assert row["figures"]["switch"] > 0.95
    assert row["figures"]["midpoint_error"] == 0
    assert row["figures"]["answered"] == 1
    assert 10 < row["memory_before_mb"] <= row["memory_mb"] < 5000
    assert (out / "comparison.png").exists()


def test_new_recordings_get_curves_and_their_truth_judges_them(command, folder, tmp_path):
    out = tmp_path / "out"
    code, said, err = command(
        "compare", folder / "runs.csv", "--methods", "good,blind,weightless", "--seeds", 1,
        "--new", folder / "new.csv", "--truth", folder / "truth.csv", "--pool", "--out", out,
    )  # fmt: skip
    assert code == 0, err
    assert "pooled" in said
    curves = pd.read_csv(out / "curves.csv")
    assert list(curves.columns) == ["method", "seed", "series", "time", "A", "B", "C"]
    assert len(curves) == 2 * 3 * 20
    assert np.allclose(curves[["A", "B", "C"]].sum(axis=1), 1)
    assert (out / "curves.png").stat().st_size > 5000
    row = read(out / "comparison.json")["rows"][0]
    assert row["figures"]["pooled"] > row["figures"]["single"] - 0.05 > 0.8
    assert 0 < row["figures"]["single_mae"] < 0.2


def test_a_new_file_needs_no_series_and_what_does_not_apply_is_left_out(command, folder, tmp_path):
    frame = pd.read_csv(folder / "new.csv")
    one = tmp_path / "one.csv"
    frame[frame["series"] == "n1"].drop(columns="series").to_csv(one, index=False)
    out = tmp_path / "out"
    code, said, err = command(
        "compare", folder / "runs.csv", "--methods", "good,blind,picky", "--seeds", 1,
        "--new", one, "--truth", folder / "truth.csv", "--holdout", 0.2, "--out", out,
    )  # fmt: skip
    assert code == 0, err
    assert "left out: picky: it wants more regimes; give more." in said
    last = said.strip().splitlines()[-1]
    assert " one is the best of 2 here: MAE 0.14; next is The " in last
    result = read(out / "comparison.json")
    assert result["conclusion"] == last
    assert result["configuration"]["settings"]["holdout"] == 0.2
    assert {row["method"]: row["status"] for row in result["rows"]}["picky"] == "skipped"
    code, _, _ = command("compare", folder / "runs.csv", "--methods", "picky", "--out", out)
    assert code == 1  # nothing finished


@pytest.mark.parametrize(
    ("errors", "says"),
    [
        ({"mechtrace": 0.04, "lda": 0.07, "hmm": 0.2},
         "mechtrace is the best of 3 here: MAE 0.04; next is LDA with 0.07."),
        ({"mechtrace": 0.042, "lda": 0.049}, "LDA does as well here as mechtrace: MAE 0.05 against"
         " 0.04."),
        ({"mechtrace": 0.08, "lda": 0.05, "hmm": 0.06},
         "LDA is better here than mechtrace: MAE 0.05 against 0.08."),
        ({"mechtrace": 0.08, "lda": None}, ""),
    ],
)  # fmt: skip
def test_the_conclusion_is_one_sentence(errors, says):
    def told(data, sd=None):
        return summary.conclusion({
            "configuration": {"data": data},
            "methods": {"lda": {"title": "LDA"}, "mechtrace": {"title": "mechtrace"}},
            "summary": [
                {"method": name, "figures": {
                    figure: {"mean": value, "sd": sd, "n": 5 if value else 0}
                    for figure in ("single_mae", "switch_mae")
                }}
                for name, value in errors.items()
            ],
        })  # fmt: skip

    assert told({"kind": "data", "truth": "hash"}) == says
    assert told({"kind": "data"}).count(" on instant switches") == bool(says)
    if says:  # with such a spread over the seeds nobody is better
        assert "does as well" in told({"kind": "world"}, sd=0.2)


def test_truth_is_found_by_series_and_time():
    new = mt.Panel.from_arrays(np.zeros((2, 3, 1)), time=[0.1, 0.2, 0.3], names=["a", "b"])
    rows = np.arange(12.0).reshape(2, 6, 1)
    known = mt.Panel.from_arrays(rows, time=np.arange(6) / 10, names=["b", "a"])
    found = tasks.truth_for(new, TruthTable(known, shared=False))
    assert [one[:, 0].tolist() for one in found] == [[7, 8, 9], [1, 2, 3]]
    short = mt.Panel.from_arrays(rows[:, :3], time=[0.0, 0.1, 0.2], names=["b", "a"])
    with pytest.raises(DataError, match="no truth for 'a' at time"):
        tasks.truth_for(new, TruthTable(short, shared=False))
    with pytest.raises(DataError, match="no truth for the recording 'b'"):
        tasks.truth_for(new, TruthTable(known[["a"]], shared=False))


def test_only_regimes_with_several_recordings_are_held_out():
    regime = ["A", "A", "A", "B"]
    panel = mt.Panel.from_arrays(np.random.default_rng(0).normal(size=(4, 9, 2)), regime=regime)
    for seed in range(5):
        held = tasks._held_out(panel, 2, 0.25, seed)
        assert held.sum() == 1
        assert not held[3]
    assert tasks._alone(panel, 2) == ["B"]
    with pytest.raises(DataError, match="no recording can be held out"):
        tasks._held_out(panel[[0, 3]], 2, 0.25, 0)


def test_groups_are_held_out_together_and_new_recordings_prepared_alike(folder, tmp_path):
    values = np.random.default_rng(0).normal(size=(8, 9, 2))
    groups = ["a", "a", "b", "b"] * 2
    panel = mt.Panel.from_arrays(values, regime=["A"] * 4 + ["B"] * 4, groups=groups)
    for seed in range(5):
        held = tasks._held_out(panel, 2, 0.25, seed)
        assert set(panel.groups[held]) & set(panel.groups[~held]) == set()
    roles = {"regime": "mode", "rate": 0.5, "detrend": "mean"}
    _, (learn, new, weights) = _data_task(
        [folder / "runs.csv"], [folder / "new.csv"], folder / "truth.csv", tmp_path, roles,
        lags=2, share=0.25, pool=False,
    )  # fmt: skip
    for one in (learn, new):
        assert one.usual_step == 2
        np.testing.assert_allclose([part.mean(axis=0) for part in one.to_arrays()], 0, atol=1e-9)
    assert [len(one) for one in weights] == new.lengths.tolist()


# --- small parts -----------------------------------------------------------------------------


def test_an_unanswered_step_is_not_a_right_one():
    world = mt.worlds.make("paper", regimes=2, latents=2, channels=3, length=10)
    pure = world.simulate(2)
    data = tasks.TaskData(world.regimes, pure.panel, pure.panel)

    class Silent:
        def curves(self, panel, simulation):
            return [np.full((10, 2), np.nan) for _ in panel]

    figures = scores.score_answers(Silent(), data, 2)
    assert figures == {"accuracy": None, "right_weight": None, "log_loss": None, "answered": 0.0}
    assert scores._score(np.eye(2)[[0, 0, 1]], np.full((3, 2), np.nan))[0] == 0


def test_the_key_of_a_cell_knows_all_it_depends_on():
    base = {"method": "good", "place": ("m", "C"), "task": tasks.WorldTask()}
    settings = baselines.Settings
    stems = {
        cells.Cell(**base, settings=settings()).stem,
        cells.Cell(**base, settings=settings(seed=1)).stem,
        cells.Cell(**base, settings=settings(lags=1)).stem,
        cells.Cell(**base | {"task": tasks.WorldTask(series=5)}, settings=settings()).stem,
        cells.Cell(**base | {"method": "blind"}, settings=settings()).stem,
    }
    assert len(stems) == 5
    moved = cells.Cell(**base | {"place": ("elsewhere", "C")}, settings=settings())
    assert moved.stem in stems


# --- refusals --------------------------------------------------------------------------------

REFUSED = {
    "nothing": ("nothing to compare on; name labelled recordings", []),
    "both": ("both data and a world", ["runs.csv", "--world", "paper"]),
    "unknown world": ("unknown world 'moon'", ["--world", "moon"]),
    "unknown method": ("no method 'magic'; use one of", [*TINY, "--methods", "magic"]),
    "a nameless method": ("without a name", [*TINY, "--methods", "good,"]),
    "a method that lacks a package": (
        "absent needs a package.*pip install", [*TINY, "--methods", "absent"],
    ),
    "unknown schedule": ("unknown schedule 'jump'", [*TINY, "--schedule", "jump"]),
    "too many active": ("4 of 3 regimes", [*TINY, "--active", 4]),
    "one regime in a world": ("1 regimes", [*TINY, "--regimes", 1]),
    "a column in a world": ("--series run", [*TINY, "--series", "run"]),
    "no seeds": ("0 seeds", [*TINY, "--seeds", 0]),
    "unknown setting": ("no setting 'colour'", [*TINY, "--set", "colour=1"]),
    "a setting that is a word": ("window = 'wide'", [*TINY, "--set", "window=wide"]),
    "no lags": ("lags = 0", [*TINY, "--lags", 0]),
    "new in a world": ("no new recordings", [*TINY, "--new", "new.csv"]),
    "no file": ("none.csv", ["none.csv"]),
    "no labels": ("no column is known to hold the regime", ["new.csv"]),
    "one regime": ("all rows belong to one regime, 'A'", ["one.csv"]),
    "all held out": ("share of 1.0", ["runs.csv", "--share", 1]),
    "nothing new to judge": ("nothing new", ["runs.csv", "--truth", "truth.csv"]),
    "nothing new to pool": ("nothing to pool", ["runs.csv", "--pool"]),
    "truth without a regime": (
        "no column 'A'", ["runs.csv", "--new", "new.csv", "--truth", "new.csv"],
    ),
    "out is a file": ("this is a file", ["runs.csv", "--out", "truth.csv"]),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_in_a_sentence(command, folder, monkeypatch, case):
    frame = pd.read_csv(folder / "runs.csv")
    frame[frame["mode"] == "A"].to_csv(folder / "one.csv", index=False)
    monkeypatch.chdir(folder)
    message, words = REFUSED[case]
    code, _, err = command("compare", *words)
    assert code == 2, err
    assert err.startswith("mechtrace: ")
    assert err.count("\n") == 1
    assert re.search(message, err), err
    assert not (folder / "comparison").exists()
