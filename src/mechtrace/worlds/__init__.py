"""Simulators with known truth: worlds to learn from, schedules to recover.

Enters: the name of a world and a seed. Happens: mechanisms are drawn, mixed by a schedule and
seen through sensors. Leaves: `Simulation`: a Panel with its latents and shares.
"""

from .._runtime.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
