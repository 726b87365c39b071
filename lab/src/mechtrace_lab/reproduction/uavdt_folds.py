"""Folds of left-out sequences, and bootstrap intervals over sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mechtrace._runtime import generator
from mechtrace.metrics import known_mean

from ..datasets.tracks import Track

#: Draws of sequences behind an interval, and its level.
DRAWS, LEVEL = 2000, 0.9

Rows = Sequence[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class SequenceFold:
    """Straight tracks to learn from, and all tracks of the sequences that are left out."""

    learn: list[Track]
    straight: list[Track]
    turns: list[Track]

    @classmethod
    def of(
        cls, straight: Sequence[Track], turns: Sequence[Track], out: Sequence[str]
    ) -> SequenceFold:
        """Leave these sequences out."""
        return cls(
            [track for track in straight if track.sequence not in out],
            [track for track in straight if track.sequence in out],
            [track for track in turns if track.sequence in out],
        )


def deal(straight: Sequence[str], turns: Sequence[str], folds: int) -> list[tuple[str, ...]]:
    """Sequences in so many folds of about as many straight tracks, the largest dealt first.

    >>> deal(["a", "b", "b", "c"], ["d", "a"], 2)
    [('b', 'd'), ('a', 'c')]
    """
    count = dict.fromkeys((*straight, *turns), 0)
    for name in straight:
        count[name] += 1
    shares: list[list[str]] = [[] for _ in range(folds)]
    for name in sorted(count, key=lambda name: (-count[name], name)):
        min(shares, key=lambda share: sum(count[n] for n in share)).append(name)
    return [tuple(share) for share in shares if share]


def by_track(rows: Rows) -> list[dict[str, Any]]:
    """One row per track: the mean of each figure over the seeds that have it."""
    out = []
    for name in dict.fromkeys(row["track"] for row in rows):
        mine = [row for row in rows if row["track"] == name]
        numbers = {key: [row[key] for row in mine] for key, value in mine[0].items()
                   if isinstance(value, float)}  # fmt: skip
        out.append(mine[0] | {key: known_mean(values) for key, values in numbers.items()})
    return out


def interval(
    rows: Rows, figure: Callable[[np.ndarray], float], name: str, seed: int
) -> list[float]:
    """Bootstrap interval of a figure of tracks, redrawing whole sequences."""
    groups = {row["track"].partition("/")[0] for row in rows}
    values = [
        np.array([row[name] for row in rows if row["track"].partition("/")[0] == group])
        for group in sorted(groups)
    ]
    rng = generator(seed, "interval")
    drawn = [
        figure(np.concatenate([values[i] for i in rng.integers(len(values), size=len(values))]))
        for _ in range(DRAWS)
    ]
    return [float(x) for x in np.nanquantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])]
