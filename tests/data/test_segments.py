"""Segments: runs against a slow reference, splits without leaks, balanced crops."""

from __future__ import annotations

from collections import Counter
from time import process_time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechtrace.data.crops import CropSampler
from mechtrace.data.panel import Panel
from mechtrace.data.segments import (
    STRETCH,
    Runs,
    crop_rows,
    find_runs,
    split_runs,
    subsample_runs,
    training_runs,
)
from mechtrace.errors import DataError

quick = settings(max_examples=80, deadline=None)


def runs_of(*rows: tuple[int, int, int, int]) -> Runs:
    """Runs from (start, length, series, regime)."""
    start, length, series, regime = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    return Runs(start, length, series, regime)


def as_list(runs: Runs) -> list[tuple[int, int, int, int]]:
    columns = (runs.start, runs.length, runs.series, runs.regime)
    return list(zip(*(c.tolist() for c in columns), strict=True))


def covered(runs: Runs) -> list[int]:
    """Every row of every run, with repetitions."""
    return [row for a, n, _, _ in as_list(runs) for row in range(a, a + n)]


# --- runs --------------------------------------------------------------------------------------

Row = tuple[bool, bool, str]  # a gap in time before it, missing, label
rows = st.tuples(
    st.sampled_from([False, False, False, True]),
    st.sampled_from([False, False, False, True]),
    st.sampled_from(["a", "a", "b", ""]),
)
recordings = st.lists(st.lists(rows, min_size=1, max_size=10), min_size=1, max_size=4)


def panel_of(data: list[list[Row]], labelled: bool = True) -> Panel:
    values, stamps, labels = [], [], []
    for series in data:
        block = np.ones((len(series), 2))
        block[[missing for _, missing, _ in series], 1] = np.nan
        values.append(block)
        stamps.append(np.cumsum([10.0 if gap else 1.0 for gap, _, _ in series]))
        labels.append([label for _, _, label in series])
    regime = labels if labelled else None
    return Panel.from_arrays(values, time=stamps, regime=regime, missing="gap", gap=2.0)


def slow_runs(data: list[list[Row]], regimes: tuple[str, ...], by_regime: bool) -> list[Any]:
    """One row after the other, straight from the definition."""
    found: list[list[int]] = []
    number = 0
    for which, series in enumerate(data):
        running = False
        before = ""
        for gap, missing, label in series:
            code = regimes.index(label) if label else -1
            usable = not missing and (code >= 0 or not by_regime)
            continues = running and not gap and (label == before or not by_regime)
            if usable and continues:
                found[-1][1] += 1
            elif usable:
                found.append([number, 1, which, code])
            running, before = usable, label
            number += 1
    return [tuple(run) for run in found]


@quick
@given(data=recordings, by_regime=st.booleans())
def test_runs_equal_the_slow_reference(data: list[list[Row]], by_regime: bool) -> None:
    panel = panel_of(data)
    found = find_runs(panel, by_regime=by_regime)
    assert as_list(found) == slow_runs(data, panel.regimes, by_regime)
    assert len(found) == len(found.start)
    assert found.rows == len(covered(found))


@quick
@given(data=recordings)
def test_runs_without_labels(data: list[list[Row]]) -> None:
    panel = panel_of(data, labelled=False)
    plain = [[(gap, missing, "") for gap, missing, _ in series] for series in data]
    assert as_list(find_runs(panel, by_regime=False)) == slow_runs(plain, (), False)
    assert len(find_runs(panel, by_regime=True)) == 0


def test_a_written_out_example() -> None:
    values = np.ones((2, 8, 1))
    values[0, 6] = np.nan
    time = [[0, 1, 2, 3, 9, 10, 11, 12], [13, 14, 15, 16, 17, 18, 19, 20]]
    labels = [["b", "b", "a", "a", "a", "a", "a", "b"], ["b"] * 5 + [""] * 3]
    panel = Panel.from_arrays(values, time=time, regime=labels, missing="gap")
    assert as_list(find_runs(panel, by_regime=True)) == [
        (0, 2, 0, 1),
        (2, 2, 0, 0),
        (4, 2, 0, 0),
        (7, 1, 0, 1),
        (8, 5, 1, 1),
    ]
    lengths = [run[1] for run in as_list(find_runs(panel, by_regime=False))]
    assert lengths == [4, 2, 1, 8]


