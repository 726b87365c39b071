"""Batches of crops for training, balanced over regimes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .segments import Runs


@dataclass(eq=False)
class CropSampler:
    """Balanced batches of crops: B of each of K regimes, a function of seed and step alone.

    A run longer than the crop is cropped at a random place; a shorter one is used whole.

    Parameters
    ----------
    runs : Runs
        Runs to crop.
    regimes : int
        Number of regimes K.
    per_regime : int
        Crops of each regime in a batch, B.
    length : int
        Rows of a crop.
    seed : int
        Seed of the draws.
    """

    runs: Runs
    regimes: int
    per_regime: int
    length: int
    seed: int
    _slots: list[np.ndarray] = field(init=False, repr=False)
    _orders: dict[tuple[int, int], np.ndarray] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """List the runs of each regime, once for each crop that they can fill."""
        fills = np.maximum(1, self.runs.length // self.length)
        self._slots = []
        for code in range(self.regimes):
            mine = np.flatnonzero(self.runs.regime == code)
            self._slots.append(np.repeat(mine, fills[mine]))
        self._orders = {}

    @property
    def padded(self) -> bool:
        """Whether some crops are shorter than `length`."""
        return bool((self.runs.length < self.length).any())

    def batch(self, step: int) -> tuple[np.ndarray, np.ndarray]:
        """Return first rows and lengths, both (K, B), of the crops of a step."""
        chosen = np.stack([self._choose(code, step) for code in range(self.regimes)])
        length = np.minimum(self.runs.length[chosen], self.length)
        free = self.runs.length[chosen] - length
        start = self.runs.start[chosen]
        if free.any():
            place = np.random.default_rng([self.seed, 11, step]).random(chosen.shape)
            start = start + np.floor(place * (free + 1)).astype(np.int64)
        return start, length

    def _choose(self, code: int, step: int) -> np.ndarray:
        slots = self._slots[code]
        position = step * self.per_regime + np.arange(self.per_regime)
        epoch, place = np.divmod(position, len(slots))
        if epoch[0] == epoch[-1]:
            return slots[self._order(code, int(epoch[0]))[place]]
        picked = [self._order(code, int(e))[p] for e, p in zip(epoch, place, strict=True)]
        return slots[np.array(picked)]

    def _order(self, code: int, epoch: int) -> np.ndarray:
        key = (code, epoch)
        if key not in self._orders:
            self._orders = {
                k: v for k, v in self._orders.items() if k[0] != code or k[1] >= epoch - 1
            }
            rng = np.random.default_rng([self.seed, 13, code, epoch])
            self._orders[key] = rng.permutation(len(self._slots[code]))
        return self._orders[key]
