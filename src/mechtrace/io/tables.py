"""Panels and tables become files, which are complete or untouched."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np

from .atomic import atomic_path
from .errors import DataError
from .frames import Frames, row_chunks
from .readers.dialect import separator
from .readers.files import require_pyarrow
from .readers.names import shown

if TYPE_CHECKING:
    import pandas as pd

    from .series import Panel


def to_frame(panel: Panel) -> pd.DataFrame:
    """Long format: series, time, regime where labelled, and one column per channel."""
    import pandas as pd

    if panel.is_image:
        raise DataError(
            "images do not fit a table", where=panel.source, fix="use to_npz (a .npz file)"
        )
    # Categories keep 10 million names small, and keep the order of the regimes.
    names = pd.Index(panel.names.tolist(), dtype=str)
    columns: dict[str, Any] = {"series": pd.Categorical.from_codes(panel.series_index(), names)}
    starts = np.repeat(panel.offsets[:-1], panel.lengths)
    columns["time"] = np.arange(panel.rows) - starts if panel.time is None else panel.time
    if panel.codes is not None:
        regimes = pd.Index(panel.regimes, dtype=str)
        columns["regime"] = pd.Categorical.from_codes(panel.codes, regimes, ordered=True)
    if panel.groups is not None:
        columns["group"] = np.repeat(panel.groups.astype(object), panel.lengths)
    for k, name in enumerate(panel.channels):
        if name in columns:
            what = f"the channel {shown(name)} has the name of another column"
            raise DataError(what, where=panel.source, fix="rename the channel")
        columns[name] = panel.values[:, k]
    return pd.DataFrame(columns)


def to_csv(panel: Panel, path: Path) -> None:
    """Write CSV, or TSV or gzip by the suffix."""
    frame = to_frame(panel)
    with atomic_path(path) as temporary:
        frame.to_csv(temporary, index=False, sep=separator(path), compression=_gzip(path))


def _gzip(path: Path) -> Literal["gzip"] | None:
    return "gzip" if path.suffix.lower() == ".gz" else None


def to_parquet(panel: Panel, path: Path) -> None:
    """Write parquet."""
    require_pyarrow()
    frame = to_frame(panel)
    with atomic_path(path) as temporary:
        frame.to_parquet(temporary, engine="pyarrow", index=False)


#: By suffix, what a table can be written as.
TABLE_TYPES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".npz")


def check_table(path: Path) -> None:
    """Refuse a table of a type that is not written, before the work is done."""
    if not path.name.lower().endswith(TABLE_TYPES):
        fix = f"use {', '.join(TABLE_TYPES)}"
        raise DataError("the file type cannot be written", where=str(path), fix=fix)
    if path.suffix.lower() == ".parquet":
        require_pyarrow()


def write_frames(frames: Mapping[str, pd.DataFrame], path: Path) -> None:
    """One table of the frames of all series, with their names in front, by the suffix."""
    import pandas as pd

    check_table(path)
    frame = pd.concat(frames.values(), ignore_index=True)
    lengths = [len(each) for each in frames.values()]
    frame.insert(0, "series", np.repeat(np.array(list(frames), dtype=object), lengths))
    with atomic_path(path) as temporary:
        if path.suffix.lower() == ".parquet":
            frame.to_parquet(temporary, engine="pyarrow", index=False)
        elif path.suffix.lower() == ".npz":
            columns = {str(name): column.to_numpy() for name, column in frame.items()}
            # text as plain unicode arrays: objects would have to be pickled
            arrays = {k: v.astype(np.str_) if v.dtype == object else v for k, v in columns.items()}
            np.savez_compressed(temporary, allow_pickle=False, **arrays)
        else:
            frame.to_csv(temporary, index=False, sep=separator(path), compression=_gzip(path))


def write_panel(panel: Panel, path: Path) -> None:
    """Write recordings in the format of the suffix."""
    check_table(path)
    kind = {".parquet": to_parquet, ".npz": to_npz}.get(path.suffix.lower(), to_csv)
    kind(panel, path)


def to_npz(panel: Panel, path: Path) -> None:
    """Write an uncompressed npz, whose values can be mapped without loading them."""
    arrays: dict[str, np.ndarray | Frames | None] = {
        "values": panel.values,
        "offsets": panel.offsets,
        "names": panel.names,
        "channels": np.array(panel.channels, dtype=np.str_),
        "time": panel.time,
        "codes": panel.codes,
        "regimes": np.array(panel.regimes, dtype=np.str_) if panel.labelled else None,
        "gap": None if panel.gap is None else np.array(panel.gap),
        "groups": panel.groups,
    }
    with atomic_path(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, array in arrays.items():
            if array is None:
                continue
            info = zipfile.ZipInfo(f"{name}.npy")  # undated: the same panel, the same bytes
            if name == "values":
                # An empty extra field rounds the zip header up to 64 bytes, to align the map.
                info.extra = struct.pack("<HH", 0xD935, 0)
            with archive.open(info, "w", force_zip64=True) as member:
                if isinstance(array, Frames):
                    _write_frames(member, array)
                else:
                    np.lib.format.write_array(member, array, allow_pickle=False)


def _write_frames(member: IO[bytes], frames: Frames) -> None:
    """Piece by piece: there may be more of them than memory."""
    form = {"descr": frames.dtype.str, "fortran_order": False, "shape": frames.shape}
    np.lib.format.write_array_header_1_0(member, form)
    for rows in row_chunks(frames):
        member.write(np.ascontiguousarray(frames[rows]).tobytes())
