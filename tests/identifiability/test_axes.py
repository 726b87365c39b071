"""Axes: what each kind of evidence finds, what it must not claim, and that nothing else moves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import mechtrace as mt
from mechtrace.align import Axes, Axis
from mechtrace.align import form as form_of
from mechtrace.align.aligner import axes_of_rows
from mechtrace.align.bending import bending
from mechtrace.align.change import CHANGE, sparse_change
from mechtrace.align.form import FORM, mechanism_form
from mechtrace.align.noise import (
    BY_REGIME,
    SHAPE,
    covariances,
    joint_diagonaliser,
    noise_by_regime,
    noise_shape,
    random_rotations,
    root,
)
from mechtrace.align.turning import blocks_of, turn
from mechtrace.align.view import AlignedModel
from mechtrace.align.weights import weights_of_effects, weights_of_form
from mechtrace.errors import ConfigError, DataError
from mechtrace.recover.network import Mechanisms
from mechtrace.studies.alignment import (
    alignment_study,
    present_evidence,
    true_rows,
    verdict_is_right,
)

CPU = torch.device("cpu")
WORLDS = ("paper", "laplace", "regime-noise", "paper-positive", "linear-gaussian")
TURNED = random_rotations(2, 5, seed=3)[1]


def quiet(text):
    pass


@pytest.fixture(scope="module")
def halves():
    """World -> (world, rows to learn from, rows to test on), whitened and turned."""
    made = {}

    def of(name):
        if name not in made:
            world = mt.worlds.make(name, seed=2, latents=5, channels=6, regimes=4, length=40)
            rows = [true_rows(world.simulate(60, seed=seed)) for seed in (0, 1)]
            white = TURNED @ root(covariances(rows[0]).mean(axis=0), -0.5)
            made[name] = world, *(part.mapped(white) for part in rows)
        return made[name]

    return of


@pytest.fixture
def short_search(monkeypatch):
    monkeypatch.setattr(form_of, "RESTARTS", 4)
    monkeypatch.setattr(form_of, "SEARCH_STEPS", 250)
    monkeypatch.setattr(form_of, "FINAL_STEPS", 400)
    monkeypatch.setattr(form_of, "BATCHES", (256, 512))


def found_axes(rotation):
    """How well each axis matches a true one, and which."""
    cosine = np.abs(rotation @ TURNED)
    return cosine.max(axis=1), cosine.argmax(axis=1)


# -- the fact that all this is about -----------------------------------------------------------


def test_isotropic_gaussian_noise_leaves_every_rotation_equally_likely(halves):
    """z' = Rz, mechanisms turned alike: the same likelihood; not so with Laplace noise."""
    for name, same in (("paper", True), ("laplace", False)):
        _, rows, _ = halves(name)
        for rotation in random_rotations(4, 5, seed=1)[1:]:
            turned = rows.mapped(rotation)
            gaussian = [-0.5 * (part.residual**2).sum() for part in (rows, turned)]
            np.testing.assert_allclose(*gaussian, rtol=1e-12)
            laplace = [-np.sqrt(2) * np.abs(part.mapped(TURNED.T).residual).sum()
                       for part in (rows, turned)]  # fmt: skip
            likelihood = gaussian if same else laplace
            assert (abs(likelihood[0] / likelihood[1] - 1) < 1e-9) == same


def test_isotropic_experts_have_the_same_likelihood_in_turned_coordinates(trained):
    """The trained network itself, with one noise scale: turn latents and mechanisms together."""
    experts = trained._in_float64().experts
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(3, 50, 4, dtype=torch.float64, generator=generator)
    history = torch.randn(3, 50, 8, dtype=torch.float64, generator=generator)
    rotation = torch.from_numpy(random_rotations(2, 4)[1])
    expected = experts.conditional_mean(history)
    back = (history.unflatten(-1, (2, 4)) @ rotation.T @ rotation).flatten(-2)
    turned = experts.conditional_mean(back) @ rotation.T  # the mechanism in turned coordinates
    straight_error = (z - expected).square().sum(-1)
    turned_error = (z @ rotation.T - turned).square().sum(-1)
    torch.testing.assert_close(straight_error, turned_error)


# -- each kind of evidence ---------------------------------------------------------------------


@pytest.mark.parametrize("name", WORLDS)
def test_noise_is_evidence_only_where_it_is_not_gaussian_or_not_constant(halves, name):
    _, train, test = halves(name)
    for look, where in ((noise_shape, "laplace"), (noise_by_regime, "regime-noise")):
        clue = look(train, test)
        if name == where:
            assert len(clue.identified) >= 4
            cosine, partner = found_axes(clue.rotation[clue.identified])
            assert cosine.min() > 0.97
            assert len(set(partner)) == len(partner)
        else:
            assert clue.identified == []
            assert clue.blocks == [[0, 1, 2, 3, 4]]


