"""Noise of the sensors: measured from pure regimes, and no bias of slopes."""

from __future__ import annotations

import numpy as np

from mechtrace.stage2.channel_experts import ChannelExperts
from mechtrace.stage2.channel_member import ChannelRows
from mechtrace.stage2.sensor_noise import CONTEXT, calibrated, sensor_noise

A = np.array([[0.95, 0.1], [0.0, 0.8]])
NOISE = np.array([0.3, 0.1])


def recordings(rng, seen=NOISE, series=20, length=300):
    """Two regimes of x' = A x + level + noise, seen through noisy sensors."""
    level = np.repeat([[0.0, 0.0], [1.0, 0.5]], series // 2, axis=0)
    state = np.zeros((series, length, 2))
    for t in range(1, length):
        drive = 0.15 * rng.standard_normal((series, 2))
        state[:, t] = state[:, t - 1] @ A.T + level + drive
    state = state[:, 50:]
    values = state + seen * rng.standard_normal(state.shape)
    position = np.tile(np.arange(length - 50), series)
    regime = np.repeat([0, 1], series // 2 * (length - 50))
    return ChannelRows(values.reshape(-1, 2), position, regime), state.reshape(-1, 2)


def test_noise_of_each_sensor_is_measured():
    rng = np.random.default_rng(0)
    rows, _ = recordings(rng, series=40)
    found = np.sqrt(sensor_noise(rows.values, rows.position, rows.regime, rng))
    np.testing.assert_allclose(found, NOISE, atol=0.03)


def test_sensors_without_noise_have_next_to_none():
    rng = np.random.default_rng(1)
    rows, _ = recordings(rng, seen=np.zeros(2), series=40)
    found = np.sqrt(sensor_noise(rows.values, rows.position, rows.regime, rng))
    assert (found < 0.04).all()


def test_calibrated_histories_have_the_slopes_of_the_state():
    rng = np.random.default_rng(2)
    rows, _ = recordings(rng, series=40)
    ready = np.flatnonzero(rows.position >= CONTEXT)
    regime = rows.regime[ready]

    def slopes(noise):
        history = calibrated(rows.values, ready, regime, 1, noise)
        own = np.stack([regime == 0, regime == 1], axis=1).astype(float)
        design = np.concatenate([history, own], axis=1)
        return np.linalg.lstsq(design, rows.values[ready], rcond=None)[0][:2].T

    raw, free = slopes(np.zeros(2)), slopes(NOISE**2)
    assert np.abs(free - A).max() < 0.04
    assert np.abs(raw - A).max() > 3 * np.abs(free - A).max()


def test_histories_stay_as_they_are_without_noise_or_rows():
    rng = np.random.default_rng(3)
    rows, _ = recordings(rng)
    ready = np.flatnonzero(rows.position >= CONTEXT)
    history = calibrated(rows.values, ready, rows.regime[ready], 2, np.zeros(2))
    np.testing.assert_array_equal(history[:, :2], rows.values[ready - 1])
    np.testing.assert_array_equal(history[:, 2:], rows.values[ready - 2])
    few = ready[:20]
    history = calibrated(rows.values, few, rows.regime[few], 1, NOISE**2)
    np.testing.assert_array_equal(history, rows.values[few - 1])
    assert not sensor_noise(rows.values[:30], rows.position[:30], rows.regime[:30], rng).any()


def test_mechanisms_hold_away_from_the_states_of_their_regime():
    rng = np.random.default_rng(4)
    rows, _ = recordings(rng, series=40)
    centre, scale = rows.values.mean(axis=0), rows.values.std(axis=0)
    (experts,) = ChannelExperts.cross_fit(rows, centre, scale, seed=0)
    # between the regimes, where neither was; as in a transition, all rows of history are there
    middle = np.array([rows.values[rows.regime == k].mean(axis=0) for k in (0, 1)]).mean(axis=0)
    x = np.broadcast_to(experts.coordinates(middle), (CONTEXT + 1, 1, 2))
    found = experts.predict(x, np.arange(CONTEXT + 1)[:, None])[-1, 0]
    back = np.linalg.inv(experts.projection @ experts.axes)
    moved = found @ back + centre - middle
    expected = middle @ A.T + np.array([[0.0, 0.0], [1.0, 0.5]]) - middle
    assert np.abs(moved - expected).max() < 0.15 * np.abs(expected).max()
