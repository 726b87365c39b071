"""SequentialVAE: encoder, decoder and experts -> loss terms of a batch."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..config import ModelConfig
from ..errors import ConfigError
from . import networks as nets
from .experts import (
    HALF_LOG_2PI,
    ExpertBank,
    gaussian_log_prob,
    make_experts,
    stack_history,
)  # fmt: skip
from .units import Rescaling, beyond_float32


@dataclass(frozen=True)
class LossTerms:
    """The parts of the objective at every step of a batch, each (K, B, T), zero on padding."""

    reconstruction: Tensor  # log p(x_t | z_t)
    prior: Tensor  # log p(z_t) in the first L steps, then log p_k(z_t | history)
    entropy: Tensor  # -log q(z_t | x)
    squared_error: Tensor  # of the reconstruction, for the weighted objective
    rows: Tensor | int  # steps that count
    lags: int

    @property
    def elbo(self) -> Tensor:
        """Evidence lower bound per step, in nats."""
        return (self.reconstruction + self.prior + self.entropy).sum() / self.rows

    def weighted(self, beta: float, gamma: float) -> Tensor:
        """Return the paper's objective; see `weighted_loss`."""
        divergence = -(self.prior + self.entropy)
        return weighted_loss(self.squared_error, divergence, self.lags, beta, gamma)


def weighted_loss(
    squared_error: Tensor, divergence: Tensor, lags: int, beta: float, gamma: float
) -> Tensor:
    """Return the paper's loss: error + beta KL of the first L steps + gamma KL of the others.

    Both parts (..., T) are summed over the first L steps, averaged over the others and series.
    """

    def first(part: Tensor) -> Tensor:
        return part[..., :lags].sum(-1).mean()

    def rest(part: Tensor) -> Tensor:
        return part[..., lags:].mean()

    error = first(squared_error) + rest(squared_error)
    return error + beta * first(divergence) + gamma * rest(divergence)


