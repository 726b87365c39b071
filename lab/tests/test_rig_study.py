"""The rig study: parts of experiments, scores against marks, and a small rig end to end."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from mechtrace_lab.datasets import skab
from mechtrace_lab.studies.rig import rig_study
from mechtrace_lab.studies.rig_scores import (
    course,
    imbalance_score,
    markdown,
    summary,
    unknown_score,
    valve_score,
)

ROWS = 200
MARKS = (80, 90, 140, 150)


def ramp():
    return np.interp(np.arange(ROWS), [MARKS[0], MARKS[1], MARKS[2], MARKS[3]], [0, 1, 1, 0])


def write(path, rng, fault=3.0, marks=MARKS):
    """One experiment: flow falls with the fault, vibration is noise."""
    path.parent.mkdir(exist_ok=True)
    share, anomaly, changepoint = ramp(), np.zeros(ROWS), np.zeros(ROWS)
    anomaly[marks[0] : marks[-1]] = 1
    changepoint[list(marks)] = 1
    table = pd.DataFrame(
        {
            "datetime": pd.Timestamp("2020-03-09") + pd.to_timedelta(np.arange(ROWS), "s"),
            "vibration": 1 + 0.1 * rng.standard_normal(ROWS),
            "flow": 32 + 0.1 * rng.standard_normal() - fault * share + rng.standard_normal(ROWS),
            "anomaly": anomaly,
            "changepoint": changepoint,
        }
    )
    table.to_csv(path, sep=";", index=False)


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for number in range(4):
        write(tmp_path / "valve1" / f"{number}.csv", rng)
    return tmp_path


def test_marks_are_read_and_tell_the_steady_parts(folder):
    found = skab.read(folder, gap=3.0)
    assert found.panel.names.tolist() == [f"valve1/{i}" for i in range(4)]
    assert found.panel.channels == ("vibration", "flow")
    assert found.panel.gap == 3.0
    parts = skab.steady_parts(found.column("changepoint")[0])
    assert parts == [("normal", 0, 80), ("fault", 90, 140), ("normal", 150, ROWS)]


def test_a_valve_is_scored_against_its_marks():
    time, anomaly, marks = np.arange(ROWS, dtype=float), np.zeros(ROWS), np.zeros(ROWS)
    anomaly[80:150], marks[list(MARKS)] = 1, 1
    right = valve_score(time, ramp(), anomaly, marks, ramp() - 0.1, ramp() + 0.1)
    assert right["clean"]
    assert (right["before"], right["steady"], right["after"]) == pytest.approx((0, 1, 0))
    assert right["false_alarms"] == 0
    assert right["f1"] == pytest.approx(2 * 59 / (59 + 70))
    assert right["cover"] == 1
    assert right["auc"] > 0.99
    late = valve_score(time, np.roll(ramp(), 40), anomaly, marks)
    assert not late["clean"]
    assert late["missed"] > 0.5
    twice = ramp()
    twice[20:25] = 1
    assert not valve_score(time, twice, anomaly, marks)["clean"]


def test_imbalance_is_compared_with_the_level_of_the_vibration():
    rng, marks = np.random.default_rng(1), np.zeros(ROWS)
    marks[list(MARKS)] = 1
    true = course(0.2 + 0.5 * ramp() + 0.005 * rng.standard_normal(ROWS), marks)
    assert np.corrcoef(true, ramp())[0, 1] > 0.98
    assert imbalance_score(ramp(), true, marks)["imbalance_corr"] > 0.98
    assert imbalance_score(1 - ramp(), true, marks)["imbalance_corr"] < -0.9


def test_flags_are_counted_inside_and_outside():
    anomaly = np.repeat([0.0, 1.0], [6, 4])
    flagged = np.array([1, 0, 0, 0, 0, 0, 1, 1, 1, 0], bool)
    found = unknown_score(flagged, anomaly)
    assert found == {"flagged_fault": 0.75, "flagged_normal": pytest.approx(1 / 6)}


def test_a_summary_tells_the_spread_over_seeds():
    rows = [
        {"task": "valve", "method": "m", "seed": seed, "f1": 0.8 + 0.1 * seed, "clean": bool(seed)}
        for seed in (0, 1)
    ]
    (found,) = summary(rows)
    assert found["f1"] == pytest.approx(0.85)
    assert found["f1_spread"] == pytest.approx(0.1)
    assert found["clean"] == 0.5
    assert "| valve | m |" in markdown([found])


@pytest.mark.filterwarnings("ignore::mechtrace.errors.FitWarning")
def test_every_experiment_is_recovered_by_a_model_that_has_not_seen_it(folder):
    small = {"latents": 2, "lags": 2, "hidden": 8, "steps": 20, "align": False}
    result = rig_study(folder, tasks=("valve",), seeds=1, **small)
    ours = [row for row in result["rows"] if row["method"] == "mechtrace"]
    assert sorted(row["experiment"] for row in ours) == [f"valve1/{i}" for i in range(4)]
    assert np.mean([row["auc"] for row in ours]) > 0.9
    methods = {row["method"] for row in result["summary"]}
    assert {"mechtrace", "logistic-regression, 30 s", "lda"} <= methods
