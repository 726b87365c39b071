"""Evidence in what is seen: axes whose effects on the key points of a picture add up.

Some latents move the picture of the same step and others do not: where the noise is white, the
two kinds span orthogonal spaces. Among those that do, a point that follows several mostly adds
their effects: the tip of a pole moves along with its cart and in a bow with its angle. In turned
axes the bow would depend on two latents together. So axes are fixed as far as effects are bent
(additive decoders, Lachapelle et al. 2023); where all are straight, nothing is claimed.
"""

from __future__ import annotations

from itertools import combinations
from typing import cast

import numpy as np

from ..visible import LEAST_SHOWN
from .noise import random_rotations
from .rows import Rows
from .turning import Clue, turn, turning_test

ADDITIVE = "additive view"

POWERS = 3
RESTARTS, SWEEPS = 3, 4
SEARCHED_ROWS = 6_000
GRID = np.deg2rad(np.arange(-45.0, 45.0, 3.0))
FINE = np.deg2rad(np.arange(-3.0, 3.01, 0.5))
#: Parts of a channel's variance below which its noise is not believed.
NOISE_FLOOR = 1e-4


def additive_view(train: Rows, test: Rows) -> Clue:
    """Visible axes first, turned until their effects add up; hidden ones behind, as they come."""
    basis, visible = visible_first(train)
    seen = _Seen.of(train.where(_some(train)).mapped(basis[:visible]))
    starts = random_rotations(RESTARTS, visible)
    found = max((_search(seen, start) for start in starts), key=lambda pair: pair[1])[0]
    rotation = basis.copy()
    rotation[:visible] = found @ basis[:visible]
    known, new = _Seen.of(train), _Seen.of(test)

    def score(axes: np.ndarray, pair: tuple[int, int]) -> np.ndarray:
        if min(pair) >= visible:  # what is not seen can be turned as one likes
            return np.zeros(len(test.regime_of_unit))
        return test.by_unit(_likelihood(known, new, axes[:visible]))

    facts = {"visible": float(visible)}
    return turning_test(ADDITIVE, rotation, score, test.regime_of_unit, facts)


def visible_first(rows: Rows) -> tuple[np.ndarray, int]:
    """A rotation whose first axes span what moves the picture, and how many these are."""
    shown = cast(np.ndarray, rows.shown)
    design = rows.value - rows.value.mean(axis=0)
    effects = np.linalg.lstsq(design, shown - shown.mean(axis=0), rcond=None)[0]
    _, size, axes = np.linalg.svd(effects.T, full_matrices=True)
    return axes, max(1, int((size >= LEAST_SHOWN * size[0]).sum()))


class _Seen:
    """Latents (N, d) and the channels (N, C) that a picture of the same step shows."""

    def __init__(self, latents: np.ndarray, shown: np.ndarray) -> None:
        self.latents, self.shown = latents, shown

    @classmethod
    def of(cls, rows: Rows) -> _Seen:
        return cls(rows.value, cast(np.ndarray, rows.shown))


def _likelihood(known: _Seen, new: _Seen, axes: np.ndarray) -> np.ndarray:
    """Log likelihood (N,) of new channels as sums of functions of single axes, fitted to known."""
    centre, spread = known.latents.mean(axis=0), (known.latents @ axes.T).std(axis=0)

    def powers(latents: np.ndarray) -> np.ndarray:
        u = (latents - centre) @ axes.T / spread
        return np.column_stack([np.ones(len(u)), *(u**power for power in range(1, POWERS + 1))])

    design = powers(known.latents)
    fitted = np.linalg.lstsq(design, known.shown, rcond=None)[0]
    floor = NOISE_FLOOR * known.shown.var(axis=0) + 1e-30
    noise = ((known.shown - design @ fitted) ** 2).mean(axis=0) + floor
    error = new.shown - powers(new.latents) @ fitted
    return -0.5 * (error**2 / noise + np.log(noise)).sum(axis=1)


def _search(seen: _Seen, rotation: np.ndarray) -> tuple[np.ndarray, float]:
    """Turn pair after pair to its best angle, first in large steps and then in small ones."""
    size = len(rotation)
    best = float(_likelihood(seen, seen, rotation).mean())
    for sweep in range(SWEEPS):
        before = best
        for i, j in combinations(range(size), 2):
            turned = [turn(size, i, j, angle) @ rotation for angle in (GRID, FINE)[sweep > 0]]
            scores = [float(_likelihood(seen, seen, axes).mean()) for axes in turned]
            if max(scores) > best:
                best, rotation = max(scores), turned[int(np.argmax(scores))]
        if sweep > 0 and best - before < 1e-6:
            break
    return rotation, best


def _some(rows: Rows) -> np.ndarray:
    """A mask of as many rows as the search needs."""
    keep = np.zeros(len(rows.value), bool)
    keep[np.random.default_rng(0).permutation(len(keep))[:SEARCHED_ROWS]] = True
    return keep
