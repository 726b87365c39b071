"""A CSV file with one header line, opened once; the dialect is detected."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError
from .cells import refuse_repeated
from .csv_text import (
    ENCODING_NAMES,
    SAMPLE_BYTES,
    as_read,
    detect_dialect,
    detect_encoding,
    preamble,
    without_odd_rows,
)
from .discover import has_type, unreadable
from .formulas import unescape_column, unescape_formula
from .packed import BoundedGzip

if TYPE_CHECKING:
    import pandas as pd

#: Lines that the dialect is detected from; a decimal comma that first appears later is an error.
SAMPLE_LINES = 1000
#: What pandas itself takes for a missing number; not applied to columns that hold names.
MISSING_TEXTS = ["", "NA", "N/A", "n/a", "<NA>", "#N/A", "#N/A N/A", "#NA", "-NaN", "-nan"]
MISSING_TEXTS += ["NaN", "nan", "NULL", "null", "None"]


def open_text(path: Path) -> io.TextIOWrapper:
    """Open text, unpacked by the suffix, in the encoding that its first bytes show."""
    packed = path.suffix.lower() == ".gz"
    file: Any = BoundedGzip(path) if packed else open(path, "rb")  # noqa: SIM115
    try:
        encoding = detect_encoding(file.read(SAMPLE_BYTES))
        file.seek(0)
        return io.TextIOWrapper(file, encoding=encoding, newline="")
    except BaseException:
        file.close()
        raise


def default_separator(path: Path) -> str:
    """Return the separator that the suffix stands for: tab or comma."""
    return "\t" if has_type(path, (".tsv", ".tsv.gz")) else ","


class CsvTable:
    """An open text file with one header line; the dialect is detected once."""

    def __init__(self, path: Path, text: io.TextIOWrapper) -> None:
        self.path, self._text = path, text
        head = list(islice(text, SAMPLE_LINES))
        self._skipped = preamble(head)
        self.remarks: list[str] = []  # what else was detected, for the user
        if text.encoding in ENCODING_NAMES:
            self.remarks.append(f"{ENCODING_NAMES[text.encoding]} text")
        if self._skipped:
            several = "s" if self._skipped > 1 else ""
            self.remarks.append(f"{self._skipped} line{several} of comments")
        self.dialect = detect_dialect(head[self._skipped :], self._separator(head))
        records = self._records(head[self._skipped :])
        line, header = next(records, (0, list[str]()))
        self.header = [unescape_formula(name) for name in header]
        if not self.header:
            fix = "give a file with a header and rows below it"
            what = "the file holds nothing but blank lines"
            raise DataError(what, where=path.name, fix=fix)
        refuse_repeated(filter(None, self.header), "column name", f"{path.name}, line {line}")
        # pandas takes a longer first row for an index column, so it is refused here
        self._refuse_long_row(islice(records, 1))
        self._kept: np.ndarray | None = None  # rows that hold data, if some do not

    def frame(self, text_columns: Iterable[str | None]) -> pd.DataFrame:
        """Parse all cells; `text_columns` hold names, even where they look like numbers."""
        import pandas as pd

        names = set(text_columns)
        # pandas wants a name for each column
        labels = [name or f" {k}" for k, name in enumerate(self.header)]
        try:
            frame = pd.read_csv(
                self._start(),
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
            self._refuse_long_row(self._records(self._start()))
            raise unreadable(self.path, error, "cannot be parsed") from error
        frame = self._numbers_in(self._without_odd_rows(frame), names)
        if not len(frame):
            what = "there is a header but no rows below it"
            raise DataError(what, where=self.path.name, fix="add at least one row")
        for name in labels:
            if name in names:
                frame[name] = unescape_column(frame[name])
        return frame.set_axis(self.header, axis=1)

    def row_name(self, row: int) -> str:
        """Name the line that a row starts on."""
        row = row if self._kept is None else int(self._kept[row])
        records = self._records(self._start())
        line, _ = next(islice(records, row + 1, None), (row + 2, []))
        return f"line {line}"

    def _separator(self, head: list[str]) -> str:
        """Return the usual separator of the suffix, or what a spreadsheet wrote as sep=;."""
        hints = [line[4] for line in head[: self._skipped] if line.startswith("sep=")]
        return hints[0] if hints else default_separator(self.path)

    def _start(self) -> io.TextIOWrapper:
        """Return the text from the header on."""
        self._text.seek(0)
        for _ in range(self._skipped):
            self._text.readline()
        return self._text

    def _without_odd_rows(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Drop repeated headers, comments and units, and note that."""
        # blank columns have no name that could be repeated
        keep, found = without_odd_rows(frame.rename(columns=lambda name: name.strip()))
        if keep.all():
            return frame
        self.remarks += found
        self._kept = np.flatnonzero(keep)
        return frame[keep].reset_index(drop=True)

    def _numbers_in(self, frame: pd.DataFrame, names: set[str | None]) -> pd.DataFrame:
        """Read numbers that other cells of a column left as text."""
        import pandas as pd

        grouped = []
        for name in frame.columns:
            if name in names or pd.api.types.is_numeric_dtype(frame[name]):
                continue
            if not pd.api.types.is_string_dtype(frame[name]):
                continue
            frame[name], thousands = as_read(frame[name], self.dialect.decimal)
            grouped += [name] * thousands
            if self._kept is not None and not thousands:
                found = pd.to_numeric(frame[name], errors="coerce")
                if (found.notna() | frame[name].isna()).all():
                    frame[name] = found
        if grouped:
            self.remarks.append(f"thousands apart in {', '.join(grouped)}")
        return frame

    def _records(self, lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
        """First line and cells of each record but blank ones, as in pandas; header trimmed."""
        reader = csv.reader(lines, delimiter=self.dialect.separator, skipinitialspace=True)
        start, header = self._skipped + 1, True
        for record in reader:
            if record and not (len(record) == 1 and not record[0].strip()):
                if header:
                    record = [cell.strip() for cell in record]
                    record[0] = re.sub(r"^(#\s*(?=\w)|%\s+)", "", record[0])
                yield start, record
                header = False
            start = self._skipped + reader.line_num + 1

    def _refuse_long_row(self, records: Iterable[tuple[int, list[str]]]) -> None:
        width = len(self.header)
        for line, record in records:
            if len(record) > width:
                what = f"line {line} has {len(record)} cells, but the header has {width}"
                fix = "check for stray separators and unclosed quotes"
                raise DataError(what, where=self.path.name, fix=fix)
