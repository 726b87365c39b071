"""Files that lie: blanks in names, mixed zones, damaged and oversized archives, locked folders."""

from __future__ import annotations

import gzip
import os
import struct
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest

from mechtrace.data import Panel, read_inputs
from mechtrace.errors import DataError, DataWarning, MechtraceError
from mechtrace.io import packed

# -- names -----------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path):
    def write(text, name="runs.csv"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_blanks_around_labels_make_no_new_regime_or_series(table):
    rows = 'run,t,mode,x\na,0,R0,1\n"a ",1,R0 ,2\n" a",2," R0",3\nb,0,R1,4\nb,1,R1,4\nb,2,R1,5\n'
    path = table(rows)
    with pytest.warns(DataWarning) as told:
        panel = Panel.read(path, series="run", time="t", regime="mode")
    assert panel.regimes == ("R0", "R1")
    assert panel.names.tolist() == ["a", "b"]
    assert sorted(str(one.message) for one in told) == [
        "runs.csv: column 'mode' holds 'R0 '; blanks around a name do not count.",
        "runs.csv: column 'run' holds 'a '; blanks around a name do not count.",
    ]
    with pytest.warns(DataWarning) as told:
        assert read_inputs([path]).panel.names.tolist() == ["a", "b"]
    assert len(told) == 2


def test_blanks_around_labels_in_arrays_and_ordered_categories():
    values = np.zeros((3, 2, 1))
    with pytest.warns(DataWarning, match="'R0 '"):
        panel = Panel.from_arrays(values, regime=["R0", "R0 ", "R1"])
    assert panel.regimes == ("R0", "R1")
    order = pd.CategoricalDtype(["z ", "a"], ordered=True)
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "m": pd.Series(["a", "z ", None], dtype=order)})
    with pytest.warns(DataWarning, match="'z '"):
        panel = Panel.from_frame(frame, regime="m")
    assert panel.regimes == ("z", "a")
    assert panel.codes.tolist() == [1, 0, -1]


def test_blanks_around_columns_are_no_part_of_their_names():
    frame = pd.DataFrame({" t": [0, 1], "x ": [1.0, 2.0]})
    for time in (" t", "t"):
        assert Panel.from_frame(frame, time=time).channels == ("x",)
    with pytest.raises(DataError, match="'x' appears twice"):
        Panel.from_frame(pd.DataFrame({"x": [0, 1], "x ": [1.0, 2.0]}))


# -- time stamps -----------------------------------------------------------------------------

NAIVE, ZONED = "2024-01-01T00:00:00", "2024-01-01T00:00:01"


@pytest.mark.parametrize("zone", ["Z", "+02:00", "-0530", "+01"])
def test_stamps_with_and_without_a_zone_do_not_mix(table, zone):
    with pytest.raises(DataError, match=r"line 3, but '2024-01-01T00:00:00' in .* line 2"):
        Panel.read(table(f"time,x\n{NAIVE},1\n{ZONED}{zone},2\n"), time="time")
    both = table(f"time,x\n{NAIVE}{zone},1\n{ZONED}{zone},2\n")
    assert Panel.read(both, time="time").usual_step == 1.0


def test_dates_are_not_taken_for_zones(table):
    panel = Panel.read(table("time,x\n2024-01-30,1\n2024-01-31 12:00,2\n"), time="time")
    assert panel.usual_step == 1.5 * 86400


@pytest.mark.parametrize("row", ["1" * 400 + ",1", "0," + "1" * 400, "0,1e400"])
def test_numbers_of_400_digits_are_named(table, row):
    with pytest.raises(DataError, match=r"infinite (time|value) in column .* line 2"):
        Panel.read(table(f"time,x\n{row}\n5,2\n"), time="time")


# -- folders ---------------------------------------------------------------------------------


