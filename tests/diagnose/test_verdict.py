"""Findings that a person can act on."""

from __future__ import annotations

import dataclasses
import json
import tracemalloc

import numpy as np
import pytest
from diagnose_cases import dependent_surprise

import mechtrace as mt
from mechtrace.diagnose import Diagnosis, Finding, diagnose
from mechtrace.diagnose.findings import rounded
from mechtrace.diagnose.verdict import backtracking
from mechtrace.errors import NotFitted
from mechtrace.stage2.trajectory import Curve
from mechtrace.worlds import EmergentEdge


def test_a_diagnosis_speaks(trained, world):
    path = trained.recover(world.transition("simple", series=1, seed=2).panel)
    diagnosis = trained.diagnose(path)
    assert diagnosis.verdict in ("trust", "caution", "do not trust")
    assert {f.code for f in diagnosis.findings} >= {"separation", "convexity", "operating point"}
    frame = diagnosis.to_frame()
    columns = ["code", "level", "value", "threshold", "meaning", "next_step", "side"]
    assert list(frame.columns) == columns
    told = diagnosis.to_dict()
    assert told["expected_error"] == path.expected_error
    assert {f["code"] for f in told["findings"] if f["decisive"]} == {
        "sensors", "expected error", "unexplained steps"
    }  # fmt: skip
    error = rounded(path.expected_error)
    head = f"{path.name}: {diagnosis.verdict}; shares are likely within {error}"
    assert str(diagnosis).splitlines()[0] == head


def test_findings_that_need_attention_come_first_and_others_are_folded():
    found = Diagnosis(
        "new",
        (
            Finding("separation", "good", 9.0, 3.0, "Far apart.", side="at least"),
            Finding("convexity", "bad", 0.001, 0.05, "Not convex.", "Look.", "at least"),
            Finding("expected error", "good", 0.05, 0.12, "Small."),
            Finding("A3", "untestable", np.nan, np.nan, "Unknown."),
        ),
    )
    assert str(found).splitlines() == [
        "new: trust; shares are likely within 0.05",
        "  bad        convexity = 0.001: Not convex. -> Look.",
        "  good       separation, expected error",
        "  untestable A3",
    ]
    assert [one["side"] for one in found.to_dict()["findings"][:2]] == ["at least", "at most"]
    sensor = Finding("sensors", "bad", 1.0, 0.0, "Channel 'a' is stuck.")
    off = Diagnosis("new", (*found.findings, sensor))
    assert off.off == sensor
    assert off.to_dict()["expected_error"] is None
    assert str(off).startswith("new: do not trust\n  bad        sensors")


def test_another_operating_point_is_noticed(trained, world):
    path = trained.recover(world.transition("simple", series=1, seed=2).panel)
    shifted = dataclasses.replace(path, latent_mean=path.latent_mean + 100.0)
    assert trained.diagnose(shifted)["operating point"].level == "bad"
    assert trained.diagnose(shifted).verdict == "do not trust"


def test_duplicate_regimes_are_noticed_and_named(trained, world):
    path = trained.recover(world.transition("simple", series=1, seed=2).panel)
    same = trained.statistics_.gram.copy()
    same[1] = same[0]
    same[:, 1] = same[:, 0]
    reference = dataclasses.replace(trained.statistics_, gram=same)
    finding = diagnose(path, reference)["mergeable regimes"]
    assert finding.level == "bad"
    assert "'R0' and 'R1'" in finding.meaning
    assert "Merge 'R0' and 'R1' and fit 2 regimes" in finding.next_step
    # a model without these figures is judged by the recording itself
    bare = dataclasses.replace(reference, gram=np.empty((0, 0)))
    assert diagnose(path, bare)["mergeable regimes"].level == "good"
    twice = path.information.copy()
    twice[2], twice[:, 2] = twice[0], twice[:, 0]
    twice[2, 2] = twice[0, 0]
    doubled = dataclasses.replace(path, information=twice)
    assert "'R0' and 'R2'" in diagnose(doubled, bare)["mergeable regimes"].meaning


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_short_recordings_have_a_diagnosis(trained, world, rows):
    panel = mt.Panel.from_arrays(
        world.transition("simple", series=1, seed=2).observations[:, :rows]
    )
    path = trained.recover(panel)
    diagnosis = trained.diagnose(path)
    if rows <= 2:  # no row with a full history
        assert diagnosis.verdict == "do not trust"
        assert diagnosis["evidence"].next_step
    else:
        assert diagnosis["convexity"].value > 0.01


