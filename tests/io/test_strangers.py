"""Tables of strangers: every role is right without an option, or one question is asked."""

from __future__ import annotations

import logging
import re

import numpy as np
import pandas as pd
import pytest
from strangers import SENSORS, Stranger, plant, strangers

from mechtrace.cli.inputs import read_labelled
from mechtrace.data.read import read_inputs
from mechtrace.data.segments import find_runs
from mechtrace.errors import DataError

TABLES = strangers()


@pytest.mark.parametrize("name", TABLES)
def test_the_roles_of_a_strangers_table(name: str, tmp_path, caplog) -> None:
    table: Stranger = TABLES[name]
    table.write(tmp_path)
    caplog.set_level(logging.INFO)
    if table.question:
        with pytest.raises(DataError) as caught:
            read_labelled([tmp_path], {})
        assert re.search(table.question, str(caught.value))
        assert "\n" not in str(caught.value)
        return
    panel = read_labelled([tmp_path], {}).panel
    assert panel.channels == table.channels
    assert sorted(panel.regimes) == sorted(table.regimes)
    assert tuple(panel.lengths) == table.lengths
    found = None if panel.groups is None else len(set(panel.groups.tolist()))
    assert found == table.groups
    assert panel.usual_step == pytest.approx(table.step)
    # nothing is broken but where a recording or its regime ends
    assert len(find_runs(panel, by_regime=False)) == len(panel)
    for phrase in table.says:
        assert phrase in caplog.text
    if table.same:
        wanted = plant()[list(SENSORS)].to_numpy().sum(axis=1)
        np.testing.assert_allclose(np.sort(panel.values.sum(axis=1)), np.sort(wanted), atol=1e-6)


def test_the_question_is_one_line_and_the_exit_code_that_of_bad_input(command, tmp_path) -> None:
    TABLES["numbers that may be names"].write(tmp_path)
    code, _, err = command("fit", tmp_path, "--out", tmp_path / "m.mechtrace")
    assert code == 2
    assert err.count("\n") == 1
    for words in (["--series", "probe"], ["--channels", ",".join(("probe", *SENSORS))]):
        code, _, err = command("fit", tmp_path / "data.csv", *words, "--dry-run")
        assert code == 0, err


def test_new_files_are_read_with_two_columns_of_time_in_any_order(tmp_path) -> None:
    TABLES["German of an old logger"].write(tmp_path)
    whole = read_labelled([tmp_path], {}).panel
    how = {"sep": ";", "decimal": ",", "encoding": "cp1252"}
    table = pd.read_csv(tmp_path / "data.csv", **how).drop(columns="Versuchsnummer").head(40)
    order = ["Druck", "Uhrzeit", "Temperatur", "Schwingung", "Datum", "Durchfluß"]
    table[order].to_csv(tmp_path / "new.csv", index=False, **how)
    columns = whole.preparation.columns
    new = read_inputs(
        [tmp_path / "new.csv"], channels=whole.channels, labelled=False, model_roles=columns
    ).panel
    np.testing.assert_array_equal(new.values, whole.values[:40])
    np.testing.assert_array_equal(new.time, whole.time[:40])
