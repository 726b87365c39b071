"""The vehicle study on made-up tracks: who turns, who is left out, and what is said of them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from motions import boxes
from typer.testing import CliRunner

from mechtrace.cli.main import app
from mechtrace.errors import ConfigError
from mechtrace_lab.datasets.tracks import Track
from mechtrace_lab.datasets.vehicle import channels_of, waits
from mechtrace_lab.reproduction.uavdt_boxes import vehicle_study
from mechtrace_lab.reproduction.uavdt_folds import SequenceFold, by_track, deal, interval
from mechtrace_lab.reproduction.uavdt_turns import blind_turns, there_and_back

STEPS = np.arange(150.0)[:, None]
ALONG = np.hstack([100 + 2 * STEPS, 200 + 0.1 * STEPS])
DOWN = np.hstack([300 + 0.1 * STEPS, 50 + 2 * STEPS])


def corner() -> np.ndarray:
    angle = np.clip((np.arange(150) - 50) / 50, 0, 1) * np.pi / 2
    return 100 + np.cumsum(2 * np.column_stack([np.cos(angle), np.sin(angle)]), axis=0)


def track(centres: np.ndarray, target: int = 1) -> Track:
    sides = np.full((len(centres), 2), 20.0)
    frames = np.arange(len(centres))
    return Track("M1", target, 0, frames, np.hstack([centres - sides / 2, sides]))


def test_a_vehicle_that_waits_has_no_direction():
    parked = np.vstack([ALONG, np.repeat(ALONG[-1:], 200, axis=0), ALONG + ALONG[-1] - ALONG[0]])
    stops = waits(parked)
    assert stops[200:300].all()
    assert not stops[:140].any()
    for features in ("motion", "direction"):
        known = np.isfinite(np.column_stack(list(channels_of(track(parked), features).values())))
        assert (known.all(axis=1) == ~stops).all()
    assert np.isfinite(channels_of(track(parked), "shape")["log aspect"]).all()


def test_turns_are_found_without_a_look_at_boxes():
    straight = [track(ALONG, 2), track(DOWN, 3), track(ALONG[::-1], 4)]
    assert blind_turns([track(corner()), *straight]) == {"M1/1/0"}
    assert blind_turns([track(corner()[::-1]), *straight]) == {"M1/1/0"}
    # where all others turn too, the camera does; and alone, nobody can tell
    assert not blind_turns([track(corner(), target) for target in range(4)])
    assert not blind_turns([track(corner())])
    # from one diagonal to the other is no change between the regimes
    turned = corner() @ (np.array([[1, 1], [-1, 1]]) / np.sqrt(2))
    assert track(turned).kind == "turn"
    assert not blind_turns([track(turned), *straight])


def test_there_and_back_is_the_same_either_way():
    found = there_and_back(track(corner()))
    assert len(found) == 300
    assert (found.boxes == found.boxes[::-1]).all()
    assert (np.diff(found.frames) == 1).all()


def test_sequences_are_dealt_once_and_never_learned_from():
    shares = deal(["a"] * 5 + ["b"] * 3 + ["c"] * 2, ["d", "a"], 2)
    assert shares == [("a",), ("b", "c", "d")] or shares == [("a", "d"), ("b", "c")]
    tracks = [Track(name, 1, 0, np.arange(3), np.ones((3, 4))) for name in "abc"]
    fold = SequenceFold.of(tracks, tracks[:1], ("a", "c"))
    assert [one.sequence for one in fold.learn] == ["b"]
    assert [one.sequence for one in fold.straight] == ["a", "c"]
    assert len(fold.turns) == 1


def test_intervals_are_those_of_sequences():
    # ten tracks of one sequence are hardly more than one
    rows = [{"track": f"M1/{i}/0", "mae": 0.1} for i in range(10)]
    rows += [{"track": "M2/1/0", "mae": 0.3}, {"track": "M3/1/0", "mae": 0.3}]
    low, high = interval(rows, np.mean, "mae", seed=0)
    assert low < 0.12
    assert high == pytest.approx(0.3)
    seeds = by_track([{"track": "M1/1/0", "mae": x, "method": "lda"} for x in (0.1, 0.3)])
    assert seeds == [{"track": "M1/1/0", "mae": pytest.approx(0.2), "method": "lda"}]


def write_tracks(place) -> None:
    """Boxes of three sequences with a turn in two of them, in the format of UAVDT."""
    rng = np.random.default_rng(0)
    for number in range(1, 4):
        straight = {}
        for target in range(24):  # all ways, each a little askew
            askew = np.pi / 2 * (target % 4) + rng.uniform(-0.4, 0.4)
            way = rng.uniform(1.5, 3) * np.array([np.cos(askew), np.sin(askew)])
            straight[target] = rng.uniform(400, 600, 2) + STEPS * way
        turns = {50: corner()} if number < 3 else {}
        boxes(place / "gt_whole" / f"M000{number}_gt_whole.txt", straight | turns)
    index = "seq,track_id,segment,class\nM0001,50,0,turn_verified\n"
    (place / "track_index.csv").write_text(index, encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("uavdt")
    write_tracks(place)
    centres = np.round(corner())
    lines = [f"{x - 20:.0f},{y - 10:.0f},40,20" for x, y in centres]
    (place / "S1606_gt.txt").write_text("\n".join(lines), encoding="utf-8")
    return place


@pytest.mark.filterwarnings("ignore::mechtrace.errors.FitWarning")
@pytest.mark.slow
def test_the_study_on_made_up_tracks(folder, tmp_path):
    pytest.importorskip("sklearn")
    target = tmp_path / "out.json"
    words = ["bench", "vehicles", "--data", str(folder), "--features", "direction", "--seeds", "1",
             "--folds", "3", "--methods", "centroid,told-line,lda,algorithm1,mechtrace", "--set",
             "steps=100", "--set", "hidden=16", "--json", str(target)]  # fmt: skip
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    result = json.loads(target.read_text(encoding="utf-8"))
    assert sorted(name for fold in result["folds"] for name in fold) == [
        "M0001", "M0002", "M0003", "S1606",
    ]  # fmt: skip
    assert result["sets"]["verified"] == ["M0001/50/0"]
    assert result["sets"]["blind"] == ["M0001/50/0", "M0002/50/0"]
    assert {row["track"] for row in result["turns"]} == {"M0001/50/0", "M0002/50/0", "S1606/1/0"}
    found = {(row["method"], row["set"]): row for row in result["summary"]}
    ours, told = found["mechtrace", "verified"], found["told-line", "verified"]
    assert ours["median_pearson"] > 0.9
    assert ours["straight_horizontal"] > 0.8
    assert ours["straight_vertical"] > 0.8
    assert ours["back_gap"] < 0.1 < told["back_gap"]
    assert found["centroid", "single"]["mae"] < 0.1
    assert found["algorithm1", "verified"]["basis_warned"] == 0
    assert result["settings"]["steps"] == 100
    assert "numpy" in result["versions"]


def test_what_is_not_there_is_said(folder):
    with pytest.raises(ConfigError, match="motion, direction, folded, shape"):
        vehicle_study(folder, features=["colour"])
    with pytest.raises(ConfigError, match="told-line"):
        vehicle_study(folder, methods=["guess"])
