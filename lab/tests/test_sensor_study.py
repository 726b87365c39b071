"""The study of broken sensors: cases, counts and tables."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from mechtrace_lab.studies import sensors
from mechtrace_lab.studies.sensors import Case, faults_of, markdown, sensor_study


@pytest.fixture
def rig(tmp_path):
    """A small rig: experiments of other days, four of them with a fault in the middle."""
    rng = np.random.default_rng(0)
    see, start = rng.standard_normal((2, 4)), pd.Timestamp("2020-03-01")
    names = ["anomaly-free/anomaly-free", "other/1", *(f"valve2/{i}" for i in range(4))]
    for name in names:
        states = np.zeros((300, 2))
        for t in range(1, 300):
            states[t] = 0.8 * states[t - 1] + rng.standard_normal(2)
        values = 20 + states @ see + 0.1 * rng.standard_normal((300, 4))
        table = pd.DataFrame(values, columns=["flow", "current", "pressure", "voltage"])
        table.insert(0, "datetime", start + pd.to_timedelta(np.arange(300), unit="s"))
        if name != names[0]:
            table["anomaly"] = (np.arange(300) // 100 == 1).astype(float)
            table["changepoint"] = 0.0
        path = tmp_path / "skab" / f"{name}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        table.to_csv(path, sep=";", index=False)
    return tmp_path


def test_experiments_are_left_out_and_faults_counted(rig):
    result = sensor_study(rig, systems=[])
    assert [row["case"] for row in result["rows"]] == [
        *(f"rig/valve2/{i}" for i in range(4)), "rig at other flows/all",
    ]  # fmt: skip
    found = result["summary"]["rig"]
    assert found["none"] == [4, 4]
    for kind in ("units", "stuck", "swapped"):
        count, hit = found[kind]
        assert hit > 0.9 * count > 0
    assert "| rig | 4/4 |" in markdown(result)


def test_sensors_that_are_alike_are_not_swapped():
    rng = np.random.default_rng(1)
    state = rng.standard_normal((13, 150, 1)).cumsum(axis=1) / 5
    values = list(state + 0.3 * rng.standard_normal((13, 150, 2)))
    assert faults_of(Case("alike", values[:12], None, values[12:]))["swapped"] == [0, 0]


def test_the_command_writes_the_table(command, tmp_path, monkeypatch):
    row = {"system": "motor", "seed": 8, "without": "s1", "corr": 0.9, "mae": 0.1}
    monkeypatch.setattr(sensors, "left_out", lambda *_: [row | {"expected": 0.1, "cover": 0.95}])
    monkeypatch.setattr(sensors, "REPEATS", 2)
    out = tmp_path / "s.json"
    code, text, _ = command(
        "bench", "sensors", "--systems", "motor", "--fits", "motor", "--json", out
    )
    assert code == 0
    assert "| motor | s1 | 0.900 | 0.100 | 0.100 | 0.950 |" in text
    result = json.loads(out.read_text())
    assert result["rows"][0]["units"] == [2, 2]
    assert result["without"] == [row | {"expected": 0.1, "cover": 0.95}]
