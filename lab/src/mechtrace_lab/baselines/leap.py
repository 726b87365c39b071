"""LEAP: latent temporally causal processes from noise that changes between known domains.

Yao, Sun, Ho, Sun and Zhang, ICLR 2022. The posterior of a series is sequential and looks at all
of it. All domains share the mechanism; each has its own distribution of the noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from mechtrace.stage1 import (
    MLP,
    SLOPE,
    Learner,
    gaussian_log_prob,
    split_posterior,
    stack_history,
    weighted_loss,
)

from .components import ComponentNets, log_slope
from .protocol import Traits
from .splines import RationalSplines
from .trained import Recipe, TrainedMethod

HIDDEN = 128
BETA, GAMMA = 2e-3, 2e-2
GATES = 1e-4  # weight of the sum of the gates
DEPENDENCE = 1e-3  # weight of the total correlation of the residuals
#: The discriminator's learning rate is 1e-4, whatever the others': it must not run ahead.
PACE = 0.05


@dataclass(frozen=True)
class LeapTerms:
    """Of every step, (K, B, T): squared error and log q - log p; and what else is minimised."""

    squared_error: Tensor
    divergence: Tensor
    dependence: Tensor  # estimated total correlation of the residuals
    discriminator: Tensor  # its own loss, which moves nothing else
    gates: Tensor


class NoisePriorVAE(Learner):
    """Sequential posterior, per-step decoder, one prior for all with a noise for each domain."""

    whole = True

    def __init__(self, shape: tuple[int, ...], latents: int, lags: int, regimes: int) -> None:
        super().__init__(shape, latents, lags)
        (channels,) = shape
        self.features = MLP([channels, *[HIDDEN] * 3, latents])
        self.ahead = nn.GRU(latents, HIDDEN, batch_first=True)
        self.back = nn.GRU(latents, HIDDEN, batch_first=True)
        self.of_past = MLP([lags * latents, HIDDEN, 2 * latents])
        self.of_series = MLP([2 * HIDDEN, HIDDEN, HIDDEN, 2 * latents])
        self.decoder = MLP([latents, HIDDEN, HIDDEN, channels])
        self.prior = ComponentNets(latents, lags * latents, 0, HIDDEN, layers=3)
        self.gate_logits = nn.Parameter(4 + torch.randn(lags * latents, latents))
        self.noises = RationalSplines(regimes * latents)
        self.discriminator = MLP([latents, *[HIDDEN] * 3, 2])

    def groups(self) -> list[tuple[list[nn.Parameter], float]]:
        """Parameter groups: the discriminator has its own learning rate."""
        own = list(self.discriminator.parameters())
        others = [p for n, p in self.named_parameters() if not n.startswith("discriminator.")]
        return [(others, 1.0), (own, PACE)]

    # -- posterior -----------------------------------------------------------------------------

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The recursion along its own means."""
        return self.posterior(self.standardise(x), None, None)[1:]

    def posterior(
        self, x: Tensor, noise: Tensor | None, valid: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Sample, mean and log standard deviation of z_t given x and the sampled past."""
        series = self.of_series(self._seen(x, valid))
        first, last = self.of_past.layers
        past = [series.new_zeros(*series.shape[:-2], self.latents)] * self.lags
        samples, means, scales = [], [], []
        for t, given in enumerate(series.unbind(-2)):  # only what depends on samples is in here
            hidden = F.leaky_relu(first(torch.cat(past, dim=-1)), SLOPE)
            mean, log_scale = split_posterior(given + last(hidden))
            z = mean if noise is None else mean + log_scale.exp() * noise[..., t, :]
            past = [z, *past[:-1]]
            samples.append(z)
            means.append(mean)
            scales.append(log_scale)
        return torch.stack(samples, -2), torch.stack(means, -2), torch.stack(scales, -2)

    def _seen(self, x: Tensor, valid: Tensor | None) -> Tensor:
        """What two recurrent networks, one from each end, know at every step; never padding."""
        h = self.features(x).reshape(-1, *x.shape[-2:-1], self.latents)
        if valid is None:
            back = self.back(h.flip(1))[0].flip(1)
        else:  # turned around within its length; what follows stays in place
            steps = torch.arange(h.shape[1], device=h.device)
            length = valid.flatten(0, -2).sum(-1, keepdim=True)
            turned = torch.where(steps < length, length - 1 - steps, steps)[..., None]
            back = self.back(h.gather(1, turned.expand_as(h)))[0]
            back = back.gather(1, turned.expand_as(back))
        both = torch.cat([self.ahead(h)[0], back], dim=-1)
        return both.reshape(*x.shape[:-1], -1)

    # -- prior ---------------------------------------------------------------------------------

    def residuals(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Eps and d eps_i / d z_i of the steps that have a past, (K, B, T - L, d)."""
        gates = self.gate_logits.sigmoid()
        return self.prior(z[..., self.lags :, :], stack_history(z, self.lags), gates=gates)

    def noise_log_prob(self, eps: Tensor) -> Tensor:
        """Log density of residuals (K, B, T - L, d) in their domain, component by component."""
        rows = eps.movedim(-1, 1)  # (K, d, B, T - L)
        normal, slope = self.noises(rows.flatten(2).flatten(0, 1))
        density = gaussian_log_prob(normal) + log_slope(slope)
        return density.reshape(rows.shape).movedim(1, -1)

    # -- loss ----------------------------------------------------------------------------------

    def forward(self, x: Tensor, noise: Tensor, valid: Tensor | None = None) -> LeapTerms:
        """Parts of the loss from one sample of the posterior."""
        x = self.standardise(x)
        z, _, log_scale = self.posterior(x, noise, valid)
        density = (gaussian_log_prob(noise) - log_scale).sum(-1)
        first = gaussian_log_prob(z[..., : self.lags, :]).sum(-1)
        eps, slope = self.residuals(z)
        later = (self.noise_log_prob(eps) + log_slope(slope)).sum(-1)
        real: Tensor | int = 1 if valid is None else valid
        late = None if valid is None else valid[..., self.lags :]
        dependence, own = self._total_correlation(eps, noise[..., self.lags :, :], late)
        return LeapTerms(
            squared_error=real * (x - self.decoder(z)).square().sum(-1),
            divergence=real * (density - torch.cat([first, later], dim=-1)),
            dependence=dependence,
            discriminator=own,
            gates=self.gate_logits.sigmoid().sum(),
        )

    def _total_correlation(
        self, eps: Tensor, noise: Tensor, valid: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """As FactorVAE: what a fixed discriminator says of eps; and the discriminator's loss."""
        eps, noise = eps.flatten(0, -2), noise.flatten(0, -2)
        real = eps.new_ones(len(eps)) if valid is None else valid.flatten().to(eps.dtype)
        fixed = {name: p.detach() for name, p in self.discriminator.named_parameters()}
        joint, apart = functional_call(self.discriminator, fixed, (eps,)).unbind(-1)
        eps = eps.detach()
        mixed = eps.gather(0, shuffles(noise, real > 0))
        drawn, shuffled = self.discriminator(torch.stack([eps, mixed])).log_softmax(-1)
        own = -0.5 * (drawn[:, 0] + shuffled[:, 1])
        rows = real.sum().clamp_min(1)
        return (real * (joint - apart)).sum() / rows, (real * own).sum() / rows

    def loss(self, terms: LeapTerms, training_rows: int = 0) -> Tensor:
        """The authors' parts, and the discriminator's own beside them."""
        other = DEPENDENCE * terms.dependence + GATES * terms.gates
        return self._weighted(terms) + other + terms.discriminator

    def score(self, terms: LeapTerms) -> Tensor:
        """Minus the validation loss, without the parts that only regularise."""
        return -self._weighted(terms)

    def _weighted(self, terms: LeapTerms) -> Tensor:
        return weighted_loss(terms.squared_error, terms.divergence, self.lags, BETA, GAMMA)


def shuffles(noise: Tensor, real: Tensor) -> Tensor:
    """A random order of the real rows for each column of noise (N, d); padding stays outside.

    Row n gets the row whose number is the rank of n's noise. Sorting by noise itself would put
    residuals of equally large noise side by side, and these depend on it.
    """
    rank = noise.masked_fill(~real[:, None], torch.inf).argsort(dim=0).argsort(dim=0)
    rows = (~real).to(torch.uint8).argsort(stable=True)  # the real ones first
    return rows[rank]


class LEAP(TrainedMethod):
    """LEAP behind the common protocol."""

    traits = Traits(
        title="LEAP",
        about="sequential VAE with one component-wise prior and a noise of each known domain",
        latents=True,
        weights=False,
    )
    recipe = Recipe(lr=2e-3, batch=32)

    def build(self, regimes: int, shape: tuple[int, ...]) -> Learner:
        """As published."""
        return NoisePriorVAE(shape, self.settings.latents, self.settings.lags, regimes)
