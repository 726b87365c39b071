"""Runs of rows that belong together, splits by series, and batches of crops for training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from .errors import DataError
from .frames import pick_rows, row_chunks
from .series import Panel

CHUNK_ROWS = 1 << 16
#: Frames from which the units of pictures are measured; more would say the same.
MEASURED_FRAMES = 1 << 14


@dataclass(frozen=True, eq=False)
class Runs:
    """Stretches of rows without a gap: one series, one regime, nothing missing."""

    start: np.ndarray
    length: np.ndarray
    series: np.ndarray
    regime: np.ndarray
    group: np.ndarray | None = None  # what is held out together; each series alone if None

    def __len__(self) -> int:
        return len(self.start)

    @property
    def rows(self) -> int:
        """Rows in all runs."""
        return int(self.length.sum())

    def within(self) -> np.ndarray:
        """Of each row in turn, its place in its run: (rows,)."""
        return np.arange(self.rows) - np.repeat(np.cumsum(self.length) - self.length, self.length)

    def row_numbers(self) -> np.ndarray:
        """The rows of all runs, one run after the other: (rows,)."""
        return np.repeat(self.start, self.length) + self.within()

    def rows_with_past(self, past: int) -> np.ndarray:
        """Rows that have so many rows before them in their run."""
        return self.row_numbers()[self.within() >= past]

    def __add__(self, other: Runs) -> Runs:
        return Runs(
            np.append(self.start, other.start),
            np.append(self.length, other.length),
            np.append(self.series, other.series),
            np.append(self.regime, other.regime),
            None if self.group is None or other.group is None
            else np.append(self.group, other.group),
        )  # fmt: skip

    def where(self, keep: np.ndarray) -> Runs:
        """Only the runs of a mask or an index."""
        group = None if self.group is None else self.group[keep]
        return Runs(
            self.start[keep], self.length[keep], self.series[keep], self.regime[keep], group
        )


def find_runs(panel: Panel, *, by_regime: bool) -> Runs:
    """Every unbroken stretch of observed rows; `by_regime`: labelled, and of one regime."""
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


def pieces_of(panel: Panel, runs: Runs) -> Panel:
    """Each run as a series of its own, without labels, so that nothing else comes along."""
    return replace(
        panel,
        values=pick_rows(panel.values, runs.row_numbers()),
        offsets=np.concatenate([[0], np.cumsum(runs.length)]),
        names=np.arange(len(runs)).astype(str),
        time=None,
        codes=None,
        regimes=(),
        gap=None,  # of the user's own clock, which is left behind
        groups=runs.group,
    )


def positions(panel: Panel) -> np.ndarray:
    """Of each row, how many rows came before it without a gap; -1 if it was not observed."""
    runs = find_runs(panel, by_regime=False)
    out = np.full(panel.rows, -1)
    out[runs.row_numbers()] = runs.within()
    return out


def side_by_side(panel: Panel) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers (T, S) of all series, step by step, and the position of each; -1 on padding."""
    rows, real = crop_rows(panel.offsets[:-1], panel.lengths, int(panel.lengths.max()))
    return rows.T, np.where(real, positions(panel)[rows], -1).T


def training_runs(panel: Panel, lags: int) -> Runs:
    """Labelled runs that are long enough to learn from; every regime must have one."""
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


