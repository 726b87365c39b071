"""What of a state a picture shows: two of its parts, in units of their own spread."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .rendering import Rendered

#: Position and angle in the state (x, v, theta, omega).
SHOWN = (0, 2)
#: Share of the steps that the measured range leaves out on each side, and how much it is widened
#: for recordings that go further.
LEFT_OUT, WIDENED = 1e-4, 1.15
#: Beyond the margin a state still moves, but less and less, and by no more than this.
SOFT = 0.15


@dataclass(frozen=True, eq=False)
class View:
    """Maps a state to the place of the cart and the angle of the pole; both are 1 at the margin.

    The map is linear, so nothing is squeezed where the state usually is.
    """

    centre: np.ndarray = field(repr=False)
    half: np.ndarray = field(repr=False)

    @classmethod
    def of(cls, latents: np.ndarray) -> View:
        """The range that holds almost all of these latents (..., d)."""
        seen = latents[..., SHOWN].reshape(-1, 2).astype(float)
        low, high = np.quantile(seen, [LEFT_OUT, 1 - LEFT_OUT], axis=0)
        return cls(0.5 * (low + high), np.maximum(0.5 * WIDENED * (high - low), 1e-9))

    def place(self, latents: np.ndarray) -> np.ndarray:
        """Place and angle (..., 2), softly clipped beyond the margin."""
        u = self._units(latents)
        beyond = np.maximum(np.abs(u) - 1, 0)
        return np.clip(u, -1, 1) + np.sign(u) * SOFT * np.tanh(beyond / SOFT)

    def outside(self, latents: np.ndarray) -> float:
        """Share of the steps in which the cart or the pole had to be clipped."""
        return float((np.abs(self._units(latents)) > 1).any(axis=-1).mean())

    def film(self, latents: np.ndarray, size: int) -> Rendered:
        """Pictures (N * T, size, size) of latents (N, T, d)."""
        from .rendering import Rendered, Scene

        return Rendered(self.place(latents).reshape(-1, 2), Scene(size))

    def _units(self, latents: np.ndarray) -> np.ndarray:
        return (latents[..., SHOWN] - self.centre) / self.half
