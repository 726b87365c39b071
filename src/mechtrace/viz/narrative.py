"""What a result says, in sentences."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .compact import usual_step

if TYPE_CHECKING:
    from ..diagnose import Diagnosis
    from ..recover.events import Event
    from ..recover.trajectory import Trajectory

#: How far each verdict carries.
TRUST = {"trust": "high", "caution": "limited", "do not trust": "none"}
#: What each verdict asks of the reader.
ADVICE = {
    "trust": "Nothing speaks against this curve.",
    "caution": "Read this curve with caution.",
    "do not trust": "Do not trust this curve.",
}
#: What the flags of a step mean.
FLAG_WORDS = {
    "warm-up": "not enough history yet",
    "missing": "no evidence: rows are missing",
    "unexplained": "none of the known mechanisms",
    "disagree": "the kinds of evidence contradict each other",
}
#: More changes than this are counted, not told.
TOLD = 4
UNITS = ((86400.0, "days"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"))


class Clock:
    """How the stamps of a recording are written: as precisely as they are apart."""

    def __init__(self, time: np.ndarray) -> None:
        self.dates = time.dtype.kind == "M"
        self.day = ""  # where all stamps lie in one day, it is said once
        if self.dates:
            days = np.unique(time.astype("datetime64[D]"))
            self.day = str(days[0]) if len(days) == 1 and len(time) > 1 else ""
            time = time.astype("datetime64[us]").astype(np.int64) / 1e6
        self.step = usual_step(time) or 1.0
        whole = time.dtype.kind in "iu" or bool((time == np.round(time)).all())
        self.decimals = 0 if whole else max(0, math.ceil(-math.log10(abs(self.step)) - 1e-9))

    def moment(self, stamp: Any) -> str:
        """One stamp.

        >>> Clock(np.array([0.0, 0.02, 0.04])).moment(0.02)
        '0.02'
        """
        if not self.dates:
            return f"{float(stamp):.{self.decimals}f}"
        unit = next((u for s, u in ((86400, "D"), (60, "m"), (1, "s")) if self.step >= s), "ms")
        text = str(np.datetime_as_string(np.datetime64(stamp), unit=unit))  # type: ignore[call-overload]
        return text.replace("T", " ").removeprefix(f"{self.day} ")

    def duration(self, length: Any) -> str:
        """The time between two stamps."""
        if not self.dates:
            return f"{float(length):.{self.decimals}f}"
        seconds = float(np.timedelta64(length) / np.timedelta64(1, "us")) / 1e6
        size, unit = next((u for u in UNITS if seconds >= 2 * u[0]), UNITS[-1])
        return f"{seconds / size:.3g} {unit}"


def answer(path: Trajectory, events: Sequence[Event]) -> str:
    """What happened, without the name of the recording."""
    if not events:
        return str(path).removeprefix(f"{path.name}: ")
    clock = Clock(path.time)
    first, last = events[0], events[-1]
    if len(events) > TOLD:
        return (
            f"{len(events)} changes of the leading regime, the first from {first.from_regime} to"
            f" {first.to_regime} around {clock.moment(first.midpoint)}, the last from"
            f" {last.from_regime} to {last.to_regime} around {clock.moment(last.midpoint)}"
        )
    text, since = f"{first.from_regime} until {clock.moment(first.onset)}", ""
    for event in events:
        onset, end = clock.moment(event.onset), clock.moment(event.end)
        if since:
            text += f" at {since}" if onset == since else f" from {since} until {onset}"
        text += f", blending for {clock.duration(event.duration)}, {event.to_regime}"
        since = end
    return f"{text} from {since}" + (f" ({clock.day})" if clock.day else "")


def sequence(path: Trajectory, events: Sequence[Event]) -> str:
    """The leading regimes one after the other, short enough for a table."""
    if not events:
        return answer(path, events)
    leaders = [events[0].from_regime, *(event.to_regime for event in events)]
    shown = leaders if len(leaders) <= 6 else [*leaders[:3], "…", *leaders[-2:]]
    return " → ".join(shown)


def trust(diagnosis: Diagnosis) -> dict[str, str]:
    """The verdict and, where it is not the best, its reason and what to do."""
    worst = diagnosis.by_weight()[0]
    told = worst.level != "good"
    return {
        "level": worst.level,
        "trust": TRUST[diagnosis.verdict],
        "advice": ADVICE[diagnosis.verdict],
        "reason": worst.meaning if told else "",
        "next": worst.next_step if told else "",
    }


def tally(series: Sequence[dict[str, Any]], left_out: int) -> str:
    """One sentence about many recordings, as `content` describes them."""
    told = [one["sequence"] for one in series if one["changes"]]
    count = f"{len(series):,}" if not left_out else f"The first {len(series):,}"
    of = f" of {len(series) + left_out:,}" if left_out else ""
    share = {
        0: "none of which changes",
        1: "of which 1 changes",
        len(series): "all of which change",
    }
    which = share.get(len(told), f"of which {len(told):,} change")
    text = f"{count}{of} recordings, {which} regime"
    if told:
        story, times = Counter(told).most_common(1)[0]
        text += f", most often {story} ({times:,})" if times > 1 else ""
    counts = Counter(one["verdict"]["trust"] for one in series)
    trusted = [f"{word} for {counts[word]:,}" for word in TRUST.values() if counts[word]]
    return f"{text}; trust: {', '.join(trusted)}"


def how_recovered(path: Trajectory) -> str:
    """How the curve was made, in one line."""
    kind = "causal (uses only the past)" if path.causal else "offline (uses the whole recording)"
    trials = f", {path.trials} trials pooled" if path.trials > 1 else ""
    calibrated = f", {path.calibration} calibration" if path.calibration else ""
    odd = float((path.flag == "unexplained").mean()) if len(path) else 0.0
    return (
        f"{len(path):,} steps; {path.method}, {kind}{trials}{calibrated}; bands hold"
        f" {100 * path.level:.0f} %; {100 * odd:.1f} % of the steps are explained by none of the"
        " known mechanisms."
    )
