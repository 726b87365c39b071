"""Long-format tables: one row per series and time, one column per role or channel."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..errors import DataError
from .names import encode_names, encode_regimes, listed, refuse_repeated, shown
from .origin import Origin
from .parts import Parts, Roles, finish
from .stamps import parse_time

if TYPE_CHECKING:
    import pandas as pd


def frame_parts(
    frame: pd.DataFrame,
    roles: Roles,
    source: str = "DataFrame",
    row_name: Callable[[int], str] = "row {}".format,
) -> Parts:
    """Read a long-format frame; the channels default to all columns without another role."""
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise DataError(f"a pandas DataFrame is needed, not {type(frame).__name__}", where=source)
    if not len(frame):
        raise DataError("there are no rows", where=source, fix="give at least one row of data")
    frame = frame.set_axis([str(label) for label in frame.columns], axis=1)
    refuse_repeated(frame.columns, "column name", source)
    channels = _channels(list(frame.columns), roles, source)
    series, time, regime = roles.get("series"), roles.get("time"), roles.get("regime")

    def column_name(column: int | str) -> str:
        return f"column {channels[column] if isinstance(column, int) else column!r}"

    origin = Origin(source, row_name, column_name)
    parts = Parts(
        values=np.stack([_numbers(frame[c], k, origin) for k, c in enumerate(channels)], axis=1),
        offsets=np.array([0, len(frame)]),
        names=np.array(["0"]),
        time=None if time is None else parse_time(frame[time], time, origin),
        codes=None,
        regimes=(),
        channels=tuple(channels),
        gap=roles.get("gap"),
        source=source,
        groups=None,
    )
    if regime is not None:
        labels = encode_regimes(frame[regime], column_name(regime), source)
        parts["codes"], parts["regimes"] = labels
    group = roles.get("group")
    if series is None:
        if group is not None:
            parts["groups"] = _groups(frame[group], np.zeros(len(frame), int), group, origin)
        return finish(parts, roles.get("missing"), origin)
    owner, names = encode_names(frame[series])
    what = "no series name in {}".format
    fix = "fill it or remove the row"
    origin.refuse(owner < 0, lambda row: what(origin.cell(row, series)), fix)
    if group is not None:
        parts["groups"] = _groups(frame[group], owner, group, origin)
    parts["names"] = np.array(names, dtype=np.str_)
    parts["offsets"] = np.cumsum([0, *np.bincount(owner)])
    return finish(parts, roles.get("missing"), origin, owner)


def _groups(column: pd.Series, owner: np.ndarray, name: str, origin: Origin) -> np.ndarray:
    """The group of each series, which must be the same in all of its rows."""
    codes, found = encode_names(column)
    fix = "fill it or remove the row"
    origin.refuse(codes < 0, lambda row: f"no group in {origin.cell(row, name)}", fix)
    _, first_rows = np.unique(owner, return_index=True)
    of_series = codes[first_rows]
    origin.refuse(
        codes != of_series[owner],
        lambda row: f"a second group of one series in {origin.cell(row, name)}",
        "give each series one group, or name the column that tells the series apart",
    )
    return np.array(found, dtype=np.str_)[of_series]


def _channels(columns: list[str], roles: Roles, source: str) -> list[str]:
    """Check every column that was asked for; the channels default to all the others."""
    keys = {role: roles.get(role) for role in ("time", "series", "regime", "group")}
    chosen = roles.get("channels")
    if chosen is None:
        chosen = [name for name in columns if name not in keys.values()]
        if "" in chosen:
            what = f"column {columns.index('') + 1} has no name"
            raise DataError(what, where=source, fix="name it, or pass the channels to use")
    wanted = [chosen] if isinstance(chosen, str) else [str(name) for name in chosen]
    known = f"the columns are {listed(columns)}"
    for role, name in [*keys.items(), *(("channel", name) for name in wanted)]:
        if name is not None and name not in columns:
            what = f"there is no column {shown(name)} (asked for as {role})"
            raise DataError(what, where=source, fix=known)
    if not wanted:
        raise DataError("no channels are left", where=source, fix=known)
    return wanted


def _numbers(column: pd.Series, channel: int, origin: Origin) -> np.ndarray:
    """A column as a real array; text is read as numbers where it can be."""
    import pandas as pd

    if pd.api.types.is_complex_dtype(column.dtype):
        what = f"{origin.column(channel)} holds complex numbers"
        raise origin.error(what, "split it into two real columns")
    if column.dtype == bool:
        return column.to_numpy(dtype=np.uint8)
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iuf":
        return column.to_numpy()
    if pd.api.types.is_numeric_dtype(column.dtype):  # nullable and arrow columns
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    texts = column.astype(str).replace({"True": "1", "False": "0"})
    numbers = pd.to_numeric(texts, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    bad = np.isnan(numbers) & column.notna().to_numpy() & (texts.str.strip() != "").to_numpy()

    def wrong(row: int) -> str:
        return f"{shown(column.iloc[row])} in {origin.cell(row, channel)} is not a number"

    origin.refuse(bad, wrong, "correct it, or leave the column out by naming the channels")
    return numbers
