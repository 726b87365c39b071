"""Distances of regimes, constant and conditional basis."""

from __future__ import annotations

import numpy as np
import pytest
from diagnose_cases import oracle_reference
from hypothesis import given
from hypothesis import strategies as st

import mechtrace as mt
from mechtrace.diagnose.separation import (
    active_regimes,
    closest_pair,
    clusters,
    separation,
    static_sigma_min,
    step_scatter,
    weight_deviation,
    worst_deviation,
)
from mechtrace.diagnose.verdict import HARDLY, SEPARATED
from mechtrace.stage2.algorithm1 import static_weights


def test_geometry():
    means = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]])
    assert static_sigma_min(means) == pytest.approx(3.0)
    assert static_sigma_min(np.zeros((4, 2))) == 0.0  # more regimes than the basis can hold
    predictions = np.array([[0.0, 1.0], [0.0, 1.1], [2.0, 0.0]])
    distance = separation(predictions @ predictions.T)
    assert distance[0, 1] == pytest.approx(0.01)
    assert closest_pair(distance) == (0, 1)


def test_geometry_of_the_active_subset():
    means = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    assert static_sigma_min(means[[0, 1, 2]]) > static_sigma_min(means)
    alpha = np.tile([0.8, 0.15, 0.05, 0.0], (10, 1))
    assert active_regimes(alpha) == [0, 1]
    assert active_regimes(np.full((4, 3), np.nan)) == [0, 1, 2]
    assert active_regimes(np.eye(2)[[0, 0]]) == [0, 1]  # never fewer than two


@given(st.integers(2, 5), st.integers(0, 1000))
def test_worst_deviation_is_that_of_a_constant_alpha(kinds, seed):
    """Least squares on the plane: no direction is seen worse than the figure says."""
    rng = np.random.default_rng(seed)
    predictions = rng.standard_normal((kinds, 12))
    information = predictions @ predictions.T
    value = worst_deviation(information)
    for _ in range(5):
        direction = rng.standard_normal(kinds)
        direction -= direction.mean()
        direction /= np.linalg.norm(direction)
        assert 1 / np.sqrt(direction @ information @ direction) <= value * (1 + 1e-9)
    duplicate = np.concatenate([predictions, predictions[:1]])
    assert worst_deviation(duplicate @ duplicate.T) > 1e5


@pytest.mark.parametrize("kinds", [2, 4])
def test_weight_deviation_is_that_of_the_pseudoinverse(kinds):
    rng = np.random.default_rng(kinds)
    means, root = rng.normal(size=(kinds, 5)), rng.normal(size=(5, 5))
    states = means[1] + rng.normal(size=(40_000, 5)) @ root.T
    found = static_weights(states, means, simplex=False).std(axis=0).max()
    assert weight_deviation(means, root @ root.T) == pytest.approx(found, rel=0.03)
    # twice the distance, half the error; means on one point, or too many of them: no answer
    assert weight_deviation(2 * means, root @ root.T) == pytest.approx(found / 2, rel=0.03)
    assert weight_deviation(np.ones((2, 5)), np.eye(5)) == 1e6
    assert weight_deviation(rng.normal(size=(7, 5)), np.eye(5)) == 1e6


@pytest.mark.parametrize("trials", [1, 10])
@pytest.mark.parametrize("name", ["paper", "paper-positive"])
def test_the_error_of_the_constant_basis_is_foreseen(name, trials):
    """On fresh pure series, one by one and averaged: what Algorithm 1 gives the wrong regime."""
    world = mt.worlds.make(name, regimes=2, seed=1)
    reference = oracle_reference(world)
    off = weight_deviation(reference.means, step_scatter(reference, trials))
    foreseen = np.clip(np.random.default_rng(0).normal(0, off, 100_000), 0, 1).mean()
    pure = world.simulate(100, seed=3)
    wrong = []
    for k in (0, 1):
        states = pure.latents[pure.label == k][:, 2:].astype(float)
        states = states.reshape(-1, trials, *states.shape[1:]).mean(axis=1)
        wrong.append(1 - static_weights(states, reference.means)[..., k].mean())
    assert np.mean(wrong) == pytest.approx(foreseen, abs=0.06)


def test_single_recordings_of_the_papers_world_have_no_constant_basis():
    reference = oracle_reference(mt.worlds.make("paper", regimes=3))
    apart = [1 / weight_deviation(reference.means, step_scatter(reference, n)) for n in (1, 200)]
    assert apart[0] < HARDLY
    assert apart[1] > SEPARATED


def test_clusters_reach_through_neighbours():
    alike = np.eye(5, dtype=bool)
    alike[0, 1] = alike[1, 0] = alike[1, 3] = alike[3, 1] = True
    assert clusters(alike) == [[0, 1, 3]]
    assert clusters(np.eye(3, dtype=bool)) == []
