"""What all worlds share: the base class of simulators, and recordings with their truth."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._runtime.process import atomic_path
from ..config import check_seed
from ..data.panel import Panel
from ..errors import ConfigError
from ..io.frames import Frames
from ..stage2.inference import MixturePosterior, state_space
from ..stage2.information import GaussianInformation
from .schedules import make_schedule

if TYPE_CHECKING:
    from .rendering import Rendered
    from .zoo.faults import Fault

#: Position and angle in the state (x, v, theta, omega).
SHOWN = (0, 2)
#: Quantile of the measured range on each side, and the factor by which it is widened.
LEFT_OUT, WIDENED = 1e-4, 1.15
#: Largest displacement beyond the margin (soft clipping).
SOFT = 0.15
#: Runs of each regime and of their mixture from which the range of the state is measured.
VIEWED_SERIES = 200


@dataclass(frozen=True)
class EmergentEdge:
    """An edge that no pure regime has, active while low < alpha_regime(t) < high.

    Parameters
    ----------
    source, target : int
        Latents.
    strength : float
        Weight of the edge.
    regime : int
        Whose share activates it.
    low, high : float
        Between these shares.
    """

    source: int = 2
    target: int = 5
    strength: float = 0.5
    regime: int = 1
    low: float = 0.3
    high: float = 0.7

    def check(self, latents: int, regimes: int) -> None:
        """Raise ConfigError unless the latents and the regime exist."""
        if not (0 <= self.source < latents and 0 <= self.target < latents):
            raise ConfigError(
                f"the emergent edge {self.source} -> {self.target} is outside {latents} latents",
                fix=f"name latents from 0 to {latents - 1}",
            )
        if not 0 <= self.regime < regimes:
            raise ConfigError(f"the emergent edge names regime {self.regime} of {regimes}")

    def active(self, alpha: np.ndarray) -> np.ndarray:
        """Return at which steps of shares (..., K) the edge is active."""
        share = alpha[..., self.regime]
        return (share > self.low) & (share < self.high)


@dataclass(frozen=True, eq=False)
class View:
    """Linear map of a state to the cart's position and the pole's angle, 1 at the margin."""

    centre: np.ndarray = field(repr=False)  # (2,)
    half: np.ndarray = field(repr=False)  # (2,) half the width of the range

    @classmethod
    def of(cls, latents: np.ndarray) -> View:
        """Measure the range of latents (..., d)."""
        seen = latents[..., SHOWN].reshape(-1, 2).astype(float)
        low, high = np.quantile(seen, [LEFT_OUT, 1 - LEFT_OUT], axis=0)
        return cls(0.5 * (low + high), np.maximum(0.5 * WIDENED * (high - low), 1e-9))

    def place(self, latents: np.ndarray) -> np.ndarray:
        """Map to position and angle (..., 2), softly clipped beyond the margin."""
        u = self._units(latents)
        beyond = np.maximum(np.abs(u) - 1, 0)
        return np.clip(u, -1, 1) + np.sign(u) * SOFT * np.tanh(beyond / SOFT)

    def outside(self, latents: np.ndarray) -> float:
        """Return the share of steps in which the cart or the pole was clipped."""
        return float((np.abs(self._units(latents)) > 1).any(axis=-1).mean())

    def render(self, latents: np.ndarray, size: int) -> Rendered:
        """Render latents (N, T, d) as pictures (N * T, size, size)."""
        from .rendering import CartPoleScene, Rendered

        return Rendered(self.place(latents).reshape(-1, 2), CartPoleScene(size))

    def _units(self, latents: np.ndarray) -> np.ndarray:
        return (latents[..., SHOWN] - self.centre) / self.half


class Dynamics(ABC):
    """A simulator of K mechanisms of d latents and of their observation."""

    config: Any  #: at least latents, lags, length and size (of pictures)
    seed: int  #: of everything that is drawn
    scales: np.ndarray  #: (K, d) standard deviations of the noise
    burn_in: int = 0  #: steps before a recording begins

    @property
    def regimes(self) -> tuple[str, ...]:
        """Names of the regimes."""
        return tuple(f"R{k}" for k in range(len(self.scales)))

    @abstractmethod
    def initial_latents(self, series: int, rng: np.random.Generator) -> np.ndarray:
        """Draw the first L latents of N series, (N, L, d) in float32."""

    @abstractmethod
    def step(
        self,
        latents: np.ndarray,
        t: int,
        alpha: np.ndarray,
        emergent: EmergentEdge | None,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Draw latents (N, d) of step t, for shares (N, K)."""

    @abstractmethod
    def conditional_mean(self, latents: np.ndarray, regime: int) -> np.ndarray:
        """Return E[z_t | history, regime] of latents (N, T, d), NaN for the first lags."""

    @abstractmethod
    def mixture_matrix(self, alpha: np.ndarray, emergent: EmergentEdge | None) -> np.ndarray:
        """Return W of shares (..., K): (..., d, d)."""

    @abstractmethod
    def observe(self, latents: np.ndarray, rng: np.random.Generator) -> np.ndarray | Frames:
        """Observe latents (N, T, d) as channels (N, T, p) or pictures (N * T, size, size)."""

    def panel_options(self, series: int, steps: int) -> dict[str, Any]:
        """Return channels, groups and time of a panel of such recordings."""
        return {}

    @cached_property
    def view(self) -> View:
        """Range of the pictures, measured on runs of their own."""
        kinds = len(self.scales)
        weights = np.concatenate([np.eye(kinds), np.full((1, kinds), 1 / kinds)])
        alpha = np.repeat(weights, VIEWED_SERIES, axis=0)[:, None]
        alpha = np.broadcast_to(alpha, (len(alpha), self.config.length, kinds))
        return View.of(self.simulate_latents(alpha, np.random.default_rng([self.seed, 0, 3])))

    def simulate(
        self, series: int, *, seed: int = 0, length: int | None = None, label_noise: float = 0.0
    ) -> Simulation:
        """Simulate labelled recordings of pure regimes.

        Parameters
        ----------
        series : int
            Recordings of each regime.
        seed : int
            Of the recordings.
        length : int, optional
            Steps; as configured by default.
        label_noise : float
            Share of wrong labels.

        Raises
        ------
        ConfigError
            If an argument is out of range.
        """
        kinds = len(self.scales)
        if label_noise and not (0 < label_noise <= 1 and kinds > 1):
            raise ConfigError(
                f"label_noise = {label_noise} with {kinds} regimes",
                fix="use a share in [0, 1] and at least two regimes",
            )
        rng = np.random.default_rng([self.seed, check_seed(seed), 1])
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
        """Simulate unlabelled recordings of one transition.

        Parameters
        ----------
        schedule : str or (T, active) array
            One of `SCHEDULES`, or shares.
        series : int
            Recordings of the same schedule.
        active : list of int, optional
            Regimes of the schedule; all by default.
        seed : int
            Of the recordings.
        length : int, optional
            Steps; as configured by default.
        emergent : EmergentEdge, optional
            An edge that no pure regime has.
        """
        steps = self.config.length if length is None else length
        alpha = make_schedule(schedule, steps, len(self.scales), active)
        alpha = np.broadcast_to(alpha, (series, *alpha.shape))
        rng = np.random.default_rng([self.seed, check_seed(seed), 2])
        return Simulation.run(self, alpha, rng, length=steps, emergent=emergent)

    def simulate_latents(
        self, alpha: np.ndarray, rng: np.random.Generator, emergent: EmergentEdge | None = None
    ) -> np.ndarray:
        """Simulate latents (N, T, d) for shares (N, T, K)."""
        (series, steps, _), lags = alpha.shape, self.config.lags
        latents = np.empty((series, self.burn_in + steps, self.config.latents), np.float32)
        latents[:, :lags] = self.initial_latents(series, rng)
        for t in range(lags, self.burn_in + steps):
            now = alpha[:, max(0, t - self.burn_in)]  # before the recording as at its beginning
            latents[:, t] = self.step(latents, t, now, emergent, rng)
        if not np.isfinite(latents).all():
            raise ConfigError("the simulation exploded", fix="use a smaller radius or edge")
        return np.ascontiguousarray(latents[:, self.burn_in :])


