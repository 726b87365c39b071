"""TDRL: temporally disentangled representation learning with known domains.

Yao, Chen and Zhang, NeurIPS 2022. Encoder and decoder see one step; the prior of z_t given the
past is one network per latent, conditioned on an embedding of the domain.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mechtrace.stage1 import (
    MLP,
    Learner,
    gaussian_log_prob,
    split_posterior,
    stack_history,
    weighted_loss,
)

from .components import ComponentNets, change_of_variables
from .protocol import Traits
from .trained import Recipe, TrainedMethod

HIDDEN = 128
BETA, GAMMA = 2e-3, 2e-2
#: Weight layers of the network that reads the embedding of a domain.
CONTEXT_LAYERS = 2


@dataclass(frozen=True)
class TdrlTerms:
    """Of every step of a batch, (K, B, T): squared error of the reconstruction, log q - log p."""

    squared_error: Tensor
    divergence: Tensor
    other: Tensor | float = 0.0  # further parts of the loss


class TemporalPriorVAE(Learner):
    """The common trunk of TDRL and NCTRL: per-step VAE, component-wise prior with a context."""

    def __init__(
        self,
        shape: tuple[int, ...],
        latents: int,
        lags: int,
        regimes: int,
        context_layers: int = CONTEXT_LAYERS,
    ) -> None:
        super().__init__(shape, latents, lags)
        (channels,) = shape
        self.encoder = MLP([channels, *[HIDDEN] * 4, 2 * latents])
        # the leading activation is that of the authors' true mixing
        self.decoder = MLP([latents, HIDDEN, HIDDEN, channels], leading=True)
        size = 2 if regimes <= 5 else 8
        self.embedding = nn.Embedding(regimes, size)
        self.context = MLP([size, *[HIDDEN] * context_layers])
        self.prior = ComponentNets(latents, lags * latents, HIDDEN, HIDDEN, layers=3)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Step by step."""
        return split_posterior(self.encoder(self.standardise(x)))

    def forward(self, x: Tensor, noise: Tensor, valid: Tensor | None = None) -> TdrlTerms:
        """Block k is of domain k."""
        kinds, batch, steps, _ = noise.shape
        domain = torch.eye(kinds, dtype=noise.dtype, device=noise.device)[:, None, None]
        return self._terms(
            x, noise, valid, domain.expand(-1, batch, steps - self.lags, -1), self.shifts()
        )

    def shifts(self) -> Tensor:
        """What each domain adds to the first layer of the prior's networks, (K, d * hidden)."""
        return self.prior.shift(self.context(self.embedding.weight))

    def _terms(
        self, x: Tensor, noise: Tensor, valid: Tensor | None, shares: Tensor, shifts: Tensor
    ) -> TdrlTerms:
        """Parts of the loss from one sample of the posterior.

        A transition takes `shares` (K, B, T - L, M) of the `shifts` of the prior.
        """
        x = self.standardise(x)
        mean, log_scale = split_posterior(self.encoder(x))
        z = mean + log_scale.exp() * noise
        density = (gaussian_log_prob(noise) - log_scale).sum(-1)
        first = gaussian_log_prob(z[..., : self.lags, :]).sum(-1)
        later = change_of_variables(
            *self.prior(z[..., self.lags :, :], stack_history(z, self.lags), shares, shifts)
        )
        real: Tensor | int = 1 if valid is None else valid
        return TdrlTerms(
            squared_error=real * (x - self.decoder(z)).square().sum(-1),
            divergence=real * (density - torch.cat([first, later], dim=-1)),
        )

    def loss(self, terms: TdrlTerms, training_rows: int = 0) -> Tensor:
        """Squared error and weighted divergences, as the authors weigh them."""
        own = weighted_loss(terms.squared_error, terms.divergence, self.lags, BETA, GAMMA)
        return own + terms.other

    def score(self, terms: TdrlTerms) -> Tensor:
        """Minus the validation loss."""
        return -self.loss(terms)


class TDRL(TrainedMethod):
    """TDRL behind the common protocol."""

    traits = Traits(
        title="TDRL",
        about="VAE with a component-wise prior of each step given its past and its known domain",
        latents=True,
        weights=False,
    )
    recipe = Recipe(lr=5e-4, batch=64, weight_decay=1e-4)

    def build(self, regimes: int, shape: tuple[int, ...]) -> Learner:
        """As published."""
        return TemporalPriorVAE(shape, self.settings.latents, self.settings.lags, regimes)
