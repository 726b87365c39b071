"""Evidence in what changes: axes in which few mechanisms differ between regimes.

No form is assumed. In whitened coordinates half the squared difference of two experts is what
confusing them costs, in nats. If regimes differ in a few mechanisms only, most of these costs
vanish in the right axes and in no others; if every mechanism differs, turning changes nothing.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from .noise import random_rotations
from .rows import Rows
from .turning import Clue, Score, paired, turn_in_place, turning_test

CHANGE = "sparse mechanism change"

RESTARTS = 6
#: Rows on which experts are compared, and pairs of regimes at most.
COMPARED, PAIRS = 8_000, 100
TYPICAL_ROWS = 2_000
GRID = np.linspace(-np.pi / 4, np.pi / 4, 45, endpoint=False)
#: A mechanism differs if sharing it costs so many nats per step, that many standard errors.
LEAST_GAIN, LEAST_STATISTIC = 0.01, 4.0
#: If more mechanisms differ than this share of all, changes are not sparse, and claim nothing.
MOST_CHANGED = 0.5
#: What an axis that is off by 14 degrees sees of its neighbour's change, as a share of it: less
#: than that is no change of its own.
LEAKAGE = 0.06


def sparse_change(train: Rows, test: Rows) -> Clue:
    """Axes in which the differences between experts are concentrated."""
    rotation = concentrated_axes(differences(train))
    gain, differs = gains_of_own(test, rotation)
    share = float(differs.mean())
    present = differs & (gain >= LEAKAGE * gain.max(axis=1, keepdims=True))
    if share > MOST_CHANGED:
        present[:] = False
    facts = {"changed": float(present.sum()), "share_changed": share}
    score = score_of_change(train, test, present)
    return turning_test(CHANGE, rotation, score, test.regime_of_unit, facts)


def score_of_change(train: Rows, test: Rows, present: np.ndarray) -> Score:
    """What is lost if regimes may have only as many own mechanisms as the straight axes need.

    `present` (K, d) marks these. All others have to be shared, at the cost of their gain.
    """
    regime = test.regime_of_unit

    def by_axis(rows: Rows, axes: np.ndarray) -> np.ndarray:
        return np.stack([gain_of_own(rows, axis) for axis in axes], axis=1)

    def score(axes: np.ndarray, pair: tuple[int, int]) -> np.ndarray:
        count = int(present[:, list(pair)].sum())
        if count == 0:
            return np.zeros(len(regime))
        two = axes[list(pair)]
        known = _by_regime(train, by_axis(train, two))
        shared = np.ones(known.size, bool)
        shared[np.argsort(known, axis=None)[known.size - count :]] = False
        lost = by_axis(test, two) * shared.reshape(known.shape)[test.regime]
        # a change of one regime is a matter of its own steps: count nats per step of a regime
        return -test.regimes * test.by_unit(lost.sum(axis=1))

    return score


def gain_of_own(rows: Rows, axis: np.ndarray) -> np.ndarray:
    """Nats by which each row's own expert beats what the regimes have in common, (N,)."""
    expected = rows.expected @ axis
    own = expected[np.arange(len(expected)), rows.regime]
    value, shared = rows.value @ axis, expected[:, _most_typical(expected)]
    return 0.5 * ((value - shared) ** 2 - (value - own) ** 2)


def _most_typical(expected: np.ndarray) -> int:
    """The regime whose expert (N, K) is nearest to the others: most agree with it, if any do.

    A median over regimes would belong to none of them where half have changed.
    """
    some = expected[:: 1 + len(expected) // TYPICAL_ROWS]
    moment = some.T @ some / len(some)
    power = np.diag(moment)
    apart = np.sqrt(np.maximum(power[:, None] + power - 2 * moment, 0.0))
    return int(apart.sum(axis=1).argmin())


def gains_of_own(rows: Rows, axes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nats (K, d) that each regime gains by a mechanism of its own, and whether it needs one."""
    regime = rows.regime_of_unit
    gain, needed = np.zeros((rows.regimes, len(axes))), np.zeros((rows.regimes, len(axes)), bool)
    for number, axis in enumerate(axes):
        of_unit = rows.by_unit(gain_of_own(rows, axis))
        for k in range(rows.regimes):
            mine = regime == k
            gain[k, number], statistic = paired(of_unit[mine], regime[mine])
            needed[k, number] = gain[k, number] >= LEAST_GAIN and statistic >= LEAST_STATISTIC
    return gain, needed


def differences(rows: Rows) -> np.ndarray:
    """Second moments (m, d, d) of what two regimes' experts expect differently, pair by pair."""
    random = np.random.default_rng(0)
    chosen = random.permutation(len(rows.value))[:COMPARED]
    pairs = np.array(list(combinations(range(rows.regimes), 2)))
    if len(pairs) > PAIRS:
        pairs = pairs[random.permutation(len(pairs))[:PAIRS]]
    expected = rows.expected[chosen]
    moments = []
    for first, second in pairs:
        apart = expected[:, first] - expected[:, second]
        moments.append(apart.T @ apart / len(apart))
    return np.stack(moments)


def concentrated_axes(moments: np.ndarray) -> np.ndarray:
    """Rotation with the least sum over axes and pairs of the root mean square difference."""
    starts = random_rotations(RESTARTS, moments.shape[-1])
    found = [_concentrate(moments, start) for start in starts]
    return min(found, key=lambda pair: pair[1])[0]


def _concentrate(
    moments: np.ndarray, rotation: np.ndarray, sweeps: int = 40
) -> tuple[np.ndarray, float]:
    """Turn pair after pair to its best angle, until nothing moves."""
    # below about a hundredth of a noise scale, differences are errors of the experts
    smooth = 1e-4
    moments = rotation @ moments @ rotation.T
    rotation = rotation.copy()

    def sizes(angle: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
        first = cos**2 * a + sin**2 * b + 2 * cos * sin * c
        second = np.maximum(a + b - first, 0.0)
        total = np.sqrt(np.maximum(first, 0.0) + smooth) + np.sqrt(second + smooth)
        return total.sum(axis=1)

    for _ in range(sweeps):
        largest = 0.0
        for i, j in combinations(range(len(rotation)), 2):
            parts = moments[:, i, i], moments[:, j, j], moments[:, i, j]
            coarse = GRID[np.argmin(sizes(GRID, *parts))]
            fine = coarse + (GRID[1] - GRID[0]) * np.linspace(-1, 1, 41)
            angle = fine[np.argmin(sizes(fine, *parts))]
            if sizes(np.array([angle, 0.0]), *parts) @ [1, -1] > -1e-9:
                continue
            turn_in_place(moments, rotation, i, j, angle)
            largest = max(largest, abs(angle))
        if largest < 1e-3:
            break
    diagonal = np.maximum(np.diagonal(moments, axis1=1, axis2=2), 0.0)
    return rotation, float(np.sqrt(diagonal + smooth).sum())


def _by_regime(rows: Rows, values: np.ndarray) -> np.ndarray:
    """Means (K, m) of values (N, m) over the rows of each regime."""
    count = np.bincount(rows.regime, minlength=rows.regimes)
    total = [np.bincount(rows.regime, column, minlength=rows.regimes) for column in values.T]
    return np.stack(total, axis=1) / np.maximum(count, 1)[:, None]
