"""How Panels are made from tables, files, arrays and pictures: the class methods of Panel."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from ..errors import DataError
from ..io.arrays import array_parts, npz_parts, picture_parts
from ..io.discover import check_file, has_type
from ..io.frames import Frames
from ..io.long_format import frame_parts
from ..io.parts import Roles
from ..io.tables import open_table, table_parts

if TYPE_CHECKING:
    import pandas as pd

    from .panel import Panel

PathLike = str | os.PathLike[str]


def from_frame(
    cls: type[Panel],
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
    """Read a long-format frame, one row per series and time.

    Parameters
    ----------
    df : DataFrame
        The rows, in any order.
    time, series, regime : str, optional
        Columns with the time stamps, the names of the series and the regime labels. Regimes are
        in natural order ('2' before '10'), or in that of an ordered categorical.
    group : str, optional
        Column that names what is held out together, such as the subject.
    channels : sequence of str, optional
        Columns with measurements; by default all others.
    missing : {"error", "gap", "interpolate"}
        Refuse missing cells, treat such rows as not observed, or fill them linearly in time
        inside each series.
    gap : float, optional
        Largest step in time that continues a series; see `max_step`.

    Raises
    ------
    DataError
        If a column is missing or a cell cannot be used.

    Examples
    --------
    >>> import pandas as pd
    >>> from mechtrace import Panel
    >>> df = pd.DataFrame({"t": [2, 0, 1], "x": [2.0, 0.0, 1.0], "mode": ["b", "a", ""]})
    >>> panel = Panel.from_frame(df, time="t", regime="mode")
    >>> panel.values[:, 0].tolist(), panel[0].regime.tolist()
    ([0.0, 1.0, 2.0], ['a', '', 'b'])
    """
    roles = Roles(
        time=time, series=series, regime=regime, group=group, channels=channels,
        missing=missing, gap=gap,
    )  # fmt: skip
    return cls.from_parts(frame_parts(df, roles))


def from_csv(cls: type[Panel], path: PathLike, **roles: Unpack[Roles]) -> Panel:
    """Read a CSV or TSV file (.gz too) in UTF-8 with one header line; see `from_frame`.

    The separator and the decimal mark are detected.
    """
    with open_table(Path(path), "csv") as table:
        return cls.from_parts(table_parts(table, _known(roles)))


def from_parquet(cls: type[Panel], path: PathLike, **roles: Unpack[Roles]) -> Panel:
    """Read a Parquet file; see `from_frame`."""
    with open_table(Path(path), "parquet") as table:
        return cls.from_parts(table_parts(table, _known(roles)))


def from_npz(
    cls: type[Panel],
    path: PathLike,
    *,
    mmap: bool = True,
    missing: str | None = None,
    gap: float | None = None,
) -> Panel:
    """Read what `to_npz` wrote, or `values` stacked by series with optional `regime`, `time`.

    Parameters
    ----------
    path : path-like
        The file; nothing in it is unpickled.
    mmap : bool
        Leave the values in the file, unless they are compressed.
    missing : {"error", "gap", "interpolate"}, optional
        As in `from_frame`; by default "gap" for files from `to_npz` and "error" for others.
    gap : float, optional
        Largest step in time that continues a series; by default the one in the file.
    """
    return cls.from_parts(npz_parts(Path(path), mmap, missing, gap))


def read(cls: type[Panel], path: PathLike, **roles: Unpack[Roles]) -> Panel:
    """Read a .csv, .csv.gz, .tsv, .parquet, .pq or .npz file.

    Parameters
    ----------
    path : path-like
        The file; its suffix tells its type.
    **roles
        As in `from_frame`; an npz file takes `missing` and `gap` only.
    """
    path, roles = Path(path), _known(roles)
    if not has_type(path, (".npz",)):
        with open_table(path) as table:
            return cls.from_parts(table_parts(table, roles))
    check_file(path)
    columns = ("time", "series", "regime", "group", "channels")
    if any(roles.get(role) is not None for role in columns):
        fix = f"leave out {', '.join(columns)}"
        raise DataError("an npz file has no columns to choose from", where=path.name, fix=fix)
    return cls.from_parts(npz_parts(path, True, roles.get("missing"), roles.get("gap")))


def from_arrays(
    cls: type[Panel],
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
    """Read arrays, without a copy where possible.

    Parameters
    ----------
    values : array-like or sequence of array-like
        (N, T, p), or N arrays (T_i, p); grey images (N, T, H, W), or N arrays (T_i, H, W).
    regime : sequence, optional
        One name per series, or one list of names per series.
    time : sequence, optional
        Time stamps for all series, or one list per series.
    names, groups : sequence of str, optional
        One per series; a group is held out together.
    channels : sequence of str, optional
        Names of the channels, by default x0, x1, ...
    images : bool
        Read one (T, H, W) array as one recording of images.
    missing, gap
        As in `from_frame`.
    source : str
        Name of the data in messages.
    """
    parts = array_parts(
        values, regime=regime, time=time, names=names, groups=groups, channels=channels,
        images=images, missing=missing, gap=gap, source=source,
    )  # fmt: skip
    return cls.from_parts(parts)


def from_pictures(
    cls: type[Panel],
    recordings: Mapping[str, PathLike] | PathLike | Frames,
    *,
    regime: Any = None,
    size: tuple[int, int] | None = None,
    names: Sequence[str] | None = None,
    lengths: Sequence[int] | np.ndarray | None = None,
    gap: float | None = None,
    source: str | None = None,
) -> Panel:
    """Read grey pictures, which stay in their files until they are used.

    Parameters
    ----------
    recordings : mapping, path-like or Frames
        Names and paths of recordings, each a folder of images (in natural order) or a video; one
        folder, below which every folder of images and every video is a recording; or `Frames`.
    regime : sequence, mapping or "folder", optional
        One name per recording, a mapping from recordings to names, or the name of the folder
        that a recording lies in.
    size : (int, int), optional
        Height and width to which all pictures are resized.
    names : sequence of str, optional
        Names of the recordings.
    lengths : sequence of int, optional
        Number of rows of each recording in `Frames`.
    gap : float, optional
        As in `from_frame`.
    source : str, optional
        Name of the data in messages.
    """
    parts = picture_parts(
        recordings, regime=regime, size=size, names=names, lengths=lengths, gap=gap,
        source=source,
    )  # fmt: skip
    return cls.from_parts(parts)


def _known(roles: Roles) -> Roles:
    """Refuse a misspelt keyword, which would otherwise be ignored."""
    for name in roles:
        if name not in Roles.__annotations__:
            known = list(Roles.__annotations__)
            raise TypeError(f"unexpected keyword argument {name!r}; use {known}")
    return roles
