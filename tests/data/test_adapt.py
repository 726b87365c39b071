"""Channels that were rescaled and shifted are brought back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mechtrace as mt
from mechtrace.errors import DataError
from mechtrace.metrics import weight_correlation


def moved(panel, seed):
    """The same recordings seen by other sensors."""
    rng = np.random.default_rng(seed)
    scale = np.exp(rng.uniform(-1.5, 1.5, panel.shape))
    shift = rng.uniform(-5, 5, panel.shape)
    return mt.Panel.from_arrays(
        [values * scale + shift for values in panel.to_arrays()], channels=panel.channels
    )


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31))
def test_a_rescaled_panel_is_brought_back_exactly(panel, seed):
    adapter = mt.Adapter.fit(panel, moved(panel, seed))
    back = adapter.apply(moved(panel, seed))
    np.testing.assert_allclose(back.values, panel.values, atol=1e-4)
    assert adapter.loss < 1e-8
    assert adapter.loss_before > adapter.loss


def test_nothing_is_changed_if_nothing_has_moved(panel):
    adapter = mt.Adapter.fit(panel, panel)
    np.testing.assert_allclose(adapter.scale, 1, atol=1e-6)
    np.testing.assert_allclose(adapter.shift, 0, atol=1e-6)
    same = adapter.apply(panel)
    np.testing.assert_allclose(same.values, panel.values, atol=1e-6)
    assert same.names is panel.names
    assert same.regimes == panel.regimes


def test_the_mean_is_met_and_the_loss_falls_where_correlations_differ():
    rng = np.random.default_rng(0)
    mix = rng.uniform(0.2, 1, (2, 3, 3)) + np.eye(3)
    noise = rng.standard_normal((2, 4, 500, 3))
    source, target = (
        mt.Panel.from_arrays(noise[0] @ mix[0]),
        mt.Panel.from_arrays(3 + 2 * noise[1] @ mix[1]),
    )
    adapter = mt.Adapter.fit(source, target)
    back = adapter.apply(target)
    np.testing.assert_allclose(back.values.mean(0), source.values.mean(0), atol=1e-9)
    assert adapter.loss < adapter.loss_before
    unit = source.values.std(axis=0)
    wanted = np.cov((source.values / unit).T, bias=True)

    def coral(scale):
        got = np.cov((target.values * scale / unit).T, bias=True)
        return ((wanted - got) ** 2).sum() / 36

    assert coral(adapter.scale) == pytest.approx(adapter.loss)
    assert coral(np.ones(3)) == pytest.approx(adapter.loss_before)
    for k in range(3):  # a minimum in every direction
        for factor in (0.99, 1.01):
            other = adapter.scale.copy()
            other[k] *= factor
            assert coral(other) > adapter.loss


def test_no_channel_is_silenced_where_correlations_have_turned_round():
    rng = np.random.default_rng(1)
    values = rng.standard_normal((4, 500, 3)) + rng.standard_normal((4, 500, 1))
    turned = values * [1, 1, -1]
    adapter = mt.Adapter.fit(mt.Panel.from_arrays(values), mt.Panel.from_arrays(turned))
    assert (adapter.scale >= 0.5).all()
    assert (adapter.scale <= 2).all()
    assert adapter.loss > 0.01


def test_constant_channels_and_missing_rows():
    rng = np.random.default_rng(1)
    values = rng.standard_normal((2, 50, 3))
    values[..., 2] = 4.0
    other = 2 * values + 1
    other[0, 7] = np.nan
    source = mt.Panel.from_arrays(values)
    target = mt.Panel.from_arrays(other, missing="gap")
    adapter = mt.Adapter.fit(source, target)
    assert adapter.scale[2] == 1
    assert adapter.shift[2] == pytest.approx(-5)
    back = adapter.apply(target)
    assert np.isnan(back.values[7]).all()
    np.testing.assert_allclose(back.values[:, 2][np.arange(100) != 7], 4)


def test_what_cannot_be_adapted_is_refused(panel):
    other = mt.Panel.from_arrays(np.zeros((1, 5, 2)))
    with pytest.raises(DataError, match="name the same channels"):
        mt.Adapter.fit(panel, other)
    with pytest.raises(DataError, match="name the same channels"):
        mt.Adapter.fit(panel, panel).apply(other)
    frames = mt.Panel.from_arrays(np.zeros((1, 5, 8, 8)))
    with pytest.raises(DataError, match="images"):
        mt.Adapter.fit(frames, frames)
    alone = mt.Panel.from_arrays(np.zeros((1, 1, 2)))
    with pytest.raises(DataError, match="fewer than two rows"):
        mt.Adapter.fit(alone, alone)


def test_recovery_is_restored(trained, world, panel):
    run = world.transition("simple", series=100, seed=4)
    sensors = moved(run.panel, 3)

    def quality(new):
        return weight_correlation(run.alpha[0], trained.recover(new, pool=True).alpha)

    before, shifted = quality(run.panel), quality(sensors)
    adapted = quality(mt.Adapter.fit(panel, sensors).apply(sensors))
    assert before > 0.7
    assert adapted > before - 0.1
    assert adapted > shifted + 0.2
