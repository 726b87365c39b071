"""Panel: many recordings of one multichannel system, stored flat, with optional regime labels."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from .._runtime.lazy import render
from ..errors import DataError
from ..io import tables
from ..io.arrays import to_npz
from ..io.cells import listed, shown
from ..io.frames import Frames, index_rows, row_chunks, take_rows
from ..io.parts import Parts, Preparation, check_fields, check_increasing, series_of_rows
from . import construct
from .construct import PathLike
from .steps import USUAL_LIMIT, longest_step, time_steps
from .views import Series, finite_rows, subset

if TYPE_CHECKING:
    import pandas as pd

AS_READ = Preparation()


@dataclass(frozen=True, eq=False)
class Panel:
    """Many recordings (series) of the same channels, with optional regime labels.

    Rows of all series lie below each other, sorted by time inside each series; series i owns the
    rows ``offsets[i]:offsets[i + 1]``. `panel[i]` and `panel["name"]` give one `Series`; a slice,
    a mask, or a list of numbers or names gives a Panel. Usually made by `from_frame`,
    `from_arrays`, `read` or `from_pictures`.

    Parameters
    ----------
    values : ndarray or Frames
        Rows, (rows, channels) or (rows, height, width); NaN where not observed.
    offsets : ndarray
        First row of each series, and the number of rows: (series + 1,).
    names : ndarray
        Name of each series.
    time : ndarray, optional
        Time stamp of each row, increasing inside each series: numbers, or naive dates as
        datetime64[ns]. None counts the rows of each series from 0.
    codes : ndarray, optional
        Position in `regimes` of each row's label, -1 where unlabelled.
    regimes : tuple of str
        Regime names.
    channels : tuple of str
        Channel names; by default x0, x1, ...
    gap : float, optional
        Largest step in time that continues a series, as set by the user.
    source : str
        Name of the data in messages.
    groups : ndarray, optional
        Group of each series, such as its subject; groups are held out together.
    default_gap : float, optional
        `max_step` of the panel that this is a part of, used where `gap` is not set.
    preparation : Preparation
        How the data was read, and what was done to it since.
    recorded : ndarray, optional
        Values before cells that are no plausible measurements were made missing, if there were
        any: they tell which sensor is off.

    Examples
    --------
    >>> panel = Panel.from_arrays(np.zeros((3, 50, 2)), regime=["A", "B", "A"])
    >>> panel
    Panel: 3 series x 50 rows x 2 channels, regimes: A, B (arrays)
    >>> len(panel[1:]), set(panel[1].regime.tolist()), panel.select(["A"]).names.tolist()
    (2, {'B'}, ['0', '2'])
    """

    values: np.ndarray | Frames
    offsets: np.ndarray
    names: np.ndarray
    time: np.ndarray | None = None
    codes: np.ndarray | None = None
    regimes: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    gap: float | None = None
    source: str = "arrays"
    groups: np.ndarray | None = None
    default_gap: float | None = None
    preparation: Preparation = AS_READ
    recorded: np.ndarray | None = None

    def __post_init__(self) -> None:
        self.__dict__.update(check_fields(self.__dict__))
        if self.time is not None:
            check_increasing(self.time, self.offsets, self.source)

    # --- reading: see construct.py ---------------------------------------------------------

    from_frame = classmethod(construct.from_frame)
    from_arrays = classmethod(construct.from_arrays)
    from_pictures = classmethod(construct.from_pictures)
    from_csv = classmethod(construct.from_csv)
    from_parquet = classmethod(construct.from_parquet)
    from_npz = classmethod(construct.from_npz)
    read = classmethod(construct.read)

    @classmethod
    def from_parts(cls, parts: Parts) -> Panel:
        """Make a panel of fields that a reader in `mechtrace.io` has checked and sorted."""
        panel = object.__new__(cls)
        panel.__dict__.update(parts)
        return panel

    # --- size and access -------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[Series]:
        return (self._series(i) for i in range(len(self)))

    @overload
    def __getitem__(self, key: int | str) -> Series: ...
    @overload
    def __getitem__(self, key: slice | np.ndarray | Sequence[Any]) -> Panel: ...
    def __getitem__(self, key: Any) -> Series | Panel:
        if isinstance(key, str):
            return self._series(self.position(key))
        if isinstance(key, int | np.integer):
            if not -len(self) <= key < len(self):
                raise IndexError(f"series {key} of {len(self)}")
            return self._series(int(key) % len(self))
        if not isinstance(key, slice) and np.asarray(key).dtype.kind in "UO":
            key = [self.position(str(name)) for name in key]
        return subset(self, index_rows(key, len(self), "series", self.source))

    def __repr__(self) -> str:
        short, long = (self.lengths.min(), self.lengths.max()) if len(self) else (0, 0)
        rows = f"{short}" if short == long else f"{short}-{long}"
        if self.is_image:
            width = "x".join(str(side) for side in self.shape) + " pixels"
        else:
            width = f"{self.shape[0]} channel{'s' if self.shape[0] != 1 else ''}"
        head = ", ".join(self.regimes[:8])
        more = f" and {len(self.regimes) - 8} more" if len(self.regimes) > 8 else ""
        labels = f"regimes: {head}{more}" if self.labelled else "unlabelled"
        return f"Panel: {len(self)} series x {rows} rows x {width}, {labels} ({self.source})"

    def _repr_html_(self) -> str:
        return render("html", self)

    @property
    def rows(self) -> int:
        """Number of rows of all series together."""
        return len(self.values)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one row: (channels,) or (height, width)."""
        return self.values.shape[1:]

    @property
    def lengths(self) -> np.ndarray:
        """Number of rows of each series."""
        return np.diff(self.offsets)

    @property
    def is_image(self) -> bool:
        """Whether a row is a picture."""
        return self.values.ndim == 3

    @property
    def labelled(self) -> bool:
        """Whether the panel has regime labels."""
        return self.codes is not None

    def series_index(self) -> np.ndarray:
        """Return the number of the series that each row belongs to, (rows,)."""
        return series_of_rows(self.offsets)

    def position(self, name: str) -> int:
        """Return the number of the series with this name.

        Raises
        ------
        DataError
            If there is no such series.
        """
        if name not in self._positions:
            fix = f"the series are {listed(self.names[:100].tolist(), 5)}"
            raise DataError(f"there is no series {shown(name)}", where=self.source, fix=fix)
        return self._positions[name]

    def time_of(self, i: int) -> np.ndarray:
        """Return the time stamps of series i, or row numbers where there are none."""
        start, stop = self.offsets[i], self.offsets[i + 1]
        return np.arange(stop - start) if self.time is None else self.time[start:stop]

    def regime_names_of(self, i: int) -> np.ndarray | None:
        """Return the regime name of each row of series i, '' where unlabelled."""
        if self.codes is None:
            return None
        return self._regime_lookup[self.codes[self.offsets[i] : self.offsets[i + 1]]]

    # --- continuity ------------------------------------------------------------------------

    @cached_property
    def max_step(self) -> float:
        """Largest step in time (seconds for dates) that continues a series.

        The gap set by the user, or 1.5 times `usual_step`; more where steps of two to five usual
        ones are regular, as those of a logger that is late now and then.
        """
        limit = self.default_gap if self.gap is None else self.gap
        if limit is not None:
            return float(limit)
        return USUAL_LIMIT if self.time is None else longest_step(self._inner_steps)

    @cached_property
    def usual_step(self) -> float:
        """Median step in time inside the series (seconds for dates); infinite for single rows."""
        if self.time is None:
            return 1.0
        return float(np.median(self._inner_steps)) if len(self._inner_steps) else float("inf")

    def steps(self) -> np.ndarray:
        """Return the time since the row before (seconds for dates), 0 where a series starts."""
        out = np.ones(self.rows)
        if self.time is not None:
            out[1:] = time_steps(self.time)
        out[self._starts()] = 0.0
        return out

    def breaks(self) -> np.ndarray:
        """Return a mask of the rows that start a series or follow a step above `max_step`."""
        broken = self._starts()
        if self.time is None:
            return broken if self.max_step >= 1 else np.ones(self.rows, dtype=bool)
        # stamps such as 0.1 * k carry rounding errors; a step equal to the limit is no break
        slack = 1e-9 * self.max_step
        if self.time.dtype.kind == "f":
            slack += 4 * float(np.spacing(np.abs(self.time).max(initial=0)))
        broken[1:] |= time_steps(self.time) > self.max_step + slack
        return broken

    def observed(self) -> np.ndarray:
        """Return a mask of the rows in which every cell is finite."""
        return self._observed

    # --- other panels ----------------------------------------------------------------------

    def without_labels(self) -> Panel:
        """Return the same recordings without regime labels."""
        return replace(self, codes=None, regimes=())

    def select(self, regimes: Sequence[str]) -> Panel:
        """Keep some regimes: series without them go, rows of others lose their label.

        Parameters
        ----------
        regimes : sequence of str
            Names of the regimes to keep.

        Returns
        -------
        Panel
            The series that visit one of them.

        Raises
        ------
        DataError
            If a regime is not known, or there are no labels.
        """
        wanted = [regimes] if isinstance(regimes, str) else list(regimes)
        unknown = [name for name in wanted if name not in self.regimes]
        if self.codes is None or unknown:
            what = f"there is no regime {shown(unknown[0])}" if unknown else "there are no labels"
            known = f"the regimes are {listed(self.regimes)}" if self.regimes else None
            raise DataError(what, where=self.source, fix=known)
        kept = tuple(name for name in self.regimes if name in wanted)
        # the last entry is for -1, the code of unlabelled rows
        lookup = [kept.index(name) if name in kept else -1 for name in self.regimes] + [-1]
        codes = np.array(lookup, dtype=self.codes.dtype)[self.codes]
        panel = replace(self, codes=codes, regimes=kept)
        return panel[np.logical_or.reduceat(codes >= 0, self.offsets[:-1])] if len(self) else panel

    def resampled(self, rate: float) -> Panel:
        """Resample to `rate` rows per unit of time; see `mechtrace.data.resample.resampled`."""
        from .resample import resampled

        return resampled(self, rate)

    def detrended(self, trend: Literal["mean", "line"] = "mean") -> Panel:
        """Subtract each series' mean, or line in time; see `mechtrace.data.resample.detrended`."""
        from .resample import detrended

        return detrended(self, trend)

    def fingerprint(self) -> str:
        """Return a hash of the data; series names, gap and source do not count."""
        digest = blake2b(digest_size=16)
        about = [list(self.regimes), list(self.channels), self.values.dtype.str, self.values.shape]
        digest.update(json.dumps(about).encode())
        # groups decide what is held out; a panel without them keeps the hash of older versions
        arrays = [self.values, self.offsets, self.codes, self.time]
        for array in arrays if self.groups is None else [*arrays, self.groups]:
            if array is None:
                digest.update(b"none")
                continue
            digest.update(array.dtype.str.encode())
            if isinstance(array, Frames):
                for piece in array.hash_bytes():
                    digest.update(piece)
                continue
            for chunk in row_chunks(array):
                digest.update(np.ascontiguousarray(array[chunk]).view(np.uint8).data)
        return digest.hexdigest()

    # --- writing ---------------------------------------------------------------------------

    def to_frame(self) -> pd.DataFrame:
        """Return a long-format frame: series, time, regime, group, and the channels."""
        return tables.to_frame(self)

    def to_arrays(self) -> list[np.ndarray]:
        """Return one array per series, as views; frames that are not in memory stay there."""
        return [
            take_rows(self.values, slice(a, b))
            for a, b in zip(self.offsets[:-1], self.offsets[1:], strict=True)
        ]

    def to_csv(self, path: PathLike) -> None:
        """Write CSV, or TSV or gzip by the suffix; text keeps no dtypes and no regime order."""
        tables.to_csv(self, Path(path))

    def to_parquet(self, path: PathLike) -> None:
        """Write Parquet."""
        tables.to_parquet(self, Path(path))

    def to_npz(self, path: PathLike) -> None:
        """Write an uncompressed npz, whose values `from_npz` maps without loading them."""
        to_npz(self, Path(path))

    # --- cached lookups --------------------------------------------------------------------

    @cached_property
    def _inner_steps(self) -> np.ndarray:
        """Steps in time inside the series (seconds for dates)."""
        return np.ones(0) if self.time is None else time_steps(self.time)[~self._starts()[1:]]

    @cached_property
    def _observed(self) -> np.ndarray:
        finite = finite_rows(self.values)
        finite.setflags(write=False)
        return finite

    @cached_property
    def _regime_lookup(self) -> np.ndarray:
        return np.array([*self.regimes, ""], dtype=np.str_)  # code -1 finds the last, ''

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names.tolist())}

    def _series(self, i: int) -> Series:
        values = take_rows(self.values, slice(self.offsets[i], self.offsets[i + 1]))
        regime = self.regime_names_of(i)
        return Series(str(self.names[i]), values, self.time_of(i), regime, self.channels)

    def _starts(self) -> np.ndarray:
        starts = np.zeros(self.rows, dtype=bool)
        starts[self.offsets[:-1]] = True
        return starts
