"""The report: it says what the result says, in one file, and user strings stay text."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

import mechtrace as mt
from mechtrace.errors import DataError, MissingDependency
from mechtrace.identifiability.axes import Axes
from mechtrace.stage2.stored_model import StoredModel
from mechtrace.viz import payload as contents
from mechtrace.viz.payload import Share

BAD = "<script>alert(1)</script>"


class Page(HTMLParser):
    """A report, read again: its elements, its visible text and the data that it draws."""

    def __init__(self, file):
        super().__init__()
        self.source = file.read_text(encoding="utf-8")
        self.tags, self.text, self._inside = [], "", ""
        self.feed(self.source)
        packed = re.search(r'id="content">([^<]*)</script>', self.source).group(1)
        self.content = json.loads(gzip.decompress(base64.b64decode(packed)))

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self._inside = tag

    def handle_endtag(self, tag):
        self._inside = ""

    def handle_data(self, data):
        if self._inside not in ("script", "style"):
            self.text += data


def unpack(packed):
    codes = np.frombuffer(base64.b64decode(packed["codes"]), dtype="<u2").astype(float)
    columns = codes.reshape(len(packed["ranges"]), -1).T
    low, high = np.array(packed["ranges"]).T
    return np.where(columns == 65535, np.nan, low + (high - low) * columns / 65534)


@pytest.fixture(scope="module")
def glide(world):
    return world.transition("simple", seed=4)


@pytest.fixture(scope="module")
def path(trained, glide):
    return trained.recover(glide.panel)


@pytest.fixture
def written(trained, tmp_path):
    def write(paths, model=trained, **more):
        file = tmp_path / "r.html"
        mt.report(model, paths, file, **more)
        return Page(file)

    return write


def test_the_answer_comes_first_with_how_far_to_trust_it(written, trained, path):
    far = dataclasses.replace(path, error=np.full(len(path), 0.5))
    page = written(far)
    lead = page.source[page.source.index('id="lead"') :]
    assert "verdict: do not trust (shares are likely within 0.50)." in lead[:600]
    assert 'class="answer bad"' in lead[:600]
    assert "Shares are likely within 0.50 (limit: at most 0.11)" in lead[:2000]
    assert "pool repeated trials" in lead[:2000]  # what to do about it
    assert page.text.index("do not trust") < page.text.index("Repeat this")


def test_it_draws_what_was_recovered(written, path, glide):
    page = written(path, panel=glide.panel, truth=glide.alpha[0])
    [one] = page.content["series"]
    K = len(path.regimes)
    curves = unpack(one["curves"])
    for number, part in enumerate((path.alpha, path.lower, path.upper)):
        np.testing.assert_allclose(curves[:, number * K : (number + 1) * K], part, atol=2e-5)
    np.testing.assert_allclose(curves[:, -1], path.residual, atol=1e-3)
    assert one["time"] == {"rows": 20, "first": 0.0, "last": 19.0}
    assert one["stretches"][0] == [0, -0.5, 1.5]  # two steps of warm-up, half a step around
    np.testing.assert_allclose(
        unpack(one["signals"]["channels"]), glide.panel.values.astype(float), atol=1e-3
    )
    np.testing.assert_allclose(unpack(page.content["truth"]["alpha"]), glide.alpha[0], atol=2e-5)


def test_every_finding_event_and_training_step_is_there(written, trained, path):
    page = written(path)
    [one] = page.content["series"]
    findings = trained.diagnose(path).by_weight()
    assert [f["code"] for f in one["findings"]] == [f.code for f in findings]
    assert [f["meaning"] for f in one["findings"]] == [f.meaning for f in findings]
    assert [e["from"] for e in one["events"]] == [e.from_regime for e in path.events(minimum=2)]
    assert [h["step"] for h in page.content["training"]["history"]] == [
        h["step"] for h in trained.history_
    ]


def test_mechanisms_are_those_of_the_model(written, trained, path, glide):
    """The matrices are those of the sentences about what changes: one number for one edge."""
    about = written(path, panel=glide.panel).content["mechanisms"]
    found = trained.weights_.jacobian
    assert about["measured"] == "as estimated in the fit"
    np.testing.assert_allclose(unpack(about["matrices"]).T.reshape(found.shape), found, atol=1e-3)
    assert about["axes"] == trained.axes_.verdict
    assert about["names"] == list(trained.axes_.names)
    assert about["changes"] == trained.axes_.sentences()[: contents.MOST_CHANGES]


def test_mechanisms_without_alignment_are_averages_over_the_recordings(
    trained, path, glide, tmp_path
):
    plain = mt.Trace(latents=4)._adopt(
        StoredModel(trained.model_, trained.record_, Axes.unaligned(4), trained.statistics_, None)
    )
    mt.report(plain, path, tmp_path / "r.html", panel=glide.panel)
    about = Page(tmp_path / "r.html").content["mechanisms"]
    assert about["measured"].startswith("averaged over ")
    found = plain.mechanisms(glide.panel).jacobian
    np.testing.assert_allclose(unpack(about["matrices"]).T.reshape(found.shape), found, atol=1e-3)


def test_recordings_with_the_same_transition_are_aligned(trained, path, tmp_path):
    regimes = trained.regimes_
    time = np.arange(20.0)
    share = np.clip((time[:, None] - [6, 12, 100]) / 4, 0, 1)
    curves = []
    for i in range(3):
        alpha = np.column_stack([1 - share[:, i], share[:, i], np.zeros(20)])
        curves.append(dataclasses.replace(path, name=f"n{i}", time=time, alpha=alpha))
    mt.report(trained, curves, tmp_path / "r.html")
    content = Page(tmp_path / "r.html").content
    assert content["aligned"] == {
        "from": regimes[0], "to": regimes[1], "regime": 1, "events": [0, 0, -1],
    }  # fmt: skip
    first, second = (content["series"][i]["events"][0] for i in (0, 1))
    for key in ("at", "onsetAt", "endAt"):
        assert second[key] - first[key] == 6
    mt.report(trained, curves[1:], tmp_path / "r.html")
    assert Page(tmp_path / "r.html").content["aligned"] is None  # one alone is not compared


@pytest.mark.parametrize("given", [True, False])
def test_latents_are_those_of_encode_with_and_without_the_panel(
    written, trained, path, glide, given, monkeypatch
):
    axes = [
        dataclasses.replace(axis, by=("evidence",) if axis.name in ("z1", "z3") else ())
        for axis in trained.axes_.axes
    ]
    known = dataclasses.replace(trained.axes_, axes=tuple(axes))
    monkeypatch.setattr(trained, "axes_", known)
    page = written(path, panel=glide.panel if given else None)
    [one] = page.content["series"]
    latents = trained.encode(glide.panel)[0]
    np.testing.assert_allclose(unpack(one["signals"]["latents"]), latents[:, [1, 3]], atol=1e-3)
    assert page.content["latents"] == ["z1", "z3"]


def test_latents_that_mean_nothing_one_by_one_are_not_drawn(written, trained, path, glide):
    assert not trained.axes_.identified
    page = written(path, panel=glide.panel)
    assert page.content["latents"] == []
    assert "latents" not in page.content["series"][0]["signals"]
    assert "signals" not in written(path).content["series"][0]


def test_it_says_how_to_repeat_it(written, trained, path, glide):
    text = written(path, panel=glide.panel, command="mechtrace recover a b").text
    assert "mechtrace recover a b" in text
    assert glide.panel.fingerprint() in text
    assert trained.record_.data.fingerprint in text
    assert f"numpy {np.__version__}" in text


def test_it_is_one_file_that_fetches_nothing(written, path):
    page = written(path)
    for _, attributes in page.tags:
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#")
    assert any("default-src 'none'" in (a.get("content") or "") for _, a in page.tags)
    assert not re.search(r"url\((?!#)|@import", page.source.split("</style>")[0])


def test_names_are_text_wherever_they_stand(written, trained, path, glide):
    calm = [tag for tag, _ in written(path, panel=glide.panel).tags]
    panel = dataclasses.replace(glide.panel, names=np.array([BAD]), source=BAD)
    hostile = dataclasses.replace(path, name=BAD, regimes=(BAD, "b&b", "c"))
    page = written(hostile, panel=panel, command=f"mechtrace {BAD}")
    assert BAD not in page.source
    assert [tag for tag, _ in page.tags] == calm
    assert page.text.count(BAD) >= 3  # title, answer, command: shown as they are
    assert page.content["series"][0]["name"] == BAD


def test_many_recordings_begin_with_an_overview(written, path, glide):
    many = [dataclasses.replace(path, name=f"run {i}") for i in range(30)]
    page = written(many, panel=glide.panel)
    assert re.search(r"30 recordings, (none|all) of which changes? regime", page.text)
    assert [one["name"] for one in page.content["series"]] == [f"run {i}" for i in range(30)]


def test_more_recordings_than_fit_are_counted(written, path, monkeypatch):
    monkeypatch.setattr(contents, "MOST_SERIES", 3)
    page = written([path] * 5)
    assert "The first 3 of 5 recordings" in page.text
    assert page.content["left_out"] == 2


@pytest.mark.parametrize("regimes", [2, 5, 20])
@pytest.mark.parametrize("series", [1, 50, 1000, 30_000])
@pytest.mark.parametrize("lanes", [0, 24, 64])
def test_the_room_in_the_file_is_never_exceeded(series, regimes, lanes):
    share = Share.of(series, regimes, lanes)
    assert 1 <= share.series <= series
    assert share.series * share.steps * (3 * regimes + 1) <= contents.CURVE_VALUES
    assert share.with_signals * share.signal_steps * lanes <= contents.SIGNAL_VALUES
    assert share.steps >= contents.LEAST_STEPS


def test_a_long_recording_stays_small_and_keeps_its_extremes(written, path):
    steps, random = 100_000, np.random.default_rng(0)
    alpha = random.dirichlet(np.ones(3), steps)
    alpha[77_777] = [1.0, 0.0, 0.0]
    residual = random.normal(1, 0.1, steps)
    residual[12_345] = 9.0
    long = dataclasses.replace(
        path,
        time=np.arange(steps) * 0.01,
        alpha=alpha,
        lower=alpha - 0.1,
        upper=alpha + 0.1,
        residual=residual,
        flag=np.where(np.arange(steps) % 7 == 0, "unexplained", ""),
        surprise=np.ones(steps),
        error=np.full(steps, 0.05),
        observed=None,
    )
    page = written(long)
    [one] = page.content["series"]
    curves = unpack(one["curves"])
    assert curves[:, 0].max() > 0.9999
    assert curves[:, -1].max() > 8.99
    assert len(one["stretches"]) <= contents.MOST_STRETCHES
    assert one["time"]["rows"] <= contents.MOST_STEPS
    assert len(page.source) < 3_000_000


def test_missing_rows_and_missing_answers(written, trained, world, glide):
    values = glide.panel.values.astype(float)
    values[8:12] = np.nan
    panel = mt.Panel.from_arrays([values], missing="gap", channels=list(glide.panel.channels))
    page = written(trained.recover(panel, method="algorithm1"), panel=panel)
    [one] = page.content["series"]
    assert np.isnan(unpack(one["signals"]["channels"])[8:12]).all()
    assert np.isnan(unpack(one["curves"])).any()
    assert 1 in [number for number, _, _ in one["stretches"]]  # "missing"


def test_a_recording_too_short_to_say_anything(written, trained, glide):
    panel = mt.Panel.from_arrays([glide.panel.values[:1]], channels=list(glide.panel.channels))
    page = written(trained.recover(panel), panel=panel)
    assert "too short to say anything; verdict: do not trust" in page.text


def test_pooled_trials_show_their_mean(written, trained, world):
    panel = world.transition("simple", series=5, seed=1).panel
    page = written(trained.recover(panel, pool=True), panel=panel)
    [one] = page.content["series"]
    mean = np.stack(panel.to_arrays()).mean(axis=0)
    np.testing.assert_allclose(unpack(one["signals"]["channels"]), mean, atol=1e-3)
    assert "5 trials pooled" in one["how"]


def test_how_a_curve_was_made(written, trained, path, glide):
    causal = trained.recover(glide.panel, causal=True)
    assert "causal (uses only the past)" in written(causal).content["series"][0]["how"]
    other = dataclasses.replace(path, calibration="matrix")
    assert ", matrix calibration;" in written(other).content["series"][0]["how"]


def test_dates_stay_dates(written, path):
    start = np.datetime64("2026-03-01T08:00", "ns")
    dated = dataclasses.replace(path, time=start + np.arange(20) * np.timedelta64(5, "m"))
    [one] = written(dated).content["series"]
    assert one["dates"]
    assert one["time"]["first"] == 1772352000000.0
    for event in one["events"]:
        assert re.fullmatch(r"\d\d:\d\d", event["midpoint"])


def test_nothing_to_report_on(trained, tmp_path):
    with pytest.raises(DataError, match="no curve to report on"):
        mt.report(trained, [], tmp_path / "r.html")


def test_the_missing_package_is_named_with_the_line_that_installs_it(
    trained, path, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(MissingDependency, match=r'pip install "mechtrace\[report\]"'):
        mt.report(trained, path, tmp_path / "r.html")
    assert not list(tmp_path.iterdir())


def test_the_command_line_writes_the_whole_report(trained, glide, tmp_path, command):
    model, data, file = (tmp_path / name for name in ("m.mechtrace", "new.csv", "r.html"))
    trained.save(model)
    glide.panel.without_labels().to_csv(data)
    code, out, _ = command("recover", model, data, "--out", tmp_path / "a.csv", "--report", file)
    assert code == 0, out
    page = Page(file)
    assert f"mechtrace recover {model} {data}" in page.text
    assert "channels" in page.content["series"][0]["signals"]


def test_the_public_name_is_the_function_whatever_was_imported_before():
    import mechtrace.viz.report

    assert mt.report is mechtrace.viz.report.report
