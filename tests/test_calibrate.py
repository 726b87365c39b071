"""Corrections of scale from stretches whose regime is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mechtrace as mt
from mechtrace.errors import DataError
from mechtrace.recover.calibrate import mixing_matrix, two_point, unmix

TRUTH = mt.worlds.make_schedule("simple", 21, 3)
seeds = st.integers(0, 2**31)


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_two_points_undo_an_affine_distortion(seed):
    rng = np.random.default_rng(seed)
    slope, shift = rng.uniform(0.2, 1.5, 3), rng.uniform(-0.3, 0.3, 3)
    found = slope * TRUTH + shift
    known = {0: TRUTH[0], 10: TRUTH[10], 20: TRUTH[20]}
    for simplex in (True, False):
        np.testing.assert_allclose(
            two_point(found, known, simplex=simplex), TRUTH, rtol=0, atol=1e-9
        )


def test_the_order_of_the_known_rows_does_not_matter_nor_is_the_input_changed():
    found = 0.5 * TRUTH + 0.1
    before = found.copy()
    forward = two_point(found, {0: TRUTH[0], 20: TRUTH[20], 10: TRUTH[10]})
    backward = two_point(found, {20: TRUTH[20], 10: TRUTH[10], 0: TRUTH[0]})
    np.testing.assert_array_equal(forward, backward)
    np.testing.assert_array_equal(found, before)


def test_more_known_rows_are_met_in_the_least_squares_sense():
    rng = np.random.default_rng(0)
    found = 0.6 * TRUTH + 0.1 + 0.02 * rng.standard_normal(TRUTH.shape)
    rows = range(0, 21, 2)
    got = two_point(found, {row: TRUTH[row] for row in rows}, simplex=False)
    for k in range(3):
        design = np.column_stack([found[::2, k], np.ones(11)])
        slope, shift = np.linalg.lstsq(design, TRUTH[::2, k], rcond=None)[0]
        np.testing.assert_allclose(got[:, k], slope * found[:, k] + shift, atol=1e-10)


def test_on_the_simplex_the_rows_are_weights():
    rng = np.random.default_rng(1)
    found = TRUTH + 0.3 * rng.standard_normal(TRUTH.shape)
    known = {0: TRUTH[0], 10: TRUTH[10], 20: TRUTH[20]}
    got = two_point(found, known)
    np.testing.assert_allclose(got.sum(axis=1), 1, atol=1e-12)
    assert got.min() >= 0
    assert two_point(found, known, simplex=False).min() < 0


def test_a_regime_that_is_constant_in_truth_and_answer_is_only_shifted():
    found = np.column_stack([TRUTH[:, :2], np.full(21, 0.2)])
    known = {0: [1.0, 0.0, 0.0], 10: [0.0, 1.0, 0.0]}
    got = two_point(found, known, simplex=False)
    np.testing.assert_allclose(got[:, 2], 0.0, atol=1e-12)
    np.testing.assert_allclose(got[:, :2], TRUTH[:, :2], atol=1e-12)


def test_a_regime_known_to_be_absent_at_both_ends_keeps_its_shape_between():
    """Its ends say nothing of its scale; a slope fitted to noise would flatten it."""
    found = TRUTH + np.array([0.0, 0.05, 0.0]) * np.linspace(1, 0.5, 21)[:, None]
    got = two_point(found, {0: TRUTH[0], 20: TRUTH[20]}, simplex=False)
    np.testing.assert_allclose(got[:, 1], found[:, 1] - 0.0375, atol=1e-12)


def test_known_rows_that_look_alike_are_refused():
    flat = np.full((21, 3), 1 / 3)
    with pytest.raises(DataError, match="regime 0"):
        two_point(flat, {0: TRUTH[0], 20: TRUTH[20]})


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_a_known_mixing_is_undone(seed):
    rng = np.random.default_rng(seed)
    matrix = 0.7 * np.eye(3) + 0.3 * rng.dirichlet(np.ones(3), size=3).T
    found = TRUTH @ matrix.T
    measured = mixing_matrix({k: np.tile(matrix[:, k], (4, 1)) for k in range(3)})
    np.testing.assert_allclose(measured, matrix, atol=1e-12)
    for simplex in (True, False):
        np.testing.assert_allclose(unmix(found, measured, simplex=simplex), TRUTH, atol=1e-9)


def test_columns_of_the_mixing_matrix_are_means_of_the_pure_rows():
    rows = {1: np.array([[0.2, 0.8], [0.4, 0.6]]), 0: np.array([[1.0, 0.0], [0.8, 0.2]])}
    np.testing.assert_allclose(mixing_matrix(rows), [[0.9, 0.3], [0.1, 0.7]])


def test_unmixing_needs_no_symmetry():
    matrix = np.array([[0.9, 0.3], [0.1, 0.7]])
    got = unmix(np.array([[0.9, 0.1], [0.3, 0.7]]), matrix)
    np.testing.assert_allclose(got, np.eye(2), atol=1e-12)


@pytest.mark.parametrize(
    "matrix",
    [
        np.array([[0.5, 0.5], [0.5, 0.5]]),
        np.array([[0.5, 0.5 + 1e-8], [0.5, 0.5 - 1e-8]]),
        np.array([[1.0, 0.2, 0.2], [0.0, 0.4, 0.4], [0.0, 0.4, 0.4]]),
    ],
)
def test_endpoints_that_coincide_are_refused(matrix):
    with pytest.raises(DataError, match="merge"):
        unmix(np.full((5, len(matrix)), 1 / len(matrix)), matrix)
