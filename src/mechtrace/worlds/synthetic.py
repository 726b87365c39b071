"""The paper's synthetic system: latent mechanisms of known form and a nonlinear mixing.

    z_t = s( s(z_{t-1} W) + sum_l s(z_{t-l} V_l) ) + noise,    x_t = mixing(z_t)

with s = LeakyReLU. Regime k has W = W^(k); in a transition W(t) = sum_k alpha_k(t) W^(k).
W[i, j] is the edge z_i -> z_j.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import Any, Literal, overload

import numpy as np
from scipy.special import ndtr

from ..config import KIND_NAMES, check_seed, is_a
from ..errors import ConfigError
from ..io.frames import Frames
from . import drawing
from .physics import Physics, PhysicsConfig
from .pump import Pump, PumpConfig
from .simulation import Dynamics, EmergentEdge, leaky_relu
from .zoo.machine import Zoo, ZooConfig
from .zoo.systems import SYSTEMS

MAX_DRAWS = 200
#: Steps of burn-in.
BURN_IN = 200
#: Rows mixed at a time; bounds memory.
CHUNK_ROWS = 1 << 18

CHOICES = {
    "noise_kind": ("gaussian", "laplace"),
    "change": ("edge", "two-edges", "dense"),
    "start": ("normal", "positive", "settled"),
}


@dataclass(frozen=True)
class WorldConfig:
    """Settings of a synthetic world; `World.draw` draws its matrices."""

    regimes: int = 5
    latents: int = 8
    lags: int = 2
    channels: int = 16
    length: int = 50
    noise: float = 0.1
    noise_kind: Literal["gaussian", "laplace"] = "gaussian"
    noise_inside: bool = False
    #: relative noise scale of each component, or (low, high) to draw them; None = all 1
    component_scales: tuple[float, ...] | None = None
    #: noise scales by regime are log-uniform between 1/s and s
    regime_scale_spread: float = 1.0
    edge: float = 0.3
    change: Literal["edge", "two-edges", "dense"] = "edge"
    #: the changed edges (source, target) of each regime, instead of drawn ones
    edges: tuple[tuple[tuple[int, int], ...], ...] = ()
    #: number of changed edges with distinct targets (-1: d - 2)
    distinct_targets: int = -1
    depth: int = 2
    observation_noise: float = 0.0
    #: first rows: standard normal, its absolute value, or after a burn-in
    start: Literal["normal", "positive", "settled"] = "normal"
    leak: float = 0.2
    #: spectral radius of the base over all lags
    radius: float = 0.97
    #: contamination of each mechanism by the others (appendix E.8 of the paper)
    impurity: float = 0.0
    #: extra regimes that repeat these ones, or that average these pairs
    duplicate: tuple[int, ...] = ()
    average: tuple[tuple[int, int], ...] = ()
    #: side of square pictures of a cart at latent 0 with a pole at latent 2; 0: channels
    size: int = 0

    def __post_init__(self) -> None:
        """Validate the settings."""
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ConfigError(
                    f"{name} = {getattr(self, name)!r}", fix=f"use one of {', '.join(allowed)}"
                )
        if not (self.noise >= 0 and self.observation_noise >= 0 and self.regime_scale_spread > 0):
            raise ConfigError(
                f"noise = {self.noise}, observation_noise = {self.observation_noise},"
                f" regime_scale_spread = {self.regime_scale_spread}",
                fix="make the noise non-negative and the spread positive",
            )
        scales = self.component_scales
        if scales is not None and len(scales) not in (2, self.latents):
            raise ConfigError(
                f"component_scales has {len(scales)} values",
                fix=f"give one for each of the {self.latents} latents, or (low, high)",
            )
        if not all(0 <= k < self.regimes for k in (*self.duplicate, *sum(self.average, ()))):
            raise ConfigError(
                f"duplicate = {self.duplicate}, average = {self.average}",
                fix=f"name regimes from 0 to {self.regimes - 1}",
            )
        for name in ("regimes", "latents", "lags", "channels", "length", "depth", "radius"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} = {getattr(self, name)}", fix=f"make {name} positive")
        if self.channels < self.latents:
            raise ConfigError(
                f"{self.channels} channels cannot show {self.latents} latents",
                fix="use at least as many channels as latents",
            )
        if self.latents < 2 or self.regimes < 1 or self.length <= self.lags:
            raise ConfigError(
                f"latents = {self.latents}, regimes = {self.regimes}, length = {self.length}",
                fix="use at least 2 latents, 1 regime and more steps than lags",
            )
        if self.size and (self.latents < 3 or self.observation_noise or self.size < 8):
            raise ConfigError(
                f"size = {self.size} with {self.latents} latents and observation_noise ="
                f" {self.observation_noise}",
                fix="use at least 8 pixels on a side, 3 latents and no observation noise",
            )
        flat = [end for changed in self.edges for edge in changed for end in edge]
        fits = len(self.edges) == self.regimes and all(0 <= end < self.latents for end in flat)
        if self.edges and not fits:
            raise ConfigError(
                f"edges = {self.edges} of {self.regimes} regimes and {self.latents} latents",
                fix="list the changed edges of each regime as pairs of latents",
            )
        edges = self.latents * (self.latents - 1)
        room = edges * (edges - 1) // 2 if self.change == "two-edges" else edges
        if not self.edges and self.change != "dense" and self.regimes > room:
            raise ConfigError(
                f"{self.latents} latents have too few edges for {self.regimes} regimes",
                fix="use more latents, fewer regimes or change='dense'",
            )


@dataclass(frozen=True, eq=False)
class World(Dynamics):
    """A synthetic world: mechanisms, noise scales and mixing."""

    config: WorldConfig
    seed: int
    mechanisms: np.ndarray = field(repr=False)  # (K, d, d)
    lagged: np.ndarray = field(repr=False)  # (L - 1, d, d), shared by all regimes
    scales: np.ndarray = field(repr=False)  # (K, d) noise standard deviations
    mixing: tuple[np.ndarray, ...] = field(repr=False)

    @classmethod
    def draw(cls, config: WorldConfig, seed: int = 0) -> World:
        """Draw matrices until every mechanism and every mixture of two is stable."""
        for attempt in range(MAX_DRAWS):
            rng = np.random.default_rng([seed, attempt])
            base, lagged = drawing.base_matrices(config, rng)
            change = drawing.impure(drawing.changes(config, rng), config.impurity)
            scale = drawing.scale_for_radius(base, lagged, change, config.radius)
            if scale is None:
                continue
            mechanisms, lagged = scale * base + change, scale * lagged
            if drawing.stable_and_alive(mechanisms, lagged):
                break
        else:
            raise ConfigError(
                f"no stable world found in {MAX_DRAWS} draws",
                fix="use a smaller edge strength or a smaller radius",
            )
        extra = [mechanisms[k] for k in config.duplicate]
        extra += [mechanisms[list(pair)].mean(axis=0) for pair in config.average]
        mechanisms = np.concatenate([mechanisms, np.stack(extra)]) if extra else mechanisms
        scales = drawing.noise_scales(config, rng, len(mechanisms))
        mixing = drawing.orthogonal_layers(config, rng)
        return cls(config, seed, mechanisms, lagged, scales, mixing)

    @property
    def burn_in(self) -> int:  # type: ignore[override]
        """Steps before a recording begins."""
        return BURN_IN if self.config.start == "settled" else 0

    def initial_latents(self, series: int, rng: np.random.Generator) -> np.ndarray:
        """Draw standard normal latents, or their absolute values."""
        shape = (series, self.config.lags, self.config.latents)
        start = rng.standard_normal(shape, dtype=np.float32)
        return np.abs(start) if self.config.start == "positive" else start

    def step(
        self,
        latents: np.ndarray,
        t: int,
        alpha: np.ndarray,
        emergent: EmergentEdge | None,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Evaluate the equation above, one matrix product for neighbours of equal shares."""
        config = self.config
        noise = _noise(config.noise_kind, rng, (len(latents), config.latents))
        noise *= (alpha @ self.scales).astype(np.float32)
        before = np.empty_like(noise)
        change = np.flatnonzero((alpha[1:] != alpha[:-1]).any(axis=-1)) + 1
        for first, stop in pairwise([0, *change.tolist(), len(alpha)]):
            matrix = self.mixture_matrix(alpha[first], emergent)
            before[first:stop] = self._drive(latents[first:stop], t, matrix)
        if config.noise_inside:
            return leaky_relu(before + noise, config.leak)
        return leaky_relu(before, config.leak) + noise

    def conditional_mean(self, latents: np.ndarray, regime: int) -> np.ndarray:
        """Evaluate the equation's mean; noise inside the activation shifts it."""
        out = np.full(latents.shape, np.nan)
        for t in range(self.config.lags, latents.shape[1]):
            drive = self._drive(latents, t, self.mechanisms[regime])
            out[:, t] = self._mean_after(drive, self.scales[regime])
        return out

    def mixture_matrix(self, alpha: np.ndarray, emergent: EmergentEdge | None) -> np.ndarray:
        """Return W(t) = sum_k alpha_k(t) W^(k), with the emergent edge where it is active."""
        matrix = np.tensordot(alpha, self.mechanisms, axes=1)
        if emergent is not None:
            active = emergent.active(alpha)
            matrix[..., emergent.source, emergent.target] += emergent.strength * active
        return matrix

    def observe(self, latents: np.ndarray, rng: np.random.Generator) -> np.ndarray | Frames:
        """Mix latents to channels (N, T, p), or render two of them."""
        if self.config.size:
            return self.view.render(latents, self.config.size)
        flat = latents.reshape(-1, latents.shape[-1])
        out = np.empty((len(flat), self.config.channels), np.float32)
        for start in range(0, len(flat), CHUNK_ROWS):
            rows = slice(start, start + CHUNK_ROWS)
            out[rows] = self.mix(flat[rows])
            if self.config.observation_noise:
                noise = rng.standard_normal(out[rows].shape, dtype=np.float32)
                out[rows] += np.float32(self.config.observation_noise) * noise
        return out.reshape(*latents.shape[:2], -1)

    def mix(self, latents: np.ndarray) -> np.ndarray:
        """Map latents to channels by orthogonal layers with LeakyReLU in between."""
        first, *rest = self.mixing
        x = latents @ first
        for layer in rest:
            x = leaky_relu(x, self.config.leak) @ layer
        return x

    def _drive(self, z: np.ndarray, t: int, matrix: np.ndarray) -> np.ndarray:
        """Return the argument of the outer activation at step t without noise."""
        leak = self.config.leak
        total = leaky_relu(z[:, t - 1] @ matrix.astype(z.dtype), leak)
        for lag, later in enumerate(self.lagged, start=2):
            total += leaky_relu(z[:, t - lag] @ later.astype(z.dtype), leak)
        return total

    def _mean_after(self, drive: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Return E[z] given the argument of the outer activation."""
        config = self.config
        if not config.noise_inside or config.noise == 0:
            return leaky_relu(drive, config.leak)
        if config.noise_kind == "gaussian":
            u = drive / scale
            positive_part = drive * ndtr(u) + scale * np.exp(-0.5 * u**2) / np.sqrt(2 * np.pi)
        else:
            b = scale / np.sqrt(2)  # Laplace noise of this standard deviation
            positive_part = np.maximum(drive, 0) + 0.5 * b * np.exp(-np.abs(drive) / b)
        return config.leak * drive + (1 - config.leak) * positive_part


def _noise(kind: str, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    if kind == "laplace":
        return rng.laplace(scale=np.sqrt(0.5), size=shape).astype(np.float32)  # unit variance
    return rng.standard_normal(shape, dtype=np.float32)


#: Section 6.3 of the paper. The latents are x, v, theta, omega; each regime but the first has one
#: stronger edge: v -> theta, theta -> omega, omega -> v, x -> omega.
CARTPOLE: dict[str, Any] = {
    "latents": 4, "channels": 4, "length": 100, "noise": 0.05, "start": "settled", "size": 128,
    "edges": ((), ((1, 2),), ((2, 3),), ((3, 1),), ((0, 3),)),
}  # fmt: skip

#: Named worlds: what sets each apart from the paper's.
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    "paper-positive": {"start": "positive"},
    "laplace": {"noise_kind": "laplace"},
    # noise of a component up to 4 times as large in one regime as in another, nothing bent
    "regime-noise": {"start": "positive", "regime_scale_spread": 2.0},
    # leak 1 makes the activation the identity: nothing but a rotation-invariant Gaussian is left
    "linear-gaussian": {"start": "positive", "change": "dense", "leak": 1.0},
    "cartpole": CARTPOLE,
    "cartpole-physics": {},
    "pump": {},
    **{f"zoo/{name}": {"system": name} for name in SYSTEMS},
}
#: Worlds of another make than `World`, and their options.
OTHERS: dict[str, tuple[Any, Any]] = {
    "cartpole-physics": (Physics, PhysicsConfig),
    "pump": (Pump, PumpConfig),
    **{f"zoo/{name}": (Zoo, ZooConfig) for name in SYSTEMS},
}


@overload
def make(name: Literal["cartpole-physics"], *, seed: int = 0, **options: Any) -> Physics: ...
@overload
def make(name: Literal["pump"], *, seed: int = 0, **options: Any) -> Pump: ...
@overload
def make(name: str = "paper", *, seed: int = 0, **options: Any) -> World: ...
def make(name: str = "paper", *, seed: int = 0, **options: Any) -> Any:
    """Draw a named world.

    Parameters
    ----------
    name : str
        One of `PRESETS`.
    seed : int
        Of the mechanisms (of the sensors for "pump").
    **options
        Fields of `WorldConfig`, of `PhysicsConfig` for "cartpole-physics", of `PumpConfig` for
        "pump" or of `ZooConfig` for "zoo/NAME".

    Raises
    ------
    ConfigError
        If the world or an option is unknown or out of range.

    Examples
    --------
    >>> make("paper", regimes=3, channels=12).mechanisms.shape
    (3, 8, 8)
    """
    if name not in PRESETS:
        raise ConfigError(f"unknown world {name!r}", fix=f"use one of {sorted(PRESETS)}")
    kind_of_world, settings = OTHERS.get(name, (World, WorldConfig))
    known = {f.name for f in fields(settings)}
    for option in options:
        if option not in known:
            raise ConfigError(f"a world has no option {option!r}", fix=f"use {sorted(known)}")
        kind = type(getattr(settings, option))
        if kind in KIND_NAMES and not is_a(options[option], kind):
            raise ConfigError(f"{option} = {options[option]!r}", fix=f"make it {KIND_NAMES[kind]}")
    if name in OTHERS:
        return kind_of_world(settings(**PRESETS[name] | options), check_seed(seed))
    return World.draw(replace(WorldConfig(**PRESETS[name]), **options), seed=check_seed(seed))
