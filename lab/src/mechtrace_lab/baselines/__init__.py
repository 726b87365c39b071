"""Other methods, published and textbook, behind one protocol.

Enters: a Panel and `Settings` that are the same for all methods. Happens: a method is imported
when it is made, so that a missing package concerns that method only, and trained. Leaves: latents
and regime weights of recordings, where the method has them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mechtrace.errors import ConfigError

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
    "mechtrace": ("ours", "MechtraceMethod"),
    "algorithm1": ("ours", "Algorithm1"),
    "gate": ("gating", "GatingNetwork"),
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
    """Make a method by its name.

    Parameters
    ----------
    name : str
        A key of `METHODS`.
    **settings
        Fields of `Settings`.

    Raises
    ------
    ConfigError
        If there is no such method.
    """
    if name not in METHODS:
        raise ConfigError(f"there is no method {name!r}", fix=f"use one of {', '.join(METHODS)}")
    module, kind = METHODS[name]
    home = import_module(module if "." in module else f".{module}", __package__)
    method: Method = getattr(home, kind)(Settings(**settings))
    return method