def test_where_takes_masks_and_numbers() -> None:
    runs = runs_of((0, 3, 0, 0), (3, 4, 1, 1), (7, 5, 2, 0))
    assert as_list(runs.where(runs.regime == 0)) == [(0, 3, 0, 0), (7, 5, 2, 0)]
    assert as_list(runs.where(np.array([1]))) == [(3, 4, 1, 1)]


# --- training runs -----------------------------------------------------------------------------


def test_training_runs_drop_what_is_too_short() -> None:
    labels = [["a"] * 2 + ["b"] * 6, ["a"] * 3 + ["b"] * 5]
    panel = Panel.from_arrays(np.ones((2, 8, 1)), regime=labels)
    assert as_list(training_runs(panel, 2)) == [(2, 6, 0, 1), (8, 3, 1, 0), (11, 5, 1, 1)]
    assert len(training_runs(panel, 1)) == 4


@pytest.mark.parametrize(
    ("regime", "message"),
    [
        (None, "no regime labels"),
        ([[""] * 5, [""] * 5], "no regime labels"),
        (["idle", "idle"], "all rows belong to one regime, 'idle'"),
        ([["idle"] * 5, ["idle"] + ["fast"] * 2 + ["idle"] + [""]], "longest has 2"),
    ],
)
def test_training_errors_name_the_source(regime: Any, message: str) -> None:
    panel = Panel.from_arrays(np.ones((2, 5, 1)), regime=regime, source="pump.csv")
    with pytest.raises(DataError, match=message) as caught:
        training_runs(panel, 2)
    text = str(caught.value)
    assert text.startswith("pump.csv: ")
    assert caught.value.fix
    assert "\n" not in text


def test_a_regime_that_is_broken_by_gaps_is_too_short() -> None:
    values = np.ones((2, 6, 1))
    values[1, ::3] = np.nan
    panel = Panel.from_arrays(values, regime=["a", "b"], missing="gap")
    with pytest.raises(DataError, match="regime 'b' has no stretch of more than 2 rows"):
        training_runs(panel, 2)
    assert [r[3] for r in as_list(training_runs(panel, 1))] == [0, 1, 1]


# --- splits ------------------------------------------------------------------------------------


def pure_runs(counts: list[int], length: int = 20) -> Runs:
    """So many series of each regime, one run each."""
    regime = np.repeat(np.arange(len(counts)), counts)
    series = np.arange(len(regime))
    return Runs(series * length, np.full(len(regime), length), series, regime)


@quick
@given(
    counts=st.lists(st.integers(1, 12), min_size=2, max_size=4),
    share=st.floats(0.01, 0.9),
    seed=st.integers(0, 99),
)
def test_splits_of_pure_series(counts: list[int], share: float, seed: int) -> None:
    runs = pure_runs(counts)
    train, held = split_runs(runs, share, 2, seed)
    assert sorted(covered(train) + covered(held)) == covered(runs)  # nothing lost, nothing twice
    both = set(train.series.tolist()) & set(held.series.tolist())
    for code, count in enumerate(counts):
        mine = set(runs.series[runs.regime == code].tolist())
        assert (train.regime == code).any()
        if count >= 2:
            assert not mine & both
            wanted = min(max(1, round(share * count)), count - 1)
            assert (held.regime == code).sum() == wanted
    for part in (train, held):
        np.testing.assert_array_equal(part.regime, runs.regime[part.series])


series_regimes = st.lists(
    st.lists(st.tuples(st.integers(0, 2), st.integers(3, 30)), min_size=1, max_size=4),
    min_size=1,
    max_size=8,
)


@quick
@given(data=series_regimes, share=st.floats(0.01, 0.6), seed=st.integers(0, 99))
def test_splits_of_series_that_hold_several_regimes(
    data: list[list[tuple[int, int]]], share: float, seed: int
) -> None:
    listed, row = [], 0
    for series, stretches in enumerate(data):
        for regime, length in stretches:
            listed.append((row, length, series, regime))
            row += length
    runs = runs_of(*listed)
    lags = 2
    train, held = split_runs(runs, share, lags, seed)
    assert sorted(covered(train) + covered(held)) == covered(runs)
    assert train.length.min() > lags
    assert set(train.regime.tolist()) == set(runs.regime.tolist())
    if len(held):
        assert held.length.min() > lags
    # a series is in both parts only where one of its runs was cut
    for series in set(train.series.tolist()) & set(held.series.tolist()):
        tails = held.where(held.series == series)
        whole = runs.where(runs.series == series)
        ends = set((whole.start + whole.length).tolist())
        starts = set(whole.start.tolist())
        for start, length, _, regime in as_list(tails):
            assert start + length in ends
            assert start not in starts
            # and only because the regime is held out nowhere else
            assert (held.regime == regime).sum() == 1
    # a regime goes without held-out rows only if its longest run cannot be cut
    for code in set(runs.regime.tolist()) - set(held.regime.tolist()):
        longest = int(runs.length[runs.regime == code].max())
        assert longest - max(lags + 1, round(share * longest)) <= lags


