"""The report in a real browser; skipped where there is none (`make browser` fetches one)."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import replace

import chromium
import numpy as np
import pytest

import mechtrace as mt

FOUND = chromium.find()
pytestmark = pytest.mark.skipif(
    FOUND is None, reason="no Chromium: run make browser, or set MECHTRACE_CHROMIUM to one"
)
BAD = "<script>alert(1)</script>"
EVIL = "<img src=x onerror=alert(2)><b>%{y}</b>"


@pytest.fixture(scope="module")
def browser():
    one = chromium.Browser(FOUND)
    yield one
    one.close()


@pytest.fixture(scope="module")
def files(trained, world, tmp_path_factory):
    """Reports of a pool as in the demo, of one recording with hostile names, of many."""
    folder = tmp_path_factory.mktemp("reports")
    glide = world.transition("simple", series=40, seed=4)
    pooled, singles = trained.recover(glide.panel, pool=True), trained.recover(glide.panel)
    mt.report(
        trained, [pooled, *singles[:2]], folder / "demo.html", panel=glide.panel,
        truth=glide.alpha[0], command="mechtrace demo",
    )  # fmt: skip
    mt.report(trained, pooled, folder / "one.html", panel=glide.panel)
    hostile = mt.load(_renamed(trained, folder))
    panel = dataclasses.replace(
        glide.panel[:1], names=np.array([BAD]), source=BAD,
        channels=(BAD, EVIL, *glide.panel.channels[2:]),
    )  # fmt: skip
    mt.report(hostile, hostile.recover(panel), folder / "hostile.html", panel=panel, command=BAD)
    many = world.transition("simple", series=1000, seed=5).panel
    mt.report(trained, trained.recover(many), folder / "many.html", panel=many)
    return folder


def _renamed(trained, folder):
    """The model as if its regimes and channels had been called something evil."""
    record = trained.record_
    data = replace(
        record.data,
        regimes=(BAD, EVIL, "c"),
        channels=(BAD, EVIL, *record.data.channels[2:]),
        training_series=dict.fromkeys([BAD, EVIL, "c"], 1),
        held_out_series=dict.fromkeys([BAD, EVIL, "c"], 1),
    )
    gains = dict(zip(data.regimes, record.validation.gain_over_no_history.values(), strict=True))
    validation = replace(record.validation, gain_over_no_history=gains)
    trained.record_ = replace(record, data=data, validation=validation)
    try:
        trained.save(folder / "hostile.mechtrace")
    finally:
        trained.record_ = record
    return folder / "hostile.mechtrace"


def drawn(browser):
    """Regimes whose curves are visible in the chart."""
    return browser.evaluate(
        "document.getElementById('shares').data.filter(t => t.meta.layer === 'shares'"
        " && t.visible).length"
    )


def test_the_demo_draws_everything_without_a_complaint(browser, files):
    browser.open(files / "demo.html")
    for chart in ("shares", "sensors", "residual", "channels", "simplex", "matrices", "mixture"):
        assert browser.evaluate(f"!!document.querySelector('#{chart} .main-svg')"), chart
    assert browser.evaluate("document.querySelectorAll('#graph path').length") > 2
    assert browser.evaluate("document.querySelector('.top').getBoundingClientRect().top") == 0
    assert browser.evaluate("document.querySelectorAll('#training .main-svg').length") >= 2
    assert browser.evaluate("document.querySelectorAll('#passed .findings tbody tr').length") > 5
    assert not browser.evaluate("document.getElementById('passed').open")
    pressing = "#diagnosis > .scroll tbody tr"
    levels = f"[...document.querySelectorAll('{pressing}')].map((row) => row.dataset.level)"
    assert browser.evaluate(f"{levels}.every((level) => ['bad', 'caution'].includes(level))")
    assert browser.problems == []


def test_recordings_are_aligned_at_the_moment_that_is_chosen(browser, files):
    browser.open(files / "many.html")
    title = "document.getElementById('aligned').layout.xaxis.title.text"
    assert browser.evaluate(title) == "time since the halfway point"
    crossing = (
        "(() => { const m = document.getElementById('aligned').data.at(-1);"
        " return Math.min(...m.x.map((x, i) => Math.abs(x) < 0.5 ? Math.abs(m.y[i] - 0.5) : 9));"
        " })()"
    )
    assert browser.evaluate(crossing) < 0.25
    buttons = "document.querySelectorAll('#overview .choice button')"
    browser.evaluate(f"{buttons}[0].click()")
    assert browser.evaluate(title) == "time since the onset"
    assert browser.problems == []


def test_dark_pages_are_printed_dark_on_white_one_chart_below_the_other(browser, files, tmp_path):
    browser.open(files / "demo.html", dark=True)
    assert browser.evaluate("document.documentElement.dataset.theme") == "dark"
    browser.call("Emulation.setEmulatedMedia", media="print")
    style = "getComputedStyle(document.body)"
    assert browser.evaluate(f"{style}.color") == "rgb(28, 33, 40)"  # also without any script
    assert browser.evaluate(f"{style}.backgroundColor") == "rgb(255, 255, 255)"
    assert browser.evaluate("getComputedStyle(document.querySelector('.pair')).display") == "block"
    browser.call("Emulation.setEmulatedMedia", media="")
    browser.pdf(tmp_path / "r.pdf")
    assert (tmp_path / "r.pdf").stat().st_size > 20_000
    assert browser.problems == []


def test_hovering_shows_values(browser, files):
    browser.open(files / "one.html")
    browser.move("#shares .nsewdrag", 0.4, 0.5)
    browser.wait("document.querySelectorAll('#shares .hoverlayer .legend text').length > 0")
    text = browser.evaluate("document.querySelector('#shares .hoverlayer').textContent")
    assert "R0 : 0." in text
    assert " to " in text  # the interval
    assert browser.problems == []


def test_toggling_hides_a_regime_and_shows_it_again(browser, files):
    browser.open(files / "one.html")
    assert drawn(browser) == 3
    browser.evaluate("document.querySelector('#toggles button').focus()")
    browser.press("Enter", 13)  # by the keyboard, as by the mouse
    browser.wait("document.querySelector('#toggles button').ariaPressed === 'false'")
    assert drawn(browser) == 2
    browser.evaluate("document.querySelector('#toggles button').click()")
    assert drawn(browser) == 3
    assert browser.problems == []


def test_zooming_one_chart_zooms_all(browser, files):
    browser.open(files / "one.html")
    browser.evaluate(
        "void Plotly.relayout('residual', {'xaxis.range[0]': 5, 'xaxis.range[1]': 9})"
    )
    for chart in ("shares", "sensors", "channels"):
        shown = f"document.getElementById('{chart}').layout.xaxis.range"
        browser.wait(f"{shown}.map(Math.round).join() === '5,9'")
    browser.evaluate("document.querySelector('.stack').focus()")
    browser.press("0", 48)
    browser.wait("document.getElementById('channels').layout.xaxis.range[1] > 18")
    assert browser.problems == []


def test_keys_walk_through_time_and_the_graph_follows(browser, files):
    browser.open(files / "one.html")
    before = browser.evaluate("document.getElementById('graph').innerHTML")
    browser.evaluate("document.querySelector('.stack').focus()")
    for _ in range(6):
        browser.press("ArrowRight", 39)
    browser.wait("document.getElementById('moment').value === '6'")
    assert browser.evaluate("document.getElementById('moment-text').textContent").startswith(
        "t = 6"
    )
    assert browser.evaluate("document.getElementById('graph').innerHTML") != before
    assert browser.problems == []


def test_names_stay_text(browser, files):
    browser.open(files / "hostile.html")
    assert browser.evaluate("document.querySelector('h1').textContent").endswith(BAD)
    assert browser.evaluate("document.querySelector('#toggles button').textContent") == BAD
    browser.move("#shares .nsewdrag", 0.4, 0.5)
    browser.wait("document.querySelectorAll('#shares .hoverlayer .legend text').length > 0")
    text = browser.evaluate("document.querySelector('#shares .hoverlayer').textContent")
    assert BAD[:20] in text
    assert EVIL[:20] in text
    assert browser.evaluate("document.querySelectorAll('img, main script, main b').length") == 0
    time.sleep(0.2)  # an alert would come a moment later
    assert browser.problems == []


def test_a_thousand_recordings_open_quickly_and_any_one_can_be_chosen(browser, files):
    file = files / "many.html"
    assert file.stat().st_size < 10e6
    assert min(browser.open(file) for _ in range(2)) < 3.0
    assert browser.evaluate("document.querySelectorAll('#overview tbody tr').length") == 100
    assert browser.evaluate("document.querySelectorAll('#overview .spark polygon').length") > 100
    browser.evaluate("document.querySelectorAll('#overview th button')[0].click()")
    browser.evaluate("document.querySelectorAll('#overview th button')[0].click()")
    first = "document.querySelector('#overview tbody .link')"
    assert browser.evaluate(f"{first}.textContent") == "999"  # sorted as numbers, downwards
    browser.evaluate(f"{first}.click()")
    browser.wait("document.getElementById('recording-name').textContent === '999'")
    browser.evaluate(
        "{ const s = document.querySelector('[type=search]'); s.value = '77';"
        " s.dispatchEvent(new Event('input')) }"
    )
    assert browser.evaluate(f"{first}.textContent").count("77") == 1
    assert browser.problems == []


@pytest.mark.parametrize("regimes", [2, 5])
def test_other_numbers_of_regimes_on_dark_narrow_and_paper(browser, tmp_path, small, regimes):
    world = mt.worlds.make("paper", regimes=regimes, latents=4, channels=6, length=20)
    model = mt.Trace(**small).fit(world.simulate(12).panel, progress=False)
    glide = world.transition("simple", seed=4).panel
    file = tmp_path / "r.html"
    mt.report(model, model.recover(glide, causal=True), file, panel=glide)
    browser.open(file, width=380, dark=True)
    dark = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert browser.evaluate("document.documentElement.scrollWidth") <= 380
    browser.evaluate("document.getElementById('theme').click()")
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") != dark
    browser.pdf(tmp_path / "r.pdf")
    assert (tmp_path / "r.pdf").stat().st_size > 20_000
    assert browser.evaluate("!!document.querySelector('#simplex .main-svg')")
    assert browser.problems == []


@pytest.mark.filterwarnings("ignore::mechtrace.errors.FitWarning")
def test_pictures_stand_along_the_time_axis(browser, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "mechtrace.stage1.fit_run.validate_model", lambda *_: None
    )  # too few steps to learn
    world = mt.worlds.make("cartpole", size=16, length=30)
    model = mt.Trace(latents=4, lags=2, hidden=16, steps=4, batch=6, align=False)
    model.fit(world.simulate(6).panel, progress=False)
    new = world.transition("simple", series=2, seed=9).panel
    mt.report(model, model.recover(new), tmp_path / "film.html", panel=new)
    browser.open(tmp_path / "film.html")
    browser.wait("document.querySelectorAll('#film image').length === 14")
    sources = browser.evaluate(
        "new Set([...document.querySelectorAll('#film image')].map((i) => i.getAttribute("
        "'href') ?? i.getAttribute('xlink:href'))).size"
    )
    assert sources == 14  # no two moments look the same
    assert browser.problems == []
