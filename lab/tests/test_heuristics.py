"""Heuristics of vehicles: direction of a track and of optical flow."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from test_baselines_classic import pure

import mechtrace as mt
from mechtrace.errors import DataError, MissingDependency
from mechtrace.metrics import weight_correlation
from mechtrace_lab.baselines import make
from mechtrace_lab.baselines.heuristics import direction_proxy, flow_direction


@pytest.fixture(scope="module")
def three():
    return pure()


def turn(length=80, speed=2.0, noise=0.0, seed=0):
    """Centres of a vehicle that goes right, then turns down; and its direction's proxy."""
    angle = np.clip(np.linspace(-0.5, 1.5, length), 0, 1) * np.pi / 2
    velocity = speed * np.column_stack([np.cos(angle), np.sin(angle)])
    track = np.cumsum(velocity, axis=0)
    track += np.random.default_rng(seed).normal(0, noise, track.shape)
    steep = np.abs(np.sin(angle))
    return track, steep / (steep + np.abs(np.cos(angle)))


def straight(across, series=5, length=30):
    rng = np.random.default_rng(int(across))
    tracks = []
    for i in range(series):
        step = np.array([1.0, 0.05]) if across else np.array([0.05, 1.0])
        tracks.append(np.arange(length)[:, None] * step * (-1) ** i + rng.normal(0, 0.1, 2))
    return tracks


def straight_panel(**options):
    regime = ["across"] * 5 + ["down"] * 5
    return mt.Panel.from_arrays(straight(True) + straight(False), regime=regime, **options)


def test_direction_of_a_track():
    track, proxy = turn()
    np.testing.assert_allclose(direction_proxy(track, 1), proxy, atol=0.03)
    noisy, _ = turn(noise=0.5)
    assert np.corrcoef(direction_proxy(noisy), proxy)[0, 1] > 0.97
    assert np.isnan(direction_proxy(np.ones((9, 2)))).all()
    assert np.isnan(direction_proxy(np.ones((1, 2)))).all()


@pytest.mark.parametrize("flip", [False, True])
def test_centroid_learns_which_regime_is_vertical(flip):
    panel = straight_panel()
    if flip:
        panel = replace(panel, codes=1 - panel.codes, regimes=panel.regimes[::-1])
    track, proxy = turn(noise=0.2)
    method = make("centroid").fit(panel)
    (curve,) = method.weights(mt.Panel.from_arrays([track]))
    truth = np.column_stack([1 - proxy, proxy])[:, :: -1 if flip else 1]
    assert weight_correlation(truth, curve) > 0.97
    assert method.encode(mt.Panel.from_arrays([track])) is None


def test_centroid_finds_its_columns_and_keeps_gaps_apart():
    wide = [np.column_stack([t[:, 1], 0 * t[:, 0], t[:, 0]]) for t in straight(True)]
    tall = [np.column_stack([t[:, 1], 0 * t[:, 0], t[:, 0]]) for t in straight(False)]
    names = ("CY", "size", "CX")
    panel = mt.Panel.from_arrays(wide + tall, regime=["a"] * 5 + ["b"] * 5, channels=names)
    method = make("centroid").fit(panel)
    assert all(c[:, 0].mean() > 0.9 for c in method.weights(panel)[:5])
    jump = wide[0].copy()
    jump[15:, 0] += 500  # while nobody looked
    time = np.arange(30.0)
    time[15:] += 20
    holes = mt.Panel.from_arrays([jump], time=[time], channels=names)
    assert method.weights(holes)[0][:, 0].min() > 0.9


def moving_blob(track, shape=(40, 48), drift=(0.0, 0.0)):
    """A bright blob on a textured ground that itself drifts."""
    rng = np.random.default_rng(0)
    waves = rng.uniform(-0.9, 0.9, (12, 2)), rng.uniform(0, 6, 12)
    y, x = np.mgrid[: shape[0], : shape[1]].astype(float)
    frames = []
    for t, (cx, cy) in enumerate(track):
        gx, gy = x - drift[0] * t, y - drift[1] * t
        ground = sum(np.sin(a * gx + b * gy + c) for (a, b), c in zip(*waves, strict=True))
        blob = np.exp(-((x - cx) ** 2 + (y - cy) ** 2) / 18)
        frames.append(0.03 * ground * (1 - blob) + 2 * blob)
    return np.stack(frames)


def blob_panel():
    across = moving_blob(np.column_stack([10 + np.arange(12.0), np.full(12, 20.0)]))
    down = moving_blob(np.column_stack([np.full(12, 24.0), 10 + np.arange(12.0)]))
    return mt.Panel.from_arrays([across, down], regime=["across", "down"])


def test_optical_flow_follows_a_blob_that_turns():
    track = np.array([[10 + min(t, 12), 12 + max(t - 12, 0)] for t in range(25)], float)
    method = make("optical-flow").fit(blob_panel())
    (curve,) = method.weights(mt.Panel.from_arrays(moving_blob(track), images=True))
    assert curve[:4, 0].min() > 0.85
    assert curve[-4:, 1].min() > 0.85
    assert 0.3 < curve[12, 1] < 0.7


def test_optical_flow_takes_the_camera_away():
    track = np.column_stack([np.full(10, 24.0), 12 + np.arange(10.0)])
    frames = moving_blob(track + 1.5 * np.arange(10)[:, None] * [1, 0], drift=(1.5, 0.0))
    assert flow_direction(frames).mean() > 0.8
    assert flow_direction(frames, ego=False).mean() < 0.65
    whole = (100 * (moving_blob(track) - frames.min())).astype(np.uint8)
    assert flow_direction(whole).mean() > 0.9
    assert np.isnan(flow_direction(frames[:1])).all()


def test_heuristics_refuse_what_they_cannot_see(three):
    with pytest.raises(DataError, match="frames"):
        make("centroid").fit(blob_panel())
    one = mt.Panel.from_arrays([t[:, :1] for t in straight(True)], regime=list("aabbb"))
    with pytest.raises(DataError, match="single channel"):
        make("centroid").fit(one)
    with pytest.raises(DataError, match="grey frames"):
        make("optical-flow").fit(straight_panel())
    with pytest.raises(DataError, match="two regimes"):
        make("centroid").fit(three)
    still = straight(True) + [np.ones((9, 2))] * 2
    with pytest.raises(DataError, match="nothing moves"):
        make("centroid").fit(mt.Panel.from_arrays(still, regime=list("aaaaabb")))


# -- packages that may be missing -------------------------------------------------------------


def test_optical_flow_names_the_missing_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(MissingDependency, match=r"cv2; pip install .mechtrace\[lab"):
        make("optical-flow").fit(blob_panel())
