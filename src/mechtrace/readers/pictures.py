"""Recordings of pictures: folders of images and video files, or frames that exist already."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ConfigError, DataError, MissingDependency
from ..frames import Frames, join_rows
from .arrays import array_parts
from .files import existing_file
from .names import listed, natural_key
from .parts import Parts

IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff")
VIDEOS = (".mp4", ".avi", ".mov", ".mkv", ".webm", ".m4v")
Size = tuple[int, int]


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
    """Read recordings by name or from a folder; or take frames as they are, cut by lengths."""
    films: list[Any]
    if isinstance(recordings, Frames):
        films, where = [recordings], source or "frames"
        lengths = [len(recordings)] if lengths is None else lengths
        names = [str(k) for k in range(len(lengths))] if names is None else names
    else:
        paths, where = _named(recordings)
        where = source or where
        films = [read_film(path, size) for path in paths.values()]
        lengths, names = [len(film) for film in films], list(paths) if names is None else names
        for path, film in zip(paths.values(), films, strict=True):
            if film.shape[1:] != films[0].shape[1:]:
                raise _other_size(path, film.shape[1:], films[0].shape[1:])
        if regime == "folder":
            regime = [path.resolve().parent.name for path in paths.values()]
    lengths = np.asarray(lengths)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    if regime is not None:
        regime = np.repeat(_labels(regime, list(names), where), lengths)
    return array_parts(
        join_rows(films), offsets=offsets, regime=regime, names=names, gap=gap, source=where
    )


def find_recordings(sources: Iterable[Path]) -> list[Path]:
    """Video files, and folders that hold images, at and below these places; in natural order."""
    found: dict[Path, None] = {}
    for source in sources:
        if not source.is_dir():
            found |= {source: None} if _is(source, VIDEOS) else {}
            continue
        visible = [
            path
            for path in source.rglob("*")
            if not any(part.startswith(".") for part in path.relative_to(source).parts)
        ]
        inside = {path for path in visible if _is(path, VIDEOS)}
        inside |= {path.parent for path in visible if _is(path, IMAGES)}
        found |= dict.fromkeys(sorted(inside, key=lambda path: natural_key(str(path))))
    return list(found)


def read_film(path: Path, size: Size | None = None) -> Frames | np.ndarray:
    """One recording: images stay in their files, a video is decoded into a mapped file."""
    if path.is_dir():
        return ImageFiles.of(path, size)
    existing_file(path)
    if not _is(path, VIDEOS):
        fix = f"name a folder of images or a video ({', '.join(VIDEOS)})"
        raise DataError("this is no recording of pictures", where=str(path), fix=fix)
    return _decoded(path, size)


class ImageFiles(Frames):
    """Images of one size, read from their files whenever they are asked for."""

    def __init__(self, files: Sequence[Path], size: Size, resize: bool) -> None:
        super().__init__((len(files), *size))
        self.files, self.resize = list(files), resize

    @classmethod
    def of(cls, folder: Path, size: Size | None = None) -> ImageFiles:
        """The images of a folder in natural order; `size` (height, width) resizes them."""
        inside = [path for path in folder.iterdir() if _is(path, IMAGES)]
        if not inside:
            fix = f"put images there ({', '.join(IMAGES)}), or name another folder"
            raise DataError("the folder holds no images", where=str(folder), fix=fix)
        files = sorted(inside, key=lambda path: natural_key(path.name))
        return cls(files, size or _image(files[0]).shape, size is not None)

    def pick(self, rows: Any) -> ImageFiles:
        """The images of some rows."""
        files = [self.files[row] for row in self._rows(rows)]
        return ImageFiles(files, (self.shape[1], self.shape[2]), self.resize)

    def identity(self) -> Iterator[bytes]:
        """The files as they are, and the size that they are read in."""
        yield repr(self.shape).encode()
        yield from (path.read_bytes() for path in self.files)

    def _read(self, rows: np.ndarray) -> np.ndarray:
        out = np.empty((len(rows), *self.shape[1:]), np.uint8)
        for place, row in enumerate(rows):
            image = _image(self.files[row])
            if self.resize:
                image = _resized(image, (self.shape[1], self.shape[2]))
            if image.shape != self.shape[1:]:
                raise _other_size(self.files[row], image.shape, self.shape[1:])
            out[place] = image
        return out


def _named(source: Any) -> tuple[dict[str, Path], str]:
    """Recordings by name, and what the whole is called."""
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
    return names_of(found, root if root.is_dir() else root.parent), root.name


def names_of(paths: Sequence[Path], root: Path | None = None) -> dict[str, Path]:
    """The shortest names that tell recordings apart: the last part, or the path below `root`."""
    short = [path.stem if _is(path, VIDEOS) else path.resolve().name for path in paths]
    if len(set(short)) < len(short):
        below = [path.relative_to(root) if root else path for path in paths]
        short = [path.as_posix() for path in below]
    return dict(zip(short, paths, strict=True))


def parse_size(text: str) -> Size:
    """Height and width from text such as 48x64, or 64 for both.

    >>> parse_size("48x64"), parse_size("64")
    ((48, 64), (64, 64))
    """
    sides = text.lower().split("x")
    if len(sides) > 2 or not all(side.isdecimal() and int(side) for side in sides):
        fix = "write HEIGHTxWIDTH, as 48x64"
        raise ConfigError(f"{text!r} is no size of a picture", fix=fix)
    return int(sides[0]), int(sides[-1])


def _labels(regime: Any, names: Sequence[str], where: str) -> np.ndarray:
    """One regime for each recording, as objects so that a missing one stays missing."""
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


def _is(path: Path, kinds: tuple[str, ...]) -> bool:
    return path.suffix.lower() in kinds


def import_cv2() -> Any:
    """OpenCV, or a sentence on how to get it."""
    try:
        import cv2
    except ImportError as error:
        fix = 'pip install "mechtrace[pictures]"'
        raise MissingDependency("images and videos need opencv", fix=fix) from error
    return cv2


def _image(path: Path) -> np.ndarray:
    """A grey image (height, width); colours become their brightness."""
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
    """The image in another size; where it shrinks, pixels are averaged."""
    if image.shape == tuple(size):
        return image
    cv2 = import_cv2()
    shrinks = image.shape[0] > size[0] or image.shape[1] > size[1]
    how = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    return cv2.resize(image, (size[1], size[0]), interpolation=how)


def _decoded(path: Path, size: Size | None) -> np.ndarray:
    """All frames of a video, decoded once into a file that vanishes with the last use of it.

    A video can only be read from its beginning, and training jumps about in it.
    """
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


def _other_size(path: Path, found: Sequence[int], expected: Sequence[int]) -> DataError:
    sizes = [f"{height} x {width}" for height, width in (found, expected)]
    what = f"pictures have {sizes[0]} pixels, but those before have {sizes[1]}"
    return DataError(what, where=str(path), fix="give size=(height, width) to resize all")
