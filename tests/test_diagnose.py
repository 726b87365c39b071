"""Diagnosis: right size, power, places, and findings that a person can act on."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import mechtrace as mt
from mechtrace.diagnose import Diagnosis, Finding
from mechtrace.diagnose.bounds import theorem_bounds
from mechtrace.diagnose.geometry import closest_pair, separation, static_sigma_min
from mechtrace.diagnose.residual import convexity_test, paper_test
from mechtrace.errors import NotFitted
from mechtrace.oracle import oracle
from mechtrace.recover.reference import Reference
from mechtrace.worlds import EmergentEdge


def dependent_surprise(rng, series, steps):
    """Squared noise whose level drifts slowly: positive, skewed and dependent over time."""
    level = np.cumsum(rng.normal(0, 0.1, (series, steps)), axis=1)
    return (
        rng.chisquare(8, (series, steps))
        / 8
        * np.exp(0.3 * (level - level.mean(1, keepdims=True)))
    )


def test_size_holds_under_dependence():
    """500 valid recordings: 3-7 % false alarms at the 5 % level."""
    rng = np.random.default_rng(0)
    pure = dependent_surprise(rng, 400, 50)
    p = [
        convexity_test(row, pure, seed=i).p_value
        for i, row in enumerate(dependent_surprise(rng, 500, 50))
    ]
    assert 0.03 <= np.mean(np.array(p) <= 0.05) <= 0.07


def test_a_local_excess_is_found_and_located():
    rng = np.random.default_rng(1)
    pure = dependent_surprise(rng, 300, 60)
    hits, located = 0, 0
    for row in dependent_surprise(rng, 50, 60):
        row[30:42] *= 2.5
        test = convexity_test(row, pure)
        hits += test.p_value < 0.05
        located += 22 <= test.peak <= 42
        assert test.excess > 1
    assert hits >= 45
    assert located >= 45


def test_pooled_recordings_are_compared_with_pooled_ones():
    rng = np.random.default_rng(2)
    pure = dependent_surprise(rng, 300, 40)
    p = [convexity_test(dependent_surprise(rng, 10, 40).mean(axis=0), pure, trials=10).p_value
         for _ in range(40)]  # fmt: skip
    assert np.mean(np.array(p) < 0.05) < 0.2


def test_missing_steps_and_short_recordings():
    rng = np.random.default_rng(3)
    pure = dependent_surprise(rng, 50, 30)
    row = dependent_surprise(rng, 1, 30)[0]
    row[[0, 1, 7]] = np.nan
    test = convexity_test(row, pure)
    assert 0 < test.p_value <= 1
    assert not test.unusual[[0, 1, 7]].any()
    assert 0 < convexity_test(row[2:4], pure).p_value <= 1


def test_the_papers_test_is_there_for_comparison():
    rng = np.random.default_rng(4)
    same = paper_test(rng.random(200), rng.random((10, 50)))
    other = paper_test(rng.random(200) + 0.5, rng.random((10, 50)))
    assert same > 0.01 > other


def oracle_reference(world):
    pure = world.simulate(60, seed=9)
    return Reference.measure(
        pure.latents.astype(float),
        np.zeros(pure.latents.shape),
        pure.conditional_means(),
        pure.label,
    )


def test_reference_measures_the_truth():
    world = mt.worlds.make("paper-positive", regimes=3)
    reference = oracle_reference(world)
    assert np.allclose(np.sqrt(np.diagonal(reference.noise, axis1=1, axis2=2)), 0.1, rtol=0.08)
    pure = world.simulate(60, seed=9)
    for k in range(3):
        late = pure.latents[pure.label == k][:, 2:]
        assert np.allclose(reference.means[k], late.mean((0, 1)), atol=1e-5)
    assert np.nanmean(reference.surprise) == pytest.approx(1.0, abs=0.05)
    back = Reference.from_arrays(reference.arrays())
    assert np.array_equal(back.noise, reference.noise)
    assert Reference.from_arrays({}) is None


@pytest.mark.parametrize("emergent", [None, EmergentEdge(strength=0.8)])
def test_emergent_edges_raise_the_alarm_and_valid_transitions_do_not(emergent):
    """The paper's counter-example, with true latents and mechanisms."""
    world = mt.worlds.make("paper-positive", regimes=3)
    reference = oracle_reference(world)
    glide = world.transition("linear", active=[0, 1], series=60, seed=4, emergent=emergent)
    surprise = reference.surprise_of(glide.latents.astype(float), glide.conditional_means())
    p = np.array([convexity_test(row, reference.surprise).p_value for row in surprise])
    if emergent is None:
        assert (p <= 0.05).mean() <= 0.15
    else:
        assert (p <= 0.05).mean() >= 0.95


