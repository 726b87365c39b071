"""How many files of mechtrace a CSV crosses in `fit` and in `recover --report`.

    python lab/tools/count_walk.py            # a table: files and functions entered, by command
    python lab/tools/count_walk.py --list     # the same, and the functions of each file
    python lab/tools/count_walk.py --write    # the same, also into docs/architecture.md

Functions that run while a module is imported are not counted, nor are comprehensions and lambdas.
"""

from __future__ import annotations

import contextlib
import inspect
import runpy
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import mechtrace

PRODUCT = Path(mechtrace.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
#: Files and functions at the last commit before the package was divided into rooms, by this tool.
BEFORE = {"fit": (58, 361), "recover --report": (72, 383)}
SMALL = ("regimes=2", "latents=3", "channels=6", "length=40")
WORLD = ["--world", "paper-positive", *(word for pair in SMALL for word in ("--set", pair))]
MAKE = {
    "runs.csv": ["--series", "12"],
    "new.csv": ["--transition", "simple", "--series", "1", "--seed", "1"],
}
WALKS = {
    "fit": ["fit", "runs.csv", "--out", "m.mechtrace", "--latents", "3", "--hidden", "8",
            "--steps", "200"],
    "recover --report": ["recover", "m.mechtrace", "new.csv", "--out", "alpha.csv",
                         "--report", "report.html"],
}  # fmt: skip


class Footprints:
    """Files and functions of the product in the order in which they are first entered."""

    def __init__(self) -> None:
        self.functions: dict[str, list[str]] = {}
        self._seen: set[CodeType] = set()
        self._importing = threading.local()

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        """Profile hook of Python: note where a call arrives."""
        code = frame.f_code
        importing = code.co_name == "<module>" and not code.co_filename.endswith("__main__.py")
        if importing and event in ("call", "return"):
            depth = getattr(self._importing, "depth", 0)
            self._importing.depth = depth + (1 if event == "call" else -1)
        elif event == "call" and code not in self._seen:
            self._note(code)

    def _note(self, code: CodeType) -> None:
        if getattr(self._importing, "depth", 0) or not code.co_flags & inspect.CO_OPTIMIZED:
            return
        self._seen.add(code)
        place = Path(code.co_filename)
        if not code.co_name.startswith("<") and place.is_relative_to(PRODUCT):
            name = str(place.relative_to(PRODUCT))
            self.functions.setdefault(name, []).append(code.co_qualname.split(".<locals>.")[-1])

    @contextlib.contextmanager
    def recorded(self) -> Any:
        """Listen while the block runs, in this thread and in those it starts."""
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            yield self
        finally:
            sys.setprofile(None)
            threading.setprofile(None)


def call(*words: str) -> None:
    """Run `mechtrace WORDS` in this process."""
    sys.argv = ["mechtrace", *words, "--quiet"]
    try:
        runpy.run_module("mechtrace", run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise


def walk() -> dict[str, Footprints]:
    """Each command once on a small simulated CSV."""
    found = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, words in MAKE.items():
            call("simulate", "--out", name, *WORLD, *words)
        for name, words in WALKS.items():
            with Footprints().recorded() as found[name]:
                call(*words)
    return found


def rooms(walked: Footprints) -> str:
    """`stage2 12, io 6, ...`: files entered by room."""
    count = Counter(name.split("/")[0] if "/" in name else "top" for name in walked.functions)
    return ", ".join(f"{room} {number}" for room, number in count.most_common())


def table(found: dict[str, Footprints]) -> str:
    """Files and functions of each command, beside those of the version without rooms."""
    lines = [
        "| command | files | functions | files by room | files before | functions before |",
        "|---|---|---|---|---|---|",
    ]
    for name, walked in found.items():
        functions = sum(map(len, walked.functions.values()))
        before = " | ".join(map(str, BEFORE[name]))
        lines.append(
            f"| `{name}` | {len(walked.functions)} | {functions} | {rooms(walked)} | {before} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Print the table, and do what the options ask for."""
    options = set(sys.argv[1:])
    found = walk()
    text = table(found)
    print(text)
    if "--write" in options:
        start, end = "<!-- walk:start -->", "<!-- walk:end -->"
        page = PAGE.read_text(encoding="utf-8")
        head, tail = page.split(start)[0], page.split(end)[1]
        PAGE.write_text(f"{head}{start}\n{text}\n{end}{tail}", encoding="utf-8")
    for name, walked in found.items() if "--list" in options else ():
        print(f"\n{name}")
        for place, functions in walked.functions.items():
            print(f"  {place}: {', '.join(functions)}")


if __name__ == "__main__":
    main()
