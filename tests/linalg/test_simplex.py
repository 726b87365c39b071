"""The probability simplex: projection, bounds, Helmert basis."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from mechtrace.linalg.simplex import helmert_basis, linear_bounds, project

seeds = st.integers(0, 2**31)
points = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=7).map(np.array)


@settings(max_examples=60, deadline=None)
@given(points)
def test_projection_lands_on_the_simplex_and_stays_there(point):
    once = project(point)
    assert (once >= 0).all()
    assert once.sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(project(once), once, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(points, seeds)
def test_projection_is_the_nearest_point_by_its_variational_inequality(point, seed):
    nearest = project(point)
    others = np.random.default_rng(seed).dirichlet(np.ones(len(point)), size=20)
    others = np.concatenate([others, np.eye(len(point))])  # corners decide
    slack = (others - nearest) @ (point - nearest)
    assert slack.max() <= 1e-9 * (1 + np.abs(point).max())


@pytest.mark.parametrize("seed", range(6))
def test_projection_equals_a_quadratic_programme(seed):
    rng = np.random.default_rng(seed)
    point = rng.normal(0.3, 0.8, size=2 + seed % 4)
    found = minimize(
        lambda w: 0.5 * ((w - point) ** 2).sum(),
        np.full(len(point), 1 / len(point)),
        jac=lambda w: w - point,
        bounds=[(0, None)] * len(point),
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 500},
    )
    np.testing.assert_allclose(project(point), found.x, atol=1e-6)


def test_projection_equals_a_grid_search():
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 201)] * 2, indexing="ij"), -1).reshape(-1, 2)
    grid = np.column_stack([grid, 1 - grid.sum(1)])
    grid = grid[grid[:, 2] >= 0]
    for point in np.random.default_rng(0).normal(0.3, 1.0, (20, 3)):
        best = grid[((grid - point) ** 2).sum(1).argmin()]
        np.testing.assert_allclose(project(point), best, atol=0.011)


@settings(max_examples=40, deadline=None)
@given(points, st.randoms(use_true_random=False))
def test_permuted_components_give_the_permuted_projection(point, random):
    order = list(range(len(point)))
    random.shuffle(order)
    np.testing.assert_allclose(project(point[order]), project(point)[order], atol=1e-12)


def test_rows_are_projected_one_by_one_and_a_missing_row_stays_missing():
    rng = np.random.default_rng(1)
    many = rng.standard_normal((3, 4, 5))
    one_by_one = np.array([[project(row) for row in part] for part in many])
    np.testing.assert_array_equal(project(many), one_by_one)
    many[1, 2, 3] = np.nan
    holey = project(many)
    assert np.isnan(holey[1, 2]).all()
    one_by_one[1, 2] = np.nan
    np.testing.assert_array_equal(holey, one_by_one)


def test_points_of_the_simplex_are_their_own_projection():
    inside = np.random.default_rng(2).dirichlet(np.ones(5), size=30)
    np.testing.assert_allclose(project(inside), inside, atol=1e-15)
    np.testing.assert_array_equal(project(np.eye(4)), np.eye(4))
    np.testing.assert_array_equal(project(np.array([5.0, 0.0, -3.0])), [1, 0, 0])


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(2, 5), st.integers(1, 4))
def test_bounds_hold_for_every_vector_of_weights_inside_its_intervals(seed, regimes, rows):
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((rows, regimes))
    alpha, other = rng.dirichlet(np.ones(regimes), 2)
    lower, upper = np.minimum(alpha, other), np.maximum(alpha, other)
    low, high = linear_bounds(matrix, alpha, lower, upper)
    assert (low <= matrix @ other + 1e-12).all()
    assert (matrix @ other <= high + 1e-12).all()
    if regimes == 2:  # exact: one end of the interval is attained
        np.testing.assert_allclose(
            np.minimum(np.abs(low - matrix @ other), np.abs(high - matrix @ other)), 0, atol=1e-12
        )


def test_what_all_regimes_share_is_certain():
    low, high = linear_bounds(np.full((1, 3), 7.0), np.full((4, 3), 1 / 3), np.zeros((4, 3)), 1.0)
    np.testing.assert_allclose([low, high], 7.0)


@pytest.mark.parametrize("regimes", range(2, 13))
def test_the_helmert_basis_is_orthonormal_and_orthogonal_to_ones(regimes):
    basis = helmert_basis(regimes)
    assert basis.shape == (regimes, regimes - 1)
    np.testing.assert_allclose(basis.T @ basis, np.eye(regimes - 1), atol=1e-14)
    np.testing.assert_allclose(basis.sum(axis=0), 0, atol=1e-14)
    centring = np.eye(regimes) - 1 / regimes
    np.testing.assert_allclose(basis @ basis.T, centring, atol=1e-14)
