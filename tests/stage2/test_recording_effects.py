"""Offsets of recordings: their covariances over groups, and those of a recording that mixes."""

from __future__ import annotations

import copy
import dataclasses
import warnings

import numpy as np
import pytest

import mechtrace as mt
from mechtrace.errors import FitWarning
from mechtrace.stage1.fit_record import FitRecord, GroupsRecord
from mechtrace.stage1.model_card import model_card
from mechtrace.stage2.effect_selection import select_effects
from mechtrace.stage2.inference import state_space
from mechtrace.stage2.observation_models import CHANNELS, Features, ObservationModel
from mechtrace.stage2.recording_effects import RecordingEffects

#: Deviation of offsets of groups, in units of the noise, and distance of two regimes.
OFFSET, APART, ROWS, GROUPS = 1.0, 3.0, 120, 12
SMALL = {"latents": 3, "hidden": 16, "steps": 250, "batch": 12, "align": False}


def panel(rng, groups=GROUPS, offset=OFFSET, alpha=None):
    """Two regimes at 0 and at (APART, 0, 0), seen in white noise by groups with offsets."""
    means = np.array([[0.0, 0.0, 0.0], [APART, 0.0, 0.0]])
    group = np.repeat(np.arange(groups), 2)
    regime = np.tile([0, 1], groups)
    b = offset * rng.standard_normal((groups, 3))
    shares = np.eye(2)[regime][:, None] if alpha is None else alpha
    shares = np.broadcast_to(shares, (2 * groups, ROWS, 2))
    values = shares @ means + b[group][:, None] + rng.standard_normal((2 * groups, ROWS, 3))
    predictions = np.broadcast_to(means, (2 * groups, ROWS, 2, 3)).copy()
    return Features(values, predictions), regime, group, b


def model_of(features, regime):
    return ObservationModel.measure(CHANNELS, features.values, features.predictions, regime)


@pytest.fixture(scope="module")
def learned():
    features, regime, group, _ = panel(np.random.default_rng(0), groups=40)
    model = model_of(features, regime)
    return model, RecordingEffects.measure(model, features, regime, group)


def test_covariances_are_those_of_the_groups(learned):
    _, effects = learned
    np.testing.assert_allclose(np.diag(effects.common), OFFSET**2, rtol=0.6)
    assert all(np.trace(own) < 0.3 * np.trace(effects.common) for own in effects.own)
    np.testing.assert_allclose(effects.noise, np.eye(3), atol=0.4)


def test_offsets_of_known_regimes_are_shared_by_a_group(learned):
    features, regime, group, b = panel(np.random.default_rng(1))
    found = learned[1].known(features, regime, group)
    assert np.abs(found - b[group]).max() < 0.5
    np.testing.assert_array_equal(found[0], found[1])


def test_the_offset_of_a_new_recording_is_found_and_makes_its_shares_right(learned):
    model, effects = learned
    ramp = np.clip((np.arange(ROWS) - 40) / 20, 0, 1)
    truth = np.stack([1 - ramp, ramp], axis=1)
    features, *_, b = panel(np.random.default_rng(2), alpha=truth)
    found = effects.estimate(model, features)
    assert np.abs(found.mean - np.repeat(b, 2, axis=0)).mean() < 0.25

    def error(given):
        information = model.information(*given)
        alpha = state_space(information, np.ones(information.dims.T.shape)).alpha
        return np.abs(alpha - truth).mean()

    assert error(found.added_to(features)) < 0.4 * error(features)
    assert error(found.added_to(features)) < 0.07


