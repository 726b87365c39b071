"""Boxes of vehicles: tracks, headings, classes, proxies, channels, and a folder as recordings."""

from __future__ import annotations

import numpy as np
import pytest
from motions import boxes

from mechtrace.errors import ConfigError, DataError, DataWarning
from mechtrace_lab.datasets import uavdt
from mechtrace_lab.datasets.tracks import Track, read_tracks, steady_camera
from mechtrace_lab.datasets.vehicle import channels_of, chord_proxy, chord_velocity, literal_proxy

STEPS = np.arange(150.0)[:, None]
ALONG = np.hstack([100 + 2 * STEPS, 200 + 0.1 * STEPS])
DOWN = np.hstack([300 + 0.1 * STEPS, 50 + 2 * STEPS])


def corner(count: int = 150) -> np.ndarray:
    """First along, then down, by a quarter of a circle in between."""
    angle = np.clip((np.arange(count) - 50) / 50, 0, 1) * np.pi / 2
    return 100 + np.cumsum(2 * np.column_stack([np.cos(angle), np.sin(angle)]), axis=0)


def track(centres: np.ndarray, size: float = 20.0) -> Track:
    sides = np.full((len(centres), 2), size)
    return Track("M1", 1, 0, np.arange(len(centres)), np.hstack([centres - sides / 2, sides]))


def test_tracks_go_on_over_short_gaps_only(tmp_path):
    short, long = ALONG.copy(), DOWN.copy()
    short[60:63] = np.nan
    long[60:64] = np.nan
    long[:41] = np.nan  # which leaves 19 boxes before its gap: too few
    boxes(tmp_path / "M0001_gt_whole.txt", {1: short, 7: long})
    one, two = read_tracks(tmp_path / "M0001_gt_whole.txt")
    assert (one.name, len(one)) == ("M0001/1/0", 147)
    assert (two.name, len(two)) == ("M0001/7/1", 86)
    filled = one.filled()
    assert len(filled) == 150
    assert filled.centres[61] == pytest.approx(ALONG[61].round(), abs=1.1)


@pytest.mark.parametrize(
    ("centres", "kind"),
    [
        (ALONG, "horizontal"),
        (DOWN, "vertical"),
        (corner(), "turn"),
        (ALONG[:1] + 0 * ALONG, "static"),
        (np.hstack([2 * STEPS, 2 * STEPS]), "other"),
    ],
)
def test_kinds_of_tracks(centres, kind):
    assert track(centres).kind == kind
    assert track(centres[::-1]).kind == kind  # whichever way it goes


def test_a_turn_has_its_angle():
    found = track(corner())
    assert found.net_turn == pytest.approx(90, abs=8)
    assert found.vertical_share == pytest.approx(0.5, abs=0.02)
    straight = [track(ALONG), track(DOWN), track(ALONG)]
    assert steady_camera(straight)[0]
    assert not steady_camera([track(corner())] * 3 + straight[:2])[0]


def test_the_proxy_to_the_letter_and_over_chords():
    rounded = np.round(corner() / 2)  # a pixel per frame, in whole pixels
    smooth = literal_proxy(corner())
    chords = chord_proxy(rounded)
    assert chords[20] == pytest.approx(0, abs=0.05)
    assert chords[130] == pytest.approx(1, abs=0.05)
    error = [np.nanmean(np.abs(one - smooth)) for one in (chords, literal_proxy(rounded))]
    assert error[0] < 0.06 < error[1]
    velocity = chord_velocity(rounded)
    assert np.linalg.norm(velocity, axis=1) == pytest.approx(1, abs=0.25)
    assert np.isnan(chord_proxy(np.zeros((30, 2)))).all()


