"""The gate: good on pure recordings, on the simplex, repeatable."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import mechtrace as mt
from mechtrace.errors import DataError
from mechtrace_lab.baselines.gating import fit_gate


@pytest.fixture(scope="module")
def easy():
    """Two regimes that any step tells apart: around 0 and around 3."""
    rng = np.random.default_rng(0)
    kind = np.arange(24) % 2
    state = rng.standard_normal((24, 30, 2)) * 0.3
    for t in range(1, 30):
        state[:, t] += 0.9 * state[:, t - 1]
    values = state @ rng.standard_normal((2, 4)) + 3.0 * kind[:, None, None]
    return mt.Panel.from_arrays(values, regime=np.array(["low", "high"])[kind].tolist())


@pytest.fixture(scope="module")
def model(easy):
    return mt.Trace(latents=2, lags=2, hidden=16, steps=200, batch=12, lr=1e-2, evaluations=2).fit(
        easy[:16], progress=False
    )


@pytest.fixture(scope="module")
def gate(model, easy):
    return fit_gate(model, easy[:16])


def test_pure_recordings_are_told_apart(gate, easy):
    new = easy[16:]
    assert gate.accuracy > 0.99
    assert 1 <= gate.epochs <= 60
    for series, weights in zip(new, gate.weights(new.without_labels()), strict=True):
        leader = weights[2:].argmax(axis=1)
        assert (leader == new.regimes.index(series.regime[0])).mean() > 0.99


def test_weights_lie_on_the_simplex_and_are_missing_in_the_warm_up(gate, easy):
    for weights in gate.weights(easy):
        assert weights.shape == (30, 2)
        assert np.isnan(weights[:2]).all()
        np.testing.assert_allclose(weights[2:].sum(axis=1), 1)
        assert weights[2:].min() >= 0


def test_the_same_seed_gives_the_same_gate_and_leaves_random_numbers_alone(model, easy, gate):
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    again = fit_gate(model, easy[:16], seed=0)
    assert torch.rand(1) == expected
    other = fit_gate(model, easy[:16], seed=1)
    for a, b, c in zip(gate.weights(easy), again.weights(easy), other.weights(easy), strict=True):
        np.testing.assert_array_equal(a, b)
        assert (a[2:] != c[2:]).any()


def test_the_past_never_crosses_a_gap_or_a_series(gate, easy):
    time = np.array([*range(20), *range(25, 35)])
    broken = mt.Panel.from_arrays([easy[0].values, easy[1].values[:2]], time=[time, [0, 1]])
    first, short = gate.weights(broken)
    assert np.flatnonzero(np.isnan(first[:, 0])).tolist() == [0, 1, 20, 21]
    assert np.isnan(short).all()


def test_more_past_may_be_asked_for(model, easy):
    gate = fit_gate(model, easy, past=5, epochs=3)
    assert np.isnan(gate.weights(easy)[0][:, 0]).sum() == 5


def test_other_regimes_are_refused(model, easy):
    with pytest.raises(DataError, match="no regime labels"):
        fit_gate(model, easy.without_labels())
    renamed = mt.Panel.from_arrays(easy.to_arrays()[:4], regime=["a", "b", "a", "b"])
    with pytest.raises(DataError, match="the model \\['high', 'low'\\]"):
        fit_gate(model, renamed)
