"""Seeded random tables: sensors of all kinds beside ids, labels and clocks under many names."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fuzz.guard import cases

from mechtrace.cli.inputs import read_labelled
from mechtrace.errors import DataError

pytestmark = pytest.mark.fuzz

#: Tables that one test reads.
SIZE = 10
SERIES = ("run_id", "Run", "trial no", "experiment", "file", "VersuchNr", "ID", "session",
          "cycle_no", "Probe", "sample", "blob", "编号", "test_number", "batch",
          "Nr.")  # fmt: skip
REGIMES = ("mode", "condition", "Zustand", "label", "state", "工况",
           "fault_type", "Befund")  # fmt: skip
TIMES = ("time", "timestamp", "t", "Zeit", "Time (s)", "sec", "Date/Time", "时间", "")
KINDS = ("plain", "coarse", "binary", "set-point", "integer", "slow")
SENSORS = ("press", "flow", "temp", "vib", "I_mot", "valve", "level", "rpm")


def sensor(rng: np.random.Generator, kind: str, regime: np.ndarray) -> np.ndarray:
    """One sensor of all recordings, below each other."""
    runs, rows = regime.shape
    if kind == "set-point":  # whoever sets it does not look at the recordings
        return np.repeat(rng.choice([10, 20, 30, 40], runs * rows // 10 + 1), 10)[: runs * rows]
    if kind == "slow":
        return 20 + 0.01 * np.cumsum(rng.standard_normal(runs * rows))
    x = rng.standard_normal((runs, rows))
    for t in range(1, rows):
        x[:, t] += rng.choice([0.3, 0.8, 0.95]) * x[:, t - 1]
    x = (x + rng.normal() * regime).ravel()
    if kind == "binary":
        return (x > np.median(x)).astype(int)
    return {"coarse": np.round(x), "integer": np.round(100 * x).astype(int)}.get(kind, x)


def drawn(seed: int) -> tuple[pd.DataFrame, set[str], int, int]:
    """Return a table, its sensors, and the numbers of its recordings and regimes."""
    rng = np.random.default_rng(seed)
    runs, rows = rng.integers(4, 16), rng.integers(30, 90)
    state = rng.permutation(np.arange(runs) % rng.integers(2, 4))
    run, t = np.repeat(np.arange(runs), rows), np.tile(np.arange(rows) * 1.0, runs)
    sensors = {
        f"{rng.choice(SENSORS)}_{k}": sensor(
            rng, str(rng.choice(KINDS)), np.repeat(state[:, None], rows, axis=1)
        )
        for k in range(rng.integers(2, 6))
    }
    columns: dict[str, object] = {}
    seconds = (t, 7200 * run + t, np.arange(len(run)))[rng.integers(3)]
    if name := str(rng.choice(TIMES)):
        dates = pd.Timestamp("2024-01-01") + pd.to_timedelta(seconds, unit="s")
        columns[name] = t if seconds is t else dates.astype(str)
    names = (run, run + 1, 100 + 5 * run, [f"R{k:03d}" for k in run],
             [f"2024-03-{k + 1:02d}_{'abc'[k % 3]}" for k in run])[rng.integers(5)]  # fmt: skip
    columns[str(rng.choice(SERIES))] = names
    regime = str(rng.choice(REGIMES))
    coded = regime in REGIMES[:6] and rng.random() < 0.5
    columns[regime] = np.array([0, 1, 2] if coded else ["ok", "worn", "bad"])[state][run]
    others = {"machine": run // 3, "comment": np.where(run == 2, "hm", ""),
              "ambient": (20 + rng.normal(size=runs).round(1))[run]}  # fmt: skip
    columns |= {name: column for name, column in others.items() if rng.random() < 0.3}
    frame = pd.DataFrame(columns | sensors)
    if rng.random() < 0.5:
        frame = frame[rng.permutation(frame.columns)]
    return frame, set(sensors), int(runs), len(set(state.tolist()))


@pytest.mark.parametrize("batch", cases(200, at_least=2))
def test_roles_are_right_or_a_question(tmp_path, batch):
    right = 0
    for seed in range(batch * SIZE, (batch + 1) * SIZE):
        frame, sensors, runs, regimes = drawn(seed)
        frame.to_csv(tmp_path / "a.csv", index=False)
        try:
            panel = read_labelled([tmp_path / "a.csv"], {}).panel
        except DataError as error:
            if "say --" not in str(error):
                pytest.fail(f"table {seed}: {error}")
            continue
        assert set(panel.channels) == sensors, f"table {seed}"
        assert (len(panel), len(set(panel.lengths))) == (runs, 1), f"table {seed}"
        assert len(panel.regimes) == regimes, f"table {seed}"
        right += 1
    assert right >= 0.8 * SIZE
