"""Which features of recordings differ between two regimes by more than chance.

The regime names of the recordings are exchanged at random, within a block (a group, or a series
that shows several regimes) where blocks hold both: what all recordings of a machine have in common
is no difference between regimes. The largest statistic of any feature under exchanged names is the
measure, so that the probability of even one false difference, over all features and pairs of
regimes, is at most `LEVEL`.
"""

from __future__ import annotations

from math import comb
from typing import NamedTuple

import numpy as np

#: Probability of any false difference.
LEVEL = 0.05
#: Exchanges at least, and for each pair of regimes.
EXCHANGES, PER_PAIR = 1000, 25
#: More regimes are not compared: the correction for so many pairs would leave nothing.
MOST_REGIMES = 20
#: Effect sizes are cut off here.
LARGEST = 99.0
#: Differences up to this share are zero but for rounding.
ROUNDING = 1e-9


class Differences(NamedTuple):
    """Of F features between K regimes."""

    effect: np.ndarray  # (K, K, F): [a, b] a less b, in deviations between recordings
    p_value: np.ndarray  # (K, K, F), corrected for all features and pairs
    testable: np.ndarray  # (K, K): whether there are recordings enough to tell


def differences(
    features: np.ndarray, regime: np.ndarray, block: np.ndarray, kinds: int, seed: int
) -> Differences:
    """Compare n recordings with features (n, F), regimes (n,) and blocks (n,) pair by pair."""
    effect, p_value = np.zeros((2, kinds, kinds, features.shape[1]))
    p_value += 1.0
    testable = np.zeros((kinds, kinds), bool)
    pairs = kinds * (kinds - 1) // 2
    for a in range(kinds) if kinds <= MOST_REGIMES else ():
        for b in range(a + 1, kinds):
            mine = np.flatnonzero((regime == a) | (regime == b))
            first = regime[mine] == a
            if not 0 < first.sum() < len(first):
                continue
            blocks, values = _blocks(block[mine], first), _filled(features[mine])
            rng = np.random.default_rng([seed, a, b])
            exchanges = max(EXCHANGES, PER_PAIR * pairs)
            gap = _contrast(first, blocks) @ values
            spread = _spread(values, first, blocks)
            size = gap / np.maximum(np.maximum(spread, np.abs(gap) / LARGEST), 1e-300)
            effect[a, b], effect[b, a] = size, -size
            testable[a, b] = testable[b, a] = _arrangements(first, blocks) * LEVEL > 2 * pairs
            names = _exchanged(first, blocks, exchanges, rng)
            by_chance = _contrast(names, blocks) @ values
            usual = np.sqrt((by_chance**2).mean(axis=0)) + ROUNDING * np.abs(values).max(axis=0)
            usual = np.where(usual > 0, usual, 1.0)
            largest = (np.abs(by_chance) / usual).max(axis=1)
            more = (largest[:, None] >= np.abs(gap) / usual - ROUNDING).sum(axis=0)
            p_value[a, b] = p_value[b, a] = np.minimum(1.0, pairs * (1 + more) / (1 + exchanges))
    return Differences(effect, p_value, testable)


def _blocks(block: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Numbers (n,) of blocks if most recordings are in some with both regimes; else zeros."""
    number = np.unique(block, return_inverse=True)[1]
    both = (np.bincount(number, first) > 0) & (np.bincount(number, ~first) > 0)
    return number if both[number].mean() > 0.5 else np.zeros_like(number)


def _contrast(first: np.ndarray, blocks: np.ndarray) -> np.ndarray:
    """Weights (..., n) of the difference of means within blocks, averaged over blocks.

    For names `first` (..., n) of which each block has as many.
    """
    mine, all_ = np.bincount(blocks, first.reshape(-1, len(blocks))[0]), np.bincount(blocks)
    others = all_ - mine
    weight = mine * others / all_
    weight /= max(float(weight.sum()), 1e-300)
    gain, loss = weight / np.maximum(mine, 1), weight / np.maximum(others, 1)
    return np.where(first, gain[blocks], -loss[blocks])


def _exchanged(
    first: np.ndarray, blocks: np.ndarray, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Names (count, n) in other orders within each block."""
    order = np.argsort(blocks + rng.random((count, len(first))), axis=1)
    out = np.empty(order.shape, bool)
    np.put_along_axis(out, order, first[None, np.argsort(blocks, kind="stable")], axis=1)
    return out


def _spread(values: np.ndarray, first: np.ndarray, blocks: np.ndarray) -> np.ndarray:
    """Standard deviation (F,) of recordings of one regime in one block."""
    cell = np.unique(2 * blocks + first, return_inverse=True)[1]
    total = np.zeros((cell.max() + 1, values.shape[1]))
    np.add.at(total, cell, values)
    left = values - (total / np.bincount(cell)[:, None])[cell]
    return np.asarray(np.sqrt((left**2).sum(axis=0) / max(len(values) - len(total), 1)))


def _arrangements(first: np.ndarray, blocks: np.ndarray) -> int:
    """Count the ways in which names can be exchanged."""
    out = 1
    for size, mine in zip(np.bincount(blocks), np.bincount(blocks, first), strict=True):
        out *= comb(int(size), int(mine))
    return out


def _filled(values: np.ndarray) -> np.ndarray:
    """Replace what is not known by the mean of all."""
    known = np.isfinite(values)
    mean = np.where(known, values, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return np.where(known, values, mean)
