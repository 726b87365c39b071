"""Panels of several files joined into one, and one recording divided at changes of its regime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..errors import DataError
from ..io.cells import listed, natural_key
from ..io.frames import concatenate_rows
from .panel import Panel


def split_at_regimes(panel: Panel) -> Panel:
    """Make a series of each stretch of one regime without a gap, where there is one recording.

    Parts of it can then be held out. Unlabelled stretches are series, too.

    Parameters
    ----------
    panel : Panel
        Recordings with labels; more than one stay as they are.

    Returns
    -------
    Panel
        The same rows.
    """
    if len(panel) != 1 or panel.codes is None:
        return panel
    new = panel.breaks()
    new[1:] |= panel.codes[1:] != panel.codes[:-1]
    starts = np.flatnonzero(new)
    if len(starts) == 1:
        return panel
    names = [f"{panel.names[0]}/{k + 1}" for k in range(len(starts))]
    groups = None if panel.groups is None else np.repeat(panel.groups, len(starts))
    return replace(
        panel,
        offsets=np.append(starts, panel.rows),
        names=np.array(names),
        groups=groups,
        default_gap=None if panel.time is None else panel.max_step,
    )


def constant_in_series(panel: Panel) -> list[str]:
    """List the channels that never change inside a series, but differ between series."""
    if panel.is_image or len(panel) < 2 or panel.values.dtype.kind not in "iuf":
        return []
    found = []
    inner = np.ones(panel.rows, bool)
    inner[panel.offsets[:-1]] = False
    for k, name in enumerate(panel.channels):
        column = panel.values[:, k]
        changed = column[1:] != column[:-1]
        if changed.any() and not (changed & inner[1:]).any():
            found.append(name)
    return found


def join_panels(
    panels: Sequence[Panel],
    labels: Sequence[str],
    source: str,
    regimes: Sequence[str] | None = None,
) -> Panel:
    """Join panels; where names of series repeat, each gets the label of its panel in front.

    `regimes` names one regime for each panel, for data without labels.
    """
    first = panels[0]
    for panel in panels[1:]:
        if panel.shape != first.shape or panel.channels != first.channels:
            what = f"the channels are {listed(panel.channels, 8)}"
            fix = f"give all files the channels {listed(first.channels, 8)} of {first.source}"
            raise DataError(what, where=panel.source, fix=fix)
    names = [name for panel in panels for name in panel.names.tolist()]
    if len(set(names)) < len(names):
        pairs = zip(labels, panels, strict=True)
        names = [f"{label}/{name}" for label, panel in pairs for name in panel.names.tolist()]
    codes, known = _codes(panels, regimes)
    lengths = np.concatenate([panel.lengths for panel in panels])
    return Panel(
        values=concatenate_rows([panel.values for panel in panels]),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        names=np.array(names),
        time=_times(panels),
        codes=codes,
        regimes=known,
        channels=first.channels,
        gap=first.gap,
        source=source,
        groups=_groups(panels),
        preparation=first.preparation,
    )


def _groups(panels: Sequence[Panel]) -> np.ndarray | None:
    """Return the groups of all series; None where some panel has none."""
    found = [panel.groups for panel in panels if panel.groups is not None]
    return np.concatenate(found) if len(found) == len(panels) else None


def _times(panels: Sequence[Panel]) -> np.ndarray | None:
    if all(panel.time is None for panel in panels):
        return None
    times = [
        np.concatenate([panel.time_of(i) for i in range(len(panel))])
        if panel.time is None
        else panel.time
        for panel in panels
    ]
    dates = [time.dtype.kind == "M" for time in times]
    if any(dates) and not all(dates):
        other = panels[dates.index(not dates[0])]
        kinds = ("dates", "numbers") if dates[0] else ("numbers", "dates")
        what = f"its times are {kinds[1]}, but those of {panels[0].source} are {kinds[0]}"
        raise DataError(what, where=other.source, fix="use one kind in all files")
    return np.concatenate(times)


def _codes(
    panels: Sequence[Panel], regimes: Sequence[str] | None
) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """Return labels by name, as each panel numbers its own regimes."""
    if regimes is not None:
        names = sorted(set(regimes), key=natural_key)
        one = [names.index(regime) for regime in regimes]
        return np.repeat(one, [panel.rows for panel in panels]), tuple(names)
    if not any(panel.labelled for panel in panels):
        return None, ()
    names = sorted({name for panel in panels for name in panel.regimes}, key=natural_key)
    codes = [
        np.full(panel.rows, -1)
        if panel.codes is None
        else np.array([*map(names.index, panel.regimes), -1])[panel.codes]
        for panel in panels
    ]
    return np.concatenate(codes), tuple(names)