@pytest.mark.parametrize("name", ["paper", "paper-positive", "regime-noise"])
def test_sparse_changes_identify_the_axes_that_they_touch(halves, name):
    world, train, test = halves(name)
    clue = sparse_change(train, test)
    change = world.mechanisms - np.median(world.mechanisms, axis=0)
    touched = set(np.flatnonzero(np.abs(change).sum(axis=(0, 1)) > 1e-9).tolist())
    cosine, partner = found_axes(clue.rotation[clue.identified])
    assert cosine.min() > 0.97
    assert len(touched) == 3  # the other two are a plane
    if name == "paper":  # near zero, where this world ends up, regimes hardly differ
        assert set(partner.tolist()) <= touched
    else:
        assert set(partner.tolist()) == touched


def test_dense_changes_identify_nothing(halves):
    _, train, test = halves("linear-gaussian")
    clue = sparse_change(train, test)
    assert clue.identified == []
    assert clue.facts["share_changed"] > 0.5


def test_the_form_finds_axes_signs_origin_and_matrices(halves, short_search):
    world, train, test = halves("paper")
    clue, form = mechanism_form(train, test, [], CPU)
    assert clue.identified == [0, 1, 2, 3, 4]
    cosine, partner = found_axes(clue.rotation)
    assert cosine.min() > 0.98
    signs = np.sign(np.diag(clue.rotation @ TURNED[:, partner]))
    assert (signs == 1).all()  # LeakyReLU is not odd
    assert np.abs(form.origin).max() < 1.0  # in units of the noise
    weights, error = weights_of_form(form, train)
    truth = world.mechanisms[:, partner][:, :, partner]
    assert np.corrcoef(weights[:, 0].ravel(), truth.ravel())[0, 1] > 0.99
    assert (np.abs(weights[:, 0] - truth) < 5 * error[:, 0] + 0.02).all()
    later = world.lagged[:, partner][:, :, partner]
    np.testing.assert_allclose(weights[:, 1:], np.broadcast_to(later, (4, 1, 5, 5)), atol=0.06)


@pytest.mark.parametrize("name", ["paper-positive", "linear-gaussian"])
def test_without_bends_the_form_is_not_even_tried(halves, name):
    _, train, test = halves(name)
    assert mechanism_form(train, test, [], CPU) is None


def test_mechanisms_of_another_form_deny_it(halves, short_search):
    def with_waves(rows):
        wave = 1.5 * np.sin(0.6 * rows.history[0])  # bent, but nowhere like the form
        return replace(rows, value=rows.value + wave, expected=rows.expected + wave[:, None])

    _, train, test = halves("paper")
    assert mechanism_form(with_waves(train), with_waves(test), [], CPU) is None


# -- all together ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WORLDS)
def test_the_evidence_together_names_what_is_there(halves, short_search, name):
    world, train, test = halves(name)
    found = axes_of_rows(train, test, CPU, quiet)
    np.testing.assert_allclose(found.agreed.rotation @ found.agreed.rotation.T, np.eye(5),
                               atol=1e-9)  # fmt: skip
    named = {kind for by in found.agreed.by for kind in by}
    offered = present_evidence(world)
    if not offered:
        assert named == set()
        assert found.agreed.blocks == [[0, 1, 2, 3, 4]]
        return
    assert offered[0] in named
    assert named <= set(offered)
    if name != "paper-positive":
        cosine, partner = found_axes(found.agreed.rotation @ found.whitening)
        assert cosine.min() > 0.95
        assert sorted(partner) == [0, 1, 2, 3, 4]
    assert (found.form is not None) == (FORM in offered)


def test_what_a_world_offers_and_which_verdict_is_right():
    world = mt.worlds.make("paper-positive", latents=4, channels=6, regimes=3)
    assert present_evidence(world) == [CHANGE]
    assert present_evidence(mt.worlds.make("linear-gaussian")) == []
    assert present_evidence(mt.worlds.make("laplace")) == [SHAPE, FORM, CHANGE]
    assert present_evidence(mt.worlds.make("regime-noise")) == [BY_REGIME, CHANGE]
    change = world.mechanisms - np.median(world.mechanisms, axis=0)
    touched = np.abs(change).sum(axis=(0, 1)) > 1e-9

    def axes(claimed, kind=CHANGE):
        verdicts = tuple(Axis(f"z{i}", (kind,) if yes else ()) for i, yes in enumerate(claimed))
        return Axes(np.eye(4), np.zeros(4), verdicts)

    same = np.arange(4)
    assert verdict_is_right(axes(touched), world, same)
    assert not verdict_is_right(axes([True] * 4), world, same)
    assert not verdict_is_right(axes(touched, FORM), world, same)
    assert not verdict_is_right(axes([False] * 4), world, same)


