"""Is the input itself off? A sensor that is stuck, swapped with another or in other units."""

from __future__ import annotations

import numpy as np

from ..stage2.channel_statistics import SensorFault
from ..stage2.events import shown_time
from ..stage2.pure_statistics import PureRegimeStatistics
from ..stage2.trajectory import Trajectory
from .findings import Finding

#: What to do about each kind of fault.
NEXT_STEPS = {
    "stuck": "Repair the sensor, or cut the stretch out and give the rest.",
    "swapped": "Swap the two columns back and recover again.",
    "units": "Check its unit and its range; correct the column and recover again.",
    "other": "Check its place and its cable; correct the column and recover again.",
}


def sensors(path: Trajectory, reference: PureRegimeStatistics) -> Finding | None:
    """Find a sensor that does not go with the others as in training; None if nothing is known."""
    known, observed = reference.channels, path.observed
    if known is None or observed is None or observed.channels is None:
        return None
    names = observed.channel_names
    for values in observed.channels:
        fault = known.fault(values)
        if fault is not None:
            return Finding(
                "sensors", "bad", float(len(fault.channels)), 0.0,
                _meaning(fault, names, values, path), NEXT_STEPS[fault.kind],
            )  # fmt: skip
    return Finding("sensors", "good", 0.0, 0.0, "All channels go together as in training.")


def _meaning(
    fault: SensorFault, names: tuple[str, ...], values: np.ndarray, path: Trajectory
) -> str:
    first, *others = (repr(names[channel]) for channel in fault.channels)
    if fault.kind == "stuck":
        start, stop = fault.rows
        value = values[start, fault.channels[0]]
        return (
            f"Channel {first} is stuck at {value:.4g} from {shown_time(path.time[start])} to"
            f" {shown_time(path.time[stop])}."
        )
    if fault.kind == "swapped":
        return f"Channels {first} and {others[0]} are swapped: in training it was the other way."
    if fault.kind == "units":
        sign = "plus" if fault.offset >= 0 else "minus"
        return (
            f"Channel {first} reads about {_rounded(fault.gain)} times what the other channels"
            f" imply, {sign} {_rounded(abs(fault.offset))}: other units, another sensor, or a"
            " fault."
        )
    return (
        f"Channel {first} does not go with the others as in training: another sensor, or a fault;"
        " without it the recording looks as usual."
    )


def _rounded(value: float) -> str:
    """Write two digits, without an exponent.

    >>> _rounded(4888.0), _rounded(0.1032)
    ('4,900', '0.1')
    """
    return f"{float(f'{value:.2g}'):,g}"
