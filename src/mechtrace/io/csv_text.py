"""Text files of loggers and spreadsheets: their encoding, separator, comments, units, headers."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

#: Bytes that the encoding is detected from.
SAMPLE_BYTES = 1 << 22
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
#: Encodings by the byte order mark at the start.
MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
#: How other encodings than UTF-8 are named to the user.
ENCODING_NAMES = {"utf-16": "UTF-16", "gb18030": "GB18030", "cp1252": "Windows-1252"}
#: Two bytes of a common Chinese character in GBK, or any others above ASCII.
_GBK = re.compile(rb"([\xa1-\xf7][\xa1-\xfe])|([\x80-\xff])")
_NUMBER = {mark: re.compile(rf"[+-]?\d*{re.escape(mark)}\d+([eE][+-]?\d+)?") for mark in ".,"}
_INTEGER = re.compile(r"[+-]?\d+")
_COMMA_NUMBER = r"^\s*([+-]?\d*),(\d+(?:[eE][+-]?\d+)?)\s*$"
#: 1,234,567.8 and, with decimal commas, 1.234.567,8
_GROUPED = {
    ".": r"[+-]?(\d{1,3}(,\d{3})+|\d{1,3})(\.\d+)?",
    ",": r"[+-]?(\d{1,3}(\.\d{3})+|\d{1,3})(,\d+)?",
}
_SURELY_GROUPED = {".": r",\d{3}\.|,\d{3},\d{3}", ",": r"\.\d{3},|\.\d{3}\.\d{3}"}
COMMENTS = ("#", "%")


@dataclass(frozen=True)
class Dialect:
    """Separator of the cells, and decimal mark."""

    separator: str = ","
    decimal: str = "."

    def __str__(self) -> str:
        cells = "" if self.separator == "," else f"{SEPARATORS[self.separator]} between cells"
        decimals = "decimal commas" if self.decimal == "," else ""
        return ", ".join(filter(None, [cells, decimals]))


def detect_encoding(head: bytes) -> str:
    """Detect the encoding of text by its first bytes: UTF-8 unless they cannot be that.

    >>> detect_encoding("Größe;Durchfluß".encode("latin-1"))
    'cp1252'
    >>> detect_encoding("压力,流量".encode("gbk")), detect_encoding("压力".encode())
    ('gb18030', 'utf-8-sig')
    """
    for mark, encoding in MARKS.items():
        if head.startswith(mark):
            return encoding
    try:
        head.decode("utf-8")
        return "utf-8-sig"
    except UnicodeDecodeError as error:
        if error.start >= len(head) - 3 and len(head) >= SAMPLE_BYTES:  # cut in a character
            return "utf-8-sig"
    if b"\x00" in head:
        return "utf-8-sig"  # no text; reading it says so
    found = _GBK.findall(head)
    pairs = sum(bool(pair) for pair, _ in found)
    for encoding in ("gb18030",) * (2 * pairs > len(found)) + ("cp1252",):
        try:
            head[:-4].decode(encoding)
            head.decode(encoding, "ignore" if len(head) >= SAMPLE_BYTES else "strict")
            return encoding
        except UnicodeDecodeError:
            continue
    return "utf-8-sig"


def detect_dialect(lines: Sequence[str], separator: str) -> Dialect:
    """Detect other separators than commas, as in 1,5;2,5, and decimal commas."""
    lines = [line for line in lines if line.strip()]
    if separator == "," and lines and any(mark in lines[0] for mark in ";\t|"):
        separator = max(SEPARATORS, key=lambda mark: _separator_score(lines, mark))
    if separator == ",":
        return Dialect()
    cells = [cell.strip() for row in csv.reader(lines[1:], delimiter=separator) for cell in row]
    commas, points = (any(map(_NUMBER[mark].fullmatch, cells)) for mark in ",.")
    commas = commas or any(
        re.fullmatch(_GROUPED[","], cell) and re.search(_SURELY_GROUPED[","], cell)
        for cell in cells
    )
    if points and all(
        re.fullmatch(_GROUPED[","], cell) for cell in cells if _NUMBER["."].fullmatch(cell)
    ):
        points = not any(re.search(_SURELY_GROUPED[","], cell) for cell in cells)
    return Dialect(separator, "," if commas and not points else ".")


def _separator_score(lines: Sequence[str], separator: str) -> tuple[bool, float, int]:
    """Rows as wide as the header, then the share of numbers, then the number of cells."""
    header, *rows = csv.reader(lines, delimiter=separator)
    cells = [cell.strip() for row in rows for cell in row]
    patterns = (_INTEGER, *_NUMBER.values())
    numbers = sum(any(pattern.fullmatch(cell) for pattern in patterns) for cell in cells)
    alike = len(header) > 1 and all(len(row) == len(header) for row in rows)
    return alike, numbers / max(1, len(cells)), len(header)


def preamble(lines: Sequence[str]) -> int:
    """Count the comments, the hint sep=; of a spreadsheet, and blank lines between them.

    The last comment is the header if it looks like one: as many cells as below it, of which some
    are numbers there, and none here.
    """
    count = 0
    for k, line in enumerate(lines):
        if line.startswith(COMMENTS) or re.fullmatch(r"sep=.\s*", line):
            count = k + 1
        elif line.strip():
            break
    if count and lines[count - 1].startswith(COMMENTS) and count < len(lines):
        below = re.split(r"[,;\t|]", lines[count].strip())
        above = re.split(r"[,;\t|]", lines[count - 1].strip())
        words = not any(map(_is_number, above))
        if len(above) == len(below) > 1 and words and any(map(_is_number, below)):
            return count - 1
    return count


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def without_odd_rows(frame: pd.DataFrame) -> tuple[np.ndarray, list[str]]:
    """Find repeated headers, comments between the rows, and a row of units below the header.

    Parameters
    ----------
    frame : DataFrame
        A table as it was read; its columns are named as in the file.

    Returns
    -------
    keep : ndarray
        Mask of the rows that hold data.
    found : list of str
        What was found, for the user.
    """
    import pandas as pd

    keep = np.ones(len(frame), bool)
    found: list[str] = []
    texts = [k for k, kind in enumerate(frame.dtypes) if not pd.api.types.is_numeric_dtype(kind)]
    if not len(frame) or not texts:
        return keep, found
    first = frame.iloc[:, texts[0]].astype(str).str.strip()
    again = (first == str(frame.columns[texts[0]]).strip()).to_numpy(dtype=bool)
    for k in texts[1:] if again.any() else ():
        cells = frame.iloc[:, k].astype(str).str.strip()
        same = (cells == str(frame.columns[k]).strip()) | cells.isin(["", "nan"])
        again = again & same.to_numpy(dtype=bool)
    if again.any() and len(texts) == frame.shape[1]:
        several = "s" if again.sum() > 1 else ""
        found.append(f"{again.sum()} repeated header{several}")
        keep = keep & ~again
    if texts[0] == 0:
        blank = frame.iloc[:, 1:].isna().all(axis=1).to_numpy()
        remark = first.str.startswith(COMMENTS).to_numpy(dtype=bool) & blank
        if frame.shape[1] > 1 and remark.any():
            found.append(f"{int(remark.sum())} comments between rows")
            keep = keep & ~remark
    below = np.flatnonzero(keep)
    if len(below) > 2 and _is_unit_row(frame, int(below[0]), below[1:21], texts):
        found.append("a row of units below the header")
        keep[below[0]] = False
    return keep, found


def _is_unit_row(frame: pd.DataFrame, row: int, others: np.ndarray, texts: list[int]) -> bool:
    """Tell whether a row has no number where all rows below have one, in two columns or more."""
    import pandas as pd

    if len(texts) < frame.shape[1] - int(frame.iloc[row].isna().sum()):
        return False  # a number in this row
    numbers = 0
    for k in texts:
        cells = frame.iloc[others, k].astype(str).str.replace(_COMMA_NUMBER, r"\1.\2", regex=True)
        if pd.to_numeric(cells, errors="coerce").notna().all():
            cell = str(frame.iloc[row, k]).strip()
            if _is_number(cell.replace(",", ".")) and cell.lower() not in ("", "nan"):
                return False
            numbers += cell.lower() not in ("", "nan")
    return numbers >= 2


def as_read(column: pd.Series, decimal: str) -> tuple[pd.Series, bool]:
    """Return text that holds numbers as numbers; and whether thousands were separated in it."""
    import pandas as pd

    texts = column if decimal == "." else column.str.replace(_COMMA_NUMBER, r"\1.\2", regex=True)
    known = texts.dropna().astype(str).str.strip()
    known = known[known != ""]
    if not len(known):
        return texts, False
    if known.str.contains(_SURELY_GROUPED[decimal], regex=True).any():
        raw = column.dropna().astype(str).str.strip()
        if raw[raw != ""].str.fullmatch(_GROUPED[decimal]).all():
            other = "," if decimal == "." else "."
            plain = column.str.strip().str.replace(other, "", regex=False)
            return pd.to_numeric(plain.str.replace(decimal, ".", regex=False)), True
    return texts, False
