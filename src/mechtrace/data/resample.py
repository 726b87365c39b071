"""Resampling to another rate, and removal of a level or a trend."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from ..errors import ConfigError, DataError
from ..io.parts import Preparation

if TYPE_CHECKING:
    from .panel import Panel

Trend = Literal["mean", "line"]


def resampled(panel: Panel, rate: float) -> Panel:
    """Resample every series to an even grid.

    To a lower rate rows are averaged over each step, against aliasing; to a higher one they are
    interpolated linearly. A row between two others that are further apart than `panel.max_step`
    is missing. Its label is that of the nearest row.

    Parameters
    ----------
    panel : Panel
        The recordings; rows without time stamps are one unit apart.
    rate : float
        Rows per unit of time (per second for dates).

    Returns
    -------
    Panel
        The resampled recordings.

    Raises
    ------
    ConfigError, DataError
        If the rate is not positive, or the panel holds pictures.
    """
    if not rate > 0:
        raise ConfigError(f"rate = {rate:g}", fix="use a positive number of rows per unit of time")
    if panel.is_image:
        what = "pictures are not resampled in time"
        raise DataError(what, where=panel.source, fix="write them at the wanted rate")
    parts = [_one(panel, i, 1.0 / rate) for i in range(len(panel))]
    values, times, codes = (list(part) for part in zip(*parts, strict=True))
    lengths = [len(part) for part in values]
    return replace(
        panel,
        values=np.concatenate(values),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        time=np.concatenate(times),
        codes=None if panel.codes is None else np.concatenate(codes),
        gap=None,
        default_gap=None,
        preparation=Preparation.of(panel).overridden(
            rate=rate, step=panel.usual_step if np.isfinite(panel.usual_step) else None
        ),
    )


def detrended(panel: Panel, trend: Trend = "mean") -> Panel:
    """Subtract the mean, or a line fitted in time, from each channel of each series.

    For channels whose level depends on the sensor rather than on the regime; where levels tell the
    regimes apart, it removes just that.

    Parameters
    ----------
    panel : Panel
        The recordings.
    trend : {"mean", "line"}
        What to subtract.

    Returns
    -------
    Panel
        The recordings in float64.
    """
    if trend not in ("mean", "line"):
        raise ConfigError(f"detrend = {trend!r}", fix="use mean or line")
    if panel.is_image:
        raise DataError("pictures have no trend to remove", where=panel.source)
    values = np.array(panel.values, dtype=float)
    for i in range(len(panel)):
        rows = slice(panel.offsets[i], panel.offsets[i + 1])
        clock = _since_start(panel.time_of(i))
        for column in values[rows].T:  # views: what is written arrives in `values`
            known = np.isfinite(column)
            if known.sum() > 1 and trend == "line":
                slope, level = np.polyfit(clock[known], column[known], 1)
                column -= level + slope * clock
            elif known.any():
                column -= column[known].mean()
    how = panel.preparation.overridden(detrend=trend)
    return replace(panel, values=values, preparation=how, recorded=None)


def steps_in(panel: Panel, seconds: float) -> int:
    """Return the number of rows in a duration, at least one."""
    step = panel.usual_step
    if not np.isfinite(step) or not seconds > 0:
        raise ConfigError(f"{seconds:g} is no stretch of time", fix="use a positive number")
    return max(1, round(seconds / step))


def _one(panel: Panel, i: int, step: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return values, times and codes of one series on an even grid from its first row on."""
    rows = slice(panel.offsets[i], panel.offsets[i + 1])
    values, time = np.asarray(panel.values[rows], dtype=float), panel.time_of(i)
    seen = panel.observed()[rows]
    clock = _since_start(time)
    usual = panel.usual_step
    averaged = step > 1.5 * usual
    # the first average is over a whole step, and stands at its middle
    first = (step - usual) / 2 if averaged else 0.0
    # stamps are rounded: a last row that is late by a thousandth of a step still counts
    count = max(1, int((clock[-1] - 2 * first) / step + 1e-3) + 1)
    grid = first + step * np.arange(count)
    means = _cell_means if averaged else _lines
    out = np.full((count, values.shape[1]), np.nan)
    if seen.any():
        out = means(values[seen], clock[seen], grid, step)
        out[_in_gap(grid, clock[seen], max(panel.max_step, step))] = np.nan
    codes = np.zeros(count, np.int16)
    if panel.codes is not None:
        codes = panel.codes[rows][_nearest(grid, clock)]
    return out, _stamps(time, grid), codes


def _cell_means(
    values: np.ndarray, clock: np.ndarray, grid: np.ndarray, step: float
) -> np.ndarray:
    """Average the rows within half a step of each grid point; NaN where there is none."""
    # a row on the border counts for the later cell, whatever rounding says
    cell = np.floor((clock - grid[0]) / step + 0.5 + 1e-6).astype(int)
    inside = (cell >= 0) & (cell < len(grid))
    total, count = np.zeros((len(grid), values.shape[1])), np.zeros((len(grid), 1))
    np.add.at(total, cell[inside], values[inside])
    np.add.at(count, cell[inside], 1.0)
    with np.errstate(invalid="ignore"):
        return total / count


def _lines(values: np.ndarray, clock: np.ndarray, grid: np.ndarray, step: float) -> np.ndarray:
    """Interpolate linearly between the rows."""
    return np.column_stack([np.interp(grid, clock, column) for column in values.T])


def _in_gap(grid: np.ndarray, clock: np.ndarray, longest: float) -> np.ndarray:
    """Mask grid points between two rows that are too far apart, or before the first row."""
    after = np.searchsorted(clock, grid - 1e-9 * longest)
    before = np.searchsorted(clock, grid + 1e-9 * longest, side="right") - 1
    padded = np.concatenate([clock, [np.inf]])
    apart = padded[after] - padded[np.maximum(before, 0)]
    return (apart > longest * (1 + 1e-9)) | (before < 0)


def _nearest(grid: np.ndarray, clock: np.ndarray) -> np.ndarray:
    after = np.clip(np.searchsorted(clock, grid), 0, len(clock) - 1)
    before = np.maximum(after - 1, 0)
    return np.where(grid - clock[before] < clock[after] - grid, before, after)


def _since_start(time: np.ndarray) -> np.ndarray:
    passed = time - time[:1]
    return passed / np.timedelta64(1, "s") if time.dtype.kind == "M" else passed.astype(float)


def _stamps(time: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Return the grid in the time of the user."""
    if time.dtype.kind == "M":
        return time[0] + np.round(grid * 1e9).astype("timedelta64[ns]")
    return float(time[0]) + grid
