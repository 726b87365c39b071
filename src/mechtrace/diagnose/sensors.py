"""Is the input itself off? Sensors that are stuck, swapped or in other units; rows in disorder."""

from __future__ import annotations

import shlex

import numpy as np

from ..stage2.channel_statistics import RANGE, ChannelStatistics, SensorFault
from ..stage2.events import shown_time
from ..stage2.pure_statistics import PureRegimeStatistics
from ..stage2.trajectory import Trajectory
from .findings import Finding

#: What to do about each kind of fault.
NEXT_STEPS = {
    "missing": "Name the column as in training, or recover without it: {without}.",
    "stuck": "Repair the sensor, or recover without it: {without}.",
    "swapped": "Swap the two columns back and recover again.",
    "units": "Check its unit and its range, correct the column and recover again; or recover"
    " without it: {without}.",
    "other": "Check its place and its cable; or recover without it: {without}.",
    "rate": "Record at the rate of training, or give the time of each row (--time COLUMN) and the"
    " rate of training (--rate).",
    "reversed": "Sort the rows by time, the first one first.",
    "shuffled": "Sort the rows by time.",
}


def sensors(path: Trajectory, reference: PureRegimeStatistics) -> Finding | None:
    """Find what does not go with the other sensors as in training; None if nothing is known."""
    known, observed = reference.channels, path.observed
    if known is None or observed is None or observed.channels is None:
        return None
    names = observed.channel_names
    left_out = [names.index(name) for name in path.without]
    for values in observed.channels:
        fault = known.fault(values, left_out)
        if fault is not None:
            option = " ".join(f"--without {shlex.quote(names[c])}" for c in fault.channels)
            step = NEXT_STEPS[fault.kind].format(without=option)
            return Finding(
                "sensors", "bad", float(len(fault.channels) or len(names)), 0.0,
                _meaning(fault, names, values, path, known), step,
            )  # fmt: skip
    if path.without:
        listed = ", ".join(map(repr, path.without))
        return Finding(
            "sensors", "caution", float(len(path.without)), 0.0,
            f"Recovered without {listed}: filled in from the other sensors, with the uncertainty"
            " of that.",
            "Repair the sensor.",
        )  # fmt: skip
    return Finding("sensors", "good", 0.0, 0.0, "All channels go together as in training.")


def _meaning(
    fault: SensorFault,
    names: tuple[str, ...],
    values: np.ndarray,
    path: Trajectory,
    known: ChannelStatistics,
) -> str:
    which = [repr(names[channel]) for channel in fault.channels]
    if not which:
        return _of_time(fault, path)
    first = which[0]
    if fault.kind == "missing":
        several = len(which) > 1
        listed = f"Channels {', '.join(which)} have" if several else f"Channel {first} has"
        share = np.isfinite(values[:, list(fault.channels)]).mean()
        return f"{listed} values in {100 * share:.0f} % of the rows."
    ranges = _ranges(fault.channels[0], values, known)
    if fault.kind == "stuck":
        start, stop = fault.rows
        value = values[start, fault.channels[0]]
        return (
            f"Channel {first} is stuck at {value:.4g} from {shown_time(path.time[start])} to"
            f" {shown_time(path.time[stop])}{_usual(fault.channels[0], known)}."
        )
    if fault.kind == "swapped":
        other = _ranges(fault.channels[1], values, known)
        return (
            f"Channels {first} and {which[1]} are swapped: in training it was the other way"
            f" ({first}: {ranges}; {which[1]}: {other})."
        )
    if fault.kind == "units":
        sign = "plus" if fault.offset >= 0 else "minus"
        return (
            f"Channel {first}: {ranges}. It reads about {_times(fault.gain)} what the other"
            f" channels imply, {sign} {_rounded(abs(fault.offset))}: other units, another sensor,"
            " or a fault."
        )
    return (
        f"Channel {first} does not go with the others as in training ({ranges}): another sensor,"
        " or a fault; without it the recording looks as usual."
    )


def _of_time(fault: SensorFault, path: Trajectory) -> str:
    if fault.kind == "reversed":
        return "The rows run backwards: the channels change as in training if time is turned."
    if fault.kind == "shuffled":
        return "The rows are in no order: channels do not go on from row to row as in training."
    more = "more" if fault.gain > 1 else "less"
    rate, shuffled = max(fault.gain, 1 / fault.gain), ", or are in no order" * (fault.gain < 0.5)
    return (
        f"The rows come about {rate:.0f} times {more} often than in training{shuffled}, judged by"
        " how the channels change from row to row."
    )


def _ranges(channel: int, values: np.ndarray, known: ChannelStatistics) -> str:
    """Write the usual range of a channel here and in training."""
    seen = values[np.isfinite(values[:, channel]), channel]
    low, high = np.quantile(seen, RANGE)
    return f"{_span(low, high)} here{_usual(channel, known)}"


def _usual(channel: int, known: ChannelStatistics) -> str:
    if known.span is None:
        return ""
    return f", {_span(*known.span[:, channel])} in training"


def _span(low: float, high: float) -> str:
    """Write a range with as many decimals as tell its ends apart.

    >>> _span(12.04, 31.3), _span(0.101, 0.398), _span(10134.2, 10139.8)
    ('12 to 31', '0.1 to 0.4', '10,134 to 10,140')
    """
    size = max(abs(high - low), 1e-3 * max(abs(low), abs(high)), 1e-300)
    digits = max(0, int(np.ceil(1 - np.log10(size))))
    low, high = round(float(low), digits), round(float(high), digits)
    return f"{low:,.10g} to {high:,.10g}"


def _times(gain: float) -> str:
    """Write a factor, a small one as a fraction.

    >>> _times(3.28), _times(0.0166)
    ('3.3 times', '1/60 of')
    """
    if 0 < gain < 1 / 1.5:
        return f"1/{_rounded(1 / gain)} of"
    return f"{_rounded(gain)} times"


def _rounded(value: float) -> str:
    """Write two digits, without an exponent.

    >>> _rounded(4888.0), _rounded(0.1032)
    ('4,900', '0.1')
    """
    return f"{float(f'{value:.2g}'):,g}"
