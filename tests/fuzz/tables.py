"""Mangled tables: `table(seed)` gives the bytes of a file and its suffix, the same every time."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import numpy as np

Random = np.random.Generator

HEADERS = ("series", "time", "regime", "x", "y", "temperature (C)", "", " x", "x ", "index", "NaN")
NUMBERS = (
    "0", "1.5", "-2e3", "", "NA", "nan", "inf", "-inf", "1e400", "1" * 400, "-999999", "1e37",
    "1,5", "1 000", "0x1F", "1_000", "+", "1e", "--1", "True", "1+2j", "١٢", "\x00", "1\x00",
    " 3 ",
)  # fmt: skip
NAMES = ("R0", "R0 ", " R0", "R1", "", " ", "NA", "\u00a0R0", "é", "\ufeffR1", "1", "1.0", "a\nb")
STAMPS = (
    "0", "1", "2.5", "-1", "1e30", "2024-01-01", "2024-01-01T00:00:00Z", "2024-01-01 00:00:01",
    "2024-01-01T00:00:02+02:00", "31.01.2024", "31/12/2024", "2024-13-45", "0001-01-01",
    "9999-12-31", "12:30", "", "NaT", "now", "9" * 30, "2024-01-01T25:00",
)  # fmt: skip
SEPARATORS = (",", ";", "\t", "|", ", ", " ")
ENDINGS = ("\n", "\r\n", "\r")
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252")


def table(seed: int) -> tuple[bytes, str]:
    """Return the bytes of a mangled CSV file, and its suffix."""
    random = np.random.default_rng([seed, 41])
    header, rows = _cells(random)
    for mangle in MANGLES:
        if random.random() < 0.1:
            mangle(random, header, rows)
    separator = _pick(random, SEPARATORS) if random.random() < 0.4 else ","
    quoted = random.random() < 0.2
    lines = [separator.join(_quoted(cell, quoted) for cell in row) for row in (header, *rows)]
    ending = _pick(random, ENDINGS) if random.random() < 0.3 else "\n"
    text = ending.join(lines) + (ending if random.random() < 0.8 else "")
    encoding = _pick(random, ENCODINGS) if random.random() < 0.2 else "utf-8"
    data = bytearray(text.encode(encoding, "replace"))
    if random.random() < 0.15:  # damaged on the way
        for place in random.integers(0, max(1, len(data)), 3):
            data[place : place + 1] = bytes([int(random.integers(256))])
    suffix = str(_pick(random, (".csv", ".csv", ".csv", ".tsv")))
    if random.random() < 0.1:
        packed = gzip.compress(bytes(data), mtime=0)
        keep = len(packed) if random.random() < 0.5 else int(random.integers(1, len(packed)))
        return packed[:keep], suffix + ".gz"
    return bytes(data), suffix


def _cells(random: Random) -> tuple[list[str], list[list[str]]]:
    """Draw a table that can be read, mostly."""
    channels = int(random.integers(1, 4))
    header = ["series", "time", "regime", *[f"x{k}" for k in range(channels)]]
    rows = []
    for name in ("a", "b", "c")[: int(random.integers(1, 4))]:
        for step in range(int(random.integers(1, 7))):
            values = [f"{v:.4g}" for v in random.standard_normal(channels)]
            rows.append([name, str(step), "R0" if name == "a" else "R1", *values])
    keep = [k for k in range(len(header)) if k > 2 or random.random() < 0.8]
    return [header[k] for k in keep], [[row[k] for k in keep] for row in rows]


def _one_cell(choices: tuple[str, ...]) -> Callable[[Random, list[str], list[list[str]]], None]:
    def mangle(random: Random, header: list[str], rows: list[list[str]]) -> None:
        for _ in range(int(random.integers(1, 4))):
            row = rows[int(random.integers(len(rows)))]
            if row:
                row[int(random.integers(len(row)))] = str(_pick(random, choices))

    return mangle


def _whole_column(
    choices: tuple[str, ...],
) -> Callable[[Random, list[str], list[list[str]]], None]:
    def mangle(random: Random, header: list[str], rows: list[list[str]]) -> None:
        column = int(random.integers(len(header)))
        for row in rows:
            if column < len(row):
                row[column] = str(_pick(random, choices))

    return mangle


def _header(random: Random, header: list[str], rows: list[list[str]]) -> None:
    header[int(random.integers(len(header)))] = str(_pick(random, HEADERS))


def _repeated_header(random: Random, header: list[str], rows: list[list[str]]) -> None:
    rows.insert(int(random.integers(len(rows) + 1)), list(header))


def _ragged(random: Random, header: list[str], rows: list[list[str]]) -> None:
    row = rows[int(random.integers(len(rows)))]
    row += ["7"] * int(random.integers(1, 3)) if random.random() < 0.5 else []
    del row[int(random.integers(1, len(row) + 1)) :]


def _quote(random: Random, header: list[str], rows: list[list[str]]) -> None:
    row = rows[int(random.integers(len(rows)))]
    place = int(random.integers(len(row)))
    row[place] = str(_pick(random, ('"' + row[place], row[place] + '"', '""', '"a""b"', '"\n"')))


def _no_rows(random: Random, header: list[str], rows: list[list[str]]) -> None:
    if random.random() < 0.2:
        rows.clear()
    else:
        rows.insert(0, [""] * int(random.integers(3)))


def _shuffled(random: Random, header: list[str], rows: list[list[str]]) -> None:
    order = random.permutation(len(rows))
    rows[:] = [rows[k] for k in order]


def _twice(random: Random, header: list[str], rows: list[list[str]]) -> None:
    rows.append(list(rows[int(random.integers(len(rows)))]))


MANGLES = (
    _one_cell(NUMBERS), _one_cell(NAMES), _one_cell(STAMPS), _whole_column(NUMBERS),
    _whole_column(NAMES), _whole_column(STAMPS), _header, _repeated_header, _ragged, _quote,
    _shuffled, _twice, _no_rows,
)  # fmt: skip


def _quoted(cell: str, always: bool) -> str:
    return f'"{cell}"' if always else cell


def _pick(random: Random, choices: tuple[str, ...]) -> str:
    return choices[int(random.integers(len(choices)))]
