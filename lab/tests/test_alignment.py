"""The study of axes in worlds with known truth."""

from __future__ import annotations

import numpy as np
import pytest

import mechtrace as mt
from mechtrace.errors import ConfigError
from mechtrace.identifiability import (
    MECHANISM_FORM,
    NON_GAUSSIAN_NOISE,
    REGIME_DEPENDENT_NOISE,
    SPARSE_CHANGE,
    Axes,
    Axis,
)
from mechtrace.identifiability import mechanism_form as form_module
from mechtrace_lab.studies.alignment import (
    alignment_study,
    present_evidence,
    true_transitions,
    verdict_is_right,
)


@pytest.fixture
def short_search(monkeypatch):
    monkeypatch.setattr(form_module, "RESTARTS", 4)
    monkeypatch.setattr(form_module, "SEARCH_STEPS", 250)
    monkeypatch.setattr(form_module, "FINAL_STEPS", 400)
    monkeypatch.setattr(form_module, "BATCHES", (256, 512))


def test_what_a_world_offers_and_which_verdict_is_right():
    world = mt.worlds.make("paper-positive", latents=4, channels=6, regimes=3)
    assert present_evidence(world) == [SPARSE_CHANGE]
    assert present_evidence(mt.worlds.make("linear-gaussian")) == []
    assert present_evidence(mt.worlds.make("laplace")) == [
        NON_GAUSSIAN_NOISE,
        MECHANISM_FORM,
        SPARSE_CHANGE,
    ]
    assert present_evidence(mt.worlds.make("regime-noise")) == [
        REGIME_DEPENDENT_NOISE,
        SPARSE_CHANGE,
    ]
    change = world.mechanisms - np.median(world.mechanisms, axis=0)
    touched = np.abs(change).sum(axis=(0, 1)) > 1e-9

    def axes(claimed, kind=SPARSE_CHANGE):
        verdicts = tuple(Axis(f"z{i}", (kind,) if yes else ()) for i, yes in enumerate(claimed))
        return Axes(np.eye(4), np.zeros(4), verdicts)

    same = np.arange(4)
    assert verdict_is_right(axes(touched), world, same)
    assert not verdict_is_right(axes([True] * 4), world, same)
    assert not verdict_is_right(axes(touched, MECHANISM_FORM), world, same)
    assert not verdict_is_right(axes([False] * 4), world, same)


def test_unlabelled_runs_have_no_rows_to_compare():
    world = mt.worlds.make("paper", latents=3, channels=4, regimes=2)
    with pytest.raises(ConfigError):
        true_transitions(world.transition("simple"))


def test_the_study_runs(short_search):
    result = alignment_study(world="laplace", regimes=2, series=20, seeds=1, steps=200, lr=1e-2)
    assert {"mcc", "mcc_before", "verdict_right", "alpha_moved"} <= set(result["rows"][0])
    assert result["means"]["alpha_moved"] < 1e-6