def test_unlabelled_runs_have_no_rows_to_compare():
    world = mt.worlds.make("paper", latents=3, channels=4, regimes=2)
    with pytest.raises(ConfigError):
        true_rows(world.transition("simple"))


# -- tools -------------------------------------------------------------------------------------


def test_joint_diagonaliser_finds_common_axes():
    rotation = random_rotations(2, 6, seed=5)[1]
    values = np.random.default_rng(0).uniform(0.2, 3, (4, 6))
    found = joint_diagonaliser(rotation.T @ (values[:, :, None] * np.eye(6)) @ rotation)
    np.testing.assert_allclose(np.sort(np.abs(found @ rotation.T), axis=1)[:, -1], 1, atol=1e-8)


def test_blocks_are_chains_of_pairs_that_cannot_be_told_apart():
    apart = np.ones((4, 4), bool)
    assert blocks_of(apart) == [[0], [1], [2], [3]]
    for i, j in ((0, 2), (2, 3)):
        apart[i, j] = apart[j, i] = False
    assert blocks_of(apart) == [[0, 2, 3], [1]]


def test_halves_share_no_stretch_and_have_all_regimes(halves):
    _, rows, _ = halves("paper")
    parts = rows.halves()
    assert sum(len(part.value) for part in parts) == len(rows.value)
    for part in parts:
        assert set(part.regime) == {0, 1, 2, 3}
        assert set(np.bincount(part.unit)) == {38}
    assert not set(map(tuple, parts[0].value)) & set(map(tuple, parts[1].value))


def test_a_few_long_recordings_are_enough_to_test_axes(world, small):
    panel = world.simulate(1, length=900).panel
    trace = mt.Trace(**small).fit(panel, progress=False)
    assert {found.kind for found in trace.axes_.evidence} >= {SHAPE, BY_REGIME, CHANGE}


def test_a_turn_is_a_rotation_of_one_plane():
    matrix = turn(3, 0, 2, 0.3)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(3), atol=1e-12)
    np.testing.assert_array_equal(matrix[1], [0, 1, 0])


def test_bending_is_seen_and_a_flat_space_is_flat(halves):
    _, train, test = halves("paper")
    assert bending(train, test) < 0.03
    spread = train.value.std()

    def bent(rows):
        def bend(z):
            return z + 0.1 * z * np.abs(z) / spread

        return replace(rows, value=bend(rows.value), history=bend(rows.history),
                       expected=bend(rows.expected))  # fmt: skip

    assert bending(bent(train), bent(test)) > 0.1


def test_average_effects_are_those_of_a_linear_system(halves):
    world, train, _ = halves("linear-gaussian")
    straight = train.mapped(TURNED.T)
    truth = np.stack([world.mechanisms, np.broadcast_to(world.lagged[0], (4, 5, 5))], axis=1)
    wrong = truth + 0.05  # an expert that is off by a constant is put right
    weights, error = weights_of_effects(straight, wrong)
    off = straight.history[0].sum(axis=1, keepdims=True) * 0.05
    shifted = replace(straight, expected=straight.expected + off[:, None])
    weights, error = weights_of_effects(shifted, wrong)
    assert (np.abs(weights[:, 0] - truth[:, 0]) < 6 * error[:, 0]).all()
    assert error.max() < 0.2


# -- in use ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def aligned(trained):
    """The small model, with a map that is far from the identity."""
    rng = np.random.default_rng(0)
    verdicts = tuple(Axis(f"z{i}", (FORM,), (f"z{i}",), 0.1, 1e-9) for i in range(4))
    shape = (3, 2, 4, 4)
    base = rng.uniform(0, 0.3, shape[1:])
    weights = np.broadcast_to(base, shape).copy()
    weights[1, 0, 2, 3] += 0.4
    mechanisms = Mechanisms(trained.regimes_, weights, error=np.full(shape, 0.01))
    matrix = random_rotations(2, 4, seed=1)[1] * [[1.0], [2.0], [0.5], [3.0]]
    return Axes(matrix, rng.normal(size=4), verdicts, weights=mechanisms, weights_from=FORM)


