"""Columns: what is detected, what is listed, and whose error is shown."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mechtrace.data.panel import Panel
from mechtrace.data.read import read_panel
from mechtrace.errors import DataError
from mechtrace.io.column_names import USUAL_NAMES, detect_roles

NOTHING: dict[str, str | None] = {"time": None, "series": None, "regime": None}


def table() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "Run": ["a", "a", "a", "b", "b", "b"],
            "t": [0.0, 0.5, 1.0, 0.0, 0.5, 1.0],
            "mode": ["up", "up", "up", "down", "down", "down"],
            "x": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
            "y": [6.0, 5.0, 4.0, 3.0, 2.0, 1.0],
        }
    )


def written(folder: Path, suffix: str, frame: pd.DataFrame | None = None) -> Path:
    frame = table() if frame is None else frame
    path = folder / f"pump{suffix}"
    if suffix in (".parquet", ".pq"):
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False, sep="\t" if ".tsv" in suffix else ",")
    return path


# --- detecting ---------------------------------------------------------------------------------


@pytest.mark.parametrize("role", sorted(USUAL_NAMES))
def test_every_usual_name_is_found_in_any_case(role: str) -> None:
    for name in USUAL_NAMES[role]:
        for spelling in (name, name.upper(), name.title()):
            found = detect_roles(["x", spelling, "y"], NOTHING)
            assert found == {**NOTHING, role: spelling}


@pytest.mark.parametrize("name", ["Time (s)", "time [ms]", "t_ms", "TIME_S", "Elapsed (min)"])
def test_units_in_names_do_not_hide_them(name: str) -> None:
    assert detect_roles(["x", name], NOTHING)["time"] == name


def test_preferred_names_come_first_wherever_they_stand() -> None:
    names = ["date", "id", "class", "x", "regime", "run", "time"]
    assert detect_roles(names, NOTHING) == {"time": "time", "series": "run", "regime": "regime"}


def test_no_usual_name_can_mean_two_roles() -> None:
    every = [name for names in USUAL_NAMES.values() for name in names]
    assert len(set(every)) == len(every)


def test_of_two_spellings_the_first_column_wins() -> None:
    assert detect_roles(["Time", "time", "x"], NOTHING)["time"] == "Time"


def test_given_names_win_and_are_not_given_twice() -> None:
    names = ["time", "frame", "label", "state", "x"]
    given = {"time": "frame", "series": "label", "regime": None}
    assert detect_roles(names, given) == {"time": "frame", "series": "label", "regime": "state"}
    # the only usual name is taken by another role
    assert detect_roles(["t", "x"], {**NOTHING, "regime": "t"})["time"] is None
    assert detect_roles(["t", "x"], {"time": "clock"})["time"] == "clock"


# --- reading -----------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".tsv", ".parquet", ".pq"])
def test_tables_are_read_with_detected_columns(tmp_path: Path, suffix: str) -> None:
    reading = read_panel(written(tmp_path, suffix))
    panel, summary = reading.panel, reading.summary
    assert panel.names.tolist() == ["a", "b"]
    assert panel.regimes == ("down", "up")
    assert panel.channels == ("x", "y")
    assert panel["b"].time.tolist() == [0.0, 0.5, 1.0]
    assert set(panel["b"].regime.tolist()) == {"down"}
    np.testing.assert_array_equal(panel.values, table()[["x", "y"]].to_numpy())
    assert summary == (
        f"pump{suffix}: time = t (detected), series = Run (detected), regime = mode (detected); "
        "2 series, 6 rows, 2 channels (x, y); regimes: down, up"
    )


def test_the_message_tells_given_from_detected_and_missing(tmp_path: Path) -> None:
    frame = table().drop(columns="mode").rename(columns={"Run": "wheel"})
    path = written(tmp_path, ".csv", frame)
    reading = read_panel(path, series="wheel")
    panel, summary = reading.panel, reading.summary
    assert panel.names.tolist() == ["a", "b"]
    assert not panel.labelled
    assert summary == (
        "pump.csv: time = t (detected), series = wheel, no regime; "
        "2 series, 6 rows, 2 channels (x, y)"
    )


def test_a_given_column_wins_over_a_usual_one(tmp_path: Path) -> None:
    frame = table().assign(kind=["p"] * 3 + ["q"] * 3, mode=range(6))
    reading = read_panel(written(tmp_path, ".csv", frame), regime="kind")
    panel, summary = reading.panel, reading.summary
    assert panel.regimes == ("p", "q")
    assert "mode" in panel.channels
    assert "regime = kind;" in summary


def test_large_counts_are_grouped(tmp_path: Path) -> None:
    path = written(tmp_path, ".csv", pd.DataFrame({"time": range(1234), "x": range(1234)}))
    assert read_panel(path).summary.endswith("1 series, 1,234 rows, 1 channel (x)")


def test_npz_needs_no_detection(tmp_path: Path) -> None:
    path = tmp_path / "pump.npz"
    panel = Panel.from_arrays(np.ones((2, 3, 2)), regime=["a", "b"])
    panel.to_npz(path)
    reading = read_panel(path)
    back, summary = reading.panel, reading.summary
    assert back.fingerprint() == panel.fingerprint()
    assert summary == "pump.npz: 2 series, 6 rows, 2 channels (x0, x1); regimes: a, b"


def test_npz_refuses_column_names(tmp_path: Path) -> None:
    path = tmp_path / "pump.npz"
    Panel.from_arrays(np.ones((2, 3, 2))).to_npz(path)
    with pytest.raises(DataError, match="no columns to choose from"):
        read_panel(path, regime="mode")


def test_missing_is_passed_on(tmp_path: Path) -> None:
    frame = table()
    frame.loc[1, "x"] = np.nan
    path = written(tmp_path, ".csv", frame)
    with pytest.raises(DataError, match="'x', line 3"):
        read_panel(path)
    assert read_panel(path, missing="gap").panel.observed().tolist() == [True, False] + [True] * 4
    assert read_panel(path, missing="interpolate").panel.values[1, 0] == 2.0


def test_a_byte_order_mark_hides_no_column(tmp_path: Path) -> None:
    path = tmp_path / "pump.csv"
    path.write_text("time,x\n0.5,1\n1.5,2\n", encoding="utf-8-sig")
    assert read_panel(path).summary.startswith("pump.csv: time = time (detected)")


def test_blank_lines_before_the_header(tmp_path: Path) -> None:
    path = tmp_path / "pump.csv"
    path.write_text("\ntime,mode,x\n0.5,a,1\n1.5,b,2\n")
    assert read_panel(path).panel.regimes == ("a", "b")


# --- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", None, "there is no such file"),
        ("a.parquet", None, "there is no such file"),
        ("a.npz", None, "there is no such file"),
        ("a.csv", b"", "the file is empty"),
        ("a.csv", b"\n\n", "nothing but blank lines"),
        ("a.csv", b"t,x\x81\n0,1\n", "not UTF-8"),
        ("a.csv", b"t,x\n", "a header but no rows"),
        ("a.csv", b"t,run\n0,1\n", "channel"),
        ("a.csv.gz", b"no gzip at all", "cannot be read"),
        ("a.csv.gz", gzip.compress(b"t,x\n0,1\n" * 99, mtime=0)[:-9], "cannot be read"),
        ("a.parquet", b"PAR1 and then nothing", "cannot be read"),
        ("a.txt", b"t,x\n0,1\n", "the file type '.txt' is not known"),
        ("a.bin", bytes(range(256)), "the file type '.bin' is not known"),
    ],
)
def test_unreadable_files_lead_to_the_readers_error(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read_panel(path)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_damaged_gzip_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    text = "t,x\n" + "".join(f"{i},{v:.6f}\n" for i, v in enumerate(rng.standard_normal(400)))
    raw = bytearray(gzip.compress(text.encode(), mtime=0))
    raw[10] = 0xFF  # the first byte of the compressed stream: an invalid block type
    path = tmp_path / "a.csv.gz"
    path.write_bytes(raw)
    with pytest.raises(DataError, match="cannot be read"):
        read_panel(path)


def test_folders_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "runs.csv"
    folder.mkdir()
    with pytest.raises(DataError, match="this is a folder"):
        read_panel(folder)


def test_a_given_column_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no column 'gear' \(asked for as regime\)"):
        read_panel(written(tmp_path, ".csv"), regime="gear")
