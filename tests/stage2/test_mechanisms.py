"""W(t): exact for a linear world, finite differences for every kind of expert, and its edges."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import mechtrace as mt
from mechtrace.config import EXPERTS, ModelConfig
from mechtrace.errors import ConfigError, DataError
from mechtrace.stage1.encoding import CHUNK
from mechtrace.stage1.experts import AffineExperts, make_experts
from mechtrace.stage1.vae import SequentialVAE
from mechtrace.stage2.mechanisms import STATES, at_each_step, jacobians

K, D, L = 3, 4, 2


def holder(experts, kind):
    """As much of a model as the derivatives need."""
    config = SimpleNamespace(lags=experts.lags, latents=experts.latents, experts=kind)
    return SimpleNamespace(experts=experts, config=config, centre=experts.centre)


def linear_model(world):
    """A model whose latents are the channels and whose experts are the world's own matrices."""
    config = ModelConfig(latents=world.config.latents, lags=world.config.lags, context=0, hidden=4)
    model = SequentialVAE(config, len(world.mechanisms), (world.config.channels,)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        d = world.config.latents
        unmix = np.linalg.pinv(world.mixing[0] @ world.mixing[1])
        model.encoder.body.skip.weight[:d] = torch.from_numpy(unmix.T.copy())
        model.experts.skip.own.copy_(torch.from_numpy(true_matrices(world)).flatten(1, 2)[:, None])
    return model


def true_matrices(world):
    later = np.broadcast_to(world.lagged, (len(world.mechanisms), *world.lagged.shape))
    return np.concatenate([world.mechanisms[:, None], later], axis=1)


@pytest.fixture(scope="module")
def linear():
    return mt.worlds.make("linear-gaussian", regimes=K, latents=D, channels=6, lags=L)


def test_the_matrices_of_a_linear_world_are_found_exactly(linear):
    model = linear_model(linear)
    assert isinstance(model.experts, AffineExperts)
    run = linear.transition("simple", series=3, seed=2)
    (found,) = jacobians(model, np.random.default_rng(0).standard_normal((7, L * D)))
    assert found.shape == (K, 7, L, D, D)
    np.testing.assert_allclose(found, np.repeat(true_matrices(linear)[:, None], 7, axis=1))
    # the derivative is that of what the experts expect at the latents of the recording
    by_step = at_each_step(model, run.panel, run.alpha[0])
    np.testing.assert_allclose(by_step[L:, 0], run.transition_matrices[L:], atol=1e-9)
    assert np.isnan(by_step[:L]).all()


def perturbed(kind, hidden=6):
    torch.manual_seed(0)
    experts = make_experts(kind, K, D, L, hidden=hidden, layers=3).double()
    with torch.no_grad():
        for parameter in experts.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
        if kind == "nonparametric":  # increasing in z, as a density needs it
            experts.slope.fill_(3.0)
    return experts


def slopes(experts, history, small):
    """Derivatives by central differences, (K, N, L*d, d)."""

    def expected(at):
        with torch.no_grad():
            return experts.conditional_mean(torch.from_numpy(at)).numpy()

    steps = small * np.eye(L * D)
    return np.stack([expected(history + e) - expected(history - e) for e in steps], 2) / small / 2


@pytest.mark.parametrize("kind", ["affine", "spline", "maf"])
def test_derivatives_equal_finite_differences(kind):
    experts = perturbed(kind)
    history = np.random.default_rng(1).standard_normal((9, L * D))
    found = np.concatenate(list(jacobians(holder(experts, kind), history)), axis=1)
    wanted = slopes(experts, history, 1e-6)
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=1e-4, atol=1e-6)


def test_derivatives_of_nonparametric_experts_count_the_jumps_of_the_density():
    """Compared over a distance with many kinks; the derivative of the plain sum fails this."""
    experts = perturbed("nonparametric", hidden=16)
    history = np.random.default_rng(1).standard_normal((60, L * D))
    found = np.concatenate(list(jacobians(holder(experts, "nonparametric"), history)), axis=1)
    wanted = slopes(experts, history, 0.05)
    error = found.reshape(wanted.shape) - wanted
    size = np.sqrt((wanted**2).mean())
    assert np.sqrt((error**2).mean()) < 0.05 * size
    assert np.abs(error.mean(axis=1)).max() < 0.02 * size


