"""Textbook methods, heuristics and our own method: each where it must work, and its refusals."""

from __future__ import annotations

import sys
from functools import cache

import numpy as np
import pytest

import mechtrace as mt
from mechtrace.data.segments import find_runs
from mechtrace.errors import DataError, MissingDependency, NotFitted
from mechtrace_lab.baselines import METHODS, make
from mechtrace_lab.baselines.changepoints import change_points
from mechtrace_lab.baselines.emissions import Emissions
from mechtrace_lab.baselines.features import balanced_rows
from mechtrace_lab.baselines.hmm import sticky

TEXTBOOK = [
    "gaussian-hmm",
    "ar-hmm",
    "change-points",
    "logistic-regression",
    "gradient-boosting",
    "lda",
    "nearest-mean",
]
LABELLED_ONLY = [name for name in METHODS if make(name).traits.labels]
MEANS = np.array([[3.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 0.0, 3.0]])


def switching(path, seed, means=MEANS):
    """Rows around the mean of the regime of each step, with some memory."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(0, 0.7, (len(path), means.shape[1]))
    for t in range(1, len(path)):
        noise[t] += 0.3 * noise[t - 1]
    return means[path] + noise


def pure(series=12, lengths=(30, 40, 50), seed=0):
    """Pure recordings of unequal lengths of three well separated regimes."""
    regime = [k for k in range(3) for _ in range(series)]
    values = [switching([k] * lengths[i % len(lengths)], seed + i) for i, k in enumerate(regime)]
    return mt.Panel.from_arrays(values, regime=[f"R{k}" for k in regime])


def swinging(regimes=2, series=20, length=60, seed=0):
    """Regimes of equal mean that differ in their dynamics alone: slow, and back and forth."""
    rng = np.random.default_rng(seed)
    values, names = [], []
    for k in range(regimes):
        for _ in range(series):
            x = rng.normal(size=(length, 2))
            for t in range(1, length):
                x[t] = (0.9, -0.9)[k] * x[t - 1] + 0.3 * x[t]
            values.append(x)
            names.append(("slow", "fast")[k])
    return values, names


PATH = np.repeat([0, 2, 1], [20, 25, 15])


@pytest.fixture(scope="module")
def three():
    return pure()


@pytest.fixture(scope="module")
def fitted(three):
    return cache(lambda name: make(name, seed=1).fit(three))


@pytest.fixture(scope="module")
def switched():
    return mt.Panel.from_arrays([switching(PATH, 100 + i) for i in range(4)])


def check_curves(curves, panel, regimes):
    assert [c.shape for c in curves] == [(n, regimes) for n in panel.lengths]
    for curve in curves:
        known = np.isfinite(curve).all(axis=1)
        assert np.isnan(curve[~known]).all()
        np.testing.assert_allclose(curve[known].sum(axis=1), 1, atol=1e-9)
        assert (curve[known] >= 0).all()


def hits(curves, path):
    known = [np.isfinite(c).all(axis=1) for c in curves]
    return np.mean(
        [(c[k].argmax(axis=1) == path[k]).mean() for c, k in zip(curves, known, strict=True)]
    )


@pytest.mark.parametrize("name", TEXTBOOK)
def test_well_separated_regimes_are_told_apart(name, three, fitted, switched):
    with pytest.raises(NotFitted):
        make(name).weights(switched)
    method = fitted(name)
    curves = method.weights(switched)
    assert method.regimes_ == ("R0", "R1", "R2")
    assert method.encode(switched) is None
    check_curves(curves, switched, 3)
    assert hits(curves, PATH) > 0.93
    assert method.pooled(switched).shape == (len(PATH), 3)
    again = make(name, seed=1).fit(three).weights(switched)
    for one, other in zip(curves, again, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", [*TEXTBOOK, "straight-line"])
def test_gaps_and_missing_rows(name, fitted):
    values = switching(PATH, 7)
    values[10] = np.nan
    values[11:13, 1] = np.nan
    time = np.arange(len(PATH), dtype=float)
    time[30:] += 5
    holes = mt.Panel.from_arrays([values, values[:40]], time=[time, time[:40]], missing="gap")
    curves = fitted(name).weights(holes)
    check_curves(curves, holes, 3)
    lost = set(np.flatnonzero(np.isnan(curves[0]).any(axis=1)).tolist())
    looks_back = name in ("ar-hmm", "logistic-regression", "gradient-boosting", "lda")
    expected = {0, 1, 10, 11, 12, 13, 14, 30, 31} if looks_back else {10, 11, 12}
    assert lost == expected


@pytest.mark.parametrize("name", TEXTBOOK)
def test_nothing_crosses_a_gap(name, fitted):
    """A stretch after a gap gets the same answer as alone."""
    values = switching(PATH, 9)
    time = np.arange(len(PATH), dtype=float)
    time[30:] += 50
    both = mt.Panel.from_arrays([values], time=[time])
    alone = mt.Panel.from_arrays([values[30:]])
    method = fitted(name)
    found, expected = method.weights(both)[0][30:], method.weights(alone)[0]
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("name", LABELLED_ONLY)
def test_unlabelled_recordings_are_refused(name, switched):
    with pytest.raises(DataError, match="no labels"):
        make(name).fit(switched)


def test_one_regime_is_refused(three):
    with pytest.raises(DataError, match="one regime"):
        make("gaussian-hmm").fit(three.select(["R0"]))


def test_gaussian_states_are_found_without_labels(three):
    method = make("gaussian-hmm", seed=2, states=3)
    unlabelled = three.without_labels()
    curves = method.fit(unlabelled).weights(unlabelled)
    assert method.regimes_ == ("S0", "S1", "S2")
    check_curves(curves, unlabelled, 3)
    owner = np.concatenate(curves).argmax(axis=1)
    counts = np.zeros((3, 3))
    np.add.at(counts, (three.codes, owner), 1)
    assert counts.max(axis=1).sum() > 0.95 * len(owner)
    assert len(set(counts.argmax(axis=1).tolist())) == 3


def test_dynamics_alone_are_found_by_the_autoregressive_model_only():
    values, names = swinging()
    panel = mt.Panel.from_arrays(values, regime=names)
    new, new_names = swinging(series=3, seed=5)
    test = mt.Panel.from_arrays(new)
    auto = make("ar-hmm", lags=1).fit(panel)
    for curve, name in zip(auto.weights(test), new_names, strict=True):
        assert curve[1:, auto.regimes_.index(name)].mean() > 0.9
    plain = make("gaussian-hmm").fit(panel)
    for curve in plain.weights(test):
        assert 0.3 < curve[:, 0].mean() < 0.7
    blind = make("ar-hmm", lags=1).fit(panel.without_labels())
    owner = [int(np.nanmean(c, axis=0).argmax()) for c in blind.weights(test)]
    assert len(set(owner[:3])) == len(set(owner[3:])) == 1
    assert owner[0] != owner[3]


def test_em_equals_that_of_hmmlearn(three):
    """Without a past, and but for the shrinkage, the model is hmmlearn's own Gaussian one."""
    from hmmlearn.hmm import GaussianHMM

    method = make("gaussian-hmm", states=3)
    method.fit(three.without_labels())
    seen = method._features.at(three, np.arange(three.rows))
    theirs = GaussianHMM(3, "full", init_params="", n_iter=60, covars_prior=0, min_covar=1e-6)
    theirs.startprob_ = method._model.startprob_
    theirs.transmat_ = method._model.transmat_
    theirs.means_ = np.stack([seen[owner].mean(axis=0) for owner in _owners(method, three)])
    theirs.covars_ = method._model.emissions.covariance
    theirs.fit(seen, three.lengths)
    expected = theirs.predict_proba(seen, three.lengths)
    np.testing.assert_allclose(np.concatenate(method.weights(three)), expected, atol=0.05)


