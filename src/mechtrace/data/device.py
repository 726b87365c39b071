"""Rows of a panel as tensors on a device."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from ..io.frames import Frames
from .panel import Panel

#: What is done to raw values in float64 before they become float32; see `Learner.rescaling`.
Rescale = Callable[[np.ndarray], np.ndarray]
#: Share of the free GPU memory that a whole panel may take.
RESIDENT_SHARE = 0.6


def on_device(
    panel: Panel, device: torch.device, rescaling: Rescale | None = None
) -> Tensor | None:
    """Copy a whole panel to a GPU, to be shared by all batches.

    Parameters
    ----------
    panel : Panel
        The recordings.
    device : torch.device
        Where to.
    rescaling : callable, optional
        What is done to the values before they become float32; see `Learner.rescaling`.

    Returns
    -------
    Tensor or None
        None on a CPU, if the panel is too large, or if its frames are drawn on the device.
    """
    if device.type != "cuda" or (
        isinstance(panel.values, Frames) and not panel.values.cache_on_gpu
    ):
        return None
    values, kind = panel.values, tensor_kind(panel)
    if values.size * kind.itemsize >= RESIDENT_SHARE * torch.cuda.mem_get_info(device)[0]:
        return None
    out = torch.empty(values.shape, dtype=kind, device=device)
    # in pieces, so that the host never holds a whole mapped file
    piece = max(1, (1 << 26) // max(1, values.nbytes // max(1, len(values))))
    for first in range(0, len(values), piece):
        block = _tensor(values[first : first + piece], rescaling)
        out[first : first + piece] = block.to(kind).to(device)
    return out


def reader(
    panel: Panel, device: torch.device, rescaling: Rescale | None = None
) -> Callable[[np.ndarray], Tensor]:
    """Return a function from row numbers (n,) to a tensor of these rows on the device."""
    values = panel.values
    if isinstance(values, Frames):
        frames = values.on(device)
        return lambda rows: frames.take(torch.from_numpy(rows))
    return lambda rows: host_rows(panel, rows, rescaling).to(device)


def host_rows(panel: Panel, rows: np.ndarray, rescaling: Rescale | None) -> Tensor:
    """Rows (n,) of a panel in memory or mapped, as a tensor of its type or of float64."""
    return _tensor(np.take(panel.values, rows, axis=0), rescaling)


def _tensor(block: np.ndarray, rescaling: Rescale | None) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(block if rescaling is None else rescaling(block)))


def tensor_kind(panel: Panel) -> torch.dtype:
    """Return uint8 for pictures in bytes, else float32."""
    return torch.uint8 if panel.values.dtype == np.uint8 else torch.float32