def test_draws_say_how_well_an_offset_is_known(learned):
    model, effects = learned
    steps = (np.arange(ROWS) // 40 == 1).astype(float)
    alpha = np.stack([1 - steps, steps], axis=1)
    features, *_, b = panel(np.random.default_rng(3), alpha=alpha)
    found = effects.estimate(model, features)
    wrong = np.repeat(b, 2, axis=0) - found.mean
    spread = np.sqrt((found.errors**2).mean(axis=(1, 2)))
    assert 0.5 < np.sqrt((wrong**2).mean()) / np.sqrt((spread**2).mean()) < 2


def test_rows_that_nothing_explains_do_not_move_the_offset(learned):
    model, effects = learned
    features, *_, b = panel(np.random.default_rng(4))
    foreign = features.values.copy()
    foreign[:, 40:80, 2] += 15.0
    found = effects.estimate(model, features._replace(values=foreign))
    assert np.abs(found.mean[:, 2] - np.repeat(b, 2, axis=0)[:, 2]).max() < 0.5


def test_a_regime_that_differs_by_group_is_no_offset_of_the_recording():
    rng = np.random.default_rng(5)
    features, regime, group, _ = panel(rng, groups=40, offset=0.01)
    severity = rng.standard_normal(40)[group] * (regime == 1)
    features.values[..., 0] += severity[:, None]
    effects = RecordingEffects.measure(model_of(features, regime), features, regime, group)
    assert effects.own[1][0, 0] > 10 * effects.common[0, 0]
    assert effects.own[1][0, 0] == pytest.approx(1.0, rel=0.6)


def test_effects_are_used_where_groups_left_out_gain_and_only_there():
    rng = np.random.default_rng(6)
    features, regime, group, _ = panel(rng)
    found = select_effects(features, regime, group)
    assert found is not None
    np.testing.assert_allclose(np.diag(found.common), OFFSET**2, rtol=0.9)
    alike, regime, group, _ = panel(rng, offset=0.0)
    assert select_effects(alike, regime, group) is None
    two = group < 2  # nothing is known of others from two groups
    assert select_effects(features.of_series(np.flatnonzero(two)), regime[two], group[two]) is None


def test_storage_keeps_everything(learned):
    effects = learned[1]
    again = RecordingEffects.from_arrays(effects.arrays())
    for name, value in vars(effects).items():
        np.testing.assert_array_equal(getattr(again, name), value)
    assert RecordingEffects.from_arrays({}) is None


# --- from a fit to an answer ------------------------------------------------------------------


def machines(rng, alpha, offsets):
    """x_t = 0.3 x_{t-1} + (2 alpha, 0, 0) + noise, read by machines with offsets (N, 3)."""
    values = np.zeros((len(offsets), len(alpha), 3))
    for t in range(1, len(alpha)):
        pull = np.array([2 * alpha[t], 0.0, 0.0])
        values[:, t] = 0.3 * values[:, t - 1] + pull + rng.standard_normal((len(offsets), 3))
    return values + offsets[:, None]


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(7)
    offsets = 1.5 * rng.standard_normal((10, 3))
    parts = [machines(rng, np.full(120, share), offsets)[:, 20:] for share in (0.0, 1.0)]
    panel = mt.Panel.from_arrays(
        np.concatenate(parts),
        regime=["a"] * 10 + ["b"] * 10,
        groups=[f"m{i}" for i in range(10)] * 2,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        return mt.Trace(**SMALL).fit(panel, progress=False)


@pytest.fixture(scope="module")
def new():
    alpha = np.clip((np.arange(160) - 70) / 20, 0, 1)
    rng = np.random.default_rng(8)
    offsets = 1.5 * rng.standard_normal((6, 3))
    return mt.Panel.from_arrays(machines(rng, alpha, offsets)), alpha


def test_a_fit_removes_offsets_and_says_so(fitted, new):
    panel, alpha = new
    assert fitted.statistics_.effects is not None
    assert "offset of each recording is estimated" in fitted.card_
    bare = copy.copy(fitted)
    bare.statistics_ = dataclasses.replace(fitted.statistics_, effects=None)

    def error(model):
        return np.mean([np.nanmean(np.abs(p.alpha[:, 1] - alpha)) for p in model.recover(panel)])

    assert error(fitted) < 0.8 * error(bare)
    inside = [
        (path.lower[10:, 1] <= alpha[10:]) & (alpha[10:] <= path.upper[10:, 1])
        for path in fitted.recover(panel)
    ]
    assert np.mean(inside) > 0.8


def test_a_stored_model_answers_alike(fitted, new, tmp_path):
    fitted.save(tmp_path / "m.mechtrace")
    again = mt.load(tmp_path / "m.mechtrace")
    for one, other in zip(fitted.recover(new[0]), again.recover(new[0]), strict=True):
        np.testing.assert_array_equal(one.alpha, other.alpha)
        np.testing.assert_array_equal(one.upper, other.upper)
    assert again.card_ == fitted.card_


def test_a_causal_answer_knows_no_offset_and_says_so(fitted, new):
    one = new[0][:1]
    causal, whole = fitted.recover(one, causal=True), fitted.recover(one)
    stream = fitted.stream()
    rows = [stream.update(row) for row in one.values]
    np.testing.assert_allclose(np.stack([row.alpha for row in rows]), causal.alpha, atol=1e-9)
    np.testing.assert_allclose(np.stack([row.upper for row in rows]), causal.upper, atol=1e-9)
    width = [np.nanmean(path.upper - path.lower) for path in (causal, whole)]
    assert width[0] > width[1]


def test_one_group_says_nothing_of_others(fitted):
    record = dataclasses.replace(fitted.record_, groups=GroupsRecord(1, False))
    assert "nothing is known of others" in model_card(record)
    assert FitRecord.from_dict(record.to_dict()).groups == GroupsRecord(1, False)
