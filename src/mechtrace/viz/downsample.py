"""Numbers for the page: few enough to draw at once, small enough to send by mail.

A picture a thousand pixels wide cannot show a hundred thousand steps, so that long recordings are
thinned out before they are stored. Lows and highs always stay: they are what a person looks for.
"""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import numpy as np

#: The code of a missing value; the others divide the range of a column evenly.
MISSING = 65535


def pack(columns: np.ndarray) -> dict[str, Any]:
    """A table (T, C) in 16 bits per cell; the page multiplies them by the range of each column.

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
    """Stamps, as the first and the last if all steps are equal.

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
    """Stamps as numbers; dates as milliseconds since 1970, as browsers count them."""
    if time.dtype.kind == "M":
        return time.astype("datetime64[us]").astype(np.int64) / 1000
    return time.astype(np.float64)


def usual_step(time: np.ndarray) -> float:
    """The median distance of two stamps in a row."""
    return float(np.median(np.diff(time))) if len(time) > 1 else 1.0


def rows_with_extremes(columns: np.ndarray, most: int) -> np.ndarray:
    """At most so many rows of a table (T, C), among them the lows and highs of every column.

    Whole rows are kept, so that what belongs together (weights that add up to one) stays so.

    >>> rows_with_extremes(np.array([[0.0], [0], [0], [9], [0], [0], [0], [0]]), most=4).tolist()
    [0, 3, 4, 7]
    """
    if len(columns) <= most:
        return np.arange(len(columns))
    buckets = max(most // 2, 1)
    while True:
        blocks = _blocks(columns, buckets)
        starts = np.arange(len(blocks))[:, None] * blocks.shape[1]
        known = np.isfinite(blocks)
        lows = starts + np.where(known, blocks, np.inf).argmin(axis=1)
        highs = starts + np.where(known, blocks, -np.inf).argmax(axis=1)
        rows = np.unique(np.concatenate([lows.ravel(), highs.ravel(), [0, len(columns) - 1]]))
        if len(rows) <= most or buckets == 1:
            return rows
        buckets //= 2


def envelope(columns: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the time axis and, at them, the lows and highs of each column around there.

    For many columns that need not fit together: each keeps its own extremes, in their order.
    """
    if len(columns) <= most:
        return np.arange(len(columns)), columns
    blocks = _blocks(columns, max(most // 2, 1))
    known = np.isfinite(blocks)
    below, above = np.where(known, blocks, np.inf), np.where(known, blocks, -np.inf)
    falls = below.argmin(axis=1) > above.argmax(axis=1)
    low, high = below.min(axis=1), above.max(axis=1)
    pairs = np.stack([np.where(falls, high, low), np.where(falls, low, high)], axis=1)
    size = blocks.shape[1]
    rows = np.arange(len(blocks))[:, None] * size + np.array([0, size // 2])
    rows = np.minimum(rows.ravel(), len(columns) - 1)  # the last block may be a short one
    values = pairs.reshape(-1, columns.shape[1])
    return rows, np.where(np.isfinite(values), values, np.nan)


def _blocks(columns: np.ndarray, buckets: int) -> np.ndarray:
    """A table cut into equal parts (B, size, C), the last filled up with NaN."""
    size = -(-len(columns) // buckets)
    count = -(-len(columns) // size)
    padded = np.full((count * size, columns.shape[1]), np.nan)
    padded[: len(columns)] = columns
    return padded.reshape(count, size, -1)


def runs(mask: np.ndarray, most: int) -> list[tuple[int, int]]:
    """First and last row of each stretch; if there are too many, those closest become one.

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
    """Text or data as base64 of gzip: small, and of letters that mean nothing to HTML."""
    text = content if isinstance(content, str) else json.dumps(content, allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
