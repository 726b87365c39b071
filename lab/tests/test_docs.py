"""Documents tell the truth: tables are current, code runs, names and links lead somewhere."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import runpy
import shlex
import subprocess
import sys
from contextlib import chdir
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest
import typer
from lab_tools import load_tool
from motions import people

import mechtrace as mt
from mechtrace import worlds
from mechtrace.cli import main as cli

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
FIRST_HOUR = DOCS / "tutorials" / "first-hour.md"
#: Pages that say this are read, and run, after the first tutorial.
GOES_ON = "The code goes on from [the first hour]"
#: Folders of small recordings that pages begin with; a reader has real ones.
BEGINS_WITH = {
    "docs/how-to/motion-capture.md": lambda here: people(here / "trials"),
    "docs/tutorials/gait.md": lambda here: people(here / "data" / "cmu_mocap", new="transition"),
}
#: Tutorials whose fits take minutes.
LONG = {"docs/tutorials/gait.md", "docs/tutorials/your-own-sensors.md"}
FENCE = re.compile(r"^```(\S+)\n(.*?)^```$", re.S | re.M)


class Block(NamedTuple):
    """Code between fences: python and bash are run, everything else is only shown."""

    language: str
    code: str
    line: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(b[1], b[2], text.count("\n", 0, b.start()) + 1) for b in FENCE.finditer(text)]


#: What the code that several pages begin with leaves behind; it is run once.
STARTS: dict[str, dict] = {}


def run_python(page: Path, block: Block, namespace: dict) -> None:
    if not namespace and block.code in STARTS:
        namespace.update(STARTS[block.code])
        return
    first = not namespace
    # lines are counted as in the page, so that a traceback points at it
    exec(compile("\n" * block.line + block.code, str(page), "exec"), namespace)
    if first:
        STARTS[block.code] = dict(namespace)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


# --- code ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def first_hour(tmp_path_factory):
    """What the first tutorial leaves behind."""
    namespace: dict = {}
    with chdir(tmp_path_factory.mktemp("first-hour")):
        for block in blocks(FIRST_HOUR):
            if block.language == "python":
                run_python(FIRST_HOUR, block, namespace)
    return namespace


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=[pytest.mark.slow] * (name_of(p) in LONG)) for p in PAGES],
    ids=name_of,
)
def test_code_runs(page, request, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    BEGINS_WITH.get(name_of(page), lambda here: None)(tmp_path)
    goes_on = page == FIRST_HOUR or GOES_ON in " ".join(page.read_text(encoding="utf-8").split())
    namespace = dict(request.getfixturevalue("first_hour")) if goes_on else {}
    for block in blocks(page) if page != FIRST_HOUR else []:
        if block.language == "python":
            run_python(page, block, namespace)
        elif block.language == "bash":
            for line in block.code.replace("\\\n", " ").splitlines():
                program, *arguments = shlex.split(line, comments=True)
                assert program == "mechtrace", f"only our own command is run, not {program}"
                assert command(*arguments)[0] == 0, line


def test_three_commands_lead_from_motions_to_a_report(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people(tmp_path / "trials")
    page = DOCS / "how-to" / "motion-capture.md"
    lines = [line for b in blocks(page) if b.language == "bash" for line in b.code.splitlines()]
    assert len(lines) == 3
    for line in lines:
        assert command(*shlex.split(line)[1:])[0] == 0, line
    curves = pd.read_csv("alpha.csv").set_index("series")
    rising, falling = curves.loc["04_01", "run"], curves.loc["05_01", "run"]
    assert rising.iloc[-20:].mean() > rising.iloc[:20].mean() + 0.5
    assert falling.iloc[-20:].mean() < falling.iloc[:20].mean() - 0.5
    assert "04_01" in Path("report.html").read_text(encoding="utf-8")


def test_fences_are_of_known_kinds():
    known = {"python", "bash", "text", "{eval-rst}", "{toctree}", "{commands}", "{settings}"}
    for page in PAGES:
        assert {block.language for block in blocks(page)} <= known, page.name


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=name_of)
def test_examples_run(script, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")


def shown_commands(page: Path) -> list[str]:
    """Our commands in fences, in indented lines and in running text."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    fenced = "\n".join(block[2] for block in FENCE.finditer(text))
    rest = FENCE.sub("", text)
    lines = re.findall(r"^(mechtrace [a-z].*)", fenced, re.M)
    lines += re.findall(r"^ {4,}(mechtrace [a-z].*)", rest, re.M)
    return lines + re.findall(r"`(mechtrace [a-z][^`]*)`", rest)


