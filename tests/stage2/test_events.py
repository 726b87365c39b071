"""Handovers in curves whose handovers are known."""

from __future__ import annotations

from dataclasses import MISSING, fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechtrace.stage2.events import Event, common_transition, events_frame, find_events
from mechtrace.stage2.trajectory import Trajectory

NAMES = ("A", "B", "C")


def curve(*corners: tuple[float, int], length: int = 101) -> np.ndarray:
    """Weights that run straight from corner to corner: (time, regime)."""
    times = [time for time, _ in corners]
    knots = np.eye(3)[[regime for _, regime in corners]]
    t = np.arange(length)
    return np.column_stack([np.interp(t, times, knots[:, k]) for k in range(3)])


def path(alpha: np.ndarray, time: np.ndarray | None = None) -> Trajectory:
    steps = len(alpha)
    given = {
        "name": "run",
        "time": np.arange(steps) if time is None else time,
        "regimes": NAMES,
        "alpha": alpha,
        "flag": np.full(steps, ""),
    }
    needed = [f.name for f in fields(Trajectory) if f.default is MISSING]
    return Trajectory(**{name: np.zeros(steps) for name in needed} | given)


def test_a_linear_ramp():
    alpha = curve((30, 0), (70, 1))
    (event,) = find_events(np.arange(101), alpha, NAMES)
    assert (event.from_regime, event.to_regime) == ("A", "B")
    assert event.onset == pytest.approx(34, abs=1)  # A at 0.9
    assert event.midpoint == pytest.approx(50, abs=1)
    assert event.end == pytest.approx(66, abs=1)  # B at 0.9
    assert event.duration == event.end - event.onset
    assert event.duration == pytest.approx(32, abs=2)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 300), st.integers(20, 600), st.floats(0.02, 0.4), st.permutations([0, 1, 2]))
def test_any_ramp_is_found_to_a_step(start, width, edge, order):
    old, new, _ = order
    alpha = curve((start, old), (start + width, new), length=1000)
    (event,) = find_events(np.arange(1000), alpha, NAMES, edge=edge)
    assert (event.from_regime, event.to_regime) == (NAMES[old], NAMES[new])
    assert event.onset == pytest.approx(start + edge * width, abs=1.01)
    assert event.midpoint == pytest.approx(start + width / 2, abs=1.01)
    assert event.end == pytest.approx(start + (1 - edge) * width, abs=1.01)


def test_a_step_is_short():
    alpha = np.repeat(np.eye(3)[[2, 0]], [40, 60], axis=0)
    (event,) = find_events(np.arange(100), alpha, NAMES)
    assert (event.from_regime, event.to_regime) == ("C", "A")
    assert event.onset in (39, 40)
    assert event.midpoint == 40
    assert event.end == 40
    assert event.duration <= 1


def test_one_after_the_other():
    alpha = curve((10, 0), (30, 1), (50, 1), (90, 2))
    first, second = find_events(np.arange(101), alpha, NAMES)
    assert [first.from_regime, first.to_regime] == ["A", "B"]
    assert [second.from_regime, second.to_regime] == ["B", "C"]
    assert first.midpoint == pytest.approx(20, abs=1)
    assert second.midpoint == pytest.approx(70, abs=1)
    assert second.onset == pytest.approx(54, abs=1)
    assert first.end <= second.onset


def test_there_and_back():
    alpha = curve((10, 0), (30, 1), (60, 1), (80, 0))
    events = find_events(np.arange(101), alpha, NAMES)
    assert [(e.from_regime, e.to_regime) for e in events] == [("A", "B"), ("B", "A")]
    assert [e.midpoint for e in events] == pytest.approx([20, 70], abs=1)
    assert events[1].end == pytest.approx(78, abs=1)


def test_a_regime_that_never_gets_pure_hands_over_at_its_peak():
    alpha = curve((0, 0), (100, 2))
    hump = np.interp(np.arange(101), [20, 50, 80], [0, 0.6, 0])[:, None]
    alpha = alpha * (1 - hump) + hump * np.eye(3)[1]
    first, second = find_events(np.arange(101), alpha, NAMES)
    assert [first.to_regime, second.to_regime] == ["B", "C"]
    assert first.end == second.onset == 50


@pytest.mark.parametrize("regime", range(3))
@pytest.mark.parametrize("length", [1, 2, 50])
def test_no_change_is_no_event(regime, length):
    alpha = np.repeat(np.eye(3)[[regime]], length, axis=0)
    assert find_events(np.arange(length), alpha, NAMES) == []
    wobble = 0.7 * alpha + 0.1
    assert find_events(np.arange(length), wobble, NAMES) == []
    assert str(path(alpha)) == f"run: no change, {NAMES[regime]} throughout"


def test_a_blip_is_an_event_only_if_it_may_be():
    alpha = curve((0, 0), (100, 0))
    alpha[40:43] = np.eye(3)[1]
    time = np.arange(101)
    events = find_events(time, alpha, NAMES, minimum=1)
    assert [(e.from_regime, e.to_regime) for e in events] == [("A", "B"), ("B", "A")]
    assert len(find_events(time, alpha, NAMES, minimum=3)) == 2
    assert find_events(time, alpha, NAMES, minimum=4) == []


