"""Alpha on a lattice: corners first, regimes that stay, rows that nothing explains."""

from __future__ import annotations

import numpy as np
import pytest

from mechtrace.stage2.observation_models import CHANNELS, Features, ObservationModel
from mechtrace.stage2.share_lattice import STATES, Blocks, lattice


@pytest.mark.parametrize("kinds", [2, 3, 5, 10])
def test_a_lattice_lies_on_the_simplex_corners_first(kinds):
    points = lattice(kinds)
    assert len(points) <= STATES
    np.testing.assert_allclose(points.sum(axis=1), 1)
    assert (points >= 0).all()
    assert sorted(points[:kinds].argmax(axis=1)) == list(range(kinds))
    np.testing.assert_allclose(points[:kinds].max(axis=1), 1)


def blocks_of(values):
    means = np.array([[0.0, 0.0], [4.0, 0.0]])
    predictions = np.broadcast_to(means, (*values.shape[:2], 2, 2))
    model = ObservationModel(CHANNELS, means, np.eye(2), 1.0)
    return Blocks.of(model, np.eye(2), Features(values, predictions))


def test_shares_follow_the_values_and_leave_out_what_nothing_explains():
    rng = np.random.default_rng(0)
    values = rng.standard_normal((2, 90, 2))
    values[:, 30:60, 0] += 4.0
    values[0, 60:, 1] += 20.0
    values[1, 70:] = np.nan
    posterior, likelihood = blocks_of(values).shares(np.zeros((2, 2, 2)))
    share = posterior @ lattice(2)[:, 1]
    assert share[:, :25].max() < 0.2
    assert share[:, 35:55].min() > 0.8
    assert posterior[0, 65:].sum(axis=1).max() < 0.1  # of no state of the lattice
    np.testing.assert_allclose(posterior[1, 35:60].sum(axis=1), 1, atol=0.02)
    assert np.isfinite(likelihood).all()


def test_offsets_given_the_shares_are_those_of_a_regression():
    rng = np.random.default_rng(1)
    values = rng.standard_normal((1, 100, 2)) + np.array([0.5, -1.0])
    values[:, 50:, 0] += 4.0
    blocks = blocks_of(values)
    alpha = np.zeros((1, 100, 2))
    alpha[:, :50, 0] = alpha[:, 50:, 1] = 1.0
    found = blocks.offsets(alpha, alpha[..., :, None] * alpha[..., None, :], 1e-6 * np.eye(4))
    np.testing.assert_allclose(found[0, 0], values[0, :50].mean(axis=0), atol=1e-4)
    np.testing.assert_allclose(found[0, 1], values[0, 50:].mean(axis=0) - [4, 0], atol=1e-4)


def test_long_recordings_are_summed_in_pieces(monkeypatch):
    values = np.random.default_rng(2).standard_normal((2, 450, 2))
    whole = blocks_of(values)
    monkeypatch.setattr("mechtrace.stage2.share_lattice.AT_ONCE", 40)
    for name, part in vars(blocks_of(values)).items():
        np.testing.assert_allclose(part, getattr(whole, name), atol=1e-9)
    assert whole.weight.shape == (2, 150)
