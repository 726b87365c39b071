"""What is normal: recordings put together from stretches of left-out pure series."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


def stretches(
    lengths: np.ndarray, steps: int, draws: int, rng: np.random.Generator, share: float = 0.5
) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Places in made-up recordings, with the series (draws,) and rows (draws, n) that fill them.

    A stretch is at most this `share` of a pure series: below 1, few series make many recordings;
    dependence over time is kept inside a stretch. Stretches keep their place within a series,
    which may start far from where it settles; beyond its end, only ends of series follow.
    """
    usable = np.flatnonzero(lengths > 0)
    typical = int(np.median(lengths[usable]))
    whole = min(steps, typical)
    piece = max(1, int(np.ceil(whole * share)))
    enough = usable[lengths[usable] >= whole]
    shift = rng.integers(0, typical - whole + 1, size=draws)  # a short recording starts anywhere
    for first in range(0, steps, piece):
        stop = min(first + piece, steps)
        which = rng.choice(enough, size=draws)
        last = lengths[which] - (stop - first)
        start = np.minimum(first + shift, last) if stop <= whole else last
        yield slice(first, stop), which, start[:, None] + np.arange(stop - first)


def share_above(normal: np.ndarray, value: float) -> float:
    """p-value of a value among normal ones; never 0, since more draws might exceed it."""
    return float((1 + (normal >= value).sum()) / (1 + len(normal)))


def front(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Each series with its known rows first, (n, T, ...); what follows them is meaningless."""
    order = np.argsort(~known, axis=1, kind="stable")
    return np.take_along_axis(values, order.reshape(*order.shape, *[1] * (values.ndim - 2)), 1)
