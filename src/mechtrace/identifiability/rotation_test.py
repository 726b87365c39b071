"""Rotation test: the held-out likelihood lost by rotating two axes in their plane.

Every kind of evidence defines a likelihood. If rotating axes i and j by 20, 45 or -20 degrees
lowers the likelihood of held-out stretches, the evidence distinguishes the two axes. Axes that it
does not distinguish form a subspace: known as a plane, not as two axes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.stats import norm

ANGLES = np.deg2rad([20.0, 45.0, -20.0])
#: Nats per step that a rotation must lose. Errors of the model (a slightly curved latent space,
#: experts that differ a little) lose something too, which many rows make "significant".
MIN_LOSS = 0.004
#: Probability of a false claim over all pairs of axes under no evidence.
LEVEL = 0.01

#: Axes (d, d) and the pair to rotate -> log likelihood of each stretch (U,).
Score = Callable[[np.ndarray, tuple[int, int]], np.ndarray]


@dataclass(frozen=True, eq=False)
class RotationEvidence:
    """Result of the rotation test for one kind of evidence.

    `loss` is the likelihood lost by rotating a pair of axes in nats per step, `statistic` the loss
    over its standard error; both are infinite on the diagonal.
    """

    kind: str
    rotation: np.ndarray = field(repr=False)  # (d, d), rows are axes in whitened coordinates
    loss: np.ndarray = field(repr=False)  # (d, d)
    statistic: np.ndarray = field(repr=False)  # (d, d)
    facts: dict[str, float] = field(default_factory=dict)
    min_loss: float = MIN_LOSS

    @property
    def subspaces(self) -> list[list[int]]:
        """Axes grouped by what is not distinguished; an identified axis is alone."""
        threshold = norm.isf(LEVEL / max(1, self._pairs))  # Bonferroni
        return connected(~((self.loss >= self.min_loss) & (self.statistic >= threshold)))

    @property
    def identified(self) -> list[int]:
        """Axes that are distinguished from every other one."""
        return [axes[0] for axes in self.subspaces if len(axes) == 1]

    def strength(self, axis: int) -> tuple[float, float]:
        """Return the loss of the axis's least significant rotation and its corrected p-value."""
        other = int(np.argmin(np.where(np.isinf(self.loss[axis]), np.inf, self.statistic[axis])))
        p = min(1.0, self._pairs * float(norm.sf(self.statistic[axis, other])))
        return float(self.loss[axis, other]), p

    @property
    def _pairs(self) -> int:
        return len(self.loss) * (len(self.loss) - 1) // 2


def connected(linked: np.ndarray) -> list[list[int]]:
    """Group the indices of a symmetric relation (d, d) into connected components.

    >>> connected(np.array([[1, 0, 1], [0, 1, 0], [1, 0, 1]], bool))
    [[0, 2], [1]]
    """
    count, label = connected_components(linked, directed=False)
    groups = [np.flatnonzero(label == number).tolist() for number in range(count)]
    return sorted(groups, key=lambda group: group[0])


def givens_rotation(size: int, i: int, j: int, angle: float) -> np.ndarray:
    """Rotation matrix (size, size) in the plane of axes i and j by an angle in radians."""
    matrix = np.eye(size)
    matrix[[i, j], [i, j]] = np.cos(angle)
    matrix[i, j], matrix[j, i] = np.sin(angle), -np.sin(angle)
    return matrix


def jacobi_step(matrices: np.ndarray, rotation: np.ndarray, i: int, j: int, angle: float) -> None:
    """Rotate symmetric matrices (m, d, d) and their axes (d, d) in place."""
    two = givens_rotation(2, 0, 1, angle)
    matrices[:, [i, j]] = two @ matrices[:, [i, j]]
    matrices[:, :, [i, j]] = matrices[:, :, [i, j]] @ two.T
    rotation[[i, j]] = two @ rotation[[i, j]]


def random_rotations(count: int, size: int, random: np.random.Generator) -> np.ndarray:
    """Draw orthogonal matrices (count, size, size); the first is the identity."""
    drawn = random.standard_normal((count, size, size))
    drawn[0] = np.eye(size)
    return np.linalg.qr(drawn)[0]


def rotation_test(
    kind: str,
    rotation: np.ndarray,
    score: Score,
    regime: np.ndarray,
    facts: dict[str, float],
    min_loss: float = MIN_LOSS,
) -> RotationEvidence:
    """Rotate every pair of axes and compare the held-out likelihood of stretches (U,)."""
    d = len(rotation)
    losses = {}
    for i, j in combinations(range(d), 2):
        straight = score(rotation, (i, j))
        rotated = (givens_rotation(d, i, j, angle) @ rotation for angle in ANGLES)
        losses[i, j] = [straight - score(axes, (i, j)) for axes in rotated]
    return evidence_of_losses(kind, rotation, losses, regime, facts, min_loss)


def evidence_of_losses(
    kind: str,
    rotation: np.ndarray,
    losses: dict[tuple[int, int], list[np.ndarray]],
    regime: np.ndarray,
    facts: dict[str, float],
    min_loss: float = MIN_LOSS,
) -> RotationEvidence:
    """Summarise the losses (U,) of each pair and angle; the least significant angle counts."""
    d = len(rotation)
    loss, statistic = np.full((d, d), np.inf), np.full((d, d), np.inf)
    for (i, j), by_angle in losses.items():
        weakest = min((paired_mean(each, regime) for each in by_angle), key=lambda pair: pair[1])
        loss[i, j], statistic[i, j] = loss[j, i], statistic[j, i] = weakest
    return RotationEvidence(kind, rotation, loss, statistic, facts, min_loss)


def paired_mean(difference: np.ndarray, regime: np.ndarray) -> tuple[float, float]:
    """Return the mean over stretches (U,), regimes weighted equally, and mean over its error."""
    means, variances = [], []
    for k in np.unique(regime):
        mine = difference[regime == k]
        means.append(mine.mean())
        variances.append(mine.var(ddof=1) / len(mine) if len(mine) > 1 else np.inf)
    mean, error = float(np.mean(means)), float(np.sqrt(np.sum(variances)) / len(means))
    return mean, mean / error if error > 0 else 0.0
