"""The command line: parse, call, print.

Enters: arguments. Happens: each command reads its inputs, calls the estimator and writes; its
module is imported when it is invoked. Leaves: files, a few lines, an exit code. Other
packages add commands by entry points in the group `mechtrace.commands`.
"""

from .._runtime.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
