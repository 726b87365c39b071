"""Table files: CSV, Parquet and spreadsheets; opened once, written completely."""

from __future__ import annotations

import csv
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .._runtime.process import atomic_path
from ..errors import DataError, MissingDependency
from .arrays import to_npz
from .cells import offset_of, shown
from .csv_table import CsvTable, default_separator, open_text
from .discover import TABLES, check_file, has_type, unknown_type, unreadable
from .excel import ExcelTable
from .formulas import escape_frame
from .long_format import frame_parts, with_index_columns, with_trimmed_header
from .parts import Parts, Roles

if TYPE_CHECKING:
    import pandas as pd

    from ..data.panel import Panel

#: Rows of a table that are formatted and written at once.
WRITTEN_ROWS = 100_000
#: By suffix, what a table can be written as.
TABLE_TYPES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".npz")


class ParquetTable:
    """A Parquet file, read as a whole: its columns carry their types."""

    dialect = None
    remarks: Sequence[str] = ()

    def __init__(self, path: Path) -> None:
        import pandas as pd

        require_pyarrow()
        try:
            frame = pd.read_parquet(path, engine="pyarrow")
        except (OSError, ValueError, TypeError, NotImplementedError, LookupError) as error:
            raise unreadable(path, error) from error
        self._frame = with_trimmed_header(with_index_columns(frame))
        self.path, self.header = path, list(self._frame.columns)

    def frame(self, text_columns: Iterable[str | None]) -> pd.DataFrame:
        """Return the table."""
        return self._frame

    def row_name(self, row: int) -> str:
        """Name a row by its number."""
        return f"row {row}"


TableSource = CsvTable | ParquetTable | ExcelTable


@contextmanager
def open_table(path: Path, kind: Literal["csv", "parquet"] | None = None) -> Iterator[TableSource]:
    """Open a table file for the time of a `with` block; by default the suffix tells its kind."""
    check_file(path)
    if kind is None and not has_type(path, TABLES):
        raise unknown_type(path)
    if kind == "parquet" or (kind is None and has_type(path, (".parquet", ".pq"))):
        yield ParquetTable(path)
        return
    if kind is None and has_type(path, (".xlsx",)):
        yield ExcelTable(path)
        return
    try:
        with open_text(path) as text:
            yield CsvTable(path, text)
    except UnicodeDecodeError as error:
        fix = "save it as UTF-8 (in a spreadsheet: CSV UTF-8)"
        raise DataError("this is not UTF-8 text", where=path.name, fix=fix) from error
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        raise unreadable(path, error) from error


def table_parts(table: TableSource, roles: Roles) -> Parts:
    """Read an open table; `roles` names its columns."""
    frame = table.frame([roles.get("series"), roles.get("regime"), roles.get("group")])
    return frame_parts(frame, roles, table.path.name, table.row_name)


def require_pyarrow() -> None:
    """Raise MissingDependency, with the install line, where pyarrow is missing."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        fix = 'pip install "mechtrace[parquet]"'
        raise MissingDependency("parquet files need pyarrow", fix=fix) from error


def to_frame(panel: Panel) -> pd.DataFrame:
    """Return a long-format frame: series, time, regime and group where known, channels."""
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
    if panel.preparation.zone is not None and panel.time is not None:
        zone = timezone(offset_of(panel.preparation.zone))
        columns["time"] = pd.Series(panel.time).dt.tz_localize(zone)
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
    write_table(to_frame(panel), path)


def to_parquet(panel: Panel, path: Path) -> None:
    """Write Parquet."""
    require_pyarrow()
    write_table(to_frame(panel), path, parquet=True)


def write_table(frame: pd.DataFrame, path: Path, *, parquet: bool = False) -> None:
    """Write a frame as Parquet, or as CSV (TSV or gzip by the suffix) without formulas."""
    with atomic_path(path) as temporary:
        if parquet:
            frame.to_parquet(temporary, engine="pyarrow", index=False)
        else:
            _write_csv([frame], temporary, path)


def _write_csv(blocks: Iterable[pd.DataFrame], temporary: Path, path: Path) -> None:
    """Write blocks of rows below each other, as the suffix of `path` says, without formulas."""
    compression: Literal["gzip"] | None = "gzip" if has_type(path, (".gz",)) else None
    for i, block in enumerate(blocks):  # gzip members in a row are one gzip file
        escape_frame(block).to_csv(
            temporary, mode="a" if i else "w", header=i == 0, index=False,
            sep=default_separator(path), compression=compression,
        )  # fmt: skip


def check_table(path: Path) -> None:
    """Check that a table can be written, before the work is done.

    Raises
    ------
    DataError, MissingDependency
        If the suffix is not one of `TABLE_TYPES`, or needs a package that is missing.
    """
    if not has_type(path, TABLE_TYPES):
        fix = f"use {', '.join(TABLE_TYPES)}"
        raise DataError("the file type cannot be written", where=str(path), fix=fix)
    if has_type(path, (".parquet",)):
        require_pyarrow()


def write_frames(frames: Iterable[tuple[str, pd.DataFrame]], path: Path) -> None:
    """Write frames of named series into one table, with a column for the names.

    Rows are written in blocks; only an npz file is made of the whole table.
    """
    import pandas as pd

    check_table(path)
    blocks = _blocks(frames)
    if has_type(path, (".npz",)):
        whole = pd.concat(blocks, ignore_index=True)
        columns = {str(name): column.to_numpy() for name, column in whole.items()}
        # text as plain unicode arrays: objects would have to be pickled
        arrays = {k: v.astype(np.str_) if v.dtype == object else v for k, v in columns.items()}
        with atomic_path(path) as temporary:
            np.savez_compressed(temporary, allow_pickle=False, **arrays)
        return
    with atomic_path(path) as temporary:
        if has_type(path, (".parquet",)):
            _write_parquet(blocks, temporary)
            return
        _write_csv(blocks, temporary, path)


def _blocks(frames: Iterable[tuple[str, pd.DataFrame]]) -> Iterator[pd.DataFrame]:
    """Join frames, with a column for their names, until they have `WRITTEN_ROWS` rows."""
    import pandas as pd

    waiting: list[tuple[str, pd.DataFrame]] = []

    def joined() -> pd.DataFrame:
        block = pd.concat([frame for _, frame in waiting], ignore_index=True)
        names = np.array([name for name, _ in waiting], dtype=object)
        block.insert(0, "series", np.repeat(names, [len(frame) for _, frame in waiting]))
        waiting.clear()
        return block

    rows = 0
    for name, frame in frames:
        waiting.append((name, frame))
        rows += len(frame)
        if rows >= WRITTEN_ROWS:
            yield joined()
            rows = 0
    if waiting:
        yield joined()


def _write_parquet(blocks: Iterator[pd.DataFrame], path: Path) -> None:
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    first = pa.Table.from_pandas(next(blocks), preserve_index=False)
    with ParquetWriter(path, first.schema) as writer:
        writer.write_table(first)
        for block in blocks:
            writer.write_table(pa.Table.from_pandas(block, first.schema, preserve_index=False))


def write_panel(panel: Panel, path: Path) -> None:
    """Write recordings to a file of one of the `TABLE_TYPES`, by its suffix."""
    check_table(path)
    {".parquet": to_parquet, ".npz": to_npz}.get(path.suffix.lower(), to_csv)(panel, path)
