"""A frame in long format, one row per series and time, as Parts; every cell is checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..errors import DataError, MissingColumn
from .cells import (
    BLANKS,
    Locator,
    encode_names,
    encode_regimes,
    listed,
    parse_stamps,
    refuse_repeated,
    shown,
    trimmed,
)
from .parts import Parts, Preparation, Roles, finish

if TYPE_CHECKING:
    import pandas as pd

#: Key of `DataFrame.attrs` for the columns that were levels of the index.
INDEX = "mechtrace index"


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
    frame = with_trimmed_header(with_index_columns(frame))
    refuse_repeated(frame.columns, "column name", source)
    roles = _trimmed_roles(roles)
    channels = _channels(frame, roles, source)
    time, series, regime, group = (
        roles.get("time"), roles.get("series"), roles.get("regime"), roles.get("group"),
    )  # fmt: skip
    frame = with_trimmed_names(frame, [series, regime, group], source)
    missing = None if roles.get("missing") == "error" else roles.get("missing")

    def column_name(column: int | str) -> str:
        return f"column {channels[column] if isinstance(column, int) else column!r}"

    locator = Locator(source, row_name, column_name)
    stamps = (None, None) if time is None else parse_stamps(frame[time], time, locator)
    parts = Parts(
        values=np.stack([_numbers(frame[c], k, locator) for k, c in enumerate(channels)], axis=1),
        offsets=np.array([0, len(frame)]),
        names=np.array(["0"]),
        time=stamps[0],
        codes=None,
        regimes=(),
        channels=tuple(channels),
        gap=roles.get("gap"),
        source=source,
        groups=None,
        preparation=Preparation(time, series, regime, group, missing, zone=stamps[1]),
    )
    if regime is not None:
        labels = encode_regimes(frame[regime], column_name(regime), source)
        parts["codes"], parts["regimes"] = labels
    owner = None
    if series is not None:
        owner, names = encode_names(frame[series])
        fix = "fill it or remove the row"
        locator.refuse(
            owner < 0, lambda row: f"no series name in {locator.cell(row, series)}", fix
        )
        parts["names"] = np.array(names, dtype=np.str_)
        parts["offsets"] = np.cumsum([0, *np.bincount(owner)])
    if group is not None:
        rows = np.zeros(len(frame), int) if owner is None else owner
        parts["groups"] = _groups(frame[group], rows, group, locator)
    return finish(parts, roles.get("missing"), locator, owner)


def _groups(column: pd.Series, owner: np.ndarray, name: str, locator: Locator) -> np.ndarray:
    """Return the group of each series, which must be the same in all of its rows."""
    codes, found = encode_names(column)
    fix = "fill it or remove the row"
    locator.refuse(codes < 0, lambda row: f"no group in {locator.cell(row, name)}", fix)
    _, first_rows = np.unique(owner, return_index=True)
    of_series = codes[first_rows]
    locator.refuse(
        codes != of_series[owner],
        lambda row: f"a second group of one series in {locator.cell(row, name)}",
        "give each series one group, or name the column that tells the series apart",
    )
    return np.array(found, dtype=np.str_)[of_series]


def with_index_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame in which named levels of the index are columns, too.

    They can name the time or the series, but become channels only if they are asked for.
    """
    names = list(frame.index.names)
    levels = [n for n in names if n is not None and n not in frame.columns and names.count(n) == 1]
    if not levels:
        return frame
    frame = frame.reset_index(level=levels).reset_index(drop=True)
    frame.attrs = {**frame.attrs, INDEX: [str(name).strip(BLANKS) for name in levels]}
    return frame


def with_trimmed_header(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame whose columns are named by text without blanks around it."""
    labels = [str(label) for label in frame.columns]
    return frame.set_axis([label.strip(BLANKS) or label for label in labels], axis=1)


def with_trimmed_names(
    frame: pd.DataFrame, columns: Sequence[str | None], source: str
) -> pd.DataFrame:
    """Return a frame without blanks around the names in these columns."""
    for name in dict.fromkeys(name for name in columns if name in frame):
        column = frame[name]
        clean = trimmed(column, f"column {name!r}", source)
        frame = frame if clean is column else frame.assign(**{str(name): clean})
    return frame


def _trimmed_roles(roles: Roles) -> Roles:
    """Return roles that name columns as `with_trimmed_header` does."""

    def clean(name: str) -> str:
        return str(name).strip(BLANKS) or str(name)

    out = roles.copy()
    for role in ("time", "series", "regime", "group"):
        if isinstance(name := roles.get(role), str):
            out[role] = clean(name)
    chosen = roles.get("channels")
    if chosen is not None:
        out["channels"] = [clean(n) for n in ([chosen] if isinstance(chosen, str) else chosen)]
    return out


def _channels(frame: pd.DataFrame, roles: Roles, source: str) -> list[str]:
    """Check every column that was asked for; the channels default to all the others."""
    columns, from_index = list(frame.columns), frame.attrs.get(INDEX, [])
    keys = {role: roles.get(role) for role in ("time", "series", "regime", "group")}
    chosen = roles.get("channels")
    if chosen is None:
        chosen = [name for name in columns if name not in {*keys.values(), *from_index}]
        if "" in chosen:
            what = f"column {columns.index('') + 1} has no name"
            raise DataError(what, where=source, fix="name it, or pass the channels to use")
    wanted = list(chosen)
    known = f"the columns are {listed(columns)}"
    for role, name in [*keys.items(), *(("channel", name) for name in wanted)]:
        if name is not None and name not in columns:
            what = f"there is no column {shown(name)} (asked for as {role})"
            raise MissingColumn(str(name), role, what, where=source, fix=known)
    if not wanted:
        raise DataError("no channels are left", where=source, fix=known)
    return wanted


def _numbers(column: pd.Series, channel: int, locator: Locator) -> np.ndarray:
    """Return a column as a real array; text is parsed."""
    import pandas as pd

    if pd.api.types.is_complex_dtype(column.dtype):
        what = f"{locator.column(channel)} holds complex numbers"
        raise locator.error(what, "split it into two real columns")
    if column.dtype == bool:
        return column.to_numpy(dtype=np.uint8)
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iuf":
        return column.to_numpy()
    if pd.api.types.is_numeric_dtype(column.dtype):  # nullable and arrow columns
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    texts = column.astype(str).replace({"True": "1", "False": "0"})
    found = pd.to_numeric(texts, errors="coerce")
    if found.dtype == object:  # integers that are too long for a float
        found = texts.where(found.notna(), "nan").astype(np.float64)
    numbers = found.to_numpy(dtype=np.float64, na_value=np.nan)
    bad = np.isnan(numbers) & column.notna().to_numpy() & (texts.str.strip() != "").to_numpy()

    def wrong(row: int) -> str:
        return f"{shown(column.iloc[row])} in {locator.cell(row, channel)} is not a number"

    locator.refuse(bad, wrong, "correct it, or leave the column out by naming the channels")
    return numbers
