"""The lab uses of mechtrace only what its packages export, and plugs in by entry points."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import sys
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import mechtrace
import mechtrace_lab
from mechtrace.cli import main as cli

LAB = Path(mechtrace_lab.__file__).parents[2]
SOURCES = sorted((LAB / "src").rglob("*.py"))
FILES = [*SOURCES, *sorted((LAB / "tools").glob("*.py"))]
PRODUCT = sorted(Path(mechtrace.__file__).parent.rglob("*.py"))


def used(path: Path) -> set[tuple[str, str]]:
    """(module of mechtrace, name) of everything that a file imports from there."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and not node.level:
            module = node.module or ""
            if module == "mechtrace" or module.startswith("mechtrace."):
                found |= {(module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {
                (alias.name, "") for alias in node.names if alias.name.startswith("mechtrace.")
            }
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(LAB)))
def test_the_lab_imports_only_what_packages_export(path):
    for name, what in used(path):
        module = importlib.import_module(name)
        place = Path(module.__file__ or "")
        top = place.parent == Path(mechtrace.__file__).parent
        assert place.name == "__init__.py" or top, f"{path.name} reaches into {name}"
        assert not what.startswith("_"), f"{path.name} uses the private {what}"
        if place.name == "__init__.py" and what:
            assert what in module.__all__, f"{name} does not export {what}"


def test_the_commands_of_the_lab_are_plugged_in():
    names = {point.name for point in entry_points(group="mechtrace.commands")}
    assert set(cli.LAB_COMMANDS) <= names


def test_without_the_lab_a_command_says_how_to_install_it(monkeypatch, capsys):
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [])
    bare = cli.typer.main.get_command(cli.app)
    monkeypatch.setattr(cli, "_built", lambda: bare)
    monkeypatch.setattr(sys, "argv", ["mechtrace", "compare", "runs.csv", "--methods", "lda"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 2
    assert 'pip install "mechtrace[lab]"' in capsys.readouterr().err


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(LAB / "src").with_suffix("").parts).removesuffix(".__init__")


def imports(path: Path, modules: set[str]) -> set[str]:
    """Modules of the lab that a file imports, lazily or not."""
    name, found = module_name(path), set()
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                full = f"{module}.{alias.name}"
                found.add(full if full in modules else module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & modules - {name}


def test_the_lab_has_no_import_cycle():
    modules = {module_name(path) for path in SOURCES}
    try:
        TopologicalSorter({module_name(p): imports(p, modules) for p in SOURCES}).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(LAB)))
def test_files_are_short_and_packages_say_what_enters_and_leaves(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 400
    if path.name == "__init__.py":
        doc = ast.get_docstring(ast.parse(text)) or ""
        assert "Enters" in doc
        assert "Leaves" in doc


def test_class_names_of_the_lab_are_used_once():
    names: Counter[str] = Counter()
    ours = set()
    for path in [*PRODUCT, *SOURCES]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                names[node.name] += 1
                ours |= {node.name} if path in SOURCES else set()
    assert {name for name in ours if names[name] > 1} == set()
