"""Results as sentences: the one place that phrases them for command line, report and notebook."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..diagnose.findings import rounded
from ..stage2.events import shown_duration

if TYPE_CHECKING:
    from ..diagnose.findings import Diagnosis, Finding
    from ..stage2.events import Event
    from ..stage2.trajectory import Trajectory

#: What each verdict means for the reader.
ADVICE = {
    "trust": "This curve can be trusted.",
    "caution": "Read this curve with caution.",
    "do not trust": "Do not trust this curve.",
}
NOTHING = "Nothing can be told from this recording."
#: What the flags of a step mean.
FLAG_MEANINGS = {
    "warm-up": "not enough history yet",
    "missing": "no evidence: rows are missing",
    "unexplained": "none of the known mechanisms",
    "disagree": "the kinds of evidence contradict each other",
}
#: Up to this many changes are listed; more are counted.
LISTED = 4
#: A regime with at least this share on average counts as constant.
CLEAR = 0.75


def usual_step(time: np.ndarray) -> float:
    """Median difference of consecutive stamps."""
    return float(np.median(np.diff(time))) if len(time) > 1 else 1.0


class Clock:
    """Formats the time stamps of a recording with the precision of its sampling."""

    def __init__(self, time: np.ndarray) -> None:
        self.dates = time.dtype.kind == "M"
        self.day = ""  # the common day of all stamps, if there is one
        if self.dates:
            days = np.unique(time.astype("datetime64[D]"))
            self.day = str(days[0]) if len(days) == 1 and len(time) > 1 else ""
            time = time.astype("datetime64[us]").astype(np.int64) / 1e6
        self.step = usual_step(time) or 1.0
        whole = time.dtype.kind in "iu" or bool((time == np.round(time)).all())
        self.decimals = 0 if whole else max(0, math.ceil(-math.log10(abs(self.step)) - 1e-9))

    def moment(self, stamp: Any) -> str:
        """Format one stamp.

        >>> Clock(np.array([0.0, 0.02, 0.04])).moment(0.02)
        '0.02'
        """
        if not self.dates:
            return f"{float(stamp):.{self.decimals}f}"
        unit = next((u for s, u in ((86400, "D"), (60, "m"), (1, "s")) if self.step >= s), "ms")
        text = str(np.datetime_as_string(np.datetime64(stamp), unit=unit))  # type: ignore[call-overload]
        return text.replace("T", " ").removeprefix(f"{self.day} ")

    def duration(self, length: Any) -> str:
        """Format the difference of two stamps."""
        if not self.dates:
            return f"{float(length):.{self.decimals}f}"
        return shown_duration(float(np.timedelta64(length) / np.timedelta64(1, "us")) / 1e6)


def sentence(path: Trajectory) -> str:
    """Say what happened in a recording, with its name."""
    return f"{path.name}: {answer(path, path.events(minimum=2))}"


def answer(path: Trajectory, events: Sequence[Event]) -> str:
    """Say what happened in a recording, given its events."""
    if not events:
        return _without_change(path)
    clock = Clock(path.time)
    first, last = events[0], events[-1]
    if len(events) > LISTED:
        return (
            f"{len(events)} changes of the leading regime, the first from {first.from_regime} to"
            f" {first.to_regime} around {clock.moment(first.midpoint)}, the last from"
            f" {last.from_regime} to {last.to_regime} around {clock.moment(last.midpoint)}"
        )
    parts = [f"{first.from_regime} until {clock.moment(first.onset)}"]
    parts += [
        f"{e.to_regime} from {clock.moment(e.end)} (halfway at {clock.moment(e.midpoint)})"
        for e in events
    ]
    return ", ".join(parts) + (f" on {clock.day}" if clock.day else "")


def _without_change(path: Trajectory) -> str:
    known = np.isfinite(path.alpha).all(axis=1) & (path.flag != "warm-up")
    if not known.any():
        return "too short to say anything"
    shares = path.alpha[known].mean(axis=0)
    leader, share = path.regimes[int(shares.argmax())], float(shares.max())
    if share < CLEAR:
        return f"no clear change; {leader} leads with {share:.2f} on average"
    return f"no change, {leader} throughout"


def headline(path: Trajectory, events: Sequence[Event], diagnosis: Diagnosis) -> str:
    """Say what happened, or that nothing can be told since the input itself is off."""
    if diagnosis.off is None:
        return answer(path, events)
    why = diagnosis.off.meaning
    return f"nothing can be told: {why[0].lower()}{why[1:-1]}"


def judged(path: Trajectory, diagnosis: Diagnosis) -> str:
    """Say what happened in a recording, the verdict, and how wrong the shares may be."""
    told = headline(path, path.events(minimum=2), diagnosis)
    without = f", without {', '.join(map(repr, path.without))}" if path.without else ""
    todo = "" if diagnosis.off is None else f". {diagnosis.off.next_step}"
    return f"{path.name}: {told}; verdict: {diagnosis.verdict}{within(diagnosis)}{without}{todo}"


def within(diagnosis: Diagnosis) -> str:
    """Say how wrong the shares may be, to go on a sentence; empty if that is not known."""
    error = diagnosis.expected_error
    return f" (shares are likely within {rounded(error)})" if math.isfinite(error) else ""


def sequence(path: Trajectory, events: Sequence[Event]) -> str:
    """List the leading regimes one after the other, short enough for a table."""
    if not events:
        return answer(path, events)
    leaders = [events[0].from_regime, *(event.to_regime for event in events)]
    shown = leaders if len(leaders) <= 6 else [*leaders[:3], "…", *leaders[-2:]]
    return " → ".join(shown)


def trust(diagnosis: Diagnosis) -> dict[str, str]:
    """Return the verdict and, unless all checks passed, its main reason and what to do."""
    worst = diagnosis.decisive()[0]
    told = worst.level != "good"
    off = diagnosis.off is not None
    return {
        "level": worst.level,
        "trust": diagnosis.verdict,
        "advice": NOTHING if off else ADVICE[diagnosis.verdict],
        "within": within(diagnosis).strip(" ()"),
        "reason": worst.meaning if told and not off else "",  # the headline has it
        "next": worst.next_step if told else "",
    }


def limit(finding: Finding) -> str:
    """Write the limit of a finding with its direction, as "at most 0.4"."""
    return finding.limit or "–"


def tally(series: Sequence[dict[str, Any]], left_out: int) -> str:
    """Summarise many recordings, as the payload of the report describes them."""
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
    verdicts = [f"{word} for {counts[word]:,}" for word in ADVICE if counts[word]]
    return f"{text}; verdict: {', '.join(verdicts)}"


def how_recovered(path: Trajectory) -> str:
    """Say how the curve was computed, in one line."""
    kind = "causal (uses only the past)" if path.causal else "offline (uses the whole recording)"
    trials = f", {path.trials} trials pooled" if path.trials > 1 else ""
    calibrated = f", {path.calibration} calibration" if path.calibration else ""
    without = f", without {', '.join(map(repr, path.without))}" if path.without else ""
    odd = float((path.flag == "unexplained").mean()) if len(path) else 0.0
    return (
        f"{len(path):,} steps; {path.method}, {kind}{trials}{calibrated}{without}; intervals cover"
        f" {100 * path.level:.0f} %; {rounded(100 * odd)} % of the steps are explained by none of"
        " the known mechanisms."
    )
