"""No name in a table is a formula for a spreadsheet, and every name is read back as it was."""

from __future__ import annotations

import csv
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mechtrace as mt
from mechtrace.cli.inputs import read_labelled
from mechtrace.io.formulas import escape_formula, unescape_formula
from mechtrace.io.tables import to_frame, write_table
from mechtrace.stage2.trajectory import read_curves, write_curves

NAMES = ['=HYPERLINK("http://x";"y")', "+1", "-1", "@x", "'=x", "''-1", "'80s", "walk"]
FORMULA = re.compile(r"[=+\-@\t\r]")


@given(st.text(alphabet="'=+-@\t\ra1 "))
def test_names_come_back_and_none_is_a_formula(name):
    written = escape_formula(name)
    assert unescape_formula(written) == name
    assert not FORMULA.match(written)


def text_cells(path, columns):
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ",")
    return {*header, *(row[k] for row in rows for k in range(columns))}


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_recordings_with_such_names_are_read_back(tmp_path, suffix):
    count = len(NAMES)
    rng = np.random.default_rng(0)
    panel = mt.Panel.from_arrays(
        [rng.normal(size=(5, count)) for _ in NAMES], time=[np.arange(-2.0, 3.0)] * count,
        regime=NAMES, names=NAMES, groups=NAMES, channels=[f"{name} m" for name in NAMES],
    )  # fmt: skip
    path = tmp_path / f"runs{suffix}"
    panel.to_csv(path)
    first = pd.read_csv(path, sep="\t" if suffix == ".tsv" else ",")
    assert first["time"].min() == -2  # numbers stay numbers
    assert (first.iloc[:, 4:].to_numpy() < 0).any()
    cells = text_cells(path, 1) | set(first["regime"]) | set(first["group"])
    assert not [cell for cell in cells if FORMULA.match(cell)]
    back = read_labelled([path], {"group": "group"}).panel
    assert list(back.names) == list(panel.names)
    assert back.channels == panel.channels
    assert set(back.regimes) == set(NAMES)
    assert list(back.groups) == NAMES
    assert np.array_equal(back.values, panel.values)


def test_curves_with_such_names_are_read_back_and_calibrated(trained, world, tmp_path, command):
    panel = world.transition("simple", series=2, seed=1).panel
    regimes = ("=a", "-1", "@x")
    found = trained.recover(panel)
    alpha = np.repeat([[0.1, 0.8, 0.1], [0.1, 0.1, 0.8]], 10, axis=0)
    paths = [
        replace(one, name=name, regimes=regimes, alpha=alpha, lower=alpha, upper=alpha)
        for one, name in zip(found, ("=1+1", "-2"), strict=True)
    ]
    file = tmp_path / "alpha.csv"
    write_curves(paths, file)
    assert not [cell for cell in text_cells(file, 1) if FORMULA.match(cell)]
    for one, back in zip(paths, read_curves(file), strict=True):
        assert (back.name, back.regimes) == (one.name, one.regimes)
        assert np.array_equal(back.alpha, one.alpha)
    out = tmp_path / "better.csv"
    code, _, err = command(
        "calibrate", file, "--anchor", "=1+1/2:5=-1", "--anchor", "=1+1/12:15=@x", "--out", out
    )
    assert code == 0, err
    assert read_curves(out)[0].regimes == regimes


def test_ordinary_tables_are_as_before(panel, tmp_path):
    frame = to_frame(panel)
    write_table(frame, tmp_path / "ours.csv")
    frame.to_csv(tmp_path / "plain.csv", index=False)
    assert (tmp_path / "ours.csv").read_bytes() == (tmp_path / "plain.csv").read_bytes()
