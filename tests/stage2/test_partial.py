"""Recovery without some of the sensors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import mechtrace as mt
from mechtrace.errors import ConfigError, DataError
from mechtrace.viz.narrative import judged

SMALL = {"latents": 2, "hidden": 16, "steps": 150, "batch": 12, "align": False}


@pytest.fixture(scope="module")
def motor():
    return mt.worlds.make("zoo/motor", seed=5, length=120)


@pytest.fixture(scope="module")
def model(motor):
    return mt.Trace(**SMALL).fit(motor.simulate(12).panel, progress=False)


@pytest.fixture(scope="module")
def run(motor):
    return motor.transition("simple", series=4, seed=2)


def errors(paths, run):
    return [float(np.abs(p.alpha - a).mean()) for p, a in zip(paths, run.alpha, strict=True)]


def test_every_sensor_can_be_left_out_and_intervals_say_so(model, run):
    whole = model.recover(run.panel)
    for name in run.panel.channels:
        paths = model.recover(run.panel, without=[name])
        assert np.mean(errors(paths, run)) < 0.05 + 1.5 * np.mean(errors(whole, run))
        inside = [
            ((p.lower <= a + 1e-9) & (a <= p.upper + 1e-9)).mean()
            for p, a in zip(paths, run.alpha, strict=True)
        ]
        assert np.mean(inside) > 0.85
        assert np.mean([p.expected_error for p in paths]) > 0.9 * np.mean(
            [p.expected_error for p in whole]
        )


def test_what_the_sensor_reads_does_not_matter(model, run):
    name, values = run.panel.channels[1], np.array(run.panel.values)
    expected = model.recover(run.panel, without=[name])
    values[:, 1] = 1e7
    broken = replace(run.panel, values=values)
    frame = run.panel.to_frame().drop(columns=name)
    lacks = mt.Panel.from_frame(frame, time="time", series="series")
    for data in (broken, lacks, model.prepared(broken, without=[name])):
        for path, other in zip(model.recover(data, without=[name]), expected, strict=True):
            assert np.allclose(path.alpha, other.alpha, atol=1e-6)
    one = frame[frame["series"] == frame["series"].iloc[0]].drop(columns="series")
    assert np.allclose(model.recover(one, without=[name]).alpha, expected[0].alpha, atol=1e-6)


def test_the_diagnosis_is_a_caution_with_an_expected_error(model, run):
    name, other = run.panel.channels[:2]
    path = model.recover(run.panel, without=[name])[0]
    diagnosis = model.diagnose(path)
    assert diagnosis["sensors"].level == "caution"
    assert repr(name) in diagnosis["sensors"].meaning
    assert diagnosis.expected_error == path.expected_error
    assert f"without {name!r}" in judged(path, diagnosis)
    values = np.array(run.panel.values)
    values[:, 1] *= 10
    path = model.recover(replace(run.panel, values=values), without=[name])[0]
    finding = model.diagnose(path)["sensors"]
    assert finding.level == "bad"
    assert finding.meaning.startswith(f"Channel {other!r}")


def test_two_sensors_can_be_left_out_and_answers_can_be_causal(model, run):
    path = model.recover(run.panel, without=run.panel.channels[:2], causal=True)[0]
    assert path.without == run.panel.channels[:2]
    assert np.isfinite(path.alpha[10:]).all()


def test_a_column_that_is_missing_names_the_option(model, run):
    name = run.panel.channels[1]
    frame = run.panel.to_frame().drop(columns=[name, "series"]).iloc[:120]
    with pytest.raises(DataError, match=rf"recover without that sensor: without=\['{name}'\]"):
        model.recover(frame)


def test_what_cannot_be_left_out_is_refused(model, run):
    with pytest.raises(ConfigError, match="there is no sensor 'nothing' to leave out"):
        model.recover(run.panel, without=["nothing"])
    with pytest.raises(ConfigError, match="at least two sensors"):
        model.recover(run.panel, without=run.panel.channels[1:])
    former = replace(model.statistics_.channels, regimes=None)
    older = mt.Trace()
    older.__dict__.update(model.__dict__)
    older.statistics_ = replace(model.statistics_, channels=former)
    with pytest.raises(ConfigError, match="cannot do without a sensor"):
        older.recover(run.panel, without=run.panel.channels[:1])


def test_a_stored_model_gives_the_same(model, run, tmp_path):
    model.save(tmp_path / "m.mechtrace")
    again = mt.load(tmp_path / "m.mechtrace")
    name = run.panel.channels[0]
    for path, other in zip(
        model.recover(run.panel, without=[name]),
        again.recover(run.panel, without=[name]),
        strict=True,
    ):
        assert np.allclose(path.alpha, other.alpha, atol=1e-9)
