"""TDRL and NCTRL against slow, literal references; the hidden Markov chain against enumeration."""

from __future__ import annotations

from itertools import product

import literal
import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment

import mechtrace as mt
from mechtrace import worlds
from mechtrace.errors import DataError, StoreError
from mechtrace.metrics import mean_correlation
from mechtrace_lab import peer_worlds as peers
from mechtrace_lab.baselines import Truth, make
from mechtrace_lab.baselines.chains import best_path, smooth, surrogate
from mechtrace_lab.baselines.components import ComponentNets, change_of_variables, log_slope
from mechtrace_lab.baselines.leap import NoisePriorVAE
from mechtrace_lab.baselines.nctrl import DECAY, SwitchingVAE
from mechtrace_lab.baselines.tdrl import TemporalPriorVAE


@pytest.fixture
def double():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


@pytest.mark.usefixtures("double")
def test_residuals_and_log_determinants_equal_the_literal_ones():
    torch.manual_seed(0)
    nets = ComponentNets(latents=3, history=6, context=5, hidden=16, layers=3)
    z, history, context = torch.randn(11, 3), torch.randn(11, 6), torch.randn(11, 5)
    eps, slope = nets(z, history, context, nets.of_context)
    wanted_eps, wanted_log = literal.networks(nets, z, history, context)
    torch.testing.assert_close(eps, wanted_eps)
    torch.testing.assert_close(log_slope(slope), wanted_log)


@pytest.mark.usefixtures("double")
def test_gradients_equal_the_literal_ones():
    torch.manual_seed(1)
    nets = ComponentNets(latents=2, history=2, context=3, hidden=8, layers=2)
    z = torch.randn(5, 2, requires_grad=True)
    history, context = torch.randn(5, 2, requires_grad=True), torch.randn(5, 3)
    wanted = torch.stack(
        [
            torch.distributions.Normal(0.0, 1.0).log_prob(
                nets(z, history, context, nets.of_context)[0]
            ),
            _literal_log_slopes(nets, z, history, context),
        ]
    ).sum()
    ours = change_of_variables(*nets(z, history, context, nets.of_context)).sum()
    inputs = [z, history, *nets.parameters()]
    for mine, theirs in zip(
        torch.autograd.grad(ours, inputs, allow_unused=True),
        torch.autograd.grad(wanted, inputs, allow_unused=True),
        strict=True,
    ):
        if mine is not None or theirs is not None:
            torch.testing.assert_close(mine, theirs)


def _literal_log_slopes(nets, z, history, context):
    """Each slope by differentiating its own output, kept differentiable."""
    eps, _ = nets(z, history, context, nets.of_context)
    rows = []
    for i in range(z.shape[1]):
        (slope,) = torch.autograd.grad(eps[:, i].sum(), z, create_graph=True)
        rows.append(slope[:, i].abs().log())
    return torch.stack(rows, 1)


@pytest.mark.usefixtures("double")
def test_loss_of_tdrl_is_the_published_one():
    torch.manual_seed(2)
    model = TemporalPriorVAE((4,), latents=3, lags=2, regimes=2)
    x, noise = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 5, 3)
    domains = torch.arange(2).repeat_interleave(3)[:, None].expand(6, 3)
    ours = model.loss(model(x, noise))
    wanted = literal.temporal_loss(model, x.flatten(0, 1), noise.flatten(0, 1), domains)
    torch.testing.assert_close(ours, wanted)


@pytest.mark.usefixtures("double")
def test_loss_of_nctrl_takes_the_states_of_the_step_itself():
    """The domain of a transition is the state of its own step, not of a step beside it."""
    torch.manual_seed(3)
    model = SwitchingVAE((4,), latents=3, lags=2, states=3, gating="hard")
    x, noise = torch.randn(1, 4, 7, 4), torch.randn(1, 4, 7, 3)
    path = best_path(*model.chain.parts(x[0]))
    assert len(path.unique()) > 1
    terms = model(x, noise)
    wanted = literal.temporal_loss(model, x[0], noise[0], path)
    torch.testing.assert_close(model.loss(terms) - terms.other, wanted)
    other = literal.chain_loss(model, x[0]) + DECAY * model.chain.decay()
    torch.testing.assert_close(terms.other, other)


@pytest.mark.usefixtures("double")
def test_loss_of_leap_is_the_published_one():
    torch.manual_seed(4)
    model = NoisePriorVAE((4,), latents=3, lags=2, regimes=2)
    x, noise = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 5, 3)
    torch.testing.assert_close(-model.score(model(x, noise)), literal.noise_loss(model, x, noise))


# --- the chain ------------------------------------------------------------------------------


def some_chain(steps=4, states=3, seed=0):
    rng = torch.Generator().manual_seed(seed)
    emission = torch.randn(2, steps, states, generator=rng)
    initial = torch.randn(states, generator=rng).log_softmax(-1)
    return emission, initial, torch.randn(states, states, generator=rng).log_softmax(-1)


def every_path(emission, initial, transition):
    """All paths and their joint log probabilities, (paths, T) and (B, paths)."""
    _, steps, states = emission.shape
    paths = torch.tensor(list(product(range(states), repeat=steps)))
    score = initial[paths[:, 0]] + transition[paths[:, :-1], paths[:, 1:]].sum(1)
    seen = torch.stack([one[torch.arange(steps), paths].sum(1) for one in emission])
    return paths, score + seen


