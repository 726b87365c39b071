"""Names of series, regimes and channels: quoted, checked, coded and ordered."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..errors import DataError

MAX_REGIMES = 32_000  # codes are int16


def shown(value: object, width: int = 40) -> str:
    """Quote a value for a message: one line, cut when long."""
    text = str(value)
    return repr(text if len(text) <= width else text[: width - 3] + "...")


def listed(names: Sequence[object], limit: int = 20) -> str:
    """Quote the first few names."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(shown(name) for name in names[:limit]) + more


def refuse_repeated(names: Iterable[str], what: str, source: str) -> None:
    """Refuse the first name that appears twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            twice = f"the {what} {shown(name)} appears twice"
            raise DataError(twice, where=source, fix="rename one of the two")
        seen.add(name)


def natural_key(text: str) -> tuple[str, str]:
    """Sort key under which numbers inside text count as numbers.

    >>> sorted(["run 10", "run 2", "a"], key=natural_key)
    ['a', 'run 2', 'run 10']
    """
    return re.sub("[0-9]+", lambda digits: digits[0].zfill(32), text), text


def name_text(value: Any) -> str:
    """A name as text; blank cells turn whole numbers into floats, but 1 must not become '1.0'."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def encode_names(labels: Any) -> tuple[np.ndarray, list[str]]:
    """Code each label by first appearance; blank labels are -1."""
    import pandas as pd

    codes, uniques = pd.factorize(labels)
    position: dict[str, int] = {}
    texts = [name_text(name) for name in uniques]
    lookup = [position.setdefault(t, len(position)) if t.strip() else -1 for t in texts]
    return np.array([*lookup, -1])[codes], list(position)


def encode_regimes(labels: Any, what: str, source: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Code regime labels as int16, -1 where blank; regimes are in natural or declared order."""
    codes, names = encode_names(labels)
    regimes = sorted(names, key=natural_key)
    if getattr(labels.dtype, "ordered", False):
        regimes = encode_names(labels.dtype.categories)[1]
    if len(regimes) > MAX_REGIMES:
        what = f"{what} holds {len(regimes):,} different names, but at most {MAX_REGIMES:,} fit"
        raise DataError(what, where=source, fix="check that these are names, not measurements")
    rank = {name: code for code, name in enumerate(regimes)}
    return np.array([*(rank[name] for name in names), -1], np.int16)[codes], tuple(regimes)


def checked_groups(groups: Any, count: int, source: str) -> np.ndarray:
    """Names of groups as a unicode array: one per series, none blank."""
    array = np.asarray(groups, dtype=np.str_)
    if array.shape != (count,):
        what = f"{array.size} groups were given for {count} series"
        raise DataError(what, where=source, fix="give one group for each series")
    if (np.char.strip(array) == "").any():
        raise DataError("a group has no name", where=source, fix="name the group of each series")
    return array


def checked_names(names: Any, count: int, source: str) -> np.ndarray:
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


def checked_channels(names: Any, shape: tuple[int, ...], source: str) -> tuple[str, ...]:
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
