"""Pictures that are read or made on demand, and never all at once."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..errors import ConfigError, DataError, MissingDependency
from .cells import natural_key
from .discover import IMAGES, VIDEOS, check_file, has_type, image_files

if TYPE_CHECKING:
    import torch
    from torch import Tensor

#: Largest array in bytes that `np.asarray` makes of frames.
MAX_BYTES = 1 << 31
#: Cells that are processed at a time.
CHUNK_CELLS = 1 << 22
Size = tuple[int, int]


class DeviceFrames(Protocol):
    """Frames for use on a device."""

    def take(self, index: Tensor, out: Tensor | None = None) -> Tensor:
        """Return the frames of these rows on the device, in `out` where it is given."""


class Frames(ABC):
    """A lazy array of pictures, (rows, height, width), as `Panel.values`.

    Indexing by a number, a slice, numbers or a mask reads these rows into an array; `subset` gives
    the same rows without reading them. A subclass implements `_read(rows)`.

    Parameters
    ----------
    shape : sequence of int
        Rows, height and width.

    Examples
    --------
    >>> film = ArrayFrames(np.arange(12, dtype=np.uint8).reshape(3, 2, 2))
    >>> film.shape, film[-1].tolist(), film.subset(slice(1, 3))[[0]].tolist()
    ((3, 2, 2), [[8, 9], [10, 11]], [[[4, 5], [6, 7]]])
    """

    ndim = 3
    dtype = np.dtype(np.uint8)
    #: whether reading a row costs more than keeping it on a GPU
    cache_on_gpu = True

    def __init__(self, shape: Sequence[int]) -> None:
        rows, height, width = shape
        self.shape = (int(rows), int(height), int(width))

    @abstractmethod
    def _read(self, rows: np.ndarray) -> np.ndarray:
        """Read the frames (n, height, width) of rows (n,)."""

    @property
    def size(self) -> int:
        """Number of pixels of all frames."""
        return self.shape[0] * self.shape[1] * self.shape[2]

    @property
    def nbytes(self) -> int:
        """Number of bytes of all frames."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> np.ndarray:
        if isinstance(key, int | np.integer):
            return self._read(index_rows([key], len(self)))[0]
        return self._read(index_rows(key, len(self)))

    def take(
        self, indices: Any, axis: int = 0, out: Any = None, mode: str = "raise"
    ) -> np.ndarray:
        """Read the frames of these rows; called by `np.take`."""
        if axis != 0 or out is not None or mode != "raise":
            fix = "turn some of them into an array first"
            raise DataError("frames are taken by rows", fix=fix)
        return self[np.asarray(indices)]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if self.nbytes > MAX_BYTES:
            what = f"{len(self):,} frames would take {self.nbytes / 1e9:.1f} GB of memory"
            raise DataError(what, fix="take some rows at a time, as frames[:1000]")
        return np.asarray(self[:], dtype)

    def subset(self, rows: Any) -> Frames:
        """Return these rows as frames, without reading them."""
        return FrameSubset(self, index_rows(rows, len(self)))

    def on(self, device: torch.device) -> DeviceFrames:
        """Return the frames for use on a device, to which rows are copied."""
        return _CopiedFrames(self, device)

    def hash_bytes(self) -> Iterator[bytes]:
        """Yield what a hash of the frames is computed from: by default all pixels."""
        for rows in row_chunks(self):
            yield np.ascontiguousarray(self[rows]).tobytes()


