"""Figures of curves against a truth, and the commands around real recordings."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from motions import bvh

import mechtrace as mt
from mechtrace.datasets import sources
from mechtrace.errors import DataError
from mechtrace.evaluate import Answer, figures, mean_figures, truth_of_labels, truth_of_share
from mechtrace.paper.gait import gait_study

TIME = np.arange(101) / 10
RAMP = np.clip((TIME - 3) / 4, 0, 1)


def answer(share, **more) -> Answer:
    return Answer(TIME, np.column_stack([1 - share, share]), **more)


def test_a_perfect_answer():
    truth = truth_of_share(RAMP, 1)
    found = figures(answer(RAMP, lower=truth - 0.1, upper=truth + 0.1, flag=np.full(101, "")),
                    truth, 1)  # fmt: skip
    assert [found["pearson"], found["spearman"]] == pytest.approx([1, 1])
    assert found["mae"] == found["unknown"] == 0
    assert found["low"] < 0.05
    assert found["high"] > 0.95
    assert found["midpoint"] == pytest.approx(0)
    assert found["coverage"] == 1


def test_what_correlation_hides_is_seen():
    """A flat and late answer correlates almost perfectly."""
    late = np.clip((TIME - 4) / 4, 0, 1)
    flat = 0.35 + 0.25 * RAMP
    truth = truth_of_share(RAMP, 1)
    found = figures(answer(flat), truth, 1)
    assert found["pearson"] == pytest.approx(1)
    assert found["low"] > 0.35
    assert found["high"] < 0.61
    assert found["mae"] > 0.25
    assert "coverage" not in found
    assert figures(answer(late), truth, 1)["midpoint"] == pytest.approx(1.0, abs=0.01)
    assert np.isnan(figures(answer(1 - RAMP), truth, 1)["midpoint"])  # it goes the other way


def test_flags_intervals_and_rows_without_truth():
    truth = truth_of_share(RAMP, 1)
    truth[:50] = np.nan
    flag = np.where(TIME > 8, "unexplained", "")
    narrow = truth_of_share(np.clip(RAMP + 0.2, 0, 1), 1)
    found = figures(answer(RAMP, lower=narrow, upper=narrow, flag=flag), truth, 1)
    assert found["unknown"] == pytest.approx(20 / 51)
    assert 0 < found["coverage"] < 1
    with pytest.raises(DataError, match="nothing is known"):
        figures(answer(RAMP), np.full((101, 2), np.nan), 1)


def test_dates_and_the_mean_of_recordings():
    dates = np.datetime64("2026-01-01", "ns") + (TIME * 1e9).astype("timedelta64[ns]")
    late = np.clip((TIME - 4) / 4, 0, 1)
    truth = truth_of_share(RAMP, 1)
    one = figures(answer(late)._replace(time=dates), truth, 1)
    assert one["midpoint"] == pytest.approx(1.0, abs=0.01)
    early = figures(answer(np.clip((TIME - 2) / 4, 0, 1)), truth, 1)
    mean = mean_figures([one, early, {"mae": np.nan}])
    assert mean["midpoint"] == pytest.approx(1.0, abs=0.01)  # early and late do not cancel
    assert mean["recordings"] == 3
    assert mean["mae"] == pytest.approx((one["mae"] + early["mae"]) / 2)


def test_labels_as_truth():
    panel = mt.Panel.from_arrays(np.zeros((1, 3, 1)), regime=[["b", "", "a"]])
    truth = truth_of_labels(panel, ("a", "b"))[0]
    assert truth[[0, 2]].tolist() == [[0, 1], [1, 0]]
    assert np.isnan(truth[1]).all()


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Recordings of two regimes by four subjects, and transitions with a proxy."""
    world = mt.worlds.make("paper-positive", regimes=2, latents=3, channels=5, length=30)
    pure = world.simulate(8).panel.to_frame()
    codes = pure["series"].cat.codes.to_numpy()
    pure = pure.assign(subject=[f"s{code % 4}" for code in codes])
    pure["share"] = (pure["regime"] == "R1").astype(float)
    glide = world.transition("simple", series=4)
    new = glide.panel.to_frame()
    new["subject"] = [f"s{int(name) % 2 + 3}" for name in new["series"].astype(str)]
    new["share"] = np.tile(glide.alpha[0][:, 1], 4)
    new["series"] = "glide " + new["series"].astype(str)
    path = tmp_path_factory.mktemp("data") / "all.csv"
    frame = pd.concat([pure.astype({"series": str, "regime": str}), new])
    frame.to_csv(path, index=False)
    return path


FIT = [f"--set={pair}" for pair in ("latents=3", "hidden=16", "steps=200", "batch=8", "lr=0.01",
                                    "align=false", "evaluations=4")]  # fmt: skip


def test_evaluate_leaves_groups_out(command, table, tmp_path):
    out = tmp_path / "e.json"
    code, said, err = command("evaluate", table, "--series", "series", "--group", "subject",
                              "--proxy", "R1=share", *FIT, "--json", out)  # fmt: skip
    assert code == 0, err
    assert "leaving out s4" in said
    result = json.loads(out.read_text())
    assert result["summary"]["labelled"]["recordings"] == 16
    assert result["summary"]["transition"]["recordings"] == 4
    assert result["summary"]["labelled"]["mae"] < 0.4
    left = {row["series"]: row["left_out"] for row in result["rows"]}
    assert left["glide 0"] == "s3"
    assert left["glide 1"] == "s4"
    assert {"pearson", "midpoint", "coverage", "unknown"} <= set(result["rows"][-1]["figures"])


