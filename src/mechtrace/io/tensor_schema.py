"""Stored tensors against those that the settings imply."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from .typed_json import Mismatch


def check_tensors(
    group: str,
    expected: Mapping[str, Tensor],
    stored: Mapping[str, Tensor],
    divisors: tuple[str, ...] = (),
    optional: tuple[str, ...] = (),
) -> None:
    """Compare names, types and shapes; raise `Mismatch`.

    Floats must be finite, and positive where the last parts of their names are in `divisors`;
    whole numbers (the masks of flows) must be those of a new network. Those that are `optional`
    may be missing.
    """
    for name in stored.keys() ^ expected.keys():
        if name not in expected:
            raise Mismatch(f"unknown tensor {group}/{name[:60]}")
        if name not in optional:
            raise Mismatch(f"no tensor {group}/{name}")
    for name, tensor in stored.items():
        like, full = expected[name], f"{group}/{name}"
        if tensor.shape != like.shape or tensor.dtype != like.dtype:
            raise Mismatch(
                f"{full} is {tensor.dtype} {tuple(tensor.shape)},"
                f" not {like.dtype} {tuple(like.shape)}"
            )
        if tensor.is_floating_point():
            if not torch.isfinite(tensor).all():
                raise Mismatch(f"{full} is not finite")
        elif not like.is_meta and not torch.equal(tensor, like):
            raise Mismatch(f"{full} is not that of a new network")
        if f".{name}".endswith(tuple(f".{end}" for end in divisors)) and not (tensor > 0).all():
            raise Mismatch(f"{full} is not positive")


def persistent_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers of a network that a file can hold, also of one without memory."""
    found: dict[str, Tensor] = dict(module.named_parameters(remove_duplicate=False))
    for place, part in module.named_modules(remove_duplicate=False):
        for name, buffer in part.named_buffers(recurse=False):
            if name not in part._non_persistent_buffers_set:
                found[f"{place}.{name}" if place else name] = buffer
    return found
