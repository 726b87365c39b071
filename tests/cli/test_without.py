"""Broken and missing sensors on the command line: named, with the option that leaves them out."""

from __future__ import annotations

import json

import pandas as pd
import pytest

import mechtrace as mt

SMALL = {"latents": 2, "hidden": 16, "steps": 150, "batch": 12, "align": False}


@pytest.fixture(scope="module")
def motor():
    return mt.worlds.make("zoo/motor", seed=5, length=100)


@pytest.fixture(scope="module")
def model(motor, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.mechtrace"
    mt.Trace(**SMALL).fit(motor.simulate(10).panel, progress=False).save(path)
    return path


@pytest.fixture(scope="module")
def frame(motor):
    return motor.transition("simple", series=1, seed=2).panel.to_frame().drop(columns="series")


def recovered(command, model, frame, tmp_path, *options):
    frame.to_csv(tmp_path / "new.csv", index=False)
    out = tmp_path / "alpha.csv"
    return command("recover", model, tmp_path / "new.csv", "--out", out, *options)


def test_a_missing_column_is_a_sentence_with_the_option_and_then_an_answer(
    command, model, frame, tmp_path
):
    name = frame.columns[2]
    lacks = frame.drop(columns=name)
    code, _, err = recovered(command, model, lacks, tmp_path)
    assert code == 2
    assert f"there is no column '{name}'" in err
    assert f"or recover without that sensor: --without {name}." in err
    answer = tmp_path / "answer.json"
    options = ("--without", name, "--json", answer)
    code, out, _ = recovered(command, model, lacks, tmp_path, *options)
    assert code == 0
    assert f"without '{name}'" in out
    (diagnosis,) = json.loads(answer.read_text())["diagnoses"]
    finding = next(one for one in diagnosis["findings"] if one["code"] == "sensors")
    assert (finding["level"], diagnosis["expected_error"] is None) == ("caution", False)
    assert len(pd.read_csv(tmp_path / "alpha.csv")) == len(frame)


def test_an_empty_column_is_named(command, model, frame, tmp_path):
    name = frame.columns[2]
    empty = frame.assign(**{name: float("nan")})
    code, out, _ = recovered(command, model, empty, tmp_path, "--missing", "gap")
    assert code == 0
    assert f"nothing can be told: channel '{name}' has values in 0 % of the rows" in out
    assert f"--without {name}" in out
    code, out, _ = recovered(command, model, empty, tmp_path, "--without", name)
    assert code == 0
    assert "nothing can be told" not in out


def test_other_units_are_named_with_both_ranges_and_what_to_do(command, model, frame, tmp_path):
    name = frame.columns[2]
    code, out, _ = recovered(command, model, frame.assign(**{name: 5 * frame[name]}), tmp_path)
    assert code == 0
    assert f"nothing can be told: channel '{name}': " in out
    assert " here, " in out
    assert " in training. It reads about " in out
    assert "verdict: do not trust. Check its unit and its range, correct the column and" in out
    assert f"--without {name}" in out


@pytest.mark.parametrize(("factor", "more", "fix"), [
    (2, "less", "--rate 5"), (0.5, "more", "--rate 10"), (0.1, "more", "--rate 10"),
])  # fmt: skip
def test_another_rate_is_named_with_both_rates(command, model, frame, tmp_path, factor, more, fix):
    other = frame.assign(time=factor * frame["time"])
    code, _, err = recovered(command, model, other, tmp_path)
    assert code == 2
    often = max(factor, 1 / factor)
    said = f"rows are {0.1 * factor:g} apart in time, in training they were 0.1 apart"
    assert f"{said}: they come {often:g} times {more} often" in err
    assert fix in err


def test_an_offset_of_the_clock_is_harmless(command, model, frame, tmp_path):
    recovered(command, model, frame, tmp_path)
    usual = pd.read_csv(tmp_path / "alpha.csv")
    code, _, _ = recovered(command, model, frame.assign(time=frame["time"] + 1e6), tmp_path)
    assert code == 0
    later = pd.read_csv(tmp_path / "alpha.csv")
    assert (later["time"] - usual["time"] == 1e6).all()
    shares = [column for column in usual if column not in ("time", "flag")]
    pd.testing.assert_frame_equal(later[shares], usual[shares])


def test_a_sensor_that_is_not_there_is_refused(command, model, frame, tmp_path):
    code, _, err = recovered(command, model, frame, tmp_path, "--without", "nothing")
    assert code == 2
    assert "there is no sensor 'nothing' to leave out; the sensors are s1_" in err
