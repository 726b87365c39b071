"""Tables as people have them: separators, folders, patterns, columns nobody explained."""

from __future__ import annotations

import builtins
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mechtrace.data.panel import Panel
from mechtrace.data.read import read_inputs, read_panel
from mechtrace.errors import DataError
from mechtrace.io import csv_table


def frame(rows: int = 6, **columns: object) -> pd.DataFrame:
    """Two recordings of each of two regimes."""
    times, runs = np.tile(np.arange(rows) * 0.5, 4), np.repeat(["a", "b", "c", "d"], rows)
    modes = np.repeat(["up", "down"], 2 * rows)
    x = np.linspace(-1.5, 1.5, 4 * rows)
    base = {"t": times, "run": runs, "mode": modes, "x": x, "y": x**2}
    return pd.DataFrame(base | columns)


def write(folder: Path, table: pd.DataFrame, name: str = "runs.csv", **how: object) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(path, index=False, **how)  # type: ignore[arg-type]
    return path


# --- separators --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("separator", "decimal", "note"),
    [
        (",", ".", ""),
        (";", ",", "semicolons between cells, decimal commas (detected)"),
        (";", ".", "semicolons between cells (detected)"),
        ("\t", ",", "tabs between cells, decimal commas (detected)"),
        ("|", ".", "bars between cells (detected)"),
    ],
)
def test_separators_and_decimals_are_recognised(tmp_path, separator, decimal, note):
    path = write(tmp_path, frame(), sep=separator, decimal=decimal)
    reading = read_panel(path)
    assert reading.panel.channels == ("x", "y")
    np.testing.assert_allclose(reading.panel.values[:, 0], np.linspace(-1.5, 1.5, 24))
    assert reading.panel["b"].time[1] == 0.5
    assert note in reading.summary
    assert ("between cells" in reading.summary) == bool(note)


