"""The catalogue of methods: requirements, outputs, and which are installed."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from mechtrace.errors import ConfigError, MissingDependency

from ..baselines import METHODS, make
from ..baselines.protocol import Traits

#: Methods that look at pictures or tracks; they are compared only when they are named.
SPECIAL = ("centroid", "optical-flow")
#: Where a package is installed under another name than it is imported.
INSTALLED_AS = {"sklearn": "scikit-learn", "cv2": "opencv-python-headless"}


@dataclass(frozen=True)
class MethodInfo:
    """A method of the catalogue."""

    name: str
    traits: Traits | None
    missing: str = ""  # what to install first

    def line(self, width: int) -> str:
        """Format name, title, requirements and outputs."""
        if self.traits is None:
            return f"{self.name:{width}}  {self.missing}"
        needs = "needs labels" if self.traits.labels else "needs no labels"
        gives = [word for word in ("latents", "weights") if getattr(self.traits, word)]
        text = f"{self.traits.title}: {needs}, gives {' and '.join(gives) or 'nothing'}"
        install = f" (first: {self.missing})" if self.missing else ""
        return f"{self.name:{width}}  {text}{install}"

    def to_dict(self) -> dict[str, Any]:
        """Convert to a dictionary for JSON."""
        traits = self.traits
        known = {} if traits is None else {
            "title": traits.title, "about": traits.about, "labels": traits.labels,
            "latents": traits.latents, "weights": traits.weights,
        }  # fmt: skip
        return {"name": self.name, "missing": self.missing or None} | known


def method_info(name: str) -> MethodInfo:
    """Look up a method without running it."""
    try:
        traits = make(name).traits
    except MissingDependency as error:
        return MethodInfo(name, None, error.fix or str(error))
    except ModuleNotFoundError as error:
        return MethodInfo(name, None, _install(error.name or name))
    absent = bool(traits.package) and find_spec(traits.package) is None
    return MethodInfo(name, traits, _install(traits.package) if absent else "")


def _install(package: str) -> str:
    return f"pip install {INSTALLED_AS.get(package, package)}"


def method_infos() -> list[MethodInfo]:
    """All methods, in the order of their names."""
    return [method_info(name) for name in sorted(METHODS)]


def choose_methods(names: list[str] | None) -> tuple[list[MethodInfo], dict[str, str]]:
    """Choose the methods to compare; also return those left out, with the reason.

    None means all that can run here; a name of one that cannot is an error.
    """
    if names is not None:
        if not names or "" in names:
            raise ConfigError("a method without a name", fix="write --methods mechtrace,leap")
        found = [method_info(name) for name in dict.fromkeys(names)]
        for one in found:
            if one.missing:
                raise MissingDependency(
                    f"the method {one.name} needs a package that is not here", fix=one.missing
                )
        return found, {}
    usual = [one for one in method_infos() if one.name not in SPECIAL]
    able = [one for one in usual if not one.missing]
    if not able:
        raise ConfigError("there is no method that can run here", fix="install one's package")
    return able, {one.name: one.missing for one in usual if one.missing}
