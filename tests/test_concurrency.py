"""Several threads or processes with one model: the same answers, and nothing global is changed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

import mechtrace as mt
from mechtrace._runtime import process

PROCESSES = 8


def process_state():
    """What a library could change behind its user's back."""
    return {
        "blas": sorted(
            (lib["filepath"], lib["num_threads"])
            for lib in threadpool_info()
            if lib["user_api"] == "blas"
        ),
        "torch threads": torch.get_num_threads(),
        "warnings": list(warnings.filters),
        "numpy errors": np.geterr(),
        "random": random.getstate(),
        "numpy random": repr(np.random.get_state()[1].tolist()),  # noqa: NPY002 (a user may)
        "torch random": torch.get_rng_state().tolist(),
        "allocator": process._keeping,
        "folder": os.getcwd(),
    }


def together(work, count=2):
    """Call `work(0)`, `work(1)`, ... at the same moment, each in a thread."""
    start = threading.Barrier(count)

    def one(i):
        start.wait()
        return work(i)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


def test_two_threads_with_one_model_get_the_answers_of_one(trained, world, tmp_path):
    panels = [world.transition("simple", series=3, seed=i).panel for i in range(2)]

    def work(i):
        paths = trained.recover(panels[i])
        verdicts = [trained.diagnose(path).to_dict() for path in paths]
        trained.save(tmp_path / "model.mechtrace")  # both write the same file
        return np.stack([path.alpha for path in paths]), verdicts

    alone = [work(i) for i in range(2)]
    before = process_state()
    both = together(work)
    assert process_state() == before
    for (alpha, verdicts), (expected, as_before) in zip(both, alone, strict=True):
        assert np.array_equal(alpha, expected)
        assert repr(verdicts) == repr(as_before)
    assert os.listdir(tmp_path) == ["model.mechtrace"]
    stored = mt.load(tmp_path / "model.mechtrace").recover(panels[0])
    assert np.array_equal(np.stack([path.alpha for path in stored]), alone[0][0])


def test_two_threads_fit_the_weights_of_one(panel, small):
    def fit(i):
        found = mt.Trace(**small | {"steps": 60, "seed": i}).fit(panel, progress=False)
        return {name: value.clone() for name, value in found.model_.state_dict().items()}

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mt.errors.FitWarning)  # so few steps are not enough
        alone = [fit(i) for i in range(2)]
        before = process_state()
        both = together(fit)
        assert process_state() == before
    for found, expected in zip(both, alone, strict=True):
        assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_models_are_built_one_after_the_other():
    """New weights come from torch's one stream of random numbers, which threads share."""
    from mechtrace._runtime.stochastic import seeded

    def draw(i):
        with seeded(i):
            return [float(torch.rand(())) for _ in range(2000)]

    before = torch.get_rng_state()
    alone = [draw(i) for i in range(4)]
    assert together(draw, 4) == alone
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.slow
def test_eight_processes_with_one_model_and_one_folder(trained, world, tmp_path):
    trained.save(tmp_path / "model.mechtrace")
    world.transition("simple", series=3).panel.to_csv(tmp_path / "new.csv")
    inputs = sorted(os.listdir(tmp_path))
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "mechtrace", "recover", "model.mechtrace", "new.csv",
             "--out", f"alpha{i}.csv", "--report", f"report{i}.html"],
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for i in range(PROCESSES)
    ]  # fmt: skip
    for one in running:
        errors = one.communicate()[1]
        assert one.returncode == 0, errors
    tables = {(tmp_path / f"alpha{i}.csv").read_text() for i in range(PROCESSES)}
    assert len(tables) == 1
    outputs = [f"{name}{i}.{kind}" for name, kind in (("alpha", "csv"), ("report", "html"))
               for i in range(PROCESSES)]  # fmt: skip
    assert sorted(os.listdir(tmp_path)) == sorted([*inputs, *outputs])
