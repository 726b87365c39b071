"""Recovered tables read again, and `mechtrace calibrate` as a user meets it."""

from __future__ import annotations

import gzip
import json
import re
import tracemalloc
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import mechtrace as mt
from mechtrace.errors import DataError
from mechtrace.io import tables
from mechtrace.stage2 import trajectory
from mechtrace.stage2.calibration import KnownInterval
from mechtrace.stage2.trajectory import read_curves, write_curves


@pytest.fixture(scope="module")
def paths(trained, world):
    """Recovered curves whose weights are replaced by the truth, compressed."""
    run = world.transition("simple", series=3, seed=4)
    alpha = 0.6 * run.alpha[0] + 0.4 / 3
    return [
        replace(path, alpha=alpha, lower=alpha - 0.1, upper=alpha + 0.1)
        for path in trained.recover(run.panel)
    ]


@pytest.fixture
def table(paths, tmp_path):
    write_curves(paths, tmp_path / "alpha.csv")
    return tmp_path / "alpha.csv"


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_comes_back_as_it_was(paths, tmp_path, suffix):
    file = tmp_path / f"alpha{suffix}"
    write_curves(paths, file)
    for before, after in zip(paths, read_curves(file), strict=True):
        assert (before.name, before.regimes) == (after.name, after.regimes)
        for part in ("time", "alpha", "lower", "upper", "residual", "flag"):
            np.testing.assert_array_equal(getattr(before, part), getattr(after, part))


@pytest.mark.parametrize("suffix", [".csv", ".tsv.gz", ".parquet"])
@pytest.mark.parametrize("rows", [7, 20, 25])  # less than a series of 20 rows, one, and more
def test_a_table_is_the_same_if_it_is_written_in_blocks(
    paths, tmp_path, monkeypatch, suffix, rows
):
    whole, blocks = tmp_path / f"whole{suffix}", tmp_path / f"blocks{suffix}"
    write_curves(paths, whole)
    written = []
    monkeypatch.setattr(trajectory, "WRITTEN_ROWS", rows)
    monkeypatch.setattr(tables, "WRITTEN_ROWS", rows)
    join = pd.concat
    monkeypatch.setattr(pd, "concat", lambda *a, **k: written.append(1) or join(*a, **k))
    write_curves(paths, blocks)
    assert len(written) > 1
    if suffix == ".parquet":
        pd.testing.assert_frame_equal(pd.read_parquet(blocks), pd.read_parquet(whole))
    else:
        opened = gzip.open if suffix.endswith(".gz") else open
        with opened(whole, "rb") as expected, opened(blocks, "rb") as found:
            assert found.read() == expected.read()


def test_the_memory_of_writing_does_not_grow_with_the_table(paths, tmp_path, monkeypatch):
    monkeypatch.setattr(trajectory, "WRITTEN_ROWS", 5_000)
    monkeypatch.setattr(tables, "WRITTEN_ROWS", 5_000)
    one, peaks = paths[0], []
    write_curves(paths, tmp_path / "alpha.csv")  # imports
    for rows in (10_000, 40_000):
        parts = {name: getattr(one, name) for name in trajectory.COLUMNS}
        long = {name: np.resize(part, (rows, *part.shape[1:])) for name, part in parts.items()}
        path = replace(one, **long)
        tracemalloc.start()
        write_curves([path], tmp_path / "alpha.csv")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0]


NAMES = [
    ("time", "flag", "residual"),
    ("a", "a_lower", "b"),
    ("a_lower", "series", "a_lower_lower"),
    ("walk", "time", "share:time"),
    ("lower:x", "x", "x_upper"),
    ("x", "x_lower", "x_lower_lower"),
    ("walk", "run", "stand_lower"),
]


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
@pytest.mark.parametrize("names", NAMES, ids=",".join)
def test_no_name_of_a_regime_overwrites_a_column(paths, tmp_path, names, suffix):
    renamed = [replace(path, regimes=names) for path in paths]
    frame = renamed[0].to_frame()
    assert len(set(frame.columns)) == len(frame.columns) == 3 + 3 * len(names)
    np.testing.assert_array_equal(frame["time"], paths[0].time)
    assert frame["flag"].tolist() == paths[0].flag.tolist()
    file = tmp_path / f"alpha{suffix}"
    write_curves(renamed, file)
    for before, after in zip(renamed, read_curves(file), strict=True):
        assert (before.name, before.regimes) == (after.name, after.regimes)
        for part in ("time", "alpha", "lower", "upper", "residual", "flag"):
            np.testing.assert_array_equal(getattr(before, part), getattr(after, part))


def test_only_names_that_collide_are_written_otherwise(paths):
    frame = replace(paths[0], regimes=("walk", "time", "stand_lower")).to_frame()
    assert list(frame.columns) == [
        "time", "walk", "share:time", "stand_lower", "walk_lower", "walk_upper",
        "lower:time", "upper:time", "stand_lower_lower", "stand_lower_upper", "residual", "flag",
    ]  # fmt: skip


