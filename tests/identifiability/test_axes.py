"""Axes in use: coordinates, verdicts, storage, refitted experts; alpha(t) stays the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import mechtrace as mt
from mechtrace.errors import DataError
from mechtrace.identifiability import (
    MECHANISM_FORM,
    NON_GAUSSIAN_NOISE,
    REGIME_DEPENDENT_NOISE,
    SPARSE_CHANGE,
    Axes,
    Axis,
    Mechanisms,
)
from mechtrace.identifiability.aligned_model import AlignedModel, _copy_affine
from mechtrace.identifiability.rotation_test import random_rotations
from mechtrace.io.typed_json import decode, plain
from mechtrace.stage1.experts import AlignedExperts
from mechtrace.stage1.fit_record import AxesRecord, RefitRecord


@pytest.fixture(scope="module")
def aligned(trained):
    """The small model, with a map that is far from the identity."""
    rng = np.random.default_rng(0)
    verdicts = tuple(Axis(f"z{i}", (MECHANISM_FORM,), (f"z{i}",), 0.1, 1e-9) for i in range(4))
    shape = (3, 2, 4, 4)
    base = rng.uniform(0, 0.3, shape[1:])
    weights = np.broadcast_to(base, shape).copy()
    weights[1, 0, 2, 3] += 0.4
    mechanisms = Mechanisms(trained.regimes_, weights, error=np.full(shape, 0.01))
    matrix = random_rotations(2, 4, np.random.default_rng(1))[1] * [[1.0], [2.0], [0.5], [3.0]]
    return Axes(
        matrix, rng.normal(size=4), verdicts, weights=mechanisms, weights_from=MECHANISM_FORM
    )


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
    rotated = trained.mechanisms(panel)
    for k in range(3):
        mine, theirs = (np.linalg.eigvals(m.jacobian[k, 0]) for m in (plain, rotated))
        np.testing.assert_allclose(np.sort_complex(mine), np.sort_complex(theirs), atol=1e-6)
    assert rotated.latents == ("z0", "z1", "z2", "z3")
    with pytest.raises(DataError):
        trained.decode(u[..., :3])


def test_axes_survive_storage(trained, aligned, tmp_path, panel, monkeypatch):
    monkeypatch.setattr(trained, "axes_", aligned)
    axes = decode(AxesRecord, plain(aligned.facts()))
    monkeypatch.setattr(trained, "record_", replace(trained.record_, axes=axes))
    trained.save(tmp_path / "m.mechtrace")
    again = mt.load(tmp_path / "m.mechtrace")
    np.testing.assert_array_equal(np.stack(again.encode(panel)), np.stack(trained.encode(panel)))
    assert again.axes_.axes == aligned.axes
    assert again.axes_.verdict == aligned.verdict
    np.testing.assert_array_equal(again.weights_.jacobian, aligned.weights.jacobian)
    np.testing.assert_array_equal(again.weights_.error, aligned.weights.error)
    assert again.axes_.sentences() == aligned.sentences()


def test_axes_stored_under_their_older_names_are_read(aligned):
    facts = aligned.facts()
    older = {"rotation_loss": "cost", "subspace": "block"}
    evidence = {"kind": "x", "identified": 1, "cost": 0.2, "p_value": 0.5, "facts": {}}
    stored = {key: value for key, value in facts.items() if key != "curvature"} | {
        "axes": [{older.get(k, k): v for k, v in axis.items()} for axis in facts["axes"]],
        "evidence": [evidence],
        "bending": 0.25,
    }
    again = Axes.restored(stored, aligned.arrays(), aligned.weights.regimes)
    assert again.axes == aligned.axes
    assert again.curvature == 0.25
    assert again.evidence[0].rotation_loss == 0.2


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
        Axis(axis.name, subspace=block) if axis.name in block else axis for axis in aligned.axes
    )
    axes = replace(aligned, axes=hidden)
    assert not axes.changes()["named"].any()
    assert axes.sentences() == ["R1 changes effects of unidentified sources on z3"]
    assert "z1, z2 only up to rotation" in axes.verdict
    assert "do not interpret" in str(axes.axes[1])


def test_unaligned_axes_claim_nothing():
    axes = Axes.unaligned(3)
    assert axes.identified == ()
    assert "up to rotation only" in axes.verdict
    assert axes.changes().empty
    assert axes.to_frame()["identified"].tolist() == [False] * 3


def test_a_fit_without_alignment_keeps_the_networks_coordinates(panel, small):
    trace = mt.Trace(**small).fit(panel, progress=False)
    np.testing.assert_array_equal(trace.axes_.matrix, np.eye(4))
    assert trace.weights_ is None
    assert trace.axes_.identified == ()


def test_a_fit_says_what_it_found(trained):
    axes = trained.axes_
    assert len(axes.axes) == 4
    assert trained.record_.axes.verdict == axes.verdict
    assert axes.verdict in trained.card_
    assert {found.kind for found in axes.evidence} >= {
        NON_GAUSSIAN_NOISE,
        REGIME_DEPENDENT_NOISE,
        SPARSE_CHANGE,
    }
    assert np.isfinite(axes.curvature)
    assert trained.weights_.jacobian.shape == (3, 2, 4, 4)
    assert (trained.weights_.error >= 0).all()


def test_latents_that_carry_nothing_are_left_alone(panel, small, monkeypatch):
    used = np.array([0, 2, 3])
    monkeypatch.setattr("mechtrace.identifiability.aligner.used_latents", lambda *given: used)
    axes = mt.Trace(**small | {"align": True}).fit(panel, progress=False).axes_
    assert [axis.used for axis in axes.axes] == [True, True, True, False]
    assert str(axes.axes[3]) == "z3: carries no information"
    np.testing.assert_array_equal(axes.matrix[3], np.eye(4)[1])
    assert not axes.matrix[:3, 1].any()
    assert axes.weights.jacobian[..., :3, :3].all()
    assert not axes.weights.jacobian[..., 3].any()


def test_experts_taken_over_into_other_coordinates_expect_the_same(trained, aligned, panel):

    model = trained._in_float64()
    new = AlignedExperts(model.new_experts()).double()
    new.matrix.copy_(torch.from_numpy(aligned.matrix))
    new.offset.copy_(torch.from_numpy(aligned.offset))
    _copy_affine(new.inner, model.experts, aligned)
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
    trace = mt.Trace(**small | {"align": True}).fit(panel, progress=False)
    before = trace.recover(panel[:1]).alpha
    trace.refit_experts(panel, steps=0, progress=False)
    assert trace.record_.refit == RefitRecord(steps=0, gain=0.0)
    np.testing.assert_array_equal(trace.recover(panel[:1]).alpha, before)
    with torch.no_grad():
        trace.model_.experts.last.bias.add_(0.5)  # experts that leave something to gain
    trace.refit_experts(panel, steps=60, progress=False)
    assert trace.record_.refit.gain > 0.1
    trace.save(tmp_path / "m.mechtrace")
    again = mt.load(tmp_path / "m.mechtrace")
    np.testing.assert_array_equal(again.recover(panel[:1]).alpha, trace.recover(panel[:1]).alpha)
    assert np.isfinite(trace.mechanisms().jacobian).all()


def test_a_refit_needs_the_regimes_of_the_fit(trained, world):
    other = world.simulate(6).panel.select(["R0", "R1"])
    with pytest.raises(DataError, match="trained on R0, R1, R2"):
        trained.refit_experts(other)
