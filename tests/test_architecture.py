"""The rules of the rooms: who may import whom, and what importing costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import mechtrace

ROOT = Path(mechtrace.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))


def room(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[0]


def imports(path: Path, *, top_level_only: bool = False) -> set[str]:
    """Absolute names of what a module imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = ["mechtrace", *path.relative_to(ROOT).parts[:-1]]
    nodes = tree.body if top_level_only else list(ast.walk(tree))
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            found.add(module)
            found |= {f"{module}.{alias.name}" for alias in node.names}
    return found


def touches(found: set[str], name: str) -> bool:
    return any(item == name or item.startswith(name + ".") for item in found)


FORBIDDEN = {
    "metrics": ["torch"],
    "recover": ["torch"],
    "diagnose": ["torch"],
    "nets": ["pandas", "pathlib", "os", "io", "mechtrace.series", "mechtrace.store"],
    "experts": ["pandas", "pathlib", "os", "io", "mechtrace.series", "mechtrace.store"],
    "model": ["pandas", "pathlib", "os", "io", "mechtrace.series", "mechtrace.store"],
}


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_rooms_keep_to_themselves(path):
    found = imports(path)
    for name in FORBIDDEN.get(room(path), []):
        assert not touches(found, name), f"{path.name} imports {name}"
    if room(path) not in ("paper", "baselines") and not room(path).startswith("cli"):
        assert not touches(found, "mechtrace.paper")
        assert not touches(found, "mechtrace.baselines")
    for name in ("pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"):
        assert not touches(found, name)
    assert path.name != "utils.py"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_optional_and_heavy_packages_are_imported_late(path):
    found = imports(path, top_level_only=True)
    for name in (
        "cv2",
        "hmmlearn",
        "pandas",
        "ruptures",
        "zuko",
        "matplotlib",
        "plotly",
        "pyarrow",
        "rich",
        "sklearn",
        "tensorboard",
        "xarray",
    ):
        assert not touches(found, name), f"{path.name} imports {name} at the top"


def loaded_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_is_cheap():
    loaded = loaded_after("import mechtrace, mechtrace.cli")
    assert not loaded & {"torch", "pandas", "scipy", "numpy"}


def test_help_and_refusals_of_the_command_line_are_cheap():
    for words in ("'--help'", "'fit', '--help'", "'--version'", "'fit', '--bogus'"):
        loaded = loaded_after(
            "import contextlib, io, mechtrace.cli\n"
            f"sys.argv = ['mechtrace', {words}]\n"
            "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
            "    mechtrace.cli.main()"
        )
        assert not loaded & {"torch", "pandas", "scipy", "numpy", "rich"}


def test_public_names_resolve_and_unknown_ones_do_not():
    for name in mechtrace.__all__:
        assert getattr(mechtrace, name) is not None
    assert set(mechtrace.__all__) <= set(dir(mechtrace))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = mechtrace.nonsense
