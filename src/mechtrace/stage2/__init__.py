"""Recovery: latents of a new recording -> alpha(t) on the simplex, with intervals.

Enters: a model, the statistics of pure regimes and a Panel. Happens: observation models turn
latents into information about alpha_t; a Kalman filter and a fixed-interval smoother combine it
over time; a quadratic program imposes the simplex. Leaves: `Trajectory` with events.
"""

from .._runtime.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
