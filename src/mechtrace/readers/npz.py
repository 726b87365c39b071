"""Files of arrays: what Panel.to_npz wrote, or values stacked by series; nothing is unpickled."""

from __future__ import annotations

import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from .arrays import array_parts
from .files import existing_file, unreadable
from .names import listed
from .parts import Parts

KEYS = (
    "values",
    "offsets",
    "names",
    "channels",
    "time",
    "codes",
    "regimes",
    "regime",
    "gap",
    "groups",
)
DEFECTS = (OSError, EOFError, ValueError, LookupError, RuntimeError, MemoryError, struct.error)


def npz_parts(path: Path, mmap: bool, missing: str | None, gap: float | None) -> Parts:
    """Read the layout of Panel.to_npz, or `values` stacked as (N, T, p) or (N, T, H, W)."""
    existing_file(path)
    try:
        arrays = _members(path, mmap)
        stored_gap = arrays.pop("gap", None)
        gap = stored_gap.item() if gap is None and stored_gap is not None else gap
    except DataError:
        raise
    except (*DEFECTS, zlib.error, zipfile.BadZipFile) as error:
        raise unreadable(path, error, "is damaged or not an npz file") from error
    missing = missing or ("gap" if "offsets" in arrays else "error")
    return array_parts(**arrays, missing=missing, gap=gap, source=path.name)


def _members(path: Path, mmap: bool) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        members = {Path(info.filename).stem: info for info in archive.infolist()}
        if "values" not in members:
            fix = f"the arrays are {listed(sorted(members))}"
            raise DataError("there is no array called 'values'", where=path.name, fix=fix)
        known = [key for key in KEYS if key in members]
        return {k: _member(archive, members[k], path, mmap and k == "values") for k in known}


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path, mmap: bool) -> np.ndarray:
    """Read an array; with mmap, map it where it lies in the archive unless it is compressed."""
    form = np.lib.format
    with archive.open(info) as member:
        old = form.read_magic(member) == (1, 0)
        read_header = form.read_array_header_1_0 if old else form.read_array_header_2_0
        shape, fortran, dtype = read_header(member)
        header = member.tell()
    if dtype.hasobject:
        what = f"the array {Path(info.filename).stem!r} holds pickled objects, never to be loaded"
        fix = "store numbers as a plain array and names as a unicode array (dtype=str)"
        raise DataError(what, where=path.name, fix=fix)
    size = dtype.itemsize * int(np.prod(shape, dtype=object))
    if header + size > info.file_size:
        raise ValueError(f"{info.filename} is cut short")
    if not mmap or size == 0 or info.compress_type != zipfile.ZIP_STORED:
        with archive.open(info) as member:
            return form.read_array(member, allow_pickle=False)
    with open(path, "rb") as file:  # the directory's copy of these lengths may differ
        file.seek(info.header_offset + 26)
        start = info.header_offset + 30 + sum(struct.unpack("<HH", file.read(4)))
    flat = np.memmap(path, dtype, mode="r", offset=start + header, shape=size // dtype.itemsize)
    return flat.reshape(shape, order="F" if fortran else "C")
