"""Which evidence is used: what recovers alpha best on series left out."""

from __future__ import annotations

import numpy as np

from mechtrace.stage2.model_selection import select_models
from mechtrace.stage2.observation_models import Features
from mechtrace.stage2.window_moments import window_moments

NAMES = ["prediction(1)", "static", "window_moments(8)"]
REGIME = np.tile([0, 1], 8)


def features(values, predictions):
    def of_model(name):
        if name != "window_moments(8)":
            return Features(values, predictions if name.startswith("prediction") else None)
        steps = np.arange(values.shape[1])[:, None].repeat(len(values), 1)
        return Features(window_moments(values.swapaxes(0, 1), steps, 8).swapaxes(0, 1))

    return of_model


def test_series_that_differ_by_how_much_they_move_are_judged_by_that():
    rng = np.random.default_rng(0)
    values = rng.standard_normal((16, 60, 2)) * np.where(REGIME, 3.0, 1.0)[:, None, None]
    nothing = np.zeros((16, 60, 2, 2))  # neither expert knows anything
    found = select_models(features(values, nothing), NAMES, REGIME, lags=2)
    assert found.selected == ("window_moments(8)",)
    assert found.errors["window_moments(8)"] < 0.5 * found.errors["static"]


def test_experts_that_predict_are_judged_by_their_predictions():
    rng = np.random.default_rng(1)
    expected = rng.standard_normal((16, 60, 2, 2))
    own = np.take_along_axis(expected, REGIME[:, None, None, None], axis=2)[:, :, 0]
    values = own + rng.standard_normal(own.shape)
    found = select_models(features(values, expected), NAMES, REGIME, lags=2)
    assert found.selected == ("prediction(1)",)


def test_blocks_that_know_different_things_are_combined():
    rng = np.random.default_rng(2)
    kinds = np.tile([0, 1, 2], 6)
    # the first coordinate tells 0 from the rest by its level, the second 1 from 2 by prediction
    expected = rng.standard_normal((18, 60, 3, 2))
    expected[:, :, 0] = expected[:, :, 1]
    own = np.take_along_axis(expected, kinds[:, None, None, None], axis=2)[:, :, 0]
    values = own + rng.standard_normal(own.shape)
    values[..., 0] += np.where(kinds == 0, 3.0, 0.0)[:, None]
    expected[..., 0] = values.mean(axis=(0, 1))[0]
    found = select_models(features(values, expected), NAMES[:2], kinds, lags=2)
    assert set(found.selected) == {"prediction(1)", "static"}


def test_with_one_series_of_a_regime_nothing_is_chosen():
    values = np.zeros((2, 30, 2))
    found = select_models(
        features(values, np.zeros((2, 30, 2, 2))), NAMES, np.array([0, 1]), lags=2
    )
    assert found.selected == ("prediction(1)",)
    assert not found.errors


def test_a_little_is_no_reason_to_leave_the_mechanisms(monkeypatch):
    rng = np.random.default_rng(3)
    kinds = np.tile([0, 1], 24)
    expected = 0.05 * rng.standard_normal((48, 60, 2, 2))
    own = np.take_along_axis(expected, kinds[:, None, None, None], axis=2)[:, :, 0]
    values = own + rng.standard_normal(own.shape)
    values[..., 0] += np.where(kinds, 0.14, -0.14)[:, None]  # levels tell more, but little
    found = select_models(features(values, expected), NAMES[:2], kinds, lags=2)
    assert 0.25 < found.errors["static"] < 0.9 * found.errors["prediction(1)"]
    assert found.selected == ("prediction(1)",)
    monkeypatch.setattr("mechtrace.stage2.model_selection.LEVEL_ERROR", 1.0)
    assert "static" in select_models(features(values, expected), NAMES[:2], kinds, lags=2).selected


