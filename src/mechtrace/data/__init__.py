"""Recordings in memory: the Panel, its stretches without gaps, and how it is prepared.

Enters: the parts that `io` has read and checked. Happens: recordings are joined, resampled,
detrended, adapted to other sensors, split into runs and crops. Leaves: `Panel` and `Series`, and
the rows that training and recovery work on.
"""

from .._runtime.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
