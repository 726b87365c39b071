"""Cells of names and time stamps: coded, ordered, parsed; and how messages name a cell."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError, DataWarning

if TYPE_CHECKING:
    import pandas as pd

MAX_REGIMES = 32_000  # codes are int16
#: 31.01.2024: with points in between, the day comes first.
DAY_FIRST = r"^(\d\d)\.(\d\d)\.(\d{4})\b"
SHORT_DAY_FIRST = r"^\s*(?P<day>\d\d?)\.(?P<month>\d\d?)\.(?P<year>\d{4})\b"
YEAR_FIRST = r"^\s*(?P<year>\d{4})[-/.年](?P<month>\d\d?)[-/.月](?P<day>\d\d?)日?"
#: 31/1/2024 or 1/31/2024: which of the two, other dates tell.
SLASHED = r"^\s*(\d{1,2})/(\d{1,2})/\d{4}"
#: Around names, they are typing errors or padding; a line break is neither.
BLANKS = " \t\u00a0\ufeff"
#: 12:30:00Z, 12:30+02:00: a time of day with a time zone.
ZONED = r"(?i)[T ]\d\d.*(?:Z|[+-]\d\d(?::?\d\d)?)\s*$"


def shown(value: object, width: int = 40) -> str:
    """Quote a value for a message, cut where it is long."""
    text = str(value)
    return repr(text if len(text) <= width else text[: width - 3] + "...")


def listed(names: Sequence[object], limit: int = 20) -> str:
    """Quote the first `limit` names for a message, and count the others."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(shown(name) for name in names[:limit]) + more


def refuse_repeated(names: Iterable[str], what: str, source: str) -> None:
    """Raise DataError for the first name that appears twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            twice = f"the {what} {shown(name)} appears twice"
            raise DataError(twice, where=source, fix="rename one of the two")
        seen.add(name)


def natural_key(text: str) -> tuple[str, str]:
    """Return a sort key under which numbers inside text count as numbers.

    >>> sorted(["run 10", "run 2", "a"], key=natural_key)
    ['a', 'run 2', 'run 10']
    """
    return re.sub("[0-9]+", lambda digits: digits[0].zfill(32), text), text


def name_text(value: Any) -> str:
    """Return a name as text; a whole number that pandas made a float loses its '.0'."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def trimmed(labels: Any, what: str, source: str) -> Any:
    """Remove blanks around names, with one DataWarning; labels without any stay as they are."""
    import pandas as pd

    codes, uniques = pd.factorize(labels)
    names = [name.strip(BLANKS) if isinstance(name, str) else name for name in uniques]
    odd = [old for old, new in zip(uniques, names, strict=True) if old is not new and old != new]
    if not odd:
        return labels
    if any(name.strip() for name in odd):
        text = f"{source}: {what} holds {shown(next(n for n in odd if n.strip()))}"
        warnings.warn(f"{text}; blanks around a name do not count.", DataWarning, stacklevel=2)
    clean = pd.Series(
        np.array([*names, None], dtype=object)[codes], getattr(labels, "index", None)
    )
    if not getattr(labels.dtype, "ordered", False):
        return clean
    order = dict.fromkeys(str(name).strip(BLANKS) for name in labels.dtype.categories)
    return clean.astype(pd.CategoricalDtype(list(order), ordered=True))


def encode_names(labels: Any) -> tuple[np.ndarray, list[str]]:
    """Code labels by first appearance, -1 where blank, and list their names."""
    import pandas as pd

    codes, uniques = pd.factorize(labels)
    position: dict[str, int] = {}
    texts = [name_text(name) for name in uniques]
    lookup = [position.setdefault(t, len(position)) if t.strip() else -1 for t in texts]
    return np.array([*lookup, -1])[codes], list(position)