def test_one_curve_without_a_series_column_and_without_flags(paths, tmp_path):
    frame = paths[0].to_frame().assign(flag="")
    frame["time"] = pd.Timestamp("2024-05-01") + pd.to_timedelta(frame["time"], unit="h")
    frame.to_csv(tmp_path / "one.csv", index=False)
    (path,) = read_curves(tmp_path / "one.csv")
    assert path.time.dtype.kind == "M"
    assert (path.flag == "").all()
    np.testing.assert_allclose(path.alpha, paths[0].alpha, atol=1e-12)
    known = [KnownInterval.parse("2024-05-01T00:00..2024-05-01T06:00=R0"),
             KnownInterval.parse("2024-05-01T14:00..2024-05-02=R2")]  # fmt: skip
    assert path.calibrate(known).calibration == "two-point"


def test_a_file_that_is_no_table_of_curves_is_refused(tmp_path):
    (tmp_path / "x.csv").write_text("time,A,A_lower,A_upper,B\n0,1,1,1,0\n")
    with pytest.raises(DataError, match=r"x.csv.*no column 'residual'.*recover"):
        read_curves(tmp_path / "x.csv")
    (tmp_path / "y.csv").write_text("time,residual,flag\n0,1,\n")
    with pytest.raises(DataError, match="there are no shares"):
        read_curves(tmp_path / "y.csv")


@pytest.mark.parametrize("how", [[], ["--how", "matrix"]])
def test_calibrate_writes_a_table(command, table, tmp_path, how):
    facts = tmp_path / "facts.json"
    known = ["--anchor", "0:5=R0", "--anchor", "14:19=R2", "--anchor", "8:11=R1"]
    code, out, err = command(
        "calibrate", table, *known, *how, "--out", tmp_path / "b.csv", "--json", facts
    )
    assert code == 0, err
    assert "3 recordings, corrected by matrix calibration" in out
    assert json.loads(facts.read_text())["how"] == "matrix"
    frame, before = pd.read_csv(tmp_path / "b.csv"), pd.read_csv(table)
    assert list(frame) == list(before)
    np.testing.assert_allclose(frame[["R0", "R1", "R2"]].sum(axis=1), 1, atol=1e-9)
    assert not np.allclose(frame["R0"], before["R0"])
    pd.testing.assert_frame_equal(
        frame[["series", "time", "residual", "flag"]],
        before[["series", "time", "residual", "flag"]],
    )


def test_a_stretch_may_speak_of_one_recording(command, table, paths, tmp_path):
    known = ["--anchor", "0/0:5=R0", "--anchor", "2/12..19=R1:0.3,R2:0.7"]
    code, out, _ = command("calibrate", table, *known, "--out", tmp_path / "b.parquet", "--quiet")
    assert (code, out) == (0, "")
    (first, _, last) = read_curves(tmp_path / "b.parquet")
    assert first.alpha[:6, 0].mean() > paths[0].alpha[:6, 0].mean()
    assert last.alpha[12:, 2].mean() > paths[2].alpha[12:, 2].mean()


BAD = {
    "unknown regime": (
        ["--anchor", "0:5=hop", "--anchor", "6:9=R1"],
        "no regime 'hop'.*R0, R1, R2",
    ),
    "empty stretch": (["--anchor", "50:60=R0", "--anchor", "6:9=R1"], "between 50 and 60"),
    "unknown series": (["--anchor", "x/0:5=R0", "--anchor", "6:9=R1"], "no series 'x'"),
    "one stretch": (["--anchor", "0:5=R0"], "does not determine a scale"),
    "bad text": (["--anchor", "0-5=R0"], "FROM:TO=REGIME"),
    "bad way": (["--anchor", "0:5=R0", "--how", "magic"], "how = 'magic'"),
    "no matrix": (["--anchor", "0:5=R0", "--how", "matrix"], "no pure interval of R1"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_requests_get_one_sentence(command, table, tmp_path, case):
    arguments, message = BAD[case]
    code, _, err = command("calibrate", table, *arguments, "--out", tmp_path / "b.csv")
    assert code == 2
    assert err.startswith("mechtrace: ")
    assert err.count("\n") == 1
    assert re.search(message, err), err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["alpha.csv"]


def test_calibrate_refuses_other_files(command, table, tmp_path):
    known = ["--anchor", "0:5=R0", "--anchor", "6:9=R1"]
    code, _, err = command("calibrate", tmp_path / "none.csv", *known, "--out", tmp_path / "b.csv")
    assert (code, "none.csv: there is no such file" in err) == (2, True)
    code, _, err = command("calibrate", table, *known, "--out", tmp_path / "b.txt")
    assert (code, "use .csv, " in err) == (2, True)
    assert "Example" in command("calibrate", "--help")[1]
    assert "mechtrace calibrate" in command("calibrate", "--help")[1]
    assert mt.Trajectory.calibrate.__doc__
