"""Which latent axes are identified, by what evidence, and how surely.

Enters: a trained model and its transitions. Happens: non-Gaussian noise, regime-dependent
variances, the mechanism form and sparse mechanism change are tested by rotating pairs of axes;
their consensus sets the axes. Leaves: `Axes`, the model in these coordinates, W^(k) with errors.
"""

from .._runtime.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
