"""Scores of shares against a truth, and `mechtrace evaluate`."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import mechtrace as mt
from mechtrace.errors import DataError
from mechtrace.evaluate import (
    EstimatedShares,
    TruthTable,
    figures,
    figures_by_regime,
    mean_figures,
    truth_of_labels,
    truth_of_share,
)
from mechtrace.io.parts import Preparation

TIME = np.arange(101) / 10


RAMP = np.clip((TIME - 3) / 4, 0, 1)


def answer(share, **more) -> EstimatedShares:
    return EstimatedShares(TIME, np.column_stack([1 - share, share]), **more)


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


FIT = [f"--set={pair}" for pair in ("latents=3", "lags=2", "hidden=16", "steps=200", "batch=8",
                                    "lr=0.01", "align=false", "evaluations=4")]  # fmt: skip


def test_evaluate_leaves_groups_out(command, table, tmp_path):
    out = tmp_path / "e.json"
    code, said, err = command("evaluate", table, "--series", "series", "--group-by", "subject",
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
    code, said, err = command("fit", table, "--series", "series", "--group-by", "subject",
                              "--channels", "x0,x1,x2,x3,x4", "--rate", "0.5", "--lag-seconds",
                              "4", *FIT, "--out", model, "--quiet")  # fmt: skip
    assert code == 0, err
    trace = mt.load(model)
    assert (trace.preparation_.rate, trace.preparation_.group) == (0.5, "subject")
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
        ([], "one of --model and --group-by"),
        (["--group-by", "subject", "--proxy", "share"], "is not REGIME=COLUMN"),
        (["--group-by", "subject", "--proxy", "R1=nothing"], "no channel 'nothing'"),
        (
            ["--group-by", "subject", "--proxy", "R9=share", *FIT],
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


# --- a table of true shares ------------------------------------------------------------------


NAMES = ("normal", "worn", "clogged")


def shares_table(path, *, names=("one", "two"), rows=11, scale=1.0, time=True):
    """Write true shares that go from the first regime over the second to the third."""
    ramp = np.linspace(0, 1, rows)
    middle = 1 - np.abs(2 * ramp - 1)
    alpha = np.column_stack([(1 - ramp) ** 2, middle / 2, ramp**2])
    alpha /= alpha.sum(axis=1, keepdims=True)
    frame = pd.DataFrame(scale * alpha, columns=NAMES)
    if time:
        frame.insert(0, "time", np.arange(rows) * 0.5)
    frames = [frame.assign(series=name) for name in names] or [frame]
    pd.concat(frames).to_csv(path, index=False)
    return alpha


def test_true_shares_are_matched_by_recording_and_time(tmp_path):
    alpha = shares_table(tmp_path / "t.csv")
    table = TruthTable.read(tmp_path / "t.csv", NAMES[::-1])
    assert not table.shared
    some = table.of("two", np.array([1.0, 1.5, 7.0]))
    assert some[:2] == pytest.approx(alpha[2:4, ::-1])
    assert np.isnan(some[2]).all()  # after its end
    assert np.isnan(table.of("three", np.arange(3) * 0.5)).all()
    with pytest.raises(DataError, match="different kinds"):
        table.of("two", np.array(["2024-01-01"], dtype="datetime64[s]"))


def test_true_shares_have_the_columns_of_the_fit(tmp_path):
    alpha = shares_table(tmp_path / "t.csv")
    frame = pd.read_csv(tmp_path / "t.csv").rename(columns={"time": "Zeit", "series": "Charge"})
    frame.to_csv(tmp_path / "t.csv", index=False)
    how = Preparation(time="Zeit", series="Charge")
    table = TruthTable.read(tmp_path / "t.csv", NAMES, how)
    assert table.of("two", np.array([1.0, 1.5])) == pytest.approx(alpha[2:4])


def test_true_shares_without_names_are_those_of_all(tmp_path):
    alpha = shares_table(tmp_path / "t.csv", names=(), time=False)
    table = TruthTable.read(tmp_path / "t.csv", NAMES)
    assert table.shared
    assert table.of("any", np.arange(11) / 10) == pytest.approx(alpha)  # row by row


def test_true_shares_in_percent_are_refused(tmp_path):
    shares_table(tmp_path / "t.csv", scale=100)
    with pytest.raises(DataError, match="sum to 100 in a row, not 1"):
        TruthTable.read(tmp_path / "t.csv", NAMES)


def test_scores_of_each_regime_are_over_all_recordings():
    truths = [np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[0.0, 1.0], [np.nan, np.nan]])]
    alpha = np.array([[0.9, 0.1], [0.8, 0.2]])
    found = [EstimatedShares(np.arange(2), a, a - 0.15, a + 0.15) for a in (alpha, alpha[:, ::-1])]
    scores = figures_by_regime(found, truths, ("a", "b"))
    assert scores["a"]["mae"] == pytest.approx((0.1 + 0.2 + 0.1) / 3)
    assert scores["b"]["coverage"] == pytest.approx(2 / 3)
    assert scores["a"]["pearson"] > 0.98


def recovered_table(path, alpha):
    half = 0.05
    columns = dict(zip(NAMES, alpha.T, strict=True))
    for name in NAMES:
        columns |= {f"{name}_lower": columns[name] - half, f"{name}_upper": columns[name] + half}
    frame = pd.DataFrame(
        {"series": "one", "time": np.arange(len(alpha)) * 0.5}
        | columns
        | {"residual": 1.0, "flag": ""}
    )
    frame.to_csv(path, index=False)


def test_evaluate_scores_recovered_tables_against_true_shares(command, tmp_path):
    alpha = shares_table(tmp_path / "t.csv")
    recovered_table(tmp_path / "alpha.csv", alpha + np.array([0.04, -0.02, -0.02]))
    out = tmp_path / "e.json"
    code, said, err = command("evaluate", tmp_path / "alpha.csv", "--truth", tmp_path / "t.csv",
                              "--json", out)  # fmt: skip
    assert code == 0, err
    assert "  normal: pearson 1.000, mae 0.040, coverage 1.000" in said
    result = json.loads(out.read_text())
    assert result["summary"]["truth"]["mae"] == pytest.approx(0.08 / 3)
    assert result["regimes"]["clogged"]["mae"] == pytest.approx(0.02)
    assert result["rows"][0]["regimes"]["worn"]["coverage"] == 1


def test_evaluate_recovers_and_scores_against_true_shares(command, trained, world, tmp_path):
    glide = world.transition("simple", series=2)
    trained.save(tmp_path / "m.mechtrace")
    glide.panel.to_csv(tmp_path / "new.csv")
    frame = glide.panel.to_frame()[["series", "time"]]
    for k, name in enumerate(glide.panel.regimes or world.regimes):
        frame[name] = np.asarray(glide.alpha)[:, :, k].ravel()
    frame.to_csv(tmp_path / "t.csv", index=False)
    words = ["evaluate", tmp_path / "new.csv", "--model", tmp_path / "m.mechtrace"]
    code, said, err = command(*words, "--truth", tmp_path / "t.csv", "--json", "-", "-q")
    assert code == 0, err
    result = json.loads(said)
    assert [row["series"] for row in result["rows"]] == ["0", "1"]
    assert set(result["regimes"]) == {"R0", "R1", "R2"}
    code, _, err = command(*words, "--truth", tmp_path / "t.csv", "--proxy", "R1=x0")
    assert (code, "leave them out" in err) == (2, True)
    frame.assign(series="other " + frame["series"].astype(str)).to_csv(
        tmp_path / "t.csv", index=False
    )
    code, _, err = command(*words, "--truth", tmp_path / "t.csv")
    assert (code, "none of the recordings" in err) == (2, True)
