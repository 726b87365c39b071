"""Named streams of random numbers; the one optimiser: its schedule, and that it is AdamW."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import mechtrace as mt
from mechtrace._runtime.stochastic import generator, minimise, warmup_cosine
from mechtrace.data.segments import find_runs
from mechtrace.data.standardise import Standardiser
from mechtrace.diagnose.dependence import _normal
from mechtrace.stage2.mechanisms import _typical_histories
from mechtrace.stage2.model_selection import _LeaveHalfOut
from mechtrace.vision.keypoint_frontend import KeypointFrontend, KeyPoints, unexplained_share
from mechtrace.vision.observable_subspace import observable_subspace
from mechtrace_lab.reproduction.uavdt_folds import interval


def test_streams_differ_between_seeds_and_purposes_and_stay_the_same_between_runs() -> None:
    draws = {
        (seed, name): generator(seed, name).random(4).tobytes()
        for seed in (0, 1)
        for name in ("crops", "reference")
    }
    assert len(set(draws.values())) == 4
    # crc32("crops") = 2084456442: a hash of Python's own would change with every process
    known = np.random.default_rng([1, 2084456442]).random(4)
    assert draws[1, "crops"] == known.tobytes()


def test_no_draw_has_a_seed_of_its_own() -> None:
    fixed = re.compile(r"(default_rng|manual_seed|RandomState)\((0|\d+|)\)")
    package = Path(mt.__file__).parent
    files = [file for file in package.rglob("*.py") if "align" not in file.parts]
    assert len(files) > 100
    found = [file.name for file in files if fixed.search(file.read_text())]
    assert found == []


def draw_of_pairs(seed: int, monkeypatch: Any, trained: mt.Trace) -> np.ndarray:
    return np.stack(_LeaveHalfOut(np.tile([0, 1], 20), np.zeros(40, int), 1, seed)._glides())


def draw_of_frames(seed: int, monkeypatch: Any, trained: mt.Trace) -> np.ndarray:
    monkeypatch.setattr("mechtrace.data.standardise.MEASURED_FRAMES", 5)
    panel = mt.Panel.from_arrays(np.random.default_rng(0).random((4, 10, 3, 3)))
    return Standardiser.fit(panel, find_runs(panel, by_regime=False), seed).centre


def draw_of_histories(seed: int, monkeypatch: Any, trained: mt.Trace) -> np.ndarray:
    assert trained.statistics_ is not None
    return _typical_histories(replace(trained.statistics_, seed=seed), 2, 10)


def draw_of_normal_dependence(seed: int, monkeypatch: Any, trained: mt.Trace) -> np.ndarray:
    assert trained.statistics_ is not None
    return _normal(replace(trained.statistics_, seed=seed), 15, 1)


def draw_of_observable_subspace(seed: int, monkeypatch: Any, trained: mt.Trace) -> np.ndarray:
    monkeypatch.setattr("mechtrace.vision.observable_subspace.LEAST_EFFECT", 1.0)
    return observable_subspace(trained.model_, 3, seed)


def draw_of_an_interval(seed: int, monkeypatch: Any, trained: mt.Trace) -> np.ndarray:
    rows = [{"track": f"M{i}/1", "mae": x} for i, x in enumerate(np.geomspace(1, 9, 12))]
    return np.array(interval(rows, np.mean, "mae", seed))


def draw_of_pictures(seed: int, monkeypatch: Any, trained: mt.Trace) -> np.ndarray:
    monkeypatch.setattr("mechtrace.vision.keypoint_frontend.VALIDATED_FRAMES", 6)
    panel = mt.Panel.from_arrays(np.random.default_rng(0).random((4, 10, 16, 16)))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        points = KeyPoints((16, 16))
    frontend = KeypointFrontend(points, np.empty((0, 2 * points.points)))
    runs = find_runs(panel, by_regime=False)
    return np.array(unexplained_share(frontend, panel, runs, seed))


@pytest.mark.filterwarnings("ignore::mechtrace.errors.FitWarning")
@pytest.mark.parametrize("draw", [
    draw_of_pairs, draw_of_frames, draw_of_histories, draw_of_normal_dependence,
    draw_of_observable_subspace, draw_of_an_interval, draw_of_pictures,
])  # fmt: skip
def test_another_seed_gives_other_draws(
    draw: Callable[..., np.ndarray], monkeypatch: Any, trained: mt.Trace
) -> None:
    first, again, other = (draw(seed, monkeypatch, trained) for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.filterwarnings("ignore::mechtrace.errors.FitWarning")
def test_the_seed_of_a_fit_reaches_what_is_drawn_after_it(
    panel: mt.Panel, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(
        "mechtrace.stage1.fit_run.validate_model", lambda *_: None
    )  # too few steps to learn
    seeds = []
    pairs = _LeaveHalfOut._glides
    monkeypatch.setattr(
        _LeaveHalfOut, "_glides", lambda self: (seeds.append(self.seed), pairs(self))[1]
    )
    options = {"latents": 4, "hidden": 16, "steps": 10, "align": False, "holdout": 0.4}
    trace = mt.Trace(seed=3, **options).fit(panel, progress=False)
    assert set(seeds) == {3}
    trace.save(tmp_path / "m.mechtrace")
    reference = mt.load(tmp_path / "m.mechtrace").statistics_
    assert reference is not None
    assert reference.seed == 3


def test_the_schedule_rises_and_falls() -> None:
    rates = [warmup_cosine(step, 100, 2.0, 10, floor=0.01) for step in range(100)]
    assert rates[0] == pytest.approx(0.1 * 2.02)
    assert max(rates) == rates[9] < 2.02
    assert all(a > b for a, b in pairwise(rates[9:]))
    assert rates[-1] == pytest.approx(0.02, rel=0.05)
    assert warmup_cosine(0, 10, 1.0, 0) == pytest.approx(1.001)


def test_steps_are_those_of_adamw_with_clipped_gradients() -> None:
    target, done = torch.tensor([1.0, -2.0, 30.0]), []
    found = torch.zeros(3, requires_grad=True)
    minimise(
        [found], lambda step: (found - target).square().sum() + 0 * step, 20,
        lambda step: 0.1 / (step + 1), betas=(0.8, 0.9), weight_decay=0.1, clip=1.0,
        after=done.append,
    )  # fmt: skip
    expected = torch.zeros(3, requires_grad=True)
    optimiser = torch.optim.AdamW([expected], betas=(0.8, 0.9), weight_decay=0.1)
    for step in range(20):
        optimiser.param_groups[0]["lr"] = 0.1 / (step + 1)
        optimiser.zero_grad()
        (expected - target).square().sum().backward()
        torch.nn.utils.clip_grad_norm_([expected], 1.0)
        optimiser.step()
    assert torch.equal(found, expected)
    assert done == list(range(1, 21))


def test_it_finds_a_minimum() -> None:
    found = torch.zeros(2, requires_grad=True)
    target = torch.tensor([0.3, -0.7])
    minimise(
        [found], lambda step: (found - target).square().sum(), 300,
        lambda step: warmup_cosine(step, 300, 0.05, 20),
    )  # fmt: skip
    torch.testing.assert_close(found.detach(), target, atol=1e-3, rtol=0)
