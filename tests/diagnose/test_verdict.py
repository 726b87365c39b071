"""Diagnosis: right size, power, places, and findings that a person can act on."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mechtrace as mt
from mechtrace.diagnose import Diagnosis, Finding, diagnose
from mechtrace.diagnose.bounds import (
    approximation_error,
    pointwise_bounds,
    smooth_bound,
    theorem_bounds,
)
from mechtrace.diagnose.dependence import dependence
from mechtrace.diagnose.geometry import (
    active_regimes,
    closest_pair,
    clusters,
    separation,
    static_sigma_min,
    step_scatter,
    weight_deviation,
    worst_deviation,
)
from mechtrace.diagnose.judge import HARDLY, SEPARATED
from mechtrace.diagnose.resample import PureSeries
from mechtrace.diagnose.residual import DRAWS, convexity, level_test, paper_test
from mechtrace.diagnose.shape import backtracking, crossing, longest_monotone, shape_kept
from mechtrace.errors import NotFitted
from mechtrace.oracle import oracle
from mechtrace.recover.algorithm1 import static_weights
from mechtrace.recover.innovations import Innovations, Observed
from mechtrace.recover.reference import Reference
from mechtrace.recover.trajectory import Curve
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
        level_test(row, pure, seed=i).p_value
        for i, row in enumerate(dependent_surprise(rng, 500, 50))
    ]
    assert 0.03 <= np.mean(np.array(p) <= 0.05) <= 0.07


def test_a_local_excess_is_found_and_located():
    rng = np.random.default_rng(1)
    pure = dependent_surprise(rng, 300, 60)
    hits, located = 0, 0
    for row in dependent_surprise(rng, 50, 60):
        row[30:42] *= 2.5
        test = level_test(row, pure)
        hits += test.p_value < 0.05
        located += 22 <= test.peak <= 42
        assert test.excess > 1
    assert hits >= 45
    assert located >= 45


def test_pooled_recordings_are_compared_with_pooled_ones():
    rng = np.random.default_rng(2)
    pure = dependent_surprise(rng, 300, 40)
    p = [level_test(dependent_surprise(rng, 10, 40).mean(axis=0), pure, trials=10).p_value
         for _ in range(40)]  # fmt: skip
    assert np.mean(np.array(p) < 0.05) < 0.2


def test_missing_steps_and_short_recordings():
    rng = np.random.default_rng(3)
    pure = dependent_surprise(rng, 50, 30)
    row = dependent_surprise(rng, 1, 30)[0]
    row[[0, 1, 7]] = np.nan
    test = level_test(row, pure)
    assert 0 < test.p_value <= 1
    assert not test.unusual[[0, 1, 7]].any()
    assert 0 < level_test(row[2:4], pure).p_value <= 1


def of_groups(rng, groups, each, steps=40, apart=0.5):
    """Surprises of series whose groups differ by factors, and whose they are."""
    group = np.repeat(np.arange(groups), each)
    factor = np.exp(apart * rng.standard_normal(groups))[group]
    return dependent_surprise(rng, groups * each, steps) * factor[:, None], group


def alarms(rng, groups, *, told, factor=1.0, recordings=150):
    """Share of recordings of other groups that the level calls odd at 5 %."""
    p = []
    for _ in range(recordings):
        pure, group = of_groups(rng, groups, each=6)
        (row,), _ = of_groups(rng, 1, each=1)
        p.append(level_test(factor * row, pure, group if told else None).p_value)
    return np.mean(np.array(p) <= 0.05)


@pytest.mark.parametrize("groups", [2, 3, 6])
def test_another_group_is_not_odd_by_itself(groups):
    """Size holds where groups differ, even if few are known."""
    assert alarms(np.random.default_rng(groups), groups, told=True) <= 0.09


def test_who_is_not_told_of_groups_raises_alarms():
    assert alarms(np.random.default_rng(2), 2, told=False) >= 0.2


def test_what_no_group_does_is_odd_all_the_same():
    rng = np.random.default_rng(0)
    assert alarms(rng, 6, told=True, factor=10.0) >= 0.8


def test_groups_of_one_kind_cost_next_to_nothing():
    """Groups that do not differ leave the level where it was."""
    rng = np.random.default_rng(1)
    pure, group = of_groups(rng, 8, each=10, apart=0.0)
    row = 2.0 * dependent_surprise(rng, 1, 40)[0]
    assert level_test(row, pure, group).p_value < 0.05


def test_more_groups_than_made_up_recordings():
    """Not every group has its turn then, and that is no reason for an alarm."""
    rng = np.random.default_rng(3)
    pure, group = of_groups(rng, DRAWS + 200, each=1, apart=0.0)
    found = [level_test(row, pure, group) for row in dependent_surprise(rng, 60, 40)]
    assert np.mean([test.p_value <= 0.05 for test in found]) <= 0.15
    assert found[0].groups == DRAWS + 200


def test_made_up_recordings_are_of_one_group():
    lengths, group = np.array([9, 8, 0, 7, 9]), np.array([4, 4, 4, 6, 6])
    series = PureSeries(lengths, group)
    assert series.groups == 2
    wanted = np.arange(50)
    for place, which, rows in series.stretches(20, wanted, np.random.default_rng(0)):
        assert np.array_equal(group[which], np.where(wanted % 2, 6, 4))
        assert rows.shape == (50, place.stop - place.start)
        assert (rows < lengths[which][:, None]).all()
    assert PureSeries(lengths, np.empty(0)).groups == 0


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


def judged(reference, glide, trials=1):
    """The whole test on true latents and mechanisms, one by one or pooled."""
    z, m = glide.latents.astype(float), glide.conditional_means()
    out = []
    for g in range(0, len(z), trials):
        part, every = slice(g, g + trials), np.eye(m.shape[2])
        surprise = reference.surprise_of(z[part], m[part]).mean(axis=0)
        observed = Observed(z[part], m[part], np.ones(z.shape[1]), every)
        out.append(convexity(surprise, observed, reference, trials=trials))
    return out


@pytest.fixture(scope="module")
def gaussian():
    """The paper's world of three regimes, and what is known of its pure runs."""
    world = mt.worlds.make("paper", regimes=3)
    return world, oracle_reference(world)


