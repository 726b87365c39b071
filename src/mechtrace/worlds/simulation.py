"""A finished simulation: the observations and the whole truth behind them."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..atomic import atomic_path
from ..errors import ConfigError
from ..frames import Frames
from ..series import Panel

if TYPE_CHECKING:
    from .dynamics import Dynamics


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
    """Observations with latents (N, T, d), weights alpha (N, T, K), W(t) and means.

    Observations are (N, T, p), or pictures (N * T, size, size) that are drawn when asked for.
    """

    world: Any = field(repr=False)  # a Dynamics, mostly a World
    observations: np.ndarray | Frames = field(repr=False)
    latents: np.ndarray = field(repr=False)
    alpha: np.ndarray = field(repr=False)  # a broadcast view: costs no memory
    label: np.ndarray | None = field(repr=False, default=None)
    emergent: EmergentEdge | None = None

    @classmethod
    def run(
        cls,
        world: Dynamics,
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
        latents = run_latents(world, alpha, rng, emergent)
        observations = world.observe(latents, rng)
        return cls(world, observations, latents, alpha, label, emergent)

    @property
    def panel(self) -> Panel:
        """The observations as a Panel, labelled if the runs are pure."""
        names = np.array(self.world.regimes)
        regime = None if self.label is None else names[self.label]
        if isinstance(self.observations, Frames):
            lengths = np.full(len(self.latents), self.latents.shape[1])
            return Panel.from_pictures(
                self.observations, lengths=lengths, regime=regime, source="simulation"
            )
        about = self.world.described(*self.latents.shape[:2])
        return Panel.from_arrays(self.observations, regime=regime, source="simulation", **about)

    @property
    def transition_matrices(self) -> np.ndarray:
        """W(t) of every step, (T, d, d) where all series share the schedule, else (N, T, d, d)."""
        shared = self.alpha.strides[0] == 0 or len(self.alpha) == 1
        alpha = self.alpha[0] if shared else self.alpha
        return self.world.mixed(alpha, self.emergent)

    def conditional_means(self, series: slice = slice(None)) -> np.ndarray:
        """E[z_t | history, regime k] for every regime: (N, T, K, d), NaN for the first lags."""
        z = self.latents[series].astype(float)
        kinds = range(len(self.world.scales))
        return np.stack([self.world.expected(z, k) for k in kinds], axis=2)


def leaky(x: np.ndarray, slope: float) -> np.ndarray:
    """LeakyReLU for slopes in [0, 1]."""
    return np.maximum(x, np.asarray(slope, x.dtype) * x)


def run_latents(
    world: Dynamics,
    alpha: np.ndarray,
    rng: np.random.Generator,
    emergent: EmergentEdge | None = None,
) -> np.ndarray:
    """Latents (N, T, d) of all series at once, step by step, for weights (N, T, K)."""
    (series, steps, _), lags, settle = alpha.shape, world.config.lags, world.settle
    latents = np.empty((series, settle + steps, world.config.latents), np.float32)
    latents[:, :lags] = world.first_rows(series, rng)
    groups = _same_mechanism(alpha)
    for t in range(lags, settle + steps):
        now = alpha[:, max(0, t - settle)]  # before the recording as at its beginning
        latents[:, t] = world.step(latents, t, now, groups, emergent, rng)
    if not np.isfinite(latents).all():
        raise ConfigError("the simulation exploded", fix="use a smaller radius or edge")
    return np.ascontiguousarray(latents[:, settle:])


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
