"""Arrays, recordings of pictures and npz files -> Parts; Panels as npz files."""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from .._runtime.process import atomic_path
from ..errors import DataError
from .cells import Locator, encode_regimes, first, listed, parse_stamps, shown
from .discover import IMAGES, check_file, find_recordings, recording_names, resolved, unreadable
from .frames import Frames, Size, concatenate_rows, other_size, read_recording, row_chunks
from .npz import read_members, stored_preparation
from .parts import Parts, Preparation, finish

if TYPE_CHECKING:
    from ..data.panel import Panel

DEFECTS = (OSError, EOFError, ValueError, LookupError, RuntimeError, MemoryError, struct.error)


def array_parts(
    values: Any,
    *,
    offsets: np.ndarray | None = None,
    time: Any = None,
    regime: Any = None,
    codes: np.ndarray | None = None,
    regimes: Iterable[str] = (),
    names: Any = None,
    groups: Any = None,
    channels: Any = None,
    images: bool = False,
    missing: str | None = None,
    gap: float | None = None,
    source: str = "arrays",
) -> Parts:
    """Read one array per series; with offsets, arrays with one entry per row of all series."""
    if offsets is None:
        values, offsets = _stacked(values, images, source)
        lengths = np.diff(offsets)
    else:  # time and regime as if it were one long series
        values = real_array(values, source)
        lengths = np.array(values.shape[:1])
        time, regime = None if time is None else [time], None if regime is None else [regime]
    if np.size(offsets) == 1:
        raise DataError("there are no series", where=source)
    if names is None:
        names = np.arange(np.size(offsets) - 1).astype(str)
    regimes = tuple(str(name) for name in regimes)
    if regime is not None:
        codes, regimes = _regimes(regime, lengths, source)
    locator = _locator(source, offsets, values.shape[1:])
    stamps: tuple[np.ndarray | None, str | None] = (None, None)
    if time is not None:
        stamps = parse_stamps(_times(time, lengths, source), "time", locator)
    parts = Parts(
        values=values,
        offsets=offsets,
        names=names,
        time=stamps[0],
        codes=codes,
        regimes=regimes,
        channels=channels,
        gap=gap,
        source=source,
        groups=groups,
        preparation=Preparation(zone=stamps[1]),
    )
    return finish(parts, missing, locator)


def _locator(source: str, offsets: np.ndarray, shape: tuple[int, ...]) -> Locator:
    def row_name(row: int) -> str:
        series = int(np.searchsorted(offsets, row, side="right")) - 1
        return f"series {series}, row {row - int(offsets[series])}"

    def column_name(column: int | str) -> str:
        if isinstance(column, str) or len(shape) == 1:
            return column if isinstance(column, str) else f"channel {column}"
        return f"pixel {divmod(column, shape[1])}"

    return Locator(source, row_name, column_name, column_first=False)


def real_array(values: Any, source: str) -> np.ndarray:
    """Return the array itself if it is real and native, so that mapped data stays mapped."""
    if isinstance(values, Frames):
        return values  # type: ignore[return-value]  # they behave like an array
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(np.float64), np.nan)
    array = values if isinstance(values, np.memmap) else np.asarray(values)
    if array.dtype.kind == "b":
        return array.view(np.uint8)
    if array.dtype.kind not in "iuf":
        fix = "split complex numbers into two channels" if array.dtype.kind == "c" else None
        raise DataError(f"the values are not numbers but {array.dtype}", where=source, fix=fix)
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        return array.astype(np.float64)  # nothing reads long doubles
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _stacked(values: Any, images: bool, source: str) -> tuple[np.ndarray, np.ndarray]:
    """Stack all rows, and return the offsets of the series."""
    if isinstance(values, Frames):
        return values, np.array([0, len(values)])  # type: ignore[return-value]
    if hasattr(values, "__array__"):
        array = real_array(values, source)
        if images and array.ndim == 3:  # one recording of pictures
            array = array[None]
        if array.ndim not in ((4,) if images else (3, 4)) or 0 in array.shape:
            what = f"an array of shape {array.shape} cannot be read as series"
            fix = "give (series, rows, channels) or (series, rows, height, width), or a list"
            raise DataError(what, where=source, fix=fix)
        return array.reshape(-1, *array.shape[2:]), np.arange(len(array) + 1) * array.shape[1]
    arrays = [real_array(one, f"{source}, series {k}") for k, one in enumerate(values)]
    for k, one in enumerate(arrays):
        if one.ndim not in ((3,) if images else (2, 3)):
            fix = "each must be (rows, channels), or (rows, height, width) for grey images"
            raise DataError(f"series {k} has shape {one.shape}", where=source, fix=fix)
        if one.shape[1:] != arrays[0].shape[1:]:
            found, expected = (" x ".join(map(str, a.shape[1:])) for a in (one, arrays[0]))
            what = f"series {k} has {found} channels, but series 0 has {expected} channels"
            raise DataError(what, where=source)
    rows = concatenate_rows(arrays) if arrays else np.zeros((0, 1))
    return rows, np.cumsum([0, *(len(one) for one in arrays)])


