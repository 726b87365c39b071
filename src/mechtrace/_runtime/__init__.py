"""What every room may use and no user sees: files, threads, memory, seeds, progress.

Enters: nothing of mechtrace but its errors. Happens: files are written whole or not at all,
threads and memory are kept in check, random numbers come from one seed. Leaves: small helpers.
"""

from .lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
