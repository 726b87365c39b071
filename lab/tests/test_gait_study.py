"""The gait study: trials joined to a way there and back, spreads, and who takes part."""

from __future__ import annotations

import numpy as np
import pytest
from motions import bvh, people

from mechtrace_lab.datasets import cmu
from mechtrace_lab.datasets.gait import speed_proxy
from mechtrace_lab.reproduction.gait import SEAM, Trials, gait_study, summarise


@pytest.fixture
def trials(tmp_path):
    """Two trials of one subject and one of another, all of which change."""
    for name, first, last in (("04_01", 1.3, 3.2), ("04_02", 3.2, 1.3), ("05_01", 1.3, 3.2)):
        bvh(tmp_path / "new" / f"{name}.bvh", first, last=(last, 30.0))
    found = cmu.read(tmp_path)
    speed = found.column("hip speed")
    shares = [speed_proxy(one, 1.3, 3.2) for one in speed]
    return Trials(found, speed, shares, shares, [True] * 3)


def test_there_and_back_is_of_one_subject_with_a_gap_between(trials):
    back = trials.back_and_forth()
    panel = back.test.panel
    assert panel.names.tolist() == ["04_01+04_02"]
    steps = np.diff(panel.time_of(0))
    assert len(panel.time_of(0)) == 2 * trials.test.panel.lengths[0] == len(back.by_speed[0])
    assert np.flatnonzero(steps > 0.1).tolist() == [len(trials.speed[0]) - 1]
    assert steps.max() == pytest.approx(SEAM)
    assert back.by_speed[0][0] < 0.1 < 0.9 < back.by_speed[0].max()
    assert back.by_speed[0][-1] < 0.1
    np.testing.assert_allclose(back.test.column("hip speed")[0], back.speed[0])
    alone = Trials(trials.test, trials.speed, trials.by_speed, trials.by_flight, [True, False, 1])
    assert alone.back_and_forth() is None


def test_spreads_are_over_seeds_and_over_trials():
    def row(seed, trial, mae):
        part = {"walking": mae, "walking_rows": 1 + seed, "running": np.nan, "running_rows": 0}
        return {"kind": "change", "seed": seed, "trial": trial, "mae": mae, **part}

    found = summarise([row(0, "a", 0.1), row(0, "b", 0.3), row(1, "a", 0.1), row(1, "b", 0.5)])
    assert found["mae"] == pytest.approx(0.25)
    assert found["spread"]["mae"]["seeds"] == pytest.approx(np.std([0.2, 0.3], ddof=1))
    assert found["spread"]["mae"]["trials"] == pytest.approx(np.std([0.1, 0.4], ddof=1))
    assert found["walking_by_row"] == pytest.approx((0.1 + 0.3 + 2 * 0.1 + 2 * 0.5) / 6)
    assert np.isnan(found["running_by_row"])


@pytest.mark.filterwarnings("ignore::mechtrace.errors.FitWarning")
def test_nctrl_takes_part_with_one_seed(tmp_path, monkeypatch):
    monkeypatch.setattr("mechtrace_lab.reproduction.reference_methods.NCTRL_TRANSITIONS", 500)
    people(tmp_path, seconds=1.5, new="transition")
    methods = ["told-line", "nctrl-hard"]
    result = gait_study(tmp_path, features=["legs"], seeds=2, methods=methods)
    seeds = {(row["method"], row["seed"]) for row in result["rows"]}
    assert seeds == {("told-line", 0), ("told-line", 1), ("nctrl-hard", 0)}
    pure = [row for row in result["rows"] if row["kind"] == "pure"]
    assert all(row["wander"] >= 0 for row in pure)