class Learner(nn.Module, ABC):
    """A latent-variable model that `Trainer` can train and `encoding.encode` can apply.

    Observations (after `rescaling`) are (K, B, T, *shape): entry k holds series of regime k, or K
    is 1.
    """

    centre: Tensor
    scale: Tensor
    origin: Tensor  # of the rescaling, in float64
    unit: Tensor
    #: rows that the encoder looks back
    reach: int = 0
    #: the encoder also looks ahead, so padding would change its output
    whole: bool = False

    def __init__(self, shape: tuple[int, ...], latents: int, lags: int) -> None:
        super().__init__()
        self.shape, self.latents, self.lags = shape, latents, lags
        self.register_buffer("centre", torch.zeros(shape))
        self.register_buffer("scale", torch.ones(shape))
        self.register_buffer("origin", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("unit", torch.ones(shape, dtype=torch.float64))

    def set_units(self, centre: np.ndarray, scale: np.ndarray) -> None:
        """Take over mean and scale; channels that float32 cannot hold are rescaled before it."""
        far = beyond_float32(centre, scale) & (len(self.shape) == 1)  # pictures never are
        self.origin.copy_(torch.from_numpy(np.where(far, centre, 0.0)))
        self.unit.copy_(torch.from_numpy(np.where(far, scale, 1.0)))
        self.centre.copy_(torch.from_numpy(np.where(far, 0.0, centre)))
        self.scale.copy_(torch.from_numpy(np.where(far, 1.0, scale)))

    def units(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and scale of the raw values of each channel."""
        origin, unit, centre, scale = (
            part.double().cpu().numpy()
            for part in (self.origin, self.unit, self.centre, self.scale)
        )
        return origin + unit * centre, unit * scale

    def rescaling(self) -> Rescaling | None:
        """What is done to raw values in float64 before `standardise`; None if nothing."""
        found = Rescaling(self.origin.cpu().numpy(), self.unit.cpu().numpy())
        return found if found.origin.any() or (found.unit != 1).any() else None

    def in_units_of_data(self, x: Tensor) -> Tensor:
        """Undo `standardise` and `rescaling`; in float64 where there is a rescaling."""
        x = x * self.scale + self.centre
        return x if self.rescaling() is None else x.double() * self.unit + self.origin

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.rescaling() is None:  # a file like those of versions without it
            for name in ("origin", "unit"):
                del destination[prefix + name]

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *others: Any) -> None:
        state_dict.setdefault(f"{prefix}origin", torch.zeros_like(self.origin))
        state_dict.setdefault(f"{prefix}unit", torch.ones_like(self.unit))
        super()._load_from_state_dict(state_dict, prefix, *others)

    def standardise(self, x: Tensor) -> Tensor:
        """Observations in units of each channel's standard deviation."""
        return (x.to(self.centre.dtype) - self.centre) / self.scale

    @abstractmethod
    def forward(self, x: Tensor, noise: Tensor, valid: Tensor | None = None) -> Any:
        """Loss terms of a batch.

        `noise` (K, B, T, d) is standard normal, given for reproducibility; `valid` (K, B, T) is
        False on padding at the end.
        """

    @abstractmethod
    def loss(self, terms: Any, training_rows: int) -> Tensor:
        """Return the loss to minimise."""

    @abstractmethod
    def score(self, terms: Any) -> Tensor:
        """Return the score that selects weights on held-out series; higher is better."""

    @abstractmethod
    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Posterior mean and log standard deviation of (..., T, *shape) observations."""

    def groups(self) -> list[tuple[list[nn.Parameter], float]]:
        """Return groups of parameters, each with its multiple of the learning rate."""
        return [(list(self.parameters()), 1.0)]


class SequentialVAE(Learner):
    """q(z_t | x_{t-C:t}), p(x_t | z_t) and one expert p_k(z_t | z_{t-L:t-1}) per regime."""

    #: projection (d, d) on the part of z in which regimes can differ at the next step; None: all
    observable_subspace: np.ndarray | None = None

    def __init__(self, config: ModelConfig, regimes: int, shape: tuple[int, ...]) -> None:
        super().__init__(shape, config.latents, config.lags)
        self.config, self.regimes = config, regimes
        d = config.latents
        self.encoder, self.decoder = _encoder_and_decoder(config, shape)
        self.reach = self.encoder.reach  # type: ignore[assignment]
        self.experts = self.new_experts()
        self.log_noise = nn.Parameter(torch.zeros(shape if len(shape) == 1 else ()))
        # The first L steps have no history: a Gaussian per regime with full covariance, which
        # favours no axes. `start_root` is a root of its precision, with exponentiated diagonal.
        self.start_mean = nn.Parameter(torch.zeros(regimes, 1, d))
        self.start_root = nn.Parameter(torch.zeros(regimes, d, d))

    def new_experts(self) -> ExpertBank:
        """Untrained experts of the configured kind."""
        config = self.config
        return make_experts(
            config.experts, self.regimes, config.latents, config.lags, config.hidden,
            config.depth_of_experts,
        )  # fmt: skip

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Posterior mean and log standard deviation of (..., T, *shape) observations."""
        return self.encoder(self.standardise(x))

    def forward(self, x: Tensor, noise: Tensor, valid: Tensor | None = None) -> LossTerms:
        """Loss terms of a balanced batch."""
        lags, (kinds, batch, steps, _) = self.config.lags, noise.shape
        x = self.standardise(x)
        mean, log_scale = self.encoder(x)
        z = mean + log_scale.exp() * noise
        error = (x - self.decoder(z)).flatten(3)
        log_noise = self.log_noise.clamp_min(math.log(self.config.noise_floor))
        spread = log_noise.flatten().expand(error.shape[-1])
        start = self._start_log_prob(z[:, :, :lags].flatten(1, 2))
        transition = self.experts.log_prob(
            z[:, :, lags:].flatten(1, 2), stack_history(z, lags).flatten(1, 2)
        )
        by_step = (start.unflatten(1, (batch, -1)), transition.unflatten(1, (batch, -1)))
        if self.config.objective == "elbo":
            entropy = log_scale + (0.5 + HALF_LOG_2PI)
        else:  # from the one sample, as the paper's predecessors do
            entropy = log_scale - gaussian_log_prob(noise)
        real: Tensor | int = 1 if valid is None else valid
        return LossTerms(
            reconstruction=real * (gaussian_log_prob(error * (-spread).exp()) - spread).sum(-1),
            prior=real * torch.cat(by_step, dim=-1),
            entropy=real * entropy.sum(-1),
            squared_error=real * error.square().sum(-1),
            rows=kinds * batch * steps if valid is None else valid.sum(),
            lags=lags,
        )

    def loss(self, terms: LossTerms, training_rows: int) -> Tensor:
        """Return the negative ELBO or the paper's weighted form, plus shrinkage."""
        config = self.config
        if config.objective == "elbo":
            value = -terms.elbo
        else:
            value = terms.weighted(config.beta, config.gamma)
        if config.shrinkage:
            value = value + config.shrinkage / training_rows * self.experts.deviation()
        return value

    def score(self, terms: LossTerms) -> Tensor:
        """Return the ELBO per step, whatever the objective."""
        return terms.elbo

    def _start_log_prob(self, z: Tensor) -> Tensor:
        """(K, N, d) -> (K, N): N(0, I) in the weighted form, a learned Gaussian otherwise."""
        if self.config.objective == "weighted":
            return gaussian_log_prob(z).sum(-1)
        log_diagonal = self.start_root.diagonal(dim1=1, dim2=2)
        root = self.start_root.tril(-1) + torch.diag_embed(log_diagonal.exp())
        eps = torch.bmm(z - self.start_mean, root)
        return gaussian_log_prob(eps).sum(-1) + log_diagonal.sum(-1)[:, None]


def _encoder_and_decoder(
    config: ModelConfig, shape: tuple[int, ...]
) -> tuple[nn.Module, nn.Module]:
    context = config.lags if config.context is None else config.context
    sizes = (config.latents, context, config.hidden, config.layers)
    if config.encoder not in ("auto", *(("image",) if len(shape) == 2 else ("mlp", "temporal"))):
        what = "frames" if len(shape) == 2 else "channels"
        raise ConfigError(f"encoder {config.encoder!r} cannot read {what}", fix="use auto")
    if len(shape) == 2:
        size = (shape[0], shape[1])
        return (
            nets.ImageEncoder(size, *sizes),
            nets.ImageDecoder(size, config.latents, config.hidden),
        )
    encoder = nets.TemporalEncoder if config.encoder == "temporal" else nets.MLPEncoder
    decoder = nets.MLPDecoder(shape[0], config.latents, config.hidden, config.layers)
    return encoder(shape[0], *sizes), decoder