def split_runs(runs: Runs, share: float, lags: int, seed: int) -> tuple[Runs, Runs]:
    """Training and held-out runs, split by series; every regime keeps some of both if it can.

    Series of one group (a subject) go together, as a new recording will be of another one; where
    a regime has a single group, its series are split all the same. A regime with a single series
    gives the end of its longest run instead, and nothing if that is too short to be cut.
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
    series, regime = pairs[0, order], pairs[1, order]
    mixed = len(np.unique(series)) < len(series)
    held: list[int] = []
    for code in np.unique(regime):
        mine = series[regime == code]
        want = min(max(1, round(share * len(mine))), len(mine) - 1)
        if not mixed:
            held += mine[:want].tolist()
            continue
        # Series that hold several regimes: taking one away must leave training data of each.
        for candidate in mine:
            if np.isin(mine, held).sum() >= want:
                break
            trial = [*held, int(candidate)]
            left = regime[~np.isin(series, trial)]
            if len(np.unique(left)) == len(np.unique(regime)):
                held = trial
    return np.array(sorted(set(held)), dtype=int)


def _held_out_groups(runs: Runs, share: float, seed: int) -> np.ndarray:
    """Groups in random order, until each regime has its share of series; training keeps all."""
    assert runs.group is not None
    _, first = np.unique(np.stack([runs.series, runs.regime]), axis=1, return_index=True)
    regime, group = runs.regime[first], runs.group[first]
    names = np.random.default_rng([seed, 7]).permutation(np.unique(group))
    kinds, total = np.unique(regime, return_counts=True)
    want = np.maximum(1, np.round(share * total))
    held: list[str] = []
    for name in names:
        mine = np.isin(kinds, regime[group == name])
        out, left = np.isin(group, held), ~np.isin(group, [*held, name])
        lacks = [(out & (regime == k)).sum() < w for k, w in zip(kinds, want, strict=True)]
        if (mine & lacks).any() and len(np.unique(regime[left])) == len(kinds):
            held.append(str(name))
    return np.array(held, dtype=np.str_)


def _cut_tail(train: Runs, code: int, share: float, lags: int) -> tuple[Runs, Runs]:
    mine = np.flatnonzero(train.regime == code)
    run = mine[np.argmax(train.length[mine])]
    length = int(train.length[run])
    tail = min(max(lags + 1, round(share * length)), length - lags - 1)
    if tail <= lags:
        return train, train.where(np.zeros(len(train), bool))
    cut = train.length.copy()
    cut[run] = length - tail
    rest = Runs(
        train.start[[run]] + length - tail,
        np.array([tail]),
        train.series[[run]],
        train.regime[[run]],
        None if train.group is None else train.group[[run]],
    )
    return replace(train, length=cut), rest


@dataclass(frozen=True, eq=False)
class Standardiser:
    """Centre and scale of each channel; a constant channel keeps scale 1."""

    centre: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, panel: Panel, runs: Runs) -> Standardiser:
        """Measured in one sweep, piece by piece, so that a mapped file is never loaded whole."""
        used = np.zeros(panel.rows + 1, dtype=np.int32)
        np.add.at(used, runs.start, 1)
        np.add.at(used, runs.start + runs.length, -1)
        mask = np.cumsum(used[:-1]) > 0
        count = 0
        mean = np.zeros(panel.shape)
        moment = np.zeros(panel.shape)
        for block in _frames_of(panel, mask) if panel.is_image else _rows_of(panel, mask):
            block_mean = block.mean(axis=0)
            shift = block_mean - mean
            total = count + len(block)
            moment += ((block - block_mean) ** 2).sum(axis=0)
            moment += shift**2 * count * len(block) / total
            mean += shift * len(block) / total
            count = total
        deviation = np.sqrt(moment / count)
        if panel.is_image:  # dead pixels must not be blown up: one scale for the whole frame
            deviation = np.full_like(deviation, np.sqrt((deviation**2).mean()))
        constant = deviation <= 1e-9 * np.maximum(np.abs(mean), 1e-9)
        return cls(mean, np.where(constant, 1.0, deviation))


def _rows_of(panel: Panel, mask: np.ndarray) -> Iterator[np.ndarray]:
    for first in range(0, panel.rows, CHUNK_ROWS):
        rows = slice(first, first + CHUNK_ROWS)
        if mask[rows].any():
            yield np.asarray(panel.values[rows])[mask[rows]].astype(np.float64)


def _frames_of(panel: Panel, mask: np.ndarray) -> Iterator[np.ndarray]:
    rows = np.flatnonzero(mask)
    if len(rows) > MEASURED_FRAMES:
        rows = np.random.default_rng(0).choice(rows, MEASURED_FRAMES, replace=False)
        rows.sort()  # as they lie in the file
    for some in row_chunks(panel.values, len(rows)):
        yield np.take(panel.values, rows[some], axis=0).astype(np.float64)


@dataclass(eq=False)
class CropSampler:
    """Balanced batches: for each regime so many crops of equal length, (K, B) starts and lengths.

    A batch is a function of the seed and the step alone, so a resumed run sees the same batches.
    A run longer than the crop is entered at a random place; a shorter one is used whole.
    """

    runs: Runs
    regimes: int
    per_regime: int
    length: int
    seed: int
    _slots: list[np.ndarray] = field(init=False, repr=False)
    _orders: dict[tuple[int, int], np.ndarray] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """List the places of each regime: a long run appears once for each crop it could fill."""
        fills = np.maximum(1, self.runs.length // self.length)
        self._slots = []
        for code in range(self.regimes):
            mine = np.flatnonzero(self.runs.regime == code)
            self._slots.append(np.repeat(mine, fills[mine]))
        self._orders = {}

    @property
    def padded(self) -> bool:
        """Whether some crop is shorter than the batch."""
        return bool((self.runs.length < self.length).any())

    def batch(self, step: int) -> tuple[np.ndarray, np.ndarray]:
        """First rows and lengths, both (K, B), of this step's crops."""
        chosen = np.stack([self._choose(code, step) for code in range(self.regimes)])
        length = np.minimum(self.runs.length[chosen], self.length)
        free = self.runs.length[chosen] - length
        start = self.runs.start[chosen]
        if free.any():
            place = np.random.default_rng([self.seed, 11, step]).random(chosen.shape)
            start = start + np.floor(place * (free + 1)).astype(np.int64)
        return start, length

    def _choose(self, code: int, step: int) -> np.ndarray:
        slots = self._slots[code]
        position = step * self.per_regime + np.arange(self.per_regime)
        epoch, place = np.divmod(position, len(slots))
        if epoch[0] == epoch[-1]:
            return slots[self._order(code, int(epoch[0]))[place]]
        picked = [self._order(code, int(e))[p] for e, p in zip(epoch, place, strict=True)]
        return slots[np.array(picked)]

    def _order(self, code: int, epoch: int) -> np.ndarray:
        key = (code, epoch)
        if key not in self._orders:
            self._orders = {
                k: v for k, v in self._orders.items() if k[0] != code or k[1] >= epoch - 1
            }
            rng = np.random.default_rng([self.seed, 13, code, epoch])
            self._orders[key] = rng.permutation(len(self._slots[code]))
        return self._orders[key]


def crop_rows(start: np.ndarray, length: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers (..., steps) of crops, the last row repeated on padding, and which are real."""
    step = np.arange(steps)
    return (
        start[..., None] + np.minimum(step, length[..., None] - 1),
        step < length[..., None],
    )
