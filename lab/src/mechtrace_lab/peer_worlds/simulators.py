"""Simulators of the worlds in which other methods were published."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np
from scipy.signal import lfilter

from mechtrace.data import Panel
from mechtrace.errors import ConfigError
from mechtrace.worlds import leaky_relu

#: Slope of the LeakyReLU for negative inputs.
LEAK = 0.2
#: Largest latent of a simulation that has not diverged.
EXPLODED = 1e4
#: Influence of the start at zero below which a source counts as stationary.
FORGOTTEN = 1e-6


@dataclass(frozen=True, eq=False)
class PeerSimulation:
    """Simulated observations with their latents and states."""

    world: str
    panel: Panel
    latents: np.ndarray = field(repr=False)  # (N, T, d)
    states: np.ndarray | None = field(repr=False)  # (N, T): domain, state or segment


@dataclass(frozen=True, eq=False)
class Mixing:
    """An invertible map from latents to as many observations.

    >>> mixing = Mixing((np.eye(2), np.diag([2.0, 1.0])))
    >>> mixing(np.array([[1.0, -1.0]])), mixing.inverse(np.array([[2.0, -0.2]]))
    (array([[ 2. , -0.2]]), array([[ 1., -1.]]))
    """

    layers: tuple[np.ndarray, ...]
    bend_first: bool = False  # the activation also before the first layer

    def __call__(self, latents: np.ndarray) -> np.ndarray:
        """Observations of these latents."""
        x = latents
        for depth, layer in enumerate(self.layers):
            x = (leaky_relu(x, LEAK) if depth or self.bend_first else x) @ layer
        return x

    def inverse(self, observations: np.ndarray) -> np.ndarray:
        """The latents of these observations."""
        z = np.asarray(observations, float)
        for depth in reversed(range(len(self.layers))):
            z = z @ np.linalg.inv(self.layers[depth].astype(float))
            z = np.minimum(z, z / LEAK) if depth or self.bend_first else z
        return z


@dataclass(frozen=True, eq=False)
class PeerWorld(ABC):
    """A drawn world, ready to be simulated."""

    name: str
    seed: int
    series: int  # how many the authors use: of each regime where these are labelled
    length: int
    mixing: Mixing = field(repr=False)

    @property
    def regimes(self) -> tuple[str, ...]:
        """Names of the labelled regimes; none where recordings are unlabelled."""
        return ()

    @abstractmethod
    def _draw(
        self, series: int, length: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Latents (N, T, d) in float32 and states (N, T)."""

    def simulate(
        self, series: int | None = None, *, seed: int = 0, length: int | None = None
    ) -> PeerSimulation:
        """Simulate recordings (of each regime, where labelled); by default the authors' number."""
        series = self.series if series is None else series
        length = self.length if length is None else length
        check_positive(series=series, length=length)
        rng = np.random.default_rng([self.seed, seed, 1])
        latents, states = self._draw(series, length, rng)
        regime = None
        if self.regimes and states is not None:
            regime = np.array(self.regimes)[states[:, 0]]
        panel = Panel.from_arrays(self.mixing(latents), regime=regime, source=self.name)
        return PeerSimulation(self.name, panel, latents, states)


@dataclass(frozen=True, eq=False)
class LaggedWorld(PeerWorld):
    """Autoregressive latents with matrices and noise scales of the current regime."""

    matrices: np.ndarray = field(repr=False)  # (K, L, d, d): W_l of each regime, causes in rows
    scales: np.ndarray = field(repr=False)  # (K, d) noise standard deviations
    #: probabilities (K, K) of the next state; None: each series stays in one labelled domain
    chain: np.ndarray | None = field(repr=False, default=None)

    @property
    def regimes(self) -> tuple[str, ...]:
        """Names of the labelled domains."""
        return () if self.chain is not None else _names("D", len(self.matrices))

    def _draw(
        self, series: int, length: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        _, lags, d, _ = self.matrices.shape
        if length <= lags:
            raise ConfigError(
                f"length {length} is not longer than {lags} lags", fix="use a longer series"
            )
        states = self._states(series, length, rng)
        matrices = self.matrices.astype(np.float32)
        latents = np.empty((len(states), length, d), np.float32)
        latents[:, :lags] = rng.standard_normal((len(states), lags, d), dtype=np.float32)
        for t in range(lags, length):
            noise = rng.standard_normal((len(states), d), dtype=np.float32)
            before = noise * self.scales.astype(np.float32)[states[:, t]]
            for k, of_regime in enumerate(matrices):
                rows = np.flatnonzero(states[:, t] == k)
                for lag, matrix in enumerate(of_regime, start=1):
                    before[rows] += leaky_relu(latents[rows, t - lag] @ matrix, LEAK)
            latents[:, t] = leaky_relu(before, LEAK)
            if not np.abs(latents[:, t]).max() < EXPLODED:
                raise ConfigError(
                    f"the simulation exploded at step {t}",
                    fix="use a shorter series or a new seed",
                )
        return latents, states

    def _states(self, series: int, length: int, rng: np.random.Generator) -> np.ndarray:
        kinds = len(self.matrices)
        if self.chain is None:
            return _constant(kinds, series, length)
        states = np.empty((series, length), np.int16)
        states[:, 0] = rng.integers(kinds, size=series)  # a ring visits all states alike
        upto = np.cumsum(self.chain, axis=1)[:, :-1]
        for t in range(1, length):
            draw = rng.random((series, 1))
            states[:, t] = (draw > upto[states[:, t - 1]]).sum(axis=1)
        return states


@dataclass(frozen=True, eq=False)
class SegmentWorld(PeerWorld):
    """Independent Gaussian sources without dynamics; their variances tell segments apart."""

    variances: np.ndarray = field(repr=False)  # (segments, d)

    @property
    def regimes(self) -> tuple[str, ...]:
        """Names of the segments."""
        return _names("S", len(self.variances))

    def _draw(
        self, series: int, length: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        states = _constant(len(self.variances), series, length)
        shape = (*states.shape, self.variances.shape[1])
        latents = rng.standard_normal(shape, dtype=np.float32)
        latents *= np.sqrt(self.variances).astype(np.float32)[states[:, 0]][:, None]
        return latents, states


@dataclass(frozen=True, eq=False)
class AutoregressiveWorld(PeerWorld):
    """Independent AR(1) sources of unit variance with Laplace innovations."""

    latents: int
    coefficient: float

    def _draw(
        self, series: int, length: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray | None]:
        a = self.coefficient
        before = int(np.ceil(np.log(FORGOTTEN) / np.log(abs(a)))) if a else 0
        scale = np.sqrt((1 - a**2) / 2)  # a Laplace variable has variance 2 scale^2
        innovations = rng.laplace(0.0, scale, (series, before + length, self.latents))
        sources = lfilter([1.0], [1.0, -a], innovations, axis=1)[:, before:]
        return sources.astype(np.float32), None


def _constant(kinds: int, series: int, length: int) -> np.ndarray:
    """Constant states (N, T) of `series` series per kind, as a view."""
    kind = np.repeat(np.arange(kinds, dtype=np.int16), series)
    return np.broadcast_to(kind[:, None], (len(kind), length))


def _names(letter: str, count: int) -> tuple[str, ...]:
    return tuple(f"{letter}{k}" for k in range(count))


def check_positive(**values: int) -> None:
    """Raise unless every value is at least 1."""
    for name, value in values.items():
        if value < 1:
            raise ConfigError(f"{name} = {value}", fix="make it at least 1")
