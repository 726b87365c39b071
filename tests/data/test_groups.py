"""Groups: recordings of one subject are held out together, and travel with the panel."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.signal import lfilter

import mechtrace as mt
from mechtrace.data.join import join_panels
from mechtrace.data.read import read_inputs
from mechtrace.data.segments import runs_as_series, split_runs, training_runs
from mechtrace.errors import DataError
from mechtrace.evaluate import leave_groups_out

REGIMES = ["walk", "walk", "run", "walk", "run", "run", "walk", "run"]
GROUPS = ["a", "a", "a", "b", "b", "c", "d", "d"]


@pytest.fixture
def panel():
    values = np.random.default_rng(0).normal(size=(8, 12, 2))
    return mt.Panel.from_arrays(values, regime=REGIMES, groups=GROUPS)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("share", [0.1, 0.3, 0.6])
def test_no_group_is_on_both_sides(panel, share, seed):
    train, held = split_runs(training_runs(panel, 2), share, 2, seed)
    assert not set(train.group) & set(held.group)
    assert set(train.regime) == set(held.regime) == {0, 1}


def test_a_regime_of_one_group_is_split_by_series():
    values = np.zeros((6, 12, 1))
    alone = mt.Panel.from_arrays(
        values, regime=["walk"] * 2 + ["run"] * 4, groups=["a", "b", "c", "c", "c", "c"]
    )
    train, held = split_runs(training_runs(alone, 2), 0.3, 2, 0)
    for runs in (train, held):
        assert set(runs.regime) == {0, 1}
    assert not set(train.series) & set(held.series)


def test_groups_travel_with_the_panel(panel, tmp_path):
    assert panel[[1, 3]].groups.tolist() == ["a", "b"]
    assert panel.select(["run"]).groups.tolist() == ["a", "b", "c", "d"]
    twice = join_panels([panel[:2], panel[3:5]], ["x", "y"], "both")
    assert twice.groups.tolist() == ["a", "a", "b", "b"]
    panel.to_npz(tmp_path / "p.npz")
    assert mt.Panel.from_npz(tmp_path / "p.npz").groups.tolist() == GROUPS
    panel.to_csv(tmp_path / "p.csv")
    table = {"series": "series", "time": "time", "regime": "regime", "group": "group"}
    again = mt.Panel.from_csv(tmp_path / "p.csv", **table)
    assert again.groups.tolist() == GROUPS
    assert again.channels == panel.channels
    assert again.fingerprint() == panel.fingerprint()
    other = mt.Panel.from_csv(tmp_path / "p.csv", **(table | {"group": None}),
                              channels=panel.channels)  # fmt: skip
    assert other.groups is None
    assert other.fingerprint() != panel.fingerprint()


def test_a_model_knows_whose_series_say_what_is_normal(tmp_path):
    turn = {"walk": np.cumsum(np.full(40, 0.2)), "run": np.cumsum(np.full(40, 0.6))}
    values = [np.stack([np.sin(turn[name]), np.cos(turn[name])], axis=-1) for name in REGIMES]
    values = np.array(values) + 0.1 * np.random.default_rng(0).normal(size=(8, 40, 2))
    panel = mt.Panel.from_arrays(values, regime=REGIMES, groups=GROUPS)
    model = mt.Trace(latents=2, lags=2, steps=60, holdout=0.5, align=False).fit(
        panel, progress=False
    )
    model.save(tmp_path / "m.mechtrace")
    held = mt.load(tmp_path / "m.mechtrace").statistics_
    assert len(held.group) == len(held.surprise) == len(held.pure_error) == len(held.pure_group)
    assert 2 <= len(np.unique(held.group)) < len(held.group)
    path = model.recover(panel[[0]].without_labels())
    assert 0 < model.diagnose(path)["convexity"].value <= 1


def test_a_group_column_may_name_the_series_too(tmp_path):
    frame = pd.DataFrame({
        "subject": np.repeat(["p", "q"], 20), "trial": np.tile(np.repeat([1, 2], 10), 2),
        "t": np.tile(np.arange(10), 4), "x": np.arange(40.0),
    })  # fmt: skip
    frame.to_csv(tmp_path / "t.csv", index=False)
    found = read_inputs([tmp_path / "t.csv"], group="subject").panel
    assert found.names.tolist() == ["p/1", "p/2", "q/1", "q/2"]
    assert found.groups.tolist() == ["p", "p", "q", "q"]
    assert found.channels == ("x",)


def test_bad_groups_are_refused(tmp_path):
    rows = {"run": ["a", "a"], "who": ["p", "q"], "x": [0.0, 1.0]}
    with pytest.raises(DataError, match=r"second group .* row 1"):
        mt.Panel.from_frame(pd.DataFrame(rows), series="run", group="who")
    with pytest.raises(DataError, match="no group in"):
        mt.Panel.from_frame(pd.DataFrame(rows | {"who": ["p", ""]}), series="run", group="who")
    with pytest.raises(DataError, match="3 groups were given for 2 series"):
        mt.Panel.from_arrays(np.zeros((2, 3, 1)), groups=["a", "b", "c"])
    with pytest.raises(DataError, match="has no name"):
        mt.Panel.from_arrays(np.zeros((2, 3, 1)), groups=["a", " "])
    panel = mt.Panel.from_arrays(np.zeros((2, 3, 1)), groups=["a", "b"])
    panel.to_npz(tmp_path / "p.npz")
    with pytest.raises(DataError, match="no columns to choose from"):
        mt.Panel.read(tmp_path / "p.npz", group="who")


def test_folds_leave_each_group_out_once(panel):
    values = np.zeros((3, 12, 2))
    new = mt.Panel.from_arrays(values, names=["n1", "n2", "n3"], groups=["d", "e", "f"])
    whole = join_panels([panel, new], ["old", "new"], "all")
    folds = list(leave_groups_out(whole))
    assert [fold.groups for fold in folds] == [("a",), ("b",), ("c",), ("d",), ("e", "f")]
    for fold in folds:
        assert not set(whole.groups[fold.learn]) & set(fold.groups)
        assert set(whole.groups[fold.test]) == set(fold.groups)
    assert sorted(np.concatenate([fold.test for fold in folds])) == list(range(11))
    assert max(fold.learn.max() for fold in folds) < 8  # nothing is learned from what is new
    with pytest.raises(DataError, match="no groups"):
        next(leave_groups_out(mt.Panel.from_arrays(values)))


def test_runs_cut_out_of_a_part_of_a_panel_with_a_fine_clock_are_whole():
    time = [np.arange(12) / 30] * 4
    panel = mt.Panel.from_arrays(np.zeros((4, 12, 1)), regime=list("abab"), time=time)[[0, 1, 3]]
    assert not runs_as_series(panel, training_runs(panel, 2)).breaks()[1:12].any()


def test_what_training_series_visit_counts_as_visited_not_only_the_held_out_groups():
    # twelve days; the machine runs at another level each day, and three days are held out
    random, days = np.random.default_rng(0), np.arange(12)
    values, regimes, groups = [], [], []
    for day in days:
        for k, name in enumerate(("normal", "fault") * 2):
            noise = random.standard_normal((60, 2))
            state = lfilter([1.0], [1.0, (-0.8, 0.6)[k % 2]], noise, axis=0)
            values.append(state @ [[1.0, 0.4, 0.1], [-0.3, 1.0, 0.8]] + day)
            regimes.append(name)
            groups.append(f"day {day}")
    panel = mt.Panel.from_arrays(values, regime=regimes, groups=groups)
    options = {
        "latents": 3,
        "lags": 2,
        "steps": 150,
        "holdout": 0.1,
        "align": False,
        "hidden": 16,
        "lr": 1e-2,
    }
    model = mt.Trace(**options).fit(panel, progress=False)
    assert max(model.facts_["held_out_series"].values()) == 6  # of three days
    reference, latents = model.statistics_, np.array(model.encode(panel))
    outside = reference.support.trust(latents) < 1
    assert outside.mean() < 0.002
    # and every day's mean lies within reach of the means of its regime
    codes = np.array([panel.regimes.index(name) for name in regimes])
    gap = latents.mean(axis=1) - reference.means[codes]
    far = np.einsum("ni,ij,nj->n", gap, np.linalg.inv(reference.between), gap) / gap.shape[1]
    assert far.mean() == pytest.approx(1, abs=0.1)
    level = [model.diagnose(model.recover(panel[[i]].without_labels()))["operating point"].level
             for i in (0, 1, 46, 47)]  # fmt: skip
    assert level == ["good"] * 4
