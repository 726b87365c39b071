"""Pictures that are read or made when they are asked for, and never all at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from .errors import DataError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

#: More bytes than this are not put into memory by accident.
MOST_BYTES = 1 << 31


class OnDevice(Protocol):
    """Frames as a training loop asks for them."""

    def take(self, index: Tensor, out: Tensor | None = None) -> Tensor:
        """The frames of these rows on the device, written to `out` where it is given."""


class Frames(ABC):
    """What stands in for an array (rows, height, width) in a Panel.

    Indexing by a number, a slice, numbers or a mask gives an array of these rows; `pick` gives
    the same rows without reading them.

    >>> film = Stored(np.arange(12, dtype=np.uint8).reshape(3, 2, 2))
    >>> film.shape, film[-1].tolist(), film.pick(slice(1, 3))[[0]].tolist()
    ((3, 2, 2), [[8, 9], [10, 11]], [[[4, 5], [6, 7]]])
    """

    ndim = 3
    dtype = np.dtype(np.uint8)
    #: reading a row costs more than copying one: worth keeping on a GPU where it fits
    costly = True

    def __init__(self, shape: Sequence[int]) -> None:
        rows, height, width = shape
        self.shape = (int(rows), int(height), int(width))

    @abstractmethod
    def _read(self, rows: np.ndarray) -> np.ndarray:
        """The frames (n, height, width) of rows (n,), which exist."""

    @property
    def size(self) -> int:
        """Pixels of all frames."""
        return self.shape[0] * self.shape[1] * self.shape[2]

    @property
    def nbytes(self) -> int:
        """Bytes that all frames would take."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> np.ndarray:
        if isinstance(key, int | np.integer):
            return self._read(self._rows([key]))[0]
        return self._read(self._rows(key))

    def take(
        self, indices: Any, axis: int = 0, out: Any = None, mode: str = "raise"
    ) -> np.ndarray:
        """The frames of these rows; `np.take` comes here."""
        if axis != 0 or out is not None or mode != "raise":
            raise DataError(
                "frames are taken by rows", fix="turn some of them into an array first"
            )
        return self[np.asarray(indices)]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if self.nbytes > MOST_BYTES:
            raise DataError(
                f"{len(self):,} frames would take {self.nbytes / 1e9:.1f} GB of memory",
                fix="take some rows at a time, as frames[:1000]",
            )
        return np.asarray(self[:], dtype)

    def pick(self, rows: Any) -> Frames:
        """These rows as frames of their own, not yet read."""
        return Picked(self, self._rows(rows))

    def on(self, device: torch.device) -> OnDevice:
        """The same frames for use on a device; rows are read here and copied there."""
        return _Copied(self, device)

    def identity(self) -> Iterator[bytes]:
        """What tells these frames from others, piece by piece: by default all of them."""
        for rows in row_chunks(self):
            yield np.ascontiguousarray(self[rows]).tobytes()

    def _rows(self, key: Any) -> np.ndarray:
        if isinstance(key, slice):
            return np.arange(len(self))[key]
        rows = np.asarray(key)
        if rows.dtype.kind == "b" and rows.shape == (len(self),):
            return np.flatnonzero(rows)
        if rows.size == 0:
            return np.zeros(0, dtype=np.int64)
        if rows.ndim != 1 or rows.dtype.kind not in "iu":
            what = f"frames cannot be chosen by {rows.dtype} of shape {rows.shape}"
            raise DataError(what, fix="use row numbers, a slice or a mask of all rows")
        if rows.min() < -len(self) or rows.max() >= len(self):
            raise IndexError(f"row {rows.min()} to {rows.max()} of {len(self)} frames")
        return rows.astype(np.int64) % len(self)


class Stored(Frames):
    """Frames in an array, best one that is mapped from a file."""

    def __init__(self, array: np.ndarray) -> None:
        super().__init__(array.shape)
        self.array, self.dtype = array, array.dtype

    def _read(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(np.take(self.array, rows, axis=0))


class Picked(Frames):
    """Some rows of other frames."""

    def __init__(self, frames: Frames, rows: np.ndarray) -> None:
        super().__init__((len(rows), *frames.shape[1:]))
        self.frames, self.rows, self.dtype = frames, rows, frames.dtype

    def _read(self, rows: np.ndarray) -> np.ndarray:
        return self.frames[self.rows[rows]]

    def pick(self, rows: Any) -> Frames:
        """Rows of the first frames again: views of views would slow every reading."""
        return Picked(self.frames, self.rows[self._rows(rows)])


class Joined(Frames):
    """Frames and arrays of frames, one below the other."""

    def __init__(self, parts: Sequence[Frames | np.ndarray]) -> None:
        self.parts = list(parts)
        self.starts = np.cumsum([0, *(len(part) for part in parts)])
        super().__init__((int(self.starts[-1]), *parts[0].shape[1:]))
        self.dtype = parts[0].dtype
        for part in parts:
            if part.shape[1:] != parts[0].shape[1:] or part.dtype != self.dtype:
                kinds = [
                    f"{' x '.join(map(str, p.shape[1:]))} {p.dtype}" for p in (part, parts[0])
                ]
                raise DataError(f"frames of {kinds[0]} cannot follow frames of {kinds[1]}")

    def _read(self, rows: np.ndarray) -> np.ndarray:
        out = np.empty((len(rows), *self.shape[1:]), self.dtype)
        owner = np.searchsorted(self.starts, rows, side="right") - 1
        for part in np.unique(owner):
            mine = owner == part
            out[mine] = self.parts[part][rows[mine] - self.starts[part]]
        return out

    def identity(self) -> Iterator[bytes]:
        """What its parts are."""
        for part in self.parts:
            yield from (part if isinstance(part, Frames) else Stored(part)).identity()


class _Copied:
    """Frames that are read in this process and copied to a device."""

    def __init__(self, frames: Frames, device: torch.device) -> None:
        self.frames, self.device = frames, device

    def take(self, index: Tensor, out: Tensor | None = None) -> Tensor:
        """The frames of these rows, read in pieces."""
        import torch

        rows = index.cpu().numpy()
        if out is None:
            kind = torch.from_numpy(np.empty(0, self.frames.dtype)).dtype
            out = torch.empty((len(rows), *self.frames.shape[1:]), dtype=kind, device=self.device)
        for some in row_chunks(self.frames, len(rows)):
            out[some] = torch.from_numpy(self.frames[rows[some]]).to(self.device)
        return out


#: Cells worked on at a time.
CHUNK_CELLS = 1 << 22


def row_chunks(values: np.ndarray | Frames, rows: int | None = None) -> Iterator[slice]:
    """Slices of rows (of all, unless a number is given) small enough to hold one at a time."""
    step = max(1, CHUNK_CELLS // max(1, int(np.prod(values.shape[1:]))))
    total = len(values) if rows is None else rows
    return (slice(start, start + step) for start in range(0, total, step))


def pick_rows(values: Any, rows: Any) -> Any:
    """Rows of values; frames, also those in a mapped file, are not read for that."""
    if isinstance(values, np.memmap) and values.ndim == 3 and not isinstance(rows, slice):
        values = Stored(values)
    return values.pick(rows) if isinstance(values, Frames) else values[rows]


def join_rows(parts: Sequence[Any]) -> Any:
    """Rows of all parts below each other; frames, also those in mapped files, are not read."""
    if len(parts) == 1:
        return parts[0]
    if any(isinstance(part, Frames | np.memmap) and part.ndim == 3 for part in parts):
        return Joined(parts)
    return np.concatenate(parts)
