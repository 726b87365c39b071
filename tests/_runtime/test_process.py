"""Atomic files: complete or untouched, and no litter."""

from __future__ import annotations

from pathlib import Path

import pytest

from mechtrace.atomic import atomic_path
from mechtrace.errors import DataError


def listing(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


@pytest.mark.parametrize("old", [None, "old"])
def test_success_replaces(tmp_path: Path, old: str | None) -> None:
    path = tmp_path / "model.csv.gz"
    if old:
        path.write_text(old)
    with atomic_path(str(path)) as temporary:
        assert temporary.parent == path.parent  # the same disk, so that the swap is atomic
        assert temporary.suffixes[-2:] == [".csv", ".gz"]
        assert temporary != path
        temporary.write_text("new")
        assert path.read_text() == old if old else not path.exists()
    assert path.read_text() == "new"
    assert listing(tmp_path) == ["model.csv.gz"]


@pytest.mark.parametrize("old", [None, "old"])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("started", [True, False])
def test_an_exception_leaves_the_old_file_and_no_litter(
    tmp_path: Path, old: str | None, error: type[BaseException], started: bool
) -> None:
    path = tmp_path / "model.bin"
    if old:
        path.write_text(old)

    def write() -> None:
        with atomic_path(path) as temporary:
            if started:
                temporary.write_text("half")
            raise error

    with pytest.raises(error):
        write()
    assert listing(tmp_path) == (["model.bin"] if old else [])
    if old:
        assert path.read_text() == old


def test_two_writers_do_not_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with atomic_path(path) as one, atomic_path(path) as two:
        assert one != two
        one.write_text("outer")
        two.write_text("inner")
    assert path.read_text() == "outer"
    assert listing(tmp_path) == ["a.txt"]


def test_bad_places_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    reached: list[Path] = []

    def write(path: Path) -> None:
        with atomic_path(path) as temporary:
            reached.append(temporary)

    with pytest.raises(DataError, match="the folder does not exist; choose a file") as caught:
        write(tmp_path / "none" / "a.txt")
    assert str(tmp_path / "none" / "a.txt") in str(caught.value)
    with pytest.raises(DataError, match="this is a folder"):
        write(tmp_path)
    file = tmp_path / "plain"
    file.write_text("x")
    with pytest.raises(DataError, match="the folder does not exist"):
        write(file / "a.txt")
    assert reached == []
    assert listing(tmp_path) == ["plain"]


def test_writing_nothing_is_an_error_and_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(FileNotFoundError), atomic_path(path):
        pass
    assert path.read_text() == "old"
    assert listing(tmp_path) == ["a.txt"]
