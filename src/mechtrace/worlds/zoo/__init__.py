"""A zoo of simulated systems of other kinds than the paper's.

Enters: the name of a system and a seed. Happens: parameters are mixed convexly by a schedule, the
differential equations are integrated and read through nonlinear sensors, with faults on request.
Leaves: `Simulation`: a Panel with its latents and shares.
"""

from ..._runtime.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
