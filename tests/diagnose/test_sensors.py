"""A sensor that is off is named, and nothing is told of the recording."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import mechtrace as mt
from mechtrace.errors import DataWarning
from mechtrace.stage2.channel_statistics import ChannelStatistics
from mechtrace.viz.narrative import headline

SMALL = {"latents": 2, "hidden": 16, "steps": 150, "batch": 12, "align": False}


@pytest.fixture(scope="module")
def motor():
    return mt.worlds.make("zoo/motor", seed=5, length=120)


@pytest.fixture(scope="module")
def model(motor):
    return mt.Trace(**SMALL).fit(motor.simulate(12).panel, progress=False)


@pytest.mark.parametrize("kind", ["units", "stuck", "swapped"])
def test_the_faulty_sensor_is_named(motor, model, kind):
    for seed in range(3):
        made = motor.faulty(kind, series=2, seed=seed)
        for path in model.recover(made.panel):
            diagnosis = model.diagnose(path)
            finding = diagnosis["sensors"]
            assert diagnosis.verdict == "do not trust"
            assert finding.next_step
            for sensor in made.fault.sensors:
                assert repr(made.panel.channels[sensor]) in finding.meaning
            told = headline(path, path.events(), diagnosis)
            assert told.startswith("nothing can be told: channel")


def test_valid_recordings_have_no_faulty_sensor(motor, model):
    for run in (motor.transition("simple", series=6, seed=2), motor.simulate(4, seed=1)):
        for path in model.recover(run.panel):
            assert model.diagnose(path)["sensors"].level == "good"


def test_missing_rows_and_quantised_values_are_not_stuck():
    rng = np.random.default_rng(0)
    values = np.round(rng.standard_normal((400, 3)).cumsum(axis=0) / 5)
    series = np.repeat(np.arange(4), 100)
    known = ChannelStatistics.measure(values, series, values.mean(0), values.std(0))
    new = values[:100].copy()
    new[20:60] = np.nan
    assert known.fault(new) is None
    assert known.fault(new[:5]) is None
    new[20:] = new[19]
    assert known.fault(new).kind == "stuck"


def test_a_fill_value_is_no_broken_sensor(motor):
    run = motor.simulate(12).panel
    for how in (None, "mean"):
        panel = run if how is None else run.detrended(how)
        fitted = mt.Trace(**SMALL).fit(panel, progress=False)
        new = motor.transition("simple", series=2, seed=2).panel
        values = np.array(new.values)
        values[[3, 130], 1] = 1e30
        with pytest.warns(DataWarning, match="no plausible measurement"):
            prepared = fitted.prepared(replace(new, values=values))
        assert np.nanmax(np.abs(prepared.recorded)) < 1e6
        for path in fitted.recover(prepared):
            assert fitted.diagnose(path)["sensors"].level == "good"


def test_a_sensor_whose_cells_count_as_missing_is_named(motor, model):
    panel = motor.transition("simple", series=2, seed=2).panel
    values = np.array(panel.values)
    values[:, 1] *= 1e6
    panel = replace(panel, values=values)
    with pytest.warns(DataWarning, match="no plausible measurement"):
        prepared = model.prepared(panel)
    assert model.prepared(prepared) is prepared  # as the command line gives it
    assert np.array_equal(prepared[1:].recorded, values[len(values) // 2 :])
    for path in model.recover(prepared):
        diagnosis = model.diagnose(path)
        assert not np.isfinite(path.residual).any()
        assert (diagnosis.verdict, diagnosis.by_weight()[0].code) == ("do not trust", "sensors")
        assert repr(panel.channels[1]) in diagnosis["sensors"].meaning
        assert diagnosis["evidence"].level == "bad"
