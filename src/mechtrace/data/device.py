"""Batches on the training device, gathered from memory, from files or made on the GPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from .frames import Frames
from .series import Panel
from .windows import CropSampler, crop_rows

#: A panel lives on the GPU while it takes at most this share of the free memory there.
RESIDENT_SHARE = 0.6
#: Pixels that are looked at in one call outside of training.
PIECE_PIXELS = 1 << 23

Piece = tuple[Tensor, Tensor, Tensor | None]


class Batches:
    """Fixed buffers that `load(step)` fills: observations, reparameterisation noise, padding.

    The buffers keep their addresses, so a captured graph can read them; and what is loaded
    depends on the seed and the step alone.
    """

    def __init__(
        self,
        panel: Panel,
        sampler: CropSampler,
        latents: int,
        device: torch.device,
        resident: Tensor | None = None,
    ) -> None:
        self.panel, self.sampler, self.device = panel, sampler, device
        shape = (sampler.regimes, sampler.per_regime, sampler.length)
        kind = _kind(panel)
        self.x = torch.zeros(*shape, *panel.shape, dtype=kind, device=device)
        self.noise = torch.zeros(*shape, latents, device=device)
        self.valid = torch.ones(shape, dtype=torch.bool, device=device) if sampler.padded else None
        self._generator = torch.Generator(device=device)
        self._resident = resident
        self._frames = (
            panel.values.on(device)
            if resident is None and isinstance(panel.values, Frames)
            else None
        )

    def transitions(self, lags: int) -> int:
        """Steps with a history in one batch (padding counted, as it costs the same)."""
        regimes, series, steps, _ = self.noise.shape
        return regimes * series * (steps - lags)

    def load(self, step: int, noise_seed: int | None = None) -> None:
        """Fill the buffers with the batch of this step."""
        start, length = self.sampler.batch(step)
        rows, valid = crop_rows(start, length, self.sampler.length)
        if self._resident is not None:
            index = torch.from_numpy(rows.ravel()).to(self.device, non_blocking=True)
            torch.index_select(self._resident, 0, index, out=self.x.flatten(0, 2))
        elif self._frames is not None:
            self._frames.take(torch.from_numpy(rows.ravel()), out=self.x.flatten(0, 2))
        else:
            block = np.take(self.panel.values, rows.ravel(), axis=0)
            self.x.copy_(torch.from_numpy(block).view(self.x.shape))
        if self.valid is not None:
            self.valid.copy_(torch.from_numpy(valid))
        seed = step if noise_seed is None else noise_seed
        self._generator.manual_seed(self.sampler.seed * 1_000_003 + seed)
        self.noise.normal_(generator=self._generator)

    def pieces(self) -> Iterator[Piece]:
        """What is loaded: x, noise and what of them is valid.

        Pictures come a few series at a time, because hidden layers are larger still.
        """
        series = many = self.noise.shape[1]
        if self.panel.is_image:
            many = max(1, PIECE_PIXELS * series // math.prod(self.x.shape))
        for first in range(0, series, many):
            some = slice(first, first + many)
            valid = None if self.valid is None else self.valid[:, some]
            yield self.x[:, some], self.noise[:, some], valid


def on_device(panel: Panel, device: torch.device) -> Tensor | None:
    """The whole panel on the GPU, shared by all batches.

    None on a CPU, if it is too large, or if its frames are made there faster than copied.
    """
    if device.type != "cuda" or (isinstance(panel.values, Frames) and not panel.values.costly):
        return None
    kind = _kind(panel)
    size = panel.values.size * kind.itemsize
    if size >= RESIDENT_SHARE * torch.cuda.mem_get_info(device)[0]:
        return None
    return _to_device(panel.values, kind, device)


def reader(panel: Panel, device: torch.device) -> Callable[[np.ndarray], Tensor]:
    """Gives the rows of these numbers (n,) as a tensor on the device."""
    values = panel.values
    if isinstance(values, Frames):
        frames = values.on(device)
        return lambda rows: frames.take(torch.from_numpy(rows))
    return lambda rows: torch.from_numpy(np.ascontiguousarray(np.take(values, rows, axis=0))).to(
        device
    )


def _kind(panel: Panel) -> torch.dtype:
    return torch.uint8 if panel.values.dtype == np.uint8 else torch.float32


def _to_device(values: np.ndarray | Frames, kind: torch.dtype, device: torch.device) -> Tensor:
    """Copy in pieces: the host never holds a second copy of a mapped file."""
    out = torch.empty(values.shape, dtype=kind, device=device)
    piece = max(1, (1 << 26) // max(1, values.nbytes // max(1, len(values))))
    for first in range(0, len(values), piece):
        block = np.ascontiguousarray(values[first : first + piece])
        out[first : first + piece] = torch.from_numpy(block).to(device)
    return out
