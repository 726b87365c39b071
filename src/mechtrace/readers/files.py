"""Table files: text with separators, and parquet."""

from __future__ import annotations

import csv
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..errors import DataError, MissingDependency
from .dialect import dialect_of, open_text
from .names import refuse_repeated
from .parts import Parts, Roles
from .table import frame_parts

if TYPE_CHECKING:
    import pandas as pd

#: Files with columns, by suffix.
TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".pq")
Record = tuple[int, list[str]]  # the line it starts on, its cells
# What pandas itself takes for a missing number; kept away from the columns that hold names.
MISSING_TEXTS = ["", "NA", "N/A", "n/a", "<NA>", "#N/A", "#N/A N/A", "#NA", "-NaN", "-nan"]
MISSING_TEXTS += ["NaN", "nan", "NULL", "null", "None"]
COMMA_NUMBER = r"^\s*([+-]?\d*),(\d+(?:[eE][+-]?\d+)?)\s*$"
FIX_EMPTY = "give a file with a header and rows below it"


def existing_file(path: Path) -> None:
    """Refuse what cannot be a data file: nothing, a folder, zero bytes."""
    if path.is_dir():
        raise DataError("this is a folder, not a file", where=str(path), fix="name one file in it")
    if not path.exists():
        raise DataError("there is no such file", where=str(path), fix="check the path")
    if path.stat().st_size == 0:
        raise DataError("the file is empty (0 bytes)", where=path.name, fix=FIX_EMPTY)


def unreadable(path: Path, error: BaseException, what: str = "cannot be read") -> DataError:
    """What a library says about a broken file, on one line."""
    said = " ".join(str(error).split()) or type(error).__name__
    fix = "write it again, or check that it is what its name says"
    return DataError(f"{what}: {said.rstrip('.')}", where=path.name, fix=fix)


class Table(NamedTuple):
    """A file as a frame, and how its rows are named in messages."""

    frame: pd.DataFrame
    row_name: Callable[[int], str]


def read_table(path: Path, names: Iterable[str | None]) -> Table:
    """Read a text or parquet file; in text, the columns in `names` hold names, not numbers."""
    if path.name.lower().endswith((".parquet", ".pq")):
        return Table(_parquet_frame(path), "row {}".format)
    existing_file(path)
    try:
        frame = _csv_frame(path, set(names))
    except UnicodeDecodeError as error:
        raise DataError(
            "this is not UTF-8 text",
            where=path.name,
            fix="save it as UTF-8 (in a spreadsheet: CSV UTF-8)",
        ) from error
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        raise unreadable(path, error) from error
    if not len(frame):
        what = "there is a header but no rows below it"
        raise DataError(what, where=path.name, fix="add at least one row")

    def row_name(row: int) -> str:
        line, _ = next(islice(_records(path), row + 1, None), (row + 2, []))
        return f"line {line}"

    return Table(frame, row_name)


def csv_parts(path: Path, roles: Roles) -> Parts:
    """Read text (UTF-8, one header line, optionally gzipped); separators are recognised."""
    table = read_table(path, {roles.get("series"), roles.get("regime"), roles.get("group")})
    return frame_parts(table.frame, roles, path.name, table.row_name)


def parquet_parts(path: Path, roles: Roles) -> Parts:
    """Read a parquet file."""
    return frame_parts(_parquet_frame(path), roles, path.name)


def column_names(path: Path) -> list[str]:
    """The header of a table; empty where the file cannot be read (the reader then says why)."""
    if path.name.lower().endswith((".parquet", ".pq")):
        try:
            from pyarrow.parquet import read_schema

            return list(read_schema(path).names)
        except (ImportError, OSError, ValueError):
            return []
    try:
        return next(_records(path), (0, list[str]()))[1]
    except (OSError, EOFError, UnicodeDecodeError, csv.Error, zlib.error):
        return []


def _records(path: Path) -> Iterator[Record]:
    """Records, skipping blank lines as pandas does; names in the header are trimmed."""
    mark = dialect_of(path).separator
    with open_text(path) as text:
        reader = csv.reader(text, delimiter=mark, skipinitialspace=True)
        start, header = 1, True
        for record in reader:
            if record and not (len(record) == 1 and not record[0].strip()):
                yield start, [cell.strip() for cell in record] if header else record
                header = False
            start = reader.line_num + 1


def _refuse_long_row(records: Iterable[Record], width: int, path: Path) -> None:
    for line, record in records:
        if len(record) > width:
            what = f"line {line} has {len(record)} cells, but the header has {width}"
            fix = "check for stray separators and unclosed quotes"
            raise DataError(what, where=path.name, fix=fix)


def _csv_frame(path: Path, names: set[str | None]) -> pd.DataFrame:
    import pandas as pd

    records = _records(path)
    _, header = next(records, (0, []))
    if not header:
        what = "the file holds nothing but blank lines"
        raise DataError(what, where=path.name, fix=FIX_EMPTY)
    refuse_repeated(filter(None, header), "column name", f"{path.name}, line 1")
    # pandas takes a longer first row for an index column, so it is caught here.
    _refuse_long_row(islice(records, 1), len(header), path)
    dialect = dialect_of(path)
    labels = [name or f" {k}" for k, name in enumerate(header)]  # pandas wants a name for each
    try:
        with open_text(path) as text:
            frame = pd.read_csv(
                text,
                sep=dialect.separator,
                decimal=dialect.decimal,
                skipinitialspace=True,
                header=0,
                names=labels,
                index_col=False,
                low_memory=False,
                # A regime called 'NA' is a name; only measurements have missing cells.
                dtype={name: str for name in labels if name in names},
                na_values={name: MISSING_TEXTS for name in labels if name not in names},
                keep_default_na=False,
            )
    except pd.errors.ParserError as error:
        _refuse_long_row(_records(path), len(header), path)
        raise unreadable(path, error, "cannot be parsed") from error
    if dialect.decimal == ",":  # a word among the numbers leaves the whole column as text
        for name in labels:
            if name not in names and not pd.api.types.is_numeric_dtype(frame[name]):
                frame[name] = frame[name].str.replace(COMMA_NUMBER, r"\1.\2", regex=True)
    return frame.set_axis(header, axis=1)


def require_pyarrow() -> None:
    """Say how to install pyarrow when it is missing."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        fix = 'pip install "mechtrace[parquet]"'
        raise MissingDependency("parquet files need pyarrow", fix=fix) from error


def _parquet_frame(path: Path) -> pd.DataFrame:
    import pandas as pd

    existing_file(path)
    require_pyarrow()
    try:
        return pd.read_parquet(path, engine="pyarrow")
    except (OSError, ValueError, TypeError, NotImplementedError) as error:
        raise unreadable(path, error) from error
