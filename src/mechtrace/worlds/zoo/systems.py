"""The systems: differential equations dz/dt = f(z; theta), one parameter setting per regime.

The laws are textbook facts; the numbers are plausible, and of no particular machine. An input
that is recorded (a load, a voltage) is part of the state, so that sensors show it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

#: States (N, d) and parameters (N, P) -> derivatives (N, d).
Law = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class System:
    """A system with named regimes.

    Attributes
    ----------
    law : callable
        Derivatives dz/dt of states (N, d), for parameters (N, P).
    regimes : dict
        Parameters of each regime.
    start, scale : tuple of float
        A typical state, and how far it usually moves from there.
    noise : tuple of float
        Standard deviation of the process noise of one row.
    step : float
        Time between rows.
    substeps : int
        Integration steps (Runge-Kutta of order 4) between rows.
    burn_in : int
        Rows before a recording begins.
    recorded : int
        Trailing states that are inputs, each shown by a sensor as it is.
    """

    law: Law
    regimes: dict[str, tuple[float, ...]]
    start: tuple[float, ...]
    scale: tuple[float, ...]
    noise: tuple[float, ...]
    step: float
    substeps: int = 1
    burn_in: int = 200
    recorded: int = 0

    def advance(self, z: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """States (N, d) one row later, without noise."""
        h = self.step / self.substeps
        for _ in range(self.substeps):
            a = self.law(z, theta)
            b = self.law(z + 0.5 * h * a, theta)
            c = self.law(z + 0.5 * h * b, theta)
            z = z + h / 6 * (a + 2 * b + 2 * c + self.law(z + h * c, theta))
        return z


def _columns(array: np.ndarray) -> list[np.ndarray]:
    return list(np.moveaxis(array, -1, 0))


def _stack(*parts: np.ndarray) -> np.ndarray:
    return np.stack(np.broadcast_arrays(*parts), axis=-1)


def _soft(x: np.ndarray) -> np.ndarray:
    """About max(x, 0), smooth."""
    return 0.02 * np.logaddexp(0.0, x / 0.02)


def oscillator(z: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Van der Pol: x'' = mu (1 - x^2) x' - w^2 x."""
    x, v = _columns(z)
    mu, w = _columns(theta)
    return _stack(v, mu * (1 - x**2) * v - w**2 * x)


def double_well(z: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Duffing: x'' = -c x' + a x - b x^3, pushed by a slow force."""
    x, v, force = _columns(z)
    c, a, b = _columns(theta)
    return _stack(v, -c * v + a * x - b * x**3 + force, -0.5 * force)


def tanks(z: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Four tanks in a row: outflow by the square root of the level (Torricelli)."""
    h = _columns(z)
    inflow, *valves = _columns(theta)
    out = [valve * np.sqrt(_soft(level)) for valve, level in zip(valves, h, strict=True)]
    flows = [inflow, *out]
    return _stack(*(before - after for before, after in zip(flows, out, strict=False)))


def building(z: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Room, wall, heater and outside temperature: heat flows along differences."""
    room, wall, heater, outside = _columns(z)
    power, leak, contact = _columns(theta)
    return _stack(
        0.3 * (wall - room) + contact * (heater - room) + leak * (outside - room),
        0.1 * (room - wall) + 0.03 * (outside - wall),
        power + 0.5 * contact * (room - heater),
        0.02 * (5.0 - outside),
    )


def resonances(z: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Two damped modes, as of a bearing or of an EEG: frequency and damping of each."""
    a, b, c, d = _columns(z)
    first, damping, second, coupling = _columns(theta)
    return _stack(
        -damping * a + first * b,
        -damping * b - first * a + coupling * c,
        -1.5 * damping * c + second * d,
        -1.5 * damping * d - second * c,
    )


def predators(z: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Prey and predators (Rosenzweig and MacArthur), in logarithms."""
    prey, hunters = np.exp(np.clip(z, -8, 4)).T
    capacity, appetite, death = _columns(theta)
    eaten = appetite / (1 + prey)
    return _stack(1 - prey / capacity - eaten * hunters, eaten * prey - death)


def epidemic(z: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Infected, immune and contacts: SIRS in logits, with contacts that change."""
    infected, immune = 1 / (1 + np.exp(-z[..., 0])), 1 / (1 + np.exp(-z[..., 1]))
    contact, recovery, waning = _columns(theta)
    susceptible = np.maximum(1 - infected - immune, 0.0)
    new = contact * np.exp(0.3 * z[..., 2]) * infected * susceptible + 2e-4
    gone = recovery * infected
    return _stack(
        (new - gone) / (infected * (1 - infected)),
        (gone - waning * immune) / (immune * (1 - immune)),
        -0.15 * z[..., 2],
    )


def battery(z: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Charge, two polarisation voltages, temperature; the recorded current is the input."""
    charge, fast, slow, warmth, current = _columns(z)
    resistance, lag, cooling = _columns(theta)
    return _stack(
        -0.02 * current - 0.05 * (charge - 0.6),
        (resistance * current - fast) / (0.5 * lag),
        (0.6 * resistance * current - slow) / (6 * lag),
        0.4 * resistance * current**2 - cooling * warmth,
        -0.25 * current,
    )


def motor(z: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """DC motor: current, speed, temperature; the recorded voltage is the input."""
    current, speed, warmth, voltage = _columns(z)
    resistance, friction, load = _columns(theta)
    return _stack(
        4.0 * (voltage - speed - resistance * current),
        2.0 * (current - friction * speed - load * np.tanh(4 * speed)),
        0.3 * resistance * current**2 - 0.15 * warmth,
        -0.6 * (voltage - 1.0),
    )


def arm(z: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """A hanging arm with two joints, a load and springs in the joints."""
    a, b, u, v = _columns(z)
    load, spring, damping = _columns(theta)
    cosine, sine = np.cos(a - b), np.sin(a - b)
    p = -load * v**2 * sine - (1 + load) * 6 * np.sin(a) - spring * (a - 0.5 * b) - damping * u
    q = load * u**2 * sine - load * 6 * np.sin(b) - spring * (b - 0.5 * a) - damping * v
    det = load * (1 + load - load * cosine**2)
    return _stack(
        u, v, (load * p - load * cosine * q) / det, ((1 + load) * q - load * cosine * p) / det
    )


#: Weights without a pattern: the sine of squares.
_NETWORK = 0.64 * np.sin(0.7 * np.arange(1, 433) ** 2).reshape(3, 12, 12)


def network(z: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Twelve units that saturate: z' = -z + tanh(z (A + theta_1 B + theta_2 C))."""
    base, *more = _NETWORK
    drive = z @ base
    for k, weights in enumerate(more):
        drive = drive + theta[..., k : k + 1] * (z @ weights)
    return -z + 1.5 * np.tanh(drive + 0.3)


def reactor(z: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Stirred tank: concentration, temperature, jacket; the recorded feed is the input."""
    concentration, warmth, jacket, feed = _columns(z)
    activity, heat, cooling = _columns(theta)
    rate = activity * np.maximum(concentration, 0.0) * np.exp(np.clip(warmth, -3, 3))
    return _stack(
        feed - 0.5 * concentration - rate,
        heat * rate - 0.4 * warmth + cooling * (jacket - warmth),
        0.5 * (warmth - jacket) - 0.6 * (jacket + 0.5),
        -0.5 * (feed - 1.0),
    )


def pendulum(z: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Pendulum that a recorded torque drives: x'' = -w^2 sin x - c x' + u."""
    angle, speed, torque = _columns(z)
    friction, frequency = _columns(theta)
    swing = -(frequency**2) * np.sin(angle) - friction * speed + torque
    return _stack(speed, swing, -0.5 * torque)


def chemostat(z: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Cells and food (Monod) in logarithms; the recorded pump is the input."""
    cells, food = np.exp(np.clip(z[..., 0], -6, 6)), np.exp(np.clip(z[..., 1], -6, 6))
    fastest, half, feed = _columns(theta)
    growth, flow = fastest * food / (half + food), 0.3 * np.exp(0.4 * z[..., 2])
    return _stack(
        growth - flow, flow * (feed / food - 1) - growth * cells / food, -0.4 * z[..., 2]
    )


def suspension(z: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Quarter of a car: body, wheel and road."""
    body, body_speed, wheel, wheel_speed, road = _columns(z)
    spring, damper = _columns(theta)
    force = spring * (wheel - body) + damper * (wheel_speed - body_speed)
    return _stack(body_speed, force, wheel_speed, 20 * (road - wheel) - 3 * force, -0.5 * road)


#: Regimes in the order of the alphabet, which is that of a Panel.
SYSTEMS: dict[str, System] = {
    "oscillator": System(
        oscillator, {"fast": (0.6, 1.7), "mild": (0.6, 1.0), "stiff": (2.2, 1.0)},
        (0.0, 0.0), (1.5, 1.6), (0.04, 0.06), 0.15, 3,
    ),
    "double-well": System(
        double_well,
        {"damped": (1.6, 1.0, 1.0), "hard": (0.3, 1.0, 4.0), "soft": (0.3, 1.0, 1.0)},
        (0.0, 0.0, 0.0), (0.9, 0.4, 0.45), (0.02, 0.04, 0.2), 0.25, 2,
    ),
    "tanks": System(
        tanks,
        {
            "blocked": (0.30, 0.32, 0.30, 0.18, 0.30),
            "normal": (0.30, 0.32, 0.30, 0.30, 0.30),
            "surge": (0.42, 0.32, 0.30, 0.30, 0.30),
        },
        (1.1, 1.1, 1.9, 1.2), (0.4, 0.4, 0.7, 0.4), (0.012, 0.01, 0.01, 0.01), 1.0, 2, 400,
    ),
    "building": System(
        building,
        {"closed": (1.5, 0.05, 0.2), "open": (1.5, 0.2, 0.2), "scaled": (1.5, 0.05, 0.1)},
        (23.0, 19.0, 42.0, 5.0), (6.0, 5.0, 11.0, 1.5), (0.1, 0.05, 0.2, 0.25), 0.5, 1, 500,
    ),
    "resonances": System(
        resonances,
        {
            "cracked": (0.8, 0.06, 2.6, 0.5),
            "loose": (1.6, 0.06, 1.7, 0.5),
            "sound": (1.6, 0.06, 2.6, 0.5),
        },
        (0.0, 0.0, 0.0, 0.0), (1.1, 1.1, 0.5, 0.5), (0.12, 0.12, 0.12, 0.12), 0.3, 2,
    ),
    "predators": System(
        predators,
        {"fertile": (2.6, 1.9, 0.7), "hungry": (1.6, 2.6, 0.7), "lasting": (2.6, 1.9, 0.45)},
        (-1.4, -1.0), (1.4, 0.8), (0.05, 0.05), 0.3, 3, 300,
    ),
    "epidemic": System(
        epidemic,
        {"calm": (0.55, 0.25, 0.04), "rapid": (0.9, 0.25, 0.04), "treated": (0.55, 0.4, 0.04)},
        (-3.2, -0.5, 0.0), (1.0, 0.9, 0.7), (0.06, 0.03, 0.35), 1.0, 2, 300,
    ),
    "battery": System(
        battery,
        {"aged": (0.9, 1.0, 0.2), "cold": (0.6, 2.2, 0.35), "fresh": (0.5, 1.0, 0.2)},
        (0.6, 0.0, 0.0, 0.9, 0.0), (0.14, 0.5, 0.2, 0.8, 1.0), (0.004, 0.02, 0.01, 0.02, 0.45),
        0.5, 2, 300, 1,
    ),
    "motor": System(
        motor,
        {"loaded": (0.3, 0.3, 0.35), "normal": (0.3, 0.3, 0.1), "worn": (0.6, 0.3, 0.1)},
        (0.4, 0.8, 0.2, 1.0), (0.4, 0.5, 0.08, 0.5), (0.02, 0.02, 0.006, 0.2), 0.1, 2, 400, 1,
    ),
    "arm": System(
        arm,
        {"carrying": (3.0, 1.0, 0.4), "empty": (0.5, 1.0, 0.4), "stiff": (0.5, 9.0, 0.4)},
        (0.0, 0.0, 0.0, 0.0), (0.35, 0.45, 0.75, 0.95), (0.01, 0.01, 0.15, 0.2), 0.08, 2, 300,
    ),
    "network": System(
        network,
        {"east": (0.8, 0.0), "north": (0.0, 0.8), "west": (-0.8, 0.0)},
        (0.2,) * 12, (1.0,) * 12, (0.12,) * 12, 0.3, 1,
    ),
    "reactor": System(
        reactor,
        {"active": (0.5, 1.6, 0.4), "fouled": (0.5, 1.6, 0.15), "tired": (0.28, 1.6, 0.4)},
        (0.3, 2.4, 0.8, 1.0), (0.2, 0.9, 0.4, 0.35), (0.015, 0.02, 0.01, 0.2), 0.4, 2, 300, 1,
    ),
    "pendulum": System(
        pendulum, {"long": (0.4, 1.4), "rusty": (1.4, 1.9), "short": (0.4, 1.9)},
        (0.0, 0.0, 0.0), (0.35, 0.4, 0.47), (0.01, 0.03, 0.2), 0.2, 2, 200, 1,
    ),
    "chemostat": System(
        chemostat,
        {"inhibited": (0.8, 1.5, 3.0), "rich": (0.8, 0.6, 4.5), "usual": (0.8, 0.6, 3.0)},
        (1.0, -0.8, 0.0), (0.35, 0.6, 0.7), (0.02, 0.05, 0.4), 0.5, 3, 300, 1,
    ),
    "suspension": System(
        suspension, {"firm": (4.0, 1.8), "soft": (2.0, 0.6), "worn": (4.0, 0.4)},
        (0.0,) * 5, (0.9, 1.1, 0.6, 1.0, 0.5), (0.01, 0.08, 0.01, 0.15, 0.15), 0.1, 2,
    ),
}  # fmt: skip
