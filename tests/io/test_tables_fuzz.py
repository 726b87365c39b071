"""Mangled tables give a Panel or an error of ours, nothing else."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from fuzz.guard import cases, guarded
from fuzz.tables import table

from mechtrace.data import Panel, read_inputs
from mechtrace.errors import DataWarning, MechtraceError
from mechtrace.io.cells import BLANKS

pytestmark = pytest.mark.fuzz

#: Tables that one test reads.
SIZE = 30


WAYS = (
    lambda path: read_inputs([path]).panel,
    lambda path: Panel.read(path, missing="gap", channels=["x0"]),
    lambda path: Panel.read(path, time="time", series="series", missing="interpolate"),
)


def read(path, way):
    """Return a Panel, or None where the file is refused in one line."""
    try:
        return way(path)
    except MechtraceError as error:
        if "\n" in str(error):
            raise AssertionError(f"several lines: {error}") from error
        return None


@pytest.mark.parametrize("batch", cases(17, at_least=4))
def test_reading_gives_a_panel_or_our_error(tmp_path, batch):
    outcomes = []
    for seed in range(batch * SIZE, (batch + 1) * SIZE):
        data, suffix = table(seed)
        path = tmp_path / f"t{seed}{suffix}"
        path.write_bytes(data)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", DataWarning)
            try:
                with guarded():
                    panels = [read(path, way) for way in WAYS]
            except Exception as error:
                pytest.fail(f"table({seed}) in {path.name}: {type(error).__name__}: {error}")
        outcomes += [panel is not None for panel in panels]
        for panel in filter(None, panels):
            assert panel.rows == panel.lengths.sum() > 0
            assert not np.isinf(panel.values).any()
            assert all(name == name.strip(BLANKS) != "" for name in panel.regimes)
    assert any(outcomes)
    assert not all(outcomes)


def test_the_same_seed_gives_the_same_table():
    assert table(5) == table(5) != table(6)
