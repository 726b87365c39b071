"""Evidence in the noise: its shape, and its size from regime to regime.

Both look only at whitened residuals of the transitions. Residuals of independent non-Gaussian
noise are independent in one set of axes only (independent component analysis). Gaussian noise
whose variances differ between regimes has covariances that are diagonal in one set of axes only.
"""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
from scipy.linalg import svd

from .rows import Rows
from .turning import Clue, Score, turn_in_place, turning_test

SHAPE, BY_REGIME = "non-Gaussian noise", "regime-dependent noise"

RESTARTS = 4
#: Where the latent space is bent, Gaussian noise looks non-Gaussian, up to 0.006 nats per step;
#: Laplace noise costs 0.04.
LEAST_SHAPE_COST = 0.01
#: Histogram and mixture that stand for the density of one component in units of its spread.
EDGES = np.linspace(-6.0, 6.0, 121)
CENTRES = 0.5 * (EDGES[1:] + EDGES[:-1])
SHAPES = [*product(np.linspace(-4, 4, 17), [0.4]), *product([0.0], np.geomspace(0.15, 3.0, 12))]
DICTIONARY = np.stack(
    [np.exp(-0.5 * ((CENTRES - m) / s) ** 2) / (s * np.sqrt(2 * np.pi)) for m, s in SHAPES]
)


def root(covariance: np.ndarray, power: float, floor: float = 1e-6) -> np.ndarray:
    """A power of a symmetric matrix, or of a stack of them."""
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, floor * values[..., -1:])
    return (vectors * values[..., None, :] ** power) @ np.swapaxes(vectors, -1, -2)


def covariances(rows: Rows) -> np.ndarray:
    """Second moments of the residuals of each regime, (K, d, d)."""
    residual = rows.residual
    parts = (residual[rows.regime == k] for k in range(rows.regimes))
    return np.stack([part.T @ part / len(part) for part in parts])


def noise_by_regime(train: Rows, test: Rows) -> Clue:
    """Axes in which the covariances of all regimes are diagonal at once."""
    by_regime = covariances(train)
    rotation = joint_diagonaliser(by_regime)
    variance = np.einsum("ai,kij,aj->ka", rotation, by_regime, rotation)
    facts = {"largest_variance_ratio": float((variance.max(0) / variance.min(0)).max())}
    score = score_by_regime(train, test)
    return turning_test(BY_REGIME, rotation, score, test.regime_of_unit, facts)


def score_by_regime(train: Rows, test: Rows) -> Score:
    """Gaussian noise, independent in the axes, with a variance for each axis and regime."""
    by_regime, residual = covariances(train), test.residual

    def score(axes: np.ndarray, pair: tuple[int, int]) -> np.ndarray:
        two = axes[list(pair)]
        variance = np.einsum("ai,kij,aj->ka", two, by_regime, two)[test.regime]
        loss = (residual @ two.T) ** 2 / variance + np.log(variance)
        return test.by_unit(-0.5 * loss.sum(axis=1))

    return score


def noise_shape(train: Rows, test: Rows) -> Clue:
    """Axes in which the noise is independent: a symmetric fixed point, several starts."""
    known, new = _white(train, test)
    rotation = _independent_axes(known)
    gain = [
        (_log_density_of(axis, known, new) + 0.5 * (new @ axis) ** 2).mean() for axis in rotation
    ]
    facts = {"nats_over_gaussian": float(np.mean(gain) + 0.5 * np.log(2 * np.pi))}
    score = score_of_shape(train, test)
    return turning_test(SHAPE, rotation, score, test.regime_of_unit, facts, LEAST_SHAPE_COST)


def score_of_shape(train: Rows, test: Rows) -> Score:
    """Noise that is independent in the axes, of any density."""
    known, new = _white(train, test)

    def score(axes: np.ndarray, pair: tuple[int, int]) -> np.ndarray:
        first, second = (_log_density_of(axes[axis], known, new) for axis in pair)
        return test.by_unit(first + second)

    return score


def _white(train: Rows, test: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Residuals, each regime whitened by the symmetric root of its own covariance.

    That keeps the axes; otherwise Gaussian noise that changes its size with the regime would
    look non-Gaussian.
    """
    whitening = root(covariances(train), -0.5)
    known, new = (
        np.einsum("nij,nj->ni", whitening[rows.regime], rows.residual) for rows in (train, test)
    )
    return known, new


def _log_density_of(axis: np.ndarray, known: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Log density (N,) of new rows along an axis, learned from known ones."""
    return np.interp(new @ axis, CENTRES, _log_density(known @ axis))


def _independent_axes(x: np.ndarray) -> np.ndarray:
    """The start whose components are least Gaussian, by the contrast that is optimised."""
    gaussian = 0.374567  # E[log cosh] of a standard normal

    def contrast(rotation: np.ndarray) -> float:
        return float(((np.logaddexp(x @ rotation.T, -x @ rotation.T).mean(axis=0)
                       - np.log(2) - gaussian) ** 2).sum())  # fmt: skip

    found = [_fixed_point(x, start) for start in random_rotations(RESTARTS, x.shape[1])]
    return max(found, key=contrast)


def _fixed_point(x: np.ndarray, rotation: np.ndarray, steps: int = 200) -> np.ndarray:
    """Hyvarinen's symmetric iteration with tanh, on whitened x (N, d)."""
    for _ in range(steps):
        g = np.tanh(x @ rotation.T)
        update = g.T @ x / len(x) - (1 - g * g).mean(axis=0)[:, None] * rotation
        left, _, right = svd(update)
        before, rotation = rotation, left @ right
        if np.abs(np.abs((before * rotation).sum(axis=1)) - 1).max() < 1e-7:
            break
    return rotation


def _log_density(x: np.ndarray, steps: int = 60) -> np.ndarray:
    """Log density at `CENTRES`: a mixture of fixed bells, whose shares are fitted to x."""
    count = np.histogram(np.clip(x, EDGES[0], EDGES[-1]), EDGES)[0] / len(x)
    share = np.full(len(DICTIONARY), 1 / len(DICTIONARY))
    for _ in range(steps):
        share = share * (DICTIONARY @ (count / (share @ DICTIONARY)))
    return np.log(share @ DICTIONARY)


def joint_diagonaliser(matrices: np.ndarray, sweeps: int = 100) -> np.ndarray:
    """The rotation that makes symmetric matrices (K, d, d) as diagonal as can be (Jacobi)."""
    d = matrices.shape[-1]
    rotation = np.linalg.eigh(np.tensordot(np.arange(1, len(matrices) + 1), matrices, 1))[1].T
    turned = rotation @ matrices @ rotation.T
    for _ in range(sweeps):
        largest = 0.0
        for i, j in combinations(range(d), 2):
            a, b = turned[:, i, i] - turned[:, j, j], 2 * turned[:, i, j]
            angle = 0.25 * np.arctan2(2 * (a * b).sum(), (a * a - b * b).sum())
            turn_in_place(turned, rotation, i, j, angle)
            largest = max(largest, abs(angle))
        if largest < 1e-9:
            break
    return rotation


def random_rotations(count: int, size: int, seed: int = 0) -> np.ndarray:
    """Rotations and reflections, the identity first: (count, size, size)."""
    drawn = np.random.default_rng(seed).standard_normal((count, size, size))
    drawn[0] = np.eye(size)
    return np.linalg.qr(drawn)[0]