def test_whole_mixed_series_are_held_out() -> None:
    runs = runs_of(*[(20 * s + 10 * k, 10, s, k) for s in range(8) for k in range(2)])
    for seed in range(10):
        train, held = split_runs(runs, 0.25, 2, seed)
        assert len(set(held.series.tolist())) == 2
        assert not set(held.series.tolist()) & set(train.series.tolist())
        assert Counter(held.regime.tolist()) == {0: 2, 1: 2}


def test_one_series_per_regime_gives_its_tail() -> None:
    train, held = split_runs(pure_runs([1, 1], length=50), 0.1, 2, 0)
    assert as_list(train) == [(0, 45, 0, 0), (50, 45, 1, 1)]
    assert as_list(held) == [(45, 5, 0, 0), (95, 5, 1, 1)]


def test_the_tail_is_cut_from_the_longest_run_and_holds_a_transition() -> None:
    runs = runs_of((0, 5, 0, 0), (5, 20, 0, 1), (25, 9, 0, 0))
    train, held = split_runs(runs, 0.1, 3, 0)
    assert as_list(train) == [(0, 5, 0, 0), (5, 16, 0, 1), (25, 5, 0, 0)]
    assert sorted(as_list(held)) == [(21, 4, 0, 1), (30, 4, 0, 0)]


def test_a_run_too_short_to_be_cut_stays_whole() -> None:
    runs = runs_of((0, 5, 0, 0), (5, 6, 1, 1))
    train, held = split_runs(runs, 0.1, 2, 0)
    assert as_list(train) == [(0, 5, 0, 0), (5, 3, 1, 1)]
    assert as_list(held) == [(8, 3, 1, 1)]


def test_no_share_holds_nothing_out() -> None:
    runs = pure_runs([3, 1])
    train, held = split_runs(runs, 0, 2, 0)
    assert as_list(train) == as_list(runs)
    assert len(held) == 0
    assert held.rows == 0


def test_the_split_depends_on_the_seed_alone() -> None:
    runs = pure_runs([30, 30])
    once, again = (split_runs(runs, 0.2, 2, 5)[1].series.tolist() for _ in range(2))
    assert once == again
    others = {tuple(split_runs(runs, 0.2, 2, seed)[1].series.tolist()) for seed in range(8)}
    assert len(others) == 8


# --- crops -------------------------------------------------------------------------------------


def owner(runs: Runs, row: int) -> int:
    (which,) = np.flatnonzero((runs.start <= row) & (row < runs.start + runs.length))
    return int(which)


@quick
@given(
    lengths=st.lists(st.integers(3, 60), min_size=2, max_size=9),
    per_regime=st.integers(1, 7),
    length=st.integers(2, 25),
    seed=st.integers(0, 9),
    step=st.integers(0, 40),
)
def test_crops_stay_inside_runs_of_their_regime(
    lengths: list[int], per_regime: int, length: int, seed: int, step: int
) -> None:
    start = np.cumsum([0, *lengths[:-1]]) + 2 * np.arange(len(lengths))
    regime = np.arange(len(lengths)) % 2
    runs = Runs(start, np.array(lengths), np.arange(len(lengths)), regime)
    sampler = CropSampler(runs, 2, per_regime, length, seed)
    first, size = sampler.batch(step)
    assert first.shape == size.shape == (2, per_regime)
    assert sampler.padded == (min(lengths) < length)
    for code in range(2):
        for a, n in zip(first[code].tolist(), size[code].tolist(), strict=True):
            which = owner(runs, a)
            assert owner(runs, a + n - 1) == which
            assert runs.regime[which] == code
            assert n == min(length, lengths[which])


