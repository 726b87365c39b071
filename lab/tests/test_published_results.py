"""Figures printed by others: a figure that does not say where it was read is refused."""

from __future__ import annotations

import pytest

from mechtrace_lab import peer_worlds as peers
from mechtrace_lab.baselines.published_results import PUBLISHED, PublishedResult


def test_every_world_has_figures_and_no_row_comes_twice():
    assert {row.world for row in PUBLISHED} == set(peers.WORLDS)
    keys = [(row.method, row.world, row.setting, row.metric) for row in PUBLISHED]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"value": 0.9}, "place where it was read"),
        ({"found": "paper"}, "place where it was read"),
        ({"value": 99.0, "found": "paper"}, "shares"),
        ({"spread": 0.1}, "spread"),
        ({"value": 0.9, "spread": 0.0, "found": "paper"}, "spread"),
        ({"value": 0.9, "found": "a blog"}, "note"),
    ],
)
def test_a_figure_that_cannot_be_traced_is_refused(told, message):
    with pytest.raises(ValueError, match=message):
        PublishedResult("ours", "tdrl", "any", "MCC", "paper", **told)
    assert not PublishedResult("ours", "tdrl", "any", "MCC", "paper", 0.9, 0.1, "paper").secondary
