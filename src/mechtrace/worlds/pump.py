"""A pump station with nine sensors: healthy, worn or clogged, on several machines.

A centrifugal pump of variable speed draws water from a main through a strainer, raises its
pressure and sends it through a valve. All is in shares of the rated point, pressures in shares of
the rated head (4 bar; they are absolute):

    speed n, valve u,
    supply pressure k    wander around 1, whatever the regime: that is the operating point
    suction pressure s   -> S k - R q^2                   loss in a strainer: square of the flow
    head h               =  A n^2 - B (q + l)^2           affinity law: head grows as speed squared
    leak l               =  C sqrt(p - s)                 orifice law: back through the wear rings
    discharge pressure p -> s + h - K e
    flow q               -> u sqrt((p - b) / p_0)         valve equation; p_0 makes q = 1 at rest
    cavitation e         =  softplus(N q^2 - s)           pressure needed beyond that at the inlet
    vibration log v      -> 2 log n + O (q / n - 1)^2 + V e     imbalance, off-design flow, bubbles
    bearing warmth w     -> n^2 + F exp(v)                friction

An arrow means a first-order lag: x_t = x_{t-1} + (target - x_{t-1}) / tau + noise, one step being
a second. The laws are textbook facts; the numbers are plausible, and of no particular pump.
`worn` has a larger leak C, less head A and more friction F; `clogged` has a larger resistance R,
hence more cavitation, and noisier vibration. A transition mixes the conditional means.

Machines differ in gain and offset of every sensor, not in their dynamics. Machine 3 is the same
however many there are, so an unseen machine is `first=7, machines=1`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import ConfigError
from .simulation import Dynamics, EmergentEdge, check_machines

#: In the order of the alphabet, which is that of a Panel.
REGIMES = ("clogged", "healthy", "worn")
#: Leak C, shut-off head A, friction F, resistance R of each regime.
COEFFICIENTS = np.array(
    [[0.03, 1.30, 0.20, 0.20], [0.03, 1.30, 0.20, 0.10], [0.17, 1.25, 0.30, 0.10]]
)
#: The state at the rated point: n, u, k, s, p, q, v, w.
REST = np.array([1.0, 1.0, 1.0, 0.35, 1.33, 1.0, 0.0, 1.2])
#: Lag in seconds of each part of the state, and noise of one step.
TAU = np.array([25.0, 15.0, 40.0, 3.0, 3.0, 4.0, 5.0, 60.0])
NOISE = np.array([0.015, 0.04, 0.035, 0.012, 0.015, 0.012, 0.06, 0.005])
#: The scatter of vibration where the pump is clogged, as a factor.
SCATTER = 1.6
#: S, B, K, b, N, O, V of the text, which no regime changes; softness of cavitation.
SUPPLY, LOSS, DROP, BACK = 0.45, 0.3, 0.5, 0.3
NEED, OFF_DESIGN, BUBBLES, SOFT = 0.25, 1.5, 4.0, 0.03

CHANNELS = (
    "speed_rpm", "valve_percent", "supply_bar", "inlet_bar", "outlet_bar", "flow_m3h", "current_A",
    "vibration_mm_s", "bearing_C",
)  # fmt: skip
#: What each sensor shows at the rated point, and how far it usually moves.
RATED = np.array([2900.0, 60.0, 1.8, 1.4, 5.3, 60.0, 15.0, 2.0, 55.0])
RANGE = np.array([160.0, 7.0, 0.3, 0.3, 0.6, 5.5, 2.3, 0.4, 1.5])


@dataclass(frozen=True)
class PumpConfig:
    """Settings of the station."""

    length: int = 120
    #: recordings alternate between this many machines, numbered from `first`; for equal shares of
    #: every regime simulate a multiple of `machines` recordings
    machines: int = 6
    first: int = 1
    #: standard deviation of sensor offsets, in usual ranges; a quarter of it for gains
    spread: float = 0.1
    #: standard deviation of the observation noise, in usual ranges
    sensor_noise: float = 0.03
    #: factor of the process noise
    noise: float = 1.0

    lags = 1
    latents = 8
    size = 0

    def __post_init__(self) -> None:
        """Validate the settings."""
        check_machines(self)


@dataclass(frozen=True, eq=False)
class Pump(Dynamics):
    """The pump simulator; the seed draws the sensors, machines alternate over recordings."""

    config: PumpConfig
    seed: int = 0

    burn_in = 300

    @property
    def regimes(self) -> tuple[str, ...]:
        """Names of the regimes."""
        return REGIMES

    @cached_property
    def scales(self) -> np.ndarray:  # type: ignore[override]
        """Standard deviations (3, 8) of the noise of one step."""
        scales = np.tile(self.config.noise * NOISE, (len(REGIMES), 1))
        scales[REGIMES.index("clogged"), 6] *= SCATTER
        return scales

    def initial_latents(self, series: int, rng: np.random.Generator) -> np.ndarray:
        """Start at the rated point; the burn-in forgets it."""
        return np.broadcast_to(REST.astype(np.float32), (series, 1, len(REST)))

    def step(
        self,
        latents: np.ndarray,
        t: int,
        alpha: np.ndarray,
        emergent: EmergentEdge | None,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Mix the conditional means and add noise."""
        if emergent is not None:
            raise ConfigError("a pump has no edges to add", fix="leave out emergent")
        each = _next(latents[:, t - 1, None].astype(float), COEFFICIENTS)
        noise = rng.standard_normal(latents[:, t].shape) * (alpha @ self.scales)
        return np.einsum("nk,nkd->nd", alpha, each) + noise

    def conditional_mean(self, latents: np.ndarray, regime: int) -> np.ndarray:
        """Take one step without noise."""
        out = np.full(latents.shape, np.nan)
        out[:, 1:] = _next(latents[:, :-1], COEFFICIENTS[regime])
        return out

    def mixture_matrix(self, alpha: np.ndarray, emergent: EmergentEdge | None) -> np.ndarray:
        """Linearise one step at the rated point: [source, target]."""
        width = 1e-5 * np.eye(len(REST))[:, None]
        ahead, back = (_next(REST + side * width, COEFFICIENTS) for side in (1, -1))
        return np.tensordot(alpha, ((ahead - back) / 2e-5).transpose(1, 0, 2), axes=1)

    def observe(self, latents: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Read the sensors (N, T, 9), each machine with its own gains and offsets."""
        true = _readings(latents.astype(float))
        config, machines = self.config, self.machines_of(len(latents))
        errors = {m: self.sensors(m) for m in np.unique(machines)}
        gain, offset = (np.stack([errors[m][k] for m in machines])[:, None] for k in (0, 1))
        noise = config.sensor_noise * rng.standard_normal(true.shape)
        read = RATED + gain * (true - RATED) + RANGE * (offset + noise)
        return read.astype(np.float32)

    def machines_of(self, series: int) -> np.ndarray:
        """Assign machines to so many recordings."""
        return self.config.first + np.arange(series) % self.config.machines

    def sensors(self, machine: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw gains (9,) and offsets (9,), in usual ranges, of a machine."""
        rng = np.random.default_rng([self.seed, 4, int(machine)])
        drawn = rng.standard_normal((2, len(RATED)))
        return 1 + 0.25 * self.config.spread * drawn[0], self.config.spread * drawn[1]

    def panel_options(self, series: int, steps: int) -> dict[str, Any]:
        """Return sensor names, machines and seconds."""
        groups = [f"pump {m}" for m in self.machines_of(series)]
        return {"channels": CHANNELS, "groups": groups, "time": np.arange(float(steps))}


def _next(z: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """Return means one second after states (..., 8), for coefficients (..., 4)."""
    n, u, k, s, p, q, v, w = np.moveaxis(z, -1, 0)
    leak, shut_off, friction, resistance = np.moveaxis(coefficients, -1, 0)
    inner = q + leak * np.sqrt(np.maximum(p - s, 0))
    bubbles = SOFT * np.logaddexp(0, (NEED * q**2 - s) / SOFT)
    speed = np.maximum(n, 0.1)
    targets = [
        *(1.0, 1.0, 1.0),  # speed, valve and supply return to the rated point
        SUPPLY * k - resistance * q**2,
        s + shut_off * n**2 - LOSS * inner**2 - DROP * bubbles,
        u * np.sqrt(np.maximum(p - BACK, 0) / (REST[4] - BACK)),
        2 * np.log(speed) + OFF_DESIGN * (q / speed - 1) ** 2 + BUBBLES * bubbles,
        n**2 + friction * np.exp(v),
    ]
    return z + (np.stack(np.broadcast_arrays(*targets, w)[:-1], axis=-1) - z) / TAU


def _readings(z: np.ndarray) -> np.ndarray:
    """Return noiseless readings of states (..., 8)."""
    n, u, k, s, p, q, v, w = np.moveaxis(z, -1, 0)
    power = 0.3 * n**3 + 0.7 * q * (p - s) / (REST[4] - REST[3])  # losses, and flow times head
    shares = [n, u, k, s / REST[3], p / REST[4], q, power, np.exp(v), 1 + 0.3 * (w - REST[7])]
    return RATED * np.stack(shares, axis=-1)
