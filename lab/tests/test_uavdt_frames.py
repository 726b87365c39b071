"""Real frames of a vehicle: camera, trail pictures, painted films and the study over them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from motions import boxes
from test_datasets_shared import VEHICLES
from typer.testing import CliRunner

from mechtrace.cli.main import app
from mechtrace.errors import DataError
from mechtrace_lab.baselines.heuristics import flow_in_boxes
from mechtrace_lab.datasets import trails
from mechtrace_lab.datasets.camera import camera_motion, carried, stabilised
from mechtrace_lab.datasets.scene import VehicleScene, read_scene
from mechtrace_lab.datasets.sprites import Sprite, cut_out, painted, painted_film
from mechtrace_lab.datasets.tracks import Track
from mechtrace_lab.reproduction.uavdt_frames import frames_study, score

cv2 = pytest.importorskip("cv2")

HEIGHT, WIDTH = 135, 256
SIDES = np.array([16.0, 10.0])
CAR = Sprite(np.full((10, 16), 250, np.uint8), np.ones((10, 16), bool))


def ground(height: int = HEIGHT, width: int = WIDTH) -> np.ndarray:
    """Something with corners everywhere, never as bright as the car."""
    coarse = np.random.default_rng(0).integers(20, 150, (height // 9 + 1, width // 9 + 1))
    fine = cv2.resize(coarse.astype(np.uint8), None, fx=9, fy=9, interpolation=cv2.INTER_NEAREST)
    return cv2.GaussianBlur(fine[:height, :width], (0, 0), 1.0)


def line(degrees: float, count: int = 60, speed: float = 1.0) -> np.ndarray:
    """Places on a straight line through the middle of the picture."""
    way = np.array([np.cos(np.radians(degrees)), -np.sin(np.radians(degrees))])
    return (WIDTH / 2, HEIGHT / 2) + speed * (np.arange(count) - count / 2)[:, None] * way


def corner(count: int = 100) -> np.ndarray:
    """First to the right, then up."""
    angle = np.clip((np.arange(count) - 30) / 40, 0, 1) * np.pi / 2
    steps = np.column_stack([np.cos(angle), -np.sin(angle)])
    return np.array([60.0, 105.0]) + np.cumsum(steps, axis=0)


def scene_of(centres: np.ndarray) -> VehicleScene:
    """A vehicle on a road under a camera that hangs still."""
    sides, road = np.tile(SIDES, (len(centres), 1)), ground()
    frames = np.stack(list(painted(CAR, road, centres, sides)))
    numbers, corners = np.arange(len(centres)) + 1, centres - sides / 2
    return VehicleScene(
        numbers, frames, frames, road, np.hstack([corners, sides]), centres, sides, 0.5
    )


def write_sequence(folder, name: str, centres: np.ndarray) -> None:
    """Frames under a camera that drifts, and boxes of frames twice as wide."""
    (folder / f"{name}_half").mkdir(parents=True)
    sides, road, lines = np.tile(SIDES, (len(centres), 1)), ground(), []
    for number, frame in enumerate(painted(CAR, road, centres, sides), start=1):
        drift = np.array([0.1 * number, -0.05 * number])
        shift = np.array([[1, 0, drift[0]], [0, 1, drift[1]]])
        moved = cv2.warpAffine(frame, shift, (WIDTH, HEIGHT), borderMode=cv2.BORDER_REFLECT)
        cv2.imwrite(str(folder / f"{name}_half" / f"img{number:06d}.png"), moved)
        left, top = 2 * (centres[number - 1] + drift - SIDES / 2)
        lines.append(f"{left:.0f},{top:.0f},{2 * SIDES[0]:.0f},{2 * SIDES[1]:.0f}")
    (folder / f"{name}_gt.txt").write_text("\n".join(lines), encoding="utf-8")


def camera_over(ground_seen: np.ndarray, degrees: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What a camera sees that turns, and the homographies back to its middle frame."""
    frames, to_ground = [], []
    for angle in degrees:
        turn = np.vstack([cv2.getRotationMatrix2D((150, 150), angle, 1.0), [0, 0, 1]])
        frames.append(cv2.warpPerspective(ground_seen, turn, (300, 300))[82:217, 22:278])
        crop = np.array([[1.0, 0, 22], [0, 1, 82], [0, 0, 1]])
        to_ground.append(np.linalg.inv(turn) @ crop)
    middle = np.linalg.inv(to_ground[len(degrees) // 2])
    return np.stack(frames), np.stack([middle @ one for one in to_ground])


@pytest.mark.parametrize("whole_turn", [4.0, 120.0])
def test_the_motion_of_a_turning_camera_is_found(whole_turn):
    """Also by so much that the middle frame is of no help for the last one."""
    frames, truth = camera_over(ground(300, 300), np.linspace(0, whole_turn, 41))
    found = camera_motion(frames)
    places = np.tile([130.0, 70.0], (41, 1))
    assert np.abs(carried(places, found) - carried(places, truth)).max() < 0.7
    inner = stabilised(frames, found)[:, 45:90, 105:150].astype(float)
    assert np.abs(inner - inner[20]).mean() < 4


def test_a_cut_is_no_motion_of_the_camera():
    frames = np.stack([ground(), ground()[::-1, ::-1]])
    with pytest.raises(DataError, match="camera is lost between frames 1 and 0 of 2"):
        camera_motion(frames)


@pytest.mark.parametrize("degrees", [0, 20, 45, 70, 90, 160, 225, 290])
def test_the_spot_is_where_the_vehicle_goes(degrees):
    """Whichever way: at the right for horizontal, at the bottom for vertical travel."""
    film = scene_of(line(degrees)).film(np.array([25, 30, 35]))
    assert film.shape == (3, trails.SIDE, trails.SIDE)
    angle = np.radians(degrees)
    steep = abs(np.sin(angle)) / (abs(np.sin(angle)) + abs(np.cos(angle)))
    assert trails.spot_direction(film) == pytest.approx(steep, abs=0.09)


def test_neither_speed_nor_distance_changes_the_picture():
    slow = scene_of(line(30, count=120, speed=0.5)).film(np.array([60]))
    fast = scene_of(line(30, count=60, speed=1.0)).film(np.array([30]))
    assert np.abs(slow.astype(float) - fast).mean() < 4
    trail = trails.draw_trail(scene_of(line(30)).steady, ground(), line(30), SIDES + 0 * line(30))
    near = cv2.resize(trail, None, fx=2, fy=2, interpolation=cv2.INTER_NEAREST)
    there = trails.film_of(near, 2 * line(30)[[30]] + 0.5, np.array([24.0]))
    assert np.abs(there.astype(float) - trails.film_of(trail, line(30)[[30]], [12.0])).mean() < 4


def test_what_moves_outside_of_the_box_leaves_no_trail():
    scene = scene_of(line(0))
    with_other = scene.steady.copy()
    with_other[:, 90:110, 100:140] = 250
    alone = trails.draw_trail(scene.steady, scene.road, scene.centres, scene.sides)
    with_it = trails.draw_trail(with_other, scene.road, scene.centres, scene.sides)
    assert alone.any()
    assert (alone == with_it).all()


def test_a_vehicle_that_stands_has_no_direction():
    film = scene_of(line(0, speed=0.0)).film(np.array([5]))
    assert np.isnan(trails.spot_direction(film)).all()


def test_a_painted_vehicle_makes_the_film_of_the_real_one():
    """What is cut out of a scene and moved along the same boxes gives the same pictures."""
    scene = scene_of(corner())
    (look,) = cut_out(scene, [3])
    assert look.own.mean() > 0.95
    track = Track("M1", 1, 0, np.arange(100), scene.boxes / scene.scale)
    film = painted_film(track, look, scene, 5)
    assert np.abs(film.astype(float) - scene.film(scene.rows(5))).mean() < 2


def test_a_vehicle_may_leave_the_picture():
    centres = np.array([[-30.0, 50.0], [2.0, 50.0], [WIDTH - 1.0, HEIGHT - 2.0]])
    frames = list(painted(CAR, ground(), centres, np.tile(SIDES, (3, 1))))
    changed = [(frame != ground()).sum() for frame in frames]
    assert changed[0] == 0
    assert 0 < changed[2] < changed[1] < SIDES.prod()


def test_scenes_are_read_with_the_camera_held_still(tmp_path):
    write_sequence(tmp_path, "S1", corner())
    scene = read_scene(tmp_path / "S1_half", tmp_path / "S1_gt.txt")
    truth = corner() - corner()[50]
    assert np.abs(scene.centres - scene.centres[50] - truth).max() < 1.0
    assert np.ptp(scene.seen_centres - corner(), axis=0).max() > 4  # it did drift
    proxy, rows = scene.proxy(), scene.rows(5)
    assert proxy[:30].mean() < 0.1
    assert proxy[-20:].mean() > 0.9
    assert rows.tolist() == list(range(0, 100, 5))
    spot = trails.spot_direction(scene.film(rows))
    assert score(spot, proxy[rows])["correlation"] > 0.95
    moving = flow_in_boxes(scene.steady, np.hstack([scene.centres - SIDES / 2, scene.sides]))
    assert score(moving, proxy)["correlation"] > 0.9


def test_scores_leave_out_what_is_unknown():
    found = score(np.array([np.nan, 0.0, 1.0, 0.5]), np.array([0.3, 0.2, 0.8, np.nan]))
    assert found == {"correlation": pytest.approx(1.0), "error": pytest.approx(0.2), "steps": 2}


@pytest.mark.filterwarnings("ignore::mechtrace.errors.FitWarning")  # of a dozen short films
@pytest.mark.slow
def test_the_study_recovers_a_turn_from_painted_films(tmp_path):
    """The whole command on tiny frames of the same format."""
    for name in ("S1606", "S1301"):
        write_sequence(tmp_path / "frames", name, corner())
    random, tracks = np.random.default_rng(1), {}
    for number in range(24):
        angle = random.normal(0, 8) + 90 * (number % 2)
        tracks[number] = 2 * line(angle, count=100)
    tracks[99] = 2 * corner()
    boxes(tmp_path / "M0001_gt_whole.txt", tracks)
    (tmp_path / "track_index.csv").write_text(
        "seq,track_id,segment,class\nM0001,99,0,turn_verified\n", encoding="utf-8"
    )
    out = tmp_path / "turn.json"
    command = ["bench", "turn", "--data", str(tmp_path), "--tracks", "12", "--seeds", "1",
               "--set", "steps=200", "--json", str(out), "--quiet"]  # fmt: skip
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    found = json.loads(out.read_text(encoding="utf-8"))
    assert found["straight_tracks"] == {"horizontal": 12, "vertical": 12}
    assert found["rows"][0]["turns"]["count"] == 1
    for name in ("S1606", "S1301"):
        assert found["means"][name]["mechtrace"]["correlation"] > 0.9
        assert found["heuristics"][name]["centroid, camera steady, mean of 15"]["error"] < 0.1
        assert len(found["rows"][0][name]["alpha"]) == len(found["curves"][name]["proxy"]) == 20


def test_missing_frames_are_named(tmp_path):
    with pytest.raises(DataError, match="S1606_half: there are no frames"):
        frames_study(tmp_path)


@pytest.mark.skipif(not (VEHICLES / "frames").is_dir(), reason="no UAVDT frames here")
def test_the_turn_is_seen_in_the_real_frames():
    folder = VEHICLES / "frames"
    scene = read_scene(folder / "S1606_half", folder / "S1606_gt.txt")
    proxy, rows = scene.proxy(), scene.rows(5)
    assert proxy[:60].mean() < 0.25
    assert proxy[-90:-20].mean() > 0.8
    assert score(trails.spot_direction(scene.film(rows)), proxy[rows])["correlation"] > 0.95
