"""Model files: a zip archive of JSON, safetensors, npz and a card; nothing in it is executed.

`manifest.json` lists every member with its checksum, and the settings; the checksum of the
manifest itself is the comment of the archive.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
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

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = "mechtrace"
SCHEMA = 3  # `_upgraded` says what changed
#: Former names of what is stored of an axis.
AXIS_NAMES = {"block": "subspace", "cost": "rotation_loss"}
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


def read_archive(path: str | Path) -> Archive:
    """Read and verify an archive.

    Raises
    ------
    StoreError
        If there is no such file, or it is truncated, altered, foreign or newer.
    """
    path = Path(path)
    if not path.exists():
        raise StoreError("there is no such file", where=str(path), fix="check the path")
    if path.is_dir():
        raise StoreError("is a folder, not a stored model", where=str(path), fix="name the file")
    try:
        with zipfile.ZipFile(path) as archive:
            return _read_members(archive, str(path))
    except (zipfile.BadZipFile, EOFError, OSError, KeyError, NotImplementedError) as error:
        what = "is not a mechtrace file, or it is truncated or damaged"
        fix = "save the model again or copy the file again"
        raise StoreError(what, where=str(path), fix=fix) from error


def _read_members(archive: zipfile.ZipFile, where: str) -> Archive:
    text = archive.read("manifest.json")
    try:
        manifest = json.loads(text)
        genuine = manifest["format"] == FORMAT
        schema = int(manifest["schema"])
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError("is not a mechtrace file", where=where, fix="check the path") from error
    if not genuine:
        raise StoreError("is not a mechtrace file", where=where, fix="check the path")
    if schema > SCHEMA:
        what = f"was written by a newer mechtrace (format {schema}, this version reads {SCHEMA})"
        raise StoreError(what, where=where, fix="upgrade mechtrace")
    if archive.comment.decode("ascii", "replace") != _digest(text):
        raise _altered(where, "manifest.json")
    members = manifest["members"]
    if {*members, "manifest.json"} != set(archive.namelist()):
        raise _altered(where, "its list of members")
    data = {}
    for name, facts in members.items():
        if archive.getinfo(name).file_size != facts["bytes"]:
            raise _altered(where, name)
        data[name] = archive.read(name)
        if _digest(data[name]) != facts["sha256"]:
            raise _altered(where, name)
    return _upgraded(_unpack(manifest["kind"], manifest["meta"], data), schema)


def _unpack(kind: str, meta: dict[str, Any], data: Mapping[str, bytes]) -> Archive:
    from safetensors.torch import load

    suffix = ".safetensors"
    with np.load(io.BytesIO(data["arrays.npz"]), allow_pickle=False) as arrays:
        return Archive(
            kind=kind,
            meta=meta,
            tensors={
                n.removesuffix(suffix): load(d) for n, d in data.items() if n.endswith(suffix)
            },
            arrays={name: arrays[name] for name in arrays.files},
            card=data["card.md"].decode(),
        )


def _upgraded(archive: Archive, schema: int) -> Archive:
    """The content of an older file in the current schema."""
    meta, tensors, arrays = dict(archive.meta), dict(archive.tensors), dict(archive.arrays)
    if schema < 2:  # settings could be missing, and all but rate and detrend of the preparation
        defaults = RunConfig().options()
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
            for old, new in (("conditional(", "prediction("), ("moments(", "window_moments(")):
                text = text.replace(old, new)
            meta["evidence"] = json.loads(text)
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
