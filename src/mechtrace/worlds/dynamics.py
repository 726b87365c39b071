"""What every world can do, whatever its mechanisms are: pure runs and transitions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import ConfigError
from ..frames import Frames
from .schedules import make_schedule
from .simulation import EmergentEdge, Simulation, run_latents
from .view import View

#: Pure runs of each regime, and of their mixture, in which the range of the state is measured.
VIEWED_SERIES = 200


class Dynamics(ABC):
    """A drawn world: K mechanisms that move d latents, and how these are observed."""

    #: its settings: at least regimes, latents, lags, length and size of pictures
    config: Any
    seed: int
    scales: np.ndarray  # (K, d) noise standard deviations
    #: steps that are simulated before a recording begins
    settle: int = 0

    @property
    def regimes(self) -> tuple[str, ...]:
        """Names of the regimes."""
        return tuple(f"R{k}" for k in range(len(self.scales)))

    @abstractmethod
    def first_rows(self, series: int, rng: np.random.Generator) -> np.ndarray:
        """The first lags of so many series, (N, L, d) in float32."""

    @abstractmethod
    def step(
        self,
        latents: np.ndarray,
        t: int,
        alpha: np.ndarray,
        groups: list[slice],
        emergent: EmergentEdge | None,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """The latents (N, d) of step t, for weights (N, K) that are the same in each group."""

    @abstractmethod
    def expected(self, latents: np.ndarray, regime: int) -> np.ndarray:
        """E[z_t | history, regime] of latents (N, T, d), NaN for the first lags."""

    @abstractmethod
    def mixed(self, alpha: np.ndarray, emergent: EmergentEdge | None) -> np.ndarray:
        """W of weights (..., K): (..., d, d)."""

    @abstractmethod
    def observe(self, latents: np.ndarray, rng: np.random.Generator) -> np.ndarray | Frames:
        """Observations (N, T, p) of latents (N, T, d), or pictures (N * T, size, size)."""

    def described(self, series: int, steps: int) -> dict[str, Any]:
        """What a panel of such recordings also says: channels, groups, time."""
        return {}

    @cached_property
    def view(self) -> View:
        """What pictures of this world show; measured on runs that are never handed out."""
        kinds = len(self.scales)
        weights = np.concatenate([np.eye(kinds), np.full((1, kinds), 1 / kinds)])
        alpha = np.repeat(weights, VIEWED_SERIES, axis=0)[:, None]
        alpha = np.broadcast_to(alpha, (len(alpha), self.config.length, kinds))
        return View.of(run_latents(self, alpha, np.random.default_rng([self.seed, 0, 3])))

    def simulate(
        self, series: int, *, seed: int = 0, length: int | None = None, label_noise: float = 0.0
    ) -> Simulation:
        """Pure runs: `series` recordings of every regime, labelled (some wrongly if asked)."""
        kinds = len(self.scales)
        if label_noise and not (0 < label_noise <= 1 and kinds > 1):
            raise ConfigError(
                f"label_noise = {label_noise} with {kinds} regimes",
                fix="use a share in [0, 1] and at least two regimes",
            )
        rng = np.random.default_rng([self.seed, seed, 1])
        regime = np.repeat(np.arange(kinds), series)
        alpha = np.eye(kinds)[regime][:, None, :]
        label = regime.copy()
        if label_noise > 0:
            flip = rng.random(len(label)) < label_noise
            label[flip] = (label[flip] + rng.integers(1, kinds, flip.sum())) % kinds
        return Simulation.run(self, alpha, rng, length=length, label=label)

    def transition(
        self,
        schedule: str | np.ndarray = "simple",
        *,
        series: int = 1,
        active: list[int] | None = None,
        seed: int = 0,
        length: int | None = None,
        emergent: EmergentEdge | None = None,
    ) -> Simulation:
        """Unlabelled runs that share one schedule over the active regimes (all by default)."""
        steps = self.config.length if length is None else length
        alpha = make_schedule(schedule, steps, len(self.scales), active)[None]
        rng = np.random.default_rng([self.seed, seed, 2])
        alpha = np.broadcast_to(alpha, (series, *alpha.shape[1:]))
        return Simulation.run(self, alpha, rng, length=steps, emergent=emergent)
