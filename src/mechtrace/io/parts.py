"""The checked fields of a Panel: how every reader ends, and how the rows were prepared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict

import numpy as np

from ..errors import ConfigError, DataError
from .cells import MAX_REGIMES, Locator, first, name_text, refuse_repeated, shown
from .frames import Frames, row_chunks, take_rows

if TYPE_CHECKING:
    from ..data.panel import Panel

MISSING_CHOICES = ("error", "gap", "interpolate")
FIX_MISSING = (
    'fill the cell, or pass missing="gap" (such rows count as not observed and windows do not'
    ' cross them) or missing="interpolate" (filled linearly in time inside each series)'
)


@dataclass(frozen=True)
class Preparation:
    """How a Panel was read, and what was done to it since.

    A model stores the preparation of the Panel that it was fitted to, and applies it to new ones.

    >>> Preparation(time="t", rate=30.0).overridden(rate=None, detrend="mean")
    Preparation(time='t', rate=30.0, detrend='mean')
    """

    time: str | None = None  # columns of the table
    series: str | None = None
    regime: str | None = None
    group: str | None = None
    missing: str | None = None  # what missing cells are: see Panel.from_frame
    gap: float | None = None  # largest step that continues a series, before resampling
    step: float | None = None  # median step, before resampling
    rate: float | None = None  # rows per unit of time, after resampling
    detrend: Literal["mean", "line"] | None = None  # what was subtracted from each channel
    zone: str | None = None  # UTC offset of the dates, as +05:30

    def __repr__(self) -> str:
        known = {name: value for name, value in self.to_dict().items() if value is not None}
        return f"Preparation({', '.join(f'{name}={value!r}' for name, value in known.items())})"

    @classmethod
    def of(cls, panel: Panel) -> Preparation:
        """Return the preparation of a panel, with its gap, and with regular longer steps."""
        known, longest = panel.preparation, panel.gap
        if longest is None and panel.time is not None and panel.max_step > 1.6 * panel.usual_step:
            longest = panel.max_step
        return known if longest is None else replace(known, gap=float(longest))

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Preparation:
        """Restore what `to_dict` returned."""
        return cls(**{f.name: stored[f.name] for f in fields(cls) if f.name in stored})

    def to_dict(self) -> dict[str, Any]:
        """Return all settings, ready for JSON."""
        return asdict(self)

    def overridden(self, **given: Any) -> Preparation:
        """Replace the settings that are not None."""
        return replace(self, **{name: value for name, value in given.items() if value is not None})

    @property
    def columns(self) -> dict[str, str | None]:
        """The columns of time, series and regime."""
        return {"time": self.time, "series": self.series, "regime": self.regime}

    def apply(self, panel: Panel) -> Panel:
        """Prepare a panel in this way; what was done to it before is not repeated."""
        done = panel.preparation
        if self.gap is not None and panel.gap is None and panel.time is not None and not done.rate:
            panel = replace(panel, gap=self.gap)
        if self.rate is not None and done.rate != self.rate:
            if panel.time is None and self.step not in (None, 1.0):
                what = f"the rows have no time, those of the fit were {self.step:g} apart"
                raise DataError(what, where=panel.source, fix="name the column with the time")
            panel = panel.resampled(self.rate)
        if self.detrend is not None and done.detrend != self.detrend:
            panel = panel.detrended(self.detrend)
        return panel


class Parts(TypedDict):
    """The fields of a Panel, checked and sorted by `finish`."""

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
    default_gap: NotRequired[float | None]
    preparation: NotRequired[Preparation]


class Roles(TypedDict, total=False):
    """Which column of a table plays which role, and what to do about missing cells."""

    time: str | None
    series: str | None
    regime: str | None
    group: str | None
    channels: Sequence[str] | None
    missing: str | None
    gap: float | None


def finish(
    parts: Parts, missing: str | None, locator: Locator, series: np.ndarray | None = None
) -> Parts:
    """Check the fields, group the rows by series code, sort by time, treat missing cells."""
    missing = missing or "error"
    if missing not in MISSING_CHOICES:
        choices = ", ".join(repr(choice) for choice in MISSING_CHOICES)
        raise ConfigError(f"missing={missing!r} is not known", fix=f"use {choices}")
    parts.update(check_fields(parts))  # type: ignore[typeddict-item]
    some_missing = _refuse_cells(parts["values"], missing, locator)
    if series is not None or parts["time"] is not None:
        _sort(parts, series_of_rows(parts["offsets"]) if series is None else series, locator)
    if some_missing and missing == "interpolate":
        parts["values"] = interpolated(parts, locator)
    # integers that only count the rows say nothing; without them a table and an array agree
    time, offsets = parts["time"], parts["offsets"]
    if time is not None and time.dtype.kind in "iu":
        counts = np.arange(len(time)) - np.repeat(offsets[:-1], np.diff(offsets))
        parts["time"] = None if (time == counts).all() else time
    return parts


def series_of_rows(offsets: np.ndarray) -> np.ndarray:
    """Return the number of the series that each row belongs to."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def _refuse_cells(values: np.ndarray, missing: str, locator: Locator) -> bool:
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
            place = locator.cell(chunk.start + row, channel)
            if np.isnan(cells[row, channel]):
                raise locator.error(f"no value in {place}", FIX_MISSING)
            raise locator.error(f"infinite value in {place}", "write a number or an empty cell")
    return some_missing


