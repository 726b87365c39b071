"""How every reader ends: rows grouped by series and sorted by time, with every cell checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict

import numpy as np

from ..errors import ConfigError
from ..frames import pick_rows, row_chunks
from .names import shown
from .origin import Origin, first

MISSING_CHOICES = ("error", "gap", "interpolate")
FIX_MISSING = (
    'fill the cell, or pass missing="gap" (such rows count as not observed and windows do not'
    ' cross them) or missing="interpolate" (filled linearly in time inside each series)'
)


class Parts(TypedDict):
    """The fields of a Panel."""

    values: np.ndarray
    offsets: np.ndarray
    names: np.ndarray
    time: np.ndarray | None
    codes: np.ndarray | None
    regimes: tuple[str, ...]
    channels: tuple[str, ...]
    gap: float | None
    source: str
    groups: NotRequired[np.ndarray | None]


class Roles(TypedDict, total=False):
    """Which column of a table plays which role, and what to do about missing cells."""

    time: str | None
    series: str | None
    regime: str | None
    group: str | None
    channels: Sequence[str] | None
    missing: str | None
    gap: float | None


def known_roles(roles: Roles) -> Roles:
    """Refuse a misspelt keyword, which would otherwise be ignored."""
    for name in roles:
        if name not in Roles.__annotations__:
            raise TypeError(
                f"unexpected keyword argument {name!r}; use {list(Roles.__annotations__)}"
            )
    return roles


def finish(
    parts: Parts, missing: str | None, origin: Origin, series: np.ndarray | None = None
) -> Parts:
    """Group the rows by series codes, sort them by time, and treat missing cells as asked."""
    missing = missing or "error"
    if missing not in MISSING_CHOICES:
        choices = ", ".join(repr(choice) for choice in MISSING_CHOICES)
        raise ConfigError(f"missing={missing!r} is not known", fix=f"use {choices}")
    some_missing = _refuse_cells(parts["values"], missing, origin)
    if series is not None or parts["time"] is not None:
        _sort(parts, owners(parts["offsets"]) if series is None else series, origin)
    if some_missing and missing == "interpolate":
        parts["values"] = _interpolated(parts, origin)
    # Stamps that only count rows say nothing; without them a table and an array agree.
    time, offsets = parts["time"], parts["offsets"]
    if time is not None and time.dtype.kind in "iu":
        counts = np.arange(len(time)) - np.repeat(offsets[:-1], np.diff(offsets))
        parts["time"] = None if (time == counts).all() else time
    return parts


def owners(offsets: np.ndarray) -> np.ndarray:
    """Which series each row belongs to."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def _refuse_cells(values: np.ndarray, missing: str, origin: Origin) -> bool:
    """Refuse infinite cells, and missing ones unless allowed; True if any cell is missing."""
    some_missing = False
    for chunk in row_chunks(values) if values.dtype.kind == "f" else ():
        cells = np.asarray(values[chunk]).reshape(-1, int(np.prod(values.shape[1:])))
        if np.isfinite(cells).all():
            continue
        some_missing = True
        bad = np.isinf(cells) if missing != "error" else ~np.isfinite(cells)
        if bad.any():
            row, channel = divmod(first(bad), bad.shape[1])
            place = origin.cell(chunk.start + row, channel)
            if np.isnan(cells[row, channel]):
                raise origin.error(f"no value in {place}", FIX_MISSING)
            raise origin.error(f"infinite value in {place}", "write a number or an empty cell")
    return some_missing


def _sort(parts: Parts, series: np.ndarray, origin: Origin) -> None:
    """Group by series and sort by time, stably; nothing is copied if all is in order."""
    time = np.arange(len(series)) if parts["time"] is None else parts["time"]
    same, later = series[1:] == series[:-1], time[1:] > time[:-1]
    if ((series[1:] > series[:-1]) | (same & later)).all():
        return
    order = np.lexsort((time, series))
    time, series = time[order], series[order]
    twice = (time[1:] == time[:-1]) & (series[1:] == series[:-1])
    if twice.any():
        k = first(twice)
        rows = " and ".join(origin.row(int(row)) for row in order[k : k + 2])
        what = f"time {time[k]} appears twice in series {shown(parts['names'][series[k]])}: {rows}"
        fix = "remove one of the two, or name the column that tells the series apart"
        raise origin.error(what, fix)
    parts["values"] = pick_rows(parts["values"], order)
    parts["time"] = None if parts["time"] is None else time
    parts["codes"] = None if parts["codes"] is None else parts["codes"][order]


def _interpolated(parts: Parts, origin: Origin) -> np.ndarray:
    """Fill missing cells linearly in time inside each series, at its ends by the nearest."""
    filled = np.array(parts["values"])  # never write into what the user handed over
    cells, rows = filled.reshape(len(filled), -1), np.arange(len(filled))
    series = owners(parts["offsets"])
    starts, ends = parts["offsets"][series], parts["offsets"][series + 1] - 1
    clock = rows if parts["time"] is None else parts["time"]
    clock = clock.view(np.int64) if clock.dtype.kind == "M" else clock
    for channel in np.flatnonzero(np.isnan(cells).any(axis=0)):
        column = cells[:, channel]
        known = ~np.isnan(column)
        holes = np.flatnonzero(~known)
        # The nearest known rows, or the ends of the series where it has none on that side.
        before = np.maximum.accumulate(np.where(known, rows, starts))[holes]
        after = np.minimum.accumulate(np.where(known, rows, ends)[::-1])[::-1][holes]
        left, right = np.where(known[before], before, after), np.where(known[after], after, before)
        if not known[left].all():
            name = shown(parts["names"][series[holes[first(~known[left])]]])
            what = f"series {name} has no value at all in {origin.column(int(channel))}"
            raise origin.error(what, "drop the series or the channel")
        passed, span = clock[holes] - clock[left], clock[right] - clock[left]
        weight = np.divide(passed, span, out=np.zeros(len(holes)), where=span > 0)
        column[holes] = column[left] * (1 - weight) + column[right] * weight
    return filled