def test_mechanisms_of_a_trained_model(trained, panel, world):
    found = trained.mechanisms(panel, states=50)
    assert isinstance(found, mt.Mechanisms)
    assert found.regimes == trained.regimes_
    assert found.jacobian.shape == (3, 2, 4, 4)
    assert (found.states, found.lags) == (50, 2)
    np.testing.assert_array_equal(found.of("R1"), found.jacobian[1])
    again = trained.mechanisms(panel, states=50)
    np.testing.assert_array_equal(found.jacobian, again.jacobian)
    without = trained.mechanisms()
    assert np.isfinite(without.jacobian).all()
    assert without.states == 1000
    with pytest.raises(ConfigError, match="states = 0"):
        trained.mechanisms(states=0)
    assert not np.allclose(without.jacobian, found.jacobian)
    with pytest.raises(ConfigError, match="no regime 'R9'"):
        found.of("R9")
    with pytest.raises(DataError, match="3 rows without a gap"):
        trained.mechanisms(mt.Panel.from_arrays(np.zeros((4, 2, 6)), channels=panel.channels))


def test_every_kind_of_expert_has_its_defaults():
    assert set(CHUNK) == set(STATES) == set(EXPERTS)


def test_matrices_of_a_curve(trained, world):
    run = world.transition("simple", series=4, seed=1)
    path = trained.recover(run.panel, pool=True)
    average = trained.transition_matrices(path)
    assert average.shape == (20, 2, 4, 4)
    np.testing.assert_allclose(
        average[3], np.tensordot(path.alpha[3], trained.mechanisms().jacobian, axes=1)
    )
    pooled = trained.transition_matrices(path, run.panel)
    assert np.isnan(pooled[:2]).all()
    singles = [trained.transition_matrices(path, run.panel[i : i + 1]) for i in range(4)]
    np.testing.assert_allclose(pooled, np.mean(singles, axis=0), atol=1e-9)
    with pytest.raises(DataError, match="the curve has 20 steps"):
        trained.transition_matrices(path, world.transition("simple", length=9).panel)


def test_a_mixture_of_regimes_mixes_their_matrices():
    rng = np.random.default_rng(0)
    found = mt.Mechanisms(("a", "b"), rng.standard_normal((2, 1, 3, 3)))
    np.testing.assert_allclose(found.at(np.array([0.0, 1.0])), found.of("b"))
    half = found.at(np.full((5, 2), 0.5))
    assert half.shape == (5, 1, 3, 3)
    np.testing.assert_allclose(half[2], found.jacobian.mean(axis=0))


# --- edges ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def path(trained, world):
    return trained.recover(world.transition("simple", series=30, seed=1).panel, pool=True)


def test_every_edge_is_in_the_table_once(trained, path):
    found = trained.mechanisms()
    frame = found.edges(path, threshold=0.0)
    assert list(frame) == ["time", "source", "target", "lag", "weight", "lower", "upper"]
    assert len(frame) == 20 * 2 * 16
    assert not frame.duplicated(["time", "source", "target", "lag"]).any()
    matrices = found.at(path.alpha)
    for row in frame.sample(25, random_state=0).itertuples():
        t, i, j = row.time, int(row.source[1:]), int(row.target[1:])
        assert row.weight == pytest.approx(matrices[t, row.lag - 1, i, j])
    assert (frame["lower"] <= frame["weight"]).all()
    assert (frame["weight"] <= frame["upper"]).all()


def test_bounds_hold_for_weights_inside_their_intervals(trained, path):
    found = trained.mechanisms()
    frame = found.edges(path, threshold=0.0)
    rng = np.random.default_rng(0)
    for _ in range(200):
        alpha = rng.dirichlet(np.ones(3), 20)
        inside = ((path.lower <= alpha) & (alpha <= path.upper)).all(axis=1)
        other = found.at(alpha)[inside].ravel()
        mine = frame[inside[frame["time"]]]
        assert (mine["lower"] - 1e-9 <= other).all()
        assert (other <= mine["upper"] + 1e-9).all()


def test_weak_edges_are_left_out(trained, path):
    found = trained.mechanisms()
    strong = found.edges(path, threshold=0.3)
    assert 0 < len(strong) < 640
    assert (strong["weight"].abs() >= 0.3).all()
    few = found.edges(path, threshold=0.0, top=3)
    assert (few.groupby("time").size() == 3).all()
    everything = found.edges(path, threshold=0.0)
    largest = everything["weight"].abs().groupby(everything["time"]).max()
    np.testing.assert_allclose(few["weight"].abs().groupby(few["time"]).max(), largest)


def test_missing_steps_have_no_edges(trained, path):
    from dataclasses import replace

    alpha = path.alpha.copy()
    alpha[4] = np.nan
    frame = trained.mechanisms().edges(replace(path, alpha=alpha), threshold=0.0, top=2)
    assert 4 not in set(frame["time"])
    assert len(frame) == 38


def test_edges_refuse_what_does_not_fit(trained, path):
    found = trained.mechanisms()
    with pytest.raises(ConfigError, match="same model"):
        mt.Mechanisms(("a", "b"), found.jacobian[:2]).edges(path)
    for options in ({"threshold": -1.0}, {"top": 0}):
        with pytest.raises(ConfigError, match="threshold"):
            found.edges(path, **options)