def _sort(parts: Parts, series: np.ndarray, locator: Locator) -> None:
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
        rows = " and ".join(locator.row(int(row)) for row in order[k : k + 2])
        what = f"time {time[k]} appears twice in series {shown(parts['names'][series[k]])}: {rows}"
        fix = "remove one of the two, or name the column that tells the series apart"
        raise locator.error(what, fix)
    parts["values"] = take_rows(parts["values"], order)
    parts["time"] = None if parts["time"] is None else time
    parts["codes"] = None if parts["codes"] is None else parts["codes"][order]


def interpolated(parts: Parts, locator: Locator) -> np.ndarray:
    """Fill missing cells linearly in time inside each series, at its ends by the nearest."""
    filled = np.array(parts["values"])  # never write into what the user handed over
    cells, rows = filled.reshape(len(filled), -1), np.arange(len(filled))
    series = series_of_rows(parts["offsets"])
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
            what = f"series {name} has no value at all in {locator.column(int(channel))}"
            raise locator.error(what, "drop the series or the channel")
        passed, span = clock[holes] - clock[left], clock[right] - clock[left]
        weight = np.divide(passed, span, out=np.zeros(len(holes)), where=span > 0)
        column[holes] = column[left] * (1 - weight) + column[right] * weight
    return filled


def check_fields(fields: Any) -> dict[str, Any]:
    """Check all fields of a Panel but the order of time; return those that were converted.

    Called once: by `finish`, or by a `Panel` that is constructed directly.
    """
    source, values = fields["source"], fields["values"]
    offsets = _offsets(fields["offsets"], values, source)
    rows, count = len(values), len(offsets) - 1
    converted = {
        "offsets": offsets,
        "names": _names(fields["names"], count, source),
        "channels": _channels(fields["channels"], values.shape[1:], source),
    }
    time, codes = fields["time"], fields["codes"]
    if time is not None and (time.shape != (rows,) or time.dtype.kind not in "iufM"):
        what = f"time of shape {time.shape} and type {time.dtype} does not fit {rows} rows"
        raise DataError(what, where=source)
    if codes is not None:
        _check_codes(codes, fields["regimes"], rows, source)
        converted["codes"] = codes.astype(np.int16, copy=False)
    if fields.get("groups") is not None:
        converted["groups"] = _groups(fields["groups"], count, source)
    if fields["gap"] is not None and not fields["gap"] > 0:
        raise ConfigError(f"gap={fields['gap']} is not positive", where=source, fix="make it so")
    return converted


