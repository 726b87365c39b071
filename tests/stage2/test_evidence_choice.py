"""Blocks, known stretches and bias as a user of Trace.recover and stream meets them."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from mechtrace.errors import ConfigError, DataError
from mechtrace.stage1.encoding import predict
from mechtrace.stage1.experts import stack_history
from mechtrace.stage2.corrections import BasisCorrection
from mechtrace.stage2.model_selection import Selection


@pytest.fixture(scope="module")
def glide(world):
    return world.transition("simple", series=3, length=40, seed=6).panel


@pytest.fixture(scope="module")
def with_two_models(trained):
    """The same model, told to use two observation models, one of them two steps ahead."""
    statistics = trained.statistics_
    both = ("prediction(2)", "static")
    further = replace(statistics.models["prediction(1)"], name=both[0])
    other = copy.copy(trained)
    other.statistics_ = replace(
        statistics,
        selection=Selection(both, both, {}),
        models=statistics.models | {both[0]: further},
        offsets=statistics.offsets
        | dict.fromkeys([both[0], " + ".join(both)], BasisCorrection.none(3)),
    )
    return other


def test_evidence_can_be_named(trained, glide):
    usual = trained.recover(glide)
    named = trained.recover(glide, evidence="channels")
    static = trained.recover(glide, evidence=["static"])
    for one, same, other in zip(usual, named, static, strict=True):
        np.testing.assert_array_equal(one.alpha, same.alpha)
        assert np.abs(one.alpha - other.alpha).max() > 0.01
        assert not one.by_evidence  # a single one needs no comparison


def test_former_names_of_options_and_evidence_mean_the_same(trained, glide, caplog):
    former = {
        "blocks": ("conditional(1)", {"evidence": "prediction(1)"}),
        "bias": (True, {"estimate_offset": True}),
        "known": ([("R0", 0, 5)], {"anchor": [("R0", 0, 5)]}),
    }
    for old, (value, new) in former.items():
        with caplog.at_level("INFO", "mechtrace"):
            before = trained.recover(glide[:1], **{old: value})
        (name,) = new
        assert f"recover({old}=...) is now recover({name}=...)" in caplog.text
        np.testing.assert_array_equal(before.alpha, trained.recover(glide[:1], **new).alpha)
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        trained.recover(glide, colour="red")


def test_evidence_that_was_not_measured_is_refused(trained, glide):
    with pytest.raises(ConfigError, match="was not measured when this model was fitted"):
        trained.recover(glide, evidence="window_moments(500)")
    with pytest.raises(ConfigError, match="not a kind of evidence"):
        trained.recover(glide, evidence="everything")


def test_each_observation_model_shows_its_own_curve(with_two_models, trained, glide):
    path = with_two_models.recover(glide)[0]
    assert list(path.by_evidence) == ["prediction(2)", "static"]
    alone = trained.recover(glide, evidence="static")[0]
    np.testing.assert_allclose(path.by_evidence["static"].alpha, alone.alpha, atol=1e-9)
    np.testing.assert_allclose(path.by_evidence["static"].upper, alone.upper, atol=1e-9)


def test_contradicting_models_are_flagged(with_two_models, glide):
    statistics = with_two_models.statistics_
    sure = {}
    for name, block in statistics.models.items():
        shuffled = block.means[[1, 2, 0]] if name == "static" else block.means
        sure[name] = replace(block, means=shuffled, noise=block.noise * 1e-6)
    liar = copy.copy(with_two_models)
    none = {name: BasisCorrection.none(3) for name in statistics.offsets}
    liar.statistics_ = replace(statistics, models=sure, offsets=none)
    path = liar.recover(glide, pool=True)
    calm = replace(statistics, offsets=none)
    assert {"disagree", "unexplained"} & set(path.flag.tolist())
    with_two_models.statistics_ = calm
    try:
        assert "disagree" not in with_two_models.recover(glide)[0].flag
    finally:
        with_two_models.statistics_ = statistics


def test_two_models_stream_as_they_recover(with_two_models, glide):
    one = glide[:1]
    batch = with_two_models.recover(one, causal=True)
    stream = with_two_models.stream()
    rows = [stream.update(row) for row in one.values]
    for name in ("alpha", "lower", "upper"):
        together = np.stack([getattr(row, name) for row in rows])
        np.testing.assert_allclose(together, getattr(batch, name), atol=1e-9)


@torch.no_grad()
def test_a_horizon_follows_each_expert(trained):
    model = copy.deepcopy(trained.model_).double()
    z = np.random.default_rng(0).standard_normal((9, 4))
    z_, steps_ = z[:, None], np.arange(9)[:, None]
    found = predict(model, z_, steps_, horizon=3)[:, 0]
    assert np.isnan(found[:4]).all()
    assert np.isfinite(found[4:]).all()
    past = [torch.from_numpy(z[5]), torch.from_numpy(z[6])]  # the rows three and four before
    for k in range(3):
        steps = list(past)
        for _ in range(3):
            history = stack_history(torch.stack([*steps[-2:], steps[-1]])[None], 2)[:, 0]
            steps.append(model.experts.conditional_mean(history)[k, 0])
        np.testing.assert_allclose(
            predict(model, z_, steps_, horizon=2)[8, 0, k], steps[3], atol=1e-12
        )


# --- known stretches and bias -----------------------------------------------------------------


def test_a_known_stretch_changes_the_answer(trained, glide):
    before = trained.recover(glide)
    after = trained.recover(glide, anchor=[("R0", 0, 12)])
    for one, other in zip(before, after, strict=True):
        assert np.abs(other.alpha - one.alpha).max() > 0.01
        np.testing.assert_allclose(other.alpha.sum(axis=1), 1, atol=1e-9)


def test_a_bias_is_looked_for(trained, glide):
    for path in trained.recover(glide, estimate_offset=True):
        np.testing.assert_allclose(path.alpha.sum(axis=1), 1, atol=1e-9)
        assert (path.lower <= path.alpha).all()


@pytest.mark.parametrize(
    ("request_", "error", "words"),
    [
        ({"known": [("walk", 0, 5)]}, DataError, "there is no regime 'walk'"),
        (
            {"known": [("R0", 0, 5)], "active": ["R1", "R2"]},
            ConfigError,
            "not among the active regimes",
        ),
        ({"known": [("R0", 900, 950)]}, DataError, "no row lies between 900 and 950"),
        ({"known": [("R0", 0, 5)], "pool": True}, ConfigError, "not a pool"),
        ({"bias": True, "causal": True}, ConfigError, "no causal answer"),
    ],
)
def test_what_makes_no_sense_is_refused(trained, glide, request_, error, words):
    with pytest.raises(error, match=words):
        trained.recover(glide, **request_)


def test_rows_that_the_encoder_is_unsure_of_count_less(trained, glide):
    statistics = trained.statistics_
    narrow = copy.copy(trained)
    narrow.statistics_ = replace(statistics, width=np.zeros_like(statistics.width))
    usual, unsure = (
        model.recover(glide, simplex=False, evidence="prediction(1)")[0]
        for model in (trained, narrow)
    )
    assert (unsure.upper - unsure.lower).mean() > (usual.upper - usual.lower).mean()
