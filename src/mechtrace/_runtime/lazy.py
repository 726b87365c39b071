"""Modules that are imported when they are first used: exports of packages, drawing of results."""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

_drawing: list[str] = []


def attach(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package, from its stub beside `file`.

    The stub `__init__.pyi` lists what the package exports as plain `from .module import name`
    lines. Type checkers read the same list, and importing the package costs nothing.
    """
    homes: dict[str, str] = {}
    for node in ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.level:
            homes |= {alias.asname or alias.name: node.module or "" for alias in node.names}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if not homes[name]:
            return import_module(f".{name}", package)
        return getattr(import_module(f".{homes[name]}", package), name)

    return get, lambda: sorted(homes), sorted(homes)


def provide(module: str) -> None:
    """Name the module whose functions `render` calls; the package itself does so once."""
    _drawing[:] = [module]


def render(name: str, *given: Any, **options: Any) -> Any:
    """Call a function of that module, as in `render("trajectory_plot", self)`.

    So results draw themselves although rooms that compute never import rooms that draw.
    """
    return getattr(import_module(_drawing[0]), name)(*given, **options)
