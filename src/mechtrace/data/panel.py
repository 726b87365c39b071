"""Panel: many recordings of one multichannel system, stored flat, with optional regime labels."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import numpy as np

from . import readers, writers
from .errors import ConfigError, DataError
from .frames import Frames, pick_rows, row_chunks
from .readers.checks import check_codes, check_time, checked_offsets
from .readers.names import checked_channels, checked_groups, checked_names, listed, shown
from .readers.parts import Roles, known_roles, owners

if TYPE_CHECKING:
    import pandas as pd

PathLike = str | os.PathLike[str]


@dataclass(frozen=True, eq=False)
class Series:
    """A light view of one recording."""

    name: str
    values: np.ndarray | Frames
    time: np.ndarray
    regime: np.ndarray | None
    channels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def observed(self) -> np.ndarray:
        """Rows in which every cell is finite."""
        return _finite_rows(self.values)


@dataclass(frozen=True, eq=False)
class Panel:
    """Many recordings; series i owns the rows offsets[i]:offsets[i + 1].

    Tables are in long format, one row per series and time. Rows are grouped by series (in the
    order of first appearance) and sorted by time, stably; two rows of a series at the same time
    are an error. Dates are kept as datetime64[ns], those with a time zone as naive UTC. Stamps
    that merely count the rows of each series from 0 are stored as time=None.

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
    groups: np.ndarray | None = None  # of each series, as its subject; left out together

    def __post_init__(self) -> None:
        where = self.source
        offsets = checked_offsets(self.offsets, self.values, where)
        checked: dict[str, Any] = {
            "offsets": offsets,
            "names": checked_names(self.names, len(offsets) - 1, where),
            "channels": checked_channels(self.channels, self.shape, where),
        }
        if self.time is not None:
            check_time(self.time, offsets, where)
        if self.codes is not None:
            check_codes(self.codes, self.regimes, self.rows, where)
            checked["codes"] = self.codes.astype(np.int16, copy=False)
        if self.groups is not None:
            checked["groups"] = checked_groups(self.groups, len(offsets) - 1, where)
        if self.gap is not None and not self.gap > 0:
            raise ConfigError(f"gap={self.gap} is not positive", where=where, fix="make it so")
        for name, value in checked.items():
            object.__setattr__(self, name, value)

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
            return self._series(self._position(key))
        if isinstance(key, int | np.integer):
            if not -len(self) <= key < len(self):
                raise IndexError(f"series {key} of {len(self)}")
            return self._series(int(key) % len(self))
        if isinstance(key, slice):
            return self._subset(np.arange(len(self))[key])
        return self._subset(self._chosen(np.asarray(key)))

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
        from .notebook import panel_html

        return panel_html(self)

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
        """Which series each row belongs to."""
        return owners(self.offsets)

    def time_of(self, i: int) -> np.ndarray:
        """Time stamps of series i: the user's own, or row numbers."""
        start, stop = self.offsets[i], self.offsets[i + 1]
        return np.arange(stop - start) if self.time is None else self.time[start:stop]

    def regime_names_of(self, i: int) -> np.ndarray | None:
        """Regime names of the rows of series i, '' where unlabelled; None without labels."""
        if self.codes is None:
            return None
        return self._regime_lookup[self.codes[self.offsets[i] : self.offsets[i + 1]]]

    # --- continuity ------------------------------------------------------------------------

    @cached_property
    def max_step(self) -> float:
        """The largest step in time (seconds for dates) that still continues a series."""
        return 1.5 * self.usual_step if self.gap is None else float(self.gap)

    @cached_property
    def usual_step(self) -> float:
        """Median step in time inside the series (seconds for dates); infinite for single rows."""
        if self.time is None:
            return 1.0
        steps = _steps(self.time)[~self._starts()[1:]]
        return float(np.median(steps)) if len(steps) else float("inf")

    def steps(self) -> np.ndarray:
        """Time since the row before (seconds for dates), 0 at the start of each series."""
        out = np.ones(self.rows)
        if self.time is not None:
            out[1:] = _steps(self.time)
        out[self._starts()] = 0.0
        return out

    def breaks(self) -> np.ndarray:
        """Rows that do not continue the row before: a new series, or a step above max_step."""
        broken = self._starts()
        if self.time is None:
            return broken if self.max_step >= 1 else np.ones(self.rows, dtype=bool)
        # Stamps such as 0.1 * k carry rounding errors; a step equal to the limit is no break.
        slack = 1e-9 * self.max_step
        if self.time.dtype.kind == "f":
            slack += 4 * float(np.spacing(np.abs(self.time).max(initial=0)))
        broken[1:] |= _steps(self.time) > self.max_step + slack
        return broken

    def observed(self) -> np.ndarray:
        """Rows in which every cell is finite; read once, in chunks."""
        return self._observed

    # --- other panels ----------------------------------------------------------------------

    def without_labels(self) -> Panel:
        """The same recordings without regime labels."""
        return replace(self, codes=None, regimes=())

    def select(self, regimes: Sequence[str]) -> Panel:
        """Only these regimes: series without them go, rows of other regimes lose their label."""
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
        """With so many rows per unit of time (per second for dates); see mechtrace.resample."""
        from .resample import resampled

        return resampled(self, rate)

    def detrended(self, trend: Literal["mean", "line"] = "mean") -> Panel:
        """Without the mean, or the straight line in time, of each channel in each series."""
        from .resample import detrended

        return detrended(self, trend)

    def fingerprint(self) -> str:
        """A hash of the data; names of series, gap and source do not count."""
        digest = blake2b(digest_size=16)
        about = [list(self.regimes), list(self.channels), self.values.dtype.str, self.values.shape]
        digest.update(json.dumps(about).encode())
        # groups decide what is held out; without them the hash is what it always was
        arrays = [self.values, self.offsets, self.codes, self.time]
        for array in arrays if self.groups is None else [*arrays, self.groups]:
            if array is None:
                digest.update(b"none")
                continue
            digest.update(array.dtype.str.encode())
            if isinstance(array, Frames):
                for piece in array.identity():
                    digest.update(piece)
                continue
            for chunk in row_chunks(array):
                digest.update(np.ascontiguousarray(array[chunk]).view(np.uint8).data)
        return digest.hexdigest()

    # --- reading ---------------------------------------------------------------------------

    @classmethod
    def from_frame(
        cls,
        df: pd.DataFrame,
        *,
        time: str | None = None,
        series: str | None = None,
        regime: str | None = None,
        group: str | None = None,
        channels: Sequence[str] | None = None,
        missing: str = "error",
        gap: float | None = None,
    ) -> Panel:
        """Read a long-format frame; `time`, `series` and `regime` name the columns with a role.

        `group` names a column, as the subject, whose recordings are held out together; it may be
        one that `series` names too. `channels` defaults to all other columns. Regimes are sorted
        naturally ('2' before '10'), or as an ordered categorical says. `missing` is "error",
        "gap" (such rows count as not observed) or "interpolate" (filled linearly in time inside
        each series). `gap` is the largest step in time that continues a series; see max_step.

        >>> import pandas as pd
        >>> df = pd.DataFrame({"t": [2, 0, 1], "x": [2.0, 0.0, 1.0], "mode": ["b", "a", ""]})
        >>> panel = Panel.from_frame(df, time="t", regime="mode")
        >>> panel.values[:, 0].tolist(), panel[0].regime.tolist()
        ([0.0, 1.0, 2.0], ['a', '', 'b'])
        """
        roles = Roles(
            time=time, series=series, regime=regime, group=group, channels=channels,
            missing=missing, gap=gap,
        )  # fmt: skip
        return cls(**readers.frame_parts(df, roles))

    @classmethod
    def from_csv(cls, path: PathLike, **roles: Unpack[Roles]) -> Panel:
        """Read a CSV or TSV file (.gz too) in UTF-8 with one header line; see from_frame."""
        return cls(**readers.csv_parts(Path(path), known_roles(roles)))

    @classmethod
    def from_parquet(cls, path: PathLike, **roles: Unpack[Roles]) -> Panel:
        """Read a parquet file; see from_frame."""
        return cls(**readers.parquet_parts(Path(path), known_roles(roles)))

    @classmethod
    def from_npz(
        cls,
        path: PathLike,
        *,
        mmap: bool = True,
        missing: str | None = None,
        gap: float | None = None,
    ) -> Panel:
        """Read what to_npz wrote, or `values` stacked by series with optional `regime`, `time`.

        With mmap the values stay in the file unless they are compressed. Missing cells are
        gaps in files from to_npz and otherwise an error, unless `missing` says how to take them.
        """
        return cls(**readers.npz_parts(Path(path), mmap, missing, gap))

    @classmethod
    def read(cls, path: PathLike, **roles: Unpack[Roles]) -> Panel:
        """Read a .csv, .csv.gz, .tsv, .parquet, .pq or .npz file; see from_frame."""
        return cls(**readers.file_parts(Path(path), known_roles(roles)))

    @classmethod
    def from_arrays(
        cls,
        values: Any,
        *,
        regime: Any = None,
        time: Any = None,
        names: Sequence[str] | np.ndarray | None = None,
        groups: Sequence[str] | np.ndarray | None = None,
        channels: Sequence[str] | None = None,
        images: bool = False,
        missing: str = "error",
        gap: float | None = None,
        source: str = "arrays",
    ) -> Panel:
        """Read an (N, T, p) array or a list of (T_i, p) arrays, without a copy where possible.

        Grey images are (N, T, H, W) or a list of (T_i, H, W); images=True takes one (T, H, W)
        array as one recording. `regime` is one name per series or one list per series; `time`
        one list for all series or one list per series.
        """
        parts = readers.array_parts(
            values,
            regime=regime,
            time=time,
            names=names,
            groups=groups,
            channels=channels,
            images=images,
            missing=missing,
            gap=gap,
            source=source,
        )
        return cls(**parts)

    @classmethod
    def from_pictures(
        cls,
        recordings: Mapping[str, PathLike] | PathLike | Frames,
        *,
        regime: Any = None,
        size: tuple[int, int] | None = None,
        names: Sequence[str] | None = None,
        lengths: Sequence[int] | np.ndarray | None = None,
        gap: float | None = None,
        source: str | None = None,
    ) -> Panel:
        """Read grey pictures; they stay in their files until they are asked for.

        `recordings` names them, each a folder of images (in natural order) or a video; or is one
        folder, below which every folder of images and every video is a recording; or holds
        `Frames` of recordings of these `lengths`. `regime` is one name per recording, a
        mapping from recordings to names, or "folder": the folder that a recording lies in.
        `size` (height, width) resizes all pictures.
        """
        parts = readers.picture_parts(
            recordings,
            regime=regime,
            size=size,
            names=names,
            lengths=lengths,
            gap=gap,
            source=source,
        )
        return cls(**parts)

    # --- writing ---------------------------------------------------------------------------

    def to_frame(self) -> pd.DataFrame:
        """Long format: series, time, regime where labelled, and one column per channel."""
        return writers.to_frame(self)

    def to_arrays(self) -> list[np.ndarray]:
        """One array per series, as views; frames that are not in memory stay where they are."""
        return [
            pick_rows(self.values, slice(a, b))
            for a, b in zip(self.offsets[:-1], self.offsets[1:], strict=True)
        ]

    def to_csv(self, path: PathLike) -> None:
        """Write CSV, or TSV or gzip by the suffix; text keeps no dtypes and no regime order."""
        writers.to_csv(self, Path(path))

    def to_parquet(self, path: PathLike) -> None:
        """Write parquet."""
        writers.to_parquet(self, Path(path))

    def to_npz(self, path: PathLike) -> None:
        """Write an uncompressed npz, whose values from_npz maps without loading them."""
        writers.to_npz(self, Path(path))

    # --- inner workings --------------------------------------------------------------------

    @cached_property
    def _observed(self) -> np.ndarray:
        finite = _finite_rows(self.values)
        finite.setflags(write=False)
        return finite

    @cached_property
    def _regime_lookup(self) -> np.ndarray:
        return np.array([*self.regimes, ""], dtype=np.str_)  # code -1 finds the last, ''

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names.tolist())}

    def _position(self, name: str) -> int:
        if name not in self._positions:
            fix = f"the series are {listed(self.names[:100].tolist(), 5)}"
            raise DataError(f"there is no series {shown(name)}", where=self.source, fix=fix)
        return self._positions[name]

    def _series(self, i: int) -> Series:
        values = pick_rows(self.values, slice(self.offsets[i], self.offsets[i + 1]))
        regime = self.regime_names_of(i)
        return Series(str(self.names[i]), values, self.time_of(i), regime, self.channels)

    def _starts(self) -> np.ndarray:
        starts = np.zeros(self.rows, dtype=bool)
        starts[self.offsets[:-1]] = True
        return starts

    def _chosen(self, key: np.ndarray) -> np.ndarray:
        if key.dtype.kind == "b":
            if key.shape != (len(self),):
                what = f"a mask of shape {key.shape} does not fit {len(self)} series"
                raise DataError(what, where=self.source)
            return np.flatnonzero(key)
        if key.dtype.kind in "UO":
            return np.array([self._position(str(name)) for name in key], dtype=np.int64)
        if key.size == 0:
            return np.zeros(0, dtype=np.int64)
        if key.ndim != 1 or key.dtype.kind not in "iu":
            what = f"series cannot be chosen by {key.dtype} of shape {key.shape}"
            raise DataError(what, where=self.source, fix="use numbers, names or a mask")
        if key.min() < -len(self) or key.max() >= len(self):
            raise IndexError(f"series {key.min()} to {key.max()} of {len(self)}")
        return key.astype(np.int64) % len(self)

    def _subset(self, chosen: np.ndarray) -> Panel:
        starts, lengths = self.offsets[:-1][chosen], self.lengths[chosen]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        if len(chosen) and (np.diff(chosen) == 1).all():  # neighbours: views, no copies
            rows: Any = slice(int(starts[0]), int(starts[0] + offsets[-1]))
        else:
            rows = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
        return replace(
            self,
            values=pick_rows(self.values, rows),
            offsets=offsets,
            names=self.names[chosen],
            groups=None if self.groups is None else self.groups[chosen],
            time=None if self.time is None else self.time[rows],
            codes=None if self.codes is None else self.codes[rows],
            # What breaks a series must not depend on which others are looked at with it.
            gap=self.gap if self.time is None else self.max_step,
        )


def _finite_rows(values: np.ndarray | Frames) -> np.ndarray:
    finite = np.ones(len(values), dtype=bool)
    if values.dtype.kind == "f":
        cells = tuple(range(1, values.ndim))
        for chunk in row_chunks(values):
            np.isfinite(values[chunk]).all(axis=cells, out=finite[chunk])
    return finite


def _steps(time: np.ndarray) -> np.ndarray:
    """Steps in time as floats, in seconds for dates."""
    if time.dtype.kind == "M":
        return np.diff(time.view(np.int64)) / 1e9
    return np.diff(time).astype(np.float64)
