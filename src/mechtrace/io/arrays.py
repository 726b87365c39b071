"""Stacked or listed arrays, one per series; or, with offsets, the rows of all series."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..errors import DataError
from ..frames import Frames, join_rows
from .checks import check_codes, checked_offsets
from .names import checked_channels, checked_names, encode_regimes, shown
from .origin import Origin, first
from .parts import Parts, finish
from .stamps import parse_time


def array_parts(
    values: Any,
    *,
    offsets: np.ndarray | None = None,
    time: Any = None,
    regime: Any = None,
    codes: np.ndarray | None = None,
    regimes: Iterable[str] = (),
    names: Any = None,
    groups: Any = None,
    channels: Any = None,
    images: bool = False,
    missing: str | None = None,
    gap: float | None = None,
    source: str = "arrays",
) -> Parts:
    """Read one array per series; with offsets, arrays with one entry per row of all series."""
    if offsets is None:
        values, offsets = _stacked(values, images, source)
        lengths = np.diff(offsets)
    else:  # time and regime as if it were one long series
        values = real_array(values, source)
        lengths = np.array(values.shape[:1])
        time, regime = None if time is None else [time], None if regime is None else [regime]
    offsets = checked_offsets(offsets, values, source)
    count = len(offsets) - 1
    if count == 0:
        raise DataError("there are no series", where=source)
    if names is None:
        names = np.arange(count).astype(str)
    regimes = tuple(str(name) for name in regimes)
    if regime is not None:
        codes, regimes = _regimes(regime, lengths, source)
    if codes is not None:
        check_codes(codes, regimes, len(values), source)
    origin = _origin(source, offsets, values.shape[1:])
    parts = Parts(
        values=values,
        offsets=offsets,
        names=checked_names(names, count, source),
        time=None if time is None else parse_time(_times(time, lengths, source), "time", origin),
        codes=codes,
        regimes=regimes,
        channels=checked_channels(channels, values.shape[1:], source),
        gap=gap,
        source=source,
        groups=groups,
    )
    return finish(parts, missing, origin)


def _origin(source: str, offsets: np.ndarray, shape: tuple[int, ...]) -> Origin:
    def row_name(row: int) -> str:
        series = int(np.searchsorted(offsets, row, side="right")) - 1
        return f"series {series}, row {row - int(offsets[series])}"

    def column_name(column: int | str) -> str:
        if isinstance(column, str) or len(shape) == 1:
            return column if isinstance(column, str) else f"channel {column}"
        return f"pixel {divmod(column, shape[1])}"

    return Origin(source, row_name, column_name, column_first=False)


def real_array(values: Any, source: str) -> np.ndarray:
    """The array itself if it is real and native, so that mapped data stays mapped."""
    if isinstance(values, Frames):
        return values  # type: ignore[return-value]  # they behave like an array
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(np.float64), np.nan)
    array = values if isinstance(values, np.memmap) else np.asarray(values)
    if array.dtype.kind == "b":
        return array.view(np.uint8)
    if array.dtype.kind not in "iuf":
        fix = "split complex numbers into two channels" if array.dtype.kind == "c" else None
        raise DataError(f"the values are not numbers but {array.dtype}", where=source, fix=fix)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _stacked(values: Any, images: bool, source: str) -> tuple[np.ndarray, np.ndarray]:
    """All rows below each other, and where each series starts and ends."""
    if isinstance(values, Frames):
        return values, np.array([0, len(values)])  # type: ignore[return-value]
    if hasattr(values, "__array__"):
        array = real_array(values, source)
        if images and array.ndim == 3:  # one recording of pictures
            array = array[None]
        if array.ndim not in ((4,) if images else (3, 4)) or 0 in array.shape:
            what = f"an array of shape {array.shape} cannot be read as series"
            fix = "give (series, rows, channels) or (series, rows, height, width), or a list"
            raise DataError(what, where=source, fix=fix)
        return array.reshape(-1, *array.shape[2:]), np.arange(len(array) + 1) * array.shape[1]
    arrays = [real_array(one, f"{source}, series {k}") for k, one in enumerate(values)]
    for k, one in enumerate(arrays):
        if one.ndim not in ((3,) if images else (2, 3)):
            fix = "each must be (rows, channels), or (rows, height, width) for grey images"
            raise DataError(f"series {k} has shape {one.shape}", where=source, fix=fix)
        if one.shape[1:] != arrays[0].shape[1:]:
            found, expected = (" x ".join(map(str, a.shape[1:])) for a in (one, arrays[0]))
            what = f"series {k} has {found} channels, but series 0 has {expected} channels"
            raise DataError(what, where=source)
    rows = join_rows(arrays) if arrays else np.zeros((0, 1))
    return rows, np.cumsum([0, *(len(one) for one in arrays)])


def _regimes(regime: Any, lengths: np.ndarray, source: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Labels of each row, from one name or one list of names per series."""
    one = isinstance(regime, str) or getattr(regime, "ndim", 1) == 0
    if one or len(regime) != len(lengths):
        given = f"the name {shown(regime)} was" if one else f"{len(regime)} regimes were"
        fix = "give one name per series, or one list of names per series"
        raise DataError(f"{given} given for {len(lengths)} series", where=source, fix=fix)
    if _is_nested(regime):
        return encode_regimes(_per_row(regime, lengths, "regime", source), "regime", source)
    # As objects, because numpy would turn a missing name next to text into the text 'nan'.
    codes, regimes = encode_regimes(np.array(regime, dtype=object), "regime", source)
    return np.repeat(codes, lengths), regimes


def _times(time: Any, lengths: np.ndarray, source: str) -> np.ndarray:
    """One stamp per row, from stamps shared by all series or given for each."""
    if _is_nested(time):
        if len(time) != len(lengths):
            what = f"times of {len(time)} series were given for {len(lengths)} series"
            raise DataError(what, where=source)
        return _per_row(time, lengths, "time", source)
    wrong = lengths != len(time)
    if wrong.any():
        what = f"{len(time)} times were given for the {lengths[first(wrong)]} rows of a series"
        raise DataError(what, where=source, fix="give one list of times per series")
    return np.tile(np.asarray(time), len(lengths))


def _is_nested(data: Any) -> bool:
    return any(np.ndim(item) for item in data)


def _per_row(data: Any, lengths: np.ndarray, what: str, source: str) -> np.ndarray:
    """One entry per row, from one list (or one entry for all rows) per series."""
    if isinstance(data, np.ndarray) and data.ndim == 2 and (lengths == data.shape[1]).all():
        return data.reshape(-1)
    pieces = []
    for k, (item, length) in enumerate(zip(data, lengths.tolist(), strict=True)):
        entries = item if np.ndim(item) else [item] * length
        pieces.append(np.asarray(entries, dtype=object if what == "regime" else None))
        if pieces[k].shape != (length,):
            what = f"{what!r} of series {k} has {pieces[k].size} entries for {length} rows"
            raise DataError(what, where=source)
    try:
        return np.concatenate(pieces)
    except TypeError as error:
        raise DataError(f"{what} mixes numbers and dates", where=source) from error
