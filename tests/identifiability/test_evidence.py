"""Evidence for axes: what each kind finds, and what it must not claim."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import mechtrace as mt
from mechtrace.identifiability import Axes
from mechtrace.identifiability import mechanism_form as form_module
from mechtrace.identifiability.aligned_model import AlignedModel
from mechtrace.identifiability.aligner import find_rotation
from mechtrace.identifiability.mechanism_form import MECHANISM_FORM, fit_mechanism_form
from mechtrace.identifiability.residual_evidence import (
    NON_GAUSSIAN_NOISE,
    REGIME_DEPENDENT_NOISE,
    SPARSE_CHANGE,
    joint_diagonaliser,
    non_gaussian_noise,
    regime_dependent_noise,
    sparse_change,
)
from mechtrace.identifiability.rotation_test import connected, givens_rotation, random_rotations
from mechtrace.identifiability.transitions import (
    Transitions,
    TransitionSplit,
    curvature,
    inverse_square_root,
)
from mechtrace.identifiability.weights import weights_of_effects, weights_of_form

CPU = torch.device("cpu")
#: Evidence that each world offers by construction, the strongest first.
WORLDS = {
    "paper": [MECHANISM_FORM, SPARSE_CHANGE],
    "laplace": [NON_GAUSSIAN_NOISE, MECHANISM_FORM, SPARSE_CHANGE],
    "regime-noise": [REGIME_DEPENDENT_NOISE, SPARSE_CHANGE],
    "paper-positive": [SPARSE_CHANGE],
    "linear-gaussian": [],
}
ROTATED = random_rotations(2, 5, np.random.default_rng(3))[1]


def true_transitions(simulation):
    """Transitions of pure runs with true latents and mechanisms: what perfect learning gives."""
    lags, z = simulation.world.config.lags, simulation.latents.astype(float)
    series, steps, d = z.shape
    past = [z[:, lags - lag : steps - lag].reshape(-1, d) for lag in range(1, lags + 1)]
    means = simulation.conditional_means()[:, lags:]
    return Transitions(
        value=z[:, lags:].reshape(-1, d),
        history=np.stack(past),
        expected=means.reshape(-1, *means.shape[2:]),
        regime=np.repeat(simulation.label, steps - lags),
        unit=np.repeat(np.arange(series), steps - lags),
    )


@pytest.fixture(scope="module")
def parts():
    """World -> (world, rows to fit, to select and to test on), whitened and rotated."""
    made = {}

    def of(name):
        if name not in made:
            world = mt.worlds.make(name, seed=2, latents=5, channels=6, regimes=4, length=40)
            rows = TransitionSplit(
                *(true_transitions(world.simulate(60, seed=seed)) for seed in (0, 2, 1))
            )
            white = ROTATED @ inverse_square_root(rows.fit.residual_covariances.mean(axis=0))
            made[name] = world, rows.mapped(white)
        return made[name]

    return of


@pytest.fixture
def short_search(monkeypatch):
    monkeypatch.setattr(form_module, "RESTARTS", 4)
    monkeypatch.setattr(form_module, "SEARCH_STEPS", 250)
    monkeypatch.setattr(form_module, "FINAL_STEPS", 400)
    monkeypatch.setattr(form_module, "BATCHES", (256, 512))


def found_axes(rotation):
    """How well each axis matches a true one, and which."""
    cosine = np.abs(rotation @ ROTATED)
    return cosine.max(axis=1), cosine.argmax(axis=1)


def test_isotropic_gaussian_noise_leaves_every_rotation_equally_likely(parts):
    """z' = Rz, mechanisms rotated alike: the same likelihood; not so with Laplace noise."""
    for name, same in (("paper", True), ("laplace", False)):
        rows = parts(name)[1].fit
        for rotation in random_rotations(4, 5, np.random.default_rng(1))[1:]:
            rotated = rows.mapped(rotation)
            gaussian = [-0.5 * (part.residual**2).sum() for part in (rows, rotated)]
            np.testing.assert_allclose(*gaussian, rtol=1e-12)
            laplace = [-np.sqrt(2) * np.abs(part.mapped(ROTATED.T).residual).sum()
                       for part in (rows, rotated)]  # fmt: skip
            likelihood = gaussian if same else laplace
            assert (abs(likelihood[0] / likelihood[1] - 1) < 1e-9) == same


