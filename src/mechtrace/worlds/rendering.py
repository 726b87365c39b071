"""Grey pictures of a cart with a pole, drawn on demand from position and angle.

Drawing is anti-aliased, so pixels change smoothly, and uses sums, products and roots only, so that
a GPU draws the same pixels as a CPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..io.frames import Frames, index_rows

#: Pixels drawn at a time.
PIECE = {"cpu": 1 << 19, "cuda": 1 << 25}


@dataclass(frozen=True)
class CartPoleScene:
    """Geometry in shares of the side of a picture, and brightness."""

    size: int
    travel: float = 0.31  # of the cart to either side, while it is in the picture
    swing: float = 0.9  # of the pole to either side, in radians
    rail: float = 0.85  # height of the rail, from above
    cart: tuple[float, float] = (0.2, 0.11)
    pole: float = 0.46
    thickness: float = 0.055
    greys: tuple[float, float, float] = (60.0, 140.0, 255.0)  # rail, cart, pole

    @torch.no_grad()
    def draw(self, state: Tensor) -> Tensor:
        """Draw pictures (n, size, size) of positions and angles (n, 2), 1 at the margin."""
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
    """Return the share of each pixel, given by its centre, between two coordinates."""
    return ((pixel + 0.5).clamp(max=high) - (pixel - 0.5).clamp(min=low)).clamp(0.0, 1.0)


class Rendered(Frames):
    """Pictures drawn on demand from positions and angles."""

    cache_on_gpu = False

    def __init__(self, state: np.ndarray, scene: CartPoleScene) -> None:
        super().__init__((len(state), scene.size, scene.size))
        self.state, self.scene = np.ascontiguousarray(state, dtype=np.float32), scene

    def _read(self, rows: np.ndarray) -> np.ndarray:
        return self.on(torch.device("cpu")).take(torch.from_numpy(rows)).numpy()

    def subset(self, rows: Any) -> Rendered:
        """Pictures of some rows."""
        return Rendered(self.state[index_rows(rows, len(self))], self.scene)

    def on(self, device: torch.device) -> DrawnThere:
        """Move the states to a device, which draws there."""
        return DrawnThere(torch.from_numpy(self.state).to(device), self.scene)

    def hash_bytes(self) -> Iterator[bytes]:
        """What is drawn, and how."""
        yield repr(self.scene).encode()
        yield self.state.tobytes()


class DrawnThere:
    """States on a device that draws the pictures."""

    def __init__(self, state: Tensor, scene: CartPoleScene) -> None:
        self.state, self.scene = state, scene

    def take(self, index: Tensor, out: Tensor | None = None) -> Tensor:
        """Draw these rows in pieces, into `out` if given."""
        side, device = self.scene.size, self.state.device
        state = self.state[index.to(device)]
        if out is None:
            out = torch.empty((len(state), side, side), dtype=torch.uint8, device=device)
        piece = max(1, PIECE[device.type] // side**2)
        for first in range(0, len(state), piece):
            out[first : first + piece] = self.scene.draw(state[first : first + piece])
        return out
