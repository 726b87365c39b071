"""Blocks of evidence: what they see, how noisy they are, what they say of alpha."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechtrace.errors import ConfigError
from mechtrace.recover import blocks
from mechtrace.recover.blocks import Block, middle, observed
from mechtrace.recover.evidence import Evidence
from mechtrace.stage2 import _strange


@pytest.mark.parametrize("name", ["", "conditional", "conditional(0)", "moments(x)", "statics"])
def test_unknown_blocks_are_refused(name):
    with pytest.raises(ConfigError, match="not a block of evidence"):
        blocks.parse(name)


def test_candidates_fit_the_length_of_the_series():
    assert blocks.candidates(lags=2, steps=5) == ["conditional(1)", "static"]
    assert "moments(32)" in blocks.candidates(lags=2, steps=100)
    for name in blocks.candidates(lags=2, steps=100):
        assert blocks.memory(name, 2) < 100


def slow_moments(z: np.ndarray, window: int) -> np.ndarray:
    steps = np.diff(z[-window:], axis=0)
    deviation = np.log(z[-window:].std(axis=0) + blocks.STILL)
    moved = steps.std(axis=0) if len(steps) else np.zeros(z.shape[1])
    return np.concatenate([z[-window:].mean(axis=0), deviation, np.log(moved + blocks.STILL)])


@given(st.integers(1, 9), st.integers(0, 10_000))
def test_moments_equal_the_slow_way_and_start_anew_after_a_gap(window, seed):
    z = np.random.default_rng(seed).standard_normal((25, 3))
    position = np.concatenate([np.arange(12), np.arange(13)])  # a gap after twelve rows
    found = blocks.observed(f"moments({window})", z[:, None], position[:, None])[:, 0]
    for row in range(25):
        first = 0 if row < 12 else 12
        if position[row] < window - 1:
            assert np.isnan(found[row]).all()
        else:
            np.testing.assert_allclose(found[row], slow_moments(z[first : row + 1], window))


def test_a_few_rows_are_seen_as_in_the_whole():
    z = np.random.default_rng(0).standard_normal((500, 2))
    both = np.stack([z, z[::-1]], axis=1)  # beside another series
    whole = blocks.observed("moments(16)", both, np.arange(500)[:, None].repeat(2, 1))[-1, 0]
    alone = blocks.observed("moments(16)", z[-16:, None], np.arange(16)[:, None])[-1, 0]
    np.testing.assert_array_equal(whole, alone)


def autoregression(rng, series, steps, d, memory):
    out = np.empty((series, steps, d))
    out[:, 0] = rng.standard_normal((series, d))
    for t in range(1, steps):
        noise = rng.standard_normal((series, d)) * np.sqrt(1 - memory**2)
        out[:, t] = memory * out[:, t - 1] + noise
    return out


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.8])
def test_noise_and_its_memory_are_measured(memory):
    rng = np.random.default_rng(1)
    regime = np.repeat([0, 1], 60)
    means = np.array([[0.0, 0.0], [2.0, -1.0]])
    error = autoregression(rng, 120, 300, 2, memory) * [0.5, 2.0]
    offset = rng.standard_normal((120, 1, 2))  # of each series: not noise
    block = Block.measure("static", means[regime][:, None] + error + offset, None, regime)
    assert np.sqrt(np.diagonal(block.noise)) == pytest.approx([0.5, 2.0], rel=0.05)
    assert abs(block.noise[0, 1]) < 0.05
    assert block.time == pytest.approx((1 + memory) / (1 - memory), rel=0.15)
    np.testing.assert_allclose(block.means, means, atol=0.35)  # sixty offsets are averaged


def test_few_steps_do_not_pretend_to_know_a_covariance():
    rng = np.random.default_rng(2)
    z = rng.standard_normal((2, 9, 12))
    block = Block.measure("static", z, None, np.array([0, 1]))
    assert np.linalg.cond(block.noise) < 1e3


def test_one_step_of_one_regime_is_enough_for_an_answer():
    block = Block.measure("static", np.array([[[0.0]], [[1.0]]]), None, np.array([0, 1]))
    assert np.isfinite(block.noise).all()
    assert block.time == 1


def test_constant_blocks_say_what_least_squares_says():
    rng = np.random.default_rng(3)
    block = Block("static", rng.standard_normal((3, 4)), np.diag([1.0, 2.0, 0.5, 1.0]), 4.0)
    alpha = np.array([0.2, 0.5, 0.3])
    found = block.evidence((alpha @ block.means)[None, None], None)
    np.testing.assert_allclose(found.G[0, 0] @ alpha, found.h[0, 0])
    white = block.means @ np.linalg.inv(block.noise) @ block.means.T
    np.testing.assert_allclose(found.G[0, 0], white / 4)  # four dependent steps say it once
    assert found.dims[0, 0] == 1


def random_evidence(rng, kinds=3, d=4, shape=(2, 5)):
    means = rng.standard_normal((*shape, kinds, d))
    values = rng.standard_normal((*shape, d))
    return means, values, np.diag(rng.uniform(0.5, 2, d))


@given(st.integers(0, 10_000))
def test_widening_is_a_larger_covariance(seed):
    rng = np.random.default_rng(seed)
    means, values, precision = random_evidence(rng)
    factor = rng.uniform(1, 5, (2, 5))
    wide = Evidence.of_block(means, values, precision).widened(factor)
    slow = Evidence.of_block(means, values, precision / factor[..., None, None])
    for one, other in zip(wide.parts(), slow.parts(), strict=True):
        np.testing.assert_allclose(one, other)


@given(st.integers(0, 10_000))
def test_stacking_recombines_the_predictions(seed):
    rng = np.random.default_rng(seed)
    means, values, precision = random_evidence(rng)
    weights = np.eye(3) + 0.1 * rng.standard_normal((3, 3))
    fast = Evidence.of_block(means, values, precision).stacked(weights[:, [2, 0]])
    slow = Evidence.of_block(weights[:, [2, 0]].T @ means, values, precision)
    at_once = Evidence.of_block(means, values, precision, weights).of([2, 0])
    for parts in zip(fast.parts(), slow.parts(), at_once.parts(), strict=True):
        np.testing.assert_allclose(parts[0], parts[1], atol=1e-10)
        np.testing.assert_allclose(parts[2], parts[1], atol=1e-10)


@given(st.integers(0, 10_000))
def test_shifting_moves_the_values_along_the_predictions(seed):
    rng = np.random.default_rng(seed)
    means, values, precision = random_evidence(rng)
    offset = rng.standard_normal((2, 3))
    fast = Evidence.of_block(means, values, precision).shifted(offset)
    moved = values - np.einsum("sk,stkd->std", offset, means)
    slow = Evidence.of_block(means, moved, precision)
    for one, other in zip(fast.parts(), slow.parts(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


def test_series_can_be_chosen_joined_and_continued():
    rng = np.random.default_rng(5)
    evidence = Evidence.of_block(*random_evidence(rng))
    back = Evidence.joined([evidence.rows(np.array([1])), evidence.rows(np.array([0]))])
    np.testing.assert_array_equal(back.h, evidence.h[::-1])
    longer = evidence.followed_by(back)
    assert longer.G.shape == (2, 10, 3, 3)
    np.testing.assert_array_equal(longer.dims[:, 5:], back.dims)


def test_what_is_like_no_pure_series_has_a_limit():
    """Series differ by a constant, which is not by itself strange; standing still is."""
    rng = np.random.default_rng(0)
    regime = np.repeat([0, 1], 10)
    swing = np.where(regime == 0, 1.0, 3.0)[:, None, None]
    latents = swing * rng.normal(size=(20, 60, 2)) + rng.normal(size=(20, 1, 2))
    position = np.tile(np.arange(60)[:, None], 20)
    name = "moments(8)"

    def seen(values):
        columns = values.swapaxes(0, 1)
        return observed(name, columns, position[:, : columns.shape[1]]).swapaxes(0, 1)

    block = Block.measure(name, seen(latents), None, regime)
    assert 1 < block.limit < 10

    def residual(values, k):
        error = (seen(values) - block.means[k])[:, 8:]
        squares = np.einsum("sti,ij,stj->st", error, np.linalg.inv(block.noise), error)
        return np.sqrt(squares / error.shape[-1])

    new = rng.normal(size=(5, 60, 2)) + 1.0
    assert (residual(new, 0) > block.limit).mean() < 0.02
    still = np.minimum(residual(0.01 * new, 0), residual(0.01 * new, 1))
    assert (still > block.stranger).all()


def test_tails_of_pure_series_say_how_rare_a_large_error_is():
    rng = np.random.default_rng(1)
    regime, expected = np.repeat([0, 1], 20), np.zeros((40, 100, 2, 3))
    errors = rng.normal(size=(40, 100, 3))
    even = Block.measure("conditional(1)", errors, expected, regime)
    assert 2 < even.freedom <= 3
    # one regime is five times as noisy, so to their common noise its errors are large
    uneven = errors * np.where(regime == 0, 1.0, 5.0)[:, None, None]
    noisy = Block.measure("conditional(1)", uneven, expected, regime)
    assert 0.25 <= noisy.freedom < 2
    assert noisy.limit > even.limit
    assert replace(noisy, limit=np.inf).freedom == 3  # older models
    assert replace(noisy, limit=100.0).freedom == 0.25


def test_windows_at_both_ends_speak_of_the_rows_there():
    block = Block("moments(4)", np.zeros((2, 3)), np.eye(3), 1.0, limit=2.0)
    none = np.nan
    residual = np.array([[none, none, 3.0, 1.0, 1.0, 5.0, none], [none, none, 1, 3, 1, 1, none]])
    found = _strange(block, residual, causal=False)
    assert found.tolist() == [
        [True, True, True, False, False, True, True], [False, False, False, True, *[False] * 3],
    ]  # fmt: skip
    causal = _strange(block, residual, causal=True)
    assert np.flatnonzero(causal[0]).tolist() == [2, 5]


def test_a_window_speaks_of_its_middle():
    assert [middle(name) for name in ("moments(8)", "moments(9)", "static", "conditional(4)")] == [
        3, 4, 0, 0,
    ]  # fmt: skip
    rng = np.random.default_rng(0)
    evidence = Evidence.of_constant(np.eye(2), rng.normal(size=(3, 10, 2)), np.eye(2))
    moved = evidence.earlier(4)
    for before, after in zip(evidence.parts(), moved.parts(), strict=True):
        assert (after[:, :6] == before[:, 4:]).all()
        assert not after[:, 6:].any()
    assert evidence.earlier(0) is evidence
    assert not evidence.earlier(20).dims.any()
