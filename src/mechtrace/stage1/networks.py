"""Encoders and decoders: plain, convolutional over images, convolutional over time.

Every encoder maps observations (..., T, *shape) to the mean and log standard deviation of
q(z_t | x_{t-C:t}), both (..., T, d); it never looks ahead, and `reach` says how many rows it
looks back. Every decoder maps (..., T, d) back.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

SLOPE = 0.2  # of every LeakyReLU, as in the paper


class SkipMLP(nn.Module):
    """LeakyReLU network with a linear path beside it: an almost linear map is learned at once."""

    def __init__(self, inputs: int, outputs: int, hidden: int, layers: int) -> None:
        super().__init__()
        sizes = [inputs, *[hidden] * (layers - 1), outputs]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.skip = nn.Linear(inputs, outputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., inputs) to (..., outputs)."""
        h, spare = x, not torch.is_grad_enabled()  # no backward pass needs the input
        for layer in self.layers[:-1]:
            h = F.leaky_relu(layer(h), SLOPE, inplace=spare)
        return self.layers[-1](h) + self.skip(x)


class MLP(nn.Module):
    """Plain network: linear layers with LeakyReLUs in between, and before the first if asked."""

    def __init__(
        self, sizes: Sequence[int], *, slope: float = SLOPE, leading: bool = False
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.slope, self.leading = slope, leading

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., first size) to (..., last size)."""
        for number, layer in enumerate(self.layers):
            x = layer(F.leaky_relu(x, self.slope) if number or self.leading else x)
        return x


def with_past(x: Tensor, past: int) -> Tensor:
    """Put x_t, x_{t-1} ... x_{t-past} side by side; before the start the first row is repeated."""
    if past == 0:
        return x
    padded = torch.cat([x[..., :1, :].expand(*x.shape[:-2], past, x.shape[-1]), x], dim=-2)
    steps = x.shape[-2]
    return torch.cat([padded[..., first : first + steps, :] for first in range(past, -1, -1)], -1)


def split_posterior(out: Tensor) -> tuple[Tensor, Tensor]:
    """Two halves: mean, and log standard deviation kept in a range where nothing overflows."""
    mean, log_scale = out.chunk(2, dim=-1)
    return mean, log_scale.clamp(-10.0, 5.0)


class MLPEncoder(nn.Module):
    """The paper's encoder: an MLP over the current row and its past."""

    def __init__(
        self, channels: int, latents: int, context: int, hidden: int = 128, layers: int = 3
    ) -> None:
        super().__init__()
        self.context = self.reach = context
        self.body = SkipMLP(channels * (context + 1), 2 * latents, hidden, layers)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Posterior mean and log standard deviation."""
        return split_posterior(self.body(with_past(x, self.context)))


class MLPDecoder(nn.Module):
    """The paper's decoder: an MLP from the latents of one step to its observation."""

    def __init__(self, channels: int, latents: int, hidden: int = 128, layers: int = 3) -> None:
        super().__init__()
        self.body = SkipMLP(latents, channels, hidden, layers)

    def forward(self, z: Tensor) -> Tensor:
        """Mean of the observation."""
        return self.body(z)


class TemporalEncoder(nn.Module):
    """Causal dilated convolutions over time: a long memory at little cost."""

    def __init__(
        self, channels: int, latents: int, context: int, hidden: int = 128, layers: int = 3
    ) -> None:
        super().__init__()
        sizes = [channels, *[hidden] * layers]
        self.dilations = [2**i for i in range(layers)]
        self.convs = nn.ModuleList(
            nn.Conv1d(a, b, kernel_size=2, dilation=step)
            for a, b, step in zip(sizes[:-1], sizes[1:], self.dilations, strict=True)
        )
        self.head = SkipMLP(hidden + channels * (context + 1), 2 * latents, hidden, 2)
        self.context = context
        self.reach = max(context, sum(self.dilations))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Posterior mean and log standard deviation."""
        h = x.reshape(-1, *x.shape[-2:]).transpose(1, 2)
        for conv, step in zip(self.convs, self.dilations, strict=True):
            h = F.leaky_relu(conv(F.pad(h, (step, 0), mode="replicate")), SLOPE)
        memory = h.transpose(1, 2).reshape(*x.shape[:-1], -1)
        return split_posterior(self.head(torch.cat([memory, with_past(x, self.context)], -1)))


class ImageEncoder(nn.Module):
    """Strided convolutions per frame, then an MLP over the features of a frame and its past."""

    def __init__(
        self,
        size: tuple[int, int],
        latents: int,
        context: int,
        hidden: int = 128,
        layers: int = 3,
        width: int = 16,
    ) -> None:
        super().__init__()
        self.size = size
        self.context = self.reach = context
        steps = halvings(size)
        widths = [1, *[width * 2 ** min(i, 2) for i in range(steps)]]
        self.convs = nn.ModuleList(
            nn.Conv2d(a, b, kernel_size=4, stride=2, padding=1) for a, b in pairwise(widths)
        )
        features = widths[-1] * (size[0] >> steps) * (size[1] >> steps)
        self.features = nn.Linear(features, hidden)
        self.head = SkipMLP(hidden * (context + 1), 2 * latents, hidden, layers)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Posterior mean and log standard deviation of (..., T, H, W) frames."""
        h = x.reshape(-1, 1, *self.size)
        for conv in self.convs:
            h = F.leaky_relu(conv(h), SLOPE)
        features = self.features(h.flatten(1)).reshape(*x.shape[:-2], -1)
        return split_posterior(self.head(with_past(F.leaky_relu(features, SLOPE), self.context)))


class ImageDecoder(nn.Module):
    """Latents to a frame: a linear layer and transposed convolutions."""

    def __init__(
        self, size: tuple[int, int], latents: int, hidden: int = 128, width: int = 16
    ) -> None:
        super().__init__()
        self.size = size
        steps = halvings(size)
        widths = [1, *[width * 2 ** min(i, 2) for i in range(steps)]][::-1]
        self.small = (widths[0], size[0] >> steps, size[1] >> steps)
        self.first = SkipMLP(latents, self.small[0] * self.small[1] * self.small[2], hidden, 2)
        self.convs = nn.ModuleList(
            nn.ConvTranspose2d(a, b, kernel_size=4, stride=2, padding=1)
            for a, b in pairwise(widths)
        )

    def forward(self, z: Tensor) -> Tensor:
        """Mean of the frame, (..., H, W)."""
        h = self.first(z).reshape(-1, *self.small)
        for conv in self.convs:
            h = conv(F.leaky_relu(h, SLOPE))
        return h.reshape(*z.shape[:-1], *self.size)


def halvings(size: tuple[int, int]) -> int:
    """How often both sides can be halved down to 4 pixels or so."""
    steps = 0
    while all(side % 2 ** (steps + 1) == 0 and side >> steps > 4 for side in size):
        steps += 1
    return steps
