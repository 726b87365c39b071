"""The paper's synthetic system: latent mechanisms of known form, mixed into observations.

    z_t = s( s(z_{t-1} W) + sum_l s(z_{t-l} V_l) ) + noise,    x_t = mixing(z_t)

with s = LeakyReLU. Regime k has its own W = W^(k); in a transition W(t) = sum_k alpha_k(t) W^(k).
Rows of W are causes, columns are effects: W[i, j] is the edge z_i -> z_j.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np
from scipy.optimize import brentq

from ..config import KIND_NAMES, is_a
from ..errors import ConfigError
from .simulation import EmergentEdge, Simulation, leaky

MAX_DRAWS = 200
#: No mechanism grows faster than this, whatever its change adds to the base.
MAX_RADIUS = 0.99
#: Below this spectral radius a mechanism forgets its state at once.
DEAD_RADIUS = 0.5

CHOICES = {
    "noise_kind": ("gaussian", "laplace"),
    "change": ("edge", "two-edges", "dense"),
    "start": ("normal", "positive"),
}


@dataclass(frozen=True)
class WorldConfig:
    """What a synthetic world is made of; `World.draw` adds the random matrices."""

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
    #: how far the noise scale of a component differs between regimes: log-uniform in 1/s .. s
    regime_scale_spread: float = 1.0
    edge: float = 0.3
    change: Literal["edge", "two-edges", "dense"] = "edge"
    #: the first so many changed edges end in distinct latents, later ones share (-1: d - 2)
    distinct_targets: int = -1
    depth: int = 2
    observation_noise: float = 0.0
    start: Literal["normal", "positive"] = "normal"
    leak: float = 0.2
    #: spectral radius of the base over all lags
    radius: float = 0.97
    #: contamination of each mechanism by the others (appendix E.8 of the paper)
    impurity: float = 0.0
    #: extra regimes that repeat these ones, or that average these pairs
    duplicate: tuple[int, ...] = ()
    average: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        """Refuse settings that no world can have."""
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
        if self.component_scales is not None and len(self.component_scales) not in (
            2,
            self.latents,
        ):
            raise ConfigError(
                f"component_scales has {len(self.component_scales)} values",
                fix=f"give one for each of the {self.latents} latents, or (low, high)",
            )
        if not all(0 <= k < self.regimes for k in (*self.duplicate, *sum(self.average, ()))):
            raise ConfigError(
                f"duplicate = {self.duplicate}, average = {self.average}",
                fix=f"name regimes from 0 to {self.regimes - 1}",
            )
        positive = ("regimes", "latents", "lags", "channels", "length", "depth", "radius")
        for name in positive:
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
        edges = self.latents * (self.latents - 1)
        room = edges * (edges - 1) // 2 if self.change == "two-edges" else edges
        if self.change != "dense" and self.regimes > room:
            raise ConfigError(
                f"{self.latents} latents have too few edges for {self.regimes} regimes",
                fix="use more latents, fewer regimes or change='dense'",
            )


@dataclass(frozen=True, eq=False)
class World:
    """A drawn world: mechanisms, noise scales and mixing, ready to be simulated."""

    config: WorldConfig
    seed: int
    mechanisms: np.ndarray = field(repr=False)  # (K, d, d)
    lagged: np.ndarray = field(repr=False)  # (L - 1, d, d), shared by all regimes
    scales: np.ndarray = field(repr=False)  # (K, d) noise standard deviations
    mixing: tuple[np.ndarray, ...] = field(repr=False)

    @property
    def regimes(self) -> tuple[str, ...]:
        """Names of the regimes."""
        return tuple(f"R{k}" for k in range(len(self.mechanisms)))

    @classmethod
    def draw(cls, config: WorldConfig, seed: int = 0) -> World:
        """Draw matrices until every mechanism, and every mixture of two, is stable and alive."""
        for attempt in range(MAX_DRAWS):
            rng = np.random.default_rng([seed, attempt])
            base, lagged = _base_matrices(config, rng)
            change = _impure(_changes(config, rng), config.impurity)
            scale = _scale_for_radius(base, lagged, change, config.radius)
            if scale is None:
                continue
            mechanisms, lagged = scale * base + change, scale * lagged
            if _stable_and_alive(mechanisms, lagged):
                break
        else:
            raise ConfigError(
                f"no stable world found in {MAX_DRAWS} draws",
                fix="use a smaller edge strength or a smaller radius",
            )
        extra = [mechanisms[k] for k in config.duplicate]
        extra += [mechanisms[list(pair)].mean(axis=0) for pair in config.average]
        mechanisms = np.concatenate([mechanisms, np.stack(extra)]) if extra else mechanisms
        return cls(
            config=config,
            seed=seed,
            mechanisms=mechanisms,
            lagged=lagged,
            scales=_noise_scales(config, rng, len(mechanisms)),
            mixing=_orthogonal_layers(config, rng),
        )

    def simulate(
        self, series: int, *, seed: int = 0, length: int | None = None, label_noise: float = 0.0
    ) -> Simulation:
        """Pure runs: `series` recordings of every regime, labelled (some wrongly if asked)."""
        kinds = len(self.mechanisms)
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
        from .schedules import make_schedule

        steps = self.config.length if length is None else length
        alpha = make_schedule(schedule, steps, len(self.mechanisms), active)[None]
        rng = np.random.default_rng([self.seed, seed, 2])
        alpha = np.broadcast_to(alpha, (series, *alpha.shape[1:]))
        return Simulation.run(self, alpha, rng, length=steps, emergent=emergent)

    def mix(self, latents: np.ndarray) -> np.ndarray:
        """Observations of these latents: orthogonal layers with LeakyReLU in between."""
        first, *rest = self.mixing
        x = latents @ first
        for layer in rest:
            x = leaky(x, self.config.leak) @ layer
        return x


def _base_matrices(config: WorldConfig, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Positive, diagonally dominant matrices for lag 1 and for the later lags."""
    d = config.latents
    draw = rng.uniform(0.0, 1.0 / d, (config.lags, d, d))
    draw[:, np.arange(d), np.arange(d)] = rng.uniform(0.9, 1.0, (config.lags, d))
    weight = 0.5 ** np.arange(config.lags)  # later lags matter less
    draw *= weight[:, None, None]
    return draw[0], draw[1:]


