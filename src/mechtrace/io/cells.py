"""Time stamps become numbers or dates without a zone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .names import shown
from .origin import Origin, first

if TYPE_CHECKING:
    import pandas as pd


#: 31.01.2024: with points between them, days always come first.
DAY_FIRST = r"^(\d\d)\.(\d\d)\.(\d{4})\b"


def parse_time(stamps: Any, column: str, origin: Origin) -> np.ndarray:
    """Time stamps as numbers or datetime64[ns]; those with a time zone become naive UTC."""
    import pandas as pd

    stamps = pd.Series(stamps)
    absent, fix = stamps.isna().to_numpy(), "fill it or remove the row"
    origin.refuse(absent, lambda row: f"no time in {origin.cell(row, column)}", fix)
    if isinstance(stamps.dtype, pd.DatetimeTZDtype):
        stamps = stamps.dt.tz_convert("UTC").dt.tz_localize(None)
    plain = stamps.to_numpy()
    if plain.dtype.kind not in "biufM":  # text, and objects that read well as text
        plain = _from_text(stamps.astype(str), column, origin)
    if plain.dtype.kind == "M":
        outside = (plain < np.datetime64("1678")) | (plain >= np.datetime64("2262"))
        what = "the date {} is outside the years 1678 to 2261".format
        origin.refuse(outside, lambda row: what(plain[row]), "give the time as numbers")
        # One unit for all dates, so that the same data has one fingerprint in every format.
        return plain.astype("datetime64[ns]", copy=False)
    endless, fix = ~np.isfinite(plain), "write a number or remove the row"
    origin.refuse(endless, lambda row: f"infinite time in {origin.cell(row, column)}", fix)
    return plain.astype(np.int64) if plain.dtype.kind == "b" else plain


def _from_text(texts: pd.Series, column: str, origin: Origin) -> np.ndarray:
    import pandas as pd

    def quoted(row: int) -> str:
        return f"{shown(texts.iloc[row])} in {origin.cell(row, column)}"

    numbers = pd.to_numeric(texts, errors="coerce")
    is_number = numbers.notna().to_numpy()
    if is_number.all():
        return numbers.to_numpy()
    texts = texts.str.replace(DAY_FIRST, r"\3-\2-\1", regex=True)
    dates = pd.to_datetime(texts, format="ISO8601", utc=True, errors="coerce")
    bad = dates.isna().to_numpy() & ~is_number
    fix = "write dates as in 2024-01-31 or 2024-01-31T12:30:00"
    origin.refuse(bad, lambda row: f"{quoted(row)} is neither a number nor a date", fix)
    if is_number.any():
        pair = f"{quoted(first(is_number))}, but {quoted(first(~is_number))}"
        raise origin.error(f"times mix numbers and dates: {pair}", "use one kind")
    return dates.dt.tz_localize(None).to_numpy()
