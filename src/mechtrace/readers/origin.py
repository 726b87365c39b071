"""Where rows and cells came from, so that every defect is named by its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..errors import DataError


@dataclass(frozen=True)
class Origin:
    """Names rows by their number, and columns by name or number of the channel."""

    source: str
    row: Callable[[int], str]
    column: Callable[[int | str], str]
    column_first: bool = True

    def cell(self, row: int, column: int | str) -> str:
        """Name a cell."""
        place = self.column(column), self.row(row)
        return ", ".join(place if self.column_first else place[::-1])

    def error(self, what: str, fix: str | None = None) -> DataError:
        """An error in what the user handed over."""
        return DataError(what, where=self.source, fix=fix)

    def refuse(self, bad: np.ndarray, what: Callable[[int], str], fix: str | None = None) -> None:
        """Refuse the first bad row, if there is one."""
        if bad.any():
            raise self.error(what(first(bad)), fix)


def first(mask: np.ndarray) -> int:
    """Position of the first True."""
    return int(np.argmax(mask))
