"""mechtrace: how much of each mechanism is at work, when, and how surely.

>>> import mechtrace as mt
>>> world = mt.worlds.make("paper", regimes=2)
>>> world.simulate(series=3).panel
Panel: 6 series x 50 rows x 16 channels, regimes: R0, R1 (simulation)
"""

from ._runtime.lazy import attach, provide

__version__ = "0.1.0"

provide("mechtrace.viz.renderers")  # how results draw themselves

__getattr__, __dir__, __all__ = attach(__name__, __file__)
