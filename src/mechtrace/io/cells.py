"""Cells of names and time stamps: coded, ordered, parsed; and how messages name a cell."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError, DataWarning

if TYPE_CHECKING:
    import pandas as pd

MAX_REGIMES = 32_000  # codes are int16
#: 31.01.2024: with points in between, the day comes first.
DAY_FIRST = r"^(\d\d)\.(\d\d)\.(\d{4})\b"
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
    """Return time stamps as numbers or datetime64[ns], with time zones as naive UTC."""
    import pandas as pd

    stamps = pd.Series(stamps)
    absent, fix = stamps.isna().to_numpy(), "fill it or remove the row"
    locator.refuse(absent, lambda row: f"no time in {locator.cell(row, column)}", fix)
    if isinstance(stamps.dtype, pd.DatetimeTZDtype):
        stamps = stamps.dt.tz_convert("UTC").dt.tz_localize(None)
    plain = stamps.to_numpy()
    if plain.dtype.kind not in "biufM":  # text, and objects that read well as text
        plain = _from_text(stamps.astype(str), column, locator)
    if plain.dtype.kind == "M":
        outside = (plain < np.datetime64("1678")) | (plain >= np.datetime64("2262"))
        what = "the date {} is outside the years 1678 to 2261".format
        locator.refuse(outside, lambda row: what(plain[row]), "give the time as numbers")
        # One unit for all dates, so that the same data has one fingerprint in every format.
        return plain.astype("datetime64[ns]", copy=False)
    endless, fix = ~np.isfinite(plain), "write a number or remove the row"
    locator.refuse(endless, lambda row: f"infinite time in {locator.cell(row, column)}", fix)
    return plain.astype(np.int64) if plain.dtype.kind == "b" else plain


def _from_text(texts: pd.Series, column: str, locator: Locator) -> np.ndarray:
    import pandas as pd

    def quoted(row: int) -> str:
        return f"{shown(texts.iloc[row])} in {locator.cell(row, column)}"

    numbers = pd.to_numeric(texts, errors="coerce")
    is_number = numbers.notna().to_numpy()
    if is_number.all():
        return numbers.to_numpy()
    texts = texts.str.replace(DAY_FIRST, r"\3-\2-\1", regex=True)
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
    return dates.dt.tz_localize(None).to_numpy()
