"""Model files: a zip archive of JSON, safetensors, npz and a card; nothing in it is executed.

`manifest.json` lists every member with its checksum, and the settings; the checksum of the
manifest itself is the comment of the archive.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import platform
import re
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._runtime.process import atomic_path
from ..config import RunConfig
from ..errors import StoreError
from .parts import Preparation
from .regular_file import open_regular_file
from .typed_json import Count, Mismatch, decode, parse_json, usable

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = "mechtrace"
SCHEMA = 4  # `_upgraded` says what changed
#: Former names of what is stored of an axis.
AXIS_NAMES = {"block": "subspace", "cost": "rotation_loss"}
#: What the readers of zip archives and headers raise on damaged ones.
DAMAGED = (
    zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, OSError, LookupError, ValueError,
    TypeError, RuntimeError, OverflowError, struct.error,
)  # fmt: skip
ENCRYPTED = 0x1  # flag of a member
#: The header that numpy writes before a plain array.
NPY_HEADER = re.compile(
    r"\{'descr': '([<>|=][fiubU]\d{1,4})', 'fortran_order': (True|False),"
    r" 'shape': \(((?:\d{1,18}, ?)*(?:\d{1,18})?)\), \} *\n"
)
_EPOCH = (1980, 1, 1, 0, 0, 0)  # a fixed date, so that the same model gives the same bytes


@dataclass(frozen=True, eq=False)
class Archive:
    """The content of a stored file.

    Attributes
    ----------
    kind : {"model", "checkpoint"}
        What is stored.
    meta : dict
        Settings, as JSON.
    tensors : dict
        Groups of named tensors, one safetensors member each.
    arrays : dict
        Named arrays.
    card : str
        Description of the model, as Markdown.
    """

    kind: str
    meta: dict[str, Any]
    tensors: dict[str, dict[str, Tensor]]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    card: str = ""


def write_archive(path: str | Path, archive: Archive) -> None:
    """Write an archive atomically: a crash leaves the old file, never half of a new one."""
    from safetensors.torch import save

    members: dict[str, bytes] = {"card.md": archive.card.encode()}
    for group, tensors in archive.tensors.items():
        packed = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
        members[f"{group}.safetensors"] = save(packed)
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **archive.arrays)
    members["arrays.npz"] = buffer.getvalue()
    manifest = {
        "format": FORMAT,
        "schema": SCHEMA,
        "kind": archive.kind,
        "members": {
            name: {"sha256": _digest(data), "bytes": len(data)} for name, data in members.items()
        },
        "meta": archive.meta,
    }
    text = json.dumps(manifest, indent=1, allow_nan=False).encode()
    with atomic_path(path) as temporary, zipfile.ZipFile(temporary, "w") as out:
        out.comment = _digest(text).encode()
        for name, data in {"manifest.json": text, **members}.items():
            out.writestr(zipfile.ZipInfo(name, _EPOCH), data)


@dataclass(frozen=True)
class _Member:
    """What the manifest says of a member."""

    sha256: str
    bytes: Count


@dataclass(frozen=True)
class _Manifest:
    """The content of `manifest.json`; `meta` is checked by who reads it."""

    format: str
    schema: Count
    kind: str
    members: dict[str, _Member]
    meta: dict[str, Any]


def read_archive(path: str | Path) -> Archive:
    """Read and verify an archive; never more is allocated than a few times the file's size.

    Raises
    ------
    StoreError
        If there is no such file, or it is truncated, altered, foreign or newer.
    """
    path = Path(path)
    with open_regular_file(path, StoreError, "a stored model") as file, usable(str(path)):
        try:
            with zipfile.ZipFile(file) as archive:
                return _read_members(archive, str(path), os.fstat(file.fileno()).st_size)
        except DAMAGED as error:
            what = "is not a mechtrace file, or it is truncated or damaged"
            fix = "save the model again or copy the file again"
            raise StoreError(what, where=str(path), fix=fix) from error


def _read_members(archive: zipfile.ZipFile, where: str, size: int) -> Archive:
    _check_sizes(archive, size)
    text = archive.read("manifest.json")
    try:
        stored = parse_json(text, "manifest.json")
        genuine = stored["format"] == FORMAT
        schema = decode(Count, stored["schema"], "schema")
    except (Mismatch, LookupError, TypeError) as error:
        raise StoreError("is not a mechtrace file", where=where, fix="check the path") from error
    if not genuine:
        raise StoreError("is not a mechtrace file", where=where, fix="check the path")
    if schema > SCHEMA:
        what = f"was written by a newer mechtrace (format {schema}, this version reads {SCHEMA})"
        raise StoreError(what, where=where, fix="upgrade mechtrace")
    if archive.comment.decode("ascii", "replace") != _digest(text):
        raise _altered(where, "manifest.json")
    manifest = decode(_Manifest, stored, "manifest")
    members = manifest.members
    if {*members, "manifest.json"} != set(archive.namelist()):
        raise _altered(where, "its list of members")
    data = {}
    for name, facts in members.items():
        if archive.getinfo(name).file_size != facts.bytes:
            raise _altered(where, name)
        data[name] = archive.read(name)
        if _digest(data[name]) != facts.sha256:
            raise _altered(where, name)
    content = _unpack(manifest.kind, manifest.meta, data)
    try:
        return _upgraded(content, schema)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise Mismatch(f"format {schema} has other fields") from error


def _check_sizes(archive: zipfile.ZipFile, size: int) -> None:
    """Refuse members that are not in the file as they are: compressed, overlapping or repeated."""
    for member in archive.infolist():
        stored = member.compress_type == zipfile.ZIP_STORED and not member.flag_bits & ENCRYPTED
        if not stored or member.file_size != member.compress_size:
            raise Mismatch(f"{member.filename[:40]!r} is compressed")
    names = archive.namelist()
    if len(set(names)) < len(names) or sum(m.file_size for m in archive.infolist()) > size:
        raise Mismatch("its members are larger than the file")


def _unpack(kind: str, meta: dict[str, Any], data: Mapping[str, bytes]) -> Archive:
    suffix = ".safetensors"
    for name in data:
        if name not in ("card.md", "arrays.npz") and not name.endswith(suffix):
            raise Mismatch(f"unknown member {name[:40]!r}")
    return Archive(
        kind=kind,
        meta=meta,
        tensors={
            n.removesuffix(suffix): _read_tensors(n, d)
            for n, d in data.items()
            if n.endswith(suffix)
        },
        arrays=_read_arrays(data["arrays.npz"]),
        card=data["card.md"].decode(),
    )


def _read_tensors(member: str, data: bytes) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:  # sizes are checked against the data before anything is allocated
        return load(data)
    except (SafetensorError, LookupError, ValueError, TypeError, RuntimeError) as error:
        raise Mismatch(f"{member[:40]} holds no tensors") from error


def _read_arrays(data: bytes) -> dict[str, np.ndarray]:
    """Read an npz; headers are compared with the bytes that follow, nothing is evaluated."""
    with zipfile.ZipFile(io.BytesIO(data)) as npz:
        _check_sizes(npz, len(data))
        return {name.removesuffix(".npy"): _array(name, npz.read(name)) for name in npz.namelist()}


def _array(name: str, data: bytes) -> np.ndarray:
    head = 10 if data[6:7] == b"\x01" else 12  # magic, version and the length of the header
    (length,) = struct.unpack("<H" if head == 10 else "<I", data[8:head])
    found = NPY_HEADER.fullmatch(data[head : head + length].decode("ascii"))
    if data[:6] != b"\x93NUMPY" or found is None:
        raise Mismatch(f"array {name[:60]!r} has no header of a plain array")
    descr, fortran, dims = found.groups()
    kind, shape = np.dtype(descr), tuple(int(side) for side in re.findall(r"\d+", dims))
    body = len(data) - head - length
    if not kind.itemsize or math.prod(shape) * kind.itemsize != body:
        raise Mismatch(f"array {name[:60]!r} does not have the size that its header says")
    flat = np.frombuffer(data, kind, offset=head + length).copy()
    return flat.reshape(shape[::-1]).T if fortran == "True" else flat.reshape(shape)


def _upgraded(archive: Archive, schema: int) -> Archive:
    """The content of an older file in the current schema.

    Schema 4 added figures of the sensors, which older files lack: `Trace.describe` says so.
    """
    meta, tensors, arrays = dict(archive.meta), dict(archive.tensors), dict(archive.arrays)
    if schema < 2:  # settings could be missing, and all but rate and detrend of the preparation
        defaults = RunConfig().options() | {"latents": 8, "lags": 2}
        meta["settings"] = defaults | meta.get("settings", {})
        meta["preparation"] = Preparation.from_dict(meta.get("preparation", {})).to_dict()
        meta.setdefault("step", None)
        if "axes" in meta:
            meta["axes"] = {"held_out": False} | meta["axes"]
    if schema < 3:  # names of the frontend, of what a picture shows, of evidence
        renamed = {"eye": "frontend", "visible": "observable_subspace"}
        tensors = {renamed.get(name, name): group for name, group in tensors.items()}
        arrays = {renamed.get(name, name): array for name, array in arrays.items()}
        if "pictures" in meta:
            meta["channels"] = [c.replace("of late", "moving average") for c in meta["channels"]]
        if "axes" in meta:
            axes = meta["axes"]
            meta["axes"] = axes | {"curvature": axes.get("curvature", axes.get("bending"))}
            meta["axes"].pop("bending", None)
            for part in ("axes", "evidence"):
                meta["axes"][part] = [
                    {AXIS_NAMES.get(name, name): value for name, value in one.items()}
                    for one in axes.get(part, ())
                ]
        if "evidence" in meta:
            text = json.dumps(meta["evidence"]).replace('"blocks"', '"selected"')
            for old, new in (("conditional", "prediction"), ("moments", "window_moments")):
                text = re.sub(rf"\b{old}\(", f"{new}(", text)
            meta["evidence"] = json.loads(text)
    if schema < 4 and "preparation" in meta:  # the time zone of dates
        meta["preparation"] = {"zone": None} | meta["preparation"]
    return Archive(archive.kind, meta, tensors, arrays, archive.card)


def _altered(where: str, member: str) -> StoreError:
    what = f"was altered after it was written ({member} does not match its checksum)"
    return StoreError(what, where=where, fix="use an untouched copy")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def versions() -> dict[str, str]:
    """Return the versions of mechtrace, Python, torch and numpy."""
    import torch

    from .. import __version__

    return {
        "mechtrace": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }
