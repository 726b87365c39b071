"""Tables of strangers: every role is right without an option, or one question is asked."""

from __future__ import annotations

import logging
import re

import numpy as np
import pytest
from strangers import SENSORS, Stranger, plant, strangers

from mechtrace.cli.inputs import read_labelled
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
    assert panel.regimes == table.regimes
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
