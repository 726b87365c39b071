"""mechtrace: how much of each mechanism is at work, when, and how surely.

>>> import mechtrace as mt
>>> world = mt.worlds.make("paper", regimes=2)
>>> world.simulate(series=3).panel
Panel: 6 series x 50 rows x 16 channels, regimes: R0, R1 (simulation)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import worlds
    from .adapt import Adapter
    from .errors import MechtraceError
    from .estimator import Trace, load
    from .gating import Gate, fit_gate
    from .recover.network import Mechanisms
    from .recover.trajectory import Trajectory
    from .reports import report
    from .series import Panel, Series

__all__ = [
    "Adapter",
    "Gate",
    "Mechanisms",
    "MechtraceError",
    "Panel",
    "Series",
    "Trace",
    "Trajectory",
    "fit_gate",
    "load",
    "report",
    "worlds",
]

# Where each public name lives; importing mechtrace itself stays cheap.
_HOMES = {
    "Adapter": "adapt",
    "Gate": "gating",
    "Mechanisms": "recover.network",
    "MechtraceError": "errors",
    "Panel": "series",
    "Series": "series",
    "Trace": "estimator",
    "Trajectory": "recover.trajectory",
    "fit_gate": "gating",
    "load": "estimator",
    "report": "reports",
}


def __getattr__(name: str) -> Any:
    if name == "worlds":
        return importlib.import_module(".worlds", __name__)
    if name in _HOMES:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
