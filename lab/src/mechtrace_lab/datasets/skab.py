"""SKAB: experiments with a water pump, whose anomalies and transitions are marked by row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mechtrace.data import Panel, PathLike
from mechtrace.errors import DataError
from mechtrace.io import natural_key

from .recordings import Recordings, data_folder

NAME = "skab"
COMMAND = "mechtrace datasets"
MARKS = ("anomaly", "changepoint")
NORMAL_FOLDER = "anomaly-free"


def read(folder: PathLike | None = None, *, gap: float | None = None) -> Recordings:
    """Read all experiments without labels, named by folder and file, as "valve2/0".

    Beside the channels are the marks of each row, 0 or 1: `anomaly`, and `changepoint` at the
    begin and at the end of a transition. `gap` is the longest step that continues a recording.
    """
    place = data_folder(NAME, folder, COMMAND)
    files = sorted(place.glob("*/*.csv"), key=lambda path: natural_key(str(path)))
    if not files:
        raise DataError("holds no folder of CSV files", where=str(place))
    values, marks, times, names = [], [], [], []
    for path in files:
        table = _table(path)
        channels = [str(name) for name in table if name not in ("datetime", *MARKS)]
        time = pd.to_datetime(table["datetime"])
        times.append((time - time.iloc[0]).dt.total_seconds().to_numpy())
        values.append(table[channels].to_numpy(float))
        known = table.reindex(columns=MARKS, fill_value=0.0)
        marks.append(known.to_numpy(float))
        names.append(f"{path.parent.name}/{path.stem}")
    about: dict[str, Any] = {"time": times, "names": names, "gap": gap}
    panel = Panel.from_arrays(values, channels=channels, **about)
    return Recordings(panel, Panel.from_arrays(marks, channels=MARKS, **about))


def _table(path: Path) -> pd.DataFrame:
    table = pd.read_csv(path, sep=";")
    if "datetime" not in table:
        raise DataError("has no column 'datetime'", where=str(path))
    return table.drop_duplicates("datetime")


def steady_parts(changepoint: np.ndarray) -> list[tuple[str, int, int]]:
    """Regime, first row and end of the steady parts of an experiment with one anomaly.

    Before the first mark and after the last it runs normally, between the inner ones with the
    fault; without four marks nothing is sure but the begin.

    >>> steady_parts(np.array([0, 0, 1, 1, 0, 0, 1, 0, 1, 0]))
    [('normal', 0, 2), ('fault', 3, 6), ('normal', 8, 10)]
    """
    marks = np.flatnonzero(changepoint).tolist()
    if not marks:
        return [("normal", 0, len(changepoint))]
    if len(marks) != 4:
        return [("normal", 0, marks[0])]
    begin, steady, leave, end = marks
    parts = [("normal", 0, begin), ("fault", steady, leave), ("normal", end, len(changepoint))]
    return [part for part in parts if part[2] > part[1]]
