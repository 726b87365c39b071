"""The paper, Algorithm 1, our default and the oracle, side by side."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .models import SCALES
from .plan import TABLES, WHO, Entry
from .run import jobs_for
from .tables import Figure


@dataclass(frozen=True)
class Measured:
    """One entry of a table with what we found, over seeds."""

    entry: Entry
    found: dict[str, tuple[Figure, int]]  # who -> mean and spread, and how many seeds

    @property
    def reached(self) -> bool | None:
        """Whether our default is as good as what is printed; None where that is no question."""
        printed, mine = self.entry.printed, self.found.get("default")
        if printed is None or mine is None or not self.entry.better:
            return None
        if self.entry.better == "less":
            return round(mine[0].value, 3) <= printed.value
        return round(mine[0].value, 3) >= printed.value

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        return {
            "row": self.entry.row,
            "column": self.entry.column,
            "printed": self.entry.printed and self.entry.printed._asdict(),
            "found": {
                who: figure._asdict() | {"seeds": seeds}
                for who, (figure, seeds) in self.found.items()
            },
            "reached": self.reached,
        }


def measured(name: str, out: Path, *, scale: str, seeds: int) -> list[Measured]:
    """A table from the rows that are kept; an entry without rows has nothing found."""
    table = TABLES[name]
    rows = kept_rows(name, out, scale=scale, seeds=seeds)
    lines = []
    for entry in table.entries:
        found: dict[str, list[float]] = {}
        for row in rows.get(entry.model.name, []):
            figures = row["measures"].get(entry.ask.key)
            for who, path in entry.where:
                value = _at(figures, path)
                if value is not None:
                    found.setdefault(who, []).append(value)
        lines.append(Measured(entry, {who: (_spread(v), len(v)) for who, v in found.items()}))
    return lines


def kept_rows(name: str, out: Path, *, scale: str, seeds: int) -> dict[str, list[dict[str, Any]]]:
    """The kept rows of each model."""
    assert scale in SCALES
    rows: dict[str, list[dict[str, Any]]] = {}
    for job in jobs_for([name], scale=scale, seeds=seeds, device="cpu"):
        path = out / scale / f"{job.stem}.json"
        if path.exists():
            row = json.loads(path.read_text(encoding="utf-8"))
            if row["status"] == "finished":
                rows.setdefault(job.model.name, []).append(row)
    return rows


def _at(figures: Any, path: Sequence[str]) -> float | None:
    for name in path:
        figures = figures.get(name) if isinstance(figures, dict) else None
    return figures if isinstance(figures, (int, float)) else None


def _spread(values: list[float]) -> Figure:
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return Figure(float(np.mean(values)), spread)


def markdown(lines: Sequence[Measured]) -> str:
    """As a table; `*` marks a printed figure that our default does not reach."""
    rows = ["| " + " | ".join(cells) + " |" for cells in _cells(lines)]
    return "\n".join([rows[0], "|---" * len(HEAD) + "|", *rows[1:]])


def text(lines: Sequence[Measured]) -> str:
    """The same for a terminal."""
    rows = _cells(lines)
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


HEAD = ("", "", "paper", "algorithm 1", "mechtrace", "oracle")


def _cells(lines: Sequence[Measured]) -> list[tuple[str, ...]]:
    out: list[tuple[str, ...]] = [HEAD]
    before = None
    for line in lines:
        entry = line.entry
        cells = [shown(line.found[who][0]) if who in line.found else "" for who in WHO]
        if line.reached is False:
            cells[WHO.index("default")] += " *"
        row = "" if entry.row == before else entry.row
        before = entry.row
        paper = shown(entry.printed) if entry.printed else ""
        out.append((row, entry.column, paper, *cells))
    return out


def shown(figure: Figure) -> str:
    """A value with its spread.

    >>> shown(Figure(0.9876, 0.01)), shown(Figure(0.00049))
    ('0.988 +- 0.010', '0.0005')
    """
    digits = 3 if abs(figure.value) >= 0.01 or figure.value == 0 else 4
    spread = "" if figure.spread is None else f" +- {figure.spread:.{digits}f}"
    return f"{figure.value:.{digits}f}{spread}"