@pytest.mark.parametrize("schedule", ["simple", "medium", "complex", "step"])
def test_valid_transitions_raise_few_alarms(gaussian, schedule):
    world, reference = gaussian
    tests = judged(reference, world.transition(schedule, series=100, seed=4))
    alarms = np.mean([test.p_value <= 0.05 for test in tests])
    assert alarms <= 0.12  # 0.05 and three of its standard errors at 100


def test_emergent_edges_raise_the_alarm_and_are_located():
    """The paper's counter-example, with true latents and mechanisms, one recording of 50 steps."""
    world = mt.worlds.make("paper-positive", regimes=3)
    glide = world.transition("simple", series=60, seed=4, emergent=EmergentEdge())
    tests = judged(oracle_reference(world), glide)
    assert np.mean([test.p_value <= 0.05 for test in tests]) >= 0.95
    true = glide.emergent.active(glide.alpha[0])
    for test in tests:
        flagged = [true[a : b + 1] for a, b in test.stretches()]
        assert not flagged or np.concatenate(flagged).any()


def test_five_trials_are_enough_in_the_gaussian_world(gaussian):
    world, reference = gaussian
    broken = world.transition("simple", series=50, seed=4, emergent=EmergentEdge())
    assert all(test.p_value <= 0.05 for test in judged(reference, broken, trials=5))
    valid = judged(reference, world.transition("simple", series=100, seed=4), trials=5)
    assert np.mean([test.p_value <= 0.05 for test in valid]) <= 0.15


