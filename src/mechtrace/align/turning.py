"""The turning test: does the evidence notice when two axes are turned in their plane?

Whatever the evidence, it ends in a likelihood. If turning axes i and j by 20 degrees, by 45 or by
-20 makes held-out stretches less likely, the evidence tells the two apart. If not, they form a
block: known as a plane, not as two axes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.stats import norm

ANGLES = np.deg2rad([20.0, 45.0, -20.0])
#: Nats per step that a turn must cost. Errors of the model (a slightly bent latent space, experts
#: not quite alike) cost something too, and with many rows would be "significant".
LEAST_COST = 0.004
#: Probability of a false claim over all pairs of axes, if there were no evidence.
LEVEL = 0.01

#: Axes (d, d) and the pair that may be turned -> log likelihood of each stretch (U,).
Score = Callable[[np.ndarray, tuple[int, int]], np.ndarray]


@dataclass(frozen=True, eq=False)
class Clue:
    """What one kind of evidence says of the axes.

    `cost` and `statistic` are infinite on the diagonal: an axis is told apart from itself.
    """

    kind: str
    rotation: np.ndarray = field(repr=False)  # (d, d), rows are axes in whitened coordinates
    cost: np.ndarray = field(repr=False)  # (d, d), nats per step
    statistic: np.ndarray = field(repr=False)  # (d, d), the cost over its standard error
    facts: dict[str, float] = field(default_factory=dict)
    least: float = LEAST_COST

    @property
    def told_apart(self) -> np.ndarray:
        """Pairs (d, d) that the evidence distinguishes."""
        return (self.cost >= self.least) & (self.statistic >= self.threshold)

    @property
    def threshold(self) -> float:
        """The statistic that a pair must reach; every pair and angle is a chance to err."""
        d = len(self.cost)
        return float(norm.isf(LEVEL / max(1, d * (d - 1) // 2)))

    @property
    def blocks(self) -> list[list[int]]:
        """Axes that are not told apart stay together; an identified axis is alone."""
        return blocks_of(self.told_apart)

    @property
    def identified(self) -> list[int]:
        """Axes that are told apart from every other one."""
        return [block[0] for block in self.blocks if len(block) == 1]

    def strength(self, axis: int) -> tuple[float, float]:
        """Cost of the least noticed turn of an axis, and its p-value over all pairs."""
        other = int(np.argmin(np.where(np.isinf(self.cost[axis]), np.inf, self.statistic[axis])))
        pairs = len(self.cost) * (len(self.cost) - 1) // 2
        p = min(1.0, pairs * float(norm.sf(self.statistic[axis, other])))
        return float(self.cost[axis, other]), p


def blocks_of(told_apart: np.ndarray) -> list[list[int]]:
    """Groups of axes that are linked by a pair that cannot be told apart."""
    count, label = connected_components(~told_apart, directed=False)
    groups = [np.flatnonzero(label == number).tolist() for number in range(count)]
    return sorted(groups, key=lambda group: group[0])


def turn(size: int, i: int, j: int, angle: float) -> np.ndarray:
    """A rotation in the plane of two axes."""
    matrix = np.eye(size)
    matrix[[i, j], [i, j]] = np.cos(angle)
    matrix[i, j], matrix[j, i] = np.sin(angle), -np.sin(angle)
    return matrix


def turn_in_place(
    matrices: np.ndarray, rotation: np.ndarray, i: int, j: int, angle: float
) -> None:
    """One step of a Jacobi sweep: symmetric matrices (m, d, d) and the axes they are seen in."""
    two = turn(2, 0, 1, angle)
    matrices[:, [i, j]] = two @ matrices[:, [i, j]]
    matrices[:, :, [i, j]] = matrices[:, :, [i, j]] @ two.T
    rotation[[i, j]] = two @ rotation[[i, j]]


def turning_test(
    kind: str,
    rotation: np.ndarray,
    score: Score,
    regime: np.ndarray,
    facts: dict[str, float],
    least: float = LEAST_COST,
) -> Clue:
    """Turn every pair and compare the held-out likelihood, stretch by stretch of a regime (U,)."""
    d = len(rotation)
    losses = {}
    for i, j in combinations(range(d), 2):
        straight = score(rotation, (i, j))
        losses[i, j] = [
            straight - score(turn(d, i, j, angle) @ rotation, (i, j)) for angle in ANGLES
        ]
    return judged(kind, rotation, losses, regime, facts, least)


def judged(
    kind: str,
    rotation: np.ndarray,
    losses: dict[tuple[int, int], list[np.ndarray]],
    regime: np.ndarray,
    facts: dict[str, float],
    least: float = LEAST_COST,
) -> Clue:
    """The clue that follows from what each stretch loses by each turn of each pair."""
    d = len(rotation)
    cost, statistic = np.full((d, d), np.inf), np.full((d, d), np.inf)
    for (i, j), by_angle in losses.items():
        weakest = min((paired(loss, regime) for loss in by_angle), key=lambda found: found[1])
        cost[i, j], statistic[i, j] = cost[j, i], statistic[j, i] = weakest
    return Clue(kind, rotation, cost, statistic, facts, least)


def paired(difference: np.ndarray, regime: np.ndarray) -> tuple[float, float]:
    """Mean of a difference over stretches, and the mean over its standard error.

    Every regime counts the same, and so its stretches are compared with each other only.
    """
    means, variances = [], []
    for k in np.unique(regime):
        mine = difference[regime == k]
        means.append(mine.mean())
        variances.append(mine.var(ddof=1) / len(mine) if len(mine) > 1 else np.inf)
    mean, error = float(np.mean(means)), float(np.sqrt(np.sum(variances)) / len(means))
    return mean, mean / error if error > 0 else 0.0
