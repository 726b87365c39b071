"""What is kept of a scale, as figures want it: the cells of a table, the answers of a measure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import compare
from .entries import WHO, Ask
from .plan import TABLES
from .tables import Figure

#: Cells of a table by row and column.
Cells = dict[tuple[str, str], compare.Measured]
#: Answers at several settings, by who gives them; "paper" are the printed ones.
Answers = dict[str, list[Figure | None]]


@dataclass(frozen=True)
class Kept:
    """Rows of one scale in a folder."""

    out: Path
    scale: str
    seeds: int

    def lines(self, table: str) -> list[compare.Measured]:
        """A table, whatever of it is kept."""
        return compare.measured(table, self.out, scale=self.scale, seeds=self.seeds)

    def cells(self, table: str) -> Cells:
        """A table by row and column; empty where nothing of it is kept."""
        lines = self.lines(table)
        if not any(line.found for line in lines):
            return {}
        return {(line.entry.row, line.entry.column): line for line in lines}

    def asked(self, table: str, measure: str) -> list[tuple[Ask, list[dict[str, Any]]]]:
        """How a measure is asked for each row of a table, with its figures in every world."""
        rows = compare.kept_rows(table, self.out, scale=self.scale, seeds=self.seeds)
        wanted = {
            entry.row: (place.source, place.ask)
            for entry in TABLES[table].entries
            for place in entry.where
            if place.ask is not None and place.ask.measure == measure
        }
        found = []
        for source, ask in wanted.values():
            measured = [row["measures"] for row in rows[source]]
            found.append((ask, [one[ask.key] for one in measured if ask.key in one]))
        return found


def answers(cells: Cells, rows: Iterable[str], column: str) -> Answers:
    """Who says what in one column of these rows."""
    chosen = [cells[row, column] for row in rows]
    found: Answers = {"paper": [cell.entry.printed for cell in chosen]}
    for who in WHO:
        found[who] = [cell.found[who][0] if who in cell.found else None for cell in chosen]
    return found


def worlds(cells: Cells) -> int:
    """How many worlds a table rests on, at most."""
    return max(seeds for cell in cells.values() for _, seeds in cell.found.values())