def test_commands_that_are_shown_exist():
    group = typer.main.get_command(cli.app)
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        for line in shown_commands(page):
            words = line.split("#")[0].split()[1:]
            command = group
            while words and words[0] in getattr(command, "commands", {}):
                command = command.commands[words.pop(0)]
            assert command is not group, f"{page.name}: {line}"
            options = {opt for p in command.params for opt in p.opts} | {"--help", "-h"}
            used = {word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)}
            assert used <= options, f"{page.name}: {line}"


# --- tables, names, links --------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["result_tables", "paper_tables"])
def test_generated_tables_are_current(tool):
    tables = load_tool(tool)
    for path, text in tables.outputs().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run make docs"


def documented() -> list[str]:
    """Names in the reference; of a module all that it defines."""
    text = (DOCS / "reference" / "api.md").read_text(encoding="utf-8")
    names = re.findall(r"^\.\. auto(?:class|function|data):: (\S+)", text, re.M)
    for module in re.findall(r"^\.\. automodule:: (\S+)\n   :members:", text, re.M):
        members = vars(importlib.import_module(module))
        own = [n for n, m in members.items() if getattr(m, "__module__", "") == module]
        names += [f"{module}.{name}" for name in own if not name.startswith("_")]
    return names


def found(name: str) -> object:
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module), last)


def test_public_names_are_in_the_reference():
    reference = [id(found(name)) for name in documented()]
    exported = [getattr(room, name) for room in (mt, worlds) for name in room.__all__]
    public = [thing for thing in exported if inspect.isclass(thing)]
    public += [mt.load, mt.report, worlds.make, worlds.make_schedule, worlds.oracle]
    returned = ["diagnose.Diagnosis", "diagnose.Finding", "stage2.events.Event"]
    returned += ["stage2.online.Stream", "stage2.online.OnlineEstimate"]
    returned += ["stage2.trajectory.Curve", "identifiability.Axes", "identifiability.Axis"]
    returned += ["identifiability.EvidenceSummary", "stage1.fit_record.FitRecord"]
    returned += ["config.ModelConfig", "config.FitConfig", "config.RunConfig"]
    public += [found(f"mechtrace.{name}") for name in returned]
    family = [mt.MechtraceError]
    for kind in family:
        family += kind.__subclasses__()
    for thing in [*public, *family]:
        assert id(thing) in reference, f"{thing} is missing in docs/reference/api.md"


def test_everything_in_the_reference_has_a_docstring():
    for name in documented():
        thing = found(name)
        if not inspect.isclass(thing):
            assert not callable(thing) or inspect.getdoc(thing), name
            continue
        assert thing.__doc__, name
        for member, value in vars(thing).items():
            if not member.startswith("_") and (callable(value) or isinstance(value, property)):
                assert inspect.getdoc(value), f"{name}.{member}"


def test_all_errors_are_explained():
    text = (DOCS / "reference" / "errors.md").read_text(encoding="utf-8")
    for name in documented():
        if name.startswith("mechtrace.errors."):
            assert f"`{name.rpartition('.')[2]}`" in text, name


def test_links_lead_somewhere():
    for page in [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "examples").glob("*.md")]:
        for link in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if not link.startswith("http"):
                assert (page.parent / link).exists(), f"{page.name} links to {link}"


def test_files_and_names_on_the_architecture_page_exist():
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    found = re.findall(r"\| `([\w/]+\.py)` \| `(\w+)` \|", page)
    assert len(found) > 40
    for file, name in found:
        code = (ROOT / "src" / "mechtrace" / file).read_text(encoding="utf-8")
        assert re.search(rf"^\s*(def|class) {name}\b", code, re.M), f"{name} is not in {file}"


def test_pages_build_without_warnings_and_need_no_network(tmp_path):
    pytest.importorskip("furo")
    pytest.importorskip("myst_parser")
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    strict = ["--fail-on-warning", "--quiet", "--doctree-dir", str(tmp_path / "trees")]
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", *strict, str(DOCS), str(tmp_path / "site")],
        capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path},
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    page = (tmp_path / "site" / "reference" / "cli.html").read_text(encoding="utf-8")
    assert "mechtrace calibrate" in page
    for page in (tmp_path / "site").rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        foreign = re.findall(r"<(?:script|img|link)[^>]*(?:src|href)=\"(?:https?:)?//[^>]*>", text)
        assert not foreign, page.name
