"""Contributions of sensors: they add up to the evidence, whatever it is about."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

import mechtrace as mt
from mechtrace.errors import DataError
from mechtrace.stage2.model_selection import joined
from mechtrace.stage2.series_batch import EncodedSeries, SeriesBatch


@pytest.fixture(scope="module")
def recording(world):
    return world.transition("simple", seed=4).panel


def evidence_of(model, panel, names):
    """Log likelihood (T, K) of each regime, less the mean over regimes, as recover uses it."""
    batch = SeriesBatch.of(model.model_, model.statistics_, panel, names, 1.0)
    information = batch.corrected(model.statistics_)
    total = (information.h - 0.5 * np.einsum("kkts->kts", information.G))[..., 0].T
    return total - total.mean(axis=1, keepdims=True), information.dims[:, 0] > 0


@pytest.mark.parametrize("which", ["selected", "channels", "prediction(1)", "static"])
def test_contributions_add_up_to_the_evidence(trained, recording, which):
    selected = trained.statistics_.selection.selected
    names = selected if which == "selected" else (which,)
    found = trained.contributions(recording, evidence=None if which == "selected" else which)
    total, known = evidence_of(trained, recording, names)
    assert known.any()
    np.testing.assert_allclose(found.values[known].sum(axis=2), total[known], atol=1e-10)
    assert np.isnan(found.values[~known]).all()
    assert found.exact == (names == ("channels",))


def test_they_add_up_for_windows_several_kinds_of_evidence_and_missing_rows(trained, world):
    pure = world.simulate(4, seed=9, length=40).panel
    long = mt_model_with_windows(trained, pure)
    values = np.array(pure[:1].values, float)
    values[20:23] = np.nan
    panel = replace(pure[:1], values=values, codes=None, regimes=())
    for names in long.statistics_.offsets:
        used = tuple(names.split(" + "))
        found = long.contributions(panel, evidence=used)
        total, known = evidence_of(long, panel, used)
        np.testing.assert_allclose(found.total[known], total[known], atol=1e-10)
        assert np.isnan(found.total[~known]).all()


def mt_model_with_windows(trained, panel):
    """The model with statistics of windows, and of two kinds of evidence together."""
    from copy import copy

    from mechtrace.stage1.encoding import encode
    from mechtrace.stage2.corrections import BasisCorrection
    from mechtrace.stage2.observation_models import ObservationModel

    statistics, name = trained.statistics_, "window_moments(8)"
    latents = encode(trained.model_, panel).mean
    encoded = EncodedSeries.of_rows(trained.model_, panel, latents, statistics.experts)
    regime = np.array([panel.regimes.index(one.regime[0]) for one in panel])
    features = encoded.features(name)
    window = ObservationModel.measure(name, features.values, None, regime)
    correction = BasisCorrection.measure(window.information(*features), regime)
    both = joined(("channels", name))
    model = copy(trained)
    model.statistics_ = replace(
        statistics,
        models=statistics.models | {name: window},
        offsets={name: correction, both: statistics.offsets["channels"]},
    )
    return model


def test_shares_of_sensors_are_shapley_values_of_their_errors(trained, recording):
    found = trained.contributions(recording, evidence="channels")
    statistics = trained.statistics_
    encoded = EncodedSeries.of_rows(
        trained.model_, recording, np.zeros((20, 4)), statistics.experts
    )
    values, predictions, doubt = encoded.features("channels")
    one, t = statistics.models["channels"], 12
    mixed = statistics.offsets["channels"].recombination.T @ predictions[0, t]
    sure = one.certainty(doubt)[0, t]
    scale = trained.model_.units()[1]
    to_white = (scale[:, None] * statistics.experts.projection @ statistics.experts.axes) * sure
    errors = ((values[0, t] - mixed) * sure) @ np.linalg.inv(to_white)  # (K, c) of sensors
    precision = to_white @ np.linalg.inv(one.noise) @ to_white.T / one.autocorrelation_time

    def likelihood(some):
        inside = errors * np.isin(np.arange(errors.shape[1]), some)
        return -0.5 * np.einsum("ki,ij,kj->k", inside, precision, inside)

    orders = list(permutations(range(errors.shape[1])))
    shapley = np.zeros_like(errors)
    for order in orders:
        for place, sensor in enumerate(order):
            shapley[:, sensor] += likelihood(order[: place + 1]) - likelihood(order[:place])
    shapley /= len(orders)
    np.testing.assert_allclose(found.values[t], shapley - shapley.mean(axis=0), atol=1e-9)


def test_ratios_strongest_sensors_and_tables(trained, recording):
    found = trained.contributions(recording)
    ratio = found.ratio("R0", "R2")
    np.testing.assert_allclose(ratio, found.values[:, 0] - found.values[:, 2])
    assert len(found.strongest(2)) == 2
    assert set(found.strongest()) == set(found.sensors)
    frame = found.to_frame()
    assert list(frame.columns) == ["time", "regime", *found.sensors]
    assert len(frame) == 3 * len(recording[0].time)
    with pytest.raises(DataError, match=r"no regime 'R9'; .*R0, R1, R2"):
        found.ratio("R0", "R9")


def test_the_sensor_in_which_regimes_differ_carries_the_decision(small):
    """Three independent sensors, of which one forgets faster in one regime."""
    rng = np.random.default_rng(0)
    memory = {"calm": [0.9, 0.9, 0.9], "brisk": [0.9, 0.2, 0.9]}

    def record(regime):
        out = rng.standard_normal((60, 3))
        for t in range(1, 60):
            out[t] += memory[regime] * out[t - 1]
        return out

    names = ["calm", "brisk"] * 10
    panel = mt.Panel.from_arrays([record(name) for name in names], regime=names)
    model = mt.Trace(**small | {"latents": 3}).fit(panel, progress=False)
    found = model.contributions(mt.Panel.from_arrays([record("brisk")]))
    assert found.strongest(1) == ("x1",)
    by_sensor = np.nansum(found.ratio("brisk", "calm"), axis=0)
    assert by_sensor.argmax() == 1
    assert by_sensor[1] > 5 > np.abs(by_sensor[[0, 2]]).max()


def test_several_recordings_give_one_answer_each(trained, world):
    panel = world.transition("simple", series=3, seed=1).panel
    found = trained.contributions(panel)
    assert [one.name for one in found] == panel.names.tolist()
