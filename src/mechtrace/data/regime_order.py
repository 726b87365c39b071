"""The order of the regimes of a Panel: that of its reader, of the recordings, or a given one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..io.cells import natural_key
from .panel import Panel


def with_regimes(panel: Panel, regimes: Sequence[str]) -> Panel:
    """Return the same labelled recordings with their regimes in this order."""
    if panel.codes is None or tuple(regimes) == panel.regimes:
        return panel
    lookup = [list(regimes).index(name) for name in panel.regimes] + [-1]  # -1: no label
    codes = np.array(lookup, dtype=panel.codes.dtype)[panel.codes]
    return replace(panel, codes=codes, regimes=tuple(regimes))


def by_appearance(panel: Panel) -> Panel:
    """Order regimes as they first appear in the recordings, unless their names have an order.

    Names with numbers and single letters stay in natural order (A, B, C; 2 before 10), and so do
    regimes that the user has ordered.
    """
    if panel.codes is None or list(panel.regimes) != sorted(panel.regimes, key=natural_key):
        return panel
    if all(len(name) == 1 or any(c.isdigit() for c in name) for name in panel.regimes):
        return panel
    codes, first = np.unique(panel.codes[panel.codes >= 0], return_index=True)
    shown = [panel.regimes[code] for code in codes[np.argsort(first)]]
    return with_regimes(panel, [*shown, *(name for name in panel.regimes if name not in shown)])