class ArrayFrames(Frames):
    """Frames in an array, usually one that is mapped from a file."""

    def __init__(self, array: np.ndarray) -> None:
        super().__init__(array.shape)
        self.array, self.dtype = array, array.dtype

    def _read(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(np.take(self.array, rows, axis=0))


class FrameSubset(Frames):
    """Some rows of other frames, not yet read."""

    def __init__(self, frames: Frames, rows: np.ndarray) -> None:
        super().__init__((len(rows), *frames.shape[1:]))
        self.frames, self.rows, self.dtype = frames, rows, frames.dtype

    def _read(self, rows: np.ndarray) -> np.ndarray:
        return self.frames[self.rows[rows]]

    def subset(self, rows: Any) -> Frames:
        """Return rows of the original frames, not a view of a view."""
        return FrameSubset(self.frames, self.rows[index_rows(rows, len(self))])


class ConcatenatedFrames(Frames):
    """Frames and arrays of frames, one after the other."""

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

    def hash_bytes(self) -> Iterator[bytes]:
        """Yield the bytes of all parts."""
        for part in self.parts:
            yield from (part if isinstance(part, Frames) else ArrayFrames(part)).hash_bytes()


class _CopiedFrames:
    """Frames that are read here and copied to a device."""

    def __init__(self, frames: Frames, device: torch.device) -> None:
        self.frames, self.device = frames, device

    def take(self, index: Tensor, out: Tensor | None = None) -> Tensor:
        """Read the frames of these rows in pieces."""
        import torch

        rows = index.cpu().numpy()
        if out is None:
            kind = torch.from_numpy(np.empty(0, self.frames.dtype)).dtype
            out = torch.empty((len(rows), *self.frames.shape[1:]), dtype=kind, device=self.device)
        for some in row_chunks(self.frames, len(rows)):
            out[some] = torch.from_numpy(self.frames[rows[some]]).to(self.device)
        return out


def row_chunks(values: np.ndarray | Frames, rows: int | None = None) -> Iterator[slice]:
    """Return slices that cut all rows, or a number of them, into chunks of bounded size."""
    step = max(1, CHUNK_CELLS // max(1, int(np.prod(values.shape[1:]))))
    total = len(values) if rows is None else rows
    return (slice(start, start + step) for start in range(0, total, step))


def index_rows(key: Any, count: int, what: str = "frames", where: str | None = None) -> np.ndarray:
    """Return the numbers (n,) that a slice, a mask of all rows, or numbers choose of `count`."""
    if isinstance(key, slice):
        return np.arange(count)[key]
    rows = np.asarray(key)
    if rows.dtype.kind == "b" and rows.shape == (count,):
        return np.flatnonzero(rows)
    if rows.size == 0:
        return np.zeros(0, dtype=np.int64)
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        problem = f"{what} cannot be chosen by {rows.dtype} of shape {rows.shape}"
        raise DataError(problem, where=where, fix=f"use numbers, a slice or a mask of all {count}")
    if rows.min() < -count or rows.max() >= count:
        raise IndexError(f"{what} {rows.min()} to {rows.max()} of {count}")
    return rows.astype(np.int64) % count


def take_rows(values: Any, rows: Any) -> Any:
    """Take rows of an array or of frames; frames, also in a mapped file, are not read."""
    if isinstance(values, np.memmap) and values.ndim == 3 and not isinstance(rows, slice):
        values = ArrayFrames(values)
    return values.subset(rows) if isinstance(values, Frames) else values[rows]


def concatenate_rows(parts: Sequence[Any]) -> Any:
    """Concatenate the rows of all parts; frames, also in mapped files, are not read."""
    if len(parts) == 1:
        return parts[0]
    if any(isinstance(part, Frames | np.memmap) and part.ndim == 3 for part in parts):
        return ConcatenatedFrames(parts)
    return np.concatenate(parts)


def read_recording(path: Path, size: Size | None = None) -> Frames | np.ndarray:
    """Open one recording: images stay in their files, a video is decoded into a mapped file."""
    if path.is_dir():
        return ImageFiles.of(path, size)
    check_file(path)
    if not has_type(path, VIDEOS):
        fix = f"name a folder of images or a video ({', '.join(VIDEOS)})"
        raise DataError("this is no recording of pictures", where=str(path), fix=fix)
    return _decoded(path, size)


class ImageFiles(Frames):
    """Images of one size, read from their files on demand.

    Parameters
    ----------
    files : sequence of Path
        One per row.
    size : (int, int)
        Height and width; images of another size are resized if `resize`, else refused.
    """

    def __init__(self, files: Sequence[Path], size: Size, resize: bool) -> None:
        super().__init__((len(files), *size))
        self.files, self.resize = list(files), resize

    @classmethod
    def of(cls, folder: Path, size: Size | None = None) -> ImageFiles:
        """List the images of a folder in natural order; `size` (height, width) resizes them."""
        inside = image_files(folder)
        if not inside:
            fix = f"put images there ({', '.join(IMAGES)}), or name another folder"
            raise DataError("the folder holds no images", where=str(folder), fix=fix)
        files = sorted(inside, key=lambda path: natural_key(path.name))
        return cls(files, size or _image(files[0]).shape, size is not None)

    def subset(self, rows: Any) -> ImageFiles:
        """Return the images of some rows."""
        files = [self.files[row] for row in index_rows(rows, len(self))]
        return ImageFiles(files, (self.shape[1], self.shape[2]), self.resize)

    def hash_bytes(self) -> Iterator[bytes]:
        """Yield the size and the content of all files."""
        yield repr(self.shape).encode()
        yield from (path.read_bytes() for path in self.files)

    def _read(self, rows: np.ndarray) -> np.ndarray:
        out = np.empty((len(rows), *self.shape[1:]), np.uint8)
        for place, row in enumerate(rows):
            image = _image(self.files[row])
            if self.resize:
                image = _resized(image, (self.shape[1], self.shape[2]))
            if image.shape != self.shape[1:]:
                raise other_size(self.files[row], image.shape, self.shape[1:])
            out[place] = image
        return out


def parse_size(text: str) -> Size:
    """Parse height and width from text such as 48x64, or 64 for both.

    >>> parse_size("48x64"), parse_size("64")
    ((48, 64), (64, 64))
    """
    sides = text.lower().split("x")
    if len(sides) > 2 or not all(side.isdecimal() and int(side) for side in sides):
        fix = "write HEIGHTxWIDTH, as 48x64"
        raise ConfigError(f"{text!r} is no size of a picture", fix=fix)
    return int(sides[0]), int(sides[-1])


def import_cv2() -> Any:
    """Import OpenCV.

    Raises
    ------
    MissingDependency
        With the install line, where it is missing.
    """
    try:
        import cv2
    except ImportError as error:
        fix = 'pip install "mechtrace[pictures]"'
        raise MissingDependency("images and videos need opencv", fix=fix) from error
    return cv2


def _image(path: Path) -> np.ndarray:
    """Read a grey image (height, width)."""
    cv2 = import_cv2()
    try:
        coded = np.fromfile(path, np.uint8)  # not cv2.imread: it knows no odd names on Windows
        image = cv2.imdecode(coded, cv2.IMREAD_GRAYSCALE) if len(coded) else None
    except (OSError, cv2.error):
        image = None
    if image is None:
        fix = "write it again, or remove it"
        raise DataError("this image cannot be read", where=str(path), fix=fix)
    return image


def _resized(image: np.ndarray, size: Size) -> np.ndarray:
    """Resize an image, by averages of pixels where it shrinks."""
    if image.shape == tuple(size):
        return image
    cv2 = import_cv2()
    shrinks = image.shape[0] > size[0] or image.shape[1] > size[1]
    how = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    return cv2.resize(image, (size[1], size[0]), interpolation=how)


def _decoded(path: Path, size: Size | None) -> np.ndarray:
    """Decode a video into a temporary file, as training needs random access to its frames."""
    cv2 = import_cv2()
    video = cv2.VideoCapture(str(path))
    shape: Any = size
    count = 0
    with tempfile.TemporaryFile(prefix="mechtrace-") as file:
        while True:
            more, image = video.read()
            if not more:
                break
            grey = image if image.ndim == 2 else cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)
            grey = grey if size is None else _resized(grey, size)
            shape = grey.shape if shape is None else shape
            file.write(np.ascontiguousarray(grey).data)
            count += 1
        video.release()
        if not count:
            fix = "check that it plays, and write it again as .mp4 or .avi"
            raise DataError("no frame of this video can be read", where=str(path), fix=fix)
        file.flush()
        return np.memmap(file, np.uint8, mode="r", shape=(count, *shape))


def other_size(path: Path, found: Sequence[int], expected: Sequence[int]) -> DataError:
    """Say that pictures differ in size from those before."""
    sizes = [f"{height} x {width}" for height, width in (found, expected)]
    what = f"pictures have {sizes[0]} pixels, but those before have {sizes[1]}"
    return DataError(what, where=str(path), fix="give size=(height, width) to resize all")
