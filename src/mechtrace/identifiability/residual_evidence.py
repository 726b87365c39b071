"""Evidence from residuals: non-Gaussian noise, regime-dependent noise, sparse mechanism change.

- Independent non-Gaussian noise is independent in one set of axes only: independent component
  analysis of the residuals.
- Noise whose variances differ between regimes has covariances that are diagonal in one set of
  axes: joint diagonalisation.
- In whitened coordinates half the squared difference of two experts' predictions is the
  likelihood lost by exchanging them, in nats. If regimes differ in few mechanisms, most of these
  losses vanish in the right axes only: sparse mechanism change. No mechanism form is assumed.

None of these needs a history, so each can be tested within a subspace too.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product

import numpy as np
from scipy.linalg import svd

from .._runtime.stochastic import generator
from .rotation_test import (
    RotationEvidence,
    Score,
    jacobi_step,
    paired_mean,
    random_rotations,
    rotation_test,
)
from .transitions import Transitions, TransitionSplit, inverse_square_root

NON_GAUSSIAN_NOISE = "non-Gaussian noise"
REGIME_DEPENDENT_NOISE = "regime-dependent noise"
SPARSE_CHANGE = "sparse mechanism change"

#: Variance of white residuals in a regime, at least, where it divides.
LEAST_VARIANCE = 1e-12
#: Starts of the searches for independent components and for sparse changes.
ICA_STARTS, SPARSE_STARTS = 4, 6
#: In a curved latent space Gaussian noise looks non-Gaussian, by up to 0.006 nats per step;
#: rotating Laplace noise loses 0.04.
MIN_NON_GAUSSIAN_LOSS = 0.01
#: Grid and Gaussian dictionary for the density of one standardised component.
EDGES = np.linspace(-6.0, 6.0, 121)
CENTRES = 0.5 * (EDGES[1:] + EDGES[:-1])
COMPONENTS = [
    *product(np.linspace(-4, 4, 17), [0.4]),
    *product([0.0], np.geomspace(0.15, 3.0, 12)),
]
DICTIONARY = np.stack(
    [np.exp(-0.5 * ((CENTRES - m) / s) ** 2) / (s * np.sqrt(2 * np.pi)) for m, s in COMPONENTS]
)
#: E[log cosh] of a standard normal.
GAUSSIAN_CONTRAST = 0.374567
#: Largest number of transitions and of pairs of regimes on which experts are compared.
COMPARED, PAIRS = 8_000, 100
TYPICAL_ROWS = 2_000
GRID = np.linspace(-np.pi / 4, np.pi / 4, 45, endpoint=False)
#: A mechanism differs if sharing it loses this many nats per step and standard errors.
MIN_GAIN, MIN_STATISTIC = 0.01, 4.0
#: If more than this share of the mechanisms differ, changes are not sparse: nothing is claimed.
MAX_CHANGED = 0.5
#: Share of a neighbour's change that leaks into an axis rotated by 14 degrees; a smaller gain is
#: not a change of the axis itself.
LEAKAGE = 0.06
#: Squared differences below this, a hundredth of a noise scale, are errors of the experts.
SMOOTH = 1e-4


# -- non-Gaussian noise ------------------------------------------------------------------------


def non_gaussian_noise(parts: TransitionSplit) -> RotationEvidence:
    """Find axes of independent noise by FastICA from several starts, and test them."""
    known, new = _whitened(parts.fit, parts.test)
    random = generator(parts.seed, NON_GAUSSIAN_NOISE)

    def contrast(rotation: np.ndarray) -> float:
        log_cosh = np.logaddexp(known @ rotation.T, -known @ rotation.T).mean(axis=0) - np.log(2)
        return float(((log_cosh - GAUSSIAN_CONTRAST) ** 2).sum())

    starts = random_rotations(ICA_STARTS, known.shape[1], random)
    rotation = max((_fast_ica(known, start) for start in starts), key=contrast)
    gain = [
        (_log_density_of(axis, known, new) + 0.5 * (new @ axis) ** 2).mean() for axis in rotation
    ]
    facts = {"nats_over_gaussian": float(np.mean(gain) + 0.5 * np.log(2 * np.pi))}
    score, regime = non_gaussian_score(parts.fit, parts.test), parts.test.regime_of_unit
    return rotation_test(NON_GAUSSIAN_NOISE, rotation, score, regime, facts, MIN_NON_GAUSSIAN_LOSS)


def non_gaussian_score(train: Transitions, test: Transitions) -> Score:
    """Score axes by the likelihood of independent noise of any density."""
    known, new = _whitened(train, test)

    def score(axes: np.ndarray, pair: tuple[int, int]) -> np.ndarray:
        first, second = (_log_density_of(axes[axis], known, new) for axis in pair)
        return test.by_unit(first + second)

    return score


def _whitened(train: Transitions, test: Transitions) -> tuple[np.ndarray, np.ndarray]:
    """Whiten the residuals by regime; otherwise variances by regime would look non-Gaussian."""
    whitening = inverse_square_root(train.residual_covariances)
    known, new = (
        np.einsum("nij,nj->ni", whitening[part.regime], part.residual) for part in (train, test)
    )
    return known, new


def _fast_ica(x: np.ndarray, rotation: np.ndarray, steps: int = 200) -> np.ndarray:
    """Run the symmetric fixed-point iteration (Hyvarinen 1999) with tanh on whitened x (N, d)."""
    for _ in range(steps):
        g = np.tanh(x @ rotation.T)
        update = g.T @ x / len(x) - (1 - g * g).mean(axis=0)[:, None] * rotation
        left, _, right = svd(update)
        before, rotation = rotation, left @ right
        if np.abs(np.abs((before * rotation).sum(axis=1)) - 1).max() < 1e-7:
            break
    return rotation


def _log_density_of(
    axis: np.ndarray, known: np.ndarray, new: np.ndarray, steps: int = 60
) -> np.ndarray:
    """Evaluate at new rows (N,) the log density along an axis estimated from known rows.

    The density is a mixture of fixed Gaussians, whose weights are fitted by EM.
    """
    x = known @ axis
    count = np.histogram(np.clip(x, EDGES[0], EDGES[-1]), EDGES)[0] / len(x)
    share = np.full(len(DICTIONARY), 1 / len(DICTIONARY))
    for _ in range(steps):
        share = share * (DICTIONARY @ (count / (share @ DICTIONARY)))
    return np.interp(new @ axis, CENTRES, np.log(share @ DICTIONARY))


# -- regime-dependent noise --------------------------------------------------------------------


def regime_dependent_noise(parts: TransitionSplit) -> RotationEvidence:
    """Find axes in which the covariances of all regimes are diagonal, and test them."""
    covariances = parts.fit.residual_covariances
    rotation = joint_diagonaliser(covariances)
    variance = np.einsum("ai,kij,aj->ka", rotation, covariances, rotation)
    facts = {"largest_variance_ratio": float((variance.max(0) / variance.min(0)).max())}
    score, regime = regime_variance_score(parts.fit, parts.test), parts.test.regime_of_unit
    return rotation_test(REGIME_DEPENDENT_NOISE, rotation, score, regime, facts)


def regime_variance_score(train: Transitions, test: Transitions) -> Score:
    """Score axes by independent Gaussian noise with a variance for each axis and regime."""
    covariances, residual = train.residual_covariances, test.residual

    def score(axes: np.ndarray, pair: tuple[int, int]) -> np.ndarray:
        two = axes[list(pair)]
        variance = np.einsum("ai,kij,aj->ka", two, covariances, two)
        variance = np.maximum(variance, LEAST_VARIANCE)[test.regime]  # a latent may rest in one
        loss = (residual @ two.T) ** 2 / variance + np.log(variance)
        return test.by_unit(-0.5 * loss.sum(axis=1))

    return score


def joint_diagonaliser(matrices: np.ndarray, sweeps: int = 100) -> np.ndarray:
    """Rotate symmetric matrices (K, d, d) to be as diagonal as possible (Jacobi sweeps)."""
    d = matrices.shape[-1]
    rotation = np.linalg.eigh(np.tensordot(np.arange(1, len(matrices) + 1), matrices, 1))[1].T
    rotated = rotation @ matrices @ rotation.T
    for _ in range(sweeps):
        largest = 0.0
        for i, j in combinations(range(d), 2):
            a, b = rotated[:, i, i] - rotated[:, j, j], 2 * rotated[:, i, j]
            angle = 0.25 * np.arctan2(2 * (a * b).sum(), (a * a - b * b).sum())
            jacobi_step(rotated, rotation, i, j, angle)
            largest = max(largest, abs(angle))
        if largest < 1e-9:
            break
    return rotation


# -- sparse mechanism change -------------------------------------------------------------------


def sparse_change(parts: TransitionSplit) -> RotationEvidence:
    """Find axes that concentrate the differences between experts, and test them."""
    random = generator(parts.seed, SPARSE_CHANGE)
    moments = _prediction_differences(parts.fit, random)
    starts = random_rotations(SPARSE_STARTS, moments.shape[-1], random)
    found = [_concentrate(moments, start) for start in starts]
    rotation = min(found, key=lambda pair: pair[1])[0]
    gain, differs = _gains_of_own_mechanisms(parts.selection, rotation)
    share = float(differs.mean())
    present = differs & (gain >= LEAKAGE * gain.max(axis=1, keepdims=True))
    if share > MAX_CHANGED:
        present[:] = False
    facts = {"changed": float(present.sum()), "share_changed": share}
    score = sparse_change_score(parts.fit, parts.test, present)
    return rotation_test(SPARSE_CHANGE, rotation, score, parts.test.regime_of_unit, facts)


def sparse_change_score(train: Transitions, test: Transitions, present: np.ndarray) -> Score:
    """Score axes by the likelihood lost if only as many mechanisms as before may differ.

    `present` (K, d): mechanisms of each regime that differ in the unrotated axes.
    """
    regime = test.regime_of_unit

    def by_axis(rows: Transitions, axes: np.ndarray) -> np.ndarray:
        return np.stack([_gain_of_own_mechanism(rows, axis) for axis in axes], axis=1)

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


def _gain_of_own_mechanism(rows: Transitions, axis: np.ndarray) -> np.ndarray:
    """Log likelihood gained by the own expert over the most typical one, (N,)."""
    expected = rows.expected @ axis
    own = expected[np.arange(len(expected)), rows.regime]
    value, shared = rows.value @ axis, expected[:, _most_typical(expected)]
    return 0.5 * ((value - shared) ** 2 - (value - own) ** 2)


def _most_typical(expected: np.ndarray) -> int:
    """Return the regime whose predictions (N, K) are nearest to the others.

    A median over regimes would belong to none of them where half have changed.
    """
    some = expected[:: 1 + len(expected) // TYPICAL_ROWS]
    moment = some.T @ some / len(some)
    power = np.diag(moment)
    apart = np.sqrt(np.maximum(power[:, None] + power - 2 * moment, 0.0))
    return int(apart.sum(axis=1).argmin())


def _gains_of_own_mechanisms(rows: Transitions, axes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each regime's gain (K, d) by mechanisms of its own, and which are significant."""
    regime = rows.regime_of_unit
    gain, needed = np.zeros((rows.regimes, len(axes))), np.zeros((rows.regimes, len(axes)), bool)
    for number, axis in enumerate(axes):
        of_unit = rows.by_unit(_gain_of_own_mechanism(rows, axis))
        for k in range(rows.regimes):
            mine = regime == k
            gain[k, number], statistic = paired_mean(of_unit[mine], regime[mine])
            needed[k, number] = gain[k, number] >= MIN_GAIN and statistic >= MIN_STATISTIC
    return gain, needed


