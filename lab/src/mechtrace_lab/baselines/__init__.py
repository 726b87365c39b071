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

#: Where each method lives: name -> module and class. A module is one of this package, unless its
#: name has a dot.
METHODS: dict[str, tuple[str, str]] = {
    "tdrl": ("tdrl", "TDRL"),
    "nctrl-hard": ("nctrl", "HardNCTRL"),
    "nctrl-soft": ("nctrl", "SoftNCTRL"),
    "leap": ("leap", "LEAP"),
    "ivae": ("ivae", "IVAE"),
    "pcl": ("pcl", "PCL"),
    "mechtrace": ("ours", "Ours"),
    "algorithm1": ("ours", "Algorithm1"),
    "gate": ("gate", "GateAlone"),
    "gaussian-hmm": ("hmm", "GaussianHMM"),
    "ar-hmm": ("hmm", "AutoregressiveHMM"),
    "change-points": ("changepoints", "ChangePoints"),
    "logistic-regression": ("classify", "Logistic"),
    "gradient-boosting": ("classify", "Boosting"),
    "lda": ("classify", "Discriminant"),
    "nearest-mean": ("classify", "NearestMean"),
    "straight-line": ("classify", "StraightLine"),
    "centroid": ("heuristics", "Centroid"),
    "optical-flow": ("heuristics", "OpticalFlow"),
}


def make(name: str, **settings: Any) -> Method:
    """A method by its name; `settings` are fields of `Settings`, the same for all."""
    if name not in METHODS:
        raise ConfigError(f"there is no method {name!r}", fix=f"use one of {', '.join(METHODS)}")
    module, kind = METHODS[name]
    home = import_module(module if "." in module else f".{module}", __package__)
    method: Method = getattr(home, kind)(Settings(**settings))
    return method
