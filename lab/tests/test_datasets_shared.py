"""Readers against the recordings themselves, where they are: MECHTRACE_DATA or ../shared/data."""

from __future__ import annotations

import csv
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from mechtrace.errors import DataWarning
from mechtrace_lab.datasets import cmu, uavdt
from mechtrace_lab.datasets.motion import read_motion
from mechtrace_lab.datasets.sources import SOURCES, state

BESIDE_THE_PROJECT = Path(__file__).parents[3] / "shared" / "data"
DATA = Path(os.environ.get("MECHTRACE_DATA", BESIDE_THE_PROJECT))
GAIT, VEHICLES = DATA / "cmu_mocap", DATA / "uavdt"
needs_gait = pytest.mark.skipif(not (GAIT / "manifest.csv").exists(), reason="no CMU trials here")
needs_vehicles = pytest.mark.skipif(
    not (VEHICLES / "track_index.csv").exists(), reason="no UAVDT tracks here"
)


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@needs_gait
def test_kinematics_agree_with_the_manifest():
    """Speed and flights of all trials, as another program measured them."""
    names = ("hip_speed_first_0.3s", "hip_speed_last_0.3s", "hip_speed_min_0.6s_window",
             "hip_speed_max_0.6s_window", "flight_fraction_first_0.3s",
             "flight_fraction_last_0.3s", "flight_fraction_max_0.6s_window")  # fmt: skip
    errors = []
    for row in table(GAIT / "manifest.csv"):
        motion = read_motion(GAIT / row["role"] / f"{row['trial']}.bvh")
        assert len(motion) == int(row["frames_without_T_pose"])
        speed, flight = motion.hip_speed(), motion.flight_fraction()
        found = [speed[:36].mean(), speed[-36:].mean(), speed.min(), speed.max()]
        found += [flight[:36].mean(), flight[-36:].mean(), flight.max()]
        errors.append(np.abs(np.array(found) - [float(row[name]) for name in names]))
    assert len(errors) == 65
    assert np.max(errors, axis=0)[:4].max() < 0.03
    assert np.mean(errors, axis=0)[4:].max() < 0.02


@needs_gait
@pytest.mark.parametrize(("features", "channels"), [("paper", 188), ("legs", 18)])
def test_all_trials_become_recordings(features, channels):
    found = cmu.read(GAIT, features=features)
    assert found.panel.shape == (channels,)
    assert Counter(found.labels) == {"walk": 29, "run": 25, "": 11}
    assert np.isfinite(found.panel.values).all()
    assert found.panel.usual_step == pytest.approx(1 / 30, rel=1e-3)


@needs_vehicles
@pytest.mark.filterwarnings("ignore::mechtrace.errors.DataWarning")
def test_kinds_of_tracks_agree_with_the_index():
    known = {
        f"{r['seq']}/{r['track_id']}/{r['segment']}": r for r in table(VEHICLES / uavdt.INDEX)
    }
    same = {"horizontal": "horizontal", "vertical": "vertical", "other": "other",
            "static_or_short": "static", "turn_verified": "turn",
            "turn_candidate": "turn"}  # fmt: skip
    tracks = uavdt.tracks_of(VEHICLES)
    rows = [known[track.name] for track in tracks]
    assert [len(track) for track in tracks] == [int(row["n_boxes"]) for row in rows]
    agree = [same[row["class"]] == track.kind for track, row in zip(tracks, rows, strict=True)]
    assert np.mean(agree) > 0.92
    assert all(a for a, row in zip(agree, rows, strict=True) if row["class"] == "turn_verified")
    turns = [abs(t.net_turn - float(r["net_turn_deg"])) for t, r in zip(tracks, rows, strict=True)]
    assert np.median(turns) < 3


@needs_vehicles
def test_all_tracks_become_recordings():
    with pytest.warns(DataWarning, match="M1008"):
        found = uavdt.read(VEHICLES, features="motion")
    assert Counter(found.labels)[""] == 26
    ends = [(np.nanmean(x[:20]), np.nanmean(x[-20:])) for x in found.new.column("proxy")]
    assert np.mean([abs(first - last) for first, last in ends]) > 0.5


@pytest.mark.parametrize("name", ["cmu", "uavdt"])
def test_checksums_are_those_of_the_files(name):
    folder = DATA / SOURCES[name].folder
    if not folder.is_dir():
        pytest.skip("no data here")
    found = state(SOURCES[name], folder)
    assert found["good"]
    assert not found["other"] + found["missing"]
