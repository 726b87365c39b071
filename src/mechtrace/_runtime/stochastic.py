"""Random numbers, one stream for each purpose, and gradient descent by AdamW."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

_lock = RLock()


def generator(seed: int, purpose: str) -> np.random.Generator:
    """Return the random numbers that `seed` gives for `purpose`.

    Streams of different purposes are independent. The same pair gives the same numbers in every
    run and on every Python version.

    >>> int(generator(3, "split").integers(1000)) == int(generator(3, "split").integers(1000))
    True
    """
    return np.random.default_rng([seed, zlib.crc32(purpose.encode())])


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Let torch's own random numbers in this block come from a seed, for new weights.

    They are the process's, so blocks in several threads wait for each other; afterwards they go
    on as if nothing had been drawn.
    """
    import torch

    with _lock, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def warmup_cosine(step: int, steps: int, lr: float, warmup: int, *, floor: float = 1e-3) -> float:
    """Return lr min(1, (step + 1) / warmup) ((1 + cos(pi step / steps)) / 2 + floor)."""
    warm = min(1.0, (step + 1) / max(1, warmup))
    return lr * warm * (0.5 * (1 + math.cos(math.pi * step / steps)) + floor)


def descend(
    loss: Tensor, optimiser: Optimizer, parameters: Iterable[Tensor], clip: float | None = None
) -> None:
    """Backpropagate a loss, clip the gradient norm and update the parameters."""
    from torch.nn.utils import clip_grad_norm_

    loss.backward()
    if clip is not None:
        clip_grad_norm_(parameters, clip)
    optimiser.step()


def minimise(
    parameters: Iterable[Tensor],
    loss: Callable[[int], Tensor],
    steps: int,
    rate: Callable[[int], float],
    *,
    betas: tuple[float, float] = (0.9, 0.999),
    weight_decay: float = 0.0,
    clip: float | None = None,
    after: Callable[[int], None] | None = None,
) -> None:
    """Minimise a stochastic loss over tensors, in place, by AdamW.

    `loss` and `rate` (the learning rate) get the number of the step, from 0; `loss` draws its own
    batch. `clip` limits the gradient norm. `after` gets the number of updates made so far.
    """
    from torch.optim import AdamW

    parameters = list(parameters)
    optimiser = AdamW(parameters, betas=betas, weight_decay=weight_decay)
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = rate(step)
        optimiser.zero_grad(set_to_none=True)
        descend(loss(step), optimiser, parameters, clip)
        if after is not None:
            after(step + 1)