def test_isotropic_experts_have_the_same_likelihood_in_rotated_coordinates(trained):
    """The trained network itself, with one noise scale."""
    model = trained._in_float64()
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(3, 50, 4, dtype=torch.float64, generator=generator)
    history = torch.randn(3, 50, 8, dtype=torch.float64, generator=generator)
    rotation = random_rotations(2, 4, np.random.default_rng(0))[1]
    rotated = AlignedModel(model, replace(Axes.unaligned(4), matrix=rotation))
    there = torch.from_numpy(rotation).T
    past = (history.unflatten(-1, (2, 4)) @ there).flatten(-2)
    straight_error = (z - model.experts.conditional_mean(history)).square().sum(-1)
    turned_error = (z @ there - rotated.conditional_mean(past)).square().sum(-1)
    torch.testing.assert_close(straight_error, turned_error)


@pytest.mark.parametrize("name", WORLDS)
def test_noise_is_evidence_only_where_it_is_not_gaussian_or_not_constant(parts, name):
    _, rows = parts(name)
    for look, where in ((non_gaussian_noise, "laplace"), (regime_dependent_noise, "regime-noise")):
        found = look(rows)
        if name == where:
            assert len(found.identified) >= 4
            cosine, partner = found_axes(found.rotation[found.identified])
            assert cosine.min() > 0.97
            assert len(set(partner)) == len(partner)
        else:
            assert found.identified == []
            assert found.subspaces == [[0, 1, 2, 3, 4]]


@pytest.mark.parametrize("name", ["paper", "paper-positive", "regime-noise"])
def test_sparse_changes_identify_the_axes_that_they_touch(parts, name):
    world, rows = parts(name)
    found = sparse_change(rows)
    change = world.mechanisms - np.median(world.mechanisms, axis=0)
    touched = set(np.flatnonzero(np.abs(change).sum(axis=(0, 1)) > 1e-9).tolist())
    cosine, partner = found_axes(found.rotation[found.identified])
    assert cosine.min() > 0.97
    assert len(touched) == 3  # the other two are a plane
    if name == "paper":  # near zero, where this world ends up, regimes hardly differ
        assert set(partner.tolist()) <= touched
    else:
        assert set(partner.tolist()) == touched


def test_dense_changes_identify_nothing(parts):
    _, rows = parts("linear-gaussian")
    found = sparse_change(rows)
    assert found.identified == []
    assert found.facts["share_changed"] > 0.5


def test_the_form_finds_axes_signs_origin_and_matrices(parts, short_search):
    world, rows = parts("paper")
    found, form = fit_mechanism_form(rows, [], CPU)
    assert found.identified == [0, 1, 2, 3, 4]
    cosine, partner = found_axes(found.rotation)
    assert cosine.min() > 0.98
    signs = np.sign(np.diag(found.rotation @ ROTATED[:, partner]))
    assert (signs == 1).all()  # LeakyReLU is not odd
    assert np.abs(form.origin).max() < 1.0  # in units of the noise
    weights, error = weights_of_form(form, rows.fit)
    truth = world.mechanisms[:, partner][:, :, partner]
    assert np.corrcoef(weights[:, 0].ravel(), truth.ravel())[0, 1] > 0.99
    assert (np.abs(weights[:, 0] - truth) < 5 * error[:, 0] + 0.02).all()
    later = world.lagged[:, partner][:, :, partner]
    np.testing.assert_allclose(weights[:, 1:], np.broadcast_to(later, (4, 1, 5, 5)), atol=0.06)


@pytest.mark.parametrize("name", ["paper-positive", "linear-gaussian"])
def test_without_bends_the_form_is_not_even_tried(parts, name):
    _, rows = parts(name)
    assert fit_mechanism_form(rows, [], CPU) is None


def test_mechanisms_of_another_form_deny_it(parts, short_search):
    def with_waves(rows):
        wave = 1.5 * np.sin(0.6 * rows.history[0])  # bent, but nowhere like the form
        return replace(rows, value=rows.value + wave, expected=rows.expected + wave[:, None])

    _, rows = parts("paper")
    assert fit_mechanism_form(TransitionSplit(*map(with_waves, rows[:3])), [], CPU) is None


