"""Events: transitions of the leading regime in a trajectory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

#: Units of durations, in seconds.
UNITS = ((86400.0, "days"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"))
if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Event:
    """One transition, in the time stamps of the recording."""

    from_regime: str
    to_regime: str
    onset: Any  # last step at which the old regime holds 1 - edge (or is at its highest)
    midpoint: Any  # the new regime overtakes the old one
    end: Any  # the new regime reaches 1 - edge (or comes closest to it)
    duration: Any  # end - onset


def shown_time(time: Any) -> str:
    """Text of a time stamp, without trailing zeros.

    >>> shown_time(np.datetime64("2024-01-31T12:30:01.500000000")), shown_time(0.1 + 0.2)
    ('2024-01-31 12:30:01.5', '0.3')
    """
    if isinstance(time, np.datetime64):
        day, _, clock = str(time).partition("T")
        return f"{day} {clock.rstrip('0').rstrip('.') if '.' in clock else clock}".rstrip()
    if isinstance(time, np.timedelta64):
        return f"{time / np.timedelta64(1, 's'):.10g} s"
    return f"{time:.12g}" if isinstance(time, (float, np.floating)) else str(time)


def shown_duration(seconds: float) -> str:
    """Write a duration in the unit that suits it.

    >>> shown_duration(90.0), shown_duration(150.0), shown_duration(1.5), shown_duration(0.04)
    ('90 s', '2.5 min', '1.5 s', '40 ms')
    """
    suits = (u for u in UNITS if seconds >= (2 * u[0] if u[0] > 1 else u[0]))
    size, unit = next(suits, UNITS[-1])
    return f"{seconds / size:.3g} {unit}"


def event_record(event: Event, zone: str | None = None) -> dict[str, Any]:
    """Return an event for JSON, dates as text with their UTC offset.

    >>> event = Event("a", "b", *[np.datetime64("2024-01-31T12:30:01", "ns")] * 3, 0)
    >>> event_record(event, "+05:30")["onset"]
    '2024-01-31 12:30:01+05:30'
    """
    out = dict(vars(event))
    for name in ("onset", "midpoint", "end"):
        if isinstance(out[name], np.datetime64):
            out[name] = shown_time(out[name]) + (zone or "")
    return out


def find_events(
    time: np.ndarray,
    alpha: np.ndarray,
    regimes: tuple[str, ...],
    *,
    edge: float = 0.1,
    margin: float = 0.1,
    minimum: int = 1,
) -> list[Event]:
    """Transitions of the leading regime; an empty list means that nothing changed.

    A regime takes the lead where it overtakes the leader, provided that it gets ahead by `margin`
    before falling back; leads shorter than `minimum` steps are ignored.
    """
    known = np.isfinite(alpha).all(axis=1)
    if not known.any():
        return []
    rows = np.flatnonzero(known)
    time, alpha = time[rows], alpha[rows]
    leads = _leads(alpha, margin, minimum)
    events = []
    for (old, first, last), (new, start, stop) in pairwise(leads):
        falling = np.flatnonzero(alpha[first : last + 1, old] >= 1 - edge)
        rising = np.flatnonzero(alpha[start : stop + 1, new] >= 1 - edge)
        onset = first + (falling[-1] if len(falling) else _peak(alpha, old, first, last))
        end = start + (rising[0] if len(rising) else _peak(alpha, new, start, stop))
        begin, finish = time[onset], time[end]
        events.append(
            Event(regimes[old], regimes[new], begin, time[start], finish, finish - begin)
        )
    return events


def common_transition(recordings: Sequence[Sequence[Event]]) -> list[Event | None]:
    """Find the transition that most recordings share, and its first event in each.

    Parameters
    ----------
    recordings
        Events of each recording.

    Returns
    -------
    list of Event or None
        None where a recording lacks the transition; all None if there is no event at all. Of
        transitions that are as common, the one with the longest events counts.
    """
    firsts: list[dict[tuple[str, str], Event]] = []
    for events in recordings:
        firsts.append({})
        for event in events:
            firsts[-1].setdefault((event.from_regime, event.to_regime), event)
    lengths: dict[tuple[str, str], list[float]] = {}
    for found in firsts:
        for pair, event in found.items():
            lengths.setdefault(pair, []).append(_length(event))
    if not lengths:
        return [None] * len(firsts)
    common = max(lengths, key=lambda pair: (len(lengths[pair]), np.median(lengths[pair])))
    return [found.get(common) for found in firsts]


def _length(event: Event) -> float:
    """Duration as a number, of dates in seconds, without rounding errors such as 13.700000001."""
    unit = np.timedelta64(1, "s") if isinstance(event.duration, np.timedelta64) else 1
    return float(f"{event.duration / unit:.12g}")


def events_frame(events: Sequence[Event], zone: str | None = None) -> pd.DataFrame:
    """Tabulate events: from, to, onset, midpoint, end, duration (of dates in seconds).

    Dates are text with their UTC offset where one is known.
    """
    import pandas as pd

    rows = []
    for event in events:
        told = event_record(event, zone) if zone else vars(event)
        ends = (told["onset"], told["midpoint"], told["end"])
        rows.append((event.from_regime, event.to_regime, *ends, _length(event)))
    return pd.DataFrame(rows, columns=["from", "to", "onset", "midpoint", "end", "duration"])


def _leads(alpha: np.ndarray, margin: float, minimum: int) -> list[tuple[int, int, int]]:
    """(regime, first row, last row) of each lead."""
    leader = _leaders(alpha, margin)
    edges = np.flatnonzero(np.diff(leader)) + 1
    starts, stops = [0, *edges.tolist()], [*(edges - 1).tolist(), len(leader) - 1]
    merged: list[tuple[int, int, int]] = []
    for a, b in zip(starts, stops, strict=True):
        if b - a + 1 < minimum and len(starts) > 1:
            continue
        if merged and merged[-1][0] == leader[a]:
            merged[-1] = (merged[-1][0], merged[-1][1], b)
        else:
            merged.append((int(leader[a]), a, b))
    return merged


def _leaders(alpha: np.ndarray, margin: float) -> np.ndarray:
    """Find the leader of each row; a lead counts from the overtaking on, if by a margin."""
    out = np.empty(len(alpha), dtype=int)
    current = int(alpha[0].argmax())
    since: dict[int, int] = {}  # challengers ahead of the leader, and from which row on
    for t, row in enumerate(alpha):
        ahead = row > row[current]
        since = {k: since.get(k, t) for k in np.flatnonzero(ahead).tolist()}
        strongest = int(row.argmax())
        if row[strongest] > row[current] + margin:
            out[since[strongest] : t] = strongest
            current, since = strongest, {}
        out[t] = current
    return out


def _peak(alpha: np.ndarray, regime: int, first: int, last: int) -> int:
    return int(alpha[first : last + 1, regime].argmax())