def test_batches_depend_on_seed_and_step_alone() -> None:
    runs = pure_runs([5, 3, 4], length=33)

    def sampler(seed: int) -> CropSampler:
        return CropSampler(runs, regimes=3, per_regime=4, length=10, seed=seed)

    forward = sampler(1)
    seen = [forward.batch(step)[0].tolist() for step in range(40)]
    for step in (39, 7, 22, 0):  # a resumed run starts anywhere
        assert sampler(1).batch(step)[0].tolist() == seen[step]
        assert forward.batch(step)[0].tolist() == seen[step]
    assert sampler(2).batch(0)[0].tolist() != seen[0]
    assert len({str(batch) for batch in seen}) == 40


@pytest.mark.parametrize("per_regime", [3, 4, 12])
def test_an_epoch_visits_every_series_once(per_regime: int) -> None:
    runs = pure_runs([12, 6], length=10)
    sampler = CropSampler(runs, regimes=2, per_regime=per_regime, length=10, seed=3)
    drawn = [sampler.batch(step)[0] for step in range(24 // per_regime)]
    for code, count in ((0, 12), (1, 6)):
        stream = np.concatenate([batch[code] for batch in drawn])
        epochs = stream.reshape(-1, count)
        expected = np.sort(runs.start[runs.regime == code])
        np.testing.assert_array_equal(np.sort(epochs, axis=1), np.tile(expected, (len(epochs), 1)))
        assert not (epochs[0] == epochs[1]).all()  # each epoch in its own order


def test_long_runs_fill_more_crops_and_are_entered_everywhere() -> None:
    runs = runs_of((0, 10, 0, 0), (10, 40, 1, 0), (50, 10, 2, 1))
    sampler = CropSampler(runs, regimes=2, per_regime=5, length=10, seed=0)
    starts = np.concatenate([sampler.batch(step)[0][0] for step in range(300)])
    assert (starts == 0).sum() == 300  # one slot of five
    inside = starts[starts > 0]
    assert set(inside.tolist()) == set(range(10, 41))
    counts = np.bincount(inside - 10)
    assert counts.min() > 0.4 * counts.mean()
    assert counts.max() < 1.8 * counts.mean()


def test_crop_rows_repeat_the_last_row_on_padding() -> None:
    rows_, real = crop_rows(np.array([[4, 10], [0, 7]]), np.array([[3, 5], [1, 4]]), 5)
    assert rows_.tolist() == [
        [[4, 5, 6, 6, 6], [10, 11, 12, 13, 14]],
        [[0, 0, 0, 0, 0], [7, 8, 9, 10, 10]],
    ]
    assert real.sum(axis=-1).tolist() == [[3, 5], [1, 4]]
    assert real[0, 0].tolist() == [True, True, True, False, False]


def test_some_stretches_of_many_rows_come_from_every_series():
    length = np.array([5000, 40, 3000, 700, 90, 2000])
    regime = np.array([0, 0, 0, 1, 1, 1])
    runs = Runs(np.cumsum(length) - length, length, np.arange(6), regime)
    assert subsample_runs(runs, 8040, np.random.default_rng(0)) is runs
    draws = [subsample_runs(runs, 1000, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    for some in draws:
        assert set(some.series) == set(range(6))
        rows = some.row_numbers()
        assert len(np.unique(rows)) == len(rows)
        assert (np.searchsorted(runs.start, rows, side="right") - 1
                == np.repeat(some.series, some.length)).all()  # fmt: skip
        assert (regime[some.series] == some.regime).all()
        for code in (0, 1):
            assert 1000 <= some.length[some.regime == code].sum() < 1000 + STRETCH
    assert np.array_equal(draws[0].start, draws[1].start)
    assert not np.array_equal(draws[0].start, draws[2].start)


@pytest.mark.parametrize("grouped", [False, True])
def test_splitting_many_mixed_series_takes_no_time(grouped: bool) -> None:
    count = 6_000 if grouped else 30_000
    series = np.repeat(np.arange(count), 2)
    group = np.char.add("g", (series // 2).astype(str)) if grouped else None
    length = np.full(2 * count, 10)
    runs = Runs(np.arange(2 * count) * 10, length, series, np.tile([0, 1], count), group)
    started = process_time()
    train, held = split_runs(runs, 0.1, 2, 0)
    assert process_time() - started < 3
    assert len(held) == 0.1 * len(runs)
    assert not set(train.series) & set(held.series)
