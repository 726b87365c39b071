"""Key points: where things are in a picture, learned without labels.

Convolutions give one map of weights for each point; the point is their centre of mass (spatial
soft-argmax, Finn et al. 2016). To be learned, the points are drawn as soft dots, from which
convolutions have to paint the picture again (Jakab et al. 2018): a point can only help by lying
on something that moves, so it moves as that thing does, and the map from the place of a thing to
its point is nearly linear.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .nets import SLOPE

POINTS, WIDTH, KERNEL = 4, 8, 5
#: Larger pictures are halved until their maps have at most so many cells on a side.
MAP_SIDE = 16
#: Radius of a dot, in halves of the longer side of a picture.
DOT = 0.2


class KeyPoints(nn.Module):
    """Pictures (..., H, W) to points (..., 2 * points): all x, then all y; and back."""

    centre: Tensor
    scale: Tensor
    rows: Tensor
    columns: Tensor

    def __init__(self, size: tuple[int, int], points: int = POINTS, width: int = WIDTH) -> None:
        super().__init__()
        self.size, self.points = size, points
        halvings = max(0, math.ceil(math.log2(max(size) / MAP_SIDE)))
        steps = max(2, halvings + 1)
        self.look = nn.ModuleList(
            nn.Conv2d(a, width, KERNEL, stride=2 if number < halvings else 1, padding=KERNEL // 2)
            for number, a in enumerate([1, *[width] * (steps - 1)])
        )
        self.weigh = nn.Conv2d(width, points, kernel_size=1)
        self.paint = nn.ModuleList(
            nn.Conv2d(a, b, KERNEL, padding=KERNEL // 2)
            for a, b in pairwise([points, 2 * width, 2 * width, 1])
        )
        self.register_buffer("centre", torch.zeros(size))
        self.register_buffer("scale", torch.ones(()))
        height, breadth = (-(-side // 2**halvings) for side in size)
        longest = max(height, breadth)
        for name, cells in (("rows", height), ("columns", breadth)):
            places = (torch.arange(cells) + 0.5 - cells / 2) * (2 / longest)
            self.register_buffer(name, places, persistent=False)

    def forward(self, pictures: Tensor) -> Tensor:
        """Where the points are, in halves of the longer side from the middle."""
        h = self._standardised(pictures).reshape(-1, 1, *self.size)
        for conv in self.look:
            h = F.leaky_relu(conv(h), SLOPE)
        weight = self.weigh(h).flatten(2).softmax(-1).unflatten(2, self._cells)
        x, y = weight.sum(2) @ self.columns, weight.sum(3) @ self.rows
        return torch.cat([x, y], -1).reshape(*pictures.shape[:-2], -1)

    def small(self, points: Tensor) -> Tensor:
        """The pictures (n, h, w) that points (n, 2 * points) stand for, small and standardised."""
        x, y = points.chunk(2, dim=-1)
        h = self._dots(y, self.rows)[..., :, None] * self._dots(x, self.columns)[..., None, :]
        for number, conv in enumerate(self.paint):
            h = conv(F.leaky_relu(h, SLOPE) if number else h)
        return h.squeeze(1)

    def unexplained(self, pictures: Tensor) -> Tensor:
        """Share of what varies in the (small) pictures that their points do not tell."""
        wanted = F.adaptive_avg_pool2d(self._standardised(pictures)[:, None], self._cells)[:, 0]
        error = wanted - self.small(self(pictures))
        return error.square().mean() / wanted.square().mean().clamp_min(1e-12)

    def draw(self, points: Tensor) -> Tensor:
        """Pictures (..., H, W) of points, in the units of the data."""
        small = self.small(points.reshape(-1, points.shape[-1]))[:, None]
        large = F.interpolate(small, self.size, mode="bilinear", align_corners=False)
        return large.reshape(*points.shape[:-1], *self.size) * self.scale + self.centre

    @property
    def _cells(self) -> tuple[int, int]:
        return len(self.rows), len(self.columns)

    def _standardised(self, pictures: Tensor) -> Tensor:
        return (pictures.to(self.centre.dtype) - self.centre) / self.scale

    @staticmethod
    def _dots(place: Tensor, cells: Tensor) -> Tensor:
        return (-0.5 * ((cells - place[..., None]) / DOT).square()).exp()
