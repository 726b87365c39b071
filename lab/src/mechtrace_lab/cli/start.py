"""`mechtrace bench start`: start-up time."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from typing import Annotated

import typer

from mechtrace.cli import Json, Quiet, write_json

logger = logging.getLogger(__name__)

#: What is timed, and what it may take at most.
STARTS = {
    "mechtrace --help": (["-m", "mechtrace", "--help"], 0.5),
    "import mechtrace": (["-c", "import mechtrace"], 0.3),
}


def start(
    repeats: Annotated[int, typer.Option(help="The median of so many.", min=1)] = 9,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Seconds until `mechtrace --help` has printed and until `import mechtrace` is done.

    \b
    Example:
      mechtrace bench start --json start.json
    """
    result = {}
    for name, (arguments, limit) in STARTS.items():
        took = sorted(_seconds([sys.executable, *arguments]) for _ in range(repeats))
        middle = took[len(took) // 2]
        result[name] = {"seconds": middle, "slowest": took[-1], "limit": limit}
        others = f"slowest of {repeats}: {took[-1]:.3f} s; limit {limit} s"
        logger.info(f"{name}: {middle:.3f} s ({others})")
    write_json(json_file, result)


def _seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began
