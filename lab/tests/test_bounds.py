"""The bounds of Theorems 2 and 3."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi

from mechtrace.stage2.algorithm1 import static_weights
from mechtrace_lab.studies.bounds import (
    approximation_error,
    pointwise_bounds,
    smooth_bound,
    theorem_bounds,
)


def test_smooth_bound_is_the_printed_expression():
    value = smooth_bound(steps=100, free=8, sigma_min=0.5, sigma=4.0, variation=2.0)
    assert value == pytest.approx((2 / 100) ** (2 / 3) * 4 ** (2 / 3) * 2 / 0.5 ** (2 / 3))
    more = smooth_bound(100, 8, 0.5, 4.0, 2.0, approximation=0.1)
    assert more - value == pytest.approx(0.04)
    assert smooth_bound(100, 8, 0.0, 4.0, 2.0) == np.inf


def test_approximation_error_is_the_distance_from_the_line():
    means = np.array([[0.0, 0.0], [1.0, 0.0]])
    alpha = np.array([[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]])
    bent = alpha @ means + np.array([[0.0, 0.1], [0.0, 0.3], [0.0, 0.1]])
    assert approximation_error(means, bent, alpha) == pytest.approx(0.3)


@given(st.integers(0, 10_000))
def test_theorem_2_holds_at_every_step(seed):
    rng = np.random.default_rng(seed)
    means = rng.standard_normal((3, 5))
    alpha = rng.dirichlet(np.ones(3), size=20)
    mixed = alpha @ means + 0.2 * rng.standard_normal((20, 5))
    z = mixed + rng.standard_normal((20, 5))
    error = np.linalg.norm((static_weights(z, means, simplex=False) - alpha)[:, 1:], axis=1)
    assert (error <= pointwise_bounds(means, z, mixed, alpha) * (1 + 1e-9)).all()


def test_bounds_hold_for_algorithm1_on_simulated_data():
    """Theorem 2: the error of the pointwise estimator stays below its bound."""
    rng = np.random.default_rng(5)
    means = 3 * rng.standard_normal((3, 5))
    truth = np.stack([np.linspace(1, 0, 80), np.linspace(0, 1, 80), np.zeros(80)], axis=1)
    z = truth @ means + 0.1 * rng.standard_normal((80, 5))
    found = static_weights(z, means, simplex=False)
    bounds = theorem_bounds(means, z, truth)
    error = np.linalg.norm((found - truth)[:, 1:], axis=1).mean()
    assert 0.3 * bounds.pointwise < error <= bounds.pointwise  # it holds, and says something
    # the noise has five dimensions of deviation 0.1; its norm has the mean of a chi distribution
    assert bounds.noise == pytest.approx(0.1 * chi.mean(5), rel=0.05)
    assert bounds.sigma_min == pytest.approx(np.linalg.norm((means[1:] - means[0]).T, -2))
    assert bounds.pointwise == pytest.approx(bounds.noise / bounds.sigma_min)
    assert bounds.snr == pytest.approx(1 / bounds.pointwise)
    rough = theorem_bounds(means, z, truth, approximation=0.5)
    assert rough.pointwise == pytest.approx((bounds.noise + 0.5) / bounds.sigma_min)
