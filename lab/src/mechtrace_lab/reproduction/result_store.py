"""Stored rows of a scale, arranged for figures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import side_by_side
from .entries import WHO, MeasureCall
from .plan import TABLES
from .tables import Figure

#: Cells of a table by row and column.
Cells = dict[tuple[str, str], side_by_side.Measured]
#: Answers at several settings, by who gives them; "paper" are the printed ones.
Answers = dict[str, list[Figure | None]]


@dataclass(frozen=True)
class ResultStore:
    """Rows of one scale in a folder."""

    out: Path
    scale: str
    seeds: int

    def lines(self, table: str) -> list[side_by_side.Measured]:
        """A table from the stored rows."""
        return side_by_side.measured(table, self.out, scale=self.scale, seeds=self.seeds)

    def cells(self, table: str) -> Cells:
        """A table by row and column; empty if nothing is stored."""
        lines = self.lines(table)
        if not any(line.found for line in lines):
            return {}
        return {(line.entry.row, line.entry.column): line for line in lines}

    def measure_calls(
        self, table: str, measure: str
    ) -> list[tuple[MeasureCall, list[dict[str, Any]]]]:
        """Calls of a measure for each row of a table, with the figures of every world."""
        rows = side_by_side.stored_rows(table, self.out, scale=self.scale, seeds=self.seeds)
        wanted = {
            entry.row: (place.source, place.call)
            for entry in TABLES[table].entries
            for place in entry.where
            if place.call is not None and place.call.measure == measure
        }
        found = []
        for source, call in wanted.values():
            measured = [row["measures"] for row in rows[source]]
            found.append((call, [one[call.key] for one in measured if call.key in one]))
        return found


def answers(cells: Cells, rows: Iterable[str], column: str) -> Answers:
    """Answers of all methods in one column of these rows."""
    chosen = [cells[row, column] for row in rows]
    found: Answers = {"paper": [cell.entry.printed for cell in chosen]}
    for who in WHO:
        found[who] = [cell.found[who][0] if who in cell.found else None for cell in chosen]
    return found


def worlds(cells: Cells) -> int:
    """Largest number of worlds behind a cell."""
    return max(seeds for cell in cells.values() for _, seeds in cell.found.values())
