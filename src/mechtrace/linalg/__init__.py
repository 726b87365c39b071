"""Linear algebra of many small systems: batched, block tridiagonal, on the simplex.

Enters and leaves: float64 arrays. One layout for all of them and for the inference of stage 2:
matrices (m, m, T, ...), vectors (m, T, ...), scalars (T, ...), with time and batch last, so that
one operation on an entry covers all steps of all series. Happens: inverses of small matrices,
block tridiagonal systems, projections and quadratic programs on the simplex.
"""

from .._runtime.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
