"""Results in a notebook: small, self-contained, with every name as text; and as xarray."""

from __future__ import annotations

import dataclasses
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import mechtrace as mt
from mechtrace.diagnose import Diagnosis
from mechtrace.diagnose.findings import Finding
from mechtrace.viz import plot, renderers
from mechtrace.viz.plot.figure import MINUS, PLUS
from mechtrace.viz.renderers import html

BAD = "<script>alert('x')</script>"


class Tags(HTMLParser):
    """What a browser would make of it."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        assert not {name for name, _ in attrs} & {"src", "href", "onload"}
        if tag not in ("br", "polygon", "rect"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def shown(result) -> Tags:
    text = html(result)
    assert result._repr_html_() == text
    assert len(text) < 60_000
    assert "http" not in text
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert "script" not in tags.seen
    return tags


def test_what_is_no_result_has_no_html():
    with pytest.raises(TypeError, match="a list has no HTML"):
        html([])


@pytest.fixture
def path(trained, world):
    return trained.recover(world.transition("simple", seed=4).panel)


def test_a_trajectory_shows_its_sentence_and_areas(path):
    tags = shown(path)
    assert str(path) in tags.text
    assert {"svg", "polygon"} <= tags.seen
    assert path._repr_html_().count("<polygon") == len(path.regimes)


def test_steps_without_an_answer_stay_empty(path):
    alpha = path.alpha.copy()
    alpha[5:8] = np.nan
    parted = dataclasses.replace(path, alpha=alpha)
    assert parted._repr_html_().count("<polygon") == 2 * len(path.regimes)
    nothing = dataclasses.replace(path, alpha=np.full_like(alpha, np.nan))
    assert "polygon" not in shown(nothing).seen


def test_long_curves_stay_small(path):
    many = {
        name: np.resize(getattr(path, name), (100_000, *getattr(path, name).shape[1:]))
        for name in ("alpha", "lower", "upper", "residual", "flag", "surprise")
    }
    shown(dataclasses.replace(path, time=np.arange(100_000), **many))


def test_names_stay_text(path, trained):
    hostile = dataclasses.replace(path, name=BAD, regimes=(BAD, "b&b", "c"))
    assert BAD in shown(hostile).text
    finding = Finding("code", "bad", 1.0, 0.5, BAD, BAD)
    assert BAD in shown(Diagnosis(BAD, (finding,))).text
    panel = mt.Panel.from_arrays(
        np.zeros((2, 5, 1)), regime=[BAD, "b"], names=[BAD, "x"], channels=[BAD], source=BAD
    )
    assert BAD in shown(panel).text
    mechanisms = dataclasses.replace(trained.mechanisms(), regimes=(BAD, "b", "c"))
    assert BAD in shown(mechanisms).text


def test_a_diagnosis_leads_with_its_verdict(trained, path):
    diagnosis = trained.diagnose(path)
    text = shown(diagnosis).text
    assert text.startswith(f"{path.name}: {diagnosis.verdict}")
    assert all(finding.code in text for finding in diagnosis.findings)


def test_a_panel_shows_its_first_series(panel):
    text = shown(panel).text
    assert "36 series x 20 rows" in text
    assert "... and 24 more" in text


def test_a_trace_shows_settings_and_then_what_it_learned(trained):
    assert "not fitted yet" in shown(mt.Trace(latents=3)).text
    text = shown(trained).text
    assert "latents=4" in text
    assert "held-out ELBO" in text


def test_mechanisms_show_a_picture_for_each_regime(trained):
    mechanisms = trained.mechanisms()
    assert mechanisms._repr_html_().count("<svg") == 3
    assert "3 mechanisms of 4 latents" in shown(mechanisms).text


def test_xarray(path):
    data = path.to_xarray()
    assert data.alpha.dims == ("time", "regime")
    np.testing.assert_array_equal(data.alpha.sel(regime=path.regimes[1]), path.alpha[:, 1])
    assert data.flag.values.tolist() == path.flag.tolist()
    assert data.attrs["name"] == path.name
    frame = data.alpha.to_pandas()
    np.testing.assert_array_equal(frame[path.regimes[0]], path.to_frame()[path.regimes[0]])


def test_without_xarray_the_install_line_is_named(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(mt.MechtraceError, match=r'pip install "mechtrace\[xarray\]"'):
        path.to_xarray()


def test_scikit_learn_clones_a_fitted_model_to_an_unfitted_one(trained):
    from sklearn.base import clone

    copy = clone(trained)
    assert copy.get_params() == trained.get_params()
    assert not hasattr(copy, "model_")
    assert copy.set_params(latents=7).latents == 7
    assert trained.latents == 4


def test_colours_in_notebooks_are_those_of_figures_and_reports():
    css = Path(renderers.__file__).with_name("assets").joinpath("report.css").read_text()
    light = css[: css.index("data-theme")].lower()
    for k, shade in enumerate(plot.COLOURS):
        assert f"--c{k}: {shade.lower()}" in light
        assert renderers._colour(k) in (shade, "currentColor")
    assert f"--plus: {PLUS.lower()}" in light
    assert f'fill="{PLUS}" fill-opacity="0.50"' in renderers._matrix(np.array([[0.5]]))
    assert f'fill="{MINUS}"' in renderers._matrix(np.array([[-0.5]]))
