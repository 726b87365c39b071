"""The arrays in an npz file: read or mapped one by one, never unpickled, their form checked."""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from pathlib import Path
from typing import IO

import numpy as np

from ..errors import DataError
from .cells import listed
from .packed import refuse_bomb
from .parts import Preparation

#: Of each array, the kinds of its type and its dimensions; None: one number or text.
FORMS: dict[str, tuple[str, tuple[int, ...] | None]] = {
    "values": ("biuf", (2, 3, 4)),
    "offsets": ("iu", (1,)),
    "names": ("USiuf", (1,)),
    "channels": ("USiuf", (0, 1)),
    "time": ("biufMUS", (1, 2)),
    "codes": ("iu", (1,)),
    "regimes": ("USiuf", (1,)),
    "regime": ("USbiuf", (1, 2)),
    "gap": ("iuf", None),
    "groups": ("USiuf", (1,)),
    "default_gap": ("iuf", None),
    "preparation": ("U", None),
}
KEYS = tuple(FORMS)


def read_members(path: Path, mmap: bool) -> dict[str, np.ndarray]:
    """Read the arrays that a Panel has a use for; with mmap, the values are mapped."""
    with zipfile.ZipFile(path) as archive:
        members = {Path(info.filename).stem: info for info in archive.infolist()}
        if "values" not in members:
            fix = f"the arrays are {listed(sorted(members))}"
            raise DataError("there is no array called 'values'", where=path.name, fix=fix)
        known = [key for key in KEYS if key in members]
        found = {k: _member(archive, members[k], path, mmap and k == "values") for k in known}
    for key, array in found.items():
        kinds, dimensions = FORMS[key]
        fits = array.size == 1 if dimensions is None else array.ndim in dimensions
        if array.dtype.kind not in kinds or not fits:
            what = (
                f"the array {key!r} of shape {array.shape} and type {array.dtype} cannot be used"
            )
            fix = "store it as Panel.to_npz does"
            if array.dtype.kind == "c":
                fix = "split complex numbers into two channels"
            raise DataError(what, where=path.name, fix=fix)
    return found


def stored_preparation(text: str) -> Preparation:
    """Restore a preparation from JSON text, or raise ValueError."""
    stored = json.loads(text)
    if not isinstance(stored, dict):
        raise ValueError("the preparation is no JSON object")
    for name, value in stored.items():
        number = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
        if value is not None and not (
            number if name in ("gap", "step", "rate") else isinstance(value, str)
        ):
            raise ValueError(f"the preparation says {name} = {value!r}")
    return Preparation.from_dict(stored)


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path, mmap: bool) -> np.ndarray:
    """Read an array; with mmap, map it where it lies in the archive unless it is compressed."""
    form = np.lib.format
    refuse_bomb(path, info.compress_size, info.file_size)
    with archive.open(info) as member:
        shape, fortran, dtype = _header(member, info.filename)
        header = member.tell()
    if dtype.hasobject:
        what = f"the array {Path(info.filename).stem!r} holds pickled objects, never to be loaded"
        fix = "store numbers as a plain array and names as a unicode array (dtype=str)"
        raise DataError(what, where=path.name, fix=fix)
    size = dtype.itemsize * int(np.prod(shape, dtype=object))
    if header + size > info.file_size or info.compress_size > path.stat().st_size:
        raise ValueError(f"{info.filename} is cut short")
    if not mmap or size == 0 or info.compress_type != zipfile.ZIP_STORED:
        with archive.open(info) as member:
            return form.read_array(member, allow_pickle=False)
    with open(path, "rb") as file:  # the directory's copy of these lengths may differ
        file.seek(info.header_offset + 26)
        start = info.header_offset + 30 + sum(struct.unpack("<HH", file.read(4)))
    flat = np.memmap(path, dtype, mode="r", offset=start + header, shape=size // dtype.itemsize)
    return flat.reshape(shape, order="F" if fortran else "C")


def _header(member: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Read shape, order and type of an array."""
    form = np.lib.format
    try:
        old = form.read_magic(member) == (1, 0)
        read_header = form.read_array_header_1_0 if old else form.read_array_header_2_0
        shape, fortran, dtype = read_header(member)
    except (OSError, EOFError, zlib.error):
        raise
    except Exception as error:  # numpy hands the text to several parsers
        raise ValueError(f"{name} has no valid header") from error
    if not all(type(side) is int and 0 <= side < 1 << 62 for side in shape):
        raise ValueError(f"{name} has the shape {shape}")
    return shape, fortran, dtype
