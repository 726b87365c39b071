"""Cart-pole dynamics (Barto, Sutton and Anderson 1983) with a controller and random pushes.

The state is (x, x', theta, theta'). Each regime but the first changes one parameter. A transition
mixes the parameters, which mixes the mechanisms only approximately linearly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from scipy.linalg import solve_discrete_are

from ..errors import ConfigError
from ..io.frames import Frames
from .simulation import Dynamics, EmergentEdge

#: Seconds of one Euler step, and the mass of the pole.
TAU, POLE_MASS = 0.02, 0.1
#: Half the length of the pole, mass of the cart, friction per speed, gravity, largest force.
BASELINE = np.array([0.5, 1.0, 0.5, 9.8, 10.0])
#: The parameter that a regime changes, by this factor.
FACTORS = np.array([1.5, 1.8, 8.0, 1.6, 0.65])
PARAMETERS = ("length", "mass", "friction", "gravity", "force")
#: Costs of the linear-quadratic controller of the baseline.
STATE_COST, FORCE_COST = np.diag([1.0, 0.1, 10.0, 0.1]), 0.01


@dataclass(frozen=True)
class PhysicsConfig:
    """Settings; the regimes are the baseline and one for each of `PARAMETERS`."""

    length: int = 100
    #: side of the square pictures
    size: int = 128
    #: standard deviation of the random pushes, as a share of the largest force
    pushes: float = 0.05
    #: standard deviation of the process noise
    noise: float = 0.008
    #: how far the parameters are changed: 0 not at all, 1 by `FACTORS`
    strength: float = 1.0

    lags = 1
    latents = 4

    def __post_init__(self) -> None:
        """Validate the settings."""
        if not (self.noise > 0 and self.pushes >= 0 and 0 <= self.strength <= 1):
            raise ConfigError(
                f"noise = {self.noise}, pushes = {self.pushes}, strength = {self.strength}",
                fix="make the noise positive, the pushes at least 0 and the strength at most 1",
            )
        if self.size < 8 or self.length < 2:
            what = f"size = {self.size}, length = {self.length}"
            raise ConfigError(what, fix="use at least 8 pixels and 2 steps")


@dataclass(frozen=True, eq=False)
class Physics(Dynamics):
    """The cart-pole simulator; only its recordings are random."""

    config: PhysicsConfig
    seed: int = 0

    burn_in = 200

    @cached_property
    def parameters(self) -> np.ndarray:
        """Parameters (K, 5) of each regime."""
        factors = np.ones((1 + len(FACTORS), len(FACTORS)))
        np.fill_diagonal(factors[1:], FACTORS**self.config.strength)
        return BASELINE * factors

    @cached_property
    def scales(self) -> np.ndarray:  # type: ignore[override]
        """Standard deviations (K, 4) of noise and pushes, linearised at rest."""
        rest = np.zeros((len(self.parameters), 4))
        push = self.config.pushes * self.parameters[:, -1]
        pushed = _euler(rest, push, self.parameters) - _euler(rest, 0 * push, self.parameters)
        return np.hypot(self.config.noise, pushed)

    @cached_property
    def gains(self) -> np.ndarray:
        """Feedback gains (4,) of the controller, in units of the largest force."""
        base = BASELINE[None]
        free = _jacobian(lambda z: _euler(z, np.zeros(len(z)), base))
        pushed = _euler(np.zeros((1, 4)), np.ones(1), base)
        cost = solve_discrete_are(free, pushed.T, STATE_COST, np.array([[FORCE_COST]]))
        through = pushed @ cost
        return -(through @ free / (FORCE_COST + through @ pushed.T))[0] / BASELINE[-1]

    def initial_latents(self, series: int, rng: np.random.Generator) -> np.ndarray:
        """Start near rest; the burn-in forgets it."""
        return 0.05 * rng.standard_normal((series, 1, 4), dtype=np.float32)

    def step(
        self,
        latents: np.ndarray,
        t: int,
        alpha: np.ndarray,
        emergent: EmergentEdge | None,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Take one Euler step with the mixed parameters."""
        if emergent is not None:
            raise ConfigError("physics has no edges to add", fix="leave out emergent")
        z, mixture = latents[:, t - 1].astype(float), alpha @ self.parameters
        push = self.config.pushes * rng.standard_normal(len(z))
        noise = self.config.noise * rng.standard_normal(z.shape)
        return _euler(z, mixture[:, -1] * (self._control(z) + push), mixture) + noise

    def conditional_mean(self, latents: np.ndarray, regime: int) -> np.ndarray:
        """Take one step without pushes and noise, which enter linearly."""
        out = np.full(latents.shape, np.nan)
        before = latents[:, :-1].reshape(-1, 4)
        after = self._mean_step(before, self.parameters[regime][None])
        out[:, 1:] = after.reshape(len(latents), -1, 4)
        return out

    def mixture_matrix(self, alpha: np.ndarray, emergent: EmergentEdge | None) -> np.ndarray:
        """Linearise one controlled step at rest: (..., 4, 4), [source, target]."""
        flat = (alpha @ self.parameters).reshape(-1, len(BASELINE))
        found = [_jacobian(partial(self._mean_step, parameters=row[None])).T for row in flat]
        return np.array(found).reshape(*alpha.shape[:-1], 4, 4)

    def observe(self, latents: np.ndarray, rng: np.random.Generator) -> Frames:
        """Render position and angle."""
        return self.view.render(latents, self.config.size)

    def _control(self, z: np.ndarray) -> np.ndarray:
        return np.tanh(z @ self.gains)

    def _mean_step(self, z: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        return _euler(z, parameters[:, -1] * self._control(z), parameters)


def _euler(z: np.ndarray, force: np.ndarray, parameters: np.ndarray) -> np.ndarray:
    """Take an Euler step from states (N, 4) under forces (N,), for parameters (N or 1, 5)."""
    length, mass, friction, gravity, _ = parameters.T
    _, speed, angle, swinging = z.T
    sine, cosine, total = np.sin(angle), np.cos(angle), mass + POLE_MASS
    moment = POLE_MASS * length
    pushed = (force - friction * speed + moment * swinging**2 * sine) / total
    swing = (gravity * sine - cosine * pushed) / (length * (4 / 3 - POLE_MASS * cosine**2 / total))
    faster = pushed - moment * swing * cosine / total
    return z + TAU * np.stack([speed + 0 * faster, faster, swinging + 0 * swing, swing], axis=-1)


def _jacobian(step: Callable[[np.ndarray], np.ndarray], width: float = 1e-5) -> np.ndarray:
    """Differentiate a step at rest: (4, 4), [target, source]."""
    return ((step(width * np.eye(4)) - step(-width * np.eye(4))) / (2 * width)).T
