"""Spreadsheets (.xlsx): the first sheet that holds a table."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError, MissingDependency
from .cells import name_text, refuse_repeated
from .csv_text import without_odd_rows
from .discover import unreadable

if TYPE_CHECKING:
    import pandas as pd


class ExcelTable:
    """The first sheet with more than one row; its first row is the header."""

    dialect = None

    def __init__(self, path: Path) -> None:
        import pandas as pd

        try:
            import openpyxl  # noqa: F401
        except ImportError as error:
            fix = 'pip install "mechtrace[excel]"'
            raise MissingDependency("spreadsheets (.xlsx) need openpyxl", fix=fix) from error
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about styles and extensions
                sheets = pd.read_excel(path, sheet_name=None, dtype=object, engine="openpyxl")
        except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
            raise unreadable(path, error) from error
        filled = {name: sheet for name, sheet in sheets.items() if len(sheet)}
        if not filled:
            fix = "give a sheet with a header and rows below it"
            raise DataError("no sheet holds a table", where=path.name, fix=fix)
        title, frame = next(iter(filled.items()))
        self.remarks = [f"sheet {title!r} of {len(sheets)}"] if len(filled) > 1 else []
        nameless = [str(name).startswith("Unnamed: ") for name in frame.columns]
        header = [
            "" if no else str(name).strip() for name, no in zip(frame, nameless, strict=True)
        ]
        frame = frame.set_axis(header, axis=1)
        refuse_repeated(filter(None, header), "column name", path.name)
        frame = frame.loc[:, ~(frame.isna().all().to_numpy() & np.array(nameless))]
        blank = frame.isna().all(axis=1).to_numpy()
        keep, found = without_odd_rows(frame)
        self.remarks += found
        self._kept = np.flatnonzero(keep & ~blank)
        frame = frame.iloc[self._kept].reset_index(drop=True)
        self._frame = frame.infer_objects() if keep.all() else frame.apply(_as_numbers)
        self.path, self.header = path, list(self._frame.columns)

    def frame(self, text_columns: Iterable[str | None]) -> pd.DataFrame:
        """Return the table; `text_columns` hold names, even where they look like numbers."""
        frame = self._frame
        for name in set(text_columns) & {*self.header}:
            column = frame[name]
            texts: list[Any] = [name_text(cell) for cell in column]
            frame = frame.assign(**{str(name): texts})
            frame.loc[column.isna(), str(name)] = ""
        return frame

    def row_name(self, row: int) -> str:
        """Name a row by its number in the sheet."""
        return f"row {int(self._kept[row]) + 2}"


def _as_numbers(column: pd.Series) -> pd.Series:
    import pandas as pd

    numbers = pd.to_numeric(column, errors="coerce")
    return numbers if (numbers.notna() | column.isna()).all() else column
