"""Opening a file that a user names: never a pipe, a device or a folder."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from ..errors import DataError, MechtraceError

#: Bytes of the longest path that an error quotes whole.
LONGEST_PATH = 300


def open_regular_file(
    path: str | Path, error: type[MechtraceError] = DataError, wanted: str = "a file"
) -> BinaryIO:
    """Open a regular file for reading; anything else raises `error`, and nothing can hang.

    Symbolic links are followed. `wanted` says what the file should have been.
    """
    where = str(path)
    where = where if len(where) <= LONGEST_PATH else f"{where[:LONGEST_PATH]}..."
    try:
        # without O_NONBLOCK, opening a pipe waits for someone who writes
        number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _BINARY)
    except FileNotFoundError as found:
        raise error("there is no such file", where=where, fix="check the path") from found
    except IsADirectoryError as found:  # some systems do not even open it
        raise error(f"is a folder, not {wanted}", where=where, fix="name the file") from found
    except (OSError, ValueError) as found:
        reason = getattr(found, "strerror", None) or found
        fix = "name a file that can be read"
        raise error(f"cannot be read ({reason})", where=where, fix=fix) from found
    mode = os.fstat(number).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(number, "rb")
    os.close(number)
    if stat.S_ISDIR(mode):
        raise error(f"is a folder, not {wanted}", where=where, fix="name the file")
    raise error(f"is a pipe or a device, not {wanted}", where=where, fix="name a regular file")


_BINARY: int = getattr(os, "O_BINARY", 0)
