"""Table files: CSV, whose dialect is detected, and Parquet; opened once, written completely."""

from __future__ import annotations

import csv
import io
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np

from .._runtime.process import atomic_path
from ..errors import DataError, MissingDependency
from .arrays import to_npz
from .cells import refuse_repeated, shown
from .discover import TABLES, check_file, has_type, unknown_type, unreadable
from .formulas import escape_frame, unescape_column, unescape_formula
from .long_format import frame_parts, with_index_columns, with_trimmed_header
from .packed import BoundedGzip
from .parts import Parts, Roles

if TYPE_CHECKING:
    import pandas as pd

    from ..data.panel import Panel

#: Lines that the dialect is detected from; a decimal comma that first appears later is an error.
SAMPLE_LINES = 1000
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_NUMBER = {mark: re.compile(rf"[+-]?\d*{re.escape(mark)}\d+([eE][+-]?\d+)?") for mark in ".,"}
_INTEGER = re.compile(r"[+-]?\d+")
_COMMA_NUMBER = r"^\s*([+-]?\d*),(\d+(?:[eE][+-]?\d+)?)\s*$"
#: What pandas itself takes for a missing number; not applied to columns that hold names.
MISSING_TEXTS = ["", "NA", "N/A", "n/a", "<NA>", "#N/A", "#N/A N/A", "#NA", "-NaN", "-nan"]
MISSING_TEXTS += ["NaN", "nan", "NULL", "null", "None"]
#: Rows of a table that are formatted and written at once.
WRITTEN_ROWS = 100_000
#: By suffix, what a table can be written as.
TABLE_TYPES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".npz")


@dataclass(frozen=True)
class Dialect:
    """Separator of the cells, and decimal mark."""

    separator: str = ","
    decimal: str = "."

    def __str__(self) -> str:
        cells = "" if self.separator == "," else f"{SEPARATORS[self.separator]} between cells"
        return cells + (", decimal commas" if self.decimal == "," else "")


def open_text(path: Path) -> IO[str]:
    """Open UTF-8 text, unpacked by the suffix."""
    if path.suffix.lower() != ".gz":
        return open(path, encoding="utf-8-sig", newline="")
    return io.TextIOWrapper(BoundedGzip(path), encoding="utf-8-sig", newline="")


def default_separator(path: Path) -> str:
    """Return the separator that the suffix stands for: tab or comma."""
    return "\t" if has_type(path, (".tsv", ".tsv.gz")) else ","


def detect_dialect(lines: Sequence[str], separator: str) -> Dialect:
    """Detect other separators than commas, as in 1,5;2,5, and decimal commas."""
    lines = [line for line in lines if line.strip()]
    if separator == "," and lines and any(mark in lines[0] for mark in ";\t|"):
        separator = max(SEPARATORS, key=lambda mark: _separator_score(lines, mark))
    if separator == ",":
        return Dialect()
    cells = [cell.strip() for row in csv.reader(lines[1:], delimiter=separator) for cell in row]
    commas, points = (any(map(_NUMBER[mark].fullmatch, cells)) for mark in ",.")
    return Dialect(separator, "," if commas and not points else ".")


def _separator_score(lines: Sequence[str], separator: str) -> tuple[bool, float, int]:
    """Rows as wide as the header, then the share of numbers, then the number of cells."""
    header, *rows = csv.reader(lines, delimiter=separator)
    cells = [cell.strip() for row in rows for cell in row]
    patterns = (_INTEGER, *_NUMBER.values())
    numbers = sum(any(pattern.fullmatch(cell) for pattern in patterns) for cell in cells)
    alike = len(header) > 1 and all(len(row) == len(header) for row in rows)
    return alike, numbers / max(1, len(cells)), len(header)


class CsvTable:
    """An open text file with one header line; the dialect is detected once."""

    def __init__(self, path: Path, text: IO[str]) -> None:
        self.path, self._text = path, text
        head = list(islice(text, SAMPLE_LINES))
        self.dialect = detect_dialect(head, default_separator(path))
        records = self._records(head)
        _, header = next(records, (0, list[str]()))
        self.header = [unescape_formula(name) for name in header]
        if not self.header:
            fix = "give a file with a header and rows below it"
            what = "the file holds nothing but blank lines"
            raise DataError(what, where=path.name, fix=fix)
        refuse_repeated(filter(None, self.header), "column name", f"{path.name}, line 1")
        # pandas takes a longer first row for an index column, so it is refused here
        self._refuse_long_row(islice(records, 1))

    def frame(self, text_columns: Iterable[str | None]) -> pd.DataFrame:
        """Parse all cells; `text_columns` hold names, even where they look like numbers."""
        import pandas as pd

        names = set(text_columns)
        # pandas wants a name for each column
        labels = [name or f" {k}" for k, name in enumerate(self.header)]
        self._text.seek(0)
        try:
            frame = pd.read_csv(
                self._text,
                sep=self.dialect.separator,
                decimal=self.dialect.decimal,
                skipinitialspace=True,
                header=0,
                names=labels,
                index_col=False,
                low_memory=False,
                # a regime called 'NA' is a name; only measurements have missing cells
                dtype={name: str for name in labels if name in names},
                na_values={name: MISSING_TEXTS for name in labels if name not in names},
                keep_default_na=False,
            )
        except (pd.errors.ParserError, OverflowError) as error:  # a long integer, in pandas 3.0
            self._text.seek(0)
            self._refuse_long_row(self._records(self._text))
            raise unreadable(self.path, error, "cannot be parsed") from error
        if self.dialect.decimal == ",":  # a word among the numbers leaves a column as text
            for name in labels:
                if name not in names and not pd.api.types.is_numeric_dtype(frame[name]):
                    frame[name] = frame[name].str.replace(_COMMA_NUMBER, r"\1.\2", regex=True)
        if not len(frame):
            what = "there is a header but no rows below it"
            raise DataError(what, where=self.path.name, fix="add at least one row")
        for name in labels:
            if name in names:
                frame[name] = unescape_column(frame[name])
        return frame.set_axis(self.header, axis=1)

    def row_name(self, row: int) -> str:
        """Name the line that a row starts on."""
        self._text.seek(0)
        line, _ = next(islice(self._records(self._text), row + 1, None), (row + 2, []))
        return f"line {line}"

    def _records(self, lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
        """First line and cells of each record but blank ones, as in pandas; header trimmed."""
        reader = csv.reader(lines, delimiter=self.dialect.separator, skipinitialspace=True)
        start, header = 1, True
        for record in reader:
            if record and not (len(record) == 1 and not record[0].strip()):
                yield start, [cell.strip() for cell in record] if header else record
                header = False
            start = reader.line_num + 1

    def _refuse_long_row(self, records: Iterable[tuple[int, list[str]]]) -> None:
        width = len(self.header)
        for line, record in records:
            if len(record) > width:
                what = f"line {line} has {len(record)} cells, but the header has {width}"
                fix = "check for stray separators and unclosed quotes"
                raise DataError(what, where=self.path.name, fix=fix)


class ParquetTable:
    """A Parquet file, read as a whole: its columns carry their types."""

    dialect = None

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


TableSource = CsvTable | ParquetTable


@contextmanager
def open_table(path: Path, kind: Literal["csv", "parquet"] | None = None) -> Iterator[TableSource]:
    """Open a table file for the time of a `with` block; by default the suffix tells its kind."""
    check_file(path)
    if kind is None and not has_type(path, TABLES):
        raise unknown_type(path)
    if kind == "parquet" or (kind is None and has_type(path, (".parquet", ".pq"))):
        yield ParquetTable(path)
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
