"""Random matrices of a synthetic world, scaled so that every mechanism is stable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq

from .._runtime.process import one_blas_thread

if TYPE_CHECKING:
    from .synthetic import WorldConfig

#: Largest spectral radius of a mechanism.
MAX_RADIUS = 0.99
#: Smallest spectral radius: below, a mechanism has hardly any memory.
MIN_RADIUS = 0.5


def base_matrices(config: WorldConfig, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw positive, diagonally dominant matrices for lag 1 and for later lags."""
    d = config.latents
    draw = rng.uniform(0.0, 1.0 / d, (config.lags, d, d))
    draw[:, np.arange(d), np.arange(d)] = rng.uniform(0.9, 1.0, (config.lags, d))
    weight = 0.5 ** np.arange(config.lags)  # later lags matter less
    draw *= weight[:, None, None]
    return draw[0], draw[1:]


def changes(config: WorldConfig, rng: np.random.Generator) -> np.ndarray:
    """Draw each regime's difference from the base: one edge, two edges or all of them."""
    kinds, d = config.regimes, config.latents
    change = np.zeros((kinds, d, d))
    if config.edges:
        for matrix, changed in zip(change, config.edges, strict=True):
            for pair in changed:
                matrix[tuple(pair)] = config.edge
        return change
    if config.change == "dense":
        return config.edge * rng.standard_normal((kinds, d, d)) / np.sqrt(d)
    edges_each = 2 if config.change == "two-edges" else 1
    if kinds * edges_each > d * (d - 1):
        return _shared_edges(config, rng)
    distinct = config.distinct_targets if config.distinct_targets >= 0 else d - 2
    targets = rng.permutation(d)
    free = {(i, j) for i in range(d) for j in range(d) if i != j}
    for edge in range(kinds * edges_each):
        wanted = targets[edge : edge + 1] if edge < min(distinct, d) else targets[:distinct]
        choices = sorted(pair for pair in free if pair[1] in wanted) or sorted(free)
        source, target = choices[rng.integers(len(choices))]
        free.remove((source, target))
        change[edge // edges_each, source, target] = config.edge
    return change


def _shared_edges(config: WorldConfig, rng: np.random.Generator) -> np.ndarray:
    """Draw a distinct pair of edges for each of many regimes."""
    d = config.latents
    edges = [(i, j) for i in range(d) for j in range(d) if i != j]
    pairs = [(a, b) for b in range(len(edges)) for a in range(b)]
    change = np.zeros((config.regimes, d, d))
    chosen = rng.choice(len(pairs), config.regimes, replace=False)
    for matrix, pair in zip(change, chosen, strict=True):
        for edge in pairs[pair]:
            matrix[edges[edge]] = config.edge
    return change


def impure(change: np.ndarray, share: float) -> np.ndarray:
    """Add to each change a share of the mean of the others."""
    kinds = len(change)
    if share == 0 or kinds == 1:
        return change
    others = (change.sum(axis=0) - change) / (kinds - 1)
    return (1 - share) * change + share * others


def scale_for_radius(
    base: np.ndarray, lagged: np.ndarray, change: np.ndarray, radius: float
) -> float | None:
    """Find the scale that gives the base this spectral radius within the limit for all."""

    def largest(scale: float, changes: np.ndarray) -> float:
        return float(companion_radius(scale * base + changes, scale * lagged).max())

    scales = []
    for changes, target in ((np.zeros_like(change[:1]), radius), (change, MAX_RADIUS)):
        if not largest(1e-3, changes) < target < largest(10.0, changes):
            return None
        scales.append(brentq(lambda c, x=changes, r=target: largest(c, x) - r, 1e-3, 10.0))
    return min(scales)


def companion_radius(mechanisms: np.ndarray, lagged: np.ndarray) -> np.ndarray:
    """Compute the spectral radius of each mechanism's companion matrix."""
    kinds, d, _ = mechanisms.shape
    lags = 1 + len(lagged)
    companion = np.zeros((kinds, lags * d, lags * d))
    companion[:, :d, :d] = np.swapaxes(mechanisms, 1, 2)
    for lag, matrix in enumerate(lagged, start=1):
        companion[:, :d, lag * d : (lag + 1) * d] = matrix.T
    companion[:, d:, :-d] = np.eye((lags - 1) * d)
    with one_blas_thread():
        return np.abs(np.linalg.eigvals(companion)).max(axis=-1)


def stable_and_alive(mechanisms: np.ndarray, lagged: np.ndarray) -> bool:
    """Check the radius of every mechanism and every mixture of two."""
    first, second = np.triu_indices(len(mechanisms))
    radius = companion_radius(0.5 * (mechanisms[first] + mechanisms[second]), lagged)
    return bool(radius.max() < 1 and radius.min() > MIN_RADIUS)


def noise_scales(config: WorldConfig, rng: np.random.Generator, kinds: int) -> np.ndarray:
    """Draw noise standard deviations (K, d)."""
    d = config.latents
    relative = np.ones(d)
    if config.component_scales is not None:
        given = np.asarray(config.component_scales, float)
        relative = given if len(given) == d else rng.uniform(given[0], given[-1], d)
    spread = np.log(config.regime_scale_spread)
    by_regime = np.exp(rng.uniform(-spread, spread, (kinds, d))) if spread else np.ones((kinds, d))
    return config.noise * relative * by_regime


def orthogonal_layers(config: WorldConfig, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Draw the matrices of the mixing; the first maps latents to channels."""
    p = config.channels

    def orthogonal() -> np.ndarray:
        q, r = np.linalg.qr(rng.standard_normal((p, p)))
        return (q * np.sign(np.diag(r))).astype(np.float32)

    layers = [orthogonal() for _ in range(config.depth)]
    return (layers[0][: config.latents], *layers[1:])
