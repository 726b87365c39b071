"""Sizes that the data choose."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import mechtrace as mt
from mechtrace.config import RunConfig
from mechtrace.stage1 import fit_run, sizes
from mechtrace.stage1.fit_cost import Plan
from mechtrace.stage1.sizes import choose_sizes

CPU = torch.device("cpu")
QUICK = {"hidden": 16, "steps": 40, "batch": 8, "evaluations": 2, "align": False}


@pytest.fixture
def short_trial(monkeypatch):
    """Trials that take a second."""
    for name, value in (("STEPS", 400), ("HIDDEN", 32), ("QUICK", 150), ("THOROUGH", 300)):
        monkeypatch.setattr(sizes, name, value)


def damped(order: int) -> mt.Panel:
    """Two independent states whose next value depends on that of `order` rows before."""
    random = np.random.default_rng(0)
    values = np.zeros((12, 140, 2))
    for series, strength in enumerate(np.tile([0.5, 0.9], 6)):
        noise = random.standard_normal((140, 2))
        for t in range(order, 140):
            values[series, t] = strength * values[series, t - order] + noise[t]
    return mt.Panel.from_arrays(values[:, 40:], regime=["low", "high"] * 6)


def bent(panel: mt.Panel) -> mt.Panel:
    """Two states in five channels, four of them bent."""
    z = np.asarray(panel.values).reshape(12, 100, 2)
    a, b = z[..., 0] / 3, z[..., 1] / 3
    x = [a, a + np.tanh(b), b - 0.5 * np.tanh(2 * a), np.tanh(a) - b, np.tanh(a + b) + a]
    x = np.stack(x, axis=-1) + 0.01 * np.random.default_rng(1).standard_normal((12, 100, 5))
    return mt.Panel.from_arrays(x, regime=["low", "high"] * 6)


@pytest.mark.parametrize("order", [1, 2, 4])
def test_lags_are_those_that_predict(order):
    config, found = choose_sizes(damped(order), RunConfig.from_options(latents=2), CPU)
    assert config.model.lags == found.lags.chosen == order
    assert config.model.latents == 2
    assert found.latents is None
    assert set(found.lags.measured) == {"1", "2", "4"}


def test_lags_fit_into_the_shortest_recordings():
    panel = damped(1)
    rows = np.asarray(panel.values).reshape(12, 100, 2)[:, :3]
    short = mt.Panel.from_arrays(rows, regime=["low", "high"] * 6)
    config, found = choose_sizes(short, RunConfig.from_options(latents=2), CPU)
    assert config.model.lags in (1, 2)
    assert set(found.lags.measured) == {"1", "2"}


def test_channels_that_are_functions_of_two_states_give_two_latents(short_trial):
    config, found = choose_sizes(bent(damped(1)), RunConfig.from_options(lags=1), CPU)
    assert config.model.latents == found.latents.chosen == 2
    assert found.latents.measured["1"] < found.latents.limit < found.latents.measured["2"]


def test_sizes_that_were_given_stay():
    config = RunConfig.from_options(latents=3, lags=2)
    assert choose_sizes(damped(1), config, CPU) == (config, sizes.SizesRecord())


def test_a_direction_is_compared_with_its_posterior():
    values = np.random.default_rng(0).standard_normal((20_000, 2)) * [3.0, 0.1]
    assert sizes._undetermined(values) == pytest.approx([10**-0.5, 1.01**-0.5], abs=0.01)


def test_functions_of_other_directions_are_explained():
    random = np.random.default_rng(0)
    x = random.standard_normal((4000, 2))
    values = np.column_stack([x, 5 * np.abs(x[:, 0]), 5 * random.standard_normal(4000)])
    left = sizes._unexplained(values[:3000], values[3000:], 2, 300, 0)
    assert left.var(axis=0) == pytest.approx([0.2, 25], abs=2.5)
    assert left[:, 0].var() < 0.5


@given(st.integers(0, 30), st.integers(0, 30))
def test_the_smallest_size_that_is_enough_is_found(least, more):
    asked = []

    def enough(size: int) -> bool:
        asked.append(size)
        return size >= least

    assert sizes._smallest(least + more, enough) == least
    assert len(asked) <= 2 + 2 * (more + 2).bit_length()
    assert all(0 <= size < least + more for size in asked)


def test_the_smallest_lags_within_a_standard_error_are_taken():
    scores = np.array([[0.0, 0.1], [1.0, 1.2], [1.2, 1.1]])
    found = sizes._smallest_lags([1, 2, 4], scores)
    assert (found.chosen, found.close) == (2, (4,))
    assert found.measured == pytest.approx({"1": 1.1, "2": 0.05, "4": 0.0})


@pytest.mark.filterwarnings("ignore::mechtrace.errors.FitWarning")  # 40 steps
def test_a_fit_chooses_stores_and_resumes_its_sizes(tmp_path, short_trial, monkeypatch):
    panel, ckpt = bent(damped(1)), tmp_path / "run.ckpt"
    trace = mt.Trace(**QUICK).fit(panel, progress=False, checkpoint=ckpt)
    assert (trace.latents, trace.lags) == ("auto", "auto")
    record = trace.record_
    assert (record.sizes.latents.chosen, record.sizes.lags.chosen) == (2, 1)
    kept = 2 - record.sizes.pruned  # in so few steps one may not be learned
    assert (record.settings.model.latents, record.settings.model.lags) == (kept, 1)
    assert "- latents chosen by the data: 2" in trace.card_
    assert "- lags chosen by the data: 1" in trace.card_
    trace.save(tmp_path / "m.mechtrace")
    again = mt.load(tmp_path / "m.mechtrace")
    assert (again.latents, again.lags, again.record_) == (kept, 1, record)

    def never(*given):
        raise AssertionError("a fit that goes on does not choose again")

    monkeypatch.setattr(fit_run, "choose_sizes", never)
    resumed = mt.Trace(**QUICK).fit(panel, progress=False, checkpoint=ckpt, resume=True)
    assert resumed.record_.sizes == record.sizes
    np.testing.assert_array_equal(resumed.encode(panel)[0], trace.encode(panel)[0])


def test_an_estimate_of_the_cost_chooses_sizes_too(short_trial):
    plan = Plan.measure(bent(damped(1)), RunConfig.from_options(**QUICK), seconds=0.01)
    assert plan.windows == 12 * 99 - sum(plan.held_out_series.values()) * 99


def test_pictures_have_the_usual_sizes():
    frames = np.random.default_rng(0).random((4, 6, 8, 8)).astype(np.float32)
    panel = mt.Panel.from_arrays(frames, regime=["a", "b"] * 2)
    config, found = choose_sizes(panel, RunConfig(), CPU)
    assert (config.model.latents, config.model.lags) == (8, 2)
    assert found == sizes.SizesRecord()
