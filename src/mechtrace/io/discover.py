"""Which files the user means: paths, folders and patterns become lists of files."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from ..errors import DataError
from .cells import natural_key

#: Files with columns, by suffix.
TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".pq", ".xlsx")
DATA_TYPES = (*TABLES, ".npz")
ARCHIVES = (".zip",)
IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff")
VIDEOS = (".mp4", ".avi", ".mov", ".mkv", ".webm", ".m4v")


class Inputs(NamedTuple):
    """Either data files, or recordings of pictures (videos and folders of images)."""

    files: list[Path]
    recordings: list[Path]


def find_inputs(sources: Iterable[Path]) -> Inputs:
    """Find what the sources mean: files, everything in a folder, everything a pattern matches.

    Images in a folder that also holds data files are taken for illustrations.
    """
    places = [place for source in sources for place in _matching_recordings(source)]
    recordings = find_recordings(place for place in places if not _holds_data(place))
    if not recordings:
        files = find_files(places)
        for file in files:
            check_name(file)
        return Inputs(files, [])
    for place in places:
        if _holds_data(place) or not find_recordings([place]):
            what = "this holds no pictures, but other inputs do"
            raise DataError(what, where=str(place), fix="read tables and pictures apart")
    for recording in recordings:
        check_name(recording)
    return Inputs([], recordings)


def find_files(sources: Iterable[Path]) -> list[Path]:
    """List the data files at the sources; patterns are expanded for shells that do not."""
    found: dict[Path, None] = {}
    for source in sources:
        if source.is_dir():
            inside = [path for path in _visible(source) if _is_data(path)]
            if not inside:
                kinds = ", ".join((*DATA_TYPES, *ARCHIVES))
                fix = f"put files of type {kinds} there, or folders of images"
                raise DataError("the folder holds no data", where=str(source), fix=fix)
            found |= dict.fromkeys(sorted(inside, key=_order))
        elif _is_pattern(source):
            matches = _matches(source)
            if not matches:
                fix = "check the folder and the pattern"
                raise DataError("no file matches this pattern", where=str(source), fix=fix)
            found |= dict.fromkeys(find_files(matches))
        else:
            found[source] = None  # reading it reports what is wrong with it
    return list(found)


def find_recordings(sources: Iterable[Path]) -> list[Path]:
    """List video files and folders of images at and below the sources, in natural order."""
    found: dict[Path, None] = {}
    for source in sources:
        if not source.is_dir():
            found |= {source: None} if has_type(source, VIDEOS) else {}
            continue
        visible = _visible(source)
        inside = {path for path in visible if has_type(path, VIDEOS)}
        inside |= {path.parent for path in visible if has_type(path, IMAGES)}
        found |= dict.fromkeys(sorted(inside, key=_order))
    return list(found)


def files_read(sources: Iterable[Path]) -> list[Path]:
    """List every file that reading the sources opens, be it data, a model or a picture."""
    sources = list(sources)
    folders_and_patterns = [path for path in sources if path.is_dir() or _is_pattern(path)]
    found = find_inputs(folders_and_patterns)
    pictures = [
        path for folder in found.recordings if folder.is_dir() for path in image_files(folder)
    ]
    named = [path for path in sources if path not in folders_and_patterns]
    return [*named, *found.files, *found.recordings, *pictures]


def image_files(folder: Path) -> list[Path]:
    """List the images in a folder."""
    return [path for path in folder.iterdir() if has_type(path, IMAGES)]


def resolved(path: Path) -> Path:
    """Follow links; unlike in `Path.resolve`, a loop of them is found by who opens the file."""
    return Path(os.path.realpath(path))


def has_type(path: Path, kinds: tuple[str, ...]) -> bool:
    """Tell whether the name of a file ends in one of these suffixes, in any case."""
    return path.name.lower().endswith(kinds)


def check_name(path: Path) -> None:
    """Refuse a file or folder whose name is no text: it names recordings and regimes."""
    try:
        "/".join(resolved(path).parts[-2:]).encode()
    except UnicodeEncodeError as error:
        fix = "rename the file, or its folder"
        raise DataError("the name is not UTF-8", where=str(path), fix=fix) from error


def check_file(path: Path) -> None:
    """Refuse what cannot be a data file: a name that is no text, nothing, a folder, no bytes."""
    check_name(path)
    if path.is_dir():
        raise DataError("this is a folder, not a file", where=str(path), fix="name one file in it")
    if not path.exists():
        raise DataError("there is no such file", where=str(path), fix="check the path")
    if path.stat().st_size == 0:
        fix = "give a file with a header and rows below it"
        raise DataError("the file is empty (0 bytes)", where=path.name, fix=fix)


def unreadable(path: Path, error: BaseException, what: str = "cannot be read") -> DataError:
    """Quote what a library reports about a broken file, on one line."""
    report = " ".join(str(error).split()) or type(error).__name__
    fix = "write it again, or check that it is what its name says"
    return DataError(f"{what}: {report.rstrip('.')}", where=path.name, fix=fix)


def unknown_type(path: Path) -> DataError:
    """Refuse a file whose suffix is not known."""
    fix = "known types are .csv, .csv.gz, .tsv, .xlsx, .parquet, .pq, .npz, .zip"
    return DataError(f"the file type {path.suffix!r} is not known", where=path.name, fix=fix)


def file_stem(path: Path) -> str:
    """Return the name of a file without its suffixes."""
    lower = path.name.lower()
    known = next((end for end in DATA_TYPES if lower.endswith(end)), path.suffix)
    return path.name[: len(path.name) - len(known)] or path.name


def file_labels(files: Sequence[Path]) -> list[str]:
    """Return the shortest names that tell the files apart: stem, folder and stem, or path."""
    stems = [file_stem(path) for path in files]
    folders = [
        f"{resolved(path).parent.name}/{stem}" for path, stem in zip(files, stems, strict=True)
    ]
    unique = (names for names in (stems, folders) if len(set(names)) == len(names))
    return next(unique, [str(path) for path in files])


def hive_columns(path: Path) -> dict[str, str]:
    """Return the columns that the folders of a file name, as in mode=walk/run=3/part-0.parquet.

    >>> hive_columns(Path("data/mode=walk/run=3/part-0.parquet"))
    {'mode': 'walk', 'run': '3'}
    """
    found = {}
    for folder in path.parent.parts:
        name, equals, value = folder.partition("=")
        if equals and name and value:
            found[name] = value
    return found


def words_of_names(stems: Sequence[str]) -> list[str]:
    """Return the words that tell kinds of files apart: without numbers, and what all share.

    The list is empty unless there are two files of a kind on average, and all have a kind.

    >>> words_of_names(["rig worn 1", "rig worn 2", "rig normal 1", "rig normal 2"])
    ['worn', 'worn', 'normal', 'normal']
    >>> words_of_names(["pump-1 worn", "pump-2 normal"])
    []
    """
    names = [[w for w in re.split(r"[\W\d_]+", stem) if w] for stem in stems]
    shared = set(names[0]).intersection(*names) if names else set()
    kinds = ["_".join(word for word in words if word not in shared) for words in names]
    few = 1 < len(set(kinds)) <= len(kinds) / 2
    return kinds if few and all(kinds) else []


def recording_names(paths: Sequence[Path], root: Path | None = None) -> dict[str, Path]:
    """Name recordings of pictures by their last part, or by their path below `root`."""
    names = [path.stem if has_type(path, VIDEOS) else resolved(path).name for path in paths]
    if len(set(names)) < len(names):
        names = [(path.relative_to(root) if root else path).as_posix() for path in paths]
    return dict(zip(names, paths, strict=True))


def _matching_recordings(source: Path) -> list[Path]:
    """Videos and folders of images that a pattern matches; otherwise the source itself."""
    matches = _matches(source) if _is_pattern(source) else []
    return [path for path in matches if find_recordings([path])] or [source]


def _is_pattern(source: Path) -> bool:
    return not source.exists() and glob.has_magic(str(source))


def _matches(pattern: Path) -> list[Path]:
    return sorted(map(Path, glob.glob(str(pattern), recursive=True)), key=_order)


def _holds_data(source: Path) -> bool:
    if source.is_dir():
        return any(map(_is_data, _visible(source)))
    return has_type(source, (*DATA_TYPES, *ARCHIVES))


def _visible(folder: Path) -> list[Path]:
    """Everything below a folder but hidden files and folders."""
    found = []
    for place, folders, files in os.walk(folder, onerror=_refuse_folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(place, name) for name in (*folders, *files) if not name.startswith(".")]
    return found


def _refuse_folder(error: OSError) -> None:
    """Refuse a folder that cannot be listed: its recordings would be missing unnoticed."""
    what = f"the folder cannot be read ({error.strerror})"
    raise DataError(
        what, where=str(error.filename), fix="allow it to be read, or move it"
    ) from error


def _is_data(path: Path) -> bool:
    return has_type(path, (*DATA_TYPES, *ARCHIVES)) and path.is_file()


def _order(path: Path) -> tuple[str, str]:
    return natural_key(str(path))
