"""Text of loggers and spreadsheets: encodings, comments, units, thousands, times of all kinds."""

from __future__ import annotations

import builtins
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mechtrace.cli.inputs import read_labelled
from mechtrace.data.panel import Panel
from mechtrace.data.read import read_inputs, read_panel
from mechtrace.errors import DataError, MissingDependency
from mechtrace.io.csv_text import detect_encoding


def put(folder: Path, text: str, encoding: str = "utf-8", name: str = "a.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize(
    ("text", "encoding", "found"),
    [
        ("t;Größe;Öl\n1;2;3\n", "cp1252", "cp1252"),
        ("t;Größe;Öl\n1;2;3\n", "utf-8-sig", "utf-8-sig"),
        ("时间,压力\n1,2\n", "gbk", "gb18030"),
        ("时间,压力\n1,2\n", "utf-16-le", "utf-8-sig"),  # without a mark it is refused
        ("时间,压力\n1,2\n", "utf-16", "utf-16"),
        ("plain\n", "ascii", "utf-8-sig"),
    ],
)
def test_the_encoding_is_told_by_the_first_bytes(text, encoding, found):
    assert detect_encoding(text.encode(encoding)) == found


def test_a_commented_header_is_the_header(tmp_path):
    path = put(tmp_path, "# made by a script\n# t, x, y\n0,1.5,2\n1,2.5,3\n2,3.5,4\n")
    panel = read_panel(path).panel
    assert panel.channels == ("x", "y")
    assert panel.values[:, 0].tolist() == [1.5, 2.5, 3.5]


@pytest.mark.parametrize("first", ["#", "%CPU"])
def test_a_header_may_begin_with_the_sign_of_a_comment(tmp_path, first):
    rows = "".join(f"{k + 1.5},{k / 2},up,{k % 3}\n" for k in range(30))
    reading = read_panel(put(tmp_path, f"{first},t,mode,x\n" + rows))
    assert reading.header == (first, "t", "mode", "x")
    assert len(reading.panel.values) == 30


def test_the_hint_of_a_spreadsheet_is_the_separator(tmp_path):
    path = put(tmp_path, "sep=;\nt;x\n0;1,5\n1;2,5\n")
    assert read_panel(path).panel.values.tolist() == [[1.5], [2.5]]


def test_lines_are_counted_in_the_file_whatever_was_left_out(tmp_path):
    text = "# by hand\ntime,x,y\ns,bar,C\n0,1,2\ntime,x,y\n1,2,3\n2,high,4\n3,4,5\n"
    with pytest.raises(DataError, match="'high' in column 'x', line 7"):
        read_panel(put(tmp_path, text))


def test_one_word_below_the_header_is_an_error_and_no_unit(tmp_path):
    path = put(tmp_path, "t,x,y\n0,low,1\n1,2,3\n2,3,4\n")
    with pytest.raises(DataError, match="'low' in column 'x', line 2"):
        read_panel(path)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ('t,x\n0,"1,234.5"\n1,"12,000.0"\n', 1234.5),
        ("t;x\n0;1.234,5\n1;12.000,0\n", 1234.5),
    ],
)
def test_thousands_are_read_where_they_are_clear(tmp_path, text, first):
    reading = read_panel(put(tmp_path, text))
    assert reading.panel.values[0, 0] == first
    assert "thousands apart in x" in reading.summary


# --- times ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stamps",
    [
        ["31.1.2024 8:00:00", "31.1.2024 9:00:00", "1.2.2024 0:00:00"],
        ["2024/1/31 08:00", "2024/1/31 09:00", "2024/2/1 00:00"],
        ["2024年1月31日 08:00", "2024年1月31日 09:00", "2024年2月1日 00:00"],
        ["31/01/2024 08:00", "31/01/2024 09:00", "01/02/2024 00:00"],
        ["1/31/2024 08:00", "1/31/2024 09:00", "2/1/2024 00:00"],
    ],
)
def test_dates_of_many_countries(tmp_path, stamps):
    rows = "".join(f"{stamp},{k}.5\n" for k, stamp in enumerate(stamps))
    panel = read_panel(put(tmp_path, "time,x\n" + rows)).panel
    expected = ["2024-01-31T08", "2024-01-31T09", "2024-02-01T00"]
    assert panel.time.astype("M8[h]").astype(str).tolist() == expected


