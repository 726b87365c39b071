"""Panel: round-trips, memory mapping, exact errors, and order that does not matter."""

from __future__ import annotations

import builtins
import gzip
import io
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechtrace.data import Panel, Series
from mechtrace.errors import (
    ConfigError,
    DataError,
    MechtraceError,
    MissingColumn,
    MissingDependency,
)

COLUMNS = {"time": "time", "series": "series", "regime": "regime"}
DAY = np.datetime64("2024-03-01T00:00:00", "ns")


def same(left: Panel, right: Panel) -> None:
    """Equal in everything the user can see, except gap and source."""
    assert left.names.tolist() == right.names.tolist()
    assert left.regimes == right.regimes
    assert left.channels == right.channels
    assert left.values.dtype == right.values.dtype
    np.testing.assert_array_equal(left.offsets, right.offsets)
    np.testing.assert_array_equal(left.values, right.values)
    for a, b in ((left.time, right.time), (left.codes, right.codes)):
        assert (a is None) == (b is None)
        if a is not None and b is not None:
            np.testing.assert_array_equal(a, b)
    assert left.fingerprint() == right.fingerprint()


def ragged(time: str = "float") -> Panel:
    """Unequal lengths, irregular gaps, per-row regimes, and names that files love to spoil."""
    rng = np.random.default_rng(3)
    lengths = (4, 2, 6)
    stamps: list[np.ndarray] = []
    for length in lengths:
        steps = np.cumsum(rng.choice([0.1, 0.25, 7.5], length))
        ms = (steps * 1000).astype("timedelta64[ms]")
        stamps.append({"float": steps, "date": DAY + ms}.get(time, np.arange(length)))
    labels = [["NA", "", "None", "null"], ["<script>", 'ü,"10"'], ["2", "10", "", "NA", "2", "2"]]
    return Panel.from_arrays(
        [rng.standard_normal((length, 2)) * 1e-7 for length in lengths],
        time=None if time == "none" else stamps,
        regime=labels,
        names=["NA", "<script>alert(1)</script>", 'Zürich, "3"\n'],
        channels=["speed, m/s", "Δ"],
    )


# --- round-trips -----------------------------------------------------------------------------


@pytest.mark.parametrize("time", ["none", "float", "date"])
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".tsv", ".parquet", ".pq", ".npz"])
def test_files_round_trip(tmp_path: Path, suffix: str, time: str) -> None:
    panel = ragged(time)
    path = tmp_path / f"runs{suffix}"
    write = {".npz": panel.to_npz, ".pq": panel.to_parquet, ".parquet": panel.to_parquet}
    write.get(suffix, panel.to_csv)(path)
    back = Panel.read(path, **({} if suffix == ".npz" else COLUMNS))
    same(panel, back)
    assert back.source == path.name
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("time", ["none", "float", "date"])
def test_frame_round_trip(time: str) -> None:
    panel = ragged(time)
    same(panel, Panel.from_frame(panel.to_frame(), **COLUMNS))
    assert panel.regimes == ("2", "10", "<script>", "NA", "None", "null", 'ü,"10"')


@pytest.mark.parametrize("dtype", ["float32", "uint8", "int16"])
def test_dtype_survives_binary_formats(tmp_path: Path, dtype: str) -> None:
    panel = Panel.from_arrays(np.arange(24).reshape(2, 4, 3).astype(dtype))
    panel.to_parquet(tmp_path / "a.parquet")
    panel.to_npz(tmp_path / "a.npz")
    same(panel, Panel.from_parquet(tmp_path / "a.parquet", time="time", series="series"))
    same(panel, Panel.from_npz(tmp_path / "a.npz"))


def test_regime_order_and_unused_regimes_survive_frames_and_parquet(tmp_path: Path) -> None:
    values = np.zeros((3, 2, 1))
    base = Panel.from_arrays(values, regime=["low", "high", "mid"]).to_frame()
    base["regime"] = base["regime"].cat.reorder_categories(["low", "mid", "high"])
    panel = Panel.from_frame(base, **COLUMNS)
    assert panel.regimes == ("low", "mid", "high")
    part = panel[:1]
    part.to_parquet(tmp_path / "a.parquet")
    same(part, Panel.from_parquet(tmp_path / "a.parquet", **COLUMNS))
    assert part.regimes == panel.regimes