def test_the_map_and_the_way_back(aligned):
    z = np.random.default_rng(1).normal(size=(7, 4))
    np.testing.assert_allclose(aligned.native(aligned.aligned(z)), z, atol=1e-12)


def test_seen_through_the_map_the_likelihood_is_the_same(trained, aligned, panel):
    model = trained._in_float64()
    view = AlignedModel(model, aligned)
    x = torch.from_numpy(np.stack(panel.to_arrays())[:6])
    mean, log_scale = model.encode(x)
    u, covariance = view.encode(x)
    np.testing.assert_allclose(u.detach(), aligned.aligned(mean.detach().numpy()), atol=1e-10)
    # decoding: the same reconstruction
    straight = model.decoder(mean) * model.scale + model.centre
    torch.testing.assert_close(view.decode(u), straight)
    # entropy gains what the prior loses
    entropy = log_scale.sum(-1)
    torch.testing.assert_close(0.5 * torch.logdet(covariance), entropy + view.log_det)
    z, h = mean[:, 2:], torch.cat([mean[:, 1:-1], mean[:, :-2]], dim=-1)
    hu = torch.cat([u[:, 1:-1], u[:, :-2]], dim=-1)
    own = model.experts.log_prob(z[:3], h[:3])
    torch.testing.assert_close(view.log_prob(u[:3, 2:], hu[:3]), own - view.log_det)
    expected = view.conditional_mean(hu[0])
    there = model.experts.conditional_mean(h[0])
    np.testing.assert_allclose(expected.detach(), aligned.aligned(there.detach().numpy()),
                               atol=1e-9)  # fmt: skip


def test_alpha_is_the_same_before_and_after(trained, aligned, world, monkeypatch):
    glide = world.transition("simple", series=2).panel
    before = trained.recover(glide)
    monkeypatch.setattr(trained, "axes_", aligned)
    after = trained.recover(glide)
    for a, b in zip(before, after, strict=True):
        np.testing.assert_allclose(a.alpha, b.alpha, rtol=0, atol=1e-6)
        np.testing.assert_allclose(a.lower, b.lower, rtol=0, atol=1e-6)


def test_encode_decode_and_mechanisms_follow_the_axes(trained, aligned, panel, monkeypatch):
    monkeypatch.setattr(trained, "axes_", Axes.unaligned(4))
    z, plain = np.stack(trained.encode(panel)), trained.mechanisms(panel)
    x = trained.decode(z)
    monkeypatch.setattr(trained, "axes_", aligned)
    u = np.stack(trained.encode(panel))
    np.testing.assert_allclose(u, aligned.aligned(z), atol=1e-9)
    np.testing.assert_allclose(trained.decode(u), x, atol=1e-3)
    # dz' = W dz in either coordinates: eigenvalues stay
    turned = trained.mechanisms(panel)
    for k in range(3):
        mine, theirs = (np.linalg.eigvals(m.jacobian[k, 0]) for m in (plain, turned))
        np.testing.assert_allclose(np.sort_complex(mine), np.sort_complex(theirs), atol=1e-6)
    assert turned.latents == ("z0", "z1", "z2", "z3")
    with pytest.raises(DataError):
        trained.decode(u[..., :3])


def test_axes_survive_storage(trained, aligned, tmp_path, panel, monkeypatch):
    monkeypatch.setattr(trained, "axes_", aligned)
    monkeypatch.setitem(trained.facts_, "axes", aligned.facts())
    trained.save(tmp_path / "m.mechtrace")
    again = mt.load(tmp_path / "m.mechtrace")
    np.testing.assert_array_equal(np.stack(again.encode(panel)), np.stack(trained.encode(panel)))
    assert again.axes_.axes == aligned.axes
    assert again.axes_.verdict == aligned.verdict
    np.testing.assert_array_equal(again.weights_.jacobian, aligned.weights.jacobian)
    np.testing.assert_array_equal(again.weights_.error, aligned.weights.error)
    assert again.axes_.sentences() == aligned.sentences()


def test_changed_edges_are_named(aligned):
    changes = aligned.changes()
    assert len(changes) == 1
    row = changes.iloc[0]
    assert (row["regime"], row["source"], row["target"], row["lag"]) == ("R1", "z2", "z3", 1)
    assert row["p_value"] < 1e-6
    assert aligned.sentences() == [
        f"R1 strengthens z2 -> z3 ({row['usual']:.2f} to {row['weight']:.2f})"
    ]


