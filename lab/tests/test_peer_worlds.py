"""Worlds of other methods: their drawn parts, the equations they follow, seeds, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import kurtosis

from mechtrace.errors import ConfigError
from mechtrace.worlds import PRESETS
from mechtrace_lab import peer_worlds as peers

SMALL: dict[str, dict[str, Any]] = {
    "tdrl": {"series": 400},
    "nctrl": {"series": 2_000},
    "leap": {"series": 300},
    "ivae": {"series": 2, "length": 500},
    "pcl": {"series": 100},
}
LABELLED = {"tdrl": 5, "leap": 5, "ivae": 40}


def leaky_relu(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x, 0.2 * x)


def unleaky(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x, x / 0.2)


def small(name: str, **options: Any) -> Any:
    return peers.make(name, **(SMALL[name] | options))


def innovations(world: peers.PeerWorld, recordings: peers.PeerSimulation) -> np.ndarray:
    """The noise behind the latents, (N, T - L, d), by the equation written out once more."""
    z, states, lags = recordings.latents.astype(float), recordings.states, world.matrices.shape[1]
    assert states is not None
    noise = unleaky(z[:, lags:])
    for lag in range(1, lags + 1):
        weights = world.matrices[states[:, lags:], lag - 1]
        noise -= leaky_relu(
            np.einsum("nti,ntij->ntj", z[:, lags - lag : z.shape[1] - lag], weights)
        )
    return noise


# --- all of them ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", peers.WORLDS)
def test_shapes_and_labels(name):
    world = small(name)
    recordings = world.simulate()
    panel, count = recordings.panel, SMALL[name]["series"] * LABELLED.get(name, 1)
    assert recordings.world == name
    assert recordings.latents.shape == (count, world.length, len(panel.channels))
    assert recordings.latents.dtype == panel.values.dtype == np.float32
    assert len(panel) == count
    assert panel.labelled == (name in LABELLED)
    if name == "pcl":
        assert recordings.states is None
    else:
        assert recordings.states.shape == recordings.latents.shape[:2]
    if name in LABELLED:
        assert panel.regimes == world.regimes
        assert len(world.regimes) == LABELLED[name]
        assert np.array_equal(panel.codes, recordings.states.ravel())


@pytest.mark.parametrize("name", peers.WORLDS)
def test_the_authors_sizes_are_the_default(name):
    world = peers.make(name)
    sizes = {"tdrl": (40_000, 3), "nctrl": (200_000, 6), "leap": (7_500, 6), "ivae": (1, 1_000)}
    assert (world.series, world.length) == sizes.get(name, (1_000, 64))
    assert len(world.mixing.layers[0]) == (5 if name in ("ivae", "pcl") else 8)
    assert name not in PRESETS


@pytest.mark.parametrize("name", peers.WORLDS)
def test_a_seed_repeats_and_another_one_is_held_out(name):
    world, again, other = small(name), small(name), small(name, seed=1)
    first = world.simulate(3)
    assert np.array_equal(first.panel.values, again.simulate(3).panel.values)
    held_out = world.simulate(3, seed=1)
    assert not (held_out.latents == first.latents).all(axis=-1).any()
    assert np.array_equal(world.mixing.layers, again.mixing.layers)
    assert not np.array_equal(world.mixing.layers, other.mixing.layers)


@pytest.mark.parametrize("name", peers.WORLDS)
def test_latents_come_back_from_observations(name):
    world = small(name)
    recordings = world.simulate(20)
    back = world.mixing.inverse(recordings.panel.values).reshape(recordings.latents.shape)
    np.testing.assert_allclose(back, recordings.latents, atol=2e-4)


@pytest.mark.parametrize("name", ["tdrl", "nctrl", "leap"])
def test_temporal_worlds_are_mixed_by_bent_rotations(name):
    world = small(name)
    first, second = world.mixing.layers
    for layer in (first, second):
        np.testing.assert_allclose(layer @ layer.T, np.eye(8), atol=1e-5)
    recordings = world.simulate(20)
    expected = leaky_relu(leaky_relu(recordings.latents) @ first) @ second
    np.testing.assert_allclose(recordings.panel.values, expected.reshape(-1, 8), atol=1e-5)


@pytest.mark.parametrize("name", ["ivae", "pcl"])
@pytest.mark.parametrize("condition", [1.0, 3.5])
def test_sources_are_mixed_by_well_conditioned_layers(name, condition):
    world = small(name, condition=condition)
    assert len(world.mixing.layers) == 3
    assert max(np.linalg.cond(layer) for layer in world.mixing.layers) <= condition + 1e-5
    recordings = world.simulate(20)
    one, two, three = world.mixing.layers
    expected = leaky_relu(leaky_relu(recordings.latents @ one) @ two) @ three
    values = recordings.panel.values.reshape(expected.shape)
    np.testing.assert_allclose(values, expected, atol=1e-5)


# --- latents that drive each other ------------------------------------------------------------


@pytest.mark.parametrize("name", ["tdrl", "nctrl", "leap"])
def test_latents_follow_the_equation_with_noise_inside(name):
    world = small(name, length=7)
    recordings = world.simulate()
    assert recordings.latents[:, :2].mean() == pytest.approx(0, abs=0.03)
    assert recordings.latents[:, :2].std() == pytest.approx(1, abs=0.03)
    noise = innovations(world, recordings)
    states = recordings.states[:, 2:]
    for k, scales in enumerate(world.scales):
        np.testing.assert_allclose(noise[states == k].std(axis=0), scales, rtol=0.12)
    assert abs(kurtosis(noise / world.scales[states], axis=None)) < 0.1
    if name != "leap":
        assert (world.scales == 0.1).all()


def test_domains_of_tdrl_differ_in_two_entries_of_one_lag():
    # leap with the same seed starts with the same draws, and so has the same base
    for seed in range(5):
        base = small("leap", seed=seed).matrices[0]
        np.testing.assert_allclose(np.linalg.norm(base, axis=1), 1)
        for matrices in small("tdrl", seed=seed).matrices:
            changed = matrices != base
            assert changed.sum() == 2
            assert changed.any(axis=(1, 2)).sum() == 1
            assert np.abs(matrices[changed]).max() <= 1


def test_states_of_nctrl_walk_round_a_ring():
    world = small("nctrl", length=20)
    states = world.simulate(10_000).states
    before, after = states[:, :-1].ravel(), states[:, 1:].ravel()
    assert (before == after).mean() == pytest.approx(0.9, abs=0.01)
    moved = before != after
    assert (after[moved] == (before[moved] + 1) % 5).all()
    np.testing.assert_allclose(np.bincount(states.ravel()) / states.size, 0.2, atol=0.02)


def test_states_of_nctrl_have_permutations_of_their_own():
    matrices = small("nctrl").matrices
    first = matrices[:, 0]
    assert set(np.unique(first)) == {0.0, 1.0}
    assert (first.sum(axis=1) == 1).all()
    assert (first.sum(axis=2) == 1).all()
    assert len({matrix.tobytes() for matrix in first}) == 5
    assert (matrices[:, 1] == matrices[0, 1]).all()
    np.testing.assert_allclose(np.linalg.norm(matrices[0, 1], axis=0), 1)


def test_domains_of_leap_differ_in_noise_alone():
    world = small("leap", scales=(0.05, 0.2))
    assert (world.matrices == world.matrices[0]).all()
    assert world.scales.min() >= 0.05
    assert world.scales.max() <= 0.2
    assert len(np.unique(world.scales)) == world.scales.size


# --- independent sources ----------------------------------------------------------------------


def test_segments_of_ivae_have_variances_of_their_own():
    world = small("ivae", length=5_000)
    recordings = world.simulate()
    assert world.variances.shape == (40, 5)
    assert world.variances.min() >= 0.1
    assert world.variances.max() <= 10
    assert 0.35 < (world.variances < 1).mean() < 0.65  # log-uniform
    for k, variances in enumerate(world.variances):
        z = recordings.latents[recordings.states == k]
        np.testing.assert_allclose(z.var(axis=0), variances, rtol=0.1)
        assert np.abs(np.corrcoef(z.T) - np.eye(5)).max() < 0.05
        assert np.abs(np.corrcoef(z[1:].T, z[:-1].T)[:5, 5:]).max() < 0.05


@pytest.mark.parametrize("coefficient", [0.7, -0.4, 0.0])
def test_sources_of_pcl_are_autoregressive(coefficient):
    world = small("pcl", coefficient=coefficient, length=1_000)
    z = world.simulate().latents.astype(float)
    before, after = z[:, :-1].reshape(-1, 5), z[:, 1:].reshape(-1, 5)
    slopes = (before * after).sum(axis=0) / (before**2).sum(axis=0)
    np.testing.assert_allclose(slopes, coefficient, atol=0.015)
    np.testing.assert_allclose(z.var(axis=(0, 1)), 1, atol=0.05)
    np.testing.assert_allclose(kurtosis(after - coefficient * before), 3, atol=0.5)  # Laplace
    assert z[:, 0].std() == pytest.approx(1, abs=0.15)  # already settled at the first step


# --- what cannot be -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("slowvae", {}, "unknown world 'slowvae'; use one of tdrl, nctrl, leap, ivae, pcl"),
        ("pcl", {"domains": 3}, "the pcl world has no option 'domains'"),
        ("tdrl", {"domains": 0}, "domains = 0; make it at least 1"),
        ("tdrl", {"domains": 2.5}, "domains = 2.5; make it a whole number"),
        ("tdrl", {"changes": 65}, "changes = 65; use at most 64"),
        ("tdrl", {"noise": -0.1}, "noise = -0.1; make it non-negative"),
        ("nctrl", {"stay": 1.5}, "stay = 1.5; use a probability"),
        ("nctrl", {"latents": 2}, "2 latents have too few permutations for 5 states"),
        ("leap", {"scales": (0.3, 0.1)}, "scales = .*; give"),
        ("leap", {"scales": 0.3}, "scales = 0.3; give"),
        ("ivae", {"variances": (0.0, 1.0)}, "variances = .*; give"),
        ("ivae", {"condition": 0.5}, "condition = 0.5; use 1"),
        ("ivae", {"condition": 1.01}, "0 of 10000 drawn layers"),
        ("pcl", {"coefficient": 1.0}, "coefficient = 1.0; use one between"),
    ],
)
def test_refusals(name, options, words):
    with pytest.raises(ConfigError, match=words):
        peers.make(name, **options)


def test_refusals_of_a_simulation():
    world = small("tdrl")
    with pytest.raises(ConfigError, match="length 2 is not longer than 2 lags"):
        world.simulate(3, length=2)
    with pytest.raises(ConfigError, match="series = 0"):
        world.simulate(0)
    with pytest.raises(ConfigError, match="exploded at step"):
        world.simulate(3, length=200)
