"""How a text table is written: what stands between its cells, and before the decimals."""

from __future__ import annotations

import csv
import gzip
import re
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO

#: Lines that are looked at; decimal commas that first appear later are an error of their cell.
SAMPLE_LINES = 1000
SEPARATORS = ",;\t|"
_NUMBER = {mark: re.compile(rf"[+-]?\d*{re.escape(mark)}\d+([eE][+-]?\d+)?") for mark in ".,"}
_WHOLE = re.compile(r"[+-]?\d+")
SPOKEN = {";": "semicolons", "\t": "tabs", "|": "bars"}


@dataclass(frozen=True)
class Dialect:
    """What separates cells, and what marks decimals."""

    separator: str = ","
    decimal: str = "."

    def __str__(self) -> str:
        cells = f"{SPOKEN[self.separator]} between cells" if self.separator in SPOKEN else ""
        return cells + (", decimal commas" if self.decimal == "," else "")


def open_text(path: Path) -> IO[str]:
    """UTF-8 text, unpacked by the suffix."""
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    return opened(path, "rt", encoding="utf-8-sig", newline="")


def separator(path: Path) -> str:
    """Tab or comma, by the suffix: what is written."""
    return "\t" if path.name.lower().endswith((".tsv", ".tsv.gz")) else ","


def dialect_of(path: Path) -> Dialect:
    """Read off the first lines: spreadsheets of half of Europe write 1,5;2,5 into .csv files."""
    with open_text(path) as text:
        lines = [line for line in islice(text, SAMPLE_LINES) if line.strip()]
    mark = separator(path)
    if mark == "," and lines and any(other in lines[0] for other in SEPARATORS[1:]):
        mark = max(SEPARATORS, key=lambda candidate: _fit(lines, candidate))
    if mark == ",":
        return Dialect()
    cells = [cell.strip() for row in csv.reader(lines[1:], delimiter=mark) for cell in row]
    commas, points = (any(map(_NUMBER[kind].fullmatch, cells)) for kind in ",.")
    return Dialect(mark, "," if commas and not points else ".")


def _fit(lines: list[str], mark: str) -> tuple[bool, float, int]:
    """How well a separator explains the lines: rows like the header, numbers, many cells."""
    header, *rows = csv.reader(lines, delimiter=mark)
    cells = [cell.strip() for row in rows for cell in row]
    numbers = sum(
        any(pattern.fullmatch(cell) for pattern in (_WHOLE, *_NUMBER.values())) for cell in cells
    )
    alike = len(header) > 1 and all(len(row) == len(header) for row in rows)
    return alike, numbers / max(1, len(cells)), len(header)