def test_dependence_sees_more_than_the_level_alone(gaussian):
    world, reference = gaussian
    glide = world.transition("simple", series=100, seed=4, emergent=EmergentEdge())
    tests = judged(reference, glide)
    by_history = np.mean([test.dependence.p_value <= 0.05 for test in tests])
    by_level = np.mean([test.level.p_value <= 0.05 for test in tests])
    assert by_history > by_level + 0.1


def test_dependence_does_not_depend_on_the_axes():
    """Any linear map of the latents leaves the test as it is."""
    world = mt.worlds.make("paper", regimes=3)
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((8, 8)))[0] @ np.diag(
        np.arange(1.0, 9.0)
    )
    pure, glide = world.simulate(20, seed=9), world.transition("simple", series=1, seed=4)
    found = []
    for linear in (np.eye(8), turn):
        z, m = pure.latents @ linear, pure.conditional_means() @ linear
        reference = Reference.measure(z, np.zeros(z.shape), m, pure.label)
        observed = Observed(
            glide.latents @ linear, glide.conditional_means() @ linear, np.ones(50), np.eye(3)
        )
        found.append(dependence(observed.innovations(reference.precision), reference).strength)
    assert found[0] == pytest.approx(found[1], abs=2e-2)


def test_innovations_are_white_if_the_model_holds():
    world = mt.worlds.make("paper", regimes=3)
    glide = world.transition("simple", series=300, seed=4)
    precision = np.diag(1 / world.scales[0] ** 2)
    found = Innovations.of(
        glide.latents.astype(float)[:, None], glide.conditional_means()[:, None], precision
    )
    error = found.error[:, 2:]
    assert np.isnan(found.error[:, :2]).all()
    covariance = np.einsum("sti,stj->ij", error, error) / error[..., 0].size
    # the generous drift expects a little more error than there is, never less
    assert np.allclose(covariance, np.eye(8), atol=0.1)
    assert np.linalg.eigvalsh(covariance).max() < 1.05
    assert abs((error[:, 1:] * error[:, :-1]).mean()) < 0.03


def test_long_recordings_are_judged_in_blocks(gaussian):
    world, reference = gaussian
    tests = judged(reference, world.transition("simple", series=6, length=500, seed=4))
    p = np.array([test.dependence.p_value for test in tests])
    assert (p <= 0.05).sum() <= 2
    assert len(np.unique(p)) > 3


def test_geometry():
    means = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]])
    assert static_sigma_min(means) == pytest.approx(3.0)
    assert static_sigma_min(np.zeros((4, 2))) == 0.0  # more regimes than the basis can hold
    predictions = np.array([[0.0, 1.0], [0.0, 1.1], [2.0, 0.0]])
    distance = separation(predictions @ predictions.T)
    assert distance[0, 1] == pytest.approx(0.01)
    assert closest_pair(distance) == (0, 1)


def test_geometry_of_the_active_subset():
    means = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    assert static_sigma_min(means[[0, 1, 2]]) > static_sigma_min(means)
    alpha = np.tile([0.8, 0.15, 0.05, 0.0], (10, 1))
    assert active_regimes(alpha) == [0, 1]
    assert active_regimes(np.full((4, 3), np.nan)) == [0, 1, 2]
    assert active_regimes(np.eye(2)[[0, 0]]) == [0, 1]  # never fewer than two


@given(st.integers(2, 5), st.integers(0, 1000))
def test_worst_deviation_is_that_of_a_constant_alpha(kinds, seed):
    """Least squares on the plane: no direction is seen worse than the figure says."""
    rng = np.random.default_rng(seed)
    predictions = rng.standard_normal((kinds, 12))
    information = predictions @ predictions.T
    value = worst_deviation(information)
    for _ in range(5):
        direction = rng.standard_normal(kinds)
        direction -= direction.mean()
        direction /= np.linalg.norm(direction)
        assert 1 / np.sqrt(direction @ information @ direction) <= value * (1 + 1e-9)
    duplicate = np.concatenate([predictions, predictions[:1]])
    assert worst_deviation(duplicate @ duplicate.T) > 1e5