def test_geometry():
    means = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]])
    assert static_sigma_min(means) == pytest.approx(3.0)
    assert static_sigma_min(np.zeros((4, 2))) == 0.0  # more regimes than the basis can hold
    predictions = np.array([[0.0, 1.0], [0.0, 1.1], [2.0, 0.0]])
    distance = separation(predictions @ predictions.T)
    assert distance[0, 1] == pytest.approx(0.01)
    assert closest_pair(distance) == (0, 1)


def test_bounds_hold_for_algorithm1_on_simulated_data():
    """Theorem 2: the error of the pointwise estimator stays below its bound."""
    from mechtrace.recover.algorithm1 import static_weights

    rng = np.random.default_rng(5)
    means = 3 * rng.standard_normal((3, 5))
    truth = np.stack([np.linspace(1, 0, 80), np.linspace(0, 1, 80), np.zeros(80)], axis=1)
    z = truth @ means + 0.1 * rng.standard_normal((80, 5))
    found = static_weights(z, means, simplex=False)
    bounds = theorem_bounds(means, z, truth)
    worst = np.linalg.norm(z - truth @ means, axis=1) / bounds.sigma_min
    assert (np.linalg.norm((found - truth)[:, 1:], axis=1) <= worst + 1e-12).all()
    assert bounds.snr == pytest.approx(bounds.sigma_min / bounds.noise)
    assert ((found - truth) ** 2).sum(1).mean() <= bounds.pointwise**2
    assert theorem_bounds(means, z, truth, approximation=0.5).pointwise > bounds.pointwise


def test_a_diagnosis_speaks(trained, world):
    path = trained.recover(world.transition("simple", series=1, seed=2).panel)
    diagnosis = trained.diagnose(path)
    assert diagnosis.verdict in ("trust", "caution", "do not trust")
    assert {f.code for f in diagnosis.findings} >= {"separation", "convexity", "operating point"}
    frame = diagnosis.to_frame()
    assert list(frame.columns) == ["code", "level", "value", "threshold", "meaning", "next_step"]
    assert diagnosis.verdict in str(diagnosis)
    assert diagnosis.to_dict()["findings"][0]["code"] == "separation"


def test_another_operating_point_is_noticed(trained, world):
    path = trained.recover(world.transition("simple", series=1, seed=2).panel)
    shifted = dataclasses.replace(path, latent_mean=path.latent_mean + 100.0)
    assert trained.diagnose(shifted)["operating point"].level == "bad"
    assert trained.diagnose(shifted).verdict == "do not trust"


def test_duplicate_regimes_are_noticed(trained, world):
    path = trained.recover(world.transition("simple", series=1, seed=2).panel)
    same = path.information.copy()
    same[1] = same[0]
    same[:, 1] = same[:, 0]
    finding = trained.diagnose(dataclasses.replace(path, information=same))["separation"]
    assert finding.level == "bad"
    assert "'R0' and 'R1'" in finding.meaning
    assert "Merge" in finding.next_step


def test_the_verdict_is_that_of_the_worst_finding():
    def finding(level):
        return Finding("x", level, 1.0, 1.0, "meaning", "next")

    assert Diagnosis("a", (finding("good"),)).verdict == "trust"
    assert Diagnosis("a", (finding("good"), finding("caution"))).verdict == "caution"
    assert Diagnosis("a", (finding("bad"), finding("good"))).verdict == "do not trust"
    assert Diagnosis("a", ()).verdict == "trust"


def test_diagnosis_needs_a_finished_model(trained):
    bare = mt.Trace()
    with pytest.raises(NotFitted):
        bare.diagnose(None)


def test_oracle_is_good_and_pooling_helps():
    world = mt.worlds.make("paper-positive")
    glide = world.transition("simple", active=[0, 2, 4], series=40, seed=1)
    truth = glide.alpha[0][2:]

    def error(alpha):
        return np.abs(alpha[2:] - truth).mean()

    single = np.mean([error(alpha) for alpha in oracle(glide).alpha])
    pooled = error(oracle(glide, pool=True).alpha[0])
    assert pooled < 0.06 < single < 0.25
