"""Figures printed by others: every value says where it was read."""

from __future__ import annotations

import pytest

from mechtrace.baselines.printed import PRINTED
from mechtrace.worlds import peers


def test_every_world_has_figures_and_no_row_comes_twice():
    assert {row.world for row in PRINTED} == set(peers.WORLDS)
    keys = [(row.method, row.world, row.setting, row.metric) for row in PRINTED]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("row", PRINTED, ids=lambda row: f"{row.world}-{row.method}-{row.setting}")
def test_a_value_says_where_it_was_read(row):
    assert (row.value is None) == (row.found is None)
    assert row.value is None or 0 <= row.value <= 1
    assert row.spread is None or (row.value is not None and row.spread > 0)
    assert row.note or not row.secondary
