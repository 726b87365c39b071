"""Competitors as their equations read, network by network, with whole Jacobian matrices.

Slow on purpose: our batched versions are compared with these, in value and in speed. The weights
are those of our models, so that nothing but the way of computing differs.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from mechtrace_lab.baselines.components import ComponentNets
from mechtrace_lab.baselines.leap import NoisePriorVAE
from mechtrace_lab.baselines.nctrl import SwitchingVAE
from mechtrace_lab.baselines.tdrl import BETA, GAMMA, TemporalPriorVAE

STANDARD = torch.distributions.Normal(0.0, 1.0)


def network(
    nets: ComponentNets, i: int, z: Tensor, history: Tensor, context: Tensor
) -> tuple[Tensor, Tensor]:
    """eps_i and log |d eps_i / d z_i| of N rows, from the Jacobian of N outputs by all inputs."""
    d, hidden, width = nets.latents, nets.hidden, context.shape[-1]
    parts = [nets.of_history.view(-1, d, hidden)[:, i], nets.of_own[i]]
    if width:
        parts.insert(0, nets.of_context.view(width, d, hidden)[:, i])
    first = torch.cat(parts)

    def layers(inputs: Tensor) -> Tensor:
        a = inputs @ first + nets.bias[i, 0]
        for layer in nets.later:
            a = F.leaky_relu(a, 0.2) @ layer.weight[i] + layer.bias[i, 0]
        return a[:, 0]

    inputs = torch.cat([context, history, z[:, i : i + 1]], dim=1)
    jacobian = torch.autograd.functional.jacobian(layers, inputs, create_graph=True)
    return layers(inputs), jacobian.diagonal(dim1=0, dim2=1)[-1].abs().log()


def networks(
    nets: ComponentNets, z: Tensor, history: Tensor, context: Tensor
) -> tuple[Tensor, Tensor]:
    """All of them one after the other, (N, d)."""
    found = [network(nets, i, z, history, context) for i in range(nets.latents)]
    return torch.stack([eps for eps, _ in found], 1), torch.stack([log for _, log in found], 1)


def weighted(
    model: TemporalPriorVAE | NoisePriorVAE,
    x: Tensor,
    z: Tensor,
    q: Tensor,
    prior: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    """The published loss of series (B, T, p); prior(z, history) is log p, summed over all rows."""
    series, steps, _ = x.shape
    lags = model.lags
    error = (model.decoder(z) - x) ** 2
    recon = error[:, :lags].sum() / series + error[:, lags:].sum() / series / (steps - lags)
    past = (q[:, :lags] - STANDARD.log_prob(z[:, :lags])).sum() / series
    history = torch.stack(
        [
            torch.cat([z[:, t - lag] for lag in range(1, lags + 1)], dim=1)
            for t in range(lags, steps)
        ],
        dim=1,
    )
    log_p = prior(z[:, lags:].flatten(0, 1), history.flatten(0, 1))
    future = (q[:, lags:].sum() - log_p) / series / (steps - lags)
    return recon + BETA * past + GAMMA * future


def temporal_loss(model: TemporalPriorVAE, x: Tensor, noise: Tensor, domains: Tensor) -> Tensor:
    """TDRL's loss, and NCTRL's but for its chain; domains (B, T - L)."""
    x = (x - model.centre) / model.scale
    mean, log_scale = model.encoder(x).chunk(2, dim=-1)
    z = mean + log_scale.exp() * noise
    q = torch.distributions.Normal(mean, log_scale.exp()).log_prob(z)

    def prior(now: Tensor, history: Tensor) -> Tensor:
        context = model.context(model.embedding.weight)[domains.flatten()]
        eps, log_det = networks(model.prior, now, history, context)
        return STANDARD.log_prob(eps).sum() + log_det.sum()

    return weighted(model, x, z, q, prior)


def chain_loss(model: SwitchingVAE, x: Tensor) -> Tensor:
    """-mean log p(x) of the chain by the forward recursion, differentiated step by step."""
    emission, initial, transition = model.chain.parts((x - model.centre) / model.scale)
    state = initial + emission[:, 0]
    for t in range(1, emission.shape[1]):
        state = (state[:, :, None] + transition).logsumexp(1) + emission[:, t]
    return -state.logsumexp(1).mean()


def noise_loss(model: NoisePriorVAE, x: Tensor, noise: Tensor) -> Tensor:
    """LEAP's weighted loss of blocks (K, B, T, p), one for each domain."""
    kinds, series = x.shape[:2]
    x = (x - model.centre) / model.scale
    z, mean, log_scale = model.posterior(x, noise, None)
    q = torch.distributions.Normal(mean, log_scale.exp()).log_prob(z)

    def prior(now: Tensor, history: Tensor) -> Tensor:
        gates = model.gate_logits.sigmoid()
        none = now.new_zeros(len(now), 0)
        found = [
            network(model.prior, i, now, history * gates[:, i], none) for i in range(model.latents)
        ]
        eps = torch.stack([residual for residual, _ in found], 1)
        density = model.noise_log_prob(eps.reshape(kinds, series, -1, model.latents))
        return density.sum() + torch.stack([log_det for _, log_det in found]).sum()

    return weighted(model, x.flatten(0, 1), z.flatten(0, 1), q.flatten(0, 1), prior)
