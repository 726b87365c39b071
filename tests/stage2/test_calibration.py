"""Calibration of trajectories by intervals whose regime is known."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mechtrace as mt
from mechtrace.errors import ConfigError, DataError
from mechtrace.stage2.calibration import (
    KnownInterval,
    calibrated,
    two_point,
    unmixing_map,
)
from mechtrace.stage2.trajectory import Trajectory

REGIMES = ("walk", "trot", "run")
TRUTH = np.concatenate(
    [np.tile(row, (10, 1)) for row in np.eye(3)] + [mt.worlds.make_schedule("simple", 30, 3)]
)
GLIDE = mt.worlds.make_schedule("simple", 21, 3)
seeds = st.integers(0, 2**31)
PURE = [("walk", 0, 9), ("trot", 10, 19), ("run", 20, 29)]


def curve(alpha, half=0.05, name="a", time=None):
    steps, regimes = alpha.shape
    return Trajectory(
        name=name,
        time=np.arange(steps) if time is None else time,
        regimes=REGIMES[:regimes],
        alpha=alpha,
        lower=np.clip(alpha - half, 0, 1),
        upper=np.clip(alpha + half, 0, 1),
        residual=np.ones(steps),
        flag=np.full(steps, ""),
        surprise=np.ones(steps),
        information=np.eye(regimes),
        latent_mean=np.zeros(2),
    )


def mixed(seed):
    rng = np.random.default_rng(seed)
    matrix = 0.7 * np.eye(3) + 0.3 * rng.dirichlet(np.ones(3), size=3).T
    return TRUTH @ matrix.T


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31))
def test_a_mixing_is_undone_by_pure_stretches(seed):
    path = curve(mixed(seed))
    for how in ("auto", "matrix"):
        got = path.calibrate(PURE, how=how)
        np.testing.assert_allclose(got.alpha, TRUTH, atol=1e-9)
        assert got.calibration == "matrix"
    assert path.calibration == ""
    assert got.name == path.name
    assert got.residual is path.residual


def test_two_points_undo_a_compression():
    found = 0.6 * TRUTH + 0.4 / 3
    got = curve(found).calibrate(PURE, how="two-point")
    np.testing.assert_allclose(got.alpha, TRUTH, atol=1e-9)
    assert got.calibration == "two-point"
    two = curve(found[:, [0, 2]] / found[:, [0, 2]].sum(1, keepdims=True))
    ends = two.calibrate([("walk", 0, 9), ({"trot": 1.0}, 20, 29)])
    np.testing.assert_allclose(ends.alpha[[0, 25]], [[1, 0], [0, 1]], atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from(["two-point", "matrix"]), st.booleans())
def test_the_interval_contains_the_curve_and_stays_on_the_simplex(seed, how, simplex):
    rng = np.random.default_rng(seed)
    found = 0.8 * mixed(seed) + 0.2 * rng.dirichlet(np.ones(3), len(TRUTH))
    got = curve(found, half=rng.uniform(0, 0.3)).calibrate(PURE, how=how, simplex=simplex)
    assert (got.lower <= got.alpha).all()
    assert (got.alpha <= got.upper).all()
    if simplex:
        np.testing.assert_allclose(got.alpha.sum(axis=1), 1, atol=1e-9)
        assert min(got.alpha.min(), got.lower.min()) >= 0
        assert got.upper.max() <= 1


def test_intervals_stretch_with_the_scale():
    alpha = np.column_stack([TRUTH[:, 0], 1 - TRUTH[:, 0]])
    path = curve(0.5 * alpha + 0.25, half=0.1)
    for how in ("two-point", "matrix"):
        got = path.calibrate([("walk", 0, 9), ("trot", 10, 29)], how=how, simplex=False)
        np.testing.assert_allclose(got.upper - got.lower, 0.4, atol=1e-9)


def test_a_curve_that_is_right_already_stays_as_it_is():
    path = curve(TRUTH)
    for how in ("two-point", "matrix"):
        got = path.calibrate(PURE, how=how)
        for part in ("alpha", "lower", "upper"):
            np.testing.assert_allclose(getattr(got, part), getattr(path, part), atol=1e-12)


def test_stretches_may_lie_in_different_recordings():
    found = mixed(3)
    paths = [curve(found[a:b], name=name) for a, b, name in
             [(0, 10, "w"), (10, 20, "t"), (20, 30, "r"), (30, 60, "new")]]  # fmt: skip
    known = [("walk", 0, 9, "w"), ("trot", 0, 9, "t"), KnownInterval("run", 0, 9, series="r")]
    got = calibrated(paths, known)
    np.testing.assert_allclose(got[3].alpha, TRUTH[30:], atol=1e-9)
    assert [path.name for path in got] == ["w", "t", "r", "new"]


def test_missing_steps_are_passed_over():
    found = mixed(4)
    found[[2, 40]] = np.nan
    got = curve(found).calibrate(PURE)
    known = np.isfinite(found).all(axis=1)
    np.testing.assert_allclose(got.alpha[known], TRUTH[known], atol=1e-9)
    assert np.isnan(got.alpha[[2, 40]]).all()


def test_dates_are_understood():
    time = np.datetime64("2024-05-01T10:00") + np.arange(60) * np.timedelta64(1, "m")
    known = [("walk", time[0], time[9]), ("trot", "2024-05-01T10:10", "2024-05-01T10:19"),
             ("run", "2024-05-01T10:20", "2024-05-01T10:29:30")]  # fmt: skip
    got = curve(mixed(5), time=time).calibrate(known)
    np.testing.assert_allclose(got.alpha, TRUTH, atol=1e-9)
    with pytest.raises(DataError, match="no interval of this recording"):
        curve(mixed(5), time=time).calibrate([("walk", "soon", "later")])


@pytest.mark.parametrize(
    ("known", "how", "message"),
    [
        ([("hop", 0, 9)], "auto", "no regime 'hop'; the regimes are walk, trot, run"),
        ([("walk", 70, 80), *PURE], "auto", "between 70 and 80; time runs from 0 to 59"),
        ([("walk", 0, 9, "b"), *PURE], "auto", "no series 'b'; there are a"),
        ([({"walk": 0.5}, 0, 9)], "auto", "0:9 do not sum to 1"),
        ([("walk", 0, 9)], "auto", "one known state does not determine a scale"),
        ([("walk", 0, 4), ("walk", 5, 9)], "auto", "one known state"),
        ([], "auto", "one known state"),
        (PURE[:2], "matrix", "no pure interval of run"),
        ([("run", 0, 9), ("walk", 20, 29)], "auto", "walk runs against"),
        ([("run", "x", 9), ("walk", 20, 29)], "auto", "give times such as 0"),
    ],
)
def test_what_cannot_be_used_is_refused(known, how, message):
    with pytest.raises(DataError, match=message):
        curve(TRUTH).calibrate(known, how=how)


def test_unknown_ways_are_refused():
    with pytest.raises(ConfigError, match="how = 'magic'"):
        curve(TRUTH).calibrate(PURE, how="magic")


def test_a_recovered_curve_is_calibrated(trained, world):
    schedule = np.repeat([[1.0, 0, 0], [0.5, 0.5, 0], [0, 0, 1.0]], [8, 4, 8], axis=0)
    run = world.transition(schedule, series=40, seed=3)
    path = trained.recover(run.panel, pool=True)
    known = [("R0", 2, 7), ("R2", 12, 19)]
    got = path.calibrate(known)
    free = path.calibrate(known, simplex=False).alpha
    assert free[2:8, 0].mean() == pytest.approx(1, abs=1e-9)
    assert free[12:20, 2].mean() == pytest.approx(1, abs=1e-9)
    assert str(trained.diagnose(got).verdict) == str(trained.diagnose(path).verdict)


def test_known_intervals_are_read_from_text():
    assert KnownInterval.parse("0:10=walk").shares(("walk", "run")).tolist() == [1, 0]
    stretch = KnownInterval.parse("day 1/a/-1.5:2e1=walk:0.25,run:0.75")
    assert (stretch.series, stretch.start, stretch.stop) == ("day 1/a", "-1.5", "2e1")
    assert stretch.weights == {"walk": 0.25, "run": 0.75}
    for bad in ("", "0:10", "0:10=", "=walk", "walk", "0=walk", ":=walk"):
        with pytest.raises(ConfigError, match=re.escape(f"{bad!r} is not FROM:TO=REGIME")):
            KnownInterval.parse(bad)
    with pytest.raises(ConfigError, match="no list of weights"):
        KnownInterval.parse("0:10=walk:half,run:0.5")


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_two_points_undo_an_affine_distortion(seed):
    rng = np.random.default_rng(seed)
    slope, shift = rng.uniform(0.2, 1.5, 3), rng.uniform(-0.3, 0.3, 3)
    found = slope * GLIDE + shift
    known = {0: GLIDE[0], 10: GLIDE[10], 20: GLIDE[20]}
    for simplex in (True, False):
        np.testing.assert_allclose(
            two_point(found, known, simplex=simplex), GLIDE, rtol=0, atol=1e-9
        )


def test_the_order_of_the_known_rows_does_not_matter_nor_is_the_input_changed():
    found = 0.5 * GLIDE + 0.1
    before = found.copy()
    forward = two_point(found, {0: GLIDE[0], 20: GLIDE[20], 10: GLIDE[10]})
    backward = two_point(found, {20: GLIDE[20], 10: GLIDE[10], 0: GLIDE[0]})
    np.testing.assert_array_equal(forward, backward)
    np.testing.assert_array_equal(found, before)


def test_more_known_rows_are_met_in_the_least_squares_sense():
    rng = np.random.default_rng(0)
    found = 0.6 * GLIDE + 0.1 + 0.02 * rng.standard_normal(GLIDE.shape)
    rows = range(0, 21, 2)
    got = two_point(found, {row: GLIDE[row] for row in rows}, simplex=False)
    for k in range(3):
        design = np.column_stack([found[::2, k], np.ones(11)])
        slope, shift = np.linalg.lstsq(design, GLIDE[::2, k], rcond=None)[0]
        np.testing.assert_allclose(got[:, k], slope * found[:, k] + shift, atol=1e-10)


def test_on_the_simplex_the_rows_are_weights():
    rng = np.random.default_rng(1)
    found = GLIDE + 0.3 * rng.standard_normal(GLIDE.shape)
    known = {0: GLIDE[0], 10: GLIDE[10], 20: GLIDE[20]}
    got = two_point(found, known)
    np.testing.assert_allclose(got.sum(axis=1), 1, atol=1e-12)
    assert got.min() >= 0
    assert two_point(found, known, simplex=False).min() < 0


def test_a_regime_that_is_constant_in_truth_and_answer_is_only_shifted():
    found = np.column_stack([GLIDE[:, :2], np.full(21, 0.2)])
    known = {0: [1.0, 0.0, 0.0], 10: [0.0, 1.0, 0.0]}
    got = two_point(found, known, simplex=False)
    np.testing.assert_allclose(got[:, 2], 0.0, atol=1e-12)
    np.testing.assert_allclose(got[:, :2], GLIDE[:, :2], atol=1e-12)


def test_a_regime_known_to_be_absent_at_both_ends_keeps_its_shape_between():
    """Its ends say nothing of its scale; a slope fitted to noise would flatten it."""
    found = GLIDE + np.array([0.0, 0.05, 0.0]) * np.linspace(1, 0.5, 21)[:, None]
    got = two_point(found, {0: GLIDE[0], 20: GLIDE[20]}, simplex=False)
    np.testing.assert_allclose(got[:, 1], found[:, 1] - 0.0375, atol=1e-12)


def test_known_rows_that_look_alike_are_refused():
    flat = np.full((21, 3), 1 / 3)
    with pytest.raises(DataError, match="regime 0"):
        two_point(flat, {0: GLIDE[0], 20: GLIDE[20]})


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_a_known_mixing_is_undone(seed):
    rng = np.random.default_rng(seed)
    matrix = 0.7 * np.eye(3) + 0.3 * rng.dirichlet(np.ones(3), size=3).T
    found = GLIDE @ matrix.T
    for simplex in (True, False):
        got = unmixing_map(matrix).apply(found, simplex=simplex)
        np.testing.assert_allclose(got, GLIDE, atol=1e-9)


def test_columns_of_the_mixing_matrix_are_means_of_the_pure_rows():
    path = curve(np.array([[1.0, 0.0], [0.8, 0.2], [0.2, 0.8], [0.4, 0.6]]))
    (got,) = calibrated([path], [("walk", 0, 1), ("trot", 2, 3)], how="matrix", simplex=False)
    inverse = np.linalg.inv([[0.9, 0.3], [0.1, 0.7]])
    np.testing.assert_allclose(got.alpha, path.alpha @ inverse.T)


def test_unmixing_needs_no_symmetry():
    matrix = np.array([[0.9, 0.3], [0.1, 0.7]])
    got = unmixing_map(matrix).apply(np.array([[0.9, 0.1], [0.3, 0.7]]), simplex=True)
    np.testing.assert_allclose(got, np.eye(2), atol=1e-12)


@pytest.mark.parametrize(
    "matrix",
    [
        np.array([[0.5, 0.5], [0.5, 0.5]]),
        np.array([[0.5, 0.5 + 1e-8], [0.5, 0.5 - 1e-8]]),
        np.array([[1.0, 0.2, 0.2], [0.0, 0.4, 0.4], [0.0, 0.4, 0.4]]),
    ],
)
def test_endpoints_that_coincide_are_refused(matrix):
    with pytest.raises(DataError, match="merge"):
        unmixing_map(matrix)