def test_a_blip_between_two_regimes_does_not_hide_their_handover():
    alpha = np.repeat(np.eye(3)[[0, 2, 1]], [40, 2, 58], axis=0)
    (event,) = find_events(np.arange(100), alpha, NAMES, minimum=5)
    assert (event.from_regime, event.to_regime) == ("A", "B")
    assert event.midpoint == 42


def test_missing_rows_are_passed_over():
    alpha = curve((30, 0), (70, 1))
    (whole,) = find_events(np.arange(101), alpha, NAMES)
    alpha[:2] = np.nan
    alpha[45:48] = np.nan
    alpha[90] = np.nan
    assert find_events(np.arange(101), alpha, NAMES) == [whole]
    alpha[48:56] = np.nan  # the middle itself: the first row known after it
    (event,) = find_events(np.arange(101), alpha, NAMES)
    assert event.midpoint == 56
    assert (event.onset, event.end) == (whole.onset, whole.end)
    assert find_events(np.arange(101), np.full((101, 3), np.nan), NAMES) == []


def test_dates_give_durations():
    start = np.datetime64("2024-03-01T00:00:00", "ns")
    time = start + np.arange(101) * np.timedelta64(250, "ms")
    alpha = curve((30, 0), (70, 1))
    (plain,) = find_events(np.arange(101), alpha, NAMES)
    (event,) = find_events(time, alpha, NAMES)
    for name in ("onset", "midpoint", "end"):
        assert getattr(event, name) == time[getattr(plain, name)]
    assert isinstance(event.duration, np.timedelta64)
    assert event.duration == plain.duration * np.timedelta64(250, "ms")


def test_times_are_the_users_own():
    time = 1000 - 7.5 + 2.5 * np.arange(101)
    alpha = curve((30, 0), (70, 1))
    (plain,) = find_events(np.arange(101), alpha, NAMES)
    (event,) = find_events(time, alpha, NAMES)
    assert event.midpoint == time[plain.midpoint]
    assert event.duration == pytest.approx(2.5 * plain.duration)


def test_a_stricter_edge_starts_earlier_and_ends_later():
    alpha, time = curve((30, 0), (70, 1)), np.arange(101)
    (wide,) = find_events(time, alpha, NAMES, edge=0.05)
    (narrow,) = find_events(time, alpha, NAMES, edge=0.3)
    assert wide.onset < narrow.onset < narrow.end < wide.end
    assert wide.midpoint == narrow.midpoint


def test_renaming_and_reordering_regimes_changes_only_names():
    alpha = curve((10, 0), (30, 1), (50, 1), (90, 2))
    base = find_events(np.arange(101), alpha, NAMES)
    order = [2, 0, 1]
    turned = find_events(np.arange(101), alpha[:, order], tuple(NAMES[k] for k in order))
    # ties go to the first column, so a midpoint may shift by a step
    for one, other in zip(base, turned, strict=True):
        assert (one.from_regime, one.to_regime) == (other.from_regime, other.to_regime)
        assert (one.onset, one.end) == (other.onset, other.end)
        assert abs(one.midpoint - other.midpoint) <= 1


def test_the_trajectory_passes_everything_on_and_tells_the_story():
    alpha = curve((10, 0), (30, 1), (50, 1), (90, 2))
    alpha[40] = np.eye(3)[2]
    run = path(alpha, time=np.arange(101) * 10)
    expected = find_events(np.arange(101) * 10, alpha, NAMES, edge=0.2, minimum=2)
    assert run.events(edge=0.2, minimum=2) == expected
    assert len(run.events()) == 4
    assert isinstance(expected[0], Event)
    text = str(run)
    assert text.startswith("run: A until ")
    assert text.index("B from") < text.index("C from")
    assert "halfway at 200" in text or "halfway at 210" in text
    assert len(run) == 101


# --- several recordings ----------------------------------------------------------------------


def event(old, new, onset=0.0, length=1.0):
    return Event(old, new, onset, onset + length / 2, onset + length, length)


def test_the_common_transition_is_that_of_most_recordings():
    first, second, back = event("A", "B"), event("A", "B", 5.0), event("B", "A", 9.0, 4.0)
    assert common_transition([[first, back], [back, second], [second], []]) == [
        first, second, second, None,
    ]  # fmt: skip
    assert common_transition([[first, back]]) == [back]  # as common, but longer
    assert common_transition([[], []]) == [None, None]


def test_events_as_a_table_have_durations_in_seconds():
    day = np.datetime64("2024-01-31T10:00:00")
    minute = np.timedelta64(1, "m")
    dated = Event("A", "B", day, day + minute, day + 2 * minute, 2 * minute)
    frame = events_frame([dated])
    assert frame["duration"].tolist() == [120.0]
    assert frame["midpoint"][0] == day + minute
    assert list(frame.columns) == ["from", "to", "onset", "midpoint", "end", "duration"]
    assert events_frame([event("A", "B", 0.1, 13.700000000000001)])["duration"].tolist() == [13.7]
    assert len(events_frame([])) == 0