@pytest.mark.parametrize("kinds", [2, 4])
def test_weight_deviation_is_that_of_the_pseudoinverse(kinds):
    rng = np.random.default_rng(kinds)
    means, root = rng.normal(size=(kinds, 5)), rng.normal(size=(5, 5))
    states = means[1] + rng.normal(size=(40_000, 5)) @ root.T
    found = static_weights(states, means, simplex=False).std(axis=0).max()
    assert weight_deviation(means, root @ root.T) == pytest.approx(found, rel=0.03)
    # twice the distance, half the error; means on one point, or too many of them: no answer
    assert weight_deviation(2 * means, root @ root.T) == pytest.approx(found / 2, rel=0.03)
    assert weight_deviation(np.ones((2, 5)), np.eye(5)) == 1e6
    assert weight_deviation(rng.normal(size=(7, 5)), np.eye(5)) == 1e6


@pytest.mark.parametrize("trials", [1, 10])
@pytest.mark.parametrize("name", ["paper", "paper-positive"])
def test_the_error_of_the_constant_basis_is_foreseen(name, trials):
    """On fresh pure series, one by one and averaged: what Algorithm 1 gives the wrong regime."""
    world = mt.worlds.make(name, regimes=2, seed=1)
    reference = oracle_reference(world)
    off = weight_deviation(reference.means, step_scatter(reference, trials))
    foreseen = np.clip(np.random.default_rng(0).normal(0, off, 100_000), 0, 1).mean()
    pure = world.simulate(100, seed=3)
    wrong = []
    for k in (0, 1):
        states = pure.latents[pure.label == k][:, 2:].astype(float)
        states = states.reshape(-1, trials, *states.shape[1:]).mean(axis=1)
        wrong.append(1 - static_weights(states, reference.means)[..., k].mean())
    assert np.mean(wrong) == pytest.approx(foreseen, abs=0.06)


def test_single_recordings_of_the_papers_world_have_no_constant_basis(gaussian):
    _, reference = gaussian
    apart = [1 / weight_deviation(reference.means, step_scatter(reference, n)) for n in (1, 200)]
    assert apart[0] < HARDLY
    assert apart[1] > SEPARATED


def as_algorithm1(path, reference, **changes):
    return diagnose(dataclasses.replace(path, method="algorithm1", **changes), reference)[
        "sigma_min"
    ]


def test_means_closer_than_states_scatter_are_reported(trained, world):
    path = trained.recover(world.transition("simple", series=1, seed=2).panel)
    reference = trained.reference_
    d = reference.means.shape[1]
    far = dataclasses.replace(
        reference, means=np.eye(3, d), spread=0.04 * np.eye(d), between=0.01 * np.eye(d)
    )
    assert as_algorithm1(path, far).level == "good"
    # the means are as far apart as before, and known as well, but single states are all over
    wide = dataclasses.replace(far, spread=4 * np.eye(d))
    finding = as_algorithm1(path, wide)
    assert finding.level == "bad"
    assert "0.6 standard deviations of a state" in finding.meaning
    assert "state-space" in finding.next_step
    assert finding.value < finding.threshold
    assert as_algorithm1(path, dataclasses.replace(far, spread=0.2 * np.eye(d))).level == "caution"
    assert diagnose(path, wide)["sigma_min"].level == "good"  # the default does not go by means
    # the mean of many trials scatters less, which is no help if the means are not known
    assert as_algorithm1(path, wide, trials=200).level == "good"
    vague = dataclasses.replace(wide, between=4 * np.eye(d))
    assert as_algorithm1(path, vague, trials=200).level != "good"
    same = dataclasses.replace(far, means=np.ones((3, d)))
    finding = as_algorithm1(path, same)
    assert finding.level == "bad"
    assert "no step tells them apart" in finding.meaning
    assert 0 < finding.threshold < np.inf