@pytest.mark.parametrize("name", WORLDS)
def test_the_evidence_together_names_what_is_there(parts, short_search, name):
    _, rows = parts(name)
    found = find_rotation(rows, CPU)
    np.testing.assert_allclose(found.consensus.rotation @ found.consensus.rotation.T, np.eye(5),
                               atol=1e-9)  # fmt: skip
    named = {kind for by in found.consensus.by for kind in by}
    offered = WORLDS[name]
    if not offered:
        assert named == set()
        assert found.consensus.subspaces == [[0, 1, 2, 3, 4]]
        return
    assert offered[0] in named
    assert named <= set(offered)
    if name != "paper-positive":
        cosine, partner = found_axes(found.consensus.rotation @ found.whitening)
        assert cosine.min() > 0.95
        assert sorted(partner) == [0, 1, 2, 3, 4]
    assert (found.form is not None) == (MECHANISM_FORM in offered)


def test_joint_diagonaliser_finds_common_axes():
    rotation = random_rotations(2, 6, np.random.default_rng(5))[1]
    values = np.random.default_rng(0).uniform(0.2, 3, (4, 6))
    found = joint_diagonaliser(rotation.T @ (values[:, :, None] * np.eye(6)) @ rotation)
    np.testing.assert_allclose(np.sort(np.abs(found @ rotation.T), axis=1)[:, -1], 1, atol=1e-8)


def test_subspaces_are_chains_of_pairs_that_are_not_distinguished():
    apart = np.ones((4, 4), bool)
    assert connected(~apart) == [[0], [1], [2], [3]]
    for i, j in ((0, 2), (2, 3)):
        apart[i, j] = apart[j, i] = False
    assert connected(~apart) == [[0, 2, 3], [1]]


def test_what_is_selected_does_not_depend_on_the_test(parts, short_search):
    """Starts and gates look at other rows than p-values."""
    _, straight = parts("paper")
    noise = np.random.default_rng(0).standard_normal(straight.test.value.shape)
    spoiled = straight._replace(test=replace(straight.test, value=3 * noise))
    (found, form), (other, same) = (
        fit_mechanism_form(given, [], CPU) for given in (straight, spoiled)
    )
    np.testing.assert_array_equal(form.first, same.first)
    assert found.facts == other.facts
    assert (len(found.identified), other.identified) == (5, [])
    assert sparse_change(straight).facts == sparse_change(spoiled).facts


def test_the_seed_drives_all_that_is_drawn(parts, monkeypatch):
    """Few rows, short searches and no gates: so the draws show in the answer."""
    for name, value in (("RESTARTS", 2), ("SEARCH_STEPS", 3), ("FINAL_STEPS", 3)):
        monkeypatch.setattr(form_module, name, value)
    for name in ("MIN_NONLINEARITY", "MIN_SHARE"):
        monkeypatch.setattr(form_module, name, -np.inf)
    monkeypatch.setattr("mechtrace.identifiability.residual_evidence.COMPARED", 200)
    _, rows = parts("paper")

    def answers(seed):
        given = rows._replace(seed=seed)
        form = fit_mechanism_form(given, [], CPU)[1].rotation
        return non_gaussian_noise(given).rotation, sparse_change(given).rotation, form

    first, again, other = answers(0), answers(0), answers(1)
    for a, b, c in zip(first, again, other, strict=True):
        np.testing.assert_array_equal(a, b)
        assert not np.array_equal(a, c)


def test_a_turn_is_a_rotation_of_one_plane():
    matrix = givens_rotation(3, 0, 2, 0.3)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(3), atol=1e-12)
    np.testing.assert_array_equal(matrix[1], [0, 1, 0])


def test_bending_is_seen_and_a_flat_space_is_flat(parts):
    _, flat = parts("paper")
    assert curvature(flat) < 0.03
    spread = flat.fit.value.std()

    def bent(rows):
        def bend(z):
            return z + 0.1 * z * np.abs(z) / spread

        return replace(rows, value=bend(rows.value), history=bend(rows.history),
                       expected=bend(rows.expected))  # fmt: skip

    assert curvature(TransitionSplit(*map(bent, flat[:3]))) > 0.1


def test_average_effects_are_those_of_a_linear_system(parts):
    world, rows = parts("linear-gaussian")
    straight = rows.fit.mapped(ROTATED.T)
    truth = np.stack([world.mechanisms, np.broadcast_to(world.lagged[0], (4, 5, 5))], axis=1)
    wrong = truth + 0.05  # an expert that is off by a constant is put right
    off = straight.history[0].sum(axis=1, keepdims=True) * 0.05
    shifted = replace(straight, expected=straight.expected + off[:, None])
    weights, error = weights_of_effects(shifted, wrong)
    assert (np.abs(weights[:, 0] - truth[:, 0]) < 6 * error[:, 0]).all()
    assert error.max() < 0.2
