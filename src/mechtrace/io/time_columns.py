"""Columns with the time: found by their cells, and joined from a date and a time of day."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .column_names import CLOCKS_OF_DAY, DAYS, names_time, without_unit
from .structure import as_numbers

if TYPE_CHECKING:
    import pandas as pd

#: A time of day, as 8:05 or 08:05:30.5.
_TIME_OF_DAY = re.compile(r"\s*\d{1,2}:\d\d(:\d\d([.,]\d+)?)?(\s*[AaPp][Mm])?\s*")
_DATE = r"\s*\d{1,4}[-./年]\d{1,2}[-./月]\d{1,4}日?(?=$|[T\s])"


def find_time(frame: pd.DataFrame, free: Sequence[str]) -> str | None:
    """Find the first column of dates, or one that is named like a time and goes up."""
    dates = [name for name in free if _holds_dates(frame[name])]
    named = [name for name in free if names_time(name) and _mostly_rises(frame[name])]
    return next(iter([*dates, *named]), None)


def date_and_clock(frame: pd.DataFrame, time: str, free: Sequence[str]) -> list[str]:
    """Find a column with the date and one with the time of day; empty without a pair."""
    days = [n for n in free if without_unit(n) in DAYS and not _is_time_of_day(frame[n])]
    clocks = [n for n in free if without_unit(n) in CLOCKS_OF_DAY or n == time]
    clocks = [n for n in clocks if n not in days and _is_time_of_day(frame[n])]
    whole = [n for n in days if not frame[n].astype(str).head(20).str.contains(":").any()]
    return [whole[0], clocks[0]] if whole and clocks else []


def join_cells(frame: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Add a column with the cells of several, as date and time of day; its name lists theirs."""
    cells = [frame[name].astype(str).mask(frame[name].isna(), "").str.strip() for name in columns]
    joined = cells[0]
    for part in cells[1:]:
        joined = joined + " " + part
    return frame.assign(**{",".join(columns): joined})


def _holds_dates(column: pd.Series) -> bool:
    """Tell whether a column holds dates, by its first cells."""
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return True
    if pd.api.types.is_numeric_dtype(column.dtype):
        return False
    cells = column.dropna().astype(str).head(20)
    return len(cells) > 0 and bool(cells.str.match(_DATE).all())


def _is_time_of_day(column: pd.Series) -> bool:
    """Tell whether a column holds times of day, by its first cells."""
    cells = column.dropna().astype(str).head(20)
    return len(cells) > 0 and all(map(_TIME_OF_DAY.fullmatch, cells))


def _mostly_rises(column: pd.Series) -> bool:
    """Tell whether a column of numbers goes up in nearly all rows."""
    numbers = as_numbers(column).to_numpy(dtype=float, na_value=np.nan)
    return len(numbers) > 1 and bool((np.diff(numbers) > 0).mean() > 0.9)