def _changes(config: WorldConfig, rng: np.random.Generator) -> np.ndarray:
    """What sets each regime apart from the base: one edge, two edges or all of them."""
    kinds, d = config.regimes, config.latents
    change = np.zeros((kinds, d, d))
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
    """Two edges for each of more regimes than there are edges for: no two have the same pair."""
    d = config.latents
    edges = [(i, j) for i in range(d) for j in range(d) if i != j]
    pairs = [(a, b) for b in range(len(edges)) for a in range(b)]
    change = np.zeros((config.regimes, d, d))
    chosen = rng.choice(len(pairs), config.regimes, replace=False)
    for matrix, pair in zip(change, chosen, strict=True):
        for edge in pairs[pair]:
            matrix[edges[edge]] = config.edge
    return change


def _impure(change: np.ndarray, share: float) -> np.ndarray:
    kinds = len(change)
    if share == 0 or kinds == 1:
        return change
    others = (change.sum(axis=0) - change) / (kinds - 1)
    return (1 - share) * change + share * others


def _scale_for_radius(
    base: np.ndarray, lagged: np.ndarray, change: np.ndarray, radius: float
) -> float | None:
    """Scale that gives the base this spectral radius and keeps every mechanism below the limit."""

    def largest(scale: float, changes: np.ndarray) -> float:
        return float(companion_radius(scale * base + changes, scale * lagged).max())

    scales = []
    for changes, target in ((np.zeros_like(change[:1]), radius), (change, MAX_RADIUS)):
        if not largest(1e-3, changes) < target < largest(10.0, changes):
            return None
        scales.append(brentq(lambda c, x=changes, r=target: largest(c, x) - r, 1e-3, 10.0))
    return min(scales)


def companion_radius(mechanisms: np.ndarray, lagged: np.ndarray) -> np.ndarray:
    """Spectral radius of the companion matrix over all lags, for each mechanism."""
    kinds, d, _ = mechanisms.shape
    lags = 1 + len(lagged)
    companion = np.zeros((kinds, lags * d, lags * d))
    companion[:, :d, :d] = np.swapaxes(mechanisms, 1, 2)
    for lag, matrix in enumerate(lagged, start=1):
        companion[:, :d, lag * d : (lag + 1) * d] = matrix.T
    companion[:, d:, :-d] = np.eye((lags - 1) * d)
    return np.abs(np.linalg.eigvals(companion)).max(axis=-1)


def _stable_and_alive(mechanisms: np.ndarray, lagged: np.ndarray) -> bool:
    first, second = np.triu_indices(len(mechanisms))  # every mechanism and every mixture of two
    radius = companion_radius(0.5 * (mechanisms[first] + mechanisms[second]), lagged)
    return bool(radius.max() < 1 and radius.min() > DEAD_RADIUS)


def _noise_scales(config: WorldConfig, rng: np.random.Generator, kinds: int) -> np.ndarray:
    d = config.latents
    relative = np.ones(d)
    if config.component_scales is not None:
        given = np.asarray(config.component_scales, float)
        relative = given if len(given) == d else rng.uniform(given[0], given[-1], d)
    spread = np.log(config.regime_scale_spread)
    by_regime = np.exp(rng.uniform(-spread, spread, (kinds, d))) if spread else np.ones((kinds, d))
    return config.noise * relative * by_regime


def _orthogonal_layers(config: WorldConfig, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    p = config.channels

    def orthogonal() -> np.ndarray:
        q, r = np.linalg.qr(rng.standard_normal((p, p)))
        return (q * np.sign(np.diag(r))).astype(np.float32)

    layers = [orthogonal() for _ in range(config.depth)]
    return (layers[0][: config.latents], *layers[1:])


#: Named worlds: what sets each apart from the paper's.
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    "paper-positive": {"start": "positive"},
    "laplace": {"noise_kind": "laplace"},
    # noise of a component up to 4 times as large in one regime as in another, nothing bent
    "regime-noise": {"start": "positive", "regime_scale_spread": 2.0},
    # leak 1 makes the activation the identity: nothing but a rotation-invariant Gaussian is left
    "linear-gaussian": {"start": "positive", "change": "dense", "leak": 1.0},
}


def make(name: str = "paper", *, seed: int = 0, **options: Any) -> World:
    """Draw a named world; any field of `WorldConfig` can be overridden.

    >>> make("paper", regimes=3, channels=12).mechanisms.shape
    (3, 8, 8)
    """
    if name not in PRESETS:
        raise ConfigError(f"unknown world {name!r}", fix=f"use one of {sorted(PRESETS)}")
    known = {f.name for f in fields(WorldConfig)}
    for option in options:
        if option not in known:
            raise ConfigError(f"a world has no option {option!r}", fix=f"use {sorted(known)}")
        kind = type(getattr(WorldConfig, option))
        if kind in KIND_NAMES and not is_a(options[option], kind):
            raise ConfigError(f"{option} = {options[option]!r}", fix=f"make it {KIND_NAMES[kind]}")
    return World.draw(replace(WorldConfig(**PRESETS[name]), **options), seed=seed)
