"""What must hold for the rows of every Panel, however it was made."""

from __future__ import annotations

import numpy as np

from ..errors import DataError
from ..frames import Frames
from .names import MAX_REGIMES, refuse_repeated
from .origin import first


def checked_offsets(offsets: np.ndarray, values: np.ndarray | Frames, source: str) -> np.ndarray:
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
        raise DataError(f"series {first(lengths == 0)} has no rows", where=source)
    if offsets[0] != 0 or offsets[-1] != rows or (lengths < 0).any():
        raise DataError(f"the offsets do not divide {rows} rows into series", where=source)
    return offsets


def check_time(time: np.ndarray, offsets: np.ndarray, source: str) -> None:
    """One stamp per row, rising inside each series."""
    if time.shape != (offsets[-1],) or time.dtype.kind not in "iufM":
        what = f"time of shape {time.shape} and type {time.dtype} does not fit {offsets[-1]} rows"
        raise DataError(what, where=source)
    later = time[1:] > time[:-1]
    later[offsets[1:-1] - 1] = True  # from one series to the next anything goes
    if not later.all():
        what = f"time does not increase within a series at row {first(~later) + 1}"
        raise DataError(what, where=source)


def check_codes(codes: np.ndarray, regimes: tuple[str, ...], rows: int, source: str) -> None:
    """One code per row, -1 or the position of a regime."""
    if codes.shape != (rows,) or codes.dtype.kind not in "iu":
        what = f"codes of shape {codes.shape} and type {codes.dtype} do not fit {rows} rows"
        raise DataError(what, where=source)
    if rows and not (codes.min() >= -1 and codes.max() < min(len(regimes), MAX_REGIMES)):
        what = f"regime codes run to {codes.max()}, but there are {len(regimes)} regimes"
        raise DataError(what, where=source)
    refuse_repeated(regimes, "regime", source)
