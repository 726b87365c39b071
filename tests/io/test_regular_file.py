"""Only regular files are opened: nothing hangs, and what is wrong is said in one sentence."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

import mechtrace as mt
from mechtrace.errors import ConfigError, DataError, StoreError
from mechtrace.io.regular_file import open_regular_file
from mechtrace.io.settings_file import read_toml


def strange_paths(folder):
    """Paths that are no regular files, with what an error says of them."""
    pipe, loop = folder / "pipe", folder / "loop"
    os.mkfifo(pipe)
    loop.symlink_to(loop)
    return {
        pipe: "is a pipe or a device",
        folder: "is a folder",
        folder / "none": "there is no such file",
        loop: r"cannot be read \(Too many levels",
        Path("/dev/null"): "is a pipe or a device",
        folder / ("x" * 5000): r"cannot be read \(File name too long",
        folder / "a\0b": r"cannot be read \(embedded null byte",
    }


@pytest.mark.parametrize(
    ("read", "kind"),
    [(open_regular_file, DataError), (mt.load, StoreError), (read_toml, ConfigError)],
)
def test_what_is_no_regular_file_is_refused_at_once(tmp_path, read, kind) -> None:
    for path, message in strange_paths(tmp_path).items():
        failed: list[BaseException] = []

        def attempt(path=path, failed=failed) -> None:
            try:
                read(path)
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=attempt, daemon=True)
        thread.start()
        thread.join(timeout=5)
        assert not thread.is_alive(), f"{path} hangs"
        with pytest.raises(kind, match=message) as caught:
            raise failed[0]
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 500


def test_a_link_to_a_file_is_followed(tmp_path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    with open_regular_file(tmp_path / "link") as file:
        assert file.read() == b"content"