def check_increasing(time: np.ndarray, offsets: np.ndarray, source: str) -> None:
    """Check that time increases strictly inside each series."""
    later = time[1:] > time[:-1]
    later[offsets[1:-1] - 1] = True  # the next series may start at any time
    if not later.all():
        what = f"time does not increase within a series at row {int(np.argmin(later)) + 1}"
        raise DataError(what, where=source)


def _offsets(offsets: Any, values: np.ndarray | Frames, source: str) -> np.ndarray:
    """Real rows; offsets rise from 0 to the number of rows, and no series is empty."""
    if values.ndim not in (2, 3) or values.dtype.kind not in "iuf" or 0 in values.shape[1:]:
        what = f"values of shape {values.shape} and type {values.dtype} are no real rows"
        raise DataError(what, where=source)
    rows, offsets = len(values), np.asarray(offsets)
    if offsets.ndim != 1 or offsets.dtype.kind not in "iu" or len(offsets) == 0:
        raise DataError("the offsets must list where each series starts and ends", where=source)
    offsets = offsets.astype(np.int64, copy=False)
    lengths = np.diff(offsets)
    if (lengths == 0).any():
        raise DataError(f"series {int(np.argmin(lengths != 0))} has no rows", where=source)
    if offsets[0] != 0 or offsets[-1] != rows or (lengths < 0).any():
        raise DataError(f"the offsets do not divide {rows} rows into series", where=source)
    return offsets


def _check_codes(codes: np.ndarray, regimes: tuple[str, ...], rows: int, source: str) -> None:
    """One code per row, -1 or the position of a regime."""
    if codes.shape != (rows,) or codes.dtype.kind not in "iu":
        what = f"codes of shape {codes.shape} and type {codes.dtype} do not fit {rows} rows"
        raise DataError(what, where=source)
    if rows and not (codes.min() >= -1 and codes.max() < min(len(regimes), MAX_REGIMES)):
        what = f"regime codes run to {codes.max()}, but there are {len(regimes)} regimes"
        raise DataError(what, where=source)
    refuse_repeated(regimes, "regime", source)


def _groups(groups: Any, count: int, source: str) -> np.ndarray:
    """Names of groups as a unicode array: one per series, none blank."""
    array = np.asarray(groups, dtype=np.str_)
    if array.shape != (count,):
        what = f"{array.size} groups were given for {count} series"
        raise DataError(what, where=source, fix="give one group for each series")
    if (np.char.strip(array) == "").any():
        raise DataError("a group has no name", where=source, fix="name the group of each series")
    return array


def _names(names: Any, count: int, source: str) -> np.ndarray:
    """Series names as a unicode array: one per series, none blank, none twice."""
    if len(names) != count:
        raise DataError(f"{len(names)} series names were given for {count} series", where=source)
    if not (isinstance(names, np.ndarray) and names.dtype.kind == "U"):
        names = np.array([name_text(name) for name in names], dtype=np.str_)
    refuse_repeated(names.tolist(), "series name", source)
    for k, text in enumerate(names.tolist()):
        if not text.strip():
            raise DataError(f"the name of series {k} is blank", where=source)
    return names


def _channels(names: Any, shape: tuple[int, ...], source: str) -> tuple[str, ...]:
    """Given or default channel names: one per channel, none twice; images have one."""
    count = shape[0] if len(shape) == 1 else 1
    if names is None or len(names) == 0:
        return tuple(f"x{k}" for k in range(count)) if len(shape) == 1 else ("pixel",)
    texts = (names,) if isinstance(names, str) else tuple(str(name) for name in names)
    if len(texts) != count:
        what = f"{len(texts)} channel names were given for {count} channels"
        raise DataError(what, where=source)
    refuse_repeated(texts, "channel name", source)
    return texts
