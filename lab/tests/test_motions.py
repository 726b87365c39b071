"""Motion files: kinematics, cleaning, steps, channels, and a folder of them as recordings."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from motions import acclaim, bvh

from mechtrace.errors import ConfigError, DataError
from mechtrace_lab.datasets import cmu
from mechtrace_lab.datasets.asf import read_amc
from mechtrace_lab.datasets.bvh import read_bvh
from mechtrace_lab.datasets.gait import channels_of, speed_proxy
from mechtrace_lab.datasets.motion import Motion, read_motion
from mechtrace_lab.datasets.skeleton import rotations


def test_rotations_turn_as_they_should():
    turned = rotations(np.array([90.0, 0.0, 90.0]), "zyx") @ [0.0, 1.0, 0.0]
    assert turned == pytest.approx([0.0, 0.0, 1.0], abs=1e-12)  # x first: y to z, then z stays
    random = rotations(np.random.default_rng(0).uniform(-180, 180, (20, 3)), "xyz")
    assert random @ random.swapaxes(1, 2) == pytest.approx(np.broadcast_to(np.eye(3), (20, 3, 3)))


def test_a_bvh_file_gives_the_places_of_joints(tmp_path):
    bvh(tmp_path / "1_1.bvh", speed=1.2, pose=False)
    found = read_bvh(tmp_path / "1_1.bvh")
    assert found.rate == pytest.approx(120, rel=1e-4)
    assert found.names[:3] == ("Hips", "LeftUpLeg", "LeftLeg")
    assert found.names[5] == "LeftToeBaseEnd"
    hips, knee = found.positions[0, 0], found.positions[0, 2]
    assert hips == pytest.approx([0, 16, 0])
    assert knee == pytest.approx([1.5, 16 - 1 - 7, 0])  # all angles are zero in the first frame
    thigh = found.positions[:, 2] - found.positions[:, 1]
    assert np.linalg.norm(thigh, axis=1) == pytest.approx(7)
    assert np.ptp(thigh[:, 2]) > 3  # it swings along the way


def test_an_amc_file_turns_bones_about_their_own_axes(tmp_path):
    still = ["1", "root 1 2 3 0 0 0", "lfemur 0 0 0", "ltibia 0"]
    bent = ["2", "root 1 2 3 0 0 0", "lfemur 0 90 0", "ltibia 0"]
    turned = ["3", "root 1 2 3 0 0 90", "lfemur 0 0 0", "ltibia 90"]
    found = read_amc(acclaim(tmp_path, [*still, *bent, *turned]))
    assert found.names == ("root", "lfemur", "ltibia")
    assert found.positions[0] == pytest.approx(np.array([[1, 2, 3], [1, -5, 3], [1, -11, 3]]))
    # its y axis is the body's -x, about which -y goes to +z
    assert found.positions[1, 1] == pytest.approx([1, 2, 10])
    assert found.positions[1, 2] == pytest.approx([1, 2, 16])
    # the body lies on its side, and the shank turns about what was x
    assert found.positions[2, 1] == pytest.approx([8, 2, 3])
    assert found.positions[2, 2] == pytest.approx([8, 2, -3])


def test_a_pose_in_front_and_jumps_are_removed(tmp_path):
    bvh(tmp_path / "1_1.bvh", speed=1.2)
    motion = read_motion(tmp_path / "1_1.bvh")
    assert len(motion) == 120
    jumping = motion.positions.copy()
    jumping[:5, :, 0] += 1.6
    assert len(Motion(motion.names, jumping, 120.0).cleaned()) == 115


def test_speed_steps_and_flights(tmp_path):
    bvh(tmp_path / "1_1.bvh", speed=1.5)
    motion = read_motion(tmp_path / "1_1.bvh")
    assert motion.hip_speed() == pytest.approx(1.5, rel=1e-3)
    high = motion.positions.copy()
    high[60:, :, 1] += 0.5  # nobody stands half a metre above the floor
    flying = Motion(motion.names, high, motion.rate).flight_fraction(1 / 120)
    assert flying[62:].all()
    standing = Motion(motion.names, np.repeat(motion.positions[:1], 50, axis=0), 120.0)
    assert standing.contacts().all()
    assert not standing.flight_fraction().any()


@pytest.mark.parametrize("features", ["paper", "legs"])
def test_channels_do_not_depend_on_place_and_heading(tmp_path, features):
    bvh(tmp_path / "1_1.bvh", speed=1.5)
    motion = read_motion(tmp_path / "1_1.bvh")
    turn = rotations(np.array([40.0]), "y")
    moved = Motion(motion.names, motion.positions @ turn.T + [3.0, 0.0, -2.0], motion.rate)
    here, there = channels_of(motion, features), channels_of(moved, features)
    assert list(here) == list(there)
    for name in here:
        assert there[name] == pytest.approx(here[name], abs=1e-6)


def test_legs_know_nothing_of_the_speed_of_the_hips(tmp_path):
    bvh(tmp_path / "1_1.bvh", speed=1.5)
    motion = read_motion(tmp_path / "1_1.bvh")
    drift = np.zeros_like(motion.positions)
    drift[:, :, 2] = np.linspace(0, 5, len(motion))[:, None]
    faster = Motion(motion.names, motion.positions + drift, motion.rate)
    before, after = channels_of(motion, "legs"), channels_of(faster, "legs")
    assert len(before) == 18
    for name in before:
        assert after[name] == pytest.approx(before[name])
    paper = channels_of(faster, "paper")["hip speed"] - channels_of(motion, "paper")["hip speed"]
    assert paper.min() > 1


def test_a_folder_becomes_recordings(tmp_path):
    for trial, speed in ((1, 1.2), (2, 1.4)):
        bvh(tmp_path / "walk" / f"02_0{trial}.bvh", speed)
    bvh(tmp_path / "run" / "09_01.bvh", 3.5, swing=40.0)
    bvh(tmp_path / "transition" / "16_55.bvh", 2.2)
    found = cmu.read(tmp_path, rate=30)
    assert found.panel.names.tolist() == ["09_01", "16_55", "02_01", "02_02"]
    assert found.labels == ["run", "", "walk", "walk"]
    assert found.panel.groups.tolist() == ["09", "16", "02", "02"]
    assert found.panel.lengths.tolist() == [30] * 4
    assert found.panel.usual_step == pytest.approx(1 / 30, rel=1e-4)
    assert found.new.panel.names.tolist() == ["16_55"]
    assert found.pure.column("hip speed")[0] == pytest.approx(3.5, rel=1e-3)
    with pytest.raises(DataError, match="there is no 'nonsense' beside"):
        found.column("nonsense")


def test_the_proxy_is_cut_and_needs_two_speeds():
    assert speed_proxy(np.array([5.0]), 1.0, 3.0, clip=False) == 2.0
    with pytest.raises(ConfigError, match="not faster"):
        speed_proxy(np.zeros(3), 2.0, 1.0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nothing", "no HIERARCHY"),
        ("HIERARCHY ROOT a { OFFSET 0 0 0 MOTION Frames: 1 Frame Time: 1 0", "does not end"),
        ("HIERARCHY ROOT a { OFFSET 0 0 x } MOTION", "cannot be read"),
        ("HIERARCHY ROOT a { CHANNELS 1 Wrotation } MOTION Frames: 1 Frame Time: 1 0", "unknown"),
        (
            "HIERARCHY ROOT a { CHANNELS 1 Xrotation } MOTION Frames: 2 Frame Time: 1 0",
            "1 numbers",
        ),
        ("HIERARCHY ROOT a { CHANNELS 1 Xrotation } MOTION Frames: 1 Frame Time: 1 nan", "finite"),
        ("HIERARCHY ROOT a { CHANNELS 1 Xrotation } MOTION Frames: one", "cannot be read"),
    ],
)
def test_damaged_bvh_files_are_refused_in_a_sentence(tmp_path, text, words):
    path = tmp_path / "1_1.bvh"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=words) as refusal:
        read_bvh(path)
    assert "1_1.bvh: " in str(refusal.value)


def test_damaged_acclaim_files_are_refused(tmp_path):
    with pytest.raises(DataError, match="do not fit the skeleton"):
        read_amc(acclaim(tmp_path, ["1", "root 1 2 3 0 0 0", "rfemur 1"]))
    with pytest.raises(DataError, match="no frames"):
        read_amc(acclaim(tmp_path, []))
    (tmp_path / "01.asf").write_text(":root\n", encoding="utf-8")
    with pytest.raises(DataError, match="no ASF file"):
        read_amc(tmp_path / "01_01.amc")


def test_missing_data_is_one_sentence_with_a_way_out(tmp_path, monkeypatch):
    monkeypatch.delenv("MECHTRACE_DATA", raising=False)
    with pytest.raises(DataError, match="mechtrace datasets cmu"):
        cmu.read()
    with pytest.raises(DataError, match="no such folder"):
        cmu.read(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"no \.bvh or \.amc"):
        cmu.read(tmp_path)
    monkeypatch.setenv("MECHTRACE_DATA", str(tmp_path))
    bvh(tmp_path / "cmu_mocap" / "walk" / "02_01.bvh", 1.2)
    assert len(cmu.read().panel) == 1


def test_joints_with_a_prefix_and_other_units(tmp_path):
    bvh(tmp_path / "1_1.bvh", speed=1.5, prefix="mixamorig:")
    motion = read_motion(tmp_path / "1_1.bvh", 0.0254 / 0.45 / 2)
    assert motion.hip_speed() == pytest.approx(0.75, rel=1e-3)
    with pytest.raises(ConfigError, match="unit"):
        read_motion(tmp_path / "1_1.bvh", 0.0)


def test_a_folder_becomes_two_tables(tmp_path, command):
    trials, pure, new = tmp_path / "trials", tmp_path / "pure.csv", tmp_path / "new.csv"
    bvh(trials / "walk" / "02_01.bvh", 1.2)
    bvh(trials / "run" / "09_01.bvh", 3.5, swing=40.0)
    bvh(trials / "16_55.bvh", 2.2)  # in no folder, so without a regime
    assert command("motion", trials, "--out", pure, "--new", new)[0] == 0
    table = pd.read_csv(pure)
    assert set(zip(table["series"], table["group"], table["regime"], strict=True)) == {
        ("02_01", "S02", "walk"), ("09_01", "S09", "run"),
    }  # fmt: skip
    assert list(pd.read_csv(new).columns[:4]) == ["series", "time", "group", "left thigh left"]
    code, out, _ = command("motion", trials, "--out", pure)
    assert (code, "1 trials have no regime" in out) == (0, True)
    (trials / "16_55.bvh").unlink()
    assert "every trial has a regime" in command("motion", trials, "-o", pure, "--new", new)[2]
    assert "no trial has a regime" in command("motion", trials / "walk", "--out", pure)[2]
