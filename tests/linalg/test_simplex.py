"""The simplex, its plane, and evidence about a point of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from mechtrace.recover.evidence import Evidence
from mechtrace.recover.simplex import linear_bounds, plane_basis, project

seeds = st.integers(0, 2**31)
points = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=7).map(np.array)


def block(
    seed: int, series: int = 2, steps: int = 3, regimes: int = 4, d: int = 3
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predictions, values and a full noise covariance."""
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((d, d))
    covariance = root @ root.T + 0.1 * np.eye(d)
    means = rng.standard_normal((series, steps, regimes, d))
    return means, rng.standard_normal((series, steps, d)), covariance


# --- projection -------------------------------------------------------------------------------


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
def test_the_plane_basis_is_orthonormal_and_orthogonal_to_ones(regimes):
    basis = plane_basis(regimes)
    assert basis.shape == (regimes, regimes - 1)
    np.testing.assert_allclose(basis.T @ basis, np.eye(regimes - 1), atol=1e-14)
    np.testing.assert_allclose(basis.sum(axis=0), 0, atol=1e-14)
    centring = np.eye(regimes) - 1 / regimes
    np.testing.assert_allclose(basis @ basis.T, centring, atol=1e-14)


# --- evidence ---------------------------------------------------------------------------------


def test_evidence_of_a_block_equals_the_direct_formulas():
    means, values, covariance = block(0)
    precision = np.linalg.inv(covariance)
    found = Evidence.of_block(means, values, precision)
    for s, t in np.ndindex(2, 3):
        M, z = means[s, t].T, values[s, t]
        np.testing.assert_allclose(found.G[s, t], M.T @ precision @ M, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found.h[s, t], M.T @ precision @ z, rtol=1e-10, atol=1e-12)
        offset = z @ precision @ z + np.linalg.slogdet(covariance)[1]
        assert found.offset[s, t] == pytest.approx(offset, rel=1e-10)
        assert found.dims[s, t] == 3


def test_each_step_may_have_its_own_precision():
    means, values, covariance = block(1)
    scale = np.random.default_rng(5).uniform(0.5, 2.0, (2, 3))
    precision = np.linalg.inv(covariance) * scale[..., None, None]
    together = Evidence.of_block(means, values, precision)
    for s, t in np.ndindex(2, 3):
        cell = np.ix_([s], [t])
        alone = Evidence.of_block(means[cell], values[cell], precision[s, t])
        np.testing.assert_allclose(together.G[cell], alone.G, rtol=1e-12)
        np.testing.assert_allclose(together.h[cell], alone.h, rtol=1e-12)
        np.testing.assert_allclose(together.offset[cell], alone.offset, rtol=1e-12)


@pytest.mark.parametrize("where", ["values", "means", "infinite"])
def test_a_step_with_a_missing_number_carries_nothing(where):
    means, values, covariance = block(2)
    precision = np.linalg.inv(covariance)
    whole = Evidence.of_block(means, values, precision)
    if where == "means":
        means[1, 2, 0, 1] = np.nan
    else:
        values[1, 2, 0] = np.nan if where == "values" else np.inf
    found = Evidence.of_block(means, values, precision)
    assert not found.G[1, 2].any()
    assert not found.h[1, 2].any()
    assert found.offset[1, 2] == 0
    assert found.dims[1, 2] == 0
    known = np.ones((2, 3), bool)
    known[1, 2] = False
    np.testing.assert_array_equal(found.G[known], whole.G[known])
    np.testing.assert_array_equal(found.offset[known], whole.offset[known])
    plane = found.on_plane()
    assert not plane.A[1, 2].any()
    assert not plane.b[1, 2].any()
    assert plane.offset[1, 2] == 0


def test_adding_evidence_equals_stacking_the_observations():
    means_a, values_a, covariance_a = block(3)
    means_b, values_b, covariance_b = block(4, d=2)
    joint = np.zeros((5, 5))
    joint[:3, :3], joint[3:, 3:] = covariance_a, covariance_b
    stacked = Evidence.of_block(
        np.concatenate([means_a, means_b], -1),
        np.concatenate([values_a, values_b], -1),
        np.linalg.inv(joint),
    )
    added = Evidence.of_block(means_a, values_a, np.linalg.inv(covariance_a)) + Evidence.of_block(
        means_b, values_b, np.linalg.inv(covariance_b)
    )
    for part in ("G", "h", "offset", "dims"):
        left, right = getattr(added, part), getattr(stacked, part)
        np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-9)


def test_pooling_equals_stacking_the_trials():
    means, values, covariance = block(5, series=3)
    precision = np.linalg.inv(covariance)
    values[2, 0] = np.nan  # one trial lacks a step
    pooled = Evidence.of_block(means, values, precision).pooled()
    assert pooled.h.shape == (1, 3, 4)
    assert pooled.dims.tolist() == [[6, 9, 9]]
    many = np.kron(np.eye(3), precision)
    for t in (1, 2):
        M = np.concatenate([means[s, t].T for s in range(3)])
        z = np.concatenate([values[s, t] for s in range(3)])
        np.testing.assert_allclose(pooled.G[0, t], M.T @ many @ M, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(pooled.h[0, t], M.T @ many @ z, rtol=1e-9, atol=1e-10)
        offset = z @ many @ z + 3 * np.linalg.slogdet(covariance)[1]
        assert pooled.offset[0, t] == pytest.approx(offset, rel=1e-9)


@pytest.mark.parametrize("chosen", [[2, 0], [1, 3], [3, 2, 1, 0], [0, 1, 2, 3]])
def test_choosing_regimes_equals_evidence_of_their_predictions(chosen):
    means, values, covariance = block(6)
    precision = np.linalg.inv(covariance)
    found = Evidence.of_block(means, values, precision).of(chosen)
    direct = Evidence.of_block(means[:, :, chosen], values, precision)
    for part in ("G", "h", "offset", "dims"):
        np.testing.assert_allclose(getattr(found, part), getattr(direct, part), rtol=1e-12)


@settings(max_examples=25, deadline=None)
@given(seeds, st.integers(2, 6), st.integers(1, 5))
def test_the_plane_tells_the_same_likelihood_as_the_full_formula(seed, regimes, d):
    means, values, covariance = block(seed, regimes=regimes, d=d)
    precision = np.linalg.inv(covariance)
    plane = Evidence.of_block(means, values, precision).on_plane()
    beta = np.random.default_rng(seed).standard_normal((2, 3, regimes - 1))
    alpha = plane.weights(beta)
    np.testing.assert_allclose(alpha.sum(-1), 1, atol=1e-12)
    error = values - np.einsum("stk,stkd->std", alpha, means)
    full = np.einsum("std,de,ste->st", error, precision, error) + np.linalg.slogdet(covariance)[1]
    short = plane.offset - 2 * (plane.b * beta).sum(-1)
    short += np.einsum("sti,stij,stj->st", beta, plane.A, beta)
    np.testing.assert_allclose(short, full, rtol=1e-8, atol=1e-8)


def test_the_offset_of_the_plane_is_that_of_the_middle():
    means, values, covariance = block(7)
    plane = Evidence.of_block(means, values, np.linalg.inv(covariance)).on_plane()
    y = values - means.mean(axis=2)
    full = np.einsum("std,de,ste->st", y, np.linalg.inv(covariance), y)
    full += np.linalg.slogdet(covariance)[1]
    np.testing.assert_allclose(plane.offset, full, rtol=1e-10)
    np.testing.assert_allclose(plane.weights(np.zeros((2, 3))), 0.25)
