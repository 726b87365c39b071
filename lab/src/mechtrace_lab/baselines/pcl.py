"""PCL: permutation-contrastive learning, which needs no labels.

Hyvarinen and Morioka, AISTATS 2017. Features of a step and of its past are told apart from
features of the same step and another past; telling them well takes the independent sources.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mechtrace.stage1 import MLP, SLOPE, Learner

from .components import ParallelLinear
from .protocol import Traits
from .trained import Recipe, TrainedMethod

HIDDEN = 128
#: Hidden layers of the networks that score a component.
SCORE_LAYERS = 4


class Contrast(Learner):
    """Encoder h and, for each component, a score of (h_i(x_t), h_i(x_{t-1}) ... h_i(x_{t-L}))."""

    def __init__(self, shape: tuple[int, ...], latents: int, lags: int) -> None:
        super().__init__(shape, latents, lags)
        (channels,) = shape
        self.encoder = MLP([*[channels] * 5, latents])
        sizes = [1 + lags, *[HIDDEN] * SCORE_LAYERS, 1]
        self.scores = nn.ModuleList(ParallelLinear(latents, a, b) for a, b in pairwise(sizes))
        _at_full_size(self)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Features; they are no estimate of a distribution, so their deviation is 0."""
        h = self.encoder(self.standardise(x))
        return h, torch.full_like(h, -torch.inf)

    def logit(self, now: Tensor, past: Tensor) -> Tensor:
        """Sum of the components' scores, (...), of now (..., d) and past (..., d, L)."""
        pairs = torch.cat([now[..., None], past], dim=-1)
        a = pairs.flatten(0, -3).transpose(0, 1)
        for number, layer in enumerate(self.scores):
            a = layer(F.leaky_relu(a, SLOPE) if number else a)
        return a.sum(0).reshape(now.shape[:-1])

    def forward(self, x: Tensor, noise: Tensor, valid: Tensor | None = None) -> Tensor:
        """The logistic loss; true pasts and wrong ones count alike."""
        h = self.encoder(self.standardise(x))
        steps = h.shape[-2]
        lagged = [h[..., self.lags - lag : steps - lag, :] for lag in range(1, self.lags + 1)]
        now, past = h[..., self.lags :, :], torch.stack(lagged, dim=-1)
        other = partners(noise[..., self.lags :, 0])
        wrong = past.gather(1, other[..., None, None].expand_as(past))
        right, mistaken = self.logit(torch.stack([now, now]), torch.stack([past, wrong]))
        right, mistaken = F.softplus(-right), F.softplus(mistaken)
        if valid is None:
            return (right.mean() + mistaken.mean()) / 2
        real = valid[..., self.lags :]
        both = real & real.gather(1, other)
        return (_mean(right, real) + _mean(mistaken, both)) / 2

    def loss(self, terms: Tensor, training_rows: int = 0) -> Tensor:
        """The logistic loss."""
        return terms

    def score(self, terms: Tensor) -> Tensor:
        """Minus the validation loss."""
        return -terms


@torch.no_grad()
def _at_full_size(model: Contrast) -> None:
    """Initialise so that no layer shrinks its input.

    Five layers as narrow as x, with the usual start, let through a hundredth of the signal and
    mostly of one direction; from there the contrast leads to mixtures of the sources.
    """
    gain = nn.init.calculate_gain("leaky_relu", SLOPE)
    for name, p in model.encoder.named_parameters():
        if name.endswith("weight"):
            nn.init.orthogonal_(p, gain)
        else:
            p.zero_()
    for name, p in model.scores.named_parameters():
        bound = gain * math.sqrt(3 / p.shape[1]) if name.endswith("weight") else 0.0
        p.uniform_(-bound, bound)


def partners(noise: Tensor) -> Tensor:
    """For each series of (K, B, T) another one, at random for every step; never itself if B > 1.

    The series stand in a random ring, each before its partner.
    """
    order = noise.argsort(dim=1)
    return torch.empty_like(order).scatter_(1, order, order.roll(1, dims=1))


def _mean(part: Tensor, real: Tensor) -> Tensor:
    return (real * part).sum() / real.sum().clamp_min(1)


class PCL(TrainedMethod):
    """PCL behind the common protocol."""

    traits = Traits(
        title="PCL",
        about="features by which the true past of a step is told from another's; without labels",
        labels=False,
        latents=True,
        weights=False,
    )
    recipe = Recipe(lr=1e-3, batch=32)

    def build(self, regimes: int, shape: tuple[int, ...]) -> Learner:
        """As published; regimes do not matter to it."""
        return Contrast(shape, self.settings.latents, self.settings.lags)