def _regimes(regime: Any, lengths: np.ndarray, source: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Code the label of each row, from one name or one list of names per series."""
    one = isinstance(regime, str) or getattr(regime, "ndim", 1) == 0
    if one or len(regime) != len(lengths):
        given = f"the name {shown(regime)} was" if one else f"{len(regime)} regimes were"
        fix = "give one name per series, or one list of names per series"
        raise DataError(f"{given} given for {len(lengths)} series", where=source, fix=fix)
    if _is_nested(regime):
        return encode_regimes(_per_row(regime, lengths, "regime", source), "regime", source)
    # As objects, because numpy would turn a missing name next to text into the text 'nan'.
    codes, regimes = encode_regimes(np.array(regime, dtype=object), "regime", source)
    return np.repeat(codes, lengths), regimes


def _times(time: Any, lengths: np.ndarray, source: str) -> np.ndarray:
    """Return one stamp per row, from stamps shared by all series or given for each."""
    if _is_nested(time):
        if len(time) != len(lengths):
            what = f"times of {len(time)} series were given for {len(lengths)} series"
            raise DataError(what, where=source)
        return _per_row(time, lengths, "time", source)
    wrong = lengths != len(time)
    if wrong.any():
        what = f"{len(time)} times were given for the {lengths[first(wrong)]} rows of a series"
        raise DataError(what, where=source, fix="give one list of times per series")
    return np.tile(np.asarray(time), len(lengths))


def _is_nested(data: Any) -> bool:
    return any(np.ndim(item) for item in data)


def _per_row(data: Any, lengths: np.ndarray, what: str, source: str) -> np.ndarray:
    """Return one entry per row, from one list or one entry per series."""
    if isinstance(data, np.ndarray) and data.ndim == 2 and (lengths == data.shape[1]).all():
        return data.reshape(-1)
    pieces = []
    for k, (item, length) in enumerate(zip(data, lengths.tolist(), strict=True)):
        entries = item if np.ndim(item) else [item] * length
        pieces.append(np.asarray(entries, dtype=object if what == "regime" else None))
        if pieces[k].shape != (length,):
            what = f"{what!r} of series {k} has {pieces[k].size} entries for {length} rows"
            raise DataError(what, where=source)
    try:
        return np.concatenate(pieces)
    except TypeError as error:
        raise DataError(f"{what} mixes numbers and dates", where=source) from error


def picture_parts(
    recordings: Any,
    *,
    regime: Any = None,
    names: Sequence[str] | None = None,
    size: Size | None = None,
    lengths: Sequence[int] | np.ndarray | None = None,
    gap: float | None = None,
    source: str | None = None,
) -> Parts:
    """Read recordings by name or from a folder; or cut frames into recordings by lengths."""
    stacks: list[Any]
    if isinstance(recordings, Frames):
        stacks, where = [recordings], source or "frames"
        lengths = [len(recordings)] if lengths is None else lengths
        names = [str(k) for k in range(len(lengths))] if names is None else names
    else:
        paths, where = _named(recordings)
        where = source or where
        stacks = [read_recording(path, size) for path in paths.values()]
        lengths, names = [len(stack) for stack in stacks], list(paths) if names is None else names
        for path, stack in zip(paths.values(), stacks, strict=True):
            if stack.shape[1:] != stacks[0].shape[1:]:
                raise other_size(path, stack.shape[1:], stacks[0].shape[1:])
        if regime == "folder":
            regime = [resolved(path).parent.name for path in paths.values()]
    lengths = np.asarray(lengths)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    if regime is not None:
        regime = np.repeat(_labels(regime, list(names), where), lengths)
    values = concatenate_rows(stacks)
    return array_parts(values, offsets=offsets, regime=regime, names=names, gap=gap, source=where)


def _named(source: Any) -> tuple[dict[str, Path], str]:
    """Return recordings by name, and the name of the whole."""
    if isinstance(source, Mapping):
        if not source:
            raise DataError("there are no recordings", fix="name at least one folder or video")
        paths = {str(name): Path(path) for name, path in source.items()}
        for path in paths.values():
            _existing(path)
        return paths, f"{len(paths)} recordings of pictures"
    root = Path(source)
    _existing(root)
    found = find_recordings([root])
    if not found:
        fix = f"put folders of images ({', '.join(IMAGES)}) or videos there"
        raise DataError("there are no pictures", where=str(root), fix=fix)
    return recording_names(found, root if root.is_dir() else root.parent), root.name


def _labels(regime: Any, names: Sequence[str], where: str) -> np.ndarray:
    """Return one regime for each recording, as objects so that None stays None."""
    if isinstance(regime, Mapping):
        unknown = [name for name in regime if str(name) not in set(map(str, names))]
        if unknown:
            fix = f"the recordings are {listed(list(names), 8)}"
            raise DataError(f"there is no recording {unknown[0]!r}", where=where, fix=fix)
        regime = [regime.get(name) for name in names]
    if isinstance(regime, str) or len(regime) != len(names):
        given = f"the regime {regime!r} was" if isinstance(regime, str) else "regimes were"
        count = "" if isinstance(regime, str) else f"{len(regime)} "
        fix = 'give one name for each recording, or regime="folder"'
        what = f"{count}{given} given for {len(names)} recordings"
        raise DataError(what, where=where, fix=fix)
    return np.array([*regime, None], dtype=object)[:-1]


def _existing(path: Path) -> None:
    if not path.exists():
        fix = "check the path"
        raise DataError("there is no such folder or file", where=str(path), fix=fix)


def npz_parts(path: Path, mmap: bool, missing: str | None, gap: float | None) -> Parts:
    """Read the layout of Panel.to_npz, or `values` stacked as (N, T, p) or (N, T, H, W)."""
    check_file(path)
    try:
        arrays: dict[str, Any] = read_members(path, mmap)
        single = [key for key in ("gap", "default_gap", "preparation") if key in arrays]
        stored = {key: arrays.pop(key).item() for key in single}
        preparation = stored_preparation(stored.get("preparation", "{}"))
    except DataError:
        raise
    except (*DEFECTS, zlib.error, zipfile.BadZipFile) as error:
        raise unreadable(path, error, "is damaged or not an npz file") from error
    missing = missing or ("gap" if "offsets" in arrays else "error")
    gap = stored.get("gap") if gap is None else gap
    parts = array_parts(**arrays, missing=missing, gap=gap, source=path.name)
    parts |= Parts(default_gap=stored.get("default_gap"), preparation=preparation)  # type: ignore[typeddict-item]
    return parts


def to_npz(panel: Panel, path: Path) -> None:
    """Write an uncompressed npz, whose values can be mapped without loading them."""
    arrays: dict[str, np.ndarray | Frames | None] = {
        "values": panel.values,
        "offsets": panel.offsets,
        "names": panel.names,
        "channels": np.array(panel.channels, dtype=np.str_),
        "time": panel.time,
        "codes": panel.codes,
        "regimes": np.array(panel.regimes, dtype=np.str_) if panel.labelled else None,
        "gap": None if panel.gap is None else np.array(panel.gap),
        "groups": panel.groups,
        "default_gap": None if panel.default_gap is None else np.array(panel.default_gap),
    }
    if panel.preparation != Preparation():
        arrays["preparation"] = np.array(json.dumps(panel.preparation.to_dict()))
    with atomic_path(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, array in arrays.items():
            if array is None:
                continue
            info = zipfile.ZipInfo(f"{name}.npy")  # undated: the same panel, the same bytes
            if name == "values":
                # An empty extra field rounds the zip header up to 64 bytes, to align the map.
                info.extra = struct.pack("<HH", 0xD935, 0)
            with archive.open(info, "w", force_zip64=True) as member:
                if isinstance(array, Frames):
                    _write_frames(member, array)
                else:
                    np.lib.format.write_array(member, array, allow_pickle=False)


def _write_frames(member: IO[bytes], frames: Frames) -> None:
    """Write frames piece by piece, as they may exceed memory."""
    form = {"descr": frames.dtype.str, "fortran_order": False, "shape": frames.shape}
    np.lib.format.write_array_header_1_0(member, form)
    for rows in row_chunks(frames):
        member.write(np.ascontiguousarray(frames[rows]).tobytes())