@dataclass(frozen=True, eq=False)
class Simulation:
    """Recordings of a simulator with their truth.

    Parameters
    ----------
    world : Dynamics
        The simulator.
    observations : (N, T, p), or pictures (N * T, size, size)
        Pictures are drawn on demand.
    latents : (N, T, d)
        True latents.
    alpha : (N, T, K)
        True shares, a broadcast view.
    label : (N,), optional
        Regime of each pure recording.
    emergent : EmergentEdge, optional
        The edge that was added.
    fault : Fault, optional
        The fault that was injected (systems of the zoo).
    """

    world: Any = field(repr=False)
    observations: np.ndarray | Frames = field(repr=False)
    latents: np.ndarray = field(repr=False)
    alpha: np.ndarray = field(repr=False)
    label: np.ndarray | None = field(repr=False, default=None)
    emergent: EmergentEdge | None = None
    fault: Fault | None = None

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
        """Simulate series with shares (N, 1 or T, K)."""
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
        latents = world.simulate_latents(alpha, rng, emergent)
        return cls(world, world.observe(latents, rng), latents, alpha, label, emergent)

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
        about = self.world.panel_options(*self.latents.shape[:2])
        return Panel.from_arrays(self.observations, regime=regime, source="simulation", **about)

    @property
    def transition_matrices(self) -> np.ndarray:
        """W(t), (T, d, d) where all series share the schedule, else (N, T, d, d)."""
        shared = self.alpha.strides[0] == 0 or len(self.alpha) == 1
        alpha = self.alpha[0] if shared else self.alpha
        return self.world.mixture_matrix(alpha, self.emergent)

    def conditional_means(self, series: slice = slice(None)) -> np.ndarray:
        """Return E[z_t | history, regime k]: (N, T, K, d), NaN for the first lags."""
        z = self.latents[series].astype(float)
        kinds = range(len(self.world.scales))
        return np.stack([self.world.conditional_mean(z, k) for k in kinds], axis=2)


