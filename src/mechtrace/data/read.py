"""Several panels of the same channels become one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .errors import DataError
from .frames import join_rows
from .readers.names import listed, natural_key
from .series import Panel


def joined(
    panels: Sequence[Panel],
    labels: Sequence[str],
    source: str,
    regimes: Sequence[str] | None = None,
) -> Panel:
    """One panel; series whose name appears in several get the label of theirs in front.

    `regimes` names one regime for each panel, for data that has no labels of its own.
    """
    first = panels[0]
    for panel in panels[1:]:
        if panel.shape != first.shape or panel.channels != first.channels:
            what = f"the channels are {listed(panel.channels, 8)}"
            fix = f"give all files the channels {listed(first.channels, 8)} of {first.source}"
            raise DataError(what, where=panel.source, fix=fix)
    names = [panel.names.tolist() for panel in panels]
    every = [name for group in names for name in group]
    if len(set(every)) < len(every):
        names = [
            [f"{label}/{name}" for name in group]
            for label, group in zip(labels, names, strict=True)
        ]
    codes, known = _codes(panels) if regimes is None else _codes_of(panels, regimes)
    lengths = np.concatenate([panel.lengths for panel in panels])
    return Panel(
        values=join_rows([panel.values for panel in panels]),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        names=np.array([name for group in names for name in group]),
        time=_times(panels),
        codes=codes,
        regimes=known,
        channels=first.channels,
        gap=first.gap,
        source=source,
        groups=_groups(panels),
    )


def _groups(panels: Sequence[Panel]) -> np.ndarray | None:
    """Groups of all series; none where some panel has none."""
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


def _codes(panels: Sequence[Panel]) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """Labels by name: panels number their regimes each for itself."""
    if not any(panel.labelled for panel in panels):
        return None, ()
    names = sorted({name for panel in panels for name in panel.regimes}, key=natural_key)
    codes = []
    for panel in panels:
        if panel.codes is None:
            codes.append(np.full(panel.rows, -1))
        else:
            codes.append(np.array([*map(names.index, panel.regimes), -1])[panel.codes])
    return np.concatenate(codes), tuple(names)


def _codes_of(
    panels: Sequence[Panel], regimes: Sequence[str]
) -> tuple[np.ndarray, tuple[str, ...]]:
    names = sorted(set(regimes), key=natural_key)
    codes = [names.index(regime) for regime in regimes]
    return np.repeat(codes, [panel.rows for panel in panels]), tuple(names)