def _owners(method, panel):
    owner = np.concatenate(method.weights(panel)).argmax(axis=1)
    return [owner == k for k in range(3)]


def test_label_changes_give_the_transition_matrix():
    values = [switching(PATH, 40 + i) for i in range(8)]
    names = [[f"R{k}" for k in PATH]] * 8
    method = make("gaussian-hmm").fit(mt.Panel.from_arrays(values, regime=names))
    matrix = method._model.transmat_
    assert matrix[0, 2] > 2 * matrix[0, 1]  # the change that was seen
    np.testing.assert_allclose(matrix.sum(axis=1), 1)
    assert sticky(1, 5).tolist() == [[1.0]]
    np.testing.assert_allclose(sticky(3, 10).diagonal(), 0.9)


def test_emissions_are_a_regression():
    rng = np.random.default_rng(0)
    past = rng.normal(size=(4000, 2))
    present = 1 + past @ np.array([[0.5, 0.0], [0.2, -1.0]]) + 0.1 * rng.normal(size=(4000, 2))
    found = Emissions.fit(np.column_stack([past, present]), np.ones((4000, 1)), 2)
    np.testing.assert_allclose(found.covariance[0], 0.01 * np.eye(2), atol=1e-3)
    from scipy.stats import multivariate_normal

    row = np.array([[0.3, -0.2, 1.1, 1.2]])
    mean = 1 + row[0, :2] @ np.array([[0.5, 0.0], [0.2, -1.0]])
    expected = multivariate_normal(mean, 0.01 * np.eye(2)).logpdf(row[0, 2:])
    assert found.log_likelihood(row)[0, 0] == pytest.approx(expected, abs=0.1)


