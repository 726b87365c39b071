"""iVAE: identifiable variational autoencoder with known domains.

Khemakhem, Kingma, Monti and Hyvarinen, AISTATS 2020. It knows no time: given its domain, every
row is drawn for itself, z ~ N(0, diag exp(MLP(u))), and encoding needs the domain too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mechtrace.data import Panel, reader
from mechtrace.errors import DataError
from mechtrace.stage1 import HALF_LOG_2PI, MLP, Learner, gaussian_log_prob, split_posterior

from .protocol import Traits
from .trained import Recipe, TrainedMethod

HIDDEN = 128
SLOPE = 0.1
#: Linear layers of each of its networks.
LAYERS = 3
VARIANCE = 0.01  # of what is observed, given the latents
CHUNK_ROWS = 1 << 13


@dataclass(frozen=True)
class Bound:
    """The evidence lower bound at every row of a batch, (K, B, T), and how many rows count."""

    elbo: Tensor
    rows: Tensor | int

    @property
    def mean(self) -> Tensor:
        """Per row, in nats."""
        return self.elbo.sum() / self.rows


class DomainVAE(Learner):
    """q(z | x, u), p(x | z) and p(z | u), u being the one-hot domain."""

    def __init__(self, shape: tuple[int, ...], latents: int, lags: int, regimes: int) -> None:
        super().__init__(shape, latents, lags)
        (channels,) = shape
        self.regimes = regimes
        inner = [HIDDEN] * (LAYERS - 1)
        self.encoder = MLP([channels + regimes, *inner, 2 * latents], slope=SLOPE)
        self.decoder = MLP([latents, *inner, channels], slope=SLOPE)
        self.log_variance = MLP([regimes, *inner, latents], slope=SLOPE)

    def domains(self) -> Tensor:
        """One-hot labels of all domains, (K, K)."""
        return torch.eye(self.regimes, dtype=self.centre.dtype, device=self.centre.device)

    def posterior(self, x: Tensor, domain: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log standard deviation of q(z | x, u) for standardised x (..., channels)."""
        label = domain.expand(*x.shape[:-1], self.regimes)
        return split_posterior(self.encoder(torch.cat([x, label], dim=-1)))

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Of blocks (K, B, T, channels), one for each domain, as in training."""
        return self.posterior(self.standardise(x), self.domains()[:, None, None])

    def forward(self, x: Tensor, noise: Tensor, valid: Tensor | None = None) -> Bound:
        """The bound from one sample of the posterior, as the authors take it."""
        x, u = self.standardise(x), self.domains()
        mean, log_scale = self.posterior(x, u[:, None, None])
        z = mean + log_scale.exp() * noise
        observed = gaussian_log_prob((x - self.decoder(z)) / math.sqrt(VARIANCE))
        log_variance = self.log_variance(u)[:, None, None]
        prior = -0.5 * (z.square() * (-log_variance).exp() + log_variance) - HALF_LOG_2PI
        density = gaussian_log_prob(noise) - log_scale
        elbo = observed.sum(-1) + (prior - density).sum(-1)
        elbo = elbo - 0.5 * math.log(VARIANCE) * x.shape[-1]
        if valid is None:
            return Bound(elbo, elbo.numel())
        return Bound(valid * elbo, valid.sum())

    def loss(self, terms: Bound, training_rows: int = 0) -> Tensor:
        """The negative bound."""
        return -terms.mean

    def score(self, terms: Bound) -> Tensor:
        """The bound."""
        return terms.mean


class IVAE(TrainedMethod):
    """iVAE behind the common protocol.

    Its authors show 32 to 64 rows drawn at random in a step. Here rows come in series and
    resemble each other; 8 of 50 rows, at least one of each regime, are near to that. More would
    leave fewer steps of the same budget, and it needs thousands.
    """

    traits = Traits(
        title="iVAE",
        about="VAE of single rows whose latents have a variance of their own in each domain",
        latents=True,
        weights=False,
        labels_to_encode=True,
    )
    recipe = Recipe(lr=1e-3, batch=8)

    def build(self, regimes: int, shape: tuple[int, ...]) -> Learner:
        """As published; lags only decide which series are long enough, as for every method."""
        return DomainVAE(shape, self.settings.latents, self.settings.lags, regimes)

    @torch.no_grad()
    def _encode(self, panel: Panel) -> list[np.ndarray]:
        model = self._model
        assert isinstance(model, DomainVAE)
        domain = self._domains_of(panel)
        found = np.full((panel.rows, model.latents), np.nan)
        read = reader(panel, model.centre.device, model.rescaling())
        for k, label in enumerate(model.domains()):
            rows = np.flatnonzero((domain == k) & panel.observed())
            for first in range(0, len(rows), CHUNK_ROWS):
                some = rows[first : first + CHUNK_ROWS]
                x = model.standardise(read(some))
                found[some] = model.posterior(x, label)[0].cpu().numpy()
        return np.split(found, panel.offsets[1:-1])

    def _domains_of(self, panel: Panel) -> np.ndarray:
        """Of each row, the number of its regime among the learned ones; -1 without a label."""
        if panel.codes is None:
            return np.full(panel.rows, -1)
        number = {name: k for k, name in enumerate(self.regimes_)}
        used = np.unique(panel.codes[panel.codes >= 0])
        unknown = [panel.regimes[code] for code in used if panel.regimes[code] not in number]
        if unknown:
            raise DataError(
                f"iVAE encodes by regime, and {', '.join(map(repr, unknown))} was not learned",
                where=panel.source,
                fix=f"give recordings of {', '.join(self.regimes_)} only",
            )
        # the last entry stands for code -1: rows without a label
        table = np.array([*(number.get(name, -1) for name in panel.regimes), -1])
        return table[panel.codes]
