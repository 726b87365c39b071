"""The summary of the study of the zoo counts what the rows say."""

from __future__ import annotations

import pytest

from mechtrace_lab.studies.zoo_summary import finding_rates, markdown, tables, zoo_summary


def judged(mae, verdict, expected=0.05, **more):
    return {"mae": mae, "verdict": verdict, "expected": expected, "flagged": 0.0, "bad": [],
            "caution": []} | more  # fmt: skip


def row(system, valid):
    sensor = [judged(0.3, "do not trust", named=True, f1=1.0), judged(0.3, "trust", named=False)]
    other = [judged(0.3, "caution", f1=0.5, bad=["sensors"]), judged(0.3, "trust", f1=0.1)]
    return {
        "system": system, "seed": 0, "valid": valid, "pure": [judged(0.01, "trust")],
        "mechtrace": {"corr": 0.9, "mae": 0.1}, "oracle": {"corr": 1.0, "mae": 0.01},
        "algorithm1": {"corr": 0.5, "mae": 0.4}, "nearest-mean": {"corr": 0.5, "mae": 0.2},
        "pooled": {"corr": 0.9, "mae": 0.05},
        "intervals": {"cover": 0.9, "cover_between": 0.8, "width": 0.3},
        "faults": {kind: sensor if kind in ("units", "stuck", "swapped") else other
                   for kind in ("units", "stuck", "swapped", "foreign", "machine", "rate")},
    }  # fmt: skip


@pytest.fixture
def rows():
    good, wrong = judged(0.05, "trust", caution=["separation"]), judged(0.25, "do not trust")
    return [
        row("tanks", [good, wrong]),
        row("motor", [judged(0.05, "caution", expected=0.1, bad=["separation"]), wrong]),
    ]


def test_each_system_has_its_figures(rows):
    systems = zoo_summary(rows)["systems"]
    assert list(systems) == ["tanks", "motor", "all"]
    assert systems["tanks"]["good_trust"] == 1.0
    assert systems["motor"]["good_trust"] == 0.0
    assert systems["all"]["good_trust"] == 0.5
    assert systems["all"]["wrong_do_not_trust"] == 1.0
    assert systems["all"]["rival"] == pytest.approx(0.2)
    assert systems["all"]["named_swapped"] == 0.5
    assert systems["all"]["sensors_machine"] == 0.5
    assert systems["all"]["foreign_suspected"] == 0.5
    assert systems["tanks"]["expected_ratio"] == pytest.approx(0.15 / 0.31)


def test_alarm_rates_of_a_finding_tell_good_curves_apart(rows):
    rates = finding_rates(rows)["separation"]
    assert rates["valid_caution"] == rates["valid_bad"] == 0.25
    assert rates["good_caution"] == rates["good_bad"] == 0.5
    assert rates["pure_bad"] == 0.0


def test_without_wrong_curves_there_is_a_dash(rows):
    rows = [row("tanks", [judged(0.05, "trust")])]
    summary = zoo_summary(rows)
    header, lines = tables(summary)["trust"]
    assert lines[0][header.index("wrong: do not")] == "–"
    assert "| tanks | 0.900 | 0.100 | 0.200 |" in markdown(summary)
