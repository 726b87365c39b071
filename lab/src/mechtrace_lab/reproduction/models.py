"""Models of the paper: world, number of recordings, and scale."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mechtrace import worlds
from mechtrace.data import Panel
from mechtrace.errors import ConfigError
from mechtrace.estimator import Trace

from ..studies.alignment import matching

#: Recordings of each regime in the paper.
FULL = 40_000
#: Recordings of each regime on which latents are judged.
TEST_SERIES = 100


@dataclass(frozen=True)
class Scale:
    """Size of the computations: the paper's, or reduced."""

    name: str
    share: float  # of the recordings
    trials: int  # that share a schedule
    seeds: int  # fresh worlds, unless asked otherwise
    settings: tuple[tuple[str, Any], ...] = ()  # of Trace
    limits: tuple[tuple[str, int], ...] = ()  # of options of the world

    def recordings(self, wanted: int) -> int:
        """Number of recordings that stand for `wanted` of the paper."""
        return max(20, round(self.share * wanted))


SMALL = (("regimes", 10), ("latents", 12), ("channels", 24))
SCALES = {
    # trials: as many as it names for the simplex table; steps: it trains for hours
    "paper": Scale("paper", 1.0, 500, 3, (("steps", 8000),)),
    "quick": Scale("quick", 0.05, 200, 1, (("steps", 2500),)),
    # for the tests: everything runs, little is learned
    "smoke": Scale("smoke", 0.0005, 8, 1, (("steps", 60), ("align", False)), SMALL),
}


def scale_named(name: str) -> Scale:
    """Look up a scale."""
    if name not in SCALES:
        raise ConfigError(f"there is no scale {name!r}", fix="use quick or paper")
    return SCALES[name]


@dataclass(frozen=True)
class Model:
    """A model of the paper; equal ones are trained once for all tables."""

    name: str
    options: tuple[tuple[str, Any], ...] = ()  # of the world
    recordings: int = FULL  # of each regime, at the paper's scale
    label_noise: float = 0.0
    learned: tuple[int, ...] | None = None  # regimes to learn from; None: all
    align: bool = True
    world: str = "paper"

    def about(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"options": dict(self.options)}

    def draw(self, seed: int, scale: Scale) -> worlds.World:
        """Draw the world."""
        options = dict(self.options)
        for name, most in scale.limits:
            if name in options:
                options[name] = min(options[name], most)
        return worlds.make(self.world, seed=seed, **options)

    def panel(self, world: worlds.World, scale: Scale) -> Panel:
        """Simulate the training data."""
        count = scale.recordings(self.recordings)
        panel = world.simulate(count, label_noise=self.label_noise).panel
        if self.learned is None:
            return panel
        return panel.select([world.regimes[k] for k in self.learned])

    def train(
        self, panel: Panel, world: worlds.World, scale: Scale, seed: int, device: str
    ) -> Trace:
        """Train the model."""
        config = world.config
        settings = {"latents": config.latents, "lags": config.lags, "align": self.align}
        trace = Trace(seed=seed, device=device, **settings | dict(scale.settings))
        return trace.fit(panel, progress=False)


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained model with its world."""

    world: worlds.World
    trace: Trace
    scale: Scale

    @property
    def lags(self) -> int:
        """Number of lags."""
        return self.world.config.lags

    @cached_property
    def pure(self) -> worlds.Simulation:
        """New pure recordings."""
        return self.world.simulate(TEST_SERIES, seed=1)

    @cached_property
    def pure_latents(self) -> np.ndarray:
        """Their learned latents, (N, T, d)."""
        return np.stack(self.trace.encode(self.pure.panel))

    @cached_property
    def known(self) -> list[int]:
        """Indices of the learned regimes, in the order of the model."""
        return [self.world.regimes.index(name) for name in self.trace.regimes_]

    @cached_property
    def effects(self) -> np.ndarray | None:
        """Learned W^(k) in the coordinates of the truth, (K, d, d); None without aligned axes."""
        weights = self.trace.weights_
        if weights is None:
            return None
        late = slice(self.lags, None)
        partner, slope = matching(self.pure.latents[:, late], self.pure_latents[:, late])
        found = weights.jacobian[:, 0][:, partner][:, :, partner]
        return found * slope[:, None] / slope
