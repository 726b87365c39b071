"""Information about a point of the simplex, against the direct formulas."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechtrace.stage2.information import GaussianInformation

seeds = st.integers(0, 2**31)


def block(
    seed: int, series: int = 2, steps: int = 3, regimes: int = 4, d: int = 3
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predictions, values and a full noise covariance."""
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((d, d))
    covariance = root @ root.T + 0.1 * np.eye(d)
    means = rng.standard_normal((series, steps, regimes, d))
    return means, rng.standard_normal((series, steps, d)), covariance


def random_evidence(rng, kinds=3, d=4, shape=(2, 5)):
    means = rng.standard_normal((*shape, kinds, d))
    values = rng.standard_normal((*shape, d))
    return means, values, np.diag(rng.uniform(0.5, 2, d))


def test_information_equals_the_direct_formulas():
    means, values, covariance = block(0)
    precision = np.linalg.inv(covariance)
    found = GaussianInformation.from_predictions(means, values, precision)
    for s, t in np.ndindex(2, 3):
        M, z = means[s, t].T, values[s, t]
        np.testing.assert_allclose(
            found.G[:, :, t, s], M.T @ precision @ M, rtol=1e-10, atol=1e-12
        )
        np.testing.assert_allclose(found.h[:, t, s], M.T @ precision @ z, rtol=1e-10, atol=1e-12)
        offset = z @ precision @ z + np.linalg.slogdet(covariance)[1]
        assert found.offset[t, s] == pytest.approx(offset, rel=1e-10)
        assert found.dims[t, s] == 3


def test_each_step_may_have_its_own_precision():
    means, values, covariance = block(1)
    scale = np.random.default_rng(5).uniform(0.5, 2.0, (2, 3))
    precision = np.linalg.inv(covariance) * scale[..., None, None]
    together = GaussianInformation.from_predictions(means, values, precision)
    for s, t in np.ndindex(2, 3):
        cell = np.ix_([s], [t])
        alone = GaussianInformation.from_predictions(means[cell], values[cell], precision[s, t])
        for whole, one in zip(together.parts(), alone.parts(), strict=True):
            np.testing.assert_allclose(whole[..., t, s], one[..., 0, 0], rtol=1e-12)


@pytest.mark.parametrize("where", ["values", "means", "infinite"])
def test_a_step_with_a_missing_number_carries_nothing(where):
    means, values, covariance = block(2)
    precision = np.linalg.inv(covariance)
    whole = GaussianInformation.from_predictions(means, values, precision)
    if where == "means":
        means[1, 2, 0, 1] = np.nan
    else:
        values[1, 2, 0] = np.nan if where == "values" else np.inf
    found = GaussianInformation.from_predictions(means, values, precision)
    assert not found.G[:, :, 2, 1].any()
    assert not found.h[:, 2, 1].any()
    assert found.offset[2, 1] == 0
    assert found.dims[2, 1] == 0
    known = np.ones((3, 2), bool)
    known[2, 1] = False
    np.testing.assert_array_equal(found.G[..., known], whole.G[..., known])
    np.testing.assert_array_equal(found.offset[known], whole.offset[known])
    plane = found.simplex_coordinates
    assert not plane.A[:, :, 2, 1].any()
    assert not plane.b[:, 2, 1].any()
    assert plane.offset[2, 1] == 0


def test_adding_information_equals_stacking_the_observations():
    means_a, values_a, covariance_a = block(3)
    means_b, values_b, covariance_b = block(4, d=2)
    joint = np.zeros((5, 5))
    joint[:3, :3], joint[3:, 3:] = covariance_a, covariance_b
    stacked = GaussianInformation.from_predictions(
        np.concatenate([means_a, means_b], -1),
        np.concatenate([values_a, values_b], -1),
        np.linalg.inv(joint),
    )
    added = GaussianInformation.from_predictions(
        means_a, values_a, np.linalg.inv(covariance_a)
    ) + GaussianInformation.from_predictions(means_b, values_b, np.linalg.inv(covariance_b))
    for part in ("G", "h", "offset", "dims"):
        left, right = getattr(added, part), getattr(stacked, part)
        np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-9)


