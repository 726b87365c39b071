"""How recordings were read and prepared belongs to the model: new ones are treated alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import mechtrace as mt
from mechtrace.errors import DataError
from mechtrace.io.parts import Preparation

#: The fits are too short to be good, which is not the question here.
pytestmark = pytest.mark.filterwarnings("ignore::mechtrace.errors.FitWarning")
FIT = {"latents": 3, "lags": 2, "hidden": 16, "steps": 60, "batch": 8, "lr": 0.01, "align": False}
WORDS = [f"--set={name}={str(value).lower()}" for name, value in FIT.items()]
COLUMNS = {"series": "who", "time": "clock", "regime": "doing"}
#: A step of 0.1, rows that are 0.3 apart at one place, and a level that differs by recording.
GAP = 0.4


@pytest.fixture(scope="module")
def frame():
    world = mt.worlds.make("paper-positive", regimes=2, latents=3, channels=5, length=40)
    frame = world.simulate(8).panel.to_frame().rename(columns=COLUMNS)
    frame = frame.astype({"who": str, "doing": str})
    frame["clock"] = 0.1 * frame["clock"] + 0.2 * (frame["clock"] >= 20)
    for name in ("x0", "x1", "x2", "x3", "x4"):
        frame[name] += frame["who"].astype(int)
    return frame


@pytest.fixture(scope="module")
def raw(frame):
    return mt.Panel.from_frame(
        frame, time="clock", series="who", regime="doing", missing="gap", gap=GAP
    )


@pytest.fixture(scope="module")
def model(raw, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.mechtrace"
    panel = raw.resampled(5).detrended("mean")
    mt.Trace(**FIT).fit(panel, progress=False).save(path)
    return path


def same(left, right):
    left, right = ([one] if not isinstance(one, list) else one for one in (left, right))
    for one, other in zip(left, right, strict=True):
        for part in ("time", "alpha", "lower", "upper"):
            found = getattr(one, part)
            np.testing.assert_allclose(found, getattr(other, part), rtol=0, atol=1e-10)
        assert one.flag.tolist() == other.flag.tolist()


def test_a_loaded_model_prepares_a_panel_as_the_fit_was(model, raw):
    trace = mt.load(model)
    assert trace.preparation_ == Preparation(
        time="clock", series="who", regime="doing", missing="gap", gap=GAP,
        step=raw.usual_step, rate=5, detrend="mean",
    )  # fmt: skip
    unlabelled = raw.without_labels()[:3]
    wanted = trace.recover(unlabelled.resampled(5).detrended("mean"))  # is not done twice
    same(trace.recover(unlabelled), wanted)
    without_gap = mt.Panel.from_arrays(
        unlabelled.to_arrays(), channels=raw.channels,
        time=[unlabelled.time_of(i) for i in range(3)],
    )  # fmt: skip
    same(trace.recover(without_gap), wanted)
    prepared = unlabelled.resampled(5).detrended("mean")
    for one, other in zip(trace.encode(unlabelled), trace.encode(prepared), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_gap_of_the_fit_counts_for_panels_and_streams(raw):
    trace = mt.Trace(**FIT).fit(raw, progress=False)
    new = mt.Panel.from_arrays(
        raw.to_arrays()[:1], time=[raw.time_of(0)], channels=raw.channels
    )  # of its own accord it breaks at the step of 0.3
    path = trace.recover(new, causal=True)
    same(path, trace.recover(raw.without_labels()[:1], causal=True))
    assert (path.flag == "missing").sum() == 0
    stream = trace.stream()
    pushed = [stream.push(*row).alpha for row in zip(new.values, new.time, strict=True)]
    np.testing.assert_allclose(pushed, path.alpha, atol=1e-9)


def test_a_prepared_panel_stays_so_in_a_file(model, raw, tmp_path):
    prepared = raw.without_labels().resampled(5).detrended("mean")
    prepared.to_npz(tmp_path / "a.npz")
    assert mt.Panel.read(tmp_path / "a.npz").preparation == prepared.preparation
    assert mt.load(model).prepared(prepared) is prepared


def test_a_loaded_model_reads_a_frame_by_the_columns_of_the_fit(model, frame, raw):
    trace = mt.load(model)
    wanted = trace.recover(raw.without_labels())
    other = frame[[*reversed(frame.columns)]].assign(comment="x")
    same(trace.recover(other), wanted)
    same(trace.recover(other.drop(columns="doing")), wanted)
    one = trace.recover(other[other["who"] == "3"].drop(columns="who"))
    same(one, wanted[3])
    with pytest.raises(DataError, match="x2"):
        trace.recover(frame.drop(columns="x2"))


def test_rows_without_a_time_are_not_resampled_to_a_rate_in_time(model, raw):
    rows = mt.Panel.from_arrays(raw.to_arrays(), channels=raw.channels)
    with pytest.raises(DataError, match="have no time"):
        mt.load(model).recover(rows)


def test_the_old_format_has_nothing_to_remember():
    old = mt.load(Path(__file__).parent / "fixtures" / "model-v1.mechtrace")
    assert old.preparation_ == Preparation()


def test_the_command_line_remembers_what_the_fit_was_told(command, frame, raw, tmp_path):
    data, model, out = tmp_path / "d.csv", tmp_path / "m.mechtrace", tmp_path / "a.csv"
    frame.assign(id=np.arange(len(frame)) // 10).to_csv(data, index=False)
    code, said, err = command(
        "fit", data, "--time", "clock", "--series", "who", "--regime", "doing", "--channels",
        "x0,x1,x2,x3,x4", "--gap", GAP, "--rate", 5, "--detrend", "mean", *WORDS, "-o", model,
    )  # fmt: skip
    assert code == 0, err
    code, said, err = command("recover", model, data, "-o", out)
    assert code == 0, err
    assert "time = clock (as in the fit), series = who (as in the fit)" in said
    assert "as in the fit: gap = 0.4, rate = 5, detrend = mean" in said
    found = pd.read_csv(out, keep_default_na=False)
    wanted = pd.concat(p.to_frame() for p in mt.load(model).recover(raw.without_labels()))
    np.testing.assert_allclose(found["R1"].to_numpy(float), wanted["R1"], atol=1e-9)
    code, said, err = command("recover", model, data, "--detrend", "line", "-o", out)
    assert code == 0, err
    assert "as in the fit: gap = 0.4, rate = 5\n" in said
    other = pd.read_csv(out)["R1"]
    assert np.abs(other.to_numpy() - wanted["R1"].to_numpy()).max() > 1e-3
    code, said, err = command("evaluate", data, "--model", model, "--json", "-")
    assert code == 0, err
    assert '"recordings": 16.0' in said


def test_a_written_config_holds_rate_and_trend(command, frame, tmp_path):
    data, config = tmp_path / "d.csv", tmp_path / "run.toml"
    frame.to_csv(data, index=False)
    words = ["--time", "clock", "--series", "who", "--regime", "doing"]
    code, _, err = command("fit", data, *words, "--rate", 5, "--detrend", "line",
                           "--write-config", config)  # fmt: skip
    assert code == 0, err
    assert "rate = 5.0" in config.read_text()
    model = tmp_path / "m"
    code, _, err = command("fit", data, "--config", config, *WORDS, "-o", model, "-q")
    assert code == 0, err
    found = mt.load(model).preparation_
    assert (found.rate, found.detrend, found.time) == (5, "line", "clock")


@pytest.mark.parametrize("name", ["fit", "evaluate", "compare"])
def test_commands_that_learn_have_the_same_options_for_reading(command, name):
    _, said, _ = command(name, "--help")
    for option in ("time", "series", "regime", "group", "channels", "missing", "gap", "rate",
                   "detrend"):  # fmt: skip
        assert f"--{option}" in said


@pytest.mark.parametrize("name", ["recover", "diagnose", "report"])
def test_commands_that_use_a_model_have_the_same_options_for_reading(command, name):
    _, said, _ = command(name, "--help")
    for option in ("time", "series", "missing", "gap", "rate", "detrend"):
        assert f"--{option}" in said
