"""What is normal: recordings put together from stretches of left-out pure series."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class PureSeries:
    """How long pure series are and whose they are.

    A made-up recording is of one group (a subject, a machine). The one to be judged may be of
    another, so what is normal varies as much as the groups differ; `of_another_group` adds that.
    """

    lengths: np.ndarray  # (n,) known rows
    group: np.ndarray  # (n,) codes; empty where series belong to no group

    @property
    def groups(self) -> int:
        """How many groups there are; 0 if none is named."""
        return len(self._codes()) if self.group.size else 0

    def drawn(self, draws: int) -> int:
        """How many groups have a part in so many recordings; 0 if none is named."""
        return min(self.groups, draws)

    def stretches(
        self, steps: int, wanted: np.ndarray, rng: np.random.Generator, share: float = 0.5
    ) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Places in made-up recordings, with the series (draws,) and rows (draws, n) in them.

        Recordings are of the `wanted` groups (draws,), counted from 0 and then from 0 again.
        A stretch is at most this `share` of a pure series: below 1, few series make many
        recordings; dependence over time is kept inside a stretch. Stretches keep their place
        within a series, which may start far from where it settles; beyond its end, only ends of
        series follow.
        """
        members = self._members()
        longest = min(int(self.lengths[mine].max()) for mine in members)
        usual = int(np.median(self.lengths[self.lengths > 0]))
        typical = min(usual, longest)  # so that every group has one that is long enough
        whole = min(steps, typical)
        piece = max(1, int(np.ceil(whole * share)))
        enough = [mine[self.lengths[mine] >= whole] for mine in members]
        count = np.array([len(mine) for mine in enough])
        first_of = np.concatenate([[0], np.cumsum(count)[:-1]])
        every, wanted = np.concatenate(enough), wanted % len(members)
        draws = len(wanted)
        shift = rng.integers(0, typical - whole + 1, size=draws)  # short ones start anywhere
        for first in range(0, steps, piece):
            stop = min(first + piece, steps)
            which = every[first_of[wanted] + rng.integers(count[wanted])]
            last = self.lengths[which] - (stop - first)
            start = np.minimum(first + shift, last) if stop <= whole else last
            yield slice(first, stop), which, start[:, None] + np.arange(stop - first)

    def of_another_group(self, normal: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Values (draws,) of recordings of group 0, 1, ... in turn, as a new group has them.

        How far groups lie apart is known from a few of them only: hence Student's t. Of one
        group nothing can be known, and values are left as they are.
        """
        groups = self.drawn(len(normal))
        if groups < 2:
            return normal
        centre = np.array([normal[number::groups].mean() for number in range(groups)])
        within = normal - centre[np.arange(len(normal)) % groups]
        apart = centre.std(ddof=1) * np.sqrt(1 + 1 / groups)
        return centre.mean() + within + apart * rng.standard_t(groups - 1, len(normal))

    def _members(self) -> list[np.ndarray]:
        usable = np.flatnonzero(self.lengths > 0)
        if not self.group.size:
            return [usable]
        return [usable[self.group[usable] == code] for code in self._codes()]

    def _codes(self) -> np.ndarray:
        return np.unique(self.group[self.lengths > 0])


def share_above(normal: np.ndarray, value: float) -> float:
    """p-value of a value among normal ones; never 0, since more draws might exceed it."""
    return float((1 + (normal >= value).sum()) / (1 + len(normal)))


def front(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Each series with its known rows first, (n, T, ...); what follows them is meaningless."""
    order = np.argsort(~known, axis=1, kind="stable")
    return np.take_along_axis(values, order.reshape(*order.shape, *[1] * (values.ndim - 2)), 1)
