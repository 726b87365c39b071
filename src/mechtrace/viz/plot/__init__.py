"""Result objects or plain arrays -> matplotlib axes.

Every function draws into `ax`, or into a new figure, and returns the axes: one, or an array of
them for several panels (`ax` may then be a list, or one that is divided). Colours are those of
the report; no global setting of matplotlib is changed.
"""

from ..._runtime.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
