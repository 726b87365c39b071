"""Order and crossings of curves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechtrace_lab.studies.shape import crossing, longest_monotone, shape_kept


def test_shape():
    truth = np.linspace(0, 1, 41)
    late = np.clip(truth - 0.05, 0, 1)
    kept = shape_kept(truth, late)
    assert kept.ordered == 1.0
    assert kept.shift == pytest.approx(2.0)
    assert kept.missed == 0.0
    assert shape_kept(truth, 0.5 * truth).missed == pytest.approx(2 / 3)  # 0.5 is not exceeded
    assert shape_kept(truth, truth[::-1]).ordered == 0.0
    assert np.isnan(crossing(np.zeros(5), 0.5))
    assert longest_monotone(np.concatenate([truth[:10], truth[:30]])) == slice(10, 40)


@given(st.integers(0, 10_000))
def test_ordered_pairs_are_counted_one_by_one(seed):
    rng = np.random.default_rng(seed)
    truth = np.sort(rng.random(int(rng.integers(2, 40))))[:: rng.choice([-1, 1])]
    found = np.round(truth + 0.3 * rng.standard_normal(len(truth)), 1)  # with ties
    pairs = [found[i] > found[j] for i in range(len(truth)) for j in range(len(truth))
             if truth[i] - truth[j] > 0.1]  # fmt: skip
    expected = np.mean(pairs) if pairs else np.nan
    assert shape_kept(truth, found).ordered == pytest.approx(expected, nan_ok=True)


def test_shapes_of_long_curves_need_no_table_of_all_pairs():
    truth = np.linspace(0, 1, 200_000)
    assert shape_kept(truth, truth**2).ordered == 1.0