def test_evaluate_judges_a_model_and_its_preparation(command, table, tmp_path):
    model = tmp_path / "m.mechtrace"
    code, said, err = command("fit", table, "--series", "series", "--group", "subject",
                              "--channels", "x0,x1,x2,x3,x4", "--rate", "0.5", "--lag-seconds",
                              "4", *FIT, "--out", model, "--quiet")  # fmt: skip
    assert code == 0, err
    trace = mt.load(model)
    assert trace.facts_["preparation"] == {"rate": 0.5, "detrend": None}
    assert trace.lags == 2
    code, said, err = command("recover", model, table, "--series", "series", "-o",
                              tmp_path / "a.csv")  # fmt: skip
    assert code == 0, err
    assert len((tmp_path / "a.csv").read_text().splitlines()) == 20 * 15 + 1
    code, said, err = command("evaluate", table, "--series", "series", "--model", model,
                              "--proxy", "R1=share", "--json", "-", "-q")  # fmt: skip
    assert code == 0, err
    assert json.loads(said)["summary"]["transition"]["recordings"] == 4


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "one of --model and --group"),
        (["--group", "subject", "--proxy", "share"], "is not REGIME=COLUMN"),
        (["--group", "subject", "--proxy", "R1=nothing"], "no channel 'nothing'"),
        (
            ["--group", "subject", "--proxy", "R9=share", *FIT],
            "says nothing of the regimes R0, R1",
        ),
    ],
)
def test_evaluate_refuses_in_a_sentence(command, table, words, says):
    code, _, err = command("evaluate", table, "--series", "series", *words)
    assert code == 2
    assert says in err


def test_blocks_may_be_named_by_a_time(trained, world):
    glide = world.transition("simple", series=1).panel
    by_time = trained.recover(glide, blocks="conditional(1s)")
    assert by_time.alpha == pytest.approx(trained.recover(glide, blocks="conditional(1)").alpha)


def test_datasets_are_fetched_only_when_asked(command, tmp_path, monkeypatch):
    monkeypatch.delenv("MECHTRACE_DATA", raising=False)
    fetched = []
    monkeypatch.setattr(sources, "_fetch", lambda url: fetched.append(url) or b"changed")
    code, said, _ = command("datasets")
    assert code == 0
    assert "mocap.cs.cmu.edu" in said
    assert "research purposes only" in said
    assert command("datasets", "cmu", "--download")[0] == 2
    code, _, err = command("datasets", "cmu", "--folder", tmp_path, "--download")
    assert code == 2
    assert "were not accepted" in err
    assert not fetched
    code, _, err = command("datasets", "cmu", "--folder", tmp_path, "--download", "--accept")
    assert code == 2
    assert "has changed since it was checked" in err
    assert len(fetched) == 1
    assert not list(tmp_path.rglob("*.bvh"))
    assert "no data set" in command("datasets", "other")[2]


def test_what_was_fetched_is_kept_and_checked(tmp_path, monkeypatch):
    content = b"HIERARCHY"
    wanted = sources.SOURCES["cmu"]
    files = [sources.File("walk/1_1.bvh", "https://x/1", sources._checksum(content)),
             sources.File("run/1_2.bvh", "https://x/2", sources._checksum(b"other"))]  # fmt: skip
    monkeypatch.setattr(sources, "files_of", lambda _: files)
    monkeypatch.setattr(sources, "_fetch", lambda url: content if url.endswith("1") else b"other")
    assert sources.download(wanted, tmp_path, lambda text: None) == 2
    assert sources.download(wanted, tmp_path, lambda text: None) == 0
    (tmp_path / "run" / "1_2.bvh").write_bytes(b"damaged")
    found = sources.state(wanted, tmp_path)
    assert (found["good"], found["other"]) == (["walk/1_1.bvh"], ["run/1_2.bvh"])


def test_no_network_is_one_sentence():
    with pytest.raises(DataError, match="cannot be fetched"):
        sources._fetch("http://127.0.0.1:1/nothing")


@pytest.mark.filterwarnings("ignore::mechtrace.errors.FitWarning")
def test_the_gait_study_on_made_up_people(tmp_path):
    pytest.importorskip("sklearn")
    for subject in ("01", "02", "03"):
        for trial in (1, 2):
            bvh(tmp_path / "walk" / f"{subject}_0{trial}.bvh", 1.1 + 0.1 * trial, 1.6)
            bvh(tmp_path / "run" / f"{subject}_1{trial}.bvh", 3.0 + 0.1 * trial, 1.6, swing=45.0)
    bvh(tmp_path / "transition" / "04_01.bvh", 2.0, 1.6)
    result = gait_study(
        tmp_path, features=["legs"], seeds=1, methods=["lda", "algorithm1", "mechtrace"],
        say=lambda text: None, steps=120, hidden=16, batch=8,
    )  # fmt: skip
    assert len(result["rows"]) == 3 * 13
    assert {row["trial"] for row in result["rows"]} == {
        *(f"{s}_{t}" for s in ("01", "02", "03") for t in ("01", "02", "11", "12")), "04_01",
    }  # fmt: skip
    by_method = {row["method"]: row for row in result["summary"]}
    assert by_method["lda"]["pure_walk"] > 0.9
    assert by_method["mechtrace"]["pure_run"] > 0.7
    assert result["settings"]["steps"] == 120
    assert "numpy" in result["versions"]
