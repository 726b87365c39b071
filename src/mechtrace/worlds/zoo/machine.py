"""Zoo: a system of the zoo on several machines, read through nonlinear sensors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import nnls

from ...errors import ConfigError
from ..schedules import make_schedule
from ..simulation import Dynamics, EmergentEdge, Simulation, check_machines
from .faults import Fault
from .systems import SYSTEMS, System

UNITS = ("bar", "C", "mm", "A", "V", "rpm", "kPa", "percent", "l_min", "mV", "Nm", "g", "W", "Hz")
#: Sensors beyond the number of latents.
MORE_SENSORS = 2
#: Size of the bent part of a sensor's reading, beside a linear part of size 1.
BEND = 0.4
#: Spread of parameters between draws of a world, and range of the distance between regimes.
VARIATION, DISTANCE = 0.05, (0.85, 1.2)
#: Factors by which a foreign setting changes a parameter, until predictions differ enough.
FOREIGN = (1.3, 1.6, 2.0, 2.5, 3.2, 4.0)
#: Deviations of the process noise by which a foreign setting changes predictions, at least, in the
#: states to which so many rows lead.
FOREIGN_EFFECT, FOREIGN_STEPS = 0.75, 50


@dataclass(frozen=True)
class ZooConfig:
    """Settings of a system of the zoo."""

    system: str = "oscillator"
    length: int = 300
    #: recordings alternate between this many machines, numbered from `first`
    machines: int = 1
    first: int = 1
    #: standard deviation of sensor offsets between machines, in usual ranges; half for gains
    spread: float = 0.1
    #: standard deviation of the observation noise, in usual ranges
    sensor_noise: float = 0.02
    #: factor of the process noise
    noise: float = 1.0

    lags = 1
    size = 0

    def __post_init__(self) -> None:
        """Validate the settings."""
        if self.system not in SYSTEMS:
            raise ConfigError(
                f"unknown system {self.system!r}", fix=f"use one of {sorted(SYSTEMS)}"
            )
        check_machines(self)

    @property
    def differing(self) -> bool:
        """Whether recordings are of named machines, with offsets and gains of their own."""
        return self.machines > 1 or self.first > 1

    @property
    def latents(self) -> int:
        """Number of state variables."""
        return len(SYSTEMS[self.system].start)


@dataclass(frozen=True, eq=False)
class Zoo(Dynamics):
    """A system of the zoo; the seed draws parameters and sensors."""

    config: ZooConfig
    seed: int = 0

    @property
    def system(self) -> System:
        """The differential equations."""
        return SYSTEMS[self.config.system]

    @property
    def burn_in(self) -> int:  # type: ignore[override]
        """Rows before a recording begins."""
        return self.system.burn_in

    @property
    def regimes(self) -> tuple[str, ...]:
        """Names of the regimes."""
        return tuple(self.system.regimes)

    @cached_property
    def scales(self) -> np.ndarray:  # type: ignore[override]
        """Standard deviations (K, d) of the noise of one row."""
        return np.tile(self.config.noise * np.array(self.system.noise), (len(self.regimes), 1))

    @cached_property
    def parameters(self) -> np.ndarray:
        """Parameters (K, P) of each regime: those of the system, drawn a little apart."""
        rng = np.random.default_rng([self.seed, 5])
        base = np.array(list(self.system.regimes.values()))
        centre = base.mean(axis=0)
        apart = rng.uniform(*DISTANCE, size=base.shape[1])
        factor = np.exp(VARIATION * rng.standard_normal(base.shape[1]))
        return (centre + apart * (base - centre)) * factor

    @cached_property
    def foreign(self) -> np.ndarray:
        """A setting (P,) whose predictions differ from those of every mixture of the regimes."""
        rng = np.random.default_rng([self.seed, 6])
        start = self.simulate(4, seed=99, length=50).latents[:, -1].astype(float)
        regime, which = rng.integers(len(self.regimes)), rng.permutation(self.parameters.shape[1])
        noise = self.scales[0] * rng.standard_normal((FOREIGN_STEPS, *start.shape))
        found = self.parameters[regime]
        for factor in FOREIGN:
            for parameter in which:
                found = self.parameters[regime].copy()
                found[parameter] = factor * found[parameter] + (found[parameter] == 0) * factor
                states = [start]
                for each in noise:
                    states.append(self.system.advance(states[-1], found[None]) + each)
                if self._effect(np.stack(states, axis=1), found) > FOREIGN_EFFECT:
                    return found
        return found

    def _effect(self, states: np.ndarray, setting: np.ndarray) -> float:
        """Distance of predictions from those of the nearest mixture, in deviations of the noise.

        Root mean square over series of states (N, T, d), each with its own mixture.
        """
        distances = []
        for z in states:
            other = self.system.advance(z, setting[None])
            own = [self.system.advance(z, row[None]) - other for row in self.parameters]
            gaps = (np.stack(own) / self.scales[0]).reshape(len(own), -1).T
            heavy = 1e3 * np.abs(gaps).max() + 1e-12  # of the equation that shares sum to one
            matrix = np.vstack([gaps, np.full(len(own), heavy)])
            shares = nnls(matrix, np.append(np.zeros(len(gaps)), heavy))[0]
            distances.append(float(((gaps @ shares) ** 2).sum()) / len(z))
        return float(np.sqrt(np.mean(distances)))

    def initial_latents(self, series: int, rng: np.random.Generator) -> np.ndarray:
        """Start near a typical state; the burn-in forgets it."""
        drawn = rng.standard_normal((series, 1, self.config.latents))
        return (self.system.start + 0.3 * np.array(self.system.scale) * drawn).astype(np.float32)

    def step(
        self,
        latents: np.ndarray,
        t: int,
        alpha: np.ndarray,
        emergent: EmergentEdge | None,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Integrate one row with the mixed parameters; a last share is that of `foreign`."""
        if emergent is not None:
            raise ConfigError("the zoo has no edges to add", fix="leave out emergent")
        theta = alpha[:, : len(self.parameters)] @ self.parameters
        if alpha.shape[1] > len(self.parameters):
            theta = theta + alpha[:, -1:] * self.foreign
        noise = self.scales[0] * rng.standard_normal(latents[:, t].shape)
        return self.system.advance(latents[:, t - 1].astype(float), theta) + noise

    def conditional_mean(self, latents: np.ndarray, regime: int) -> np.ndarray:
        """Integrate one row without noise."""
        out = np.full(latents.shape, np.nan)
        before = latents[:, :-1].reshape(-1, latents.shape[-1])
        after = self.system.advance(before, self.parameters[regime][None])
        out[:, 1:] = after.reshape(out[:, 1:].shape)
        return out

    def mixture_matrix(self, alpha: np.ndarray, emergent: EmergentEdge | None) -> np.ndarray:
        """Linearise one row at the typical state: (..., d, d), [source, target]."""
        d, scale = self.config.latents, 1e-5 * np.array(self.system.scale)
        flat, rest = (alpha @ self.parameters).reshape(-1, self.parameters.shape[1]), np.eye(d)
        out = []
        for theta in flat:
            ahead, back = (
                self.system.advance(self.system.start + side * rest * scale, theta[None])
                for side in (1, -1)
            )
            out.append((ahead - back) / (2 * scale[:, None]))
        return np.array(out).reshape(*alpha.shape[:-1], d, d)

    @cached_property
    def sensors(self) -> dict[str, np.ndarray]:
        """Linear and bent part (d, p) of the sensors; level and range (p,) in their units."""
        rng = np.random.default_rng([self.seed, 4])
        d, p = self.config.latents, self.config.latents + MORE_SENSORS
        linear = np.linalg.qr(rng.standard_normal((p, p)))[0][:d]
        bent = rng.standard_normal((d, p)) / np.sqrt(d)
        for k in range(self.system.recorded):  # shown as it is
            linear[:, k], bent[:, k], linear[d - 1 - k, k] = 0.0, 0.0, 1.0
        reach = 10 ** rng.uniform(-1, 2, p)
        return {"linear": linear, "bent": bent, "level": reach * rng.uniform(-2, 15, p),
                "range": reach}  # fmt: skip

    def observe(self, latents: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Read the sensors (N, T, p), each machine with its own gains and offsets."""
        z = (latents.astype(float) - self.system.start) / self.system.scale
        how = self.sensors
        true = z @ how["linear"] + BEND * np.tanh(z @ how["bent"])
        machines = self.machines_of(len(latents))
        own = {m: self._machine(m) for m in np.unique(machines)}
        gain, offset = (np.stack([own[m][k] for m in machines])[:, None] for k in (0, 1))
        noise = self.config.sensor_noise * rng.standard_normal(true.shape)
        return np.asarray(how["level"] + how["range"] * (gain * true + offset + noise), np.float64)

    def machines_of(self, series: int) -> np.ndarray:
        """Assign machines to so many recordings."""
        return self.config.first + np.arange(series) % self.config.machines

    def _machine(self, machine: int) -> tuple[np.ndarray, np.ndarray]:
        """Gains (p,) and offsets (p,), in usual ranges; a single machine has none."""
        drawn = np.random.default_rng([self.seed, 7, int(machine)]).standard_normal(
            (2, len(self.sensors["level"]))
        )
        spread = self.config.spread if self.config.differing else 0.0
        return 1 + 0.5 * spread * drawn[0], spread * drawn[1]

    def panel_options(self, series: int, steps: int) -> dict[str, Any]:
        """Return sensor names, machines and time."""
        rng = np.random.default_rng([self.seed, 8])
        units = rng.choice(UNITS, len(self.sensors["level"]))
        out: dict[str, Any] = {
            "channels": tuple(f"s{i + 1}_{unit}" for i, unit in enumerate(units)),
            "time": np.round(self.system.step * np.arange(steps), 9),
        }
        if self.config.differing:
            out["groups"] = [f"machine {m}" for m in self.machines_of(series)]
        return out

    def faulty(
        self,
        kind: str,
        schedule: str | np.ndarray = "simple",
        *,
        series: int = 1,
        active: list[int] | None = None,
        seed: int = 0,
        length: int | None = None,
    ) -> Simulation:
        """Simulate unlabelled recordings of one transition with a fault.

        Parameters
        ----------
        kind : str
            One of `FAULTS`.
        schedule, series, active, seed, length
            As in `transition`.

        Returns
        -------
        Simulation
            With its `fault`; where a foreign setting acts, `alpha` is what it would have been.

        Raises
        ------
        ConfigError
            If the fault is unknown.
        """
        steps = self.config.length if length is None else length
        rng = np.random.default_rng([self.seed, seed, 9])
        fault = Fault.draw(kind, steps, len(self.sensors["level"]), rng)
        world = self
        if kind == "machine":
            other = self.config.first + self.config.machines
            world = replace(self, config=replace(self.config, first=other, machines=1))
        each = 2 if kind == "rate" else 1
        alpha = make_schedule(schedule, steps, len(self.scales), active)
        shares = np.repeat(alpha, each, axis=0)
        if kind == "foreign":
            now = np.zeros((steps, 1))
            now[fault.start : fault.stop] = 1.0
            shares = np.concatenate([alpha * (1 - now), now], axis=1)
        full = np.broadcast_to(shares, (series, *shares.shape))
        latents = world.simulate_latents(full, rng)[:, ::each]
        readings = fault.apply(world.observe(latents, rng), rng)
        truth = np.broadcast_to(alpha, (series, *alpha.shape))
        return Simulation(world, readings, latents, truth, fault=fault)
