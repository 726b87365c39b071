"""Metrics: what they must not see (maps, order, signs) and what they must."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechtrace.metrics import linear_r2, mean_correlation

quick = settings(max_examples=30, deadline=None)
dims = st.integers(1, 6)
seeds = st.integers(0, 10**6)


@quick
@given(d=dims, seed=seeds)
def test_r2_is_one_under_any_invertible_linear_map(d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal((3, 40, d)) * 10.0 ** rng.integers(-2, 3, d) + 5
    rotation = np.linalg.qr(rng.standard_normal((d, d)))[0]
    learned = truth @ (rotation * rng.uniform(0.5, 2, d)) - 7
    assert linear_r2(truth, learned) == pytest.approx(1, abs=1e-8)


@quick
@given(d=dims, seed=seeds)
def test_mcc_is_one_under_permutation_sign_and_scale(d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal((3, 40, d))
    learned = truth[..., rng.permutation(d)] * rng.choice([-3.0, 0.01, 200.0], d) + 9
    assert mean_correlation(truth, learned) == pytest.approx(1)
    assert mean_correlation(truth, learned, rank=True) == pytest.approx(1)
    assert mean_correlation(learned, truth) == pytest.approx(1)


@quick
@given(d=dims, seed=seeds)
def test_rank_correlation_ignores_monotone_maps(d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal((200, d))
    learned = (np.exp(2 * truth) * rng.choice([-1, 1], d))[:, rng.permutation(d)]
    assert mean_correlation(truth, learned, rank=True) == pytest.approx(1)
    assert mean_correlation(truth, learned) < 0.99


def test_known_values() -> None:
    y = np.array([[0.0], [1.0], [2.0], [3.0]])
    x = np.array([[0.0], [1.0], [3.0], [2.0]])
    # covariance 1, both variances 1.25: correlation 0.8, and R2 of a regression is its square
    assert mean_correlation(y, x) == pytest.approx(0.8)
    assert mean_correlation(y, -x) == pytest.approx(0.8)
    assert linear_r2(y, x) == pytest.approx(0.64)
    assert mean_correlation(y, x**5, rank=True) == pytest.approx(0.8)


def test_the_matching_is_the_best_of_all_not_the_greedy_one() -> None:
    # orthogonal patterns, mixed so that the table of correlations is known
    a, b = np.array([1.0, 1, -1, -1]), np.array([1.0, -1, 1, -1])
    c = np.array([1.0, -1, -1, 1])
    first = 0.8 * a + 0.6 * b
    truth = np.column_stack([a, b])
    learned = np.column_stack([first, 0.7 * a + np.sqrt(1 - 0.49) * c])
    # table: |corr| = [[0.8, 0.7], [0.6, 0.0]]; greedy gives 0.8 + 0, the best is 0.7 + 0.6
    assert mean_correlation(truth, learned) == pytest.approx(0.65)


def test_r2_is_the_mean_over_true_components() -> None:
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((5000, 2))
    assert linear_r2(truth, truth[:, :1]) == pytest.approx(0.5, abs=0.01)
    noisy = truth + rng.standard_normal(truth.shape)
    assert linear_r2(truth, noisy) == pytest.approx(0.5, abs=0.02)
    assert linear_r2(truth, rng.standard_normal((5000, 2))) == pytest.approx(0, abs=0.01)


def test_a_rotation_is_seen_by_mcc_but_not_by_r2() -> None:
    truth = np.random.default_rng(0).standard_normal((20000, 2))
    turned = truth @ (np.array([[1, 1], [-1, 1]]) / np.sqrt(2))
    assert linear_r2(truth, turned) == pytest.approx(1)
    assert mean_correlation(truth, turned) == pytest.approx(np.sqrt(0.5), abs=0.02)


@pytest.mark.parametrize("rank", [False, True])
@pytest.mark.parametrize("value", [0.0, 0.1, 1e6])
def test_a_constant_learned_column_counts_as_nothing(rank: bool, value: float) -> None:
    truth = np.random.default_rng(0).standard_normal((57, 2))
    learned = truth.copy()
    learned[:, 1] = value
    assert mean_correlation(truth, learned, rank=rank) == pytest.approx(0.5, abs=1e-8)
    assert linear_r2(truth, np.full((57, 2), value)) == pytest.approx(0, abs=1e-8)


def test_fewer_or_more_learned_components() -> None:
    truth = np.random.default_rng(0).standard_normal((60, 4))
    assert mean_correlation(truth, truth[:, [2]]) == pytest.approx(0.25)
    assert mean_correlation(truth, -truth[:, [3, 1]]) == pytest.approx(0.5)
    noise = np.random.default_rng(1).standard_normal((60, 3))
    assert mean_correlation(truth, np.hstack([noise, truth])) == pytest.approx(1)
    assert linear_r2(truth, np.hstack([noise, truth])) == pytest.approx(1)


def test_single_precision_and_leading_shapes_make_no_difference() -> None:
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((4, 25, 3)).astype(np.float32)
    learned = truth + rng.standard_normal(truth.shape).astype(np.float32)
    flat = truth.reshape(100, 3).astype(float), learned.reshape(100, 3).astype(float)
    assert linear_r2(truth, learned) == linear_r2(*flat)
    assert mean_correlation(truth, learned) == mean_correlation(*flat)


@pytest.mark.parametrize("value", [1.0, 0.1])
def test_r2_of_a_constant_true_component_is_finite(value: float) -> None:
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((9, 2))
    truth[:, 1] = value
    assert 0 <= linear_r2(truth, rng.standard_normal((9, 2))) <= 1
