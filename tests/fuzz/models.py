"""Hostile model files: damaged, resealed after damage, forged field by field, and bombs.

Everything is drawn from a seed, so a file that finds a defect can be made again. `exercise` does
with a file what the commands do; only a `MechtraceError` may come out of it.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import struct
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save

import mechtrace as mt
from mechtrace.errors import MechtraceError

NESTED: Any = []
for _ in range(400):
    NESTED = [NESTED]
#: Replacements of a JSON value; `DELETED` takes it out.
DELETED = object()
NASTY_JSON = [
    None, "", -1, 0, 1, 0.5, 1e308, -1e308, 5e-324, float("nan"), float("inf"), 10**400, 2**63,
    10**7, True, [], {}, [[]], [0] * 10_000, NESTED, {"": NESTED}, "\ud800", "x" * 10_000, "a\nb",
    ["a", "a"], {"a": {}}, DELETED,
]  # fmt: skip
#: Changes of a tensor or array, as functions of a float64 array.
NASTY_ARRAYS: dict[str, Callable[[np.ndarray], np.ndarray | None]] = {
    "absent": lambda a: None,
    "zeros": np.zeros_like,
    "negative": lambda a: -np.abs(a) - 1,
    "nan": lambda a: np.full_like(a, np.nan),
    "one nan": lambda a: _with_one(a, np.nan),
    "infinite": lambda a: _with_one(a, np.inf),
    "huge": lambda a: np.full_like(a, 3e38),
    "tiny": lambda a: np.full_like(a, 1e-300),
    "noise": lambda a: np.random.default_rng(0).normal(size=a.shape),
    "one more axis": lambda a: a[None],
    "one row less": lambda a: a.reshape(-1)[1:],
    "doubled": lambda a: np.concatenate([a.reshape(-1)] * 2),
    "empty": lambda a: np.empty(0),
    "no rows": lambda a: np.empty((0, *a.shape[1:])),
}
NASTY_DTYPES = ("f2", "f4", "i8", "u1", "b1", "U3", "O", "c16", "M8[s]")


def _with_one(array: np.ndarray, value: float) -> np.ndarray:
    out = np.array(array)
    out.reshape(-1)[-1:] = value
    return out


# -- files ----------------------------------------------------------------------------------------


def members(data: bytes) -> dict[str, bytes]:
    """Content of a model file by name of its member."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {name: file.read(name) for name in file.namelist()}


