"""Plots and the report: they show what the result says, and user strings stay text."""

from __future__ import annotations

import dataclasses

import matplotlib as mpl
import numpy as np
import pytest

import mechtrace as mt

mpl.use("Agg")


@pytest.fixture
def path(trained, world):
    return trained.recover(world.transition("simple", seed=4).panel)


def test_plot_shows_every_regime_and_its_band(path):
    truth = np.full(path.alpha.shape, 1 / 3)
    ax = path.plot(truth=truth)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == list(path.regimes)
    drawn = [line.get_ydata() for line in ax.get_lines() if line.get_linestyle() == "-"]
    assert all(np.allclose(y, path.alpha[:, k]) for k, y in enumerate(drawn))
    assert sum(line.get_linestyle() == "--" for line in ax.get_lines()) == 3
    mpl.pyplot.close("all")


def test_report_is_self_contained_and_escapes_names(trained, path, tmp_path):
    bad = "<script>alert(1)</script>"
    hostile = dataclasses.replace(path, name=bad, regimes=(bad, "b&b", "c"))
    file = tmp_path / "r.html"
    mt.report(trained, [hostile, path], file)
    text = file.read_text()
    assert "<script" not in text.lower()
    assert "&lt;script&gt;" in text
    assert text.count("data:image/png;base64,") == 2
    assert "src='http" not in text


def test_a_calibrated_curve_says_so(trained, path, tmp_path):
    mt.report(trained, [dataclasses.replace(path, calibration="matrix")], tmp_path / "r.html")
    assert ", matrix calibration;" in (tmp_path / "r.html").read_text()


def test_the_report_leads_with_the_verdict_and_explains_every_finding(trained, path, tmp_path):
    far = dataclasses.replace(path, latent_mean=path.latent_mean + 100.0)
    file = tmp_path / "r.html"
    mt.report(trained, far, file)
    text = file.read_text()
    diagnosis = trained.diagnose(far)
    assert text.index("Do not trust this curve") < text.index("<h2>")
    for finding in diagnosis.findings:
        assert f">{finding.code}</td>" in text
    assert "check units and sensors" in text  # the next step of the bad finding
    assert text.index("<td class='level bad'>") < text.index("<td class='level good'>")


def test_many_recordings_are_not_all_drawn(trained, path, tmp_path):
    file = tmp_path / "r.html"
    mt.report(trained, [path] * 14, file)
    assert "2 more recordings are not drawn" in file.read_text()


def test_the_public_name_is_the_function_whatever_was_imported_before():
    import mechtrace.reports

    assert mt.report is mechtrace.reports.report
