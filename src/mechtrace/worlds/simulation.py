"""A finished simulation: the observations and the whole truth behind them."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

from ..atomic import atomic_path
from ..errors import ConfigError
from ..series import Panel

if TYPE_CHECKING:
    from .synthetic import World

# Rows are mixed in pieces of this many, so that a large simulation needs no second copy of itself.
CHUNK_ROWS = 1 << 18


@dataclass(frozen=True)
class EmergentEdge:
    """An edge that no pure regime has, active while low < alpha_regime(t) < high."""

    source: int = 2
    target: int = 5
    strength: float = 0.5
    regime: int = 1
    low: float = 0.3
    high: float = 0.7

    def check(self, latents: int, regimes: int) -> None:
        """Refuse an edge that the world does not have."""
        if not (0 <= self.source < latents and 0 <= self.target < latents):
            raise ConfigError(
                f"the emergent edge {self.source} -> {self.target} is outside {latents} latents",
                fix=f"name latents from 0 to {latents - 1}",
            )
        if not 0 <= self.regime < regimes:
            raise ConfigError(f"the emergent edge names regime {self.regime} of {regimes}")

    def active(self, alpha: np.ndarray) -> np.ndarray:
        """Which steps of (..., K) weights carry the edge."""
        share = alpha[..., self.regime]
        return (share > self.low) & (share < self.high)


@dataclass(frozen=True, eq=False)
class Simulation:
    """Observations (N, T, p) with latents (N, T, d), weights alpha (N, T, K), W(t) and means."""

    world: World = field(repr=False)
    observations: np.ndarray = field(repr=False)
    latents: np.ndarray = field(repr=False)
    alpha: np.ndarray = field(repr=False)  # a broadcast view: costs no memory
    label: np.ndarray | None = field(repr=False, default=None)
    emergent: EmergentEdge | None = None

    @classmethod
    def run(
        cls,
        world: World,
        alpha: np.ndarray,
        rng: np.random.Generator,
        *,
        length: int | None = None,
        label: np.ndarray | None = None,
        emergent: EmergentEdge | None = None,
    ) -> Simulation:
        """Simulate all series at once, step by step; alpha is (N, 1 or T, K)."""
        config, series = world.config, len(alpha)
        steps = config.length if length is None else length
        if series < 1:
            raise ConfigError("no series were asked for", fix="simulate at least one")
        if emergent is not None:
            emergent.check(config.latents, alpha.shape[-1])
        if steps <= config.lags:
            raise ConfigError(
                f"length {steps} is not longer than {config.lags} lags", fix="use a longer series"
            )
        alpha = np.broadcast_to(alpha, (series, steps, alpha.shape[-1]))
        latents = np.empty((series, steps, config.latents), np.float32)
        start = rng.standard_normal((series, config.lags, config.latents), dtype=np.float32)
        latents[:, : config.lags] = np.abs(start) if config.start == "positive" else start
        groups = _same_mechanism(alpha)
        for t in range(config.lags, steps):
            noise = _noise(config.noise_kind, rng, (series, config.latents))
            noise *= (alpha[:, t] @ world.scales).astype(np.float32)
            before = np.empty_like(noise)
            for rows in groups:
                matrix = _mixed_matrix(world, alpha[rows.start, t], emergent)
                before[rows] = _drive(world, latents[rows], t, matrix)
            if config.noise_inside:
                latents[:, t] = leaky(before + noise, config.leak)
            else:
                latents[:, t] = leaky(before, config.leak) + noise
        if not np.isfinite(latents).all():
            raise ConfigError("the simulation exploded", fix="use a smaller radius or edge")
        observations = _observe(world, latents, rng)
        return cls(world, observations, latents, alpha, label, emergent)

    @property
    def panel(self) -> Panel:
        """The observations as a Panel, labelled if the runs are pure."""
        names = np.array(self.world.regimes)
        regime = None if self.label is None else names[self.label]
        return Panel.from_arrays(self.observations, regime=regime, source="simulation")

    @property
    def transition_matrices(self) -> np.ndarray:
        """W(t) of every step, (T, d, d) where all series share the schedule, else (N, T, d, d)."""
        shared = self.alpha.strides[0] == 0 or len(self.alpha) == 1
        alpha = self.alpha[0] if shared else self.alpha
        return _mixed_matrix(self.world, alpha, self.emergent)

    def conditional_means(self, series: slice = slice(None)) -> np.ndarray:
        """E[z_t | history, regime k] for every regime: (N, T, K, d), NaN for the first lags."""
        world, config = self.world, self.world.config
        z = self.latents[series].astype(float)
        out = np.full((*z.shape[:2], len(world.mechanisms), config.latents), np.nan)
        for k, matrix in enumerate(world.mechanisms):
            for t in range(config.lags, z.shape[1]):
                out[:, t, k] = _mean_after(world, _drive(world, z, t, matrix), world.scales[k])
        return out


def leaky(x: np.ndarray, slope: float) -> np.ndarray:
    """LeakyReLU for slopes in [0, 1]."""
    return np.maximum(x, np.asarray(slope, x.dtype) * x)


def _mixed_matrix(world: World, alpha: np.ndarray, emergent: EmergentEdge | None) -> np.ndarray:
    matrix = np.tensordot(alpha, world.mechanisms, axes=1)
    if emergent is not None:
        matrix[..., emergent.source, emergent.target] += emergent.strength * emergent.active(alpha)
    return matrix


def _drive(world: World, z: np.ndarray, t: int, matrix: np.ndarray) -> np.ndarray:
    """What enters the outer activation at step t, before any noise."""
    leak = world.config.leak
    total = leaky(z[:, t - 1] @ matrix.astype(z.dtype), leak)
    for lag, later in enumerate(world.lagged, start=2):
        total += leaky(z[:, t - lag] @ later.astype(z.dtype), leak)
    return total


def _mean_after(world: World, drive: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """E[z] given what enters the outer activation; noise inside it shifts the mean at the kink."""
    config = world.config
    if not config.noise_inside or config.noise == 0:
        return leaky(drive, config.leak)
    if config.noise_kind == "gaussian":
        u = drive / scale
        positive_part = drive * ndtr(u) + scale * np.exp(-0.5 * u**2) / np.sqrt(2 * np.pi)
    else:
        b = scale / np.sqrt(2)  # Laplace noise of this standard deviation
        positive_part = np.maximum(drive, 0) + 0.5 * b * np.exp(-np.abs(drive) / b)
    return config.leak * drive + (1 - config.leak) * positive_part


def _same_mechanism(alpha: np.ndarray) -> list[slice]:
    """Runs of neighbouring series that share their whole schedule: one matrix product each."""
    if alpha.strides[0] == 0 or len(alpha) == 1:
        return [slice(0, len(alpha))]
    if alpha.strides[1] == 0:
        change = (alpha[1:, 0] != alpha[:-1, 0]).any(axis=-1)
    else:
        change = (alpha[1:] != alpha[:-1]).any(axis=(1, 2))
    edges = [0, *(np.flatnonzero(change) + 1).tolist(), len(alpha)]
    return [slice(a, b) for a, b in pairwise(edges)]


def _noise(kind: str, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    if kind == "laplace":
        return rng.laplace(scale=np.sqrt(0.5), size=shape).astype(np.float32)  # unit variance
    return rng.standard_normal(shape, dtype=np.float32)


def _observe(world: World, latents: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    flat = latents.reshape(-1, latents.shape[-1])
    out = np.empty((len(flat), world.config.channels), np.float32)
    for start in range(0, len(flat), CHUNK_ROWS):
        rows = slice(start, start + CHUNK_ROWS)
        out[rows] = world.mix(flat[rows])
        if world.config.observation_noise:
            noise = rng.standard_normal(out[rows].shape, dtype=np.float32)
            out[rows] += np.float32(world.config.observation_noise) * noise
    return out.reshape(*latents.shape[:2], -1)


def write_truth(simulation: Simulation, path: Path | str) -> None:
    """Latents, alpha, W(t) and conditional means of a simulation as an .npz file."""
    with atomic_path(path) as temporary, temporary.open("wb") as out:
        np.savez(
            out,
            latents=simulation.latents,
            alpha=simulation.alpha,
            transition_matrices=simulation.transition_matrices,
            conditional_means=simulation.conditional_means().astype(np.float32),
            regimes=np.array(simulation.world.regimes),
        )
