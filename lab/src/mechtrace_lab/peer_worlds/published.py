"""The settings under which other methods were published, as worlds to draw."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np

from mechtrace.config import KIND_NAMES, is_a
from mechtrace.errors import ConfigError

from .simulators import (
    AutoregressiveWorld,
    LaggedWorld,
    Mixing,
    PeerWorld,
    SegmentWorld,
    check_positive,
)

#: Matrices drawn in search of well-conditioned ones.
MAX_DRAWS = 10_000


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
            check_positive(**{option: value})
        elif option == "noise" and value < 0:
            raise ConfigError(f"noise = {value}", fix="make it non-negative")
    return WORLDS[name](seed=seed, **options)


def _lag_matrices(rng: np.random.Generator, lags: int, d: int) -> np.ndarray:
    """Matrices (L, d, d) with entries from U(-1, 1), then columns of norm 1."""
    draw = rng.uniform(-1, 1, (lags, d, d))
    return draw / np.linalg.norm(draw, axis=1, keepdims=True)


def _different_orders(rng: np.random.Generator, count: int, d: int) -> np.ndarray:
    """Draw distinct permutations of d elements."""
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


def _check_range(name: str, value: Any) -> None:
    pair = isinstance(value, tuple | list) and len(value) == 2
    if not (pair and all(is_a(v, float) for v in value) and 0 < value[0] <= value[1]):
        raise ConfigError(f"{name} = {value!r}", fix="give (low, high), both positive")
