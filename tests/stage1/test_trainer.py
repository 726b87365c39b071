"""Training: the same seed gives the same weights, also after a kill; failures are errors."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

import mechtrace as mt
from mechtrace.config import FitConfig, RunConfig
from mechtrace.data.segments import subsample_runs
from mechtrace.errors import ConfigError, DeadExpert, Diverged, FitWarning, StoreError
from mechtrace.io.model_file import read_archive, versions, write_archive
from mechtrace.stage1 import encoding as latents
from mechtrace.stage1.fit_run import FitRun
from mechtrace.stage1.trainer import Interrupted, learning_rate, resolve_device
from mechtrace.stage2.measure import pure_rows


def weights(trace):
    return {name: p.detach().clone() for name, p in trace.model_.state_dict().items()}


def assert_same_weights(a, b):
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), name


def test_same_seed_same_weights_whatever_the_number_of_threads(panel, small):
    """Threads divide sums: another number of them would give other weights."""
    fitted = []
    for count in (1, 2):
        torch.set_num_threads(count)
        try:
            fitted.append(mt.Trace(**small).fit(panel, progress=False))
            assert torch.get_num_threads() == count
        finally:
            torch.set_num_threads(1)
    assert_same_weights(*map(weights, fitted))
    assert np.array_equal(*(trace.statistics_.noise for trace in fitted))


def test_same_seed_same_weights_whatever_the_global_state(panel, small):
    torch.manual_seed(5)
    first = mt.Trace(seed=3, **small).fit(panel, progress=False)
    torch.manual_seed(6)
    np.random.default_rng(0).random()
    state = torch.get_rng_state()
    second = mt.Trace(seed=3, **small).fit(panel, progress=False)
    assert torch.equal(state, torch.get_rng_state())
    assert_same_weights(weights(first), weights(second))
    third = mt.Trace(seed=4, **small).fit(panel, progress=False)
    assert not torch.equal(weights(first)["start_mean"], weights(third)["start_mean"])


def test_training_helps_and_the_best_weights_are_kept(panel, small):
    short = FitRun.prepare(panel, RunConfig.from_options(**small | {"steps": 10}))
    short.train([], None, 60.0)
    run = FitRun.prepare(panel, RunConfig.from_options(**small))
    run.train([], None, 60.0)
    elbos = [record["held_out_elbo"] for record in run.trainer.counters.history]
    assert max(elbos) > short.trainer.counters.best_elbo + 1.0
    assert run.trainer.evaluate() == pytest.approx(max(elbos), abs=1e-5)


def test_early_stop_when_nothing_is_gained(panel, small):
    trace = mt.Trace(**small | {"lr": 1e-12, "steps": 400, "evaluations": 40, "patience": 2})
    run = FitRun.prepare(panel, trace.config())
    run.trainer.evaluate = lambda: -1.0  # the same value for ever
    run.train([], None, 60.0)
    assert run.trainer.counters.step == 30  # one best evaluation, then two without gain
    assert run.record().training.stopped_early


def test_learning_rate_warms_up_and_falls():
    config = FitConfig(steps=1000, warmup=100, lr=1.0)
    rates = [learning_rate(config, step) for step in range(1000)]
    assert rates[0] < 0.02
    assert max(rates) == pytest.approx(rates[99], abs=0.03)
    assert rates[-1] < 0.01
    assert all(rate > 0 for rate in rates)


class StopAt:
    """A listener that presses Ctrl-C at a step."""

    def __init__(self, step):
        self.step = step

    def __call__(self, progress):
        if progress.step >= self.step:
            os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_leaves_a_usable_and_resumable_state(panel, small, tmp_path):
    whole = mt.Trace(**small).fit(panel, progress=False)
    checkpoint = tmp_path / "run.ckpt"
    run = FitRun.prepare(panel, RunConfig.from_options(**small))
    with pytest.raises(Interrupted):
        run.train([StopAt(50)], checkpoint, 1e9)
    assert 0 < run.trainer.counters.step < small["steps"]
    so_far = mt.load(checkpoint)  # usable at once
    assert np.isfinite(so_far.encode(panel)[0]).all()
    resumed = mt.Trace(**small).fit(panel, progress=False, checkpoint=checkpoint, resume=True)
    assert_same_weights(weights(whole), weights(resumed))


def test_an_interrupted_fit_adopts_what_it_has(panel, small, monkeypatch):
    import mechtrace._runtime.progress as listening

    class Pressing(listening.Listener):
        __call__ = StopAt(40).__call__
        step = 40

    monkeypatch.setattr(listening, "reporter", Pressing)
    trace = mt.Trace(**small)
    with pytest.raises(KeyboardInterrupt):
        trace.fit(panel)
    assert np.isfinite(trace.encode(panel)[0]).all()


FIT_SCRIPT = """
import sys, json, torch
torch.set_num_threads(1)
import mechtrace as mt
world = mt.worlds.make("paper", regimes=3, latents=4, channels=6, length=20)
trace = mt.Trace(latents=4, **json.loads(sys.argv[2]))
trace.fit(world.simulate(12).panel, progress=False, checkpoint=sys.argv[1] + ".ckpt",
          resume=sys.argv[3] == "resume", checkpoint_seconds=0.05, log=sys.argv[1] + ".jsonl")
