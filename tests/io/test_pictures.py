"""Pictures from folders and videos: round trips, labels, and what is wrong with them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import mechtrace as mt
from mechtrace.errors import ConfigError, DataError, MissingDependency
from mechtrace.io.arrays import picture_parts
from mechtrace.io.discover import find_recordings
from mechtrace.io.frames import ConcatenatedFrames, ImageFiles, parse_size

cv2 = pytest.importorskip("cv2")


def write_images(folder: Path, film: np.ndarray, suffix: str = ".png") -> None:
    folder.mkdir(parents=True)
    for step, image in enumerate(film):
        assert cv2.imwrite(str(folder / f"frame {step}{suffix}"), image)


def write_video(path: Path, film: np.ndarray) -> None:
    height, width = film.shape[1:]
    path.parent.mkdir(parents=True, exist_ok=True)
    code = cv2.VideoWriter.fourcc(*"MJPG")
    writer = cv2.VideoWriter(str(path), code, 10, (width, height), isColor=False)
    assert writer.isOpened()
    for image in film:
        writer.write(image)
    writer.release()


def film_of(steps: int, size: tuple[int, int] = (16, 32), seed: int = 0) -> np.ndarray:
    """Smooth pictures, which survive a lossy video: a bright stripe that moves."""
    where = np.arange(size[1])[None, :] - (4 + 2 * np.arange(steps)[:, None] + seed)
    stripe = 40 + 180 * np.exp(-0.5 * (where / 3) ** 2)
    return np.repeat(stripe[:, None, :], size[0], axis=1).astype(np.uint8)


def test_folders_of_images_round_trip_in_natural_order(tmp_path) -> None:
    long, short = film_of(12), film_of(5, seed=3)
    write_images(tmp_path / "walk" / "run 2", long)
    write_images(tmp_path / "walk" / "run 10", short)
    write_images(tmp_path / "trot" / "first", long[::-1], ".bmp")
    panel = mt.Panel.from_pictures(tmp_path, regime="folder")
    assert panel.names.tolist() == ["first", "run 2", "run 10"]
    assert panel.lengths.tolist() == [12, 12, 5]
    assert panel.regimes == ("trot", "walk")
    assert panel.shape == (16, 32)
    assert isinstance(panel.values, ConcatenatedFrames)  # nothing was decoded yet
    np.testing.assert_array_equal(panel["run 2"].values[:], long)
    np.testing.assert_array_equal(panel.values[[24, 0, 23]], [short[0], long[-1], long[-1]])
    named = mt.Panel.from_pictures(
        {"a": tmp_path / "walk" / "run 2", "b": tmp_path / "walk" / "run 10"},
        regime={"a": "slow"},
        size=(8, 16),
    )
    assert named.shape == (8, 16)
    assert set(named["a"].regime) == {"slow"}
    assert set(named["b"].regime) == {""}
    averaged = long[0].reshape(8, 2, 16, 2).mean(axis=(1, 3))
    np.testing.assert_allclose(named.values[0], averaged, atol=1)
    assert panel.select(["walk"]).fingerprint() != panel.select(["trot"]).fingerprint()


def test_colours_become_grey_and_larger_pictures_are_possible(tmp_path) -> None:
    colours = np.zeros((3, 8, 8, 3), np.uint8)
    colours[..., 1] = 200  # green
    write_images(tmp_path / "run", colours)
    small = mt.Panel.from_pictures({"run": tmp_path / "run"})
    assert small.shape == (8, 8)
    assert set(np.unique(small.values[:])) == {117}
    large = mt.Panel.from_pictures({"run": tmp_path / "run"}, size=(16, 12))
    assert large.values[:].shape == (3, 16, 12)


def test_videos_are_decoded_once_into_a_mapped_file(tmp_path) -> None:
    first, second = film_of(9), film_of(14, seed=5)
    write_video(tmp_path / "A" / "one.avi", first)
    write_video(tmp_path / "B" / "two.avi", second)
    panel = mt.Panel.from_pictures(tmp_path, regime="folder")
    assert panel.lengths.tolist() == [9, 14]
    assert panel.regimes == ("A", "B")
    assert all(isinstance(part, np.memmap) for part in panel.values.parts)
    for name, film in (("one", first), ("two", second)):
        assert np.abs(panel[name].values[:].astype(int) - film).mean() < 4
    one = mt.Panel.from_pictures(tmp_path / "A" / "one.avi", size=(8, 8))
    assert (one.shape, one.names.tolist()) == ((8, 8), ["one"])


def test_recordings_are_found_below_a_place(tmp_path) -> None:
    write_images(tmp_path / "b" / "x", film_of(2))
    write_images(tmp_path / ".hidden" / "y", film_of(2))
    write_video(tmp_path / "a.avi", film_of(2))
    (tmp_path / "notes.txt").write_text("no picture")
    found = find_recordings([tmp_path])
    assert [path.relative_to(tmp_path).as_posix() for path in found] == ["a.avi", "b/x"]
    write_images(tmp_path / "c" / "x", film_of(2))
    assert mt.Panel.from_pictures(tmp_path).names.tolist() == ["a.avi", "b/x", "c/x"]


def make_bad(root: Path) -> dict[str, tuple]:
    write_images(root / "good", film_of(3))
    write_images(root / "broken", film_of(3))
    (root / "broken" / "frame 1.png").write_bytes(b"no image")
    write_images(root / "growing", film_of(3))
    cv2.imwrite(str(root / "growing" / "frame 2.png"), film_of(1, (20, 32))[0])
    write_images(root / "other", film_of(3, (16, 30)))
    (root / "empty").mkdir()
    (root / "dead.avi").write_bytes(b"no video")
    (root / "table.csv").write_text("x\n1\n")
    good, make = root / "good", mt.Panel.from_pictures
    return {
        "missing": (lambda: make(root / "nowhere"), "nowhere: there is no such folder"),
        "missing one": (lambda: make({"a": root / "nowhere"}), "nowhere: there is no such folder"),
        "empty": (lambda: make(root / "empty"), "empty: there are no pictures; put folders"),
        "no images": (lambda: make({"a": root / "empty"}), "the folder holds no images; put"),
        "none": (lambda: make({}), "there are no recordings"),
        "unreadable": (
            lambda: make({"a": root / "broken"}).values[:],
            "frame 1.png: this image cannot be read; write it again",
        ),
        "size inside": (
            lambda: make({"a": root / "growing"}).values[:],
            "frame 2.png: pictures have 20 x 32 pixels, but those before have 16 x 32; give size",
        ),
        "size between": (
            lambda: make({"a": good, "b": root / "other"}),
            "other: pictures have 16 x 30 pixels, but those before have 16 x 32; give size=",
        ),
        "dead video": (lambda: make({"a": root / "dead.avi"}), "no frame of this video can"),
        "table": (lambda: make({"a": root / "table.csv"}), "this is no recording of pictures"),
        "one regime": (lambda: make({"a": good}, regime="walk"), "the regime 'walk' was given"),
        "regimes": (lambda: make({"a": good}, regime=["A", "B"]), "2 regimes were given for 1"),
        "unknown": (lambda: make({"a": good}, regime={"b": "A"}), "no recording 'b'; the recor"),
        "lengths": (
            lambda: make(ImageFiles.of(good), lengths=[2, 2]),
            "the offsets do not divide 3 rows",
        ),
    }  # fmt: skip


def test_what_is_wrong_is_said_in_one_sentence(tmp_path) -> None:
    for case, (act, message) in make_bad(tmp_path).items():
        with pytest.raises(DataError) as caught:
            act()
        assert message in str(caught.value), case
        assert "\n" not in str(caught.value), case


def test_a_missing_package_is_named(tmp_path, monkeypatch) -> None:
    write_images(tmp_path / "run", film_of(2))
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(MissingDependency, match=r'pip install "mechtrace\[pictures\]"'):
        picture_parts({"run": tmp_path / "run"})


def test_sizes_are_read_from_text() -> None:
    assert parse_size("48X64") == (48, 64)
    for text in ("", "axb", "0x4", "1x2x3", "-4"):
        with pytest.raises(ConfigError, match="is no size of a picture"):
            parse_size(text)


@pytest.mark.filterwarnings("ignore::mechtrace.errors.FitWarning")
def test_the_command_line_reads_folders_and_videos(tmp_path, command, monkeypatch) -> None:
    monkeypatch.setattr(
        "mechtrace.stage1.fit_run.validate_model", lambda *_: None
    )  # too few steps to learn
    for regime, seed in (("slow", 0), ("fast", 9)):
        for run in range(3):
            film = film_of(10, (20, 40), seed + run)
            write_images(tmp_path / "films" / regime / f"run {run}", film)
    write_video(tmp_path / "new.avi", film_of(10, (20, 40)))
    model = tmp_path / "film.mechtrace"
    few = ["--steps", 4, "--hidden", 8, "--latents", 2, "--lags", 1, "--set", "align=false"]
    code, said, error = command(
        "fit", tmp_path / "films", "--size", "8x16", "-o", model, *few, "--batch", 2
    )
    assert code == 0, error
    assert "regime = name of the folder (detected)" in said
    assert "6 series, 60 rows, pictures of 8 x 16 pixels; regimes: fast, slow" in said
    out = tmp_path / "curve.csv"
    code, said, error = command("recover", model, str(tmp_path / "n*.avi"), "--out", out)
    assert code == 0, error
    assert "pictures of 8 x 16 pixels" in said
    assert len(out.read_text().splitlines()) == 11
    mixed = ["fit", tmp_path / "films", tmp_path / "new.csv", "-o", model]
    (tmp_path / "new.csv").write_text("x\n1\n")
    code, _, error = command(*mixed)
    assert (code, "read tables and pictures apart" in error) == (2, True)
    code, _, error = command("fit", tmp_path / "films" / "slow", "-o", model)
    assert (code, "put those of each regime into a folder" in error) == (2, True)