def test_dates_that_may_be_read_in_two_ways_are_refused(tmp_path):
    path = put(tmp_path, "time,x\n01/02/2024,1\n02/02/2024,2\n")
    with pytest.raises(DataError, match="neither a number nor a date"):
        read_panel(path)


def test_the_zone_is_that_of_the_first_date(tmp_path):
    rows = "2024-10-27T02:59:59+02:00,1\n2024-10-27T02:00:00+01:00,2\n"
    panel = read_panel(put(tmp_path, "time,x\n" + rows)).panel
    assert panel.preparation.zone == "+02:00"
    assert panel.time.astype("M8[s]").astype(str).tolist() == [
        "2024-10-27T02:59:59", "2024-10-27T03:00:00"
    ]  # fmt: skip
    panel.to_npz(tmp_path / "a.npz")
    panel.to_csv(tmp_path / "b.csv")
    for back in (
        Panel.read(tmp_path / "a.npz"),
        Panel.read(tmp_path / "b.csv", time="time", series="series"),
    ):
        assert back.preparation.zone == "+02:00"
        np.testing.assert_array_equal(back.time, panel.time)


# --- containers ----------------------------------------------------------------------------------


def test_without_openpyxl_one_sentence_names_the_extra(tmp_path, monkeypatch):
    pd.DataFrame({"t": [0, 1], "x": [1.0, 2.0]}).to_excel(tmp_path / "a.xlsx", index=False)
    real = builtins.__import__

    def without(name, *rest):
        if name == "openpyxl":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingDependency, match=r"mechtrace\[excel\]"):
        read_panel(tmp_path / "a.xlsx")


def test_a_sheet_keeps_names_and_places(tmp_path):
    table = pd.DataFrame({"run": ["1", "1", "02", "02"], "t": [0.5, 1.5, 0.5, 1.5],
                          "x": [1.0, "bad", 3.0, 4.0]})  # fmt: skip
    table.to_excel(tmp_path / "a.xlsx", index=False)
    with pytest.raises(DataError, match="'bad' in column 'x', row 3"):
        read_panel(tmp_path / "a.xlsx")
    table.assign(x=1.5).to_excel(tmp_path / "a.xlsx", index=False)
    assert read_panel(tmp_path / "a.xlsx").panel.names.tolist() == ["1", "02"]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"no zip", "cannot be read"), ({"a.txt": "t,x\n0,1\n"}, "holds no data")],
)
def test_archives_without_tables_are_named(tmp_path, content, message):
    path = tmp_path / "a.zip"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        with zipfile.ZipFile(path, "w") as archive:
            for name, text in content.items():
                archive.writestr(name, text)
    with pytest.raises(DataError, match=rf"a\.zip: .*{message}"):
        read_inputs([path])


def test_members_stay_inside_of_the_temporary_folder(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("../../up.csv", "t,x\n0.5,1\n1.5,2\n")
        archive.writestr("__MACOSX/._up.csv", "litter")
    panel = read_inputs([tmp_path / "a.zip"]).panel
    assert panel.names.tolist() == ["up"]
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


def test_what_is_constant_in_each_file_tells_files_apart(tmp_path):
    rng = np.random.default_rng(0)
    for k in range(6):
        pd.DataFrame({"t": np.arange(20.0), "Befund": ["ok", "bad"][k % 2], "machine": k // 2,
                      "room": 20.5 + k, "x": rng.normal(size=20)}).to_csv(
            tmp_path / f"{k}.csv", index=False)  # fmt: skip
    reading = read_labelled([tmp_path], {})
    assert sorted(reading.panel.regimes) == ["bad", "ok"]
    assert reading.panel.groups.tolist() == ["0", "0", "1", "1", "2", "2"]
    assert reading.panel.channels == ("x",)
    assert "regime = Befund (detected)" in reading.summary
    assert "same throughout each series: 'room'" in reading.summary