def test_a_folder_that_cannot_be_listed_is_an_error(tmp_path, monkeypatch):
    for name in ("open", "locked", ".hidden"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.csv").write_text("x\n1\n2\n")
    scan = os.scandir

    def refusing(path):
        if os.path.basename(path) in ("locked", ".hidden"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(DataError, match=r"locked: the folder cannot be read \(Permission denied"):
        read_inputs([tmp_path])
    assert read_inputs([tmp_path / "open"]).panel.rows == 2


# -- Parquet ---------------------------------------------------------------------------------


@pytest.mark.parametrize("levels", [["series"], ["time"], ["series", "time"], ["idx", "time"]])
def test_levels_of_the_index_are_columns(tmp_path, levels):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(
        {"series": list("aabb"), "time": [0, 2, 0, 2], "idx": [9, 8, 7, 6], "x": [1.0, 2, 3, 4]}
    )
    frame = frame.drop(columns=[] if "idx" in levels else ["idx"])
    indexed = frame.set_index(levels)
    indexed.to_parquet(tmp_path / "runs.parquet")
    roles = {"series": "series", "time": "time"}
    for panel in (
        Panel.read(tmp_path / "runs.parquet", **roles),
        read_inputs([tmp_path / "runs.parquet"]).panel,
        Panel.from_frame(indexed, **roles),
    ):
        assert panel.channels == ("x",)
        assert panel.names.tolist() == ["a", "b"]
        assert panel.time.tolist() == [0, 2, 0, 2]
    if "idx" in levels:
        panel = Panel.from_frame(indexed, **roles, channels=["idx"])
        assert panel.values[:, 0].tolist() == [9, 8, 7, 6]


# -- npz -------------------------------------------------------------------------------------

VALUES = np.arange(20.0).reshape(2, 5, 2)
WRONG = {
    "gap as text": {"gap": np.array("abc")},
    "two gaps": {"gap": np.array([1.0, 2.0])},
    "default gap as text": {"default_gap": np.array("x")},
    "one regime name": {"offsets": np.array([0, 10]), "regimes": np.array(3)},
    "preparation as a number": {"preparation": np.array(3)},
    "preparation as a list": {"preparation": np.array("[1]")},
    "preparation of another kind": {"preparation": np.array('{"rate": "x"}')},
    "names in two dimensions": {"names": np.array([[1, 2], [3, 4]])},
    "times of another kind": {"time": np.arange(5) * 1j},
    "object names": {"names": np.array(["a", None], dtype=object)},
    "object values": {"values": VALUES.astype(object)},
    "complex values": {"values": VALUES.astype(complex)},
    "records": {"values": np.zeros(5, [("a", float)])},
}


@pytest.mark.parametrize("arrays", WRONG.values(), ids=WRONG)
def test_an_array_of_the_wrong_form_is_one_sentence(tmp_path, arrays):
    np.savez(tmp_path / "runs.npz", **{"values": VALUES} | arrays)
    with pytest.raises(MechtraceError, match=r"^runs.npz: "):
        Panel.read(tmp_path / "runs.npz")


def test_long_doubles_are_read_as_doubles(tmp_path):
    np.savez(tmp_path / "runs.npz", values=VALUES.astype(np.longdouble))
    panel = Panel.read(tmp_path / "runs.npz")
    assert panel.values.dtype == np.float64
    assert np.array_equal(panel.values, VALUES.reshape(10, 2))


def form(shape, descr="'<f8'"):
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}\n".encode()


HEADERS = {
    "negative side": form("(-1, 2, 3)"),
    "two negative sides": form("(-1, -2, 3)"),
    "far too many rows": form(f"({10**12}, 2, 3)"),
    "nothing times more than fits": form(f"(0, {10**21}, 2)"),
    "truth value as a side": form("(True, 2, 2)"),
    "cut short": form("(2, 2, 2)")[:20],
    "open brackets": b"(" * 3000 + b"\n",
    "not text": b"{'descr': '\xff\xfe'}\n",
    "type of another kind": form("(2, 2, 2)", "(1, 2, 3)"),
    "objects": form("(2, 2, 2)", "'|O'"),
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_a_broken_header_is_one_sentence(tmp_path, header):
    with zipfile.ZipFile(tmp_path / "runs.npz", "w") as archive:
        start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header))
        archive.writestr("values.npy", start + header + bytes(64))
    with pytest.raises(DataError, match=r"^runs.npz: "):
        Panel.read(tmp_path / "runs.npz")


# -- bombs -----------------------------------------------------------------------------------


def test_a_packed_table_that_unpacks_to_far_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(packed, "MOST_BYTES", 1 << 16)
    with gzip.open(tmp_path / "bomb.csv.gz", "wb") as out:
        out.write(b"x\n" + b"0\n" * (1 << 20))
    with pytest.raises(DataError, match=r"bomb.csv.gz: [\d,]+ bytes unpack to"):
        Panel.read(tmp_path / "bomb.csv.gz")
    text = "x,y\n" + "".join(f"{k},{k % 7}\n" for k in range(20_000))
    (tmp_path / "fine.csv.gz").write_bytes(gzip.compress(text.encode()))
    assert len(text) > packed.MOST_BYTES
    assert Panel.read(tmp_path / "fine.csv.gz").rows == 20_000


def test_an_archive_that_unpacks_to_far_too_much_is_refused(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "bomb.npz", values=np.zeros((1, 200_000, 1)))
    assert Panel.read(tmp_path / "bomb.npz").rows == 200_000
    monkeypatch.setattr(packed, "MOST_BYTES", 1 << 16)
    with pytest.raises(DataError, match=r"bomb.npz: [\d,]+ bytes unpack to"):
        Panel.read(tmp_path / "bomb.npz")


def test_an_archive_that_claims_more_than_the_file_holds_is_refused(tmp_path):
    path = tmp_path / "short.npz"
    header = form(f"({1 << 37}, 1, 1)")
    with zipfile.ZipFile(path, "w") as archive:
        start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header))
        archive.writestr("values.npy", start + header + bytes(64))
        info = archive.infolist()[0]
        info.file_size = info.compress_size = (1 << 40) + 200  # what the directory will say
    with pytest.raises(DataError, match=r"^short.npz: ") as refused:
        Panel.from_npz(path, mmap=False)
    assert "cut short" in str(refused.value)


def test_series_of_two_rows_are_read(table):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        panel = Panel.read(table("run,x\na,1\na,2\nb,3\nb,4\n"), series="run")
    assert panel.lengths.tolist() == [2, 2]