def test_levels_of_subjects_that_are_left_out_tell_nothing():
    rng = np.random.default_rng(4)
    kinds, number = np.tile([0, 1], 16), np.repeat(np.arange(4), 8)
    values = rng.standard_normal((32, 60, 4))
    # every subject shows the regime in a channel of its own
    values[np.arange(32), :, number] += np.where(kinds, 3, -3)[:, None]
    expected = np.zeros((32, 60, 2, 4))
    alike = select_models(features(values, expected), NAMES[:2], kinds, lags=2)
    assert alike.selected == ("static",)
    subject = np.array(["a", "b", "c", "d"])[number]
    apart = select_models(features(values, expected), NAMES[:2], kinds, lags=2, group=subject)
    assert apart.selected == ("prediction(1)",)
    assert apart.errors["static"] > 2 * alike.errors["static"]


def test_of_what_looks_at_levels_the_best_is_taken():
    rng = np.random.default_rng(5)
    values = rng.standard_normal((16, 60, 2))
    values[..., 0] += np.where(REGIME, 0.7, -0.7)[:, None]
    found = select_models(features(values, np.zeros((16, 60, 2, 2))), NAMES, REGIME, lags=2)
    levels = {name: found.errors[name] for name in ("static", "window_moments(8)")}
    assert found.selected[0] == min(levels, key=levels.__getitem__)


def test_series_too_short_for_a_window_do_not_break_the_choice():
    rng = np.random.default_rng(6)
    kinds, subject = np.tile([0, 1], 8), np.repeat(["a", "b"], 8)
    values = rng.standard_normal((16, 60, 2)) + 2 * kinds[:, None, None]
    values[subject == "b", 4:] = np.nan  # of one subject there are four steps
    expected = np.zeros((16, 60, 2, 2))
    found = select_models(features(values, expected), NAMES, kinds, lags=2, group=subject)
    assert np.isfinite(list(found.errors.values())).all()


def test_one_group_says_nothing_of_others_two_must_agree():
    rng = np.random.default_rng(6)
    expected = rng.standard_normal((16, 60, 2, 2))
    own = np.take_along_axis(expected, REGIME[:, None, None, None], axis=2)[:, :, 0]
    values = own + rng.standard_normal(own.shape)
    names = ["static", "prediction(1)"]

    def selected(group, **more):
        return select_models(features(values, expected), names, REGIME, 2, group, **more).selected

    several = np.repeat(["a", "b"], 8)
    assert selected(np.repeat("a", 16)) == ("static",)
    assert selected(several) == ("prediction(1)",)
    # what is better only in series that the networks have seen is no better
    fresh = np.repeat([False, True], 8)
    noise = rng.standard_normal(values[fresh].shape)
    values[fresh] = noise + np.where(REGIME[fresh], 0.5, -0.5)[:, None, None]
    assert selected(several, unseen=fresh) == ("static",)


def test_windows_join_mechanisms_whose_errors_last():
    rng = np.random.default_rng(7)
    expected = rng.standard_normal((16, 60, 2, 2))
    own = np.take_along_axis(expected, REGIME[:, None, None, None], axis=2)[:, :, 0]
    values = own + rng.standard_normal((16, 60, 2)) * np.where(REGIME, 3.0, 1.0)[:, None, None]
    names = ["channels", *NAMES]

    def of_model(name):
        return features(values, expected)(name.replace("channels", "prediction(1)"))

    found = select_models(of_model, names, REGIME, lags=2, apart=True)
    assert found.selected == ("channels",)
    found = select_models(of_model, names, REGIME, lags=2, apart=True, hidden=True)
    assert found.selected == ("channels", "window_moments(8)")
    assert "channels + window_moments(8)" in found.errors


def test_mechanisms_that_do_not_tell_pure_series_are_left_for_levels_that_do():
    rng = np.random.default_rng(9)
    values = rng.standard_normal((16, 60, 2)) + np.where(REGIME, 4.0, 0.0)[:, None, None]
    nothing = np.zeros((16, 60, 2, 2))

    def of_model(name):
        return features(values, nothing)(name.replace("channels", "prediction(1)"))

    names = ["channels", "static"]
    found = select_models(of_model, names, REGIME, lags=2, apart=True, doubtful=True)
    assert found.selected == ("static",)
