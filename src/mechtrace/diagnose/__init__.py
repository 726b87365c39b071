"""Can the recovered trajectory be trusted? Findings and a verdict.

Enters: a Trajectory and the statistics of pure regimes. Happens: separation of the mechanisms,
goodness of fit, assumptions and shape are measured and graded. Leaves: `Diagnosis`.
"""

from .._runtime.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