def sealed(content: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """Write a model file whose checksums are right, whatever it holds."""
    manifest = json.loads(content["manifest.json"])
    listed = {
        name: {"sha256": hashlib.sha256(each).hexdigest(), "bytes": len(each)}
        for name, each in content.items()
        if name != "manifest.json"
    }
    text = json.dumps(manifest | {"members": listed}).encode()
    return zipped({**content, "manifest.json": text}, compression)


def zipped(content: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """Write a model file with the right checksum of its manifest."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as file:
        file.comment = hashlib.sha256(content["manifest.json"]).hexdigest().encode()
        for name, each in content.items():
            file.writestr(zipfile.ZipInfo(name), each, compression)
    return out.getvalue()


def mutated(data: bytes, seed: int) -> bytes:
    """Flip, cut, repeat or swap bytes anywhere."""
    rng = np.random.default_rng([seed, 1])
    out = bytearray(data)
    if not out:
        return b""
    a, b = sorted(rng.integers(0, len(out), 2).tolist())
    match rng.integers(6):
        case 0:
            return bytes(out[:a])
        case 1:
            return bytes(out[:a] + out[b:])
        case 2:
            return bytes(out[:b] + out[a:])
        case 3:
            return bytes(out[b:] + out[a:b] + out[:a])
    # half of the flips hit the end, where the directory of a zip archive lies
    first = max(0, len(out) - 700) if rng.random() < 0.5 else 0
    for place in rng.integers(first, len(out), rng.integers(1, 9)):
        out[place] ^= int(rng.integers(1, 256))
    return bytes(out)


def resealed(data: bytes, seed: int) -> bytes:
    """Damage what a member holds, then write the checksums anew."""
    rng = np.random.default_rng([seed, 2])
    content = members(data)
    name = str(rng.choice(sorted(content)))
    if name == "manifest.json":
        manifest = json.loads(content[name])
        meta = mutated(json.dumps(manifest["meta"]).encode(), seed)
        try:
            manifest["meta"] = json.loads(meta)
        except ValueError:  # no longer JSON: sealed as it is
            return zipped({**content, name: content[name][:9] + meta})
        content[name] = json.dumps(manifest).encode()
    elif name == "arrays.npz" and rng.random() < 0.8:
        arrays = members(content[name])
        inner = str(rng.choice(sorted(arrays)))
        content[name] = _npz({**arrays, inner: mutated(arrays[inner], seed)})
    else:
        content[name] = mutated(content[name], seed)
    return sealed(content)


def swapped(data: bytes, seed: int) -> bytes:
    """Exchange the content of two members, without and with new checksums."""
    rng = np.random.default_rng([seed, 3])
    content = members(data)
    a, b = rng.choice(sorted(content.keys() - {"manifest.json"}), 2, replace=False).tolist()
    content[a], content[b] = content[b], content[a]
    return sealed(content) if seed % 2 else zipped(content)


def _npz(arrays: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, each in arrays.items():
            file.writestr(name, each)
    return out.getvalue()


# -- forgeries ------------------------------------------------------------------------------------


def forgeries(data: bytes, seed: int, each: int = 1) -> Iterator[tuple[str, bytes]]:
    """Walk every JSON field, tensor and array; replace each by `each` nasty things, resealed."""
    rng, content = np.random.default_rng([seed, 4]), members(data)
    manifest = json.loads(content["manifest.json"])
    for path in _paths({k: v for k, v in manifest.items() if k != "members"}):
        for number in rng.choice(len(NASTY_JSON), each, replace=False):
            forged = copy.deepcopy(manifest)
            _replace(forged, path, NASTY_JSON[number])
            text = json.dumps(forged).encode()
            label = f"{'.'.join(map(str, path))} = {str(NASTY_JSON[number])[:30]}"
            yield label, sealed({**content, "manifest.json": text})
    for member in sorted(content):
        if member.endswith(".safetensors"):
            tensors = load(content[member])
            for name in sorted(tensors):
                for label, forged in _forged_arrays(tensors[name].numpy(), rng, each):
                    packed = save(_tensors(tensors, name, forged))
                    yield f"{member} {name}: {label}", sealed({**content, member: packed})
    with np.load(io.BytesIO(content["arrays.npz"])) as npz:
        arrays = {name: npz[name] for name in npz.files}
    raw = members(content["arrays.npz"])
    for name in arrays:
        for label, forged in _forged_arrays(arrays[name], rng, each):
            packed = _npz(_arrays(raw, name, forged))
            yield f"{name}: {label}", sealed({**content, "arrays.npz": packed})


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to everything inside, containers too; of a long list its ends."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _paths(each, (*path, key))
    elif isinstance(value, list) and value:
        for number in {0, len(value) - 1}:
            yield from _paths(value[number], (*path, number))


def _replace(whole: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        whole = whole[key]
    if value is DELETED:
        del whole[path[-1]]
    else:
        whole[path[-1]] = value


def _forged_arrays(
    array: np.ndarray, rng: np.random.Generator, each: int
) -> Iterator[tuple[str, np.ndarray | None]]:
    names = [*NASTY_ARRAYS, *NASTY_DTYPES]
    for number in rng.choice(len(names), each, replace=False):
        name = names[number]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            if name in NASTY_ARRAYS:
                forged = NASTY_ARRAYS[name](np.asarray(array, float))
                yield name, forged if forged is None else forged.astype(array.dtype)
            elif name == "M8[s]":
                yield name, np.zeros(array.shape, name)
            else:
                yield name, array.astype(name)


def _tensors(tensors: dict[str, Any], name: str, forged: np.ndarray | None) -> dict[str, Any]:
    out = {key: value for key, value in tensors.items() if key != name}
    if forged is None:
        return out
    if forged.dtype.kind in "OUMc":  # safetensors knows no such types: an unknown name instead
        return out | {f"{name}2": tensors[name]}
    return out | {name: torch.from_numpy(np.ascontiguousarray(forged))}


def _arrays(raw: dict[str, bytes], name: str, forged: np.ndarray | None) -> dict[str, bytes]:
    out = {key: value for key, value in raw.items() if key != f"{name}.npy"}
    if forged is None:
        return out
    buffer = io.BytesIO()
    np.save(buffer, forged, allow_pickle=True)
    return out | {f"{name}.npy": buffer.getvalue()}


# -- bombs ----------------------------------------------------------------------------------------


def bombs(data: bytes, size: int = 400_000_000) -> Iterator[tuple[str, bytes]]:
    """Small files that claim or unpack to about `size` bytes, or take for ever."""
    content = members(data)
    manifest = json.loads(content["manifest.json"])
    zeros = bytes(size)
    deflated = zipfile.ZIP_DEFLATED
    yield "compressed card", sealed({**content, "card.md": zeros}, deflated)
    del zeros
    padded = content["manifest.json"] + b" " * (size // 4)
    yield "compressed manifest", zipped({**content, "manifest.json": padded}, deflated)
    del padded
    yield "compressed arrays", sealed({**content, "arrays.npz": _zip_of_zeros(size)})
    head = _npy_header(f"({size // 8000}, 1000)")
    yield "header of an array", sealed({**content, "arrays.npz": _npz({"axes/matrix.npy": head})})
    header = json.dumps(
        {"centre": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}
    ).encode()
    claim = struct.pack("<Q", len(header)) + header
    yield "header of tensors", sealed({**content, "weights.safetensors": claim})
    claim = struct.pack("<Q", size) + b"{}"
    yield "length of a header of tensors", sealed({**content, "weights.safetensors": claim})
    deep = content["manifest.json"].replace(b'"meta": {', b'"meta": {"a": ' + b"[" * 100_000)
    yield "nested manifest", zipped({**content, "manifest.json": deep})
    for name, value in (
        ("lags", 10**7), ("layers", 10**8), ("expert_layers", 10**8), ("hidden", 10**6),
        ("latents", 10**5), ("context", 10**7),
    ):  # fmt: skip
        for experts in ("affine", "nonparametric", "spline", "maf"):
            forged = copy.deepcopy(manifest)
            forged["meta"]["settings"] |= {name: value, "experts": experts}
            text = json.dumps(forged).encode()
            yield f"{name} of {experts}", sealed({**content, "manifest.json": text})
    for shape in ([10**9], [10**5, 10**5]):
        forged = copy.deepcopy(manifest)
        forged["meta"]["shape"] = shape
        yield f"shape {shape}", sealed({**content, "manifest.json": json.dumps(forged).encode()})
    forged["meta"] |= {"pictures": {"size": [10**5, 10**5], "unexplained": 0.1}, "shape": [6]}
    text = json.dumps(forged).encode()
    yield "size of pictures", sealed({**content, "manifest.json": text})


def _npy_header(shape: str) -> bytes:
    head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head


def _zip_of_zeros(size: int) -> bytes:
    out = io.BytesIO()
    head = _npy_header(f"({size // 8},)")
    with (
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file,
        file.open("a.npy", "w") as member,
    ):
        member.write(head)
        for _ in range(size // 10**6):
            member.write(bytes(10**6))
    return out.getvalue()


# -- use ------------------------------------------------------------------------------------------


def exercise(path: Path, panel: mt.Panel, report: Path | None = None) -> str:
    """Do what the commands do; return how far it came, the sentence of a `MechtraceError`."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            trace = mt.load(path)
            json.dumps(trace.facts_, allow_nan=False)
            trace.card_.encode()
            str(trace.axes_.to_frame()) + "".join(trace.axes_.sentences())
            trace.encode(panel)
            paths = trace.recover(panel)
            for one in paths if isinstance(paths, list) else [paths]:
                str(trace.diagnose(one))
            trace.mechanisms(panel)
            stream = trace.stream()
            for row in panel.to_arrays()[0][:8]:
                str(stream.update(row))
            if report is not None:
                from mechtrace.viz.report import report as write

                write(trace, paths, report, panel=panel)
        except MechtraceError as error:
            sentence = str(error)
            assert "\n" not in sentence, sentence
            return sentence
    return "works"
