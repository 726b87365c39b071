"""Numbers for the page: downsampled, with all minima and maxima kept, and packed into text."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import numpy as np

#: The code of a missing value; the others divide the range of a column evenly.
MISSING = 65535


def pack(columns: np.ndarray) -> dict[str, Any]:
    """Quantise a table (T, C) to 16 bits per cell, evenly over the range of each column.

    >>> pack(np.array([[0.0], [0.5], [1.0]]))
    {'rows': 3, 'ranges': [[0.0, 1.0]], 'codes': 'AAD/f/7/'}
    """
    finite = np.isfinite(columns)
    low = np.where(finite, columns, np.inf).min(axis=0, initial=np.inf)
    high = np.where(finite, columns, -np.inf).max(axis=0, initial=-np.inf)
    low, high = (np.where(low <= high, side, 0.0) for side in (low, high))
    span = np.where(high > low, high - low, 1.0)
    codes = np.full(columns.shape, MISSING, dtype="<u2")
    scaled = (MISSING - 1) * (np.where(finite, columns, low) - low) / span
    codes[finite] = scaled[finite].astype("<u2")
    return {
        "rows": len(columns),
        "ranges": [[float(a), float(b)] for a, b in zip(low, high, strict=True)],
        "codes": base64.b64encode(np.ascontiguousarray(codes.T).tobytes()).decode(),
    }


def pack_time(time: np.ndarray) -> dict[str, Any]:
    """Pack time stamps: the first and the last if all steps are equal.

    >>> pack_time(np.array([0.0, 0.5, 1.0]))
    {'rows': 3, 'first': 0.0, 'last': 1.0}
    """
    first, last, rows = float(time[0]), float(time[-1]), len(time)
    even = np.linspace(first, last, rows)
    step = (last - first) / max(rows - 1, 1)
    if np.abs(time - even).max() <= 1e-6 * abs(step):
        return {"rows": rows, "first": first, "last": last}
    return {"rows": rows, "stamps": base64.b64encode(time.astype("<f8").tobytes()).decode()}


def time_numbers(time: np.ndarray) -> np.ndarray:
    """Stamps as floats; dates as milliseconds since 1970, as in JavaScript."""
    if time.dtype.kind == "M":
        return time.astype("datetime64[us]").astype(np.int64) / 1000
    return time.astype(np.float64)


def rows_with_extremes(columns: np.ndarray, most: int) -> np.ndarray:
    """Choose at most `most` rows of a table (T, C), with the extremes of every column.

    Whole rows are kept, so that shares still add up to one.

    >>> rows_with_extremes(np.array([[0.0], [0], [0], [9], [0], [0], [0], [0]]), most=4).tolist()
    [0, 3, 4, 7]
    """
    if len(columns) <= most:
        return np.arange(len(columns))
    buckets = max(most // 2, 1)
    while True:
        parts = _buckets(columns, buckets)
        starts = np.arange(len(parts))[:, None] * parts.shape[1]
        known = np.isfinite(parts)
        lows = starts + np.where(known, parts, np.inf).argmin(axis=1)
        highs = starts + np.where(known, parts, -np.inf).argmax(axis=1)
        rows = np.unique(np.concatenate([lows.ravel(), highs.ravel(), [0, len(columns) - 1]]))
        if len(rows) <= most or buckets == 1:
            return rows
        buckets //= 2


def envelope(columns: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Downsample each column by itself to its local minima and maxima, in their order.

    Returns rows of the time axis and the values (rows, C) at them.
    """
    if len(columns) <= most:
        return np.arange(len(columns)), columns
    parts = _buckets(columns, max(most // 2, 1))
    known = np.isfinite(parts)
    below, above = np.where(known, parts, np.inf), np.where(known, parts, -np.inf)
    falls = below.argmin(axis=1) > above.argmax(axis=1)
    low, high = below.min(axis=1), above.max(axis=1)
    pairs = np.stack([np.where(falls, high, low), np.where(falls, low, high)], axis=1)
    size = parts.shape[1]
    rows = np.arange(len(parts))[:, None] * size + np.array([0, size // 2])
    rows = np.minimum(rows.ravel(), len(columns) - 1)  # the last block may be a short one
    values = pairs.reshape(-1, columns.shape[1])
    return rows, np.where(np.isfinite(values), values, np.nan)


def _buckets(columns: np.ndarray, buckets: int) -> np.ndarray:
    """Cut a table into equal parts (B, size, C), the last padded with NaN."""
    size = -(-len(columns) // buckets)
    count = -(-len(columns) // size)
    padded = np.full((count * size, columns.shape[1]), np.nan)
    padded[: len(columns)] = columns
    return padded.reshape(count, size, -1)


def runs(mask: np.ndarray, most: int) -> list[tuple[int, int]]:
    """First and last row of each stretch; the closest are merged if there are more than `most`.

    >>> runs(np.array([1, 1, 0, 1, 0, 0, 0, 1], dtype=bool), most=2)
    [(0, 3), (7, 7)]
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(np.int8), [0]])))
    first, last = edges[::2], edges[1::2] - 1
    if len(first) > most:
        widest = np.sort(np.argsort(last[:-1] - first[1:], kind="stable")[: most - 1])
        first, last = first[[0, *(widest + 1)]], last[[*widest, len(last) - 1]]
    return list(zip(first.tolist(), last.tolist(), strict=True))


def island(content: str | dict[str, Any]) -> str:
    """Compress text or data to base64 of gzip, which needs no escaping in HTML."""
    text = content if isinstance(content, str) else json.dumps(content, allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
