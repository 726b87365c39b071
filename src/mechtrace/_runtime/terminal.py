"""Text for people: made harmless to a terminal, and never a reason for work to fail."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from typing import TextIO

from ..errors import visible

#: Who read the text is gone: the reader of a pipe, or the terminal.
GONE = (errno.EPIPE, errno.EIO)
_streams = {0: "stdin", 1: "stdout", 2: "stderr"}
_was_closed: set[str] = set()
_failure: OSError | None = None


def say(text: str, *, err: bool = False) -> None:
    """Write a message to stdout, or to stderr; one that cannot be written is left out."""
    global _failure
    stream = sys.stderr if err else sys.stdout
    try:
        deliver(stream, f"{visible(text, lines=True)}\n")
    except OSError as error:
        if error.errno not in GONE:
            _failure = error


def deliver(stream: TextIO | None, text: str) -> None:
    """Write text to a stream at once; what an encoding lacks is written as an escape.

    Raises
    ------
    OSError
        If the stream does not take it. From then on what is written there is thrown away.
    """
    if stream is None:  # as after 2>&-
        return
    try:
        try:
            stream.write(text)
        except UnicodeEncodeError:
            known = stream.encoding or "ascii"
            stream.write(text.encode(known, "backslashreplace").decode(known))
        stream.flush()
    except OSError:
        abandon(stream)
        raise


def abandon(stream: TextIO | None) -> None:
    """Throw away what is in the buffer of a stream, and all that is written to it later."""
    if stream is None:
        return
    with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())
        stream.flush()


def is_terminal(stream: TextIO | None) -> bool:
    """Tell whether a stream is open and shown on a terminal."""
    return stream is not None and stream.isatty()


def take_failure() -> OSError | None:
    """Return, once, why messages could not be written, other than that nobody read them."""
    global _failure
    failure, _failure = _failure, None
    return failure


def open_closed_streams() -> None:
    """Connect streams that the shell has closed to nothing; files could take their numbers."""
    for number, name in _streams.items():
        if getattr(sys, name) is None:
            _was_closed.add(name)
            taken = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(taken, True)
            mode = "w" if number else "r"
            setattr(sys, name, os.fdopen(taken, mode, encoding="utf-8", closefd=False))


def was_closed(name: str) -> bool:
    """Tell whether a stream was closed when the command began."""
    return name in _was_closed
