"""Latents that carry nothing are taken out, and nothing else changes."""

from __future__ import annotations

import numpy as np
import torch

import mechtrace as mt
from mechtrace.config import RunConfig
from mechtrace.data.segments import training_runs
from mechtrace.stage1.encoding import Latents
from mechtrace.stage1.experts import stack_history
from mechtrace.stage1.fit_run import FitRun
from mechtrace.stage1.pruning import prune, used_latents


def test_a_latent_that_only_the_last_recordings_use_is_used(monkeypatch):
    # 300 recordings of one regime come first; only the other one moves the second latent
    codes = np.repeat([0, 1], 300)
    values = np.random.default_rng(0).standard_normal((600, 10, 3)) * [1.0, 0.0, 0.1]
    values[300:, :, 1] += np.random.default_rng(1).standard_normal((300, 10))
    panel = mt.Panel.from_arrays(values, regime=[f"r{k}" for k in codes])

    def encoded(model, pieces):  # channels are latents, each of which is known to 0.5
        return Latents(pieces.values, np.full(pieces.values.shape, 0.5), pieces.offsets, None)

    monkeypatch.setattr("mechtrace.stage1.pruning.encode", encoded)
    monkeypatch.setattr("mechtrace.stage1.pruning.USED_ROWS", 2000)
    used = used_latents(None, panel, training_runs(panel, 1))
    assert used.tolist() == [0, 1]


@torch.no_grad()
def run_with_idle_latents(panel: mt.Panel, idle: list[int], small: dict) -> FitRun:
    """A run of four latents, of which `idle` have a constant mean and the width of their prior."""
    run = FitRun.prepare(panel, RunConfig.from_options(**small | {"latents": 4, "layers": 3}))
    model = run.model
    for name, parameter in model.named_parameters():
        if "own" in name or "start" in name:
            parameter.normal_(0, 0.2)
    body = model.encoder.body
    for last in (body.layers[-1].weight, body.skip.weight):
        last[idle] = 0.0
        last[[4 + one for one in idle]] = 0.0
    body.layers[-1].bias[4:] = -3.0
    for one in idle:
        body.layers[-1].bias[one], body.layers[-1].bias[4 + one] = 0.7 + one, 0.3
    return run


@torch.no_grad()
def test_what_is_left_does_the_same(panel, small):
    run = run_with_idle_latents(panel, [1], small)
    found, record = prune(run, run.record())
    model, full, keep = found.model, run.model, [0, 2, 3]
    assert found.config.model.latents == model.latents == 3
    assert record.settings == found.config
    assert record.sizes.pruned == 1
    x = torch.from_numpy(panel.values[:60].astype(np.float32))[None, None]
    for mine, whole in zip(model.encode(x), full.encode(x), strict=True):
        torch.testing.assert_close(mine, whole[..., keep])
    z = full.encode(x)[0]  # the idle latent is at its mean
    torch.testing.assert_close(model.decoder(z[..., keep]), full.decoder(z), atol=1e-5, rtol=1e-4)
    lags = full.lags
    past, own = (stack_history(part, lags).flatten(0, 2) for part in (z, z[..., keep]))
    for name in ("conditional_mean", "noise_scale"):
        mine, whole = getattr(model.experts, name)(own), getattr(full.experts, name)(past)
        torch.testing.assert_close(mine, whole[..., keep], atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_the_first_steps_keep_their_distribution(panel, small):
    run = run_with_idle_latents(panel, [0, 3], small)
    model = prune(run, run.record())[0].model
    root = run.model.start_root.double()
    root = root.tril(-1) + torch.diag_embed(root.diagonal(dim1=1, dim2=2).exp())
    covariance = torch.linalg.inv(root @ root.mT)[:, 1:3, 1:3]
    wanted = torch.distributions.MultivariateNormal(
        run.model.start_mean[..., 1:3], covariance[:, None]
    )
    z = torch.randn(run.model.regimes, 5, 2)
    found = model._start_log_prob(z)
    torch.testing.assert_close(found, wanted.log_prob(z.double()).float(), atol=1e-4, rtol=1e-4)


def test_nothing_is_taken_out_if_all_or_none_are_used_or_the_experts_are_others(panel, small):
    for idle, settings in (([], {}), ([0, 1, 2, 3], {}), ([1], {"experts": "nonparametric"})):
        run = run_with_idle_latents(panel, idle, small | settings)
        record = run.record()
        assert prune(run, record) == (run, record)


def test_a_fit_with_too_many_latents_keeps_those_that_the_sensors_determine(tmp_path):
    t = np.arange(60)
    random = np.random.default_rng(0)
    rows = []
    for series in range(24):
        wave = np.sin((0.2 + 0.4 * (series % 2)) * t + random.uniform(0, 6))
        rows.append(np.stack([wave, -2 * wave], axis=1) + 0.02 * random.standard_normal((60, 2)))
    panel = mt.Panel.from_arrays(np.stack(rows), regime=["slow", "fast"] * 12)
    trace = mt.Trace(latents=5, lags=2, hidden=16, steps=400, align=False)
    trace.fit(panel, progress=False)
    left = trace.record_.settings.model.latents
    assert left < 5
    assert trace.encode(panel)[0].shape == (60, left)
    assert trace.record_.sizes.pruned == 5 - left
    assert f"{5 - left} more latents carried nothing" in trace.card_
    trace.save(tmp_path / "m.mechtrace")
    again = mt.load(tmp_path / "m.mechtrace")
    assert again.latents == left
    assert again.record_ == trace.record_
    np.testing.assert_array_equal(again.recover(panel[:1]).alpha, trace.recover(panel[:1]).alpha)
