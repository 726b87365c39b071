"""Frames, files and arrays become the parts of a Panel; every defect is named by its place."""

from __future__ import annotations

from pathlib import Path

from ..errors import DataError
from .arrays import array_parts
from .files import csv_parts, existing_file, parquet_parts
from .npz import npz_parts
from .parts import Parts, Roles
from .pictures import picture_parts
from .table import frame_parts

__all__ = [
    "array_parts",
    "csv_parts",
    "frame_parts",
    "npz_parts",
    "parquet_parts",
    "picture_parts",
]


def file_parts(path: Path, roles: Roles) -> Parts:
    """Read a file by its suffix."""
    name = path.name.lower()
    if name.endswith((".csv", ".csv.gz", ".tsv", ".tsv.gz")):
        return csv_parts(path, roles)
    if name.endswith((".parquet", ".pq")):
        return parquet_parts(path, roles)
    existing_file(path)
    if not name.endswith(".npz"):
        fix = "known types are .csv, .csv.gz, .tsv, .parquet, .pq, .npz"
        raise DataError(f"the file type {path.suffix!r} is not known", where=path.name, fix=fix)
    columns = ("time", "series", "regime", "group", "channels")
    if any(roles.get(role) is not None for role in columns):
        fix = f"leave out {', '.join(columns)}"
        raise DataError("an npz file has no columns to choose from", where=path.name, fix=fix)
    return npz_parts(path, True, roles.get("missing"), roles.get("gap"))
