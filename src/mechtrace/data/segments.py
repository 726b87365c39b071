"""Runs of rows without a gap, and splits by series."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ..errors import DataError
from ..io.frames import take_rows
from .panel import Panel

#: Rows of the pieces that `subsample_runs` cuts runs into.
STRETCH = 256
#: Groups that are held out, at least, where there are thrice as many.
HELD_GROUPS = 3


@dataclass(frozen=True, eq=False)
class Runs:
    """Unbroken runs of observed rows: run i owns the rows ``start[i]:start[i] + length[i]``.

    Attributes
    ----------
    start, length : ndarray
        First row and number of rows of each run.
    series, regime : ndarray
        Number of its series, and code of its regime (-1 where unlabelled).
    group : ndarray or None
        What is held out together; each series alone if None.
    """

    start: np.ndarray
    length: np.ndarray
    series: np.ndarray
    regime: np.ndarray
    group: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.start)

    @property
    def rows(self) -> int:
        """Number of rows in all runs."""
        return int(self.length.sum())

    def position_in_run(self) -> np.ndarray:
        """Return the position of each row inside its run, (rows,)."""
        return np.arange(self.rows) - np.repeat(np.cumsum(self.length) - self.length, self.length)

    def row_numbers(self) -> np.ndarray:
        """Return the rows of all runs, one run after the other, (rows,)."""
        return np.repeat(self.start, self.length) + self.position_in_run()

    def rows_with_past(self, past: int) -> np.ndarray:
        """Return the rows with at least `past` rows before them in their run."""
        return self.row_numbers()[self.position_in_run() >= past]

    def __add__(self, other: Runs) -> Runs:
        pairs = {f.name: (getattr(self, f.name), getattr(other, f.name)) for f in fields(Runs)}
        arrays: dict[str, Any] = {
            name: None if a is None or b is None else np.append(a, b)
            for name, (a, b) in pairs.items()
        }
        return Runs(**arrays)

    def where(self, keep: np.ndarray) -> Runs:
        """Return the runs of a mask or an index."""
        group = None if self.group is None else self.group[keep]
        start, length = self.start[keep], self.length[keep]
        return Runs(start, length, self.series[keep], self.regime[keep], group)


def find_runs(panel: Panel, *, by_regime: bool) -> Runs:
    """Find every unbroken run of observed rows.

    Parameters
    ----------
    panel : Panel
        The recordings; `panel.breaks()` tells where a run ends.
    by_regime : bool
        Use labelled rows only, and end runs where the regime changes.

    Returns
    -------
    Runs
        In the order of the rows.
    """
    usable = panel.observed()
    new = panel.breaks().copy()
    codes = np.full(panel.rows, -1) if panel.codes is None else panel.codes
    if by_regime:
        usable = usable & (codes >= 0)
        new[1:] |= codes[1:] != codes[:-1]
    new[1:] |= ~usable[:-1]
    start = np.flatnonzero(usable & new)
    # a run ends where the next one starts or the next unusable row stands
    stops = np.flatnonzero(np.append(~usable | new, True))
    end = stops[np.searchsorted(stops, start, side="right")]
    series = panel.series_index()[start]
    group = None if panel.groups is None else panel.groups[series]
    return Runs(start, end - start, series, codes[start], group)


def runs_as_series(panel: Panel, runs: Runs) -> Panel:
    """Return a panel in which each run is a series of its own, without time and labels."""
    return replace(
        panel,
        values=take_rows(panel.values, runs.row_numbers()),
        offsets=np.concatenate([[0], np.cumsum(runs.length)]),
        names=np.arange(len(runs)).astype(str),
        time=None,
        codes=None,
        regimes=(),
        gap=None,  # in the time that is dropped here
        default_gap=None,
        groups=runs.group,
    )


def positions(panel: Panel) -> np.ndarray:
    """Return the number of rows before each row without a gap; -1 where not observed."""
    runs = find_runs(panel, by_regime=False)
    out = np.full(panel.rows, -1)
    out[runs.row_numbers()] = runs.position_in_run()
    return out


def padded_rows(panel: Panel) -> tuple[np.ndarray, np.ndarray]:
    """Return row numbers (T, S) of all series, and `positions`, -1 on padding."""
    rows, real = crop_rows(panel.offsets[:-1], panel.lengths, int(panel.lengths.max()))
    return rows.T, np.where(real, positions(panel)[rows], -1).T


def training_runs(panel: Panel, lags: int) -> Runs:
    """Find the labelled runs that are long enough to learn from.

    Parameters
    ----------
    panel : Panel
        Recordings of at least two regimes.
    lags : int
        Number of past rows that a transition depends on.

    Returns
    -------
    Runs
        Runs of more than `lags` rows.

    Raises
    ------
    DataError
        If there are fewer than two regimes, or one has no such run.
    """
    if panel.codes is None or not (panel.codes >= 0).any():
        raise DataError(
            "there are no regime labels to learn from",
            where=panel.source,
            fix="name the column that holds the regime of each row (regime=...)",
        )
    present = np.unique(panel.codes[panel.codes >= 0])
    if len(present) < 2:
        raise DataError(
            f"all rows belong to one regime, {panel.regimes[present[0]]!r}",
            where=panel.source,
            fix="add recordings of at least one other regime",
        )
    runs = find_runs(panel, by_regime=True)
    longest = np.zeros(len(panel.regimes), dtype=int)
    np.maximum.at(longest, runs.regime, runs.length)
    for code, name in enumerate(panel.regimes):
        if longest[code] <= lags:
            raise DataError(
                f"regime {name!r} has no stretch of more than {lags} rows without a gap"
                f" (its longest has {longest[code]})",
                where=panel.source,
                fix=f"record it for longer, fill its gaps or use fewer lags than {lags}",
            )
    return runs.where(runs.length > lags)


def cumcount(code: np.ndarray) -> np.ndarray:
    """Return the position of each element among those of the same code.

    >>> cumcount(np.array([0, 1, 0, 0, 1])).tolist()
    [0, 0, 1, 2, 1]
    """
    order = np.argsort(code, kind="stable")
    first = np.searchsorted(code[order], code[order])
    out = np.empty(len(code), int)
    out[order] = np.arange(len(code)) - first
    return out


def subsample_runs(runs: Runs, most: int, random: np.random.Generator) -> Runs:
    """Draw about `most` rows of each regime in pieces; all runs where no regime has more.

    Pieces are drawn from each series in turn, so that short series are not left out.
    """
    if np.bincount(runs.regime, runs.length).max() <= most:
        return runs
    count = -(-runs.length // STRETCH)
    run = np.repeat(np.arange(len(runs)), count)
    first = STRETCH * (np.arange(len(run)) - np.repeat(np.cumsum(count) - count, count))
    cut = runs.where(run)
    length = np.minimum(cut.length - first, STRETCH)
    cut = replace(cut, start=cut.start + first, length=length)
    cut = cut.where(random.permutation(len(cut)))
    turn = cumcount(cut.regime * (cut.series.max() + 1) + cut.series)
    cut = cut.where(np.argsort(turn, kind="stable"))
    chosen = []
    for code in np.unique(cut.regime):
        mine = np.flatnonzero(cut.regime == code)
        before = np.cumsum(cut.length[mine]) - cut.length[mine]
        chosen.append(mine[before < most])
    return cut.where(np.concatenate(chosen))


def split_runs(runs: Runs, share: float, lags: int, seed: int) -> tuple[Runs, Runs]:
    """Split runs into training and held-out ones, by group or series and never by row.

    Where a regime has a single group, its series are split all the same. Of a regime with a single
    series the end of its longest run is held out, if that is long enough to be cut.

    Parameters
    ----------
    runs : Runs
        From `training_runs`.
    share : float
        Share of the series of each regime to hold out.
    lags : int
        Both parts of a run that is cut have more than this many rows.
    seed : int
        Decides which series are held out.

    Returns
    -------
    train, held_out : Runs
        Every regime is in both where possible.
    """
    if share == 0:
        return runs, runs.where(np.zeros(len(runs), bool))
    if runs.group is None:
        held_mask = np.isin(runs.series, _held_out_series(runs, share, seed))
    else:
        held_mask = np.isin(runs.group, _held_out_groups(runs, share, seed))
        for code in np.setdiff1d(runs.regime, runs.regime[held_mask]):
            mine = runs.where(runs.regime == code)
            if len(np.unique(mine.series)) > 1:
                held_mask |= np.isin(runs.series, _held_out_series(mine, share, seed))
    train, held = runs.where(~held_mask), runs.where(held_mask)
    for code in np.setdiff1d(runs.regime, held.regime):
        train, tail = _cut_tail(train, code, share, lags)
        held = held + tail
    return train, held


def _held_out_series(runs: Runs, share: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng([seed, 7])
    pairs = np.unique(np.stack([runs.series, runs.regime]), axis=1)
    order = rng.permutation(pairs.shape[1])
    names, series = np.unique(pairs[0, order], return_inverse=True)
    kinds, regime = np.unique(pairs[1, order], return_inverse=True)
    holds = np.zeros((len(names), len(kinds)), int)
    holds[series, regime] = 1
    held, out, total = np.zeros(len(names), bool), np.zeros(len(kinds), int), holds.sum(axis=0)
    for code, count in enumerate(total):
        want = min(max(1, round(share * count)), count - 1)
        for candidate in series[regime == code]:
            if out[code] >= want:
                break
            # a series may hold several regimes: taking it away must leave training data of each
            if not held[candidate] and (out + holds[candidate] < total).all():
                held[candidate] = True
                out += holds[candidate]
    return names[held]


def _held_out_groups(runs: Runs, share: float, seed: int) -> np.ndarray:
    """Take groups in random order until each regime has its share; training keeps all regimes.

    One group does not show how groups differ: three are held out, of less than nine a third.
    """
    assert runs.group is not None
    _, first = np.unique(np.stack([runs.series, runs.regime]), axis=1, return_index=True)
    regime, group = runs.regime[first], runs.group[first]
    names, group = np.unique(group, return_inverse=True)
    kinds, regime = np.unique(regime, return_inverse=True)
    holds = np.zeros((len(names), len(kinds)), int)
    np.add.at(holds, (group, regime), 1)
    held, out, total = np.zeros(len(names), bool), np.zeros(len(kinds), int), holds.sum(axis=0)
    want = np.maximum(1, np.round(share * total))
    several = np.minimum(HELD_GROUPS, (holds > 0).sum(axis=0) // 3)
    for name in np.random.default_rng([seed, 7]).permutation(len(names)):
        few = (out < want) | ((holds[held] > 0).sum(axis=0) < several)
        lacks = (holds[name] > 0) & few
        if lacks.any() and (out + holds[name] < total).all():
            held[name] = True
            out += holds[name]
    return names[held]


def _cut_tail(train: Runs, code: int, share: float, lags: int) -> tuple[Runs, Runs]:
    mine = np.flatnonzero(train.regime == code)
    run = mine[np.argmax(train.length[mine])]
    length = int(train.length[run])
    tail = min(max(lags + 1, round(share * length)), length - lags - 1)
    if tail <= lags:
        return train, train.where(np.zeros(len(train), bool))
    cut, rest = train.length.copy(), train.where(np.array([run]))
    cut[run] = length - tail
    rest = replace(rest, start=rest.start + length - tail, length=np.array([tail]))
    return replace(train, length=cut), rest


def crop_rows(start: np.ndarray, length: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """List the rows of crops that are padded to the same number of steps.

    Parameters
    ----------
    start, length : ndarray
        First row and number of rows of each crop, of shape (...).
    steps : int
        Rows of a padded crop.

    Returns
    -------
    rows, real : ndarray
        Row numbers (..., steps), the last repeated on padding; mask of the rows not padded.
    """
    step, length = np.arange(steps), length[..., None]
    return start[..., None] + np.minimum(step, length - 1), step < length
