"""A job: a computation whose result is stored under a hash of its inputs."""

from __future__ import annotations

import json
import resource
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mechtrace._runtime import atomic_path

if TYPE_CHECKING:
    from mechtrace.stage1 import Listener

FINISHED, FAILED, SKIPPED = "finished", "failed", "skipped"

Row = dict[str, Any]


class Job(ABC):
    """A computation that runs once in its own process and whose row is stored."""

    @property
    @abstractmethod
    def kind(self) -> str:
        """Jobs of one kind take about as long as each other."""

    @property
    @abstractmethod
    def seed(self) -> int:
        """The seed of everything random in it."""

    @abstractmethod
    def about(self) -> dict[str, Any]:
        """All that its result depends on, ready for JSON."""

    @abstractmethod
    def run(self, folder: Path, listeners: Sequence[Listener] = ()) -> Row:
        """Run the job in this process and return its row."""

    @abstractmethod
    def describe(self, row: Row) -> str:
        """Summarise a finished row in a line."""

    @property
    def label(self) -> str:
        """The beginning of the name of its files."""
        return self.kind

    @property
    def stem(self) -> str:
        """Name of its files, with a hash of what it depends on."""
        # tuples are lists after a round trip through JSON, so they must be in the hash
        text = json.dumps(self.about(), sort_keys=True)
        key = blake2b(text.encode(), digest_size=6).hexdigest()
        return f"{self.label}-seed{self.seed}-{key}"

    def stored_row(self, folder: Path) -> Row | None:
        """Return the stored row of a finished run, or None."""
        try:
            row = json.loads((folder / f"{self.stem}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return row if isinstance(row, dict) and row.get("status") == FINISHED else None

    def store(self, folder: Path, row: Row) -> None:
        """Write the row atomically."""
        with atomic_path(folder / f"{self.stem}.json") as temporary:
            temporary.write_text(json.dumps(row, indent=1, allow_nan=False) + "\n", "utf-8")

    def row(self, status: str, **more: Any) -> Row:
        """Make a row of this job."""
        return {"stem": self.stem} | self.about() | {"status": status} | more

    def line(self, row: Row) -> str:
        """Describe a row in one line."""
        head = f"{self.kind} seed {self.seed}: "
        if row["status"] != FINISHED:
            return f"{head}{row['status']}: {row['reason']}".rstrip(".")
        return head + self.describe(row)


def plain(figures: Any) -> Any:
    """Convert figures for JSON; non-finite numbers become null."""
    if isinstance(figures, dict):
        return {name: plain(value) for name, value in figures.items()}
    if isinstance(figures, (list, tuple)):
        return [plain(value) for value in figures]
    if isinstance(figures, (float, np.floating)):
        return float(figures) if np.isfinite(figures) else None
    return figures


def peak_memory() -> int:
    """Peak memory of this process in bytes.

    What getrusage says counts the process that started this one too, so it is the second choice.
    """
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(status.split("VmHWM:")[1].split()[0]) * 1024
    except (OSError, IndexError, ValueError):
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
