"""How the cells of a table are laid out: blocks of equal values, and restarts of the clock.

Names of recordings, labels of regimes and set-points are all constant over blocks of rows. What
tells them apart is where the blocks end, and whether a value comes back after its block.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ..errors import DataError
from .cells import Locator, parse_time

if TYPE_CHECKING:
    import pandas as pd

#: Rows of a block on average, at least; of a block of a regime that nobody named.
MIN_BLOCK, MIN_REGIME_BLOCK = 3, 5
#: A regime that nobody named has at most this many labels.
MAX_UNNAMED_REGIMES = 20
#: A regime column with more different values than this is a measurement, or text.
MAX_REGIMES_IN_TABLE = 100
#: A step of this many median steps is a pause between recordings.
PAUSE = 20
#: Ones among zeros that are rarer than this mark single rows.
RARE = 0.02
#: Decimal commas in columns that were read as names.
_COMMA = r"^\s*([+-]?\d*),(\d+)\s*$"


def as_numbers(column: pd.Series) -> pd.Series:
    """Return a column as numbers, NaN where it is none."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column.dtype):
        return column
    found = pd.to_numeric(column.astype(str), errors="coerce")
    if found.isna().all() and column.notna().any():
        texts = column.astype(str).str.replace(_COMMA, r"\1.\2", regex=True)
        found = pd.to_numeric(texts, errors="coerce")
    return found