def test_edges_between_axes_that_are_not_identified_have_no_name(aligned):
    block = ("z1", "z2")
    hidden = tuple(
        Axis(axis.name, block=block) if axis.name in block else axis for axis in aligned.axes
    )
    axes = replace(aligned, axes=hidden)
    assert not axes.changes()["named"].any()
    assert axes.sentences() == ["R1 changes what drives z3, by sources not told apart"]
    assert "z1, z2 only up to rotation" in axes.verdict
    assert "do not interpret" in str(axes.axes[1])


def test_unaligned_axes_claim_nothing():
    axes = Axes.unaligned(3)
    assert axes.identified == ()
    assert "up to rotation only" in axes.verdict
    assert axes.changes().empty
    assert axes.to_frame()["identified"].tolist() == [False] * 3


def test_a_fit_without_alignment_keeps_the_networks_coordinates(panel, small):
    trace = mt.Trace(**small, align=False).fit(panel, progress=False)
    np.testing.assert_array_equal(trace.axes_.matrix, np.eye(4))
    assert trace.weights_ is None
    assert trace.axes_.identified == ()


def test_a_fit_says_what_it_found(trained):
    axes = trained.axes_
    assert len(axes.axes) == 4
    assert trained.facts_["axes"]["verdict"] == axes.verdict
    assert axes.verdict in trained.card_
    assert {found.kind for found in axes.evidence} >= {SHAPE, BY_REGIME, CHANGE}
    assert np.isfinite(axes.bending)
    assert trained.weights_.jacobian.shape == (3, 2, 4, 4)
    assert (trained.weights_.error >= 0).all()


def test_latents_that_carry_nothing_are_left_alone(world):
    flat = mt.worlds.make("paper", regimes=2, latents=2, channels=4, length=20)
    trace = mt.Trace(latents=5, hidden=16, steps=500, batch=12, lr=1e-2).fit(
        flat.simulate(30).panel, progress=False
    )
    unused = [axis for axis in trace.axes_.axes if not axis.used]
    assert np.linalg.cond(trace.axes_.matrix) < 1e6
    assert all("carries nothing" in str(axis) for axis in unused)


def test_the_study_runs(short_search):
    result = alignment_study(
        world="laplace", regimes=2, series=20, seeds=1, say=quiet, steps=200, lr=1e-2
    )
    assert {"mcc", "mcc_before", "verdict_right", "alpha_moved"} <= set(result["rows"][0])
    assert result["means"]["alpha_moved"] < 1e-6


# -- experts in aligned coordinates -------------------------------------------------------------


def test_experts_taken_over_into_other_coordinates_expect_the_same(trained, aligned, panel):
    from mechtrace.align.refit import _take_over, empty_aligned_experts

    model = trained._in_float64()
    new = empty_aligned_experts(model).double()
    new.matrix.copy_(torch.from_numpy(aligned.matrix))
    new.offset.copy_(torch.from_numpy(aligned.offset))
    _take_over(new.inner, model.experts, aligned)
    history = torch.randn(
        3, 20, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    torch.testing.assert_close(
        new.conditional_mean(history), model.experts.conditional_mean(history)
    )
    torch.testing.assert_close(
        new.conditional_mean(history[0]), model.experts.conditional_mean(history[0])
    )
    assert (new.noise_scale(history) > 0).all()
    # a proper density of z: it integrates to what the density of u integrates to
    z = torch.zeros(3, 20, 4, dtype=torch.float64)
    inside = new.inner.log_prob(new._aligned(z), new._past(history))
    log_det = torch.full_like(inside, np.linalg.slogdet(aligned.matrix)[1])
    torch.testing.assert_close(new.log_prob(z, history) - inside, log_det)


def test_a_refit_helps_on_held_out_series_or_changes_nothing(panel, small, tmp_path):
    trace = mt.Trace(**small).fit(panel, progress=False)
    before = trace.recover(panel[:1]).alpha
    trace.refit_experts(panel, steps=0, progress=False)
    assert trace.facts_["refit"] == {"steps": 0, "gain": 0.0}
    np.testing.assert_array_equal(trace.recover(panel[:1]).alpha, before)
    trace.refit_experts(panel, steps=60, progress=False)
    assert trace.facts_["refit"]["gain"] > 0  # 240 steps were far from enough
    trace.save(tmp_path / "m.mechtrace")
    again = mt.load(tmp_path / "m.mechtrace")
    np.testing.assert_array_equal(again.recover(panel[:1]).alpha, trace.recover(panel[:1]).alpha)
    assert np.isfinite(trace.mechanisms().jacobian).all()


def test_a_refit_needs_the_regimes_of_the_fit(trained, world):
    other = world.simulate(6).panel.select(["R0", "R1"])
    with pytest.raises(DataError, match="trained on R0, R1, R2"):
        trained.refit_experts(other)