def test_clusters_reach_through_neighbours():
    alike = np.eye(5, dtype=bool)
    alike[0, 1] = alike[1, 0] = alike[1, 3] = alike[3, 1] = True
    assert clusters(alike) == [[0, 1, 3]]
    assert clusters(np.eye(3, dtype=bool)) == []


def test_smooth_bound_is_the_printed_expression():
    value = smooth_bound(steps=100, free=8, sigma_min=0.5, sigma=4.0, variation=2.0)
    assert value == pytest.approx((2 / 100) ** (2 / 3) * 4 ** (2 / 3) * 2 / 0.5 ** (2 / 3))
    more = smooth_bound(100, 8, 0.5, 4.0, 2.0, approximation=0.1)
    assert more - value == pytest.approx(0.04)
    assert smooth_bound(100, 8, 0.0, 4.0, 2.0) == np.inf


def test_approximation_error_is_the_distance_from_the_line():
    means = np.array([[0.0, 0.0], [1.0, 0.0]])
    alpha = np.array([[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]])
    bent = alpha @ means + np.array([[0.0, 0.1], [0.0, 0.3], [0.0, 0.1]])
    assert approximation_error(means, bent, alpha) == pytest.approx(0.3)


@given(st.integers(0, 10_000))
def test_theorem_2_holds_at_every_step(seed):
    rng = np.random.default_rng(seed)
    means = rng.standard_normal((3, 5))
    alpha = rng.dirichlet(np.ones(3), size=20)
    mixed = alpha @ means + 0.2 * rng.standard_normal((20, 5))
    z = mixed + rng.standard_normal((20, 5))
    error = np.linalg.norm((static_weights(z, means, simplex=False) - alpha)[:, 1:], axis=1)
    assert (error <= pointwise_bounds(means, z, mixed, alpha) * (1 + 1e-9)).all()


def test_shape():
    truth = np.linspace(0, 1, 41)
    late = np.clip(truth - 0.05, 0, 1)
    kept = shape_kept(truth, late)
    assert kept.ordered == 1.0
    assert kept.shift == pytest.approx(2.0)
    assert kept.missed == 0.0
    assert shape_kept(truth, 0.5 * truth).missed == pytest.approx(1 / 3, abs=0.34)
    assert shape_kept(truth, truth[::-1]).ordered == 0.0
    assert np.isnan(crossing(np.zeros(5), 0.5))
    assert backtracking(truth) == 0.0
    assert backtracking(np.tile([0.0, 1.0], 20)) > 0.4
    assert longest_monotone(np.concatenate([truth[:10], truth[:30]])) == slice(10, 40)


def test_bounds_hold_for_algorithm1_on_simulated_data():
    """Theorem 2: the error of the pointwise estimator stays below its bound."""
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


def test_duplicate_regimes_are_noticed_and_named(trained, world):
    path = trained.recover(world.transition("simple", series=1, seed=2).panel)
    same = trained.reference_.gram.copy()
    same[1] = same[0]
    same[:, 1] = same[:, 0]
    reference = dataclasses.replace(trained.reference_, gram=same)
    finding = diagnose(path, reference)["mergeable regimes"]
    assert finding.level == "bad"
    assert "'R0' and 'R1'" in finding.meaning
    assert "Merge 'R0' and 'R1' and fit 2 regimes" in finding.next_step
    # a model without these figures is judged by the recording itself
    bare = dataclasses.replace(reference, gram=np.empty((0, 0)))
    assert diagnose(path, bare)["mergeable regimes"].level == "good"
    twice = path.information.copy()
    twice[2], twice[:, 2] = twice[0], twice[:, 0]
    twice[2, 2] = twice[0, 0]
    doubled = dataclasses.replace(path, information=twice)
    assert "'R0' and 'R2'" in diagnose(doubled, bare)["mergeable regimes"].meaning


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_short_recordings_have_a_diagnosis(trained, world, rows):
    panel = mt.Panel.from_arrays(
        world.transition("simple", series=1, seed=2).observations[:, :rows]
    )
    path = trained.recover(panel)
    diagnosis = trained.diagnose(path)
    if rows <= 2:  # no row with a full history
        assert diagnosis.verdict == "do not trust"
        assert diagnosis["evidence"].next_step
    else:
        assert diagnosis["convexity"].value > 0.01


