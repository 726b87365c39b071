"""Moments of windows, and the directions in which they tell regimes apart."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mechtrace as mt
from mechtrace.errors import FitWarning
from mechtrace.linalg.simplex import helmert_basis
from mechtrace.stage2 import window_moments as module
from mechtrace.stage2.channel_member import ChannelRows
from mechtrace.stage2.window_moments import (
    LEAST_DEVIATION,
    MomentDiscriminant,
    window_moments,
)


def slow_moments(z: np.ndarray, window: int) -> np.ndarray:
    steps = np.diff(z[-window:], axis=0)
    deviation = np.log(z[-window:].std(axis=0) + LEAST_DEVIATION)
    moved = steps.std(axis=0) if len(steps) else np.zeros(z.shape[1])
    return np.concatenate([z[-window:].mean(axis=0), deviation, np.log(moved + LEAST_DEVIATION)])


@given(st.integers(1, 9), st.integers(0, 10_000))
def test_moments_equal_the_slow_way_and_start_anew_after_a_gap(window, seed):
    z = np.random.default_rng(seed).standard_normal((25, 3))
    position = np.concatenate([np.arange(12), np.arange(13)])  # a gap after twelve rows
    found = window_moments(z[:, None], position[:, None], window)[:, 0]
    for row in range(25):
        first = 0 if row < 12 else 12
        if position[row] < window - 1:
            assert np.isnan(found[row]).all()
        else:
            np.testing.assert_allclose(found[row], slow_moments(z[first : row + 1], window))


def test_a_few_rows_are_seen_as_in_the_whole():
    z = np.random.default_rng(0).standard_normal((500, 2))
    both = np.stack([z, z[::-1]], axis=1)  # beside another series
    whole = window_moments(both, np.arange(500)[:, None].repeat(2, 1), 16)[-1, 0]
    alone = window_moments(z[-16:, None], np.arange(16)[:, None], 16)[-1, 0]
    np.testing.assert_array_equal(whole, alone)


class Counted(np.ndarray):
    """An array that counts the elementwise operations on it."""

    calls = 0

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        Counted.calls += 1
        plain = [np.asarray(x) if isinstance(x, Counted) else x for x in inputs]
        if out is not None:
            options["out"] = tuple(np.asarray(x) for x in out)
        found = getattr(ufunc, method)(*plain, **options)
        return found.view(Counted) if out is None else out[0]


def test_the_work_for_a_window_grows_with_its_length_not_with_its_square():
    z = np.random.default_rng(0).standard_normal((300, 1, 2)).view(Counted)
    calls = []
    for window in (32, 64):
        Counted.calls = 0
        window_moments(z, np.arange(300)[:, None], window)
        calls.append(Counted.calls)
    assert 0 < calls[1] < 2.2 * calls[0]


def test_a_window_that_stands_still_after_large_values_has_no_deviation():
    z = np.full((5000, 1, 1), 1e3)
    z[:2000, 0, 0] += 1e3 * np.random.default_rng(0).standard_normal(2000)
    found = window_moments(z, np.arange(5000)[:, None], 16)[-1, 0]
    np.testing.assert_allclose(found, [1e3, np.log(1e-6), np.log(1e-6)])


PEOPLE, LENGTH, CHANNELS = 6, 40, 60


def people(rng, swing=(1.0, 2.0)):
    """Rows of people with levels of their own, who move more in the second regime."""
    size = np.repeat(swing, LENGTH)[:, None]
    parts = [
        4 * rng.standard_normal(CHANNELS) + size * rng.standard_normal((2 * LENGTH, CHANNELS))
        for _ in range(PEOPLE)
    ]
    position = np.tile(np.arange(LENGTH), 2 * PEOPLE)
    regime = np.tile(np.repeat([0, 1], LENGTH), PEOPLE)
    fold = np.repeat(np.arange(PEOPLE), 2 * LENGTH)
    return ChannelRows(np.concatenate(parts), position, regime, fold)


def learned(rows, window=8):
    units = rows.values.mean(axis=0), rows.values.std(axis=0)
    return MomentDiscriminant.cross_fit(rows, *units, window)


def share(discriminant, rows, window=8):
    """Estimates of the share of the second regime, where there are any."""
    found = discriminant.estimate(rows.values[:, None], rows.position[:, None], window)[:, 0]
    return (0.5 + found @ helmert_basis(2)[1])[rows.position >= window - 1]


def test_who_was_recorded_says_nothing_about_the_regime():
    rng = np.random.default_rng(0)
    whole, *without = learned(people(rng))
    assert len(without) == PEOPLE
    strangers = [people(rng, swing) for swing in ((1.0, 2.0), (1.4, 1.4))]
    pure, between = (share(whole, rows) for rows in strangers)
    regime = strangers[0].regime[strangers[0].position >= 7]
    assert abs(pure[regime == 0].mean()) < 0.05
    assert abs(pure[regime == 1].mean() - 1) < 0.05
    assert abs(between.mean() - 0.5) < 0.1
    assert np.abs(pure - regime).mean() < 0.15


def test_shrinkage_is_strong_where_weak_one_is_not_clearly_better(monkeypatch):
    rows = people(np.random.default_rng(1))
    chosen = learned(rows)[0].weights
    monkeypatch.setattr(module, "SHRINKAGES", module.SHRINKAGES[-1:])
    np.testing.assert_allclose(chosen, learned(rows)[0].weights)
    monkeypatch.undo()
    # two channels share an error that is as large as what tells the regimes apart
    level = np.where(rows.regime, 1.0, 0.0)
    shared = 3 * np.random.default_rng(2).standard_normal(len(level))
    values = np.column_stack([level + shared, shared])
    values += 0.1 * np.random.default_rng(3).standard_normal(values.shape)
    one, other = learned(rows._replace(values=values), window=1)[0].weights[:2, 0]
    assert -1.2 < one / other < -0.8


def test_each_fold_is_left_out():
    rows = people(np.random.default_rng(4))
    without = learned(rows)[1 + 2]
    other = rows.values.copy()
    other[rows.fold == 2] *= 1 + 1e-3  # in other units of the channels all would change
    units = rows.values.mean(axis=0), rows.values.std(axis=0)
    again = MomentDiscriminant.cross_fit(rows._replace(values=other), *units, 8)[1 + 2]
    np.testing.assert_allclose(share(again, rows), share(without, rows), atol=1e-6)


def test_regimes_have_the_corners_of_the_simplex_as_means():
    rng = np.random.default_rng(7)
    regime, position = np.tile(np.repeat([0, 1, 2], 50), 4), np.tile(np.arange(50), 12)
    values = np.array([1.0, 2.0, 4.0])[regime][:, None] * rng.standard_normal((600, 3))
    rows = ChannelRows(values, position, regime, np.repeat(np.arange(4), 150))
    found = learned(rows)[0].estimate(values[:, None], position[:, None], 8)[:, 0]
    for k in range(3):
        mine = (regime == k) & (position >= 7)
        np.testing.assert_allclose(found[mine].mean(axis=0), helmert_basis(3)[k], atol=1e-8)


def test_constant_channels_do_not_matter_and_too_many_are_left_alone(monkeypatch):
    rows = people(np.random.default_rng(5))
    values = np.column_stack([rows.values, np.full(len(rows.values), 7.0)])
    units = values.mean(axis=0), np.append(rows.values.std(axis=0), 1.0)
    found = MomentDiscriminant.cross_fit(rows._replace(values=values), *units, 8)[0]
    values[:, -1] = 9.0
    changed = rows._replace(values=values)
    np.testing.assert_allclose(share(found, changed), share(learned(rows)[0], rows), atol=1e-6)
    monkeypatch.setattr(module, "MOST_CHANNELS", CHANNELS - 1)
    assert learned(rows) == []


@pytest.mark.parametrize("reduced", [True, False])
def test_a_stored_model_and_a_stream_answer_alike(tmp_path, monkeypatch, reduced):
    if not reduced:  # as of pictures, and in models stored before
        monkeypatch.setattr(module, "MOST_CHANNELS", 0)
    rng = np.random.default_rng(6)
    regime = np.tile([0, 1], 10)
    values = np.where(regime, 4.0, 1.0)[:, None, None] * rng.standard_normal((20, 60, 3))
    for t in range(1, 60):
        values[:, t] += 0.8 * values[:, t - 1]
    panel = mt.Panel.from_arrays(values, regime=["ab"[k] for k in regime])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        model = mt.Trace(
            latents=2, steps=150, hidden=16, batch=8, evaluations=2, holdout=0.4, align=False
        ).fit(panel, progress=False)
    assert any("window_moments" in name for name in model.statistics_.selection.selected)
    assert bool(model.statistics_.moments) == reduced
    new = mt.Panel.from_arrays([np.concatenate([values[0], values[1]])])
    path = model.recover(new)
    assert np.abs(path.alpha[20:40, 0] - 1).mean() < 0.2
    assert np.abs(path.alpha[80:100, 1] - 1).mean() < 0.2
    found = model.contributions(new)
    assert found.values.shape == (120, 2, 3)
    rows = np.isfinite(found.values).all(axis=(1, 2))
    # what all sensors say together points to the regime at work
    assert found.values[rows].sum(axis=2)[5:40].argmax(axis=1).mean() < 0.1
    model.save(tmp_path / "m.mechtrace")
    again = mt.load(tmp_path / "m.mechtrace").recover(new)
    np.testing.assert_array_equal(again.alpha, path.alpha)
    stream, causal = model.stream(), model.recover(new, causal=True)
    online = np.stack([stream.update(row).alpha for row in np.asarray(new.values)])
    np.testing.assert_allclose(online[10:], causal.alpha[10:], atol=1e-6)
