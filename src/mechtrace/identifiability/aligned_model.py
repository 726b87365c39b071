"""The trained model in aligned coordinates: the same model, seen through an exact map."""

from __future__ import annotations

import torch
from torch import Tensor

from ..model import SequentialVAE
from .axes import Axes


class AlignedModel:
    """Encoder output, decoder input, and the experts' inputs and outputs in coordinates u.

    A density of u = A z + c is that of z divided by |det A|, in the prior as in the posterior, so
    the evidence lower bound is the same number. Posterior covariances are no longer diagonal.
    """

    def __init__(self, model: SequentialVAE, axes: Axes) -> None:
        self.model = model
        like = model.centre
        self.matrix = torch.from_numpy(axes.matrix).to(like)
        self.offset = torch.from_numpy(axes.offset).to(like)
        self.inverse = torch.linalg.inv(self.matrix)
        self.log_det = torch.linalg.slogdet(self.matrix)[1]

    def native(self, u: Tensor) -> Tensor:
        """Latents of the network from aligned ones, (..., d)."""
        return (u - self.offset) @ self.inverse.T

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Posterior mean (..., T, d) and covariance (..., T, d, d) of observations."""
        mean, log_scale = self.model.encode(x)
        root = self.matrix * log_scale.exp()[..., None, :]
        return mean @ self.matrix.T + self.offset, root @ root.mT

    def decode(self, u: Tensor) -> Tensor:
        """Observations that latents (..., d) stand for, in the units of the data."""
        return self.model.decoder(self.native(u)) * self.model.scale + self.model.centre

    def conditional_mean(self, history: Tensor) -> Tensor:
        """What each expert expects after histories (N, L*d), newest first: (K, N, d)."""
        return self.model.experts.conditional_mean(self._past(history)) @ self.matrix.T + (
            self.offset
        )

    def log_prob(self, u: Tensor, history: Tensor) -> Tensor:
        """log p_k(u | history) of each regime's own rows (K, N, d) and (K, N, L*d): (K, N)."""
        return self.model.experts.log_prob(self.native(u), self._past(history)) - self.log_det

    def _past(self, history: Tensor) -> Tensor:
        steps = history.unflatten(-1, (-1, len(self.offset)))
        return self.native(steps).flatten(-2)
