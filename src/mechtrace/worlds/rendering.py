"""A cart with a pole, drawn from its place and angle: grey pictures, made when asked for.

The drawing is anti-aliased, so a picture changes smoothly with what it shows; and it is made of
plain sums, products and roots, so that a GPU draws the same pixels as a CPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import ConfigError
from ..frames import Frames

#: Pixels drawn at a time: what still fits into a processor's cache, and what keeps a GPU busy.
PIECE = {"cpu": 1 << 19, "cuda": 1 << 25}
#: Fewer pixels than this on a side do not show the pole.
SMALLEST = 8


@dataclass(frozen=True)
class Scene:
    """Where things are, in shares of the side of a picture, and how bright they are."""

    size: int
    travel: float = 0.31  # of the cart to either side, while it is in the picture
    swing: float = 0.9  # of the pole to either side, in radians
    rail: float = 0.85  # height of the rail, from above
    cart: tuple[float, float] = (0.2, 0.11)
    pole: float = 0.46
    thickness: float = 0.055
    greys: tuple[float, float, float] = (60.0, 140.0, 255.0)  # rail, cart, pole

    def __post_init__(self) -> None:
        if self.size < SMALLEST:
            fix = f"use at least {SMALLEST} pixels"
            raise ConfigError(f"pictures of {self.size} pixels show no pole", fix=fix)

    @torch.no_grad()
    def draw(self, state: Tensor) -> Tensor:
        """Pictures (n, size, size) of places and angles (n, 2), which are 1 at the margin."""
        side, device = self.size, state.device
        where = state.to(torch.float64)  # angles in double precision: devices differ in sin
        angle = self.swing * where[:, 1]
        centre = (side * (0.5 + self.travel * where[:, 0])).float()[:, None]
        sine, cosine = angle.sin().float()[:, None], angle.cos().float()[:, None]
        pixel = torch.arange(side, dtype=torch.float32, device=device) + 0.5
        height, width = side * self.cart[1], side * self.cart[0]
        bottom, pivot = side * self.rail, side * self.rail - height
        rail, cart, pole = self.greys

        line = rail * _inside(pixel, bottom, bottom + max(1.0, side / 48))
        picture = line[None, :, None].expand(len(state), side, side).contiguous()
        rows = _inside(pixel, pivot, bottom)[None, :, None]
        columns = _inside(pixel - centre, -width / 2, width / 2)[:, None, :]
        picture += cart * (rows * columns)

        # the pole is a line from the pivot with round ends; nothing of it is below the cart
        radius, length = 0.5 * side * self.thickness, side * self.pole
        above = pixel[: min(side, int(np.ceil(pivot + radius + 1)))]
        right, up = pixel - centre, (pivot - above)[None]
        along = (up * cosine)[:, :, None] + (right * sine)[:, None, :]
        across = (up * sine)[:, :, None] - (right * cosine)[:, None, :]
        along -= along.clamp(0.0, length)
        distance = along.mul_(along).add_(across.mul_(across)).sqrt_()
        cover = distance.neg_().add_(radius + 0.5).clamp_(0.0, 1.0)
        part = picture[:, : len(above)]
        part += cover.mul_(pole - part)
        return picture.add_(0.5).to(torch.uint8)


def _inside(pixel: Tensor, low: float, high: float) -> Tensor:
    """Which share of each pixel, given by its centre, lies between two places."""
    return ((pixel + 0.5).clamp(max=high) - (pixel - 0.5).clamp(min=low)).clamp(0.0, 1.0)


class Rendered(Frames):
    """Pictures that are drawn from a small state whenever they are asked for."""

    costly = False

    def __init__(self, state: np.ndarray, scene: Scene) -> None:
        super().__init__((len(state), scene.size, scene.size))
        self.state, self.scene = np.ascontiguousarray(state, dtype=np.float32), scene

    def _read(self, rows: np.ndarray) -> np.ndarray:
        return self.on(torch.device("cpu")).take(torch.from_numpy(rows)).numpy()

    def pick(self, rows: Any) -> Rendered:
        """Pictures of some rows."""
        return Rendered(self.state[self._rows(rows)], self.scene)

    def on(self, device: torch.device) -> DrawnThere:
        """The states on a device, which draws there."""
        return DrawnThere(torch.from_numpy(self.state).to(device), self.scene)

    def identity(self) -> Iterator[bytes]:
        """What is drawn, and how."""
        yield repr(self.scene).encode()
        yield self.state.tobytes()


class DrawnThere:
    """States on a device, which become pictures there."""

    def __init__(self, state: Tensor, scene: Scene) -> None:
        self.state, self.scene = state, scene

    def take(self, index: Tensor, out: Tensor | None = None) -> Tensor:
        """Pictures of these rows, drawn in pieces; written to `out` where it is given."""
        side, device = self.scene.size, self.state.device
        state = self.state[index.to(device)]
        if out is None:
            out = torch.empty((len(state), side, side), dtype=torch.uint8, device=device)
        piece = max(1, PIECE[device.type] // side**2)
        for first in range(0, len(state), piece):
            out[first : first + piece] = self.scene.draw(state[first : first + piece])
        return out
