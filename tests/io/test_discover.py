"""Files, folders and patterns: which files are meant, in which order, and how they are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from mechtrace.errors import DataError
from mechtrace.io.discover import file_labels, file_stem, find_files, find_inputs


def put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x\n1\n")


def test_folders_patterns_and_files(tmp_path):
    put(tmp_path, "b/run10.csv", "b/run2.csv", "a.csv", ".hidden.csv", "b/.tmp/x.csv", "c.txt")
    names = [path.relative_to(tmp_path).as_posix() for path in find_files([tmp_path])]
    assert names == ["a.csv", "b/run2.csv", "b/run10.csv"]
    assert [p.name for p in find_files([tmp_path / "b" / "*.csv"])] == ["run2.csv", "run10.csv"]
    assert len(find_files([tmp_path / "**" / "run*.csv", tmp_path / "b"])) == 2
    with pytest.raises(DataError, match="no file matches"):
        find_files([tmp_path / "*.parquet"])
    put(tmp_path, "odd[1].csv")  # an existing file is no pattern
    assert find_files([tmp_path / "odd[1].csv"]) == [tmp_path / "odd[1].csv"]


def test_pictures_beside_data_are_illustrations_and_alone_recordings(tmp_path):
    put(tmp_path, "data/a.csv", "data/photo.png", "film/run2/1.png", "film/run10/1.png", "b.mp4")
    assert find_inputs([tmp_path / "data"]) == ([tmp_path / "data/a.csv"], [])
    recordings = [tmp_path / "film/run2", tmp_path / "film/run10", tmp_path / "b.mp4"]
    assert find_inputs([tmp_path / "film", tmp_path / "b.mp4"]) == ([], recordings)
    with pytest.raises(DataError, match=r"data: this holds no pictures.*apart"):
        find_inputs([tmp_path / "film", tmp_path / "data"])


def test_files_get_the_shortest_names_that_tell_them_apart():
    assert file_stem(Path("x/monday.CSV.gz")) == "monday"
    assert file_labels([Path("x/a.csv"), Path("x/b.csv.gz")]) == ["a", "b"]
    assert file_labels([Path("x/a.csv"), Path("y/a.csv")]) == ["x/a", "y/a"]
    assert file_labels([Path("x/a.csv"), Path("x/a.npz")]) == ["x/a.csv", "x/a.npz"]