def test_separators_inside_names_do_not_mislead(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('time,"x; left",y\n0,1.5,2\n1,2.5,3\n')
    assert read_panel(path).panel.channels == ("x; left", "y")
    path.write_text("zeit, s;x, mm\n0,5;1,5\n1,0;2,5\n")
    assert read_panel(path, time="zeit, s").panel.values.tolist() == [[1.5], [2.5]]


def test_places_are_named_by_line_with_any_separator(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("t;x\n0;1,5\n1;zwei\n2;2,5\n")
    with pytest.raises(DataError, match=r"'zwei' in column 'x', line 3"):
        read_panel(path)


def test_blanks_around_names_do_not_count(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("t , mode, x \n0, up, 1\n1, up, 2\n2, down, 3\n")
    panel = read_panel(path).panel
    assert panel.channels == ("x",)
    assert panel.regimes == ("down", "up")


# --- columns nobody explained ------------------------------------------------------------------


def test_text_empty_and_counting_columns_are_left_out_and_listed(tmp_path):
    n = len(frame())
    table = frame(
        note="ok", empty=np.nan, frame=np.tile(np.arange(6), 4), id=np.arange(n), speed=1.0
    )
    table.to_csv(tmp_path / "runs.csv")  # with the index, which has no name
    reading = read_panel(tmp_path / "runs.csv")
    assert reading.panel.channels == ("x", "y", "speed")
    assert (
        "left out: column 1 (has no name), id (differs in every row), note (text),"
        " empty (empty), frame (another clock)"
    ) in reading.summary


def test_a_word_among_numbers_is_an_error_not_text(tmp_path):
    path = write(tmp_path, frame().astype({"x": str}).replace({"x": {"-1.5": "low"}}))
    with pytest.raises(DataError, match="'low' in column 'x', line 2 is not a number"):
        read_panel(path)


def test_trials_counted_anew_for_each_subject_are_told_apart(tmp_path):
    table = frame(subject=np.repeat(["s1", "s2"], 12), trial=np.repeat([1, 2, 1, 2], 6))
    reading = read_panel(write(tmp_path, table.drop(columns="run")))
    assert reading.panel.names.tolist() == ["s1/1", "s1/2", "s2/1", "s2/2"]
    assert "series = subject,trial (detected)" in reading.summary
    given = read_panel(tmp_path / "runs.csv", series="subject,trial")
    assert given.panel.names.tolist() == reading.panel.names.tolist()
    assert reading.panel.channels == given.panel.channels == ("x", "y")


def test_a_blank_in_one_of_two_names_is_refused(tmp_path):
    table = frame(subject=np.repeat(["s1", "s2"], 12), trial=np.repeat(["1", "2", "", "2"], 6))
    path = write(tmp_path, table.drop(columns="run"))
    with pytest.raises(DataError, match=r"no series name in column 'subject,trial', line 14"):
        read_panel(path)


def test_rows_counted_in_each_series_are_no_channel(tmp_path):
    reading = read_panel(write(tmp_path, frame(sequence=np.tile(np.arange(6), 4))))
    assert reading.panel.names.tolist() == ["a", "b", "c", "d"]
    assert reading.left_out == {"sequence": "another clock"}


def test_what_is_the_same_throughout_each_series_is_no_channel(tmp_path):
    reading = read_panel(write(tmp_path, frame(subject=np.repeat([1, 2], 12))))
    assert reading.panel.names.tolist() == ["a", "b", "c", "d"]
    assert reading.left_out == {"subject": "same throughout each series"}


def test_recordings_without_a_name_begin_where_the_clock_goes_back(tmp_path):
    reading = read_panel(write(tmp_path, frame().drop(columns="run")))
    assert reading.panel.lengths.tolist() == [6, 6, 6, 6]
    assert "a new series wherever t goes back (detected)" in reading.summary
    assert reading.panel.channels == ("x", "y")


def test_a_measurement_called_phase_is_no_regime(tmp_path):
    n = 240
    table = pd.DataFrame({"t": range(n), "phase": np.linspace(0, 1, n), "x": 1.0})
    reading = read_panel(write(tmp_path, table))
    assert not reading.panel.labelled
    assert reading.panel.channels == ("phase", "x")


def test_channels_of_a_model_are_never_taken_for_roles(tmp_path):
    table = pd.DataFrame({"time": range(5), "t": [3.0, 1, 2, 5, 4], "unit": [1.0, 2, 1, 2, 1]})
    reading = read_panel(write(tmp_path, table), channels=["t", "unit"], labelled=False)
    assert reading.panel.channels == ("t", "unit")
    assert "time = time (detected), no series" in reading.summary


def test_a_file_without_a_column_for_it_names_the_recording(tmp_path):
    table = frame()[["t", "x"]].head(6)
    assert read_panel(write(tmp_path, table, "monday.csv.gz")).panel.names.tolist() == ["monday"]


def test_days_come_first_where_points_stand_between(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("t;x\n31.01.2024 12:30:00.5;1,5\n01.02.2024 00:00:00.5;2,5\n")
    panel = read_panel(path).panel
    assert panel.time[0] == np.datetime64("2024-01-31T12:30:00.5")
    assert panel.time[1] == np.datetime64("2024-02-01T00:00:00.5")


# --- several files -----------------------------------------------------------------------------


def test_files_are_one_panel_whatever_their_type(tmp_path):
    whole = Panel.from_frame(frame(), time="t", series="run", regime="mode")
    for i, name in enumerate("abcd"):
        part = whole[[name]]
        (part.to_csv, part.to_npz, part.to_parquet, part.to_csv)[i](
            tmp_path / f"{name}.{('csv', 'npz', 'parquet', 'tsv')[i]}"
        )
    reading = read_inputs([tmp_path])
    assert reading.panel.fingerprint() == whole.fingerprint()
    assert reading.panel.names.tolist() == ["a", "b", "c", "d"]
    assert reading.panel.regimes == ("down", "up")
    assert reading.summary.startswith("4 files, a.csv to d.tsv: time = time (detected)")


def test_one_series_per_file_and_the_folder_as_regime(tmp_path):
    for mode in ("walk", "run"):
        for k in range(3):
            write(tmp_path, frame()[["t", "x", "y"]].head(6), f"{mode}/trial{k}.csv")
    reading = read_inputs([tmp_path])
    assert reading.panel.regimes == ("run", "walk")
    assert reading.panel.names.tolist()[0] == "run/trial0"
    assert "one series per file, regime = name of the folder (detected)" in reading.summary
    assert set(reading.panel["walk/trial1"].regime.tolist()) == {"walk"}
    assert not read_inputs([tmp_path], labelled=False).panel.labelled


def test_series_of_one_name_in_two_files_stay_apart(tmp_path):
    for name in ("mon.csv", "tue.csv"):
        write(tmp_path, frame(), name)
    names = read_inputs([tmp_path]).panel.names.tolist()
    assert names[:2] == ["mon/a", "mon/b"]
    assert len(names) == 8


def test_columns_that_only_some_files_have(tmp_path):
    write(tmp_path, frame(), "a.csv")
    write(tmp_path, frame(z=1.0), "b.csv")
    reading = read_inputs([tmp_path])
    assert reading.panel.channels == ("x", "y")
    assert "not in a.csv, so left out: 'z'" in reading.summary
    write(tmp_path, frame().drop(columns="y"), "c.csv")
    with pytest.raises(DataError, match=r"c\.csv: there is no column 'y'"):
        read_inputs([tmp_path])


def test_npz_files_of_other_channels_are_refused(tmp_path):
    Panel.from_arrays(np.ones((1, 4, 2))).to_npz(tmp_path / "a.npz")
    Panel.from_arrays(np.ones((1, 4, 1))).to_npz(tmp_path / "b.npz")
    with pytest.raises(DataError, match=r"b\.npz: there is no channel 'x1'"):
        read_inputs([tmp_path])
    assert read_inputs([tmp_path / "a.npz"], channels=["x1"]).panel.channels == ("x1",)


# --- each file once ----------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_a_table_is_opened_and_its_dialect_detected_once(tmp_path, monkeypatch, suffix):
    for name in ("mon", "tue"):
        path = tmp_path / f"{name}{suffix}"
        if suffix == ".parquet":
            frame().to_parquet(path)
        else:
            write(tmp_path, frame(), path.name, sep=";", decimal=",")
    opened, detected = [], []

    def noting(calls, real):
        return lambda *given, **options: [calls.append(given[0]), real(*given, **options)][1]

    monkeypatch.setattr(builtins, "open", noting(opened, builtins.open))
    monkeypatch.setattr(pd, "read_parquet", noting(opened, pd.read_parquet))
    monkeypatch.setattr(csv_table, "detect_dialect", noting(detected, csv_table.detect_dialect))
    reading = read_inputs([tmp_path])
    assert len(reading.panel) == 8
    names = sorted(Path(str(path)).name for path in opened if str(path).endswith(suffix))
    assert names == [f"mon{suffix}", f"tue{suffix}"]
    assert len(detected) == (0 if suffix == ".parquet" else 2)


def test_a_table_larger_than_the_sample_is_read_whole(tmp_path):
    rows = 3 * csv_table.SAMPLE_LINES
    table = pd.DataFrame({"t": np.arange(rows) * 0.5, "x": np.linspace(-1, 1, rows)})
    for name in ("a.csv", "a.csv.gz"):
        panel = read_panel(write(tmp_path, table, name)).panel
        np.testing.assert_array_equal(panel.values[:, 0], table["x"])
    path = tmp_path / "a.csv"
    path.write_text(path.read_text().replace("1499.5,1.0", "1499.5,high"))
    with pytest.raises(DataError, match=f"'high' in column 'x', line {rows + 1}"):
        read_panel(path)
