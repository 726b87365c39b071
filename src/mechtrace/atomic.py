"""Files that are either complete or untouched."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import DataError


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path next to `path`, with its suffix, that replaces it only on success."""
    path = Path(path)
    if path.is_dir() or not path.parent.is_dir():
        what = "this is a folder" if path.is_dir() else "the folder does not exist"
        raise DataError(what, where=str(path), fix="choose a file in an existing folder")
    temporary = path.with_name(f".{secrets.token_hex(4)}.{path.name}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
