"""Packed files: those that would unpack to far more than any recording are refused."""

from __future__ import annotations

import gzip
from pathlib import Path

from ..errors import DataError

#: Bytes up to which a file may unpack, however small it is, and times its size above that. Rows
#: of numbers shrink to a tenth; even a table of constants with a clock is below a hundredth.
MOST_BYTES, MOST_RATIO = 1 << 28, 500


def refuse_bomb(path: Path, packed: int, unpacked: int) -> None:
    """Raise DataError if so few bytes unpack to so many."""
    if unpacked > MOST_BYTES and unpacked > MOST_RATIO * packed:
        what = f"{packed:,} bytes unpack to {unpacked:,} or more, which no recording does"
        fix = "unpack it and look at it, or write it again"
        raise DataError(what, where=path.name, fix=fix)


class BoundedGzip(gzip.GzipFile):
    """A gzip file for reading, up to a size that recordings can have."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "rb")
        self._path, self._packed = path, path.stat().st_size

    def read1(self, size: int = -1) -> bytes:
        """Read some bytes, as a text wrapper does."""
        found = super().read1(size)
        refuse_bomb(self._path, self._packed, self.tell())
        return found