def _prediction_differences(rows: Transitions, random: np.random.Generator) -> np.ndarray:
    """Second moments (m, d, d) of the difference between experts, for pairs of regimes."""
    expected = rows.expected[random.permutation(len(rows.value))[:COMPARED]]
    pairs = np.array(list(combinations(range(rows.regimes), 2)))
    if len(pairs) > PAIRS:
        pairs = pairs[random.permutation(len(pairs))[:PAIRS]]
    apart = (expected[:, first] - expected[:, second] for first, second in pairs)
    return np.stack([each.T @ each / len(each) for each in apart])


def _concentrate(
    moments: np.ndarray, rotation: np.ndarray, sweeps: int = 40
) -> tuple[np.ndarray, float]:
    """Minimise the sum over axes and pairs of regimes of the root mean square difference.

    One pair of axes after the other is rotated to its best angle, until convergence.
    """
    moments = rotation @ moments @ rotation.T
    rotation = rotation.copy()

    def sizes(angle: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
        first = cos**2 * a + sin**2 * b + 2 * cos * sin * c
        second = np.maximum(a + b - first, 0.0)
        total = np.sqrt(np.maximum(first, 0.0) + SMOOTH) + np.sqrt(second + SMOOTH)
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
            jacobi_step(moments, rotation, i, j, angle)
            largest = max(largest, abs(angle))
        if largest < 1e-3:
            break
    diagonal = np.maximum(np.diagonal(moments, axis1=1, axis2=2), 0.0)
    return rotation, float(np.sqrt(diagonal + SMOOTH).sum())


def _by_regime(rows: Transitions, values: np.ndarray) -> np.ndarray:
    """Average values (N, m) over each regime: (K, m)."""
    count = np.bincount(rows.regime, minlength=rows.regimes)
    total = [np.bincount(rows.regime, column, minlength=rows.regimes) for column in values.T]
    return np.stack(total, axis=1) / np.maximum(count, 1)[:, None]


RESIDUAL_EVIDENCE: tuple[Callable[[TransitionSplit], RotationEvidence], ...] = (
    non_gaussian_noise, regime_dependent_noise, sparse_change,
)  # fmt: skip
