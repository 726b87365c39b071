"""One contract for every method: shapes, seeds, unequal lengths, gaps, storage, refusals."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import mechtrace as mt
from mechtrace import worlds
from mechtrace.errors import ConfigError, DataError, NotFitted
from mechtrace_lab.baselines import METHODS, make

TRACKS, FRAMES = "centroid", "optical-flow"
TRACED = ("mechtrace", "algorithm1", "gate")  # a fit of a few steps would be refused as useless
pytestmark = pytest.mark.filterwarnings("ignore::mechtrace.errors.FitWarning")


def settings(name, seed=0):
    shown = 40_000 if name in TRACED else 3000
    return {"latents": 3, "seed": seed, "transitions": shown, "evaluations": 2, "device": "cpu"}


def directions(length, steep):
    """Where something is that moves across, or down."""
    return np.outer(np.arange(length), [0.2, 1.0] if steep else [1.0, 0.2]) + 3.0


def frames(length, steep):
    """A bright spot that does so, over a faint ground."""
    ground = 20 * np.random.default_rng(7).random((32, 32))
    y, x = np.mgrid[:32, :32]
    spots = [np.exp(-((x - cx) ** 2 + (y - cy) ** 2) / 8) for cx, cy in directions(length, steep)]
    return np.stack([(ground + 200 * spot).astype(np.uint8) for spot in spots])


@cache
def labelled(name):
    """What a method learns from, recordings of unequal lengths."""
    if name in (TRACKS, FRAMES):
        draw = directions if name == TRACKS else frames
        lengths = (20, 24) if name == FRAMES else (40, 60)
        values = [draw(n, steep).astype(float) for steep in (0, 1) for n in lengths * 2]
        values = [v.astype(np.uint8) for v in values] if name == FRAMES else values
        return mt.Panel.from_arrays(values, regime=["flat"] * 4 + ["steep"] * 4)
    world = worlds.make("paper", regimes=3, latents=3, channels=4, length=30, seed=1)
    drawn = world.simulate(20).panel
    cut = [v[: 20 + 5 * (i % 3)] for i, v in enumerate(drawn.to_arrays())]
    return mt.Panel.from_arrays(cut, regime=[series.regime[0] for series in drawn])


@cache
def fitted(name, seed=0):
    return make(name, **settings(name, seed)).fit(labelled(name))


@pytest.fixture(params=METHODS)
def name(request):
    return request.param


def test_weights_are_shares_of_the_named_regimes(name):
    method, panel = fitted(name), labelled(name)
    curves = method.weights(panel.without_labels())
    if not method.traits.weights:
        assert curves is None
        assert method.pooled(panel) is None
        return
    assert method.regimes_ == panel.regimes
    assert [curve.shape for curve in curves] == [(n, len(panel.regimes)) for n in panel.lengths]
    for curve in curves:
        said = np.isfinite(curve).all(axis=1)
        assert said[5:].all()
        assert np.isnan(curve[~said]).all()
        np.testing.assert_allclose(curve[said].sum(axis=1), 1, atol=1e-6)
        assert (curve[said] >= -1e-9).all()


def test_latents_are_one_row_for_each_row(name):
    method, panel = fitted(name), labelled(name)
    found = method.encode(panel)
    if not method.traits.latents:
        assert found is None
        return
    d = found[0].shape[1]  # ours takes out latents that carry nothing
    assert d == 3 or (name in TRACED and 0 < d < 3)
    assert [z.shape for z in found] == [(n, d) for n in panel.lengths]
    assert all(np.isfinite(z).all() for z in found)


def test_pooled_curves_need_equal_lengths(name):
    method, panel = fitted(name), labelled(name).without_labels()
    if not method.traits.weights:
        return
    same = panel[panel.lengths == panel.lengths[0]]
    assert method.pooled(same).shape == (panel.lengths[0], len(method.regimes_))
    with pytest.raises(DataError, match="length"):
        method.pooled(panel)


def test_the_seed_decides(name):
    panel = labelled(name)
    again = make(name, **settings(name)).fit(panel)
    mine = fitted(name).encode(panel) or fitted(name).weights(panel)
    theirs = again.encode(panel) or again.weights(panel)
    for one, two in zip(mine, theirs, strict=True):
        np.testing.assert_array_equal(one, two)


def test_a_series_is_answered_alike_alone_and_among_others(name):
    method, panel = fitted(name), labelled(name)
    for ask in (method.encode, method.weights):
        every = ask(panel)
        if every is not None:
            np.testing.assert_allclose(ask(panel[3:4])[0], every[3], atol=1e-5)


def test_a_gap_is_not_looked_across(name):
    """What lies before a gap changes nothing after it."""
    method, panel = fitted(name), labelled(name)
    if not (method.traits.weights or method.traits.latents) or panel.is_image:
        return
    values = panel.to_arrays()[0]
    other = values.copy()
    other[:9] = values[8::-1]
    stamps = np.arange(len(values)) + 100.0 * (np.arange(len(values)) >= 9)

    def after(rows):
        regime = [panel.regimes[0]] if method.traits.labels_to_encode else None
        gap = mt.Panel.from_arrays([rows], time=[stamps], regime=regime, gap=1.5)
        return (method.encode(gap) or method.weights(gap))[0][9:]

    first, second = after(values), after(other)
    if name != "straight-line":  # it joins the first and the last row, whatever lies between
        np.testing.assert_allclose(first, second, atol=1e-6)


def test_refusals(name):
    method, panel = fitted(name), labelled(name)
    with pytest.raises(NotFitted, match="has learned nothing yet"):
        make(name).weights(panel)
    if not panel.is_image:
        wide = mt.Panel.from_arrays([np.zeros((30, panel.shape[0] + 1))])
        for ask in (method.encode, method.weights):
            with pytest.raises(DataError, match="channels"):
                ask(wide)
    if method.traits.labels:
        with pytest.raises(DataError, match="no labels"):
            make(name).fit(panel.without_labels())
    if method.traits.labels_to_encode:
        with pytest.raises(DataError, match="whose regime is known"):
            method.encode(panel.without_labels())


def test_without_labels_states_are_numbered(name):
    if make(name).traits.labels:
        return
    panel = labelled(name).without_labels()
    method = make(name, **settings(name), states=2).fit(panel)
    assert method.regimes_ == ("S0", "S1")
    curves = method.weights(panel)
    assert curves is None or curves[0].shape[1] == 2


def test_what_can_be_stored_answers_the_same(name, tmp_path):
    method, panel = fitted(name), labelled(name)
    if not hasattr(method, "save"):
        return
    method.save(tmp_path / "stored")
    again = type(method).load(tmp_path / "stored")
    assert again.regimes_ == method.regimes_
    for one, two in zip(method.encode(panel), again.encode(panel), strict=True):
        np.testing.assert_array_equal(one, two)


def test_oracle_selection_without_a_truth_changes_nothing(name):
    assert fitted(name).oracle_selected() is fitted(name)


def test_unknown_names_and_settings_are_refused():
    with pytest.raises(ConfigError, match="no method 'nonsense'"):
        make("nonsense")
    with pytest.raises(ConfigError, match="transitions = 0"):
        make("tdrl", transitions=0)
    with pytest.raises(ConfigError, match="batch = 0"):
        make("tdrl", batch=0)
    with pytest.raises(ConfigError, match="holdout"):
        make("tdrl", holdout=1.0)
