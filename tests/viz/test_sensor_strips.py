"""The report in terms of the sensors: sentences first, strips beneath the curve."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
import re

import numpy as np
import pytest

import mechtrace as mt
from mechtrace.errors import DataError
from mechtrace.viz import strips as reduced
from mechtrace.viz.report import Results
from mechtrace.viz.sensors import first_screen, strips


@pytest.fixture(scope="module")
def glide(world):
    return world.transition("simple", seed=4).panel


@pytest.fixture(scope="module")
def path(trained, glide):
    return trained.recover(glide)


def unpack(packed):
    codes = np.frombuffer(base64.b64decode(packed["codes"]), dtype="<u2").astype(float)
    columns = codes.reshape(len(packed["ranges"]), -1).T
    low, high = np.array(packed["ranges"]).T
    return np.where(columns == 65535, np.nan, low + (high - low) * columns / 65534)


def test_the_page_says_what_sets_regimes_apart_before_the_curve(trained, path, glide, tmp_path):
    mt.report(trained, path, tmp_path / "r.html", panel=glide)
    source = (tmp_path / "r.html").read_text(encoding="utf-8")
    section = source[source.index('id="apart"') : source.index('id="recording"')]
    for name, texts in trained.describe().by_regime.items():
        assert f"</i> {name}</h3>" in section
        for text in texts:
            assert f"<li>{text}</li>" in section
    assert source.index('id="lead"') < source.index('id="apart"')
    packed = re.search(r'id="content">([^<]*)</script>', source).group(1)
    [one] = json.loads(gzip.decompress(base64.b64decode(packed)))["series"]
    assert one["sensors"]["names"][0] == "all"


def test_names_are_text(trained, path, monkeypatch):
    evil = tuple(f"<img src=x>{name}" for name in trained.channels_)
    monkeypatch.setattr(trained, "channels_", evil)
    monkeypatch.setattr(trained, "regimes_", ("<b>a</b>", "b", "c"))
    text = first_screen(Results(trained, [path]))
    assert "&lt;img" in text
    assert "<img" not in text
    assert "<b>" not in text


def test_a_model_that_does_not_know_says_nothing(trained, path, monkeypatch):
    older = dataclasses.replace(trained.statistics_, sensors=None)
    monkeypatch.setattr(trained, "statistics_", older)
    assert first_screen(Results(trained, [path])) == ""


def test_strips_are_the_contributions(trained, path, glide):
    found = strips(Results(trained, [path], glide), 0)["sensors"]
    about = trained.contributions(glide)
    known = np.isfinite(about.total).all(axis=1)
    order = np.sort(about.total[known], axis=1)
    strength, leader = unpack(found["strength"]), np.array(found["leader"])
    np.testing.assert_allclose(strength[known, 0], order[:, -1] - order[:, -2], atol=1e-3)
    np.testing.assert_array_equal(leader[0][known], about.total[known].argmax(axis=1))
    assert np.isnan(strength[~known]).all()
    one = about.sensors.index(found["names"][1])
    np.testing.assert_array_equal(leader[1][known], about.values[known, :, one].argmax(axis=1))
    assert found["edges"] == [t - 0.5 for t in range(21)]
    assert found["exact"]


def test_long_recordings_are_averaged_and_few_sensors_are_drawn(trained, world, monkeypatch):
    monkeypatch.setattr(reduced, "MOST_SENSORS", 4)
    panel = world.transition("simple", length=500, seed=1).panel
    path = trained.recover(panel)
    found = strips(Results(trained, [path], panel), 0)["sensors"]
    assert len(found["edges"]) <= reduced.MOST_COLUMNS + 1
    assert found["edges"][-1] == 499.5
    assert len(found["names"]) == len(found["leader"]) == 5
    assert found["more"] == 2
    assert np.isfinite(unpack(found["strength"])).all()


def test_regimes_that_are_not_at_work_get_no_colour(trained, path, glide):
    alpha = np.zeros_like(path.alpha)
    alpha[:, 0] = alpha[:, 2] = 0.5
    few = dataclasses.replace(path, alpha=alpha)
    found = strips(Results(trained, [few], glide), 0)["sensors"]
    assert set(np.unique(found["leader"])) <= {0, 2}


@pytest.mark.parametrize("case", ["no recording", "algorithm1", "one row"])
def test_nothing_is_drawn_where_there_is_nothing_to_draw(trained, path, glide, case):
    panel = None if case == "no recording" else glide
    if case == "algorithm1":
        path = trained.recover(glide, method="algorithm1")
    if case == "one row":
        panel = mt.Panel.from_arrays([glide.values[:1]], channels=list(glide.channels))
        path = trained.recover(panel)
    assert strips(Results(trained, [path], panel), 0) == {}


def test_pooled_trials_show_their_mean(trained, world):
    panel = world.transition("simple", series=3, seed=1).panel
    path = trained.recover(panel, pool=True)
    found = strips(Results(trained, [path], panel), 0)["sensors"]
    total = np.mean([one.total for one in trained.contributions(panel)], axis=0)
    known = np.isfinite(total).all(axis=1)
    leader = np.array(found["leader"])[0]
    np.testing.assert_array_equal(leader[known], total[known].argmax(axis=1))


def test_the_figure_shows_the_same(trained, glide):
    found = trained.contributions(glide)
    ax = found.plot()
    labels = [text.get_text() for text in ax.get_yticklabels()]
    assert labels == ["all", *found.strongest()]
    [mesh] = ax.collections
    colours = np.asarray(mesh.get_array())
    unknown = np.isnan(found.total).any(axis=1)
    assert (colours[:, unknown] == 1).all()
    strongest = np.nanargmax(np.ptp(found.total, axis=1))
    assert (colours[0, strongest] < 1).any()
    with pytest.raises(DataError, match="no contributions"):
        mt.plot.contributions(np.zeros(3))
