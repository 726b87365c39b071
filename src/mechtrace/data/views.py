"""Parts of a Panel without copies: one series, or a choice of series."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..io.frames import Frames, row_chunks, take_rows

if TYPE_CHECKING:
    from .panel import Panel


@dataclass(frozen=True, eq=False)
class Series:
    """A view of one recording.

    Attributes
    ----------
    name : str
        Name of the series.
    values : ndarray or Frames
        Rows, (T, channels) or (T, height, width).
    time : ndarray
        Time stamps, (T,): those of the user, or row numbers.
    regime : ndarray or None
        Regime name of each row, '' where unlabelled; None without labels.
    channels : tuple of str
        Channel names.
    """

    name: str
    values: np.ndarray | Frames
    time: np.ndarray
    regime: np.ndarray | None
    channels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def observed(self) -> np.ndarray:
        """Rows in which every cell is finite, as a mask (T,)."""
        return finite_rows(self.values)


def finite_rows(values: np.ndarray | Frames) -> np.ndarray:
    """Return a mask of the rows in which every cell is finite, read in chunks."""
    finite = np.ones(len(values), dtype=bool)
    if values.dtype.kind == "f":
        cells = tuple(range(1, values.ndim))
        for chunk in row_chunks(values):
            np.isfinite(values[chunk]).all(axis=cells, out=finite[chunk])
    return finite


def subset(panel: Panel, chosen: np.ndarray) -> Panel:
    """Return a panel of the series of these numbers."""
    starts, lengths = panel.offsets[:-1][chosen], panel.lengths[chosen]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    if len(chosen) and (np.diff(chosen) == 1).all():  # neighbours: views, no copies
        rows: Any = slice(int(starts[0]), int(starts[0] + offsets[-1]))
    else:
        rows = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
    return replace(
        panel,
        values=take_rows(panel.values, rows),
        offsets=offsets,
        names=panel.names[chosen],
        groups=None if panel.groups is None else panel.groups[chosen],
        time=None if panel.time is None else panel.time[rows],
        codes=None if panel.codes is None else panel.codes[rows],
        recorded=None if panel.recorded is None else panel.recorded[rows],
        # gaps of a series must not depend on which other series are chosen with it
        default_gap=None if panel.time is None else panel.max_step,
    )
