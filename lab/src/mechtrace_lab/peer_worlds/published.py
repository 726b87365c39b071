"""The worlds in which other methods were shown by their authors, with their truth.

Below, s is LeakyReLU with slope 0.2, z are latents, x observations (as many as latents).

- tdrl: z_t = s(sum_l s(z_{t-l} W_l) + 0.1 noise); labelled domains, each with two other entries in
  one W_l.
- nctrl: the same with unlabelled states on a sticky ring; each state has its own permutation
  matrix W_1.
- leap: the same with labelled domains that share all W_l and differ in the scale of the noise.
- ivae: independent Gaussian sources without dynamics, whose variances differ between labelled
  segments.
- pcl: independent autoregressive sources with Laplace innovations; no regimes at all.

Temporal worlds are mixed by x = s(s(z) Q_1) Q_2 with orthogonal Q, the sources of the last two
by well-conditioned layers with s in between. Nobody makes the temporal worlds stable: most grow
without bound after the few steps that their authors use. A drawn world is simulated as often as
one likes: with another seed it gives held-out recordings.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

import numpy as np
from scipy.signal import lfilter

from ..config import KIND_NAMES, is_a
from ..errors import ConfigError
from ..series import Panel
from .simulation import leaky

LEAK = 0.2
#: Matrices drawn, among which one below the wanted condition number must be.
MAX_DRAWS = 10_000
#: Latents beyond this have nothing to do with what the authors look at.
EXPLODED = 1e4
#: What is left of the start at zero when a source counts as settled.
FORGOTTEN = 1e-6


@dataclass(frozen=True, eq=False)
class Recordings:
    """What a world gave: observations, and the latents and states behind them."""

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
            x = (leaky(x, LEAK) if depth or self.bend_first else x) @ layer
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
    ) -> Recordings:
        """So many recordings (of each regime, where labelled); by default as the authors do."""
        series = self.series if series is None else series
        length = self.length if length is None else length
        _at_least_one(series=series, length=length)
        rng = np.random.default_rng([self.seed, seed, 1])
        latents, states = self._draw(series, length, rng)
        regime = None
        if self.regimes and states is not None:
            regime = np.array(self.regimes)[states[:, 0]]
        panel = Panel.from_arrays(self.mixing(latents), regime=regime, source=self.name)
        return Recordings(self.name, panel, latents, states)


@dataclass(frozen=True, eq=False)
class LaggedWorld(PeerWorld):
    """Latents that drive each other, by matrices and noise scales of the regime at work."""

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
                    before[rows] += leaky(latents[rows, t - lag] @ matrix, LEAK)
            latents[:, t] = leaky(before, LEAK)
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


# --- the settings of the authors -------------------------------------------------------------


def tdrl(
    *,
    seed: int = 0,
    domains: int = 5,
    latents: int = 8,
    lags: int = 2,
    changes: int = 2,
    noise: float = 0.1,
    series: int = 40_000,
    length: int = 3,
) -> LaggedWorld:
    """Changing dynamics: in each domain, so many entries of one lag matrix are drawn anew."""
    rng = np.random.default_rng([seed, 0])
    if changes > latents**2:
        raise ConfigError(f"changes = {changes}", fix=f"use at most {latents**2}")
    matrices = np.repeat(_lag_matrices(rng, lags, latents)[None], domains, axis=0)
    for matrix in matrices:
        changed = rng.choice(latents**2, changes, replace=False)
        matrix[rng.integers(lags)].flat[changed] = rng.uniform(-1, 1, changes)
    return LaggedWorld(
        name="tdrl",
        seed=seed,
        series=series,
        length=length,
        mixing=_orthogonal_mixing(rng, latents),
        matrices=matrices,
        scales=np.full((domains, latents), noise),
    )


def nctrl(
    *,
    seed: int = 0,
    states: int = 5,
    latents: int = 8,
    lags: int = 2,
    stay: float = 0.9,
    noise: float = 0.1,
    series: int = 200_000,
    length: int = 6,
) -> LaggedWorld:
    """Unknown states, each with a permutation of its own for W_1; the later lags are shared.

    A state stays with this probability, or gives way to the next one on a ring.
    """
    rng = np.random.default_rng([seed, 0])
    if not 0 <= stay <= 1:
        raise ConfigError(f"stay = {stay}", fix="use a probability")
    orders = _different_orders(rng, states, latents)
    matrices = np.repeat(_lag_matrices(rng, lags, latents)[None], states, axis=0)
    matrices[:, 0] = np.eye(latents)[orders]
    ring = np.roll(np.eye(states), 1, axis=1)
    return LaggedWorld(
        name="nctrl",
        seed=seed,
        series=series,
        length=length,
        mixing=_orthogonal_mixing(rng, latents),
        matrices=matrices,
        scales=np.full((states, latents), noise),
        chain=stay * np.eye(states) + (1 - stay) * ring,
    )


def leap(
    *,
    seed: int = 0,
    domains: int = 5,
    latents: int = 8,
    lags: int = 2,
    scales: tuple[float, float] = (0.03, 0.3),
    series: int = 7_500,
    length: int = 6,
) -> LaggedWorld:
    """Nonstationary noise: one dynamics, noise scales by domain and component.

    Scales are log-uniform in a range around the 0.1 of the other worlds. Up to tenfold contrasts
    between domains are what identifies the components here; the lower end keeps each of them
    noisy enough to be seen.
    """
    rng = np.random.default_rng([seed, 0])
    matrices = np.repeat(_lag_matrices(rng, lags, latents)[None], domains, axis=0)
    return LaggedWorld(
        name="leap",
        seed=seed,
        series=series,
        length=length,
        mixing=_orthogonal_mixing(rng, latents),
        matrices=matrices,
        scales=_log_uniform(rng, scales, (domains, latents)),
    )


def ivae(
    *,
    seed: int = 0,
    segments: int = 40,
    latents: int = 5,
    variances: tuple[float, float] = (0.1, 10.0),
    depth: int = 3,
    condition: float = 1.0,
    series: int = 1,
    length: int = 1_000,
) -> SegmentWorld:
    """Segments that differ in the variances of the sources, log-uniform in a range.

    Up to tenfold contrasts between deviations, as in the leap world, are what identifies the
    sources here. With variances uniform in this range iVAE leaves them turned into each other in
    the world of seed 10 (MCC 0.69 to 0.78 instead of 0.86 to 0.90); log-uniform ones make that
    rarer, not impossible.

    The layers of the mixing have at most this condition number; 1 makes them orthogonal. Two
    activations already shrink some directions to 0.04; layers of condition 6 shrink them further,
    and then even the best linear map from iVAE's latents explains 0.61 of the sources (seed 10).
    """
    rng = np.random.default_rng([seed, 0])
    return SegmentWorld(
        name="ivae",
        seed=seed,
        series=series,
        length=length,
        mixing=_conditioned_mixing(rng, latents, depth, condition),
        variances=_log_uniform(rng, variances, (segments, latents)),
    )


def pcl(
    *,
    seed: int = 0,
    latents: int = 5,
    coefficient: float = 0.7,
    depth: int = 3,
    condition: float = 1.0,
    series: int = 1_000,
    length: int = 64,
) -> AutoregressiveWorld:
    """Autoregressive sources: nothing but their dependence over time tells them apart.

    The layers of the mixing have at most this condition number; 1 makes them orthogonal.
    """
    rng = np.random.default_rng([seed, 0])
    if not -1 < coefficient < 1:
        raise ConfigError(f"coefficient = {coefficient}", fix="use one between -1 and 1")
    return AutoregressiveWorld(
        name="pcl",
        seed=seed,
        series=series,
        length=length,
        mixing=_conditioned_mixing(rng, latents, depth, condition),
        latents=latents,
        coefficient=coefficient,
    )


#: Worlds by the name of the method that was shown in them.
WORLDS: dict[str, Callable[..., PeerWorld]] = {
    "tdrl": tdrl,
    "nctrl": nctrl,
    "leap": leap,
    "ivae": ivae,
    "pcl": pcl,
}


def make(name: str, *, seed: int = 0, **options: Any) -> PeerWorld:
    """Draw the world of a method; `options` are the arguments of the function of that name.

    >>> world = make("tdrl", domains=3)
    >>> world.simulate(10).panel
    Panel: 30 series x 3 rows x 8 channels, regimes: D0, D1, D2 (tdrl)
    """
    if name not in WORLDS:
        raise ConfigError(f"unknown world {name!r}", fix=f"use one of {', '.join(WORLDS)}")
    defaults = {key: arg.default for key, arg in signature(WORLDS[name]).parameters.items()}
    for option, value in options.items():
        if option not in defaults:
            raise ConfigError(
                f"the {name} world has no option {option!r}", fix=f"use {', '.join(defaults)}"
            )
        default = defaults[option]
        if isinstance(default, tuple):
            _check_range(option, value)
        elif not is_a(value, type(default)):
            raise ConfigError(f"{option} = {value!r}", fix=f"make it {KIND_NAMES[type(default)]}")
        elif type(default) is int:
            _at_least_one(**{option: value})
        elif option == "noise" and value < 0:
            raise ConfigError(f"noise = {value}", fix="make it non-negative")
    return WORLDS[name](seed=seed, **options)


# --- what they are made of -------------------------------------------------------------------


def _lag_matrices(rng: np.random.Generator, lags: int, d: int) -> np.ndarray:
    """Matrices (L, d, d) with entries from U(-1, 1), then columns of norm 1."""
    draw = rng.uniform(-1, 1, (lags, d, d))
    return draw / np.linalg.norm(draw, axis=1, keepdims=True)


def _different_orders(rng: np.random.Generator, count: int, d: int) -> np.ndarray:
    """So many different permutations of d things."""
    found: dict[tuple[int, ...], None] = {}
    for _ in range(MAX_DRAWS):
        found[tuple(rng.permutation(d).tolist())] = None
        if len(found) == count:
            return np.array(list(found))
    raise ConfigError(
        f"{d} latents have too few permutations for {count} states",
        fix="use more latents or fewer states",
    )


def _log_uniform(
    rng: np.random.Generator, bounds: tuple[float, float], shape: tuple[int, ...]
) -> np.ndarray:
    return np.exp(rng.uniform(np.log(bounds[0]), np.log(bounds[1]), shape))


def _orthogonal(rng: np.random.Generator, d: int) -> np.ndarray:
    q, r = np.linalg.qr(rng.standard_normal((d, d)))
    return (q * np.sign(np.diag(r))).astype(np.float32)


def _orthogonal_mixing(rng: np.random.Generator, d: int) -> Mixing:
    return Mixing((_orthogonal(rng, d), _orthogonal(rng, d)), bend_first=True)


def _conditioned_mixing(rng: np.random.Generator, d: int, depth: int, condition: float) -> Mixing:
    """Layers with entries from U(-1, 1) and unit columns, the first ones conditioned well."""
    if condition < 1:
        raise ConfigError(f"condition = {condition}", fix="use 1 (orthogonal) or more")
    if condition == 1:
        return Mixing(tuple(_orthogonal(rng, d) for _ in range(depth)))
    draws = _lag_matrices(rng, MAX_DRAWS, d)
    good = draws[np.linalg.cond(draws) <= condition]
    if len(good) < depth:
        raise ConfigError(
            f"{len(good)} of {MAX_DRAWS} drawn layers have a condition number of at most"
            f" {condition}, {depth} are needed",
            fix="allow a larger one, or 1 for orthogonal layers",
        )
    return Mixing(tuple(good[:depth].astype(np.float32)))


def _constant(kinds: int, series: int, length: int) -> np.ndarray:
    """States of so many series of each kind, which never change: a view (N, T)."""
    kind = np.repeat(np.arange(kinds, dtype=np.int16), series)
    return np.broadcast_to(kind[:, None], (len(kind), length))


def _names(letter: str, count: int) -> tuple[str, ...]:
    return tuple(f"{letter}{k}" for k in range(count))


def _at_least_one(**values: int) -> None:
    for name, value in values.items():
        if value < 1:
            raise ConfigError(f"{name} = {value}", fix="make it at least 1")


def _check_range(name: str, value: Any) -> None:
    pair = isinstance(value, tuple | list) and len(value) == 2
    if not (pair and all(is_a(v, float) for v in value) and 0 < value[0] <= value[1]):
        raise ConfigError(f"{name} = {value!r}", fix="give (low, high), both positive")
