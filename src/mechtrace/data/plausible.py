"""Cells outside any plausible range, such as fill values: found, named, treated as missing."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..errors import ConfigError, DataError, DataWarning
from ..io.cells import Locator
from ..io.frames import Frames, row_chunks
from ..io.parts import Parts, interpolated
from .panel import Panel

#: A cell this many standard deviations of the training data from their mean is not plausible.
FARTHEST = 1e3
#: Values that loggers write for a cell without a measurement, and the standard deviations beyond
#: which they are taken for that.
FILLS = (999, 9999, 99999, 999999, 32767, 32768, 65535, 2147483647)
FILL_DISTANCE = 10.0
#: In training: this many times as far from the median as half of the varying cells ...
FARTHEST_IN_TRAINING = 1e4
#: ... unless there are more such cells than this share of the rows, of several values: then a
#: channel is mostly idle and works now and then.
RARE_SHARE, FEW = 1e-3, 3
#: Share of such cells in a recording by which a channel is off, and not a cell now and then.
MOSTLY = 0.5
#: Rows that medians are measured on, and the fewest varying cells that tell a scale.
SAMPLED_ROWS, FEWEST_VARYING = 1 << 16, 8


@dataclass(frozen=True, eq=False)
class PlausibleRange:
    """What a fitted model takes for a measurement: at most `reach` from `centre`.

    Attributes
    ----------
    centre, scale : ndarray
        Mean and standard deviation of each channel in training.
    """

    centre: np.ndarray
    scale: np.ndarray

    @property
    def reach(self) -> np.ndarray:
        """Largest plausible distance from the centre; a constant channel has scale 1."""
        size = np.where(self.scale == 1, np.maximum(1.0, np.abs(self.centre)), self.scale)
        return FARTHEST * size

    def outside(self, values: np.ndarray, centre: np.ndarray | None = None) -> np.ndarray:
        """Return a mask of the cells outside; those without a value are not.

        >>> known = PlausibleRange(np.array([20.0]), np.array([5.0]))
        >>> known.outside(np.array([[30.0], [9999.0], [-999.0], [500.0], [1e6]])).ravel().tolist()
        [False, True, True, False, True]
        """
        around = self.centre if centre is None else centre
        fill = np.isin(np.abs(values), FILLS)
        if fill.any():
            fill &= _farther(values, around, FILL_DISTANCE / FARTHEST * self.reach)
        return fill | _farther(values, around, self.reach)

    def warning(self, place: str, channel: str, number: int, value: float, more: str = "") -> str:
        """Say which cell counts as missing and why."""
        centre, scale = self.centre.flat[number], self.scale.flat[number]
        return (
            f"{place}: {value:g} in channel {channel!r} is no plausible measurement (in training"
            f" its mean was {centre:g} and its standard deviation {scale:g}), so it{more} counts"
            " as missing; check for fill values and broken sensors."
        )


def implausible_as_missing(
    panel: Panel, plausible: PlausibleRange, *, around_medians: bool = False
) -> Panel:
    """Treat cells outside the plausible range as missing, with a DataWarning for each channel.

    Parameters
    ----------
    panel : Panel
        Recordings for a fitted model.
    plausible : PlausibleRange
        Of its channels.
    around_medians : bool
        Measure the distance from the median of each series, as it will be detrended.

    Returns
    -------
    Panel
        The same panel if all cells are plausible.
    """
    if isinstance(panel.values, Frames) or panel.values.dtype == np.uint8:
        return panel
    found = [
        _cells(plausible.outside(block, centre), first)
        for first, block, centre in _blocks(panel, around_medians)
    ]
    cells = np.concatenate(found) if found else np.empty((0, 2), int)
    if not len(cells):
        return panel
    numbers = np.ravel_multi_index(tuple(cells[:, 1:].T), panel.shape)
    channels = 0 * numbers if panel.is_image else numbers  # all pixels are one channel
    for channel in np.unique(channels):
        mine, number = cells[channels == channel], numbers[channels == channel][0]
        more = f" (and {len(mine) - 1} more in this channel)" if len(mine) > 1 else ""
        value = float(panel.values[tuple(mine[0])])
        place, name = _place(panel, int(mine[0][0])), panel.channels[channel]
        text = plausible.warning(place, name, int(number), value, more)
        warnings.warn(text, DataWarning, stacklevel=3)
    return replace(panel, values=_emptied(panel, cells))


def mostly_implausible(panel: Panel, known: Panel) -> np.ndarray:
    """Return the values that tell which sensor is off.

    Parameters
    ----------
    panel, known : Panel
        Recordings, and the same without cells that are no plausible measurements.

    Returns
    -------
    ndarray
        Values of `known`, and all of a channel that is not plausible in half of a recording.
    """
    values = np.array(known.values, dtype=np.float64)
    raw = np.asarray(panel.values, dtype=np.float64)
    lost = np.isnan(values) & np.isfinite(raw)
    for a, b in zip(panel.offsets[:-1], panel.offsets[1:], strict=True):
        off = lost[a:b].mean(axis=0) >= MOSTLY
        values[a:b, off] = np.where(np.isfinite(raw[a:b, off]), raw[a:b, off], np.nan)
    return values


def with_usual(
    panel: Panel, names: Sequence[str], channels: Sequence[str], usual: np.ndarray
) -> Panel:
    """Return recordings of all `channels`, with usual values in those that are left out.

    Parameters
    ----------
    panel : Panel
        Recordings that may lack the channels that are left out.
    names : sequence of str
        The channels to leave out: whatever is recorded there does not count.
    channels : sequence of str
        Channels of the model.
    usual : ndarray
        A value for each of them.

    Returns
    -------
    Panel
        The recordings, with the channels in the order of the model.

    Raises
    ------
    ConfigError
        If the model has no such channel.
    """
    for name in names:
        if name not in channels or panel.is_image:
            fix = f"the sensors are {', '.join(channels)}"
            raise ConfigError(f"there is no sensor {name!r} to leave out", fix=fix)
    there = [name for name in panel.channels if name not in names]
    if not set(channels) - set(names) <= set(there):
        return panel  # refused where it is used
    values = np.tile(usual, (panel.rows, 1))
    for number, name in enumerate(channels):
        if name in there:
            values[:, number] = panel.values[:, panel.channels.index(name)]
    recorded = panel.recorded if panel.channels == tuple(channels) else None
    return replace(panel, values=values, channels=tuple(channels), recorded=recorded)


def checked_for_training(panel: Panel) -> Panel:
    """Refuse absurd cells, or treat them as missing if the panel was read with `missing`.

    Parameters
    ----------
    panel : Panel
        Recordings to learn from.

    Returns
    -------
    Panel
        The same panel if there is no absurd cell.

    Raises
    ------
    DataError
        If there is one, and missing cells were not allowed.
    """
    if panel.is_image or not panel.rows:
        return panel
    cells = _absurd_cells(panel)
    if not len(cells):
        return panel
    row, channel = cells[0]
    what = (
        f"{float(panel.values[row, channel]):g} in channel {panel.channels[channel]!r}"
        f" ({_place(panel, row, source=False)}) is more than {FARTHEST_IN_TRAINING:,.0f} times as"
        " far from the median of the channel as half of its cells"
    )
    policy = panel.preparation.missing or ("error" if panel.observed().all() else "gap")
    if policy == "error":
        fix = 'correct it, or pass missing="gap" or missing="interpolate" where the data is read'
        raise DataError(what, where=panel.source, fix=fix)
    many = f" ({len(cells)} such cells)" if len(cells) > 1 else ""
    text = f"{panel.source}: {what}, so it counts as missing{many}."
    warnings.warn(text, DataWarning, stacklevel=3)
    panel = replace(panel, values=_emptied(panel, cells))
    if policy == "gap":
        return panel
    locator = Locator(
        panel.source, "row {}".format, lambda k: f"channel {panel.channels[int(k)]!r}"
    )
    parts = {name: getattr(panel, name) for name in ("values", "offsets", "names", "time")}
    return replace(panel, values=interpolated(Parts(**parts), locator))  # type: ignore[typeddict-item]


def _absurd_cells(panel: Panel) -> np.ndarray:
    """Row and channel (n, 2) of all cells that are absurd among the cells of their channel."""
    every = max(1, -(-panel.rows // SAMPLED_ROWS))
    sample = np.asarray(panel.values[::every], dtype=np.float64)
    centre, scale = np.array([_median_and_scale(column) for column in sample.T]).T
    found = [
        _cells(_farther(panel.values[rows], centre, FARTHEST_IN_TRAINING * scale), rows.start)
        for rows in row_chunks(panel.values)
    ]
    cells = np.concatenate(found)
    for channel in np.unique(cells[:, 1]):
        mine = cells[:, 1] == channel
        rows = cells[mine, 0]
        several = len(np.unique(panel.values[rows, channel])) > FEW
        if several and len(rows) > max(FEW, RARE_SHARE * panel.rows):
            cells = cells[~mine]
    return cells


def _median_and_scale(column: np.ndarray) -> tuple[float, float]:
    """Median, and median distance from it of the cells that differ from it."""
    column = column[np.isfinite(column)]
    middle = float(np.median(column)) if len(column) else 0.0
    apart = np.abs(column - middle)
    apart = apart[apart > 0]
    if len(apart) < FEWEST_VARYING:
        return middle, max(abs(middle), 1.0)
    return middle, float(np.median(apart))


def _farther(values: np.ndarray, centre: np.ndarray, reach: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore", over="ignore"):
        return np.abs(np.asarray(values, dtype=np.float64) - centre) > reach


def _cells(mask: np.ndarray, first: int) -> np.ndarray:
    """Indices (n, ...) of the True cells of a block that begins with this row."""
    found = np.argwhere(mask)
    found[:, 0] += first
    return found


def _blocks(panel: Panel, by_series: bool) -> Iterator[tuple[int, np.ndarray, np.ndarray | None]]:
    """First row, values and centre: of each series, or of chunks without a centre."""
    if not by_series:
        for rows in row_chunks(panel.values):
            yield rows.start, panel.values[rows], None
        return
    for a, b in zip(panel.offsets[:-1], panel.offsets[1:], strict=True):
        block = np.asarray(panel.values[a:b], dtype=np.float64)
        flat = block.reshape(len(block), -1).T
        medians = [np.median(known) if len(known := c[np.isfinite(c)]) else 0.0 for c in flat]
        yield int(a), block, np.reshape(medians, panel.shape)


def _emptied(panel: Panel, cells: np.ndarray) -> np.ndarray:
    """Return a copy of the values with NaN in these cells."""
    kind = panel.values.dtype if panel.values.dtype.kind == "f" else np.float64
    values = np.array(panel.values, dtype=kind)
    values[tuple(cells.T)] = np.nan
    return values


def _place(panel: Panel, row: int, *, source: bool = True) -> str:
    """Name a row by series, number and time."""
    i = int(np.searchsorted(panel.offsets, row, side="right")) - 1
    number = row - int(panel.offsets[i])
    time = "" if panel.time is None else f", time {panel.time[row]}"
    where = f"series {str(panel.names[i])!r}, row {number}{time}"
    return f"{panel.source}, {where}" if source else where
