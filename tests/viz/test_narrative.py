"""Results as sentences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import mechtrace as mt
from mechtrace.diagnose.findings import Finding
from mechtrace.stage2.events import Event
from mechtrace.viz.narrative import Clock, answer, limit, sentence, sequence

ONE = Event("walk", "run", 1.8, 2.0, 2.2, 0.4)
BACK = Event("run", "walk", 3.0, 3.5, 4.0, 1.0)


@pytest.fixture
def path():
    shares = np.tile([0.9, 0.1], (50, 1))
    return mt.plot.curve(shares, np.arange(0, 5, 0.1), ["walk", "run"], name="trial")


def test_the_answer_is_one_sentence(path):
    assert answer(path, [ONE]) == "walk until 1.8, run from 2.2 (halfway at 2.0)"
    assert answer(path, [ONE, BACK]).endswith("(halfway at 2.0), walk from 4.0 (halfway at 3.5)")
    assert answer(path, []) == "no change, walk throughout"
    assert sequence(path, [ONE, BACK]) == "walk → run → walk"


def test_without_a_clear_leader_the_answer_says_so(path):
    mixed = replace(path, alpha=np.tile([0.6, 0.4], (50, 1)))
    assert answer(mixed, []) == "no clear change; walk leads with 0.60 on average"
    unknown = replace(path, alpha=np.full((50, 2), np.nan))
    assert answer(unknown, []) == "too short to say anything"


def test_many_changes_are_counted(path):
    events = [Event("walk", "run", t, t, t, 0) for t in range(9)]
    assert answer(path, events).startswith("9 changes of the leading regime, the first from walk")
    assert "…" in sequence(path, events)


def test_a_trajectory_prints_the_same_sentence(path):
    half = replace(path, alpha=np.repeat(np.eye(2), 25, axis=0))
    assert str(half) == sentence(half) == "trial: walk until 2.4, run from 2.5 (halfway at 2.5)"


@pytest.mark.parametrize(
    ("step", "unit", "moment", "duration"),
    [(1, "D", "2026-01-03", "2 days"), (1, "m", "00:02", "2 min"),
     (5, "ms", "00:00:00.010", "10 ms")],
)  # fmt: skip
def test_clocks_are_as_precise_as_the_stamps(step, unit, moment, duration):
    time = np.datetime64("2026-01-01", "ns") + np.arange(4) * np.timedelta64(step, unit)
    clock = Clock(time)
    assert clock.moment(time[2]) == moment
    assert clock.duration(time[2] - time[0]) == duration


@pytest.mark.parametrize(
    ("level", "value", "threshold", "side", "said"),
    [("good", 9.0, 3.0, "at least", "at least 3"), ("bad", 1.0, 3.0, "at least", "at least 3"),
     ("good", 0.1, 0.4, "at most", "at most 0.4"), ("good", 5.0, 3.0, "at most", "at most 3"),
     ("good", np.nan, 0.4, "at most", "at most 0.4"), ("untestable", np.nan, np.nan, "", "–")],
)  # fmt: skip
def test_limits_have_a_direction(level, value, threshold, side, said):
    assert limit(Finding("code", level, value, threshold, "", side=side)) == said
