"""Blocks, restarts and names: what can be a recording, a regime, a set-point or a sensor."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from mechtrace.data.read import read_panel
from mechtrace.errors import DataError
from mechtrace.io.column_names import names_clock, names_group, names_regime, names_things
from mechtrace.io.structure import Structure

ROWS, RUNS = 30, 6


def frame(**columns: object) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    run, t = np.repeat(np.arange(RUNS), ROWS), np.tile(np.arange(ROWS), RUNS)
    base = {"t": t * 1.0, "mode": np.where(run % 2 == 0, "up", "down")}
    sensors = {"x": rng.normal(size=len(t)), "y": rng.normal(size=len(t))}
    return pd.DataFrame(base | columns | sensors)


def read(tmp_path, table: pd.DataFrame):
    table.to_csv(tmp_path / "a.csv", index=False)
    return read_panel(tmp_path / "a.csv")


RUN = np.repeat(np.arange(RUNS), ROWS)
RNG = np.random.default_rng(1)


@pytest.mark.parametrize(
    ("name", "things", "group", "regime"),
    [
        ("run_id", True, False, False),
        ("RunID", True, False, False),
        ("Versuchs-Nr.", True, False, False),
        ("Chargennummer", True, False, False),
        ("试验编号", True, False, False),
        ("machine", True, True, False),
        ("pump_id", True, False, False),
        ("机器编号", True, True, False),
        ("Betriebszustand", False, False, True),
        ("fault_label", False, False, True),
        ("运行状态", False, False, True),
        ("fluid", False, False, False),
        ("solenoid_current", False, False, False),
        ("state_of_charge", False, False, False),
        ("信号", False, False, False),
    ],
)
def test_names_tell_things_groups_and_regimes(name, things, group, regime):
    assert (names_things(name), names_group(name), names_regime(name)) == (things, group, regime)


def test_parts_of_machines_may_be_groups_and_clocks_are_told_by_any_word():
    assert names_group("pump_id", perhaps=True)
    assert not names_group("pump_id")
    assert names_clock("elapsed_seconds")
    assert not names_clock("torque")


def test_ids_are_told_from_sensors_called_alike(tmp_path):
    gas = RNG.integers(10, 80, len(RUN))  # nitric oxide in whole ppm
    reading = read(tmp_path, frame(NO=gas, probe_no=RUN))
    assert reading.panel.channels == ("NO", "x", "y")
    assert len(reading.panel) == RUNS
    assert "series = probe_no (detected)" in reading.summary


def test_rows_of_several_machines_may_take_turns(tmp_path):
    order = np.argsort(np.tile(np.arange(ROWS), RUNS), kind="stable")
    table = frame(logger_id=RUN + 7).iloc[order]
    reading = read(tmp_path, table)
    assert reading.panel.names.tolist() == [str(7 + k) for k in range(RUNS)]
    assert set(reading.panel.lengths) == {ROWS}


def test_what_an_operator_sets_once_for_a_recording_is_no_sensor(tmp_path):
    reading = read(tmp_path, frame(run=RUN, speed=np.array([50, 60, 50, 60, 70, 70])[RUN]))
    assert reading.panel.channels == ("x", "y")
    assert reading.left_out["speed"] == "same throughout each series"


def test_a_regime_by_name_with_one_value_gives_way_to_one_with_more(tmp_path):
    table = frame(run=RUN, status=0).rename(columns={"mode": "Befund"})
    assert read(tmp_path, table).panel.regimes == ("down", "up")
    alone = read(tmp_path, table.drop(columns="Befund").assign(status="ok"))
    assert alone.panel.regimes == ("ok",)


def test_numbers_named_like_a_regime_lead_to_a_question(tmp_path):
    table = frame(run=RUN, valve_state=np.repeat(RNG.integers(0, 2, 36), 5)).drop(columns="mode")
    with pytest.raises(DataError, match=r"--regime valve_state or --channels valve_state,x,y"):
        read(tmp_path, table)
    constant = read(tmp_path, table.assign(valve_state=RUN % 2))
    assert constant.panel.regimes == ("0", "1")


def test_two_groups_are_too_few_to_hold_one_out(tmp_path):
    reading = read(tmp_path, frame(run=RUN, machine=RUN // 3))
    assert reading.panel.groups is None
    assert reading.left_out["machine"] == "same throughout each series"
    assert read(tmp_path, frame(run=RUN, machine=RUN // 2)).panel.groups.tolist() == [
        *("0", "0", "1", "1", "2", "2")
    ]


def test_pauses_of_the_clock_tell_recordings_of_one_day(tmp_path):
    seconds = pd.to_timedelta(RUN * 4000 + np.tile(np.arange(ROWS), RUNS), unit="s")
    dates = pd.Timestamp("2024-01-01") + seconds
    reading = read(tmp_path, frame(probe=100 - RUN, when=dates).drop(columns="t"))
    assert len(reading.panel) == RUNS
    assert "time = when (detected by its cells)" in reading.summary
    assert "series = probe (detected: blocks of rows)" in reading.summary


def test_a_counter_that_rises_inside_of_regimes_is_a_sensor(tmp_path):
    table = frame(parts_made=np.arange(len(RUN)) // 7).assign(t=np.arange(len(RUN)) / 2)
    reading = read(tmp_path, table)
    assert "parts_made" in reading.panel.channels
    assert len(reading.panel) == 1


def test_a_clock_that_no_one_can_read_restarts_nowhere():
    table = pd.DataFrame({"t": ["soon", "later", "now"], "x": [1, 2, 3]})
    assert Structure(table, "t").clock is None
    assert not Structure(table, "t").pauses.any()
    assert not Structure(table, None).restarts.any()


def test_naming_the_channels_changes_no_other_role(tmp_path):
    table = frame(probe=RUN * 5 % 7, machine=RUN // 2)
    table.to_csv(tmp_path / "a.csv", index=False)
    whole, part = (read_panel(tmp_path / "a.csv", channels=c).panel for c in (None, ["y"]))
    assert part.channels == ("y",)
    assert part.names.tolist() == whole.names.tolist()
    assert part.groups.tolist() == whole.groups.tolist()