def test_a_recording_of_nothing_is_not_trusted(trained, world):
    values = world.transition("simple", series=1, seed=2).observations.copy()
    values[:, ::2] = np.nan
    path = trained.recover(mt.Panel.from_arrays(values, missing="gap"))
    assert [f.code for f in trained.diagnose(path).findings] == ["evidence"]


def test_two_regimes_and_pools_and_older_models(trained, world):
    glide = world.transition("simple", series=4, seed=2).panel
    two = trained.recover(glide, pool=True, active=["R0", "R2"])
    assert trained.diagnose(two)["separation"].value > 0
    older = dataclasses.replace(
        trained.reference_, pure_error=np.empty((0, 0, 0)), pure_past=np.empty((0, 0, 0))
    )
    found = diagnose(two, older)
    assert 0 < found["convexity"].value <= 1
    assert "A6 noise" not in [finding.code for finding in found.findings]


def test_findings_are_complete(trained, world):
    """Whatever is wrong comes with a meaning and a next step, and JSON can hold it all."""
    glide = world.transition("linear", active=[0, 2], series=1, seed=2, emergent=EmergentEdge(
        source=0, target=1, strength=3.0, regime=2))  # fmt: skip
    diagnosis = trained.diagnose(trained.recover(glide.panel))
    for finding in diagnosis.findings:
        assert finding.meaning
        assert np.isfinite([finding.value, finding.threshold]).all()
        assert finding.level == "good" or finding.next_step
    json.dumps(diagnosis.to_dict(), allow_nan=False)
    assert [f.level for f in diagnosis.by_weight()] == sorted(
        (f.level for f in diagnosis.findings), key=["bad", "caution", "good"].index
    )


def test_unexplained_stretches_are_named_in_the_users_time(trained, world):
    path = trained.recover(world.transition("simple", series=1, seed=2).panel)
    loud = path.surprise.copy()
    loud[10:16] = 50.0
    odd = dataclasses.replace(path, surprise=loud, time=path.time + 1000.0, observed=None)
    finding = trained.diagnose(odd)["convexity"]
    assert finding.level == "bad"
    assert "none of the known mechanisms" in finding.meaning
    assert "10" in finding.meaning.split("from ")[1]


def test_one_held_out_group_raises_no_more_than_a_suspicion(trained, world):
    path = trained.recover(world.transition("simple", series=1, seed=2).panel)
    loud = path.surprise.copy()
    loud[10:16] = 50.0
    odd = dataclasses.replace(path, surprise=loud, observed=None)
    known = trained.reference_
    for groups, level in [(0, "bad"), (1, "caution")]:
        group = np.zeros(groups * len(known.surprise), int)
        told = dataclasses.replace(known, group=group)
        finding = diagnose(odd, told)["convexity"]
        assert finding.level == level
        assert ("another group" in finding.meaning) == (groups == 1)


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


def test_blocks_that_contradict_each_other_are_reported(trained, world):
    path = trained.recover(world.transition("simple", series=1, seed=4).panel)
    assert "agreement" not in {finding.code for finding in trained.diagnose(path).findings}
    both = {"conditional(1)": Curve(path.alpha, path.lower, path.upper)}
    calm = dataclasses.replace(path, blocks=both)
    assert trained.diagnose(calm)["agreement"].level == "good"
    flag = np.where(np.arange(len(path)) > 10, "disagree", path.flag)
    loud = trained.diagnose(dataclasses.replace(calm, flag=flag))["agreement"]
    assert loud.level == "bad"
    assert f"between {path.time[11]} and {path.time[-1]}" in loud.meaning