class Structure:
    """Blocks of the columns of a frame, in the order of its rows.

    Parameters
    ----------
    frame : DataFrame
        The table.
    time : str, optional
        Its column with the time.
    """

    def __init__(self, frame: pd.DataFrame, time: str | None) -> None:
        self.frame, self.time = frame, time
        self._codes: dict[str, tuple[np.ndarray, list[object]]] = {}

    # --- one column ------------------------------------------------------------------------

    def codes(self, name: str) -> np.ndarray:
        """Code the values of a column by first appearance, -1 where missing."""
        return self._coded(name)[0]

    def values(self, name: str) -> list[object]:
        """Return the different values of a column, missing ones left out."""
        return [value for value in self._coded(name)[1] if str(value).strip()]

    def changes(self, name: str) -> np.ndarray:
        """Return a mask (rows - 1,) of the places where a column changes."""
        codes = self.codes(name)
        return codes[1:] != codes[:-1]

    def is_text(self, name: str) -> bool:
        """Whether a column holds words: no cell is a number."""
        known = self.frame[name].notna()
        return bool(known.any() and as_numbers(self.frame[name]).isna().all())

    def is_whole(self, name: str) -> bool:
        """Whether a column holds whole numbers only."""
        numbers = as_numbers(self.frame[name]).to_numpy(dtype=float, na_value=np.nan)
        return _whole(numbers[:1000]) and _whole(numbers)

    def has_fractions(self, name: str) -> bool:
        """Whether some number of a column is not whole."""
        numbers = as_numbers(self.frame[name]).to_numpy(dtype=float, na_value=np.nan)
        return bool((numbers[np.isfinite(numbers)] % 1 != 0).any())

    def in_blocks(self, name: str) -> bool:
        """Whether a column has names or whole numbers that stay the same over blocks of rows."""
        column = self.frame[name]
        if column.dtype.kind == "f" and not self.is_whole(name):
            return False
        count = int(self.changes(name).sum()) + 1
        few = count > 1 and MIN_BLOCK * count <= len(self.frame)
        return few and (self.is_whole(name) or self.is_text(name))

    def in_one_block_each(self, name: str) -> bool:
        """Whether no value of a column comes back after its block."""
        return int(self.changes(name).sum()) + 1 == len(self.values(name)) > 1

    def rises_by_one(self, name: str) -> bool:
        """Whether whole numbers count the blocks: 1, 1, 1, 2, 2, 2, 3."""
        if not self.is_whole(name):
            return False
        steps = np.diff(as_numbers(self.frame[name]).to_numpy(dtype=float))
        return bool((steps[steps != 0] == 1).all() and (steps != 0).any())

    def are_numbered(self, name: str) -> bool:
        """Whether words differ in their digits only, as run 1, run 2."""
        texts = [str(value) for value in self.values(name)]
        return len(texts) > 1 and len({re.sub(r"\d+", "", text) for text in texts}) == 1

    def counts_rows(self, name: str) -> bool:
        """Whether a column goes up by one almost from each row to the next."""
        column = self.frame[name]
        if len(column) < MIN_BLOCK or not self.is_whole(name):
            return False
        return bool((np.diff(as_numbers(column).to_numpy(dtype=float)) == 1).mean() > 0.5)

    def marks_rows(self, name: str) -> bool:
        """Whether a column of two numbers has one of them in hardly any row."""
        codes = self.codes(name)
        if len(self.values(name)) != 2 or (codes < 0).any() or not self.is_whole(name):
            return False
        return bool(np.bincount(codes).min() < RARE * len(codes))

    # --- two columns -----------------------------------------------------------------------

    def same_within(self, name: str, owner: np.ndarray) -> bool:
        """Whether a column differs between the codes of `owner` (rows,), but never within one."""
        order = (
            slice(None) if (owner[1:] >= owner[:-1]).all() else np.argsort(owner, kind="stable")
        )
        mine = owner[order]
        same = mine[1:] == mine[:-1]
        column = self.frame[name].to_numpy()[order]
        head = slice(0, 1000)
        if ((column[1:][head] != column[:-1][head]) & same[head]).any():
            return False
        differs = column[1:] != column[:-1]
        return bool(differs.any() and not (differs & same).any())

    def follows(self, name: str, other: str) -> bool:
        """Whether each value of another column comes with one value of this one."""
        pairs = np.unique(np.stack([self.codes(other), self.codes(name)]), axis=1)
        labels, values = np.unique(pairs[0]), np.unique(pairs[1])
        return len(values) > 1 and pairs.shape[1] == len(labels)

    # --- the clock -------------------------------------------------------------------------

    @cached_property
    def clock(self) -> np.ndarray | None:
        """Times as numbers; None without a column that holds times."""
        if self.time is None or self.time not in self.frame:
            return None
        column, nowhere = self.frame[self.time], Locator("", str, str)
        try:
            found = parse_time(column, self.time, nowhere)
        except DataError:  # it is reported when the table is read
            return None
        return found.view(np.int64) / 1e9 if found.dtype.kind == "M" else found.astype(float)

    @cached_property
    def restarts(self) -> np.ndarray:
        """Mask (rows - 1,) of the places where the clock goes back."""
        if self.clock is None:
            return np.zeros(max(len(self.frame) - 1, 0), bool)
        return np.diff(self.clock) < 0

    @cached_property
    def pauses(self) -> np.ndarray:
        """Mask (rows - 1,) of the places where the clock goes back or leaps."""
        if self.clock is None:
            return self.restarts
        steps = np.diff(self.clock)
        usual = np.median(steps[steps > 0]) if (steps > 0).any() else np.inf
        return self.restarts | (steps > PAUSE * usual)

    def increases(self, name: str, owner: np.ndarray | None) -> bool:
        """Whether a column increases throughout each recording."""
        numbers = as_numbers(self.frame[name]).to_numpy(dtype=float, na_value=np.nan)
        steps = np.diff(numbers)
        if owner is not None:
            order = np.argsort(owner, kind="stable")
            steps = np.diff(numbers[order])[np.diff(owner[order]) == 0]
        return bool((steps > 0).all())

    # --- roles -----------------------------------------------------------------------------

    def names_recordings(self, name: str, regime: str | None) -> bool | None:
        """Tell whether a column names the recordings; None where it may as well be a sensor."""
        if not self.in_blocks(name) or not self.in_one_block_each(name):
            return False
        changes = self.changes(name)
        if self.restarts.any():
            return bool(changes[self.restarts].all())
        if self.pauses.any() and self.pauses[changes].all():
            return True
        if self.is_text(name) and self.are_numbered(name):
            return True
        if regime is None or regime not in self.frame:
            return None if self.is_text(name) or len(self.values(name)) > 2 else False
        if not changes[self.changes(regime)].all() or len(self.values(name)) < 3:
            return False  # it changes on its own, and regimes change inside of its blocks
        sure = self.is_text(name) or self.rises_by_one(name)
        return True if sure else None

    def may_name(self, name: str) -> bool:
        """Tell whether a column that is named like ids can be one: in blocks, or interleaved."""
        return self.in_blocks(name) or len(self.values(name)) < 2 or self.takes_turns(name)

    def takes_turns(self, name: str) -> bool:
        """Tell whether rows of several recordings alternate: each has a time but once."""
        if self.time is None or self.time not in self.frame:
            return False
        twice = self.frame.duplicated([self.time]).any()
        return bool(twice and not self.frame.duplicated([self.time, name]).any())

    def wanders(self, name: str) -> bool:
        """Whether numbers go up and down from row to row, as only measurements do."""
        steps = np.diff(as_numbers(self.frame[name]).to_numpy(dtype=float, na_value=np.nan))
        up, down = (steps > 0).mean(), (steps < 0).mean()
        return bool(len(steps) >= MIN_BLOCK and min(up, down) > 0.2)

    def is_label(self, name: str) -> bool:
        """Whether a column named like a regime can be one: few words or whole numbers."""
        few = len(self.values(name)) <= MAX_REGIMES_IN_TABLE
        return few and (self.is_text(name) or not self.has_fractions(name))

    def labels_regimes(self, name: str) -> bool:
        """Tell whether words without a usual name label regimes: few ones, in long blocks."""
        codes, values = self.codes(name), self.values(name)
        if not 2 <= len(values) <= MAX_UNNAMED_REGIMES or not self.is_text(name):
            return False
        blocks = int(self.changes(name).sum()) + 1
        long = MIN_REGIME_BLOCK * blocks <= len(codes)
        blank = self.frame[name].isna() | (self.frame[name].astype(str).str.strip() == "")
        return bool(long and blank.mean() <= 0.5 and not self.are_numbered(name))

    def _coded(self, name: str) -> tuple[np.ndarray, list[object]]:
        import pandas as pd

        if name not in self._codes:
            codes, values = pd.factorize(self.frame[name])
            self._codes[name] = codes, list(values)
        return self._codes[name]


def _whole(numbers: np.ndarray) -> bool:
    return bool(np.isfinite(numbers).all() and (numbers % 1 == 0).all())