def test_change_points_of_short_and_long_stretches():
    rng = np.random.default_rng(0)
    assert change_points(rng.normal(size=(3, 2))) == []
    assert change_points(rng.normal(size=(200, 2))) == []
    long = rng.normal(size=(9000, 2))
    long[6000:] += 2
    (found,) = change_points(long)
    assert abs(found - 6000) <= 3


def test_rows_to_learn_from_are_balanced_and_limited():
    values = [np.zeros((50, 1))] * 9 + [np.ones((50, 1))]
    panel = mt.Panel.from_arrays(values, regime=["a"] * 9 + ["b"])
    runs = find_runs(panel, by_regime=True)
    rows, regime = balanced_rows(runs, 2, 0, limit=100)
    assert np.bincount(regime).tolist() == [50, 48]
    assert len(set(rows.tolist())) == len(rows)
    np.testing.assert_array_equal(panel.codes[rows], regime)


def test_straight_line_goes_from_end_to_end(three):
    path = np.repeat([2, 0], 25)
    test = mt.Panel.from_arrays([switching(path, 3), switching([1] * 20, 4)])
    line, flat = make("straight-line").fit(three).weights(test)
    np.testing.assert_allclose(line[:, 0], np.linspace(0, 1, 50))
    np.testing.assert_allclose(line[:, 2], np.linspace(1, 0, 50))
    np.testing.assert_allclose(flat, np.eye(3)[[1] * 20])


def test_frames_become_principal_components():
    rng = np.random.default_rng(0)
    left = rng.normal(0, 0.2, (10, 20, 6, 8))
    right = rng.normal(0, 0.2, (10, 20, 6, 8))
    left[..., :4] += 1
    right[..., 4:] += 1
    both = np.concatenate([left, right])
    panel = mt.Panel.from_arrays(both, regime=["left"] * 10 + ["right"] * 10)
    for name in ("gaussian-hmm", "change-points", "lda", "nearest-mean"):
        curves = make(name, lags=1).fit(panel).weights(panel.without_labels())
        assert hits(curves[:10], np.zeros(20, int)) > 0.95
        assert hits(curves[10:], np.ones(20, int)) > 0.95


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("gaussian-hmm", "hmmlearn"),
        ("ar-hmm", "hmmlearn"),
        ("change-points", "ruptures"),
        ("logistic-regression", "sklearn"),
        ("gradient-boosting", "sklearn"),
        ("lda", "sklearn"),
    ],
)
def test_a_missing_package_is_named(name, package, three, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependency, match=rf"{package}; pip install .mechtrace\[lab"):
        make(name).fit(three)