@pytest.mark.usefixtures("double")
def test_forward_backward_equals_enumeration():
    parts = some_chain()
    paths, score = every_path(*parts)
    found = smooth(*parts)
    torch.testing.assert_close(found.log_likelihood, score.logsumexp(1))
    share = score.softmax(1)
    for state in range(3):
        wanted = share @ (paths == state).double()
        torch.testing.assert_close(found.posterior[..., state], wanted)
    moves = torch.zeros(3, 3)
    for a, b in product(range(3), repeat=2):
        count = ((paths[:, :-1] == a) & (paths[:, 1:] == b)).sum(1).double()
        moves[a, b] = (share @ count).sum()
    torch.testing.assert_close(found.transitions, moves)


@pytest.mark.usefixtures("double")
def test_best_path_equals_enumeration():
    parts = some_chain(seed=5)
    paths, score = every_path(*parts)
    assert torch.equal(best_path(*parts), paths[score.argmax(1)])


@pytest.mark.usefixtures("double")
def test_gradient_of_the_likelihood_is_exact():
    parts = [part.requires_grad_() for part in some_chain(seed=2)]
    ours, _ = surrogate(*parts)
    wanted = every_path(*parts)[1].logsumexp(1).mean()
    torch.testing.assert_close(ours, wanted)
    for mine, theirs in zip(
        torch.autograd.grad(ours, parts), torch.autograd.grad(wanted, parts), strict=True
    ):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.usefixtures("double")
def test_long_series_do_not_underflow():
    emission, initial, transition = some_chain(steps=3000)
    found = smooth(500 * emission, initial, transition)
    assert torch.isfinite(found.log_likelihood).all()
    torch.testing.assert_close(found.posterior.sum(-1), torch.ones(2, 3000))


# --- as methods -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def switching():
    return peers.make("nctrl", seed=1)


@pytest.mark.slow
def test_nctrl_finds_the_states_of_its_own_world(switching):
    method = make("nctrl-soft", latents=8, states=5, transitions=200_000, evaluations=2).fit(
        switching.simulate(4000).panel
    )
    test = switching.simulate(400, seed=1)
    found = np.stack(method.weights(test.panel))[:, 2:]
    assert np.allclose(found.sum(-1), 1)
    assert method.regimes_ == ("S0", "S1", "S2", "S3", "S4")
    table = np.zeros((5, 5))
    np.add.at(table, (found.argmax(-1).ravel(), test.states[:, 2:].ravel()), 1)
    purity = table.max(axis=1).sum() / table.sum()
    assert purity > 0.6  # chance: 0.2


def test_states_are_named_by_the_regimes_they_meet():
    world = worlds.make("paper", regimes=3, latents=3, channels=4, length=20, seed=3)
    panel = world.simulate(20).panel
    method = make("nctrl-soft", latents=3, transitions=20_000, evaluations=4, holdout=0.0)
    method.fit(panel, truth=Truth(panel, list(world.simulate(20).latents)))
    for one in (method, method.oracle_selected()):
        assert one.regimes_ == ("R0", "R1", "R2")
        met = np.zeros((3, 3))
        np.add.at(met, panel.codes, np.nan_to_num(np.concatenate(one.weights(panel))))
        order = linear_sum_assignment(-met)[1]
        assert order.tolist() == [0, 1, 2]
    assert make("nctrl-soft", latents=3, transitions=500, states=4).fit(
        panel.without_labels()
    ).regimes_ == ("S0", "S1", "S2", "S3")


def test_tdrl_learns_and_the_oracle_selects_no_worse():
    world = worlds.make("paper", regimes=2, latents=3, channels=4, length=20, seed=1)
    known = world.simulate(10, seed=5)
    method = make("tdrl", latents=3, transitions=60_000, evaluations=5)
    method.fit(world.simulate(60).panel, truth=Truth(known.panel, list(known.latents)))
    chosen = method.oracle_selected()

    def mcc(one):
        learned = np.stack(one.encode(known.panel))[:, 2:]
        return mean_correlation(known.latents[:, 2:], learned)

    assert mcc(chosen) >= mcc(method)
    history = [record["held_out_elbo"] for record in method.training_["history"]]
    assert history[-1] > history[0]
    assert method.weights(known.panel) is None


def test_saved_methods_answer_the_same(tmp_path):
    world = worlds.make("paper", regimes=2, latents=3, channels=4, length=20)
    panel = world.simulate(8).panel
    method = make("nctrl-soft", latents=3, transitions=2000, evaluations=1).fit(panel)
    method.save(tmp_path / "nctrl.mechtrace")
    again = type(method).load(tmp_path / "nctrl.mechtrace")
    for mine, theirs in zip(method.weights(panel), again.weights(panel), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    with pytest.raises(StoreError, match=r"holds NCTRL \(soft\), not TDRL"):
        type(make("tdrl")).load(tmp_path / "nctrl.mechtrace")
    with pytest.raises(StoreError):
        mt.load(tmp_path / "nctrl.mechtrace")


def test_frames_are_refused():
    frames = mt.Panel.from_arrays(np.zeros((2, 5, 4, 4)), regime=["a", "b"])
    with pytest.raises(DataError, match="reads channels, not frames"):
        make("tdrl").fit(frames)
