"""Faults to inject: what happens to a recording that the regimes do not explain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...errors import ConfigError

#: Kinds of faults, and what they do.
FAULTS = {
    "foreign": "a parameter setting that no mixture of the regimes predicts, for the middle third",
    "units": "one sensor in other units, throughout",
    "stuck": "one sensor keeps its value from a third of the recording on",
    "swapped": "two sensors swapped, throughout",
    "machine": "a machine that was not in training",
    "rate": "half as many rows per unit of time",
}
#: Gain and offset of other units: C to F, bar to kPa, to the tenth, m to ft.
UNITS = ((1.8, 32.0), (100.0, 0.0), (0.1, 0.0), (3.28, 0.0))


@dataclass(frozen=True)
class Fault:
    """A fault of every recording of a simulation.

    Parameters
    ----------
    kind : str
        One of `FAULTS`.
    start, stop : int
        Rows that are affected.
    sensors : tuple of int
        Sensors that are affected.
    """

    kind: str
    start: int
    stop: int
    sensors: tuple[int, ...] = ()

    @classmethod
    def draw(cls, kind: str, steps: int, sensors: int, rng: np.random.Generator) -> Fault:
        """Draw the sensors of a fault.

        Raises
        ------
        ConfigError
            If the kind is unknown.
        """
        if kind not in FAULTS:
            raise ConfigError(f"unknown fault {kind!r}", fix=f"use one of {sorted(FAULTS)}")
        start = steps // 3 if kind in ("foreign", "stuck") else 0
        stop = 2 * steps // 3 if kind == "foreign" else steps
        count = {"units": 1, "stuck": 1, "swapped": 2}.get(kind, 0)
        return cls(kind, start, stop, tuple(rng.permutation(sensors)[:count].tolist()))

    def apply(self, readings: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return readings (N, T, p) with the fault of a sensor."""
        if not self.sensors:
            return readings
        out, mine = readings.copy(), list(self.sensors)
        if self.kind == "swapped":
            out[..., mine] = readings[..., mine[::-1]]
        elif self.kind == "stuck":
            out[:, self.start :, mine] = readings[:, self.start : self.start + 1, mine]
        else:
            gain, offset = UNITS[rng.integers(len(UNITS))]
            out[..., mine] = gain * readings[..., mine] + offset
        return out
