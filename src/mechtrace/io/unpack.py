"""Archives (.zip) of tables: their members become files for the time of a `with` block."""

from __future__ import annotations

import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from ..errors import DataError
from .cells import natural_key
from .discover import ARCHIVES, DATA_TYPES, check_file, has_type, unreadable
from .packed import refuse_bomb


@contextmanager
def unpacked(files: Sequence[Path]) -> Iterator[list[Path]]:
    """Replace archives among the files by the tables in them, in a temporary folder."""
    if not any(has_type(path, ARCHIVES) for path in files):
        yield list(files)
        return
    with tempfile.TemporaryDirectory(prefix="mechtrace-") as folder:
        found: list[Path] = []
        for k, path in enumerate(files):
            inside = _unpack(path, Path(folder, str(k))) if has_type(path, ARCHIVES) else [path]
            found += inside
        yield found


def _unpack(path: Path, folder: Path) -> list[Path]:
    check_file(path)
    try:
        with zipfile.ZipFile(path) as archive:
            members = [one for one in archive.infolist() if _is_table(one)]
            size = sum(one.file_size for one in members)
            refuse_bomb(path, path.stat().st_size, size)
            written: dict[Path, None] = {}
            for one in members:
                parts = [part for part in _parts(one) if part not in ("", ".", "..", "/")]
                target = folder.joinpath(*parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(one))
                written[target] = None
    except (OSError, EOFError, RuntimeError, ValueError, NotImplementedError,
            zipfile.BadZipFile, zlib.error) as error:  # fmt: skip
        if isinstance(error, DataError):
            raise
        raise unreadable(path, error) from error
    if not written:
        fix = f"put files of type {', '.join(DATA_TYPES)} into it"
        raise DataError("the archive holds no data", where=path.name, fix=fix)
    return sorted(written, key=lambda one: natural_key(str(one)))


def _parts(member: zipfile.ZipInfo) -> tuple[str, ...]:
    return PurePosixPath(member.filename.replace("\\", "/").replace("\x00", "")).parts


def _is_table(member: zipfile.ZipInfo) -> bool:
    """Tell whether a member is a table that somebody packed, not the litter of a system."""
    parts = [part for part in _parts(member) if part not in (".", "..")]
    hidden = any(part.startswith((".", "__MACOSX")) for part in parts)
    return not member.is_dir() and not hidden and has_type(Path(member.filename), DATA_TYPES)