def test_channels_of_each_set():
    found = track(corner())
    assert list(channels_of(found, "motion")) == ["x", "y", "vx", "vy"]
    for kind in ("direction", "folded"):
        both = [channels_of(one, kind) for one in (found, track(corner()[::-1]))]
        for name in both[0]:  # whichever way it goes
            assert both[1][name][::-1] == pytest.approx(both[0][name], abs=1e-9)
    folded = channels_of(found, "folded")
    sizes = [folded[f"|{name} heading|"] for name in ("cos", "sin")]
    assert np.hypot(*sizes) == pytest.approx(1)
    assert sizes[1] / sum(sizes) == pytest.approx(chord_proxy(found.centres), abs=1e-9)
    assert channels_of(found, "shape") == {"log aspect": pytest.approx(0)}
    with pytest.raises(ConfigError, match="motion, direction, folded, shape"):
        channels_of(found, "colour")


@pytest.fixture
def folder(tmp_path):
    straight = {1: ALONG, 2: DOWN, 3: ALONG[::-1], 4: DOWN[::-1]}
    boxes(tmp_path / "gt_whole" / "M0001_gt_whole.txt", straight | {5: corner(), 6: corner() + 50})
    boxes(tmp_path / "gt_whole" / "M0002_gt_whole.txt", straight)
    index = "seq,track_id,segment,class\nM0001,5,0,turn_verified\nM0001,6,0,turn_candidate\n"
    (tmp_path / "track_index.csv").write_text(index, encoding="utf-8")
    return tmp_path


def test_a_folder_becomes_recordings(folder):
    found = uavdt.read(folder)
    assert sorted(set(found.labels)) == ["", "horizontal", "vertical"]
    assert found.new.panel.names.tolist() == ["M0001/5/0"]
    assert set(found.panel.groups) == {"M0001", "M0002"}
    assert found.panel.usual_step == pytest.approx(1 / 30)
    proxy = found.new.column("proxy")[0]
    assert np.nanmean(proxy[:30]) < 0.1 < 0.9 < np.nanmean(proxy[-30:])
    assert len(uavdt.read(folder, turns="candidates").new.panel) == 2
    assert set(uavdt.read(folder, sequences=["M0002"]).panel.groups) == {"M0002"}


def test_a_turning_camera_is_warned_about(folder):
    turning = {target: corner() + 3 * target for target in range(1, 6)}
    boxes(folder / "gt_whole" / "M0003_gt_whole.txt", turning)
    with pytest.warns(DataWarning, match="M0003: most moving tracks turn by .* camera"):
        uavdt.read(folder, turns="candidates")


def test_what_is_missing_or_damaged_is_said(folder, tmp_path):
    with pytest.raises(DataError, match="lacks M0009_gt_whole"):
        uavdt.read(folder, sequences=["M0009"])
    (folder / "track_index.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(DataError, match="no index of tracks"):
        uavdt.read(folder)
    (folder / "track_index.csv").unlink()
    with pytest.raises(DataError, match="no list of verified turns"):
        uavdt.read(folder)
    bad = tmp_path / "M0004_gt_whole.txt"
    for text, words in (
        ("1,1,2\n", "at least 6 numbers"),
        ("1,1,0,0,4,x\n", "words among"),
        ("1,1,0,0,4,4\n1,1,0,0,4,4\n", "two boxes of target 1"),
    ):
        bad.write_text(text, encoding="utf-8")
        with pytest.raises(DataError, match=words):
            read_tracks(bad)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(DataError, match=r"no \*_gt_whole"):
        uavdt.read(empty)


def test_frames_are_those_of_the_annotation(tmp_path):
    cv2 = pytest.importorskip("cv2")
    frames = tmp_path / "frames"
    frames.mkdir()
    for number in range(3, 7):
        cv2.imwrite(str(frames / f"img{number:06d}.jpg"), np.zeros((8, 8), np.uint8))
    lines = [f"{number},{number},32,16" for number in range(1, 7)]
    (tmp_path / "S1_gt.txt").write_text("\n".join(lines), encoding="utf-8")
    _, numbers, track = uavdt.numbered_frames(frames, tmp_path / "S1_gt.txt")
    assert (numbers.tolist(), len(track)) == ([3, 4, 5, 6], 6)
    (tmp_path / "S1_gt.txt").write_text(lines[0], encoding="utf-8")
    with pytest.raises(DataError, match="no numbered frames"):
        uavdt.numbered_frames(frames, tmp_path / "S1_gt.txt")