def test_pooling_equals_stacking_the_trials():
    means, values, covariance = block(5, series=3)
    precision = np.linalg.inv(covariance)
    values[2, 0] = np.nan  # one trial lacks a step
    pooled = GaussianInformation.from_predictions(means, values, precision).pool()
    assert pooled.h.shape == (4, 3, 1)
    assert pooled.dims.tolist() == [[6], [9], [9]]
    many = np.kron(np.eye(3), precision)
    for t in (1, 2):
        M = np.concatenate([means[s, t].T for s in range(3)])
        z = np.concatenate([values[s, t] for s in range(3)])
        np.testing.assert_allclose(pooled.G[..., t, 0], M.T @ many @ M, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(pooled.h[:, t, 0], M.T @ many @ z, rtol=1e-9, atol=1e-10)
        offset = z @ many @ z + 3 * np.linalg.slogdet(covariance)[1]
        assert pooled.offset[t, 0] == pytest.approx(offset, rel=1e-9)


@pytest.mark.parametrize("chosen", [[2, 0], [1, 3], [3, 2, 1, 0], [0, 1, 2, 3]])
def test_restricting_regimes_equals_dropping_their_predictions(chosen):
    means, values, covariance = block(6)
    precision = np.linalg.inv(covariance)
    found = GaussianInformation.from_predictions(means, values, precision).restrict_to(chosen)
    direct = GaussianInformation.from_predictions(means[:, :, chosen], values, precision)
    for part in ("G", "h", "offset", "dims"):
        np.testing.assert_allclose(getattr(found, part), getattr(direct, part), rtol=1e-12)


@settings(max_examples=25, deadline=None)
@given(seeds, st.integers(2, 6), st.integers(1, 5))
def test_the_plane_tells_the_same_likelihood_as_the_full_formula(seed, regimes, d):
    means, values, covariance = block(seed, regimes=regimes, d=d)
    precision = np.linalg.inv(covariance)
    plane = GaussianInformation.from_predictions(means, values, precision).simplex_coordinates
    beta = np.random.default_rng(seed).standard_normal((regimes - 1, 3, 2))
    alpha = plane.weights(beta)
    np.testing.assert_allclose(alpha.sum(0), 1, atol=1e-12)
    error = values - np.einsum("kts,stkd->std", alpha, means)
    full = np.einsum("std,de,ste->st", error, precision, error) + np.linalg.slogdet(covariance)[1]
    short = plane.offset - 2 * (plane.b * beta).sum(0)
    short += np.einsum("its,ijts,jts->ts", beta, plane.A, beta)
    np.testing.assert_allclose(short.T, full, rtol=1e-8, atol=1e-8)


def test_the_offset_of_the_plane_is_that_of_the_middle():
    means, values, covariance = block(7)
    plane = GaussianInformation.from_predictions(
        means, values, np.linalg.inv(covariance)
    ).simplex_coordinates
    y = values - means.mean(axis=2)
    full = np.einsum("std,de,ste->st", y, np.linalg.inv(covariance), y)
    full += np.linalg.slogdet(covariance)[1]
    np.testing.assert_allclose(plane.offset.T, full, rtol=1e-10)
    np.testing.assert_allclose(plane.weights(np.zeros((3, 2))), 0.25)


@given(st.integers(0, 10_000))
def test_stacking_recombines_the_predictions(seed):
    rng = np.random.default_rng(seed)
    means, values, precision = random_evidence(rng)
    weights = np.eye(3) + 0.1 * rng.standard_normal((3, 3))
    fast = GaussianInformation.from_predictions(means, values, precision).recombine(
        weights[:, [2, 0]]
    )
    slow = GaussianInformation.from_predictions(weights[:, [2, 0]].T @ means, values, precision)
    for one, other in zip(fast.parts(), slow.parts(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-10)


@given(st.integers(0, 10_000))
def test_widening_is_a_larger_covariance(seed):
    rng = np.random.default_rng(seed)
    means, values, precision = random_evidence(rng)
    factor = rng.uniform(1, 5, (2, 5))
    wide = GaussianInformation.from_predictions(means, values, precision).inflate_noise(factor)
    slow = GaussianInformation.from_predictions(means, values, precision / factor[..., None, None])
    for one, other in zip(wide.parts(), slow.parts(), strict=True):
        np.testing.assert_allclose(one, other)


@given(st.integers(0, 10_000))
def test_shifting_moves_the_values_along_the_predictions(seed):
    rng = np.random.default_rng(seed)
    means, values, precision = random_evidence(rng)
    offset = rng.standard_normal((2, 3))
    fast = GaussianInformation.from_predictions(means, values, precision).subtract_offset(offset.T)
    moved = values - np.einsum("sk,stkd->std", offset, means)
    slow = GaussianInformation.from_predictions(means, moved, precision)
    for one, other in zip(fast.parts(), slow.parts(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


def test_series_can_be_chosen_joined_and_continued():
    rng = np.random.default_rng(5)
    evidence = GaussianInformation.from_predictions(*random_evidence(rng))
    alone = [evidence.select_series(np.array([s])) for s in (1, 0)]
    back = GaussianInformation.concatenate(alone)
    np.testing.assert_array_equal(back.h, evidence.h[..., ::-1])
    longer = GaussianInformation.concatenate([evidence, back], in_time=True)
    assert longer.G.shape == (3, 3, 10, 2)
    np.testing.assert_array_equal(longer.dims[5:], back.dims)