trace.save(sys.argv[1])
"""


def test_a_killed_fit_resumes_to_the_same_weights_bit_for_bit(small, tmp_path):
    settings = small | {"steps": 400, "evaluations": 10}
    settings.pop("latents")

    def start(name, mode):
        command = [
            sys.executable,
            "-c",
            FIT_SCRIPT,
            str(tmp_path / name),
            json.dumps(settings),
            mode,
        ]
        return subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"})

    whole = start("whole", "new")
    assert whole.wait(120) == 0
    checkpoint = tmp_path / "cut.ckpt"
    mode, kills = "new", 0
    moment = random.Random()  # a random moment is the point; the outcome must not depend on it
    while True:
        process = start("cut", mode)
        deadline = time.monotonic() + 60
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else None
        while process.poll() is None and time.monotonic() < deadline and kills < 2:
            if checkpoint.exists() and checkpoint.stat().st_mtime_ns != before:
                time.sleep(moment.uniform(0.0, 0.3))
                process.send_signal(signal.SIGKILL)
                break
            time.sleep(0.005)
        if process.wait(120) == 0:
            break
        kills += 1
        mode = "resume"
        assert read_archive(checkpoint).kind == "checkpoint"  # never half-written
    assert kills >= 1
    assert_same_weights(weights(mt.load(tmp_path / "whole")), weights(mt.load(tmp_path / "cut")))


def test_resume_refuses_other_data_and_settings(panel, world, small, tmp_path):
    checkpoint = tmp_path / "run.ckpt"
    mt.Trace(**small).fit(panel, progress=False, checkpoint=checkpoint)
    with pytest.raises(StoreError, match=r"lr = 0\.01, not 0\.5"):
        mt.Trace(**small | {"lr": 0.5}).fit(
            panel, progress=False, checkpoint=checkpoint, resume=True
        )
    other = world.simulate(12, seed=9).panel
    with pytest.raises(StoreError, match="other data"):
        mt.Trace(**small).fit(other, progress=False, checkpoint=checkpoint, resume=True)
    model = tmp_path / "model.mechtrace"
    mt.load(checkpoint).save(model)
    with pytest.raises(StoreError, match="finished model"):
        mt.Trace(**small).fit(panel, progress=False, checkpoint=model, resume=True)
    with pytest.raises(StoreError, match="nothing to resume"):
        mt.Trace(**small).fit(panel, progress=False, resume=True)


@pytest.mark.parametrize("package", ["mechtrace", "torch"])
def test_resume_refuses_a_checkpoint_of_another_version(
    panel, small, tmp_path, monkeypatch, package
):
    """Other versions may round otherwise: the fit would not be that of one run."""
    checkpoint = tmp_path / "run.ckpt"
    settings = small | {"steps": 20, "evaluations": 2}
    monkeypatch.setattr("mechtrace.stage1.fit_run.validate_model", lambda *_: None)
    mt.Trace(**settings).fit(panel, progress=False, checkpoint=checkpoint)
    now = versions()
    monkeypatch.setattr("mechtrace.stage1.fit_run.versions", lambda: now | {package: "99.0"})
    with pytest.raises(StoreError, match=rf"{package} {re.escape(now[package])}, not 99\.0; "):
        mt.Trace(**settings).fit(panel, progress=False, checkpoint=checkpoint, resume=True)
    mt.load(checkpoint)  # its weights stay readable


FORGED_STATES = {
    "counters": lambda a: a.meta.pop("counters"),
    "counters.step is 'x'": lambda a: a.meta["counters"].update(step="x"),
    "counters.stale is '-1'": lambda a: a.meta["counters"].update(stale=-1),
    "counters contradict": lambda a: a.meta["counters"].update(step=10**9),
    "contradict each other": lambda a: a.meta["counters"].update(history=[]),
    "no tensor training/weights/start_mean": lambda a: a.tensors["training"].pop(
        "weights/start_mean"
    ),
    "training/optimiser/exp_avg/start_mean is not finite": lambda a: a.tensors["training"][
        "optimiser/exp_avg/start_mean"
    ].fill_(torch.nan),
    "training/optimiser/step/start_mean is torch.float64": lambda a: a.tensors["training"].update(
        {"optimiser/step/start_mean": torch.zeros((), dtype=torch.float64)}
    ),
    "no tensor weights/start_root": lambda a: a.tensors["weights"].pop("start_root"),
    "unknown tensor training/odd": lambda a: a.tensors["training"].update(odd=torch.ones(3)),
}


@pytest.fixture(scope="module")
def checkpoint_of_a_fit(panel, tmp_path_factory):
    path = tmp_path_factory.mktemp("checkpoint") / "run.ckpt"
    settings = {"latents": 4, "hidden": 16, "steps": 20, "batch": 12, "evaluations": 2}
    settings["align"] = False
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mechtrace.stage1.fit_run.validate_model", lambda *_: None)
        mt.Trace(**settings).fit(panel, progress=False, checkpoint=path)
    return path, settings


@pytest.mark.parametrize("message", FORGED_STATES)
def test_resume_refuses_a_forged_state(checkpoint_of_a_fit, panel, tmp_path, message):
    path, settings = checkpoint_of_a_fit
    archive = read_archive(path)
    FORGED_STATES[message](archive)
    write_archive(tmp_path / "forged.ckpt", archive)
    with pytest.raises(StoreError, match=message):
        mt.Trace(**settings).fit(
            panel, progress=False, checkpoint=tmp_path / "forged.ckpt", resume=True
        )


def test_divergence_is_an_error_with_advice(panel, small):
    with pytest.raises(Diverged, match="lower the learning rate"):
        mt.Trace(**small | {"lr": 1e30, "clip": 1e30, "warmup": 0}).fit(panel, progress=False)


def test_an_expert_that_learned_nothing_is_an_error(panel, small):
    with pytest.raises(DeadExpert, match=r"regime 'R0' learned nothing.*more data or steps"):
        mt.Trace(**small | {"steps": 3}).fit(panel, progress=False)


def test_an_expert_that_fails_on_new_series_is_a_warning(small):
    """White noise, learned by heart: the past helps on the training series only."""
    rng = np.random.default_rng(0)
    panel = mt.Panel.from_arrays(rng.standard_normal((24, 20, 4)), regime=["A", "B"] * 12)
    settings = small | {"shrinkage": 0.0, "steps": 600, "holdout": 0.5}
    with pytest.warns(FitWarning, match="worse than a Gaussian that ignores the past"):
        trace = mt.Trace(**settings).fit(panel, progress=False)
    assert "no better than ignoring the past" in trace.card_


def test_log_lines_and_figures(panel, small, tmp_path):
    log = tmp_path / "log.jsonl"
    trace = mt.Trace(**small).fit(panel, progress=False, log=log)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert lines[-1]["step"] == small["steps"]
    assert lines[-1]["transitions_per_second"] > 0
    evaluated = [line["elbo"] for line in lines if line["evaluated"]]
    assert evaluated == [record["held_out_elbo"] for record in trace.history_]
    assert trace.elbo_ == max(evaluated)


def test_progress_in_a_pipe_is_plain_lines_on_stderr(panel, small, capsys):
    mt.Trace(**small | {"align": True}).fit(panel)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"step {small['steps']}/{small['steps']}" in captured.err
    assert "held-out ELBO" in captured.err
    assert "left" in captured.err
    assert "\n  testing the axes by non gaussian noise\n" in captured.err
    assert "\n  estimating the mechanisms\n" in captured.err


def test_what_a_fit_is_doing_is_logged_also_without_progress(panel, small, capsys, caplog):
    caplog.set_level("DEBUG", logger="mechtrace")
    mt.Trace(**small | {"align": True}).fit(panel, progress=False)
    assert (
        "mechtrace.identifiability.aligner",
        10,
        "estimating the mechanisms",
    ) in caplog.record_tuples
    assert capsys.readouterr() == ("", "")


def test_devices():
    assert resolve_device("cpu").type == "cpu"
    with pytest.raises(ConfigError, match="auto, cpu or cuda"):
        resolve_device("quantum")
    if not torch.cuda.is_available():
        with pytest.raises(ConfigError, match="device='cpu'"):
            resolve_device("cuda")


def test_state_is_a_copy(panel, small):
    run = FitRun.prepare(panel, RunConfig.from_options(**small))
    before = run.trainer.state()
    run.train([], None, 60.0)
    run.trainer.restore(before)
    again = run.trainer.state()
    assert again.step == 0
    for name, tensor in before.tensors.items():
        assert torch.equal(tensor, again.tensors[name])


@pytest.mark.cuda
def test_captured_graph_gives_the_numbers_of_the_plain_path(panel, small):
    plain = mt.Trace(**small | {"device": "cuda", "graph": False}).fit(panel, progress=False)
    graph = mt.Trace(**small | {"device": "cuda"}).fit(panel, progress=False)
    for name, p in weights(plain).items():
        assert torch.allclose(p, weights(graph)[name], rtol=1e-4, atol=1e-5)
    cpu = mt.Trace(**small | {"device": "cpu"}).fit(panel, progress=False)
    assert cpu.elbo_ == pytest.approx(plain.elbo_, abs=1.0)  # other noise, same model


def test_drawn_rows_have_the_latents_of_the_whole_series(monkeypatch, small):
    panel = mt.worlds.make("paper", regimes=2, latents=4, channels=6, length=300).simulate(4).panel
    run = FitRun.prepare(panel, RunConfig.from_options(**small | {"context": 3}))
    everything = run.runs[0] + run.runs[1]
    whole = latents.encode(run.model, panel).mean
    every = pure_rows(run.model, panel, everything, everything)
    assert every.latents == pytest.approx(whole[everything.row_numbers()], abs=1e-5)
    assert (~every.settled).sum() == len(everything) * run.config.model.lags
    monkeypatch.setattr("mechtrace.data.segments.STRETCH", 64)
    monkeypatch.setattr("mechtrace.stage2.measure.CHUNK_ROWS", 100)
    stretches = subsample_runs(everything, 500, np.random.default_rng(0))
    some = pure_rows(run.model, panel, everything, stretches)
    inside = ~np.isin(stretches.start, everything.start)
    assert 0 < inside.sum() < len(stretches)
    assert len(some.latents) == stretches.rows - 3 * inside.sum()
    gap = np.abs(some.latents[:, None] - whole[None]).max(axis=-1)
    row = gap.argmin(axis=1)
    assert gap.min(axis=1).max() < 1e-5
    assert (panel.codes[row] == some.regime).all()
    assert (panel.series_index()[row] == everything.series[some.series]).all()