def test_missing_rows_round_trip_as_gaps(tmp_path: Path) -> None:
    values = np.ones((2, 3, 2))
    values[1, 1, 0] = np.nan
    panel = Panel.from_arrays(values, missing="gap", gap=2.5)
    assert panel.observed().tolist() == [True, True, True, True, False, True]
    panel.to_npz(tmp_path / "a.npz")
    same(panel, Panel.from_npz(tmp_path / "a.npz"))
    assert Panel.from_npz(tmp_path / "a.npz").gap == 2.5
    panel.to_csv(tmp_path / "a.csv")
    back = Panel.from_csv(tmp_path / "a.csv", time="time", series="series", missing="gap")
    same(panel, back)
    with pytest.raises(DataError, match="series 1, row 1, channel 0"):
        Panel.read(tmp_path / "a.npz", missing="error")


def test_time_zones_become_dates_in_the_offset_of_the_first(tmp_path: Path) -> None:
    local = pd.date_range("2024-03-31 00:30", periods=4, freq="45min", tz="Europe/Zurich")
    wall = local.tz_convert("+01:00").tz_localize(None).to_numpy().astype("datetime64[ns]")
    frame = pd.DataFrame({"t": local, "x": np.arange(4.0)})
    text = frame.assign(t=[stamp.isoformat() for stamp in local])
    text.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    for panel in (
        Panel.from_frame(frame, time="t"),
        Panel.from_frame(frame.assign(t=frame["t"].astype(object)), time="t"),
        Panel.from_frame(text, time="t"),
        Panel.read(tmp_path / "a.csv", time="t"),
        Panel.read(tmp_path / "a.parquet", time="t"),
        Panel.from_arrays([np.arange(4.0)[:, None]], time=local),
    ):
        assert panel.time is not None
        assert panel.time.dtype == np.dtype("datetime64[ns]")
        np.testing.assert_array_equal(panel.time, wall)
        assert panel.preparation.zone == "+01:00"


