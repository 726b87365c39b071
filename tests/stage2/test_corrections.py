"""Errors of the mechanisms in units of alpha: measured, corrected, put into the intervals."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from mechtrace.stage2.corrections import BasisCorrection, SeriesOffset
from mechtrace.stage2.inference import state_space
from mechtrace.stage2.information import GaussianInformation
from mechtrace.stage2.observation_models import TrainingSupport

KINDS, D = 3, 5


def pure_evidence(
    rng: np.random.Generator, each: int = 40, steps: int = 30, shift: float = 0.0, own: float = 0.0
) -> tuple[GaussianInformation, np.ndarray]:
    """Series whose values are those of alpha = e_l + a shared shift + one of each series."""
    regime = np.repeat(np.arange(KINDS), each)
    means = rng.standard_normal((len(regime), steps, KINDS, D))
    common = shift * np.array([1.0, -0.5, -0.5])
    each_series = own * rng.standard_normal((len(regime), KINDS))
    each_series -= each_series.mean(axis=1, keepdims=True)
    seeming = np.eye(KINDS)[regime] + common + each_series
    values = np.einsum("sk,stkd->std", seeming, means) + rng.standard_normal(means[:, :, 0].shape)
    return GaussianInformation.from_predictions(means, values, np.eye(D)), regime


def test_perfect_mechanisms_have_no_offsets():
    found = BasisCorrection.measure(*pure_evidence(np.random.default_rng(0)))
    np.testing.assert_allclose(found.recombination, np.eye(KINDS), atol=0.03)
    assert np.sqrt(np.diagonal(found.series_covariance)).max() < 0.05
    assert np.sqrt(np.diagonal(found.stretch_covariance)).max() < 0.05
    none = BasisCorrection.none(KINDS)
    assert not none.variance(np.full((4, KINDS), 1 / 3)).any()


def test_a_shared_error_is_found_and_taken_back():
    evidence, regime = pure_evidence(np.random.default_rng(1), shift=0.3)
    found = BasisCorrection.measure(evidence, regime)
    np.testing.assert_allclose(found.recombination.sum(axis=0), 1, atol=1e-9)
    wanted = np.eye(KINDS) + 0.3 * np.array([[1.0], [-0.5], [-0.5]])
    np.testing.assert_allclose(found.recombination, wanted, atol=0.03)
    again = BasisCorrection.measure(evidence.recombine(found.recombination), regime)
    np.testing.assert_allclose(again.recombination, np.eye(KINDS), atol=0.03)


def test_what_differs_between_series_is_a_spread_not_a_shift():
    found = BasisCorrection.measure(*pure_evidence(np.random.default_rng(2), own=0.2))
    np.testing.assert_allclose(found.recombination, np.eye(KINDS), atol=0.12)
    # removing the mean of three weights leaves two thirds of their variance
    expected = 0.2 * np.sqrt(2 / 3)
    assert np.sqrt(np.diagonal(found.series_covariance)) == pytest.approx([expected] * 3, rel=0.25)
    alone, pooled = (found.variance(np.eye(KINDS), trials) for trials in (1, 100))
    assert (pooled < 0.5 * alone).all()


def test_few_series_are_not_trusted_with_a_correction():
    rng = np.random.default_rng(3)
    few = BasisCorrection.measure(*pure_evidence(rng, each=1, steps=4, shift=0.3))
    many = BasisCorrection.measure(*pure_evidence(rng, each=60, shift=0.3))
    assert (
        np.diagonal(few.recombination_variance).mean()
        > 3 * np.diagonal(many.recombination_variance).mean()
    )
    assert np.isfinite(few.recombination).all()


def test_offsets_of_some_regimes_only():
    found = BasisCorrection.measure(*pure_evidence(np.random.default_rng(4), shift=0.2))
    part = found.restrict_to([2, 0])
    np.testing.assert_array_equal(part.recombination, found.recombination[:, [2, 0]])
    assert part.variance(np.full((1, 2), 0.5)).shape == (1, 2)


def test_permuting_the_regimes_permutes_the_offsets():
    evidence, regime = pure_evidence(np.random.default_rng(5), shift=0.2, own=0.1)
    order = np.array([2, 0, 1])  # the new regime i was number order[i]
    new = np.argsort(order)[regime]
    one, other = (
        BasisCorrection.measure(evidence, regime),
        BasisCorrection.measure(evidence.restrict_to(order), new),
    )
    for name in [field.name for field in fields(BasisCorrection)]:
        np.testing.assert_allclose(
            getattr(other, name), getattr(one, name)[np.ix_(order, order)], atol=1e-8
        )


# --- one recording that is off ----------------------------------------------------------------


def glide_with_offset(rng, steps=120, offset=0.25):
    share = np.clip((np.arange(steps) - 40) / 40, 0, 1)
    truth = np.stack([1 - share, share, np.zeros(steps)], axis=1)
    means = rng.standard_normal((1, steps, KINDS, D))
    seeming = truth + offset * np.array([-0.5, 1.0, -0.5])
    values = np.einsum("tk,stkd->std", seeming, means) + 0.5 * rng.standard_normal((1, steps, D))
    return GaussianInformation.from_predictions(means, values, 4 * np.eye(D)), truth


def off_by_a_fifth() -> BasisCorrection:
    plane = np.eye(KINDS) - 1 / KINDS
    zero = np.zeros((KINDS, KINDS))
    return BasisCorrection(np.eye(KINDS), zero, 0.04 * plane, zero)


def test_a_known_stretch_removes_the_offset():
    evidence, truth = glide_with_offset(np.random.default_rng(6))
    elapsed = np.ones((1, len(truth)))
    known = np.full((1, *truth.shape), np.nan)
    known[0, :40] = [1, 0, 0]
    found = SeriesOffset.from_known(evidence, off_by_a_fifth(), known)
    assert found.offset[:, 0] == pytest.approx(0.25 * np.array([-0.5, 1.0, -0.5]), abs=0.08)
    before = state_space(evidence, elapsed).alpha[0]
    after = state_space(found.subtract_from(evidence), elapsed).alpha[0]
    assert np.abs(after - truth).mean() < 0.6 * np.abs(before - truth).mean()
    usual = off_by_a_fifth().variance(after[None])
    assert (found.variance(after[None]) < 0.5 * usual).all()


def test_the_simplex_alone_removes_some_of_it():
    evidence, truth = glide_with_offset(np.random.default_rng(7))
    elapsed = np.ones((1, len(truth)))
    found = SeriesOffset.from_simplex(evidence, off_by_a_fifth(), elapsed)
    before = state_space(evidence, elapsed).alpha[0]
    after = state_space(found.subtract_from(evidence), elapsed).alpha[0]
    assert np.abs(after - truth).mean() < 0.8 * np.abs(before - truth).mean()


# --- where the experts were trained -----------------------------------------------------------


def test_predictions_give_way_outside_the_support():
    rng = np.random.default_rng(8)
    latents = rng.standard_normal((400, 2))
    support = TrainingSupport.of(latents)
    assert support.trust(latents).min() == 1.0
    far = np.array([[0.0, 0.0], [0.0, 0.0], [100.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    far = far[:, None]
    expected = np.full((5, 1, 3, 2), 50.0)
    means = np.zeros((3, 2))
    support.shrink(expected, means, far, range(1, 3))
    assert (expected[2] == 50).all()  # its two predecessors lie inside
    assert np.abs(expected[3]).max() < 5
    np.testing.assert_array_equal(expected[3], expected[4])
    everywhere = TrainingSupport(np.zeros(2), np.eye(2), np.inf)
    everywhere.shrink(expected, means, far, range(1, 3))
    assert (expected[2] == 50).all()


def test_the_support_survives_storage():
    support = TrainingSupport.of(np.random.default_rng(9).standard_normal((50, 3)))
    again = TrainingSupport.from_arrays(support.arrays())
    np.testing.assert_array_equal(again.root, support.root)
    assert again.limit == support.limit
