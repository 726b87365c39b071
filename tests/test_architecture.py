"""The plan of the rooms: who may import whom, and what importing costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import mechtrace

ROOT = Path(mechtrace.__file__).parent
MODULES = {
    ".".join(["mechtrace", *path.relative_to(ROOT).with_suffix("").parts]).removesuffix(
        ".__init__"
    ): path
    for path in sorted(ROOT.rglob("*.py"))
}
#: Each room may import itself and the rooms before it: the way of data, from left to right.
ORDER = (
    "errors", "config", "metrics", "_runtime", "linalg", "io", "data", "vision", "stage1",
    "identifiability", "stage2", "diagnose", "worlds", "evaluate", "described",
    "fitted", "estimator", "viz",
    "demo", "cli", "__main__",
)  # fmt: skip
#: The heavy or untidy things that a room does without.
FORBIDDEN = {
    "metrics": {"torch"},
    "linalg": {"torch", "pandas"},
    "diagnose": {"torch"},
    "worlds": {"pandas"},
}
#: Networks know no files and no tables; the inference of stage 2 knows no networks.
FORBIDDEN_MODULES = {
    "mechtrace.stage1.networks": {"pandas", "pathlib", "os", "mechtrace.data", "mechtrace.io"},
    "mechtrace.stage1.experts": {"pandas", "pathlib", "os", "mechtrace.data", "mechtrace.io"},
    "mechtrace.stage1.vae": {"pandas", "pathlib", "os", "mechtrace.data", "mechtrace.io"},
    "mechtrace.stage2.kalman": {"torch"},
    "mechtrace.stage2.inference": {"torch"},
    "mechtrace.stage2.algorithm1": {"torch"},
    "mechtrace.stage2.trajectory": {"torch"},
}
LATE = {
    "cv2", "pandas", "zuko", "matplotlib", "plotly", "pyarrow", "rich", "tensorboard", "xarray",
}  # fmt: skip


def nodes(path: Path) -> list[ast.stmt]:
    """All statements but those that only type checkers read."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            node.body = []
    return [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]


@cache
def imports(name: str, *, top_level_only: bool = False) -> frozenset[str]:
    """Absolute names of what a module imports, lazily or not."""
    path = MODULES[name]
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    found: set[str] = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    chosen = tree.body if top_level_only else nodes(path)
    for node in chosen:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                full = f"{module}.{alias.name}"
                found.add(full if full in MODULES else module)
    return frozenset(found)


def touches(found: frozenset[str], name: str) -> bool:
    return any(item == name or item.startswith(name + ".") for item in found)


def room(name: str) -> str:
    return name.split(".")[1] if "." in name else ""


@pytest.mark.parametrize("name", [name for name in MODULES if name != "mechtrace"])
def test_rooms_import_only_rooms_before_them(name):
    here = ORDER.index(room(name))
    for other in imports(name):
        if other.startswith("mechtrace."):
            assert ORDER.index(room(other)) <= here, f"{name} imports {other}"
    forbidden = FORBIDDEN.get(room(name), set()) | FORBIDDEN_MODULES.get(name, set())
    for other in {*forbidden, "mechtrace_lab", "pickle", "cloudpickle", "dill", "joblib",
                  "marshal", "shelve"}:  # fmt: skip
        assert not touches(imports(name), other), f"{name} imports {other}"


def test_there_is_no_import_cycle_lazy_or_not():
    graph = {name: {other for other in imports(name) if other in MODULES} for name in MODULES}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_the_package_is_laid_out_as_planned():
    top = [name for name, path in MODULES.items() if path.parent == ROOT]
    assert len(top) <= 10
    for name, path in MODULES.items():
        lines = path.read_text(encoding="utf-8").splitlines()
        assert len(lines) <= 400, f"{name} has {len(lines)} lines"
        assert path.name != "utils.py"
        if path.name == "__init__.py" and path.parent != ROOT and room(name) != "viz":
            doc = ast.get_docstring(ast.parse("\n".join(lines))) or ""
            assert "leaves" in doc.lower(), f"{name} does not say what enters and what leaves"


@pytest.mark.parametrize("name", MODULES)
def test_optional_and_heavy_packages_are_imported_late(name):
    for heavy in LATE:
        found = imports(name, top_level_only=True)
        assert not touches(found, heavy), f"{name} imports {heavy} at the top"


def loaded_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_is_cheap():
    loaded = loaded_after("import mechtrace, mechtrace.cli.main")
    assert not loaded & {"torch", "pandas", "scipy", "numpy"}


def test_help_and_refusals_of_the_command_line_are_cheap():
    for words in ("'--help'", "'fit', '--help'", "'--version'", "'fit', '--bogus'"):
        loaded = loaded_after(
            "import contextlib, io, mechtrace.cli.main\n"
            f"sys.argv = ['mechtrace', {words}]\n"
            "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
            "    mechtrace.cli.main.main()"
        )
        assert not loaded & {"torch", "pandas", "scipy", "numpy", "rich"}


@pytest.mark.parametrize("name", [n for n, p in MODULES.items() if p.name == "__init__.py"])
def test_what_a_package_exports_exists(name):
    package = __import__(name, fromlist=["__all__"])
    exported = getattr(package, "__all__", [])
    for each in exported:
        assert getattr(package, each) is not None
    assert set(exported) <= set(dir(package))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = package.nonsense