def encode_regimes(labels: Any, what: str, source: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Code regime labels as int16, -1 where blank; regimes in natural or categorical order."""
    labels = trimmed(labels, what, source)
    codes, names = encode_names(labels)
    regimes = sorted(names, key=natural_key)
    if getattr(labels.dtype, "ordered", False):
        regimes = encode_names(labels.dtype.categories)[1]
    if len(regimes) > MAX_REGIMES:
        what = f"{what} holds {len(regimes):,} different names, but at most {MAX_REGIMES:,} fit"
        raise DataError(what, where=source, fix="check that these are names, not measurements")
    rank = {name: code for code, name in enumerate(regimes)}
    return np.array([*(rank[name] for name in names), -1], np.int16)[codes], tuple(regimes)


@dataclass(frozen=True)
class Locator:
    """Names the rows and cells of a source in error messages."""

    source: str
    row: Callable[[int], str]
    column: Callable[[int | str], str]  # by name, or by number of the channel
    column_first: bool = True

    def cell(self, row: int, column: int | str) -> str:
        """Name a cell."""
        place = self.column(column), self.row(row)
        return ", ".join(place if self.column_first else place[::-1])

    def error(self, what: str, fix: str | None = None) -> DataError:
        """Return an error about this source."""
        return DataError(what, where=self.source, fix=fix)

    def refuse(self, bad: np.ndarray, what: Callable[[int], str], fix: str | None = None) -> None:
        """Raise an error about the first bad row, if there is one."""
        if bad.any():
            raise self.error(what(first(bad)), fix)


def first(mask: np.ndarray) -> int:
    """Return the position of the first True."""
    return int(np.argmax(mask))


def parse_time(stamps: Any, column: str, locator: Locator) -> np.ndarray:
    """Return time stamps as numbers or datetime64[ns]: see `parse_stamps`."""
    return parse_stamps(stamps, column, locator)[0]


def parse_stamps(stamps: Any, column: str, locator: Locator) -> tuple[np.ndarray, str | None]:
    """Return time stamps as numbers or datetime64[ns], and the UTC offset of the first.

    Dates with a time zone become naive dates in that offset, also those after a change of it.
    """
    import pandas as pd

    stamps = pd.Series(stamps)
    absent, fix = stamps.isna().to_numpy(), "fill it or remove the row"
    locator.refuse(absent, lambda row: f"no time in {locator.cell(row, column)}", fix)
    zone = None
    if isinstance(stamps.dtype, pd.DatetimeTZDtype):
        zone = offset_text(stamps.iloc[0].utcoffset()) if len(stamps) else None
        stamps = stamps.dt.tz_convert("UTC").dt.tz_localize(None)
    plain = stamps.to_numpy()
    if plain.dtype.kind not in "biufM":  # text, and objects that read well as text
        plain, zone = _from_text(stamps.astype(str), column, locator)
    if plain.dtype.kind == "M":
        outside = (plain < np.datetime64("1678")) | (plain >= np.datetime64("2262"))
        what = "the date {} is outside the years 1678 to 2261".format
        locator.refuse(outside, lambda row: what(plain[row]), "give the time as numbers")
        # One unit for all dates, so that the same data has one fingerprint in every format.
        found = plain.astype("datetime64[ns]", copy=False)
        return (found if zone is None else found + np.timedelta64(offset_of(zone))), zone
    endless, fix = ~np.isfinite(plain), "write a number or remove the row"
    locator.refuse(endless, lambda row: f"infinite time in {locator.cell(row, column)}", fix)
    return (plain.astype(np.int64) if plain.dtype.kind == "b" else plain), None


def offset_text(offset: timedelta) -> str:
    """Write an offset from UTC.

    >>> offset_text(timedelta(hours=5.5)), offset_text(timedelta(hours=-3))
    ('+05:30', '-03:00')
    """
    minutes = round(offset.total_seconds() / 60)
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


def offset_of(zone: str) -> timedelta:
    """Return the offset of +05:30, -0330, +01 or Z."""
    digits = re.sub(r"\D", "", zone).ljust(4, "0")
    minutes = 60 * int(digits[:2]) + int(digits[2:4])
    return timedelta(minutes=-minutes if zone.startswith("-") else minutes)


def _from_text(texts: pd.Series, column: str, locator: Locator) -> tuple[np.ndarray, str | None]:
    import pandas as pd

    def quoted(row: int) -> str:
        return f"{shown(texts.iloc[row])} in {locator.cell(row, column)}"

    numbers = pd.to_numeric(texts, errors="coerce")
    is_number = numbers.notna().to_numpy()
    if is_number.all():
        return numbers.to_numpy(), None
    texts = _year_first(texts)
    dates = pd.to_datetime(texts, format="ISO8601", utc=True, errors="coerce")
    bad = dates.isna().to_numpy() & ~is_number
    fix = "write dates as in 2024-01-31 or 2024-01-31T12:30:00"
    locator.refuse(bad, lambda row: f"{quoted(row)} is neither a number nor a date", fix)
    if is_number.any():
        pair = f"{quoted(first(is_number))}, but {quoted(first(~is_number))}"
        raise locator.error(f"times mix numbers and dates: {pair}", "use one kind")
    zoned = texts.str.contains(ZONED, regex=True).to_numpy()
    if zoned.any() and not zoned.all():
        pair = f"{quoted(first(zoned))}, but {quoted(first(~zoned))}"
        fix = "write all of them with a time zone, or none"
        raise locator.error(f"times with and without a time zone are mixed: {pair}", fix)
    offset = re.search(r"(?i)(z|[+-]\d\d(?::?\d\d)?)\s*$", texts.iloc[0]) if zoned.all() else None
    zone = offset_text(offset_of(offset[1])) if offset else None
    return dates.dt.tz_localize(None).to_numpy(), zone


def _year_first(texts: pd.Series) -> pd.Series:
    """Write dates as 2024-01-31: from 31.1.2024, 2024/1/31, 2024年1月31日, and 31/1/2024.

    With slashes, the day comes first if some first number is above twelve, the month if some
    second number is; otherwise such dates stay as they are, and are refused.
    """

    def padded(found: re.Match[str]) -> str:
        year, month, day = (found[k] for k in ("year", "month", "day"))
        return f"{year}-{int(month):02}-{int(day):02}"

    first = texts.iloc[0]
    slashed = re.match(SLASHED, first)
    if slashed:
        parts = texts.str.extract(SLASHED).dropna().astype(int)
        day_first, month_first = (parts[0] > 12).any(), (parts[1] > 12).any()
        if len(parts) != len(texts) or day_first == month_first:
            return texts
        order = ("day", "month") if day_first else ("month", "day")
        pattern = rf"^\s*(?P<{order[0]}>\d{{1,2}})/(?P<{order[1]}>\d{{1,2}})/(?P<year>\d{{4}})"
    elif re.match(YEAR_FIRST, first) and not re.match(r"\d{4}-\d\d-\d\d", first):
        pattern = YEAR_FIRST
    else:
        texts = texts.str.replace(DAY_FIRST, r"\3-\2-\1", regex=True)
        pattern = SHORT_DAY_FIRST
        if not texts.str.match(pattern).any():
            return texts
    found = texts.str.replace(pattern, padded, regex=True)
    return found.str.replace(r"(?<=-\d\d)\s+(\d):", r" 0\1:", regex=True)