def check_machines(config: Any) -> None:
    """Validate the settings that worlds with several machines share."""
    if config.machines < 1 or config.first < 1 or config.length < 2:
        raise ConfigError(
            f"machines = {config.machines}, first = {config.first}, length = {config.length}",
            fix="use at least 1 machine, a first one from 1 on and 2 steps",
        )
    if not (config.spread >= 0 and config.sensor_noise >= 0 and config.noise > 0):
        raise ConfigError(
            f"spread = {config.spread}, sensor_noise = {config.sensor_noise},"
            f" noise = {config.noise}",
            fix="make the noise positive and the others at least 0",
        )


def leaky_relu(x: np.ndarray, slope: float) -> np.ndarray:
    """Apply LeakyReLU with a slope in [0, 1]."""
    return np.maximum(x, np.asarray(slope, x.dtype) * x)


def write_truth(simulation: Simulation, path: Path | str) -> None:
    """Write latents, alpha, W(t) and conditional means of a simulation as an .npz file."""
    with atomic_path(path) as temporary, temporary.open("wb") as out:
        np.savez(
            out,
            latents=simulation.latents,
            alpha=simulation.alpha,
            transition_matrices=simulation.transition_matrices,
            conditional_means=simulation.conditional_means().astype(np.float32),
            regimes=np.array(simulation.world.regimes),
        )


def oracle(
    simulation: Simulation, *, pool: bool = False, causal: bool = False
) -> MixturePosterior:
    """What the engine would answer if stage 1 were perfect."""
    variance = (simulation.world.scales**2).mean(axis=0)
    evidence = GaussianInformation.from_predictions(
        simulation.conditional_means(), simulation.latents.astype(float), np.diag(1 / variance)
    )
    evidence = evidence.pool() if pool else evidence
    return state_space(evidence, np.ones(evidence.dims.T.shape), causal=causal)
