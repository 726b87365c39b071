"""Guess which columns of a table hold time, series and regime, and say so."""

from __future__ import annotations

import csv
import zlib
from collections.abc import Sequence
from pathlib import Path

from .series import Panel

#: Names people give these columns, in order of preference.
USUAL_NAMES = {
    "time": ("time", "t", "timestamp", "datetime", "date", "seconds", "frame"),
    "series": ("series", "run", "trial", "recording", "sequence", "subject", "id", "unit"),
    "regime": ("regime", "mode", "label", "state", "condition", "phase", "class"),
}


def guess_columns(names: Sequence[str], given: dict[str, str | None]) -> dict[str, str | None]:
    """Fill the roles that were not given from the usual names.

    >>> guess_columns(["T", "run", "x1"], {"time": None, "series": None, "regime": None})
    {'time': 'T', 'series': 'run', 'regime': None}
    """
    taken = {name for name in given.values() if name is not None}
    lower = {name.lower(): name for name in reversed(names) if name not in taken}
    roles: dict[str, str | None] = {}
    for role, usual in USUAL_NAMES.items():
        found = next((lower[name] for name in usual if name in lower), None)
        roles[role] = given.get(role) or found
    return roles


def read_panel(
    path: Path,
    missing: str | None = None,
    channels: Sequence[str] | None = None,
    **given: str | None,
) -> tuple[Panel, str]:
    """A Panel from a file, and a line that says how its columns were read.

    With `channels` only these columns are read, and a regime column is not looked for.
    """
    if path.suffix.lower() == ".npz":
        panel = Panel.read(path, missing=missing, **given)  # type: ignore[arg-type]
        return panel, f"{path.name}: {panel!r}"
    roles = guess_columns(column_names(path), given)
    if channels is not None:
        roles["regime"] = None
    panel = Panel.read(path, missing=missing, channels=channels, **roles)  # type: ignore[arg-type]
    said = ", ".join(
        f"{role} = {name}{'' if given.get(role) else ' (guessed)'}" if name else f"no {role}"
        for role, name in roles.items()
    )
    return panel, f"{path.name}: {said}; {len(panel.channels)} channels, {panel.rows:,} rows"


def column_names(path: Path) -> list[str]:
    """The header of a table; empty where the file cannot be read (the reader then says why)."""
    if path.suffix.lower() in (".parquet", ".pq"):
        try:
            from pyarrow.parquet import read_schema

            return list(read_schema(path).names)
        except (ImportError, OSError, ValueError):
            return []
    from .readers.files import open_text, separator

    try:
        with open_text(path) as text:
            records = csv.reader(text, delimiter=separator(path))
            return next((record for record in records if "".join(record).strip()), [])
    except (OSError, EOFError, UnicodeDecodeError, csv.Error, zlib.error):
        return []
