"""The loss terms: against the formulas, with and without padding, for every encoder."""

from __future__ import annotations

import math

import pytest
import torch

from mechtrace.config import ModelConfig
from mechtrace.stage1.experts import stack_history
from mechtrace.stage1.vae import SequentialVAE

K, B, T, P, D, L = 2, 3, 8, 5, 3, 2


def make(shape=(P,), **options):
    torch.manual_seed(0)
    config = ModelConfig(latents=D, lags=L, hidden=8, **options)
    model = SequentialVAE(config, K, shape).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
        model.centre.copy_(torch.randn(shape))
        model.scale.copy_(0.5 + torch.rand(shape))
    return model


def batch(shape=(P,)):
    g = torch.Generator().manual_seed(1)
    x = torch.randn(K, B, T, *shape, generator=g, dtype=torch.float64)
    return x, torch.randn(K, B, T, D, generator=g, dtype=torch.float64)


def test_elbo_is_the_sum_of_its_gaussian_parts():
    model = make()
    x, noise = batch()
    terms = model(x, noise)
    standard = (x - model.centre) / model.scale
    mean, log_scale = model.encoder(standard)
    z = mean + log_scale.exp() * noise
    sigma = model.log_noise.exp().clamp_min(model.config.noise_floor)
    reconstruction = torch.distributions.Normal(model.decoder(z), sigma).log_prob(standard).sum()
    entropy = torch.distributions.Normal(mean, log_scale.exp()).entropy().sum()
    transition = sum(
        model.experts.log_prob(
            z[:, b, L:], stack_history(z[:, b], L)
        ).sum()
        for b in range(B)
    )  # fmt: skip
    start = 0.0
    for k in range(K):
        root = model.start_root[k].tril(-1) + torch.diag(model.start_root[k].diagonal().exp())
        law = torch.distributions.MultivariateNormal(
            model.start_mean[k, 0], precision_matrix=root @ root.T
        )
        start += law.log_prob(z[k, :, :L]).sum()
    expected = (reconstruction + entropy + transition + start) / (K * B * T)
    assert torch.allclose(terms.elbo, expected)
    assert torch.allclose(
        model.loss(terms, 1000),
        -expected + model.config.shrinkage / 1000 * model.experts.deviation(),
    )


def test_weighted_objective_is_that_of_the_paper():
    model = make(objective="weighted", beta=0.3, gamma=0.7, shrinkage=0.0)
    x, noise = batch()
    terms = model(x, noise)
    standard = (x - model.centre) / model.scale
    mean, log_scale = model.encoder(standard)
    z = mean + log_scale.exp() * noise
    log_q = torch.distributions.Normal(mean, log_scale.exp()).log_prob(z).sum(-1)
    error = (standard - model.decoder(z)).square().sum(-1)
    unit = torch.distributions.Normal(0.0, 1.0)
    past = (log_q[..., :L] - unit.log_prob(z[..., :L, :]).sum(-1)).sum() / (K * B)
    log_p = model.experts.log_prob(
        z[:, :, L:].reshape(K, -1, D), stack_history(z, L).reshape(K, -1, D * L)
    )
    future = (log_q[..., L:].sum() - log_p.sum()) / (K * B) / (T - L)
    recon = error[..., :L].sum() / (K * B) + error[..., L:].sum() / (K * B) / (T - L)
    assert torch.allclose(model.loss(terms, 10), recon + 0.3 * past + 0.7 * future)


@pytest.mark.parametrize("objective", ["elbo", "weighted"])
def test_padding_changes_nothing(objective):
    """A series of 6 rows gives the same terms alone and padded to 8."""
    model = make(objective=objective)
    x, noise = batch()
    valid = torch.ones(K, B, T, dtype=torch.bool)
    valid[..., 6:] = False
    padded = model(x, noise, valid)
    alone = model(x[:, :, :6], noise[:, :, :6])
    assert torch.allclose(padded.elbo, alone.elbo)
    assert torch.allclose(padded.prior[..., :6], alone.prior)
    assert (padded.reconstruction[..., 6:] == 0).all()


def test_scaling_and_shifting_channels_changes_nothing():
    model = make()
    x, noise = batch()
    before = model(x, noise).elbo
    factor, shift = torch.rand(P) + 0.5, torch.randn(P)
    with torch.no_grad():
        model.centre.copy_(model.centre * factor + shift)
        model.scale.mul_(factor)
    assert torch.allclose(model(x * factor + shift, noise).elbo, before)


def test_the_noise_floor_holds():
    model = make(noise_floor=0.5)
    x, noise = batch()
    with torch.no_grad():
        model.log_noise.fill_(math.log(0.5))
    at_floor = model(x, noise).elbo
    with torch.no_grad():
        model.log_noise.fill_(-20.0)
    assert torch.allclose(model(x, noise).elbo, at_floor)


@pytest.mark.parametrize(
    ("shape", "options"),
    [((P,), {}), ((P,), {"encoder": "temporal"}), ((16, 12), {}), ((P,), {"context": 0})],
    ids=["mlp", "temporal", "image", "no context"],
)
def test_every_encoder_trains_every_parameter(shape, options):
    model = make(shape, **options)
    x, noise = batch(shape)
    model.loss(model(x, noise), 100).backward()
    assert [n for n, p in model.named_parameters() if p.grad is None] == []
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())


def test_uint8_frames_are_accepted():
    model = make((16, 16)).float()
    frames = torch.randint(0, 255, (K, B, T, 16, 16), dtype=torch.uint8)
    assert torch.isfinite(model(frames, torch.randn(K, B, T, D)).elbo)


@pytest.mark.parametrize(("lags", "regimes", "latents"), [(1, 2, 1), (3, 7, 6), (2, 12, 3)])
def test_any_size(lags, regimes, latents):
    config = ModelConfig(latents=latents, lags=lags, hidden=8)
    model = SequentialVAE(config, regimes, (4,))
    x = torch.randn(regimes, 2, lags + 1, 4)
    assert torch.isfinite(model(x, torch.randn(regimes, 2, lags + 1, latents)).elbo)
