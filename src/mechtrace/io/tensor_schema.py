"""Stored tensors against those that the settings imply."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from .typed_json import Mismatch


def check_tensors(
    group: str,
    expected: Mapping[str, Tensor],
    stored: Mapping[str, Tensor],
    divisors: tuple[str, ...] = (),
) -> None:
    """Compare names, types and shapes; raise `Mismatch`.

    Floats must be finite, and positive where the last parts of their names are in `divisors`;
    whole numbers (the masks of flows) must be those of a new network.
    """
    for name in stored.keys() ^ expected.keys():
        missing = "no" if name in expected else "unknown"
        raise Mismatch(f"{missing} tensor {group}/{name[:60]}")
    for name, like in expected.items():
        tensor, full = stored[name], f"{group}/{name}"
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
