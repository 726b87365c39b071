"""The paper, Algorithm 1, our default and the oracle, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..jobs import Row
from .entries import WHO, Entry, Source
from .models import scale_named
from .plan import TABLES, measure_calls
from .real_data import StudySource
from .run import job_of
from .tables import Figure


@dataclass(frozen=True)
class Measured:
    """One entry of a table with what we found, over seeds."""

    entry: Entry
    found: dict[str, tuple[Figure, int]]  # who -> mean and spread, and how many seeds

    @property
    def reached(self) -> bool | None:
        """Whether our default reaches the printed value; None where neither is better."""
        printed, mine = self.entry.printed, self.found.get("default")
        if printed is None or mine is None or not self.entry.better:
            return None
        if self.entry.better == "less":
            return round(mine[0].value, 3) <= printed.value
        return round(mine[0].value, 3) >= printed.value

    def to_dict(self) -> dict[str, Any]:
        """Convert to a dictionary for JSON."""
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
    """Fill a table from the stored rows."""
    table = TABLES[name]
    rows = stored_rows(name, out, scale=scale, seeds=seeds)
    lines = []
    for entry in table.entries:
        found: dict[str, list[float]] = {}
        for place in entry.where:
            for row in rows[place.source]:
                value = _at(row, place.path)
                if value is not None:
                    found.setdefault(place.who, []).append(value)
        lines.append(Measured(entry, {who: (_spread(v), len(v)) for who, v in found.items()}))
    return lines


def stored_rows(name: str, out: Path, *, scale: str, seeds: int) -> dict[Source, list[Row]]:
    """Read the stored rows of each source of a table."""
    rows: dict[Source, list[Row]] = {}
    for source in measure_calls([name]):
        # nothing is asked: a row that answers some of the questions will do
        jobs = [job_of(source, scale_named(scale), seed) for seed in range(seeds)]
        kept = [job.stored_row(out / scale) for job in jobs]
        rows[source] = [row for row in kept if row is not None]
    return rows


def absent(name: str, out: Path, *, scale: str, seeds: int) -> list[str]:
    """Reasons why missing parts of a table cannot be measured here."""
    rows = stored_rows(name, out, scale=scale, seeds=seeds)
    unknown = [one for one, kept in rows.items() if isinstance(one, StudySource) and not kept]
    reasons = [one.job(scale_named(scale), 0, "cpu").missing() for one in unknown]
    return list(dict.fromkeys(reason for reason in reasons if reason is not None))


def _at(figures: Any, path: Sequence[str]) -> float | None:
    for name in path:
        figures = figures.get(name) if isinstance(figures, dict) else None
    return figures if isinstance(figures, (int, float)) else None


def _spread(values: list[float]) -> Figure:
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return Figure(float(np.mean(values)), spread)


def markdown(lines: Sequence[Measured]) -> str:
    """Format as Markdown; `*` marks a printed figure that our default does not reach."""
    cells = _cells(lines)
    head, *rows = ("| " + " | ".join(row) + " |" for row in cells)
    return "\n".join([head, "|---" * len(cells[0]) + "|", *rows])


def text(lines: Sequence[Measured]) -> str:
    """Format for a terminal."""
    rows = _cells(lines)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def leads(lines: Sequence[Measured]) -> list[str]:
    """Compare ours with the best of the other methods, column by column."""
    said = []
    for column in dict.fromkeys(line.entry.column for line in lines):
        here = [line for line in lines if line.entry.column == column]
        ours = [line.found["default"][0] for line in here if "default" in line.found]
        theirs = [(line.found["other"][0], line) for line in here if "other" in line.found]
        if ours and theirs:
            best, line = max(theirs, key=lambda one: one[0].value)
            said.append(
                f"{column}: mechtrace {shown(ours[0])}, the best of the others"
                f" {shown(best)} ({line.entry.row})"
            )
    return said


#: Below this a value is shown by its power of ten alone.
TINY = 5e-5
#: Whose answers a column holds.
HEADS = dict(zip(WHO, ("algorithm 1", "mechtrace", "oracle", "other methods"), strict=True))


def _cells(lines: Sequence[Measured]) -> list[tuple[str, ...]]:
    several = any(place.who == "other" for line in lines for place in line.entry.where)
    shown_of = [who for who in WHO if several or who != "other"]
    out: list[tuple[str, ...]] = [("", "", "paper", *(HEADS[who] for who in shown_of))]
    before = None
    for line in lines:
        entry = line.entry
        cells = [shown(line.found[who][0]) if who in line.found else "" for who in shown_of]
        if line.reached is False:
            cells[WHO.index("default")] += " *"
        row = "" if entry.row == before else entry.row
        before = entry.row
        paper = shown(entry.printed) if entry.printed else ""
        out.append((row, entry.column, paper, *cells))
    return out


def shown(figure: Figure) -> str:
    """A value with its spread.

    >>> shown(Figure(0.9876, 0.01)), shown(Figure(0.00049)), shown(Figure(1.2e-21, 1e-21))
    ('0.988 +- 0.010', '0.0005', '1e-21')
    """
    if 0 < abs(figure.value) < TINY:  # how far below is all that matters
        return f"{figure.value:.0e}"
    digits = 3 if abs(figure.value) >= 0.01 or figure.value == 0 else 4
    spread = "" if figure.spread is None else f" +- {figure.spread:.{digits}f}"
    return f"{figure.value:.{digits}f}{spread}"