def test_csv_with_bom_crlf_booleans_blank_lines_and_index(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("\ufeffs,on,x\r\n1,True,1\r\n\r\n1,False,2.5\r\n".encode())
    panel = Panel.read(path, series="s")
    assert panel.channels == ("on", "x")
    assert panel.values.tolist() == [[1, 1], [0, 2.5]]


def test_regimes_from_numbers_booleans_and_blanks() -> None:
    frame = pd.DataFrame({"x": range(4), "g": [10.0, 2.0, np.nan, 2.5]})
    panel = Panel.from_frame(frame, regime="g")
    assert panel.regimes == ("2", "2.5", "10")
    assert panel.codes is not None
    assert panel.codes.dtype == np.int16
    assert panel[0].regime is not None
    assert panel[0].regime.tolist() == ["10", "2", "", "2.5"]
    assert Panel.from_frame(frame.assign(g=[True, False, True, True]), regime="g").regimes == (
        "False",
        "True",
    )


def test_columns_of_many_kinds_become_numbers() -> None:
    frame = pd.DataFrame(
        {
            "nullable": pd.array([1, None], dtype="Int64"),
            "text": ["1.5", ""],
            "object": pd.Series([True, None], dtype=object),
            "category": pd.Categorical([3, 4]),
        }
    )
    panel = Panel.from_frame(frame, missing="gap")
    np.testing.assert_array_equal(panel.values, [[1, 1.5, 1, 3], [np.nan] * 3 + [4]])


# --- npz and memory mapping ------------------------------------------------------------------


def test_npz_values_are_mapped_and_aligned(tmp_path: Path) -> None:
    panel = ragged()
    panel.to_npz(tmp_path / "a.npz")
    back = Panel.from_npz(tmp_path / "a.npz")
    assert isinstance(back.values, np.memmap)
    assert back.values.flags.aligned
    assert back.values.ctypes.data % 64 == 0
    same(panel, back)
    assert isinstance(back[:2].values, np.memmap)
    loaded = Panel.from_npz(tmp_path / "a.npz", mmap=False)
    assert not isinstance(loaded.values, np.memmap)
    same(panel, loaded)
    plain = np.load(tmp_path / "a.npz", allow_pickle=False)
    np.testing.assert_array_equal(plain["values"], panel.values)


def test_npz_can_replace_the_file_it_maps_and_bytes_repeat(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    ragged().to_npz(path)
    first = path.read_bytes()
    Panel.from_npz(path).to_npz(path)
    assert path.read_bytes() == first


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_written_by_hand(tmp_path: Path, save: Callable[..., None]) -> None:
    values = np.arange(24.0).reshape(2, 4, 3)
    labels = np.array([list("aabb"), list("bbbb")])
    save(tmp_path / "a.npz", values=values, regime=labels)
    panel = Panel.read(tmp_path / "a.npz")
    assert isinstance(panel.values, np.memmap) == (save is np.savez)
    np.testing.assert_array_equal(panel.values, values.reshape(8, 3))
    assert panel[0].regime is not None
    assert panel[0].regime.tolist() == list("aabb")
    save(tmp_path / "b.npz", values=values, regime=np.array(["a", "b"]), time=np.arange(4) * 2)
    assert Panel.read(tmp_path / "b.npz").time_of(1).tolist() == [0, 2, 4, 6]


def test_images_round_trip(tmp_path: Path) -> None:
    pictures = np.random.default_rng(0).integers(0, 255, (3, 5, 8, 6), dtype=np.uint8)
    panel = Panel.from_arrays(pictures, regime=["a", "b", "a"])
    assert panel.is_image
    assert panel.channels == ("pixel",)
    assert "8x6 pixels" in repr(panel)
    panel.to_npz(tmp_path / "a.npz")
    back = Panel.from_npz(tmp_path / "a.npz")
    assert isinstance(back.values, np.memmap)
    assert back.values.dtype == np.uint8
    same(panel, back)
    same(panel, Panel.from_arrays(list(pictures), regime=["a", "b", "a"]))
    assert Panel.from_arrays(pictures[0], images=True).shape == (8, 6)
    assert Panel.from_arrays(pictures[0]).shape == (6,)
    with pytest.raises(DataError, match="use to_npz"):
        panel.to_csv(tmp_path / "a.csv")


def test_from_arrays_does_not_copy(tmp_path: Path) -> None:
    stacked = np.zeros((5, 4, 3), dtype=np.float32)
    assert np.shares_memory(Panel.from_arrays(stacked).values, stacked)
    mapped = np.memmap(tmp_path / "raw", dtype=np.float32, mode="w+", shape=(5, 4, 3))
    panel = Panel.from_arrays(mapped)
    assert isinstance(panel.values, np.memmap)
    assert np.shares_memory(panel.values, mapped)


# --- views and selections --------------------------------------------------------------------


def test_access_by_number_name_slice_and_mask() -> None:
    panel = ragged()
    assert len(panel) == 3
    assert panel.rows == 12
    assert panel.lengths.tolist() == [4, 2, 6]
    assert isinstance(panel[0], Series)
    assert panel[-1].name == panel.names[2]
    assert len(panel["NA"]) == 4
    assert [len(series) for series in panel] == [4, 2, 6]
    assert [len(array) for array in panel.to_arrays()] == [4, 2, 6]
    same(panel[1:], panel[[False, True, True]])
    same(panel[1:], panel[np.array([1, -1])])
    same(panel[::-1][::-1], panel)
    assert panel[["NA"]].names.tolist() == ["NA"]
    assert len(panel[3:]) == 0
    assert "0 series" in repr(panel[3:])
    with pytest.raises(IndexError):
        panel[3]


def test_series_view_and_observed() -> None:
    values = np.array([[1.0, 2.0], [np.nan, 1.0]])
    series = Panel.from_arrays([values], missing="gap")[0]
    assert series.observed.tolist() == [True, False]
    assert series.regime is None
    assert series.time.tolist() == [0, 1]
    integers = Panel.from_arrays(np.ones((1, 3, 2), dtype=np.int32))
    assert integers.observed().all()


def test_select_and_without_labels() -> None:
    panel = ragged()
    assert panel.select(["10"]).names.tolist() == [panel.names[2]]
    assert len(panel.select(regimes=["NA", "<script>"])) == 3
    bare = panel.without_labels()
    assert not bare.labelled
    assert bare.fingerprint() != panel.fingerprint()
    assert "regime" not in bare.to_frame()
    assert bare.regime_names_of(0) is None


def test_repr() -> None:
    panel = Panel.from_arrays(np.zeros((2, 5, 1)), regime=["B", "A"], source="runs.csv")
    assert repr(panel) == "Panel: 2 series x 5 rows x 1 channel, regimes: A, B (runs.csv)"
    assert repr(ragged().without_labels()).startswith(
        "Panel: 3 series x 2-6 rows x 2 channels, un"
    )


def test_breaks_with_irregular_gaps(tmp_path: Path) -> None:
    times = [[0.0, 0.1, 0.2, 5.0, 5.1], [0.0, 0.1, 0.3]]
    panel = Panel.from_arrays([np.zeros((5, 1)), np.zeros((3, 1))], time=times)
    assert panel.max_step == pytest.approx(0.15)
    expected = [True, False, False, True, False, True, False, True]
    assert panel.breaks().tolist() == expected
    # A series looked at alone breaks where it broke among the others.
    assert panel[1:].breaks().tolist() == expected[5:]
    panel[1:].to_npz(tmp_path / "second.npz")
    for alone in (panel[1:], panel[1:].without_labels()[:], Panel.read(tmp_path / "second.npz")):
        assert alone.gap is None  # nobody has set one
        assert alone.breaks().tolist() == expected[5:]
    wide = Panel.from_arrays([np.zeros((5, 1)), np.zeros((3, 1))], time=times, gap=0.2)
    assert wide.breaks().tolist() == [*expected[:7], False]
    dates = [DAY + np.array(t) * 1000 * np.timedelta64(1, "ms") for t in ([0, 1, 2, 9], [0, 1])]
    dated = Panel.from_arrays([np.zeros((4, 1)), np.zeros((2, 1))], time=dates)
    assert dated.max_step == pytest.approx(1.5)
    assert dated.breaks().tolist() == [True, False, False, True, True, False]


def test_rounding_of_stamps_is_no_break() -> None:
    panel = Panel.from_arrays(np.zeros((1, 1000, 1)), time=1.7e9 + np.arange(1000) * 0.1, gap=0.1)
    assert panel.breaks().sum() == 1


def test_interpolation_stays_inside_the_series() -> None:
    nan = np.nan
    values = [[[1.0], [nan], [5.0], [nan]], [[nan], [-2.0], [nan]]]
    arrays = [np.array(one) for one in values]
    panel = Panel.from_arrays(arrays, time=[[0, 1, 4, 5], [0, 2, 3]], missing="interpolate")
    assert panel.values[:, 0].tolist() == [1, 2, 5, 5, -2, -2, -2]
    assert np.isnan(arrays[0][1, 0])
    dates = DAY + np.array([0, 1, 4, 5]) * np.timedelta64(1, "D")
    dated = Panel.from_arrays(arrays[:1], time=[dates], missing="interpolate")
    assert dated.values[:, 0].tolist() == [1, 2, 5, 5]
    whole = np.array([[[1.0], [nan], [3.0]]])
    Panel.from_arrays(whole, missing="interpolate")
    assert np.isnan(whole[0, 1, 0])


def test_large_panel_is_built_without_loops() -> None:
    stacked = np.zeros((200_000, 50, 4), dtype=np.float32)
    panel = Panel.from_arrays(stacked)
    assert len(panel) == 200_000
    index = panel.series_index()
    assert index.shape == (10_000_000,)
    assert index[49] == 0
    assert index[50] == 1
    assert index[-1] == 199_999
    breaks = panel.breaks()
    assert breaks.sum() == 200_000
    assert breaks[::50].all()
    assert panel["199999"].name == "199999"


# --- order does not matter -------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_row_order_does_not_matter(data: Any) -> None:
    lengths = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    frame = pd.DataFrame(
        {
            "s": np.repeat([f"run {k}" for k in range(len(lengths))], lengths),
            "t": np.concatenate([np.cumsum(np.arange(1, n + 1)) * 0.5 for n in lengths]),
            "g": data.draw(
                st.lists(
                    st.sampled_from(["", "2", "10", "NA"]),
                    min_size=sum(lengths),
                    max_size=sum(lengths),
                )
            ),
            "x": np.arange(sum(lengths)) * 1.5,
        }
    )
    shuffle = data.draw(st.permutations(range(len(frame))))
    keys = {"series": "s", "time": "t", "regime": "g"}
    ordered = Panel.from_frame(frame, **keys)
    shuffled = Panel.from_frame(frame.iloc[list(shuffle)], **keys)
    # Series come in the order of first appearance, so only that may differ.
    first_seen = list(dict.fromkeys(frame["s"].iloc[list(shuffle)]))
    assert shuffled.names.tolist() == first_seen
    same(ordered, shuffled[np.argsort(shuffled.names)])


# --- errors ----------------------------------------------------------------------------------


def frame_of(**changes: Any) -> pd.DataFrame:
    columns = {"s": ["a", "a", "b"], "t": [0.0, 1.0, 0.0], "x": [1.0, 2.0, 3.0]}
    return pd.DataFrame(columns | changes)


def npz_with(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def hand_made_zip(name: str, content: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


CSV = "s,t,x,y\na,0,1,2\na,1,3,4\nb,0,5,6\n"
KEYS = {"series": "s", "time": "t"}
STACK = np.ones((4, 6, 3))


def spoiled(index: tuple[int, ...], value: float) -> np.ndarray:
    values = STACK.copy()
    values[index] = value
    return values


# file name, content, arguments, and what the message must say
FILE_ERRORS: dict[str, tuple[str, str | bytes, dict[str, Any], list[str]]] = {
    "missing column": ("a.csv", CSV, {"time": "zeit"}, ["'zeit'", "'s', 't', 'x', 'y'"]),
    "missing channel": ("a.csv", CSV, {"channels": ["x", "q"]}, ["'q'", "channel"]),
    "no channels": ("a.csv", "s,t\na,1\n", KEYS, ["no channels are left", "'s', 't'"]),
    "text": ("a.csv", CSV.replace("5,6", "5,oops"), KEYS, ["'oops'", "column 'y', line 4"]),
    "text in tsv": ("a.tsv", "x\ty\n1\t2\n3\tbad\n", {}, ["'bad'", "column 'y', line 3"]),
    "text after blank line": ("a.csv", "x,y\n1,2\n\n3,bad\n", {}, ["'bad'", "line 4"]),
    "text after a cell of two lines": (
        "a.csv",
        's,x\n"a\nb",1\n\n"a\nb",oh\n',
        {"series": "s"},
        ["'oh'", "column 'x', line 5"],
    ),
    "missing cell": (
        "a.csv",
        CSV.replace("3,4", ",4"),
        KEYS,
        ["column 'x', line 3", 'missing="gap"', 'missing="interpolate"'],
    ),
    "missing cell after sorting": (
        "a.csv",
        "s,t,x\na,2,1\nb,1,2\na,1,3\nb,0,NA\n",
        KEYS,
        ["column 'x', line 5"],
    ),
    "infinite cell": ("a.csv", CSV.replace("5,6", "-inf,6"), KEYS, ["infin", "'x', line 4"]),
    "infinite with gap": (
        "a.csv",
        CSV.replace("1,2", ",2").replace("5,6", "inf,6"),
        {**KEYS, "missing": "gap"},
        ["infinite", "column 'x', line 4"],
    ),
    "all missing": (
        "a.csv",
        CSV.replace("5,6", ",6"),
        {**KEYS, "missing": "interpolate"},
        ["series 'b'", "column 'x'", "at all"],
    ),
    "duplicate time": (
        "a.csv",
        "s,t,x\na,1,1\nb,1,2\na,1,3\n",
        KEYS,
        ["time 1 ", "series 'a'", "line 2 and line 4"],
    ),
    "duplicate date": (
        "a.csv",
        "t,x\n2024-01-02,1\n2024-01-01,2\n2024-01-02,3\n",
        {"time": "t"},
        ["2024-01-02", "line 2 and line 4"],
    ),
    "bad time": ("a.csv", "t,x\n1,1\nsoon,2\n", {"time": "t"}, ["'soon'", "column 't', line 3"]),
    "blank time": ("a.csv", "t,x\n1,1\n,2\n", {"time": "t"}, ["no time", "column 't', line 3"]),
    "mixed time": (
        "a.csv",
        "t,x\n2024-01-01,1\n7,2\n",
        {"time": "t"},
        ["mix numbers and dates", "'7'", "column 't', line 3", "'2024-01-01'", "line 2"],
    ),
    "infinite time": ("a.csv", "t,x\n1,1\ninf,2\n", {"time": "t"}, ["infinite", "'t', line 3"]),
    "blank series": ("a.csv", "s,x\na,1\n ,2\n", {"series": "s"}, ["column 's', line 3"]),
    "empty": ("a.csv", "", {}, ["empty (0 bytes)"]),
    "blank lines only": ("a.csv", "\n\n", {}, ["blank"]),
    "header only": ("a.csv", "s,t,x\n", KEYS, ["header but no rows"]),
    "long row": ("a.csv", "x,y\n1,2\n3,4\n5,6,7\n", {}, ["line 4", "3 cells", "has 2"]),
    "long first row": ("a.csv", "x,y\n1,2,3\n4,5,6\n", {}, ["line 2", "3 cells", "has 2"]),
    "open quote": ("a.csv", 'x,y\n1,2\n3,"4\n', {}, ["cannot be parsed", "string"]),
    "duplicate column": ("a.csv", "x,y,x\n1,2,3\n", {}, ["'x'", "twice", "line 1"]),
    "nameless column": ("a.csv", ",x\n0,2\n", {}, ["column 1 has no name"]),
    "complex text": ("a.csv", "x\n1\n1+2j\n", {}, ["'1+2j'", "column 'x', line 3"]),
    "no text": ("a.csv", b"x,s\n1,Z\x81rich\n", {}, ["not UTF-8"]),
    "not gzip": ("a.csv.gz", b"plain text", {}, ["cannot be read"]),
    "cut gzip": ("a.csv.gz", gzip.compress(CSV.encode() * 99)[:-20], {}, ["cannot be read"]),
    "unknown type": ("a.xls", "x", {}, ["'.xls'", ".csv.gz, .tsv, .xlsx, .parquet"]),
    "not parquet": ("a.parquet", b"PAR1 nonsense", {}, ["cannot be read"]),
    "empty parquet": ("a.parquet", b"", {}, ["0 bytes"]),
    "not a zip": ("a.npz", b"plain text", {}, ["not an npz file"]),
    "npy in disguise": ("a.npz", b"\x93NUMPY\x01\x00" + b"\x00" * 99, {}, ["not an npz file"]),
    "cut npz": ("a.npz", npz_with(values=STACK)[:-90], {}, ["not an npz file"]),
    "no values": ("a.npz", npz_with(data=STACK, b=1), {}, ["'values'", "'b', 'data'"]),
    "short member": (
        "a.npz",
        hand_made_zip("values.npy", npz_with(values=STACK)[60:300]),
        {},
        ["damaged"],
    ),
    "npz columns": ("a.npz", npz_with(values=STACK), {"time": "t"}, ["no columns"]),
    "npz shape": ("a.npz", npz_with(values=STACK[0]), {}, ["(6, 3)"]),
    "npz nan": ("a.npz", npz_with(values=spoiled((3, 5, 2), np.nan)), {}, ["series 3, row 5, ch"]),
    "npz offsets": (
        "a.npz",
        npz_with(values=STACK[0], offsets=np.array([0, 7])),
        {},
        ["offsets", "6 rows"],
    ),
    "npz codes": (
        "a.npz",
        npz_with(values=STACK[0], offsets=[0, 6], codes=np.ones(6, int), regimes=["A"]),
        {},
        ["codes", "1 regimes"],
    ),
    "npz pickled name": (
        "a.npz",
        npz_with(values=STACK, names=np.array(["a"], dtype=object)),
        {},
        ["'names' holds pickled"],
    ),
    "npz time": (
        "a.npz",
        npz_with(values=STACK[0], offsets=[0, 6], time=np.ones(5)),
        {},
        ["'time'", "6 rows"],
    ),
    "folder": ("folder/a.csv", "x", {}, ["folder"]),
}


@pytest.mark.parametrize("case", FILE_ERRORS)
def test_file_errors(tmp_path: Path, case: str) -> None:
    name, content, arguments, expected = FILE_ERRORS[case]
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    if case == "folder":
        path = path.parent
    with pytest.raises(MechtraceError) as caught:
        Panel.read(path, **arguments)
    check_message(caught.value, [path.name, *expected])


def check_message(error: MechtraceError, expected: list[str]) -> None:
    message = str(error)
    assert type(error) in (DataError, MissingColumn)
    assert "\n" not in message
    assert message.endswith(".")
    for piece in expected:
        assert piece in message


COMPLEX = np.array([1 + 2j, 0, 0])
FRAME_ERRORS: dict[str, tuple[Callable[[], Any], dict[str, Any], list[str]]] = {
    "not a frame": (lambda: {"x": [1]}, {}, ["dict"]),
    "no rows": (lambda: frame_of().iloc[:0], {}, ["no rows"]),
    "missing column": (frame_of, {"regime": "g"}, ["'g'", "'s', 't', 'x'"]),
    "no channels": (lambda: frame_of()[["s", "t"]], KEYS, ["no channels"]),
    "duplicate column": (lambda: frame_of().rename(columns={"t": "x"}), {}, ["'x'", "twice"]),
    "channel twice": (frame_of, {"channels": ["x", "x"]}, ["'x'", "twice"]),
    "text": (lambda: frame_of(x=["1", "2", "three"]), KEYS, ["'three'", "column 'x', row 2"]),
    "long text": (lambda: frame_of(x=["a\nb" * 99, "2", "3"]), KEYS, ["...", "column 'x', row 0"]),
    "date": (lambda: frame_of(x=[DAY] * 3), KEYS, ["column 'x', row 0", "not a number"]),
    "nan": (lambda: frame_of(x=[1, np.nan, 2]), KEYS, ["column 'x', row 1", 'missing="gap"']),
    "none": (lambda: frame_of(x=pd.array([1, 2, None])), KEYS, ["column 'x', row 2"]),
    "infinity": (lambda: frame_of(x=[1, 2, np.inf]), KEYS, ["infinite", "column 'x', row 2"]),
    "complex": (lambda: frame_of(x=COMPLEX), KEYS, ["complex", "column 'x'"]),
    "complex object": (
        lambda: frame_of(x=pd.Series(list(COMPLEX), dtype=object)),
        KEYS,
        ["1+2j", "column 'x', row 0"],
    ),
    "duplicate time": (
        lambda: frame_of(s=["a"] * 3),
        KEYS,
        ["time 0.0", "'a'", "row 0 and row 2"],
    ),
    "no time": (lambda: frame_of(t=[0, 1, np.nan]), KEYS, ["no time", "column 't', row 2"]),
    "no date": (lambda: frame_of(t=[DAY, pd.NaT, DAY]), KEYS, ["no time", "column 't', row 1"]),
    "bad time": (lambda: frame_of(t=["0", "1", "x"]), KEYS, ["'x'", "column 't', row 2"]),
    "mixed time": (
        lambda: frame_of(t=pd.Series([pd.Timestamp("2024-01-01"), 3, 4], dtype=object)),
        KEYS,
        ["mix numbers and dates", "column 't', row 1", "row 0"],
    ),
    "far date": (
        lambda: frame_of(t=np.array(["3000-01-01"] * 3, "datetime64[s]")),
        KEYS,
        ["3000-01-01", "2261"],
    ),
    "blank series": (lambda: frame_of(s=["a", None, "b"]), KEYS, ["column 's', row 1"]),
    "many regimes": (
        lambda: pd.DataFrame({"x": 0.0, "g": np.arange(32_001)}),
        {"regime": "g"},
        ["32,001", "32,000", "column 'g'"],
    ),
}


@pytest.mark.parametrize("case", FRAME_ERRORS)
def test_frame_errors(case: str) -> None:
    make, arguments, expected = FRAME_ERRORS[case]
    with pytest.raises(MechtraceError) as caught:
        Panel.from_frame(make(), **arguments)
    check_message(caught.value, ["DataFrame", *expected])


ARRAY_ERRORS: dict[str, tuple[Any, dict[str, Any], list[str]]] = {
    "nan": (spoiled((3, 5, 2), np.nan), {}, ["series 3, row 5, channel 2", 'missing="gap"']),
    "infinity": (spoiled((1, 0, 2), np.inf), {"missing": "gap"}, ["series 1, row 0, channel 2"]),
    "nan pixel": (spoiled((3, 5, 2), np.nan), {"images": True}, ["series 0, row 3, pixel (5, 2)"]),
    "all missing": (
        np.full((1, 2, 1), np.nan),
        {"missing": "interpolate"},
        ["series '0'", "channel 0", "at all"],
    ),
    "channels differ": (
        [STACK[0], STACK[1, :, :2]],
        {},
        ["series 1 has 2 channels", "3 channels"],
    ),
    "no rows": ([STACK[0], STACK[1, :0]], {}, ["series 1 has no rows"]),
    "no series": ([], {}, ["no series"]),
    "flat series": ([np.ones(4)], {}, ["series 0", "(4,)"]),
    "one recording": (STACK[0], {}, ["(6, 3)", "(series, rows, channels)"]),
    "colour": (np.ones((1, 2, 3, 3, 3)), {}, ["(1, 2, 3, 3, 3)"]),
    "complex": (STACK * 1j, {}, ["complex"]),
    "text": ([np.array([["a"]])], {}, ["series 0", "not numbers"]),
    "regime count": (STACK, {"regime": ["a"] * 3}, ["3 regimes", "4 series"]),
    "regime rows": (STACK, {"regime": [["a"] * 6] * 3 + [["a"] * 5]}, ["series 3", "5 entries"]),
    "regime name": (STACK, {"regime": "a"}, ["'a'", "one name per series"]),
    "names twice": (STACK, {"names": list("abca")}, ["'a'", "twice"]),
    "names count": (STACK, {"names": list("abc")}, ["3 series names", "4 series"]),
    "blank name": (STACK, {"names": ["a", "b", " ", "c"]}, ["series 2", "blank"]),
    "channel names": (STACK, {"channels": ["a", "b"]}, ["2 channel names", "3 channels"]),
    "channel twice": (STACK, {"channels": ["a", "b", "a"]}, ["'a'", "twice"]),
    "time count": (STACK, {"time": np.arange(5)}, ["5 times", "6 rows"]),
    "time series": (STACK, {"time": np.zeros((3, 6))}, ["3 series", "4 series"]),
    "time twice": (STACK, {"time": [0, 1, 2, 3, 4, 4]}, ["series 0, row 4 and series 0, row 5"]),
    "time nan": (STACK, {"time": [0, 1, 2, 3, 4, np.nan]}, ["series 0, row 5, time"]),
    "time mixed": (STACK[:2, :1], {"time": [[1], [DAY]]}, ["mixes numbers and dates"]),
}


@pytest.mark.parametrize("case", ARRAY_ERRORS)
def test_array_errors(case: str) -> None:
    values, arguments, expected = ARRAY_ERRORS[case]
    with pytest.raises(MechtraceError) as caught:
        Panel.from_arrays(values, source="my arrays", **arguments)
    check_message(caught.value, ["my arrays", *expected])


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("member", ["values", "regime"])
def test_pickled_arrays_are_refused(tmp_path: Path, mmap: bool, member: str) -> None:
    arrays = {"values": STACK, "regime": np.array(["a"] * 4)}
    arrays[member] = arrays[member].astype(object)
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=f"{member!r} holds pickled") as caught:
        Panel.from_npz(tmp_path / "a.npz", mmap=mmap)
    check_message(caught.value, ["a.npz"])


def test_panel_lookup_errors() -> None:
    panel = ragged()
    for ask, expected in (
        (lambda: panel["nobody"], "there is no series 'nobody'"),
        (lambda: panel.select(["x"]), "there is no regime 'x'"),
        (lambda: panel.without_labels().select([]), "no labels"),
        (lambda: panel[[True]], "mask"),
        (lambda: panel[[0, 0]], "twice"),
        (lambda: panel[[0.5]], "float64"),
        (lambda: Panel.from_arrays(STACK, channels=["time", "b", "c"]).to_frame(), "'time'"),
        (lambda: Panel(STACK[0], np.array([0, 6]), ["a"], time=np.zeros(6)), "not increase"),
        (lambda: Panel(STACK[None], np.array([0, 1]), ["a"]), "no real rows"),
    ):
        with pytest.raises(DataError, match=expected):
            ask()


def test_bad_settings() -> None:
    with pytest.raises(ConfigError, match="'error', 'gap', 'interpolate'"):
        Panel.from_arrays(STACK, missing="drop")
    with pytest.raises(ConfigError, match="gap=0"):
        Panel.from_arrays(STACK, gap=0)


def test_file_not_found(tmp_path: Path) -> None:
    for name in ("a.csv", "a.parquet", "a.npz", "a.xlsx"):
        with pytest.raises(DataError) as caught:
            Panel.read(tmp_path / name)
        check_message(caught.value, [name, "no such file"])


def test_missing_pyarrow_says_how_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.parquet"
    ragged().to_parquet(path)
    real_import = builtins.__import__

    def no_pyarrow(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_pyarrow)
    with pytest.raises(MissingDependency) as caught:
        Panel.from_parquet(path, **COLUMNS)
    assert 'pip install "mechtrace[parquet]"' in str(caught.value)


def test_import_is_light() -> None:
    heavy = "{'pandas', 'pyarrow', 'torch'}"
    code = f"import sys, mechtrace.data.panel; assert not {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# --- atomic writing --------------------------------------------------------------------------


def test_failed_writes_leave_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any, **kwargs: Any) -> None:
        target = args[1] if isinstance(args[0], pd.DataFrame) else None
        if target is not None:
            Path(target).write_text("half")
        raise OSError("disk full")

    monkeypatch.setattr(pd.DataFrame, "to_csv", broken)
    monkeypatch.setattr(pd.DataFrame, "to_parquet", broken)
    monkeypatch.setattr(np.lib.format, "write_array", broken)
    panel = ragged()
    for name, write in (
        ("a.csv", panel.to_csv),
        ("a.parquet", panel.to_parquet),
        ("a.npz", panel.to_npz),
    ):
        (tmp_path / name).write_text("old")
        with pytest.raises(OSError, match="disk full"):
            write(tmp_path / name)
        assert (tmp_path / name).read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "a.npz", "a.parquet"]


def test_writing_into_nowhere(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the folder does not exist"):
        ragged().to_npz(tmp_path / "no" / "a.npz")
    with pytest.raises(DataError, match="this is a folder"):
        ragged().to_csv(tmp_path)