def test_a_recording_of_nothing_is_not_trusted(trained, world):
    values = world.transition("simple", series=1, seed=2).observations.copy()
    values[:, ::2] = np.nan
    path = trained.recover(mt.Panel.from_arrays(values, missing="gap"))
    assert [f.code for f in trained.diagnose(path).findings] == ["evidence"]


def test_two_regimes_and_pools_and_older_models(trained, world):
    glide = world.transition("simple", series=4, seed=2).panel
    two = trained.recover(glide, pool=True, active=["R0", "R2"])
    assert trained.diagnose(two)["separation"].value > 0
    older = dataclasses.replace(
        trained.statistics_, pure_error=np.empty((0, 0, 0)), pure_past=np.empty((0, 0, 0))
    )
    found = diagnose(two, older)
    assert 0 < found["convexity"].value <= 1
    assert "A6 noise" not in [finding.code for finding in found.findings]


def test_findings_are_complete(trained, world):
    """Whatever is wrong comes with a meaning and a next step, and JSON can hold it all."""
    glide = world.transition("linear", active=[0, 2], series=1, seed=2, emergent=EmergentEdge(
        source=0, target=1, strength=3.0, regime=2))  # fmt: skip
    diagnosis = trained.diagnose(trained.recover(glide.panel))
    for finding in diagnosis.findings:
        assert finding.meaning
        numbers = np.isfinite([finding.value, finding.threshold])
        assert numbers.any() == numbers.all() == (finding.level != "untestable")
        assert finding.level == "good" or finding.next_step
    json.dumps(diagnosis.to_dict(), allow_nan=False)
    assert [f.level for f in diagnosis.by_weight()] == sorted(
        (f.level for f in diagnosis.findings), key=["bad", "caution", "good", "untestable"].index
    )


@pytest.fixture
def loud(trained, world):
    """A valid recording with a burst of errors, and a model that knows many pure series."""
    path = trained.recover(world.transition("simple", series=1, seed=2).panel)
    surprise = path.surprise.copy()
    surprise[10:16] = 50.0
    pure = dependent_surprise(np.random.default_rng(0), 60, 20)
    known = dataclasses.replace(trained.statistics_, surprise=pure)
    return dataclasses.replace(path, surprise=surprise), known


def test_what_data_cannot_show_is_not_called_good(trained, world):
    path = trained.recover(world.transition("simple", series=1, seed=2).panel)
    diagnosis = trained.diagnose(path)
    finding = diagnosis["A3, A5 on trust"]
    assert finding.level == "untestable"
    assert str(finding).startswith("untestable A3, A5 on trust: ")
    assert diagnosis.to_dict()["findings"][-1]["value"] is None
    assert "–" in diagnosis._repr_html_()
    words = [text.get_text() for text in diagnosis.plot().texts]
    assert "not testable from data" in words
    alone = dataclasses.replace(diagnosis, findings=(finding,))
    assert alone.verdict == "trust"
    calm = Finding("x", "good", 1.0, 1.0, "meaning")
    assert dataclasses.replace(alone, findings=(finding, calm)).by_weight()[0] == calm


def test_unexplained_stretches_are_named_in_the_users_time(loud):
    path, known = loud
    later = dataclasses.replace(path, time=path.time + 1000.0)
    finding = diagnose(later, known)["convexity"]
    assert finding.level == "bad"
    assert "No mixture of the known mechanisms" in finding.meaning
    assert "10" in finding.meaning.split("from ")[1]


def test_one_held_out_group_raises_no_more_than_a_suspicion(loud):
    path, known = loud
    for groups, level in [(0, "bad"), (1, "caution")]:
        group = np.zeros(groups * len(known.surprise), int)
        told = dataclasses.replace(known, group=group)
        finding = diagnose(path, told)["convexity"]
        assert finding.level == level
        assert ("another group" in finding.meaning) == (groups == 1)


def test_the_verdict_is_that_of_the_worst_finding():
    def finding(level):
        return Finding("x", level, 1.0, 1.0, "meaning", "next")

    assert Diagnosis("a", (finding("good"),)).verdict == "trust"
    assert Diagnosis("a", (finding("good"), finding("caution"))).verdict == "caution"
    assert Diagnosis("a", (finding("bad"), finding("good"))).verdict == "do not trust"
    assert Diagnosis("a", ()).verdict == "trust"


def test_diagnosis_needs_a_finished_model(trained):
    bare = mt.Trace()
    with pytest.raises(NotFitted):
        bare.diagnose(None)


