"""Other people's methods, and what practitioners use, behind one small protocol.

Nothing of mechtrace itself needs this room; `mechtrace compare` and the reproduction of the paper
do. A method is imported when it is asked for, so that a missing package matters to it alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ..errors import ConfigError
from .protocol import Method, Settings, Traits, Truth

__all__ = ["METHODS", "Method", "Settings", "Traits", "Truth", "make"]

#: Where each method lives: name -> module of this package and class.
METHODS: dict[str, tuple[str, str]] = {
    "tdrl": ("tdrl", "TDRL"),
    "leap": ("leap", "LEAP"),
    "ivae": ("ivae", "IVAE"),
    "pcl": ("pcl", "PCL"),
}


def make(name: str, **settings: Any) -> Method:
    """A method by its name; `settings` are fields of `Settings`, the same for all."""
    if name not in METHODS:
        raise ConfigError(f"there is no method {name!r}", fix=f"use one of {', '.join(METHODS)}")
    module, kind = METHODS[name]
    method: Method = getattr(import_module(f".{module}", __package__), kind)(Settings(**settings))
    return method
