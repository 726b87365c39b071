"""Figures of studies and comparisons, in the style of `mechtrace.plot`.

Enters: rows of studies and results of comparisons. Leaves: matplotlib axes.
"""

from .comparison import comparison, method_curves
from .scenes import skeletons, track
from .sweeps import error_against_bound, error_against_length, methods, sweep, theory

__all__ = [
    "comparison", "error_against_bound", "error_against_length", "method_curves", "methods",
    "skeletons", "sweep", "theory", "track",
]  # fmt: skip