def test_blocks_that_contradict_each_other_are_reported(trained, world):
    path = trained.recover(world.transition("simple", series=1, seed=4).panel)
    assert "agreement" not in {finding.code for finding in trained.diagnose(path).findings}
    both = {"prediction(1)": Curve(path.alpha, path.lower, path.upper)}
    calm = dataclasses.replace(path, by_evidence=both)
    assert trained.diagnose(calm)["agreement"].level == "good"
    flag = np.where(np.arange(len(path)) > 10, "disagree", path.flag)
    loud = trained.diagnose(dataclasses.replace(calm, flag=flag))["agreement"]
    assert loud.level == "bad"
    assert f"between {path.time[11]} and {path.time[-1]}" in loud.meaning


def as_algorithm1(path, reference, **changes):
    return diagnose(dataclasses.replace(path, method="algorithm1", **changes), reference)[
        "sigma_min"
    ]


def test_means_closer_than_states_scatter_are_reported(trained, world):
    path = trained.recover(world.transition("simple", series=1, seed=2).panel)
    reference = trained.statistics_
    d = reference.means.shape[1]
    far = dataclasses.replace(
        reference, means=np.eye(3, d), spread=0.04 * np.eye(d), between=0.01 * np.eye(d)
    )
    assert as_algorithm1(path, far).level == "good"
    # the means are as far apart as before, and known as well, but single states are all over
    wide = dataclasses.replace(far, spread=4 * np.eye(d))
    finding = as_algorithm1(path, wide)
    assert finding.level == "bad"
    assert "0.61 standard deviations of a state" in finding.meaning
    assert "state-space" in finding.next_step
    assert finding.value < finding.threshold
    assert as_algorithm1(path, dataclasses.replace(far, spread=0.2 * np.eye(d))).level == "caution"
    assert diagnose(path, wide)["sigma_min"].level == "good"  # the default does not go by means
    # the mean of many trials scatters less, which is no help if the means are not known
    assert as_algorithm1(path, wide, trials=200).level == "good"
    vague = dataclasses.replace(wide, between=4 * np.eye(d))
    assert as_algorithm1(path, vague, trials=200).level != "good"
    same = dataclasses.replace(far, means=np.ones((3, d)))
    finding = as_algorithm1(path, same)
    assert finding.level == "bad"
    assert "no step distinguishes them" in finding.meaning
    assert 0 < finding.threshold < np.inf


def test_backtracking_is_zero_of_a_monotone_curve_and_one_half_of_a_zigzag():
    assert backtracking(np.linspace(0, 1, 41)) == 0.0
    assert backtracking(np.tile([0.0, 1.0], 20)) > 0.4


def test_memory_grows_no_faster_than_the_recording(trained, world):
    """Resampled recordings are never in memory as a whole: that took 5 kB per row."""
    once = world.transition("simple", length=1000).panel.values
    peaks = []
    for rows in (8_000, 16_000):
        path = trained.recover(mt.Panel.from_arrays([np.resize(once, (rows, once.shape[1]))]))
        tracemalloc.start()
        trained.diagnose(path)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 2.1 * peaks[0]
    assert peaks[1] < 100e6  # measured: 43 MB


def test_intervals_that_no_data_can_give_are_not_good(trained, world):
    path = trained.recover(world.transition("simple", series=1, seed=2).panel)
    usual = trained.diagnose(path)["interval width"]
    assert usual.side == "at most"
    flat = np.zeros_like(path.alpha)
    flat[:, 0] = 1.0
    stuck = dataclasses.replace(path, alpha=flat, lower=flat, upper=flat + 1e-18)
    found = trained.diagnose(stuck)["interval width"]
    assert (found.level, found.side) == ("caution", "at least")
    assert "narrower than this recording can tell" in found.meaning
    error = np.full(len(path), 0.2)  # the error is larger than the whole interval
    narrow = dataclasses.replace(
        path, lower=path.alpha - 0.01, upper=path.alpha + 0.01, error=error
    )
    assert trained.diagnose(narrow)["interval width"].level == "caution"


def test_a_value_and_its_sentence_are_rounded_alike(trained, world):
    path = trained.recover(world.transition("simple", series=1, seed=2).panel)
    diagnosis = trained.diagnose(path)
    for code in ("expected error", "separation", "information", "interval width"):
        finding = diagnosis[code]
        assert finding.shown in finding.meaning, code
        assert f"{code} = {finding.shown}:" in str(finding)
