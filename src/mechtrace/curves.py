"""The table that `mechtrace recover` writes, read again; and known stretches as text."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .columns import column_names
from .errors import ConfigError, DataError
from .recover.known import Stretch
from .recover.trajectory import Trajectory
from .series import Panel


def read_curves(path: Path) -> list[Trajectory]:
    """One Trajectory per series of a table.

    The table holds the curves alone: what a diagnosis needs beside them is missing here.
    """
    present = column_names(path)
    regimes = tuple(name.removesuffix("_lower") for name in present if name.endswith("_lower"))
    channels = [f"{name}{end}" for end in ("", "_lower", "_upper") for name in regimes]
    missing = [name for name in [*channels, "time", "residual", "flag"] if name not in present]
    if present and (missing or not regimes):
        what = f"there is no column {missing[0]!r}" if missing else "there are no curves"
        raise DataError(
            what, where=path.name, fix="give a table that `mechtrace recover` has written"
        )
    # a flag is like a regime label: a name, or nothing
    panel = Panel.read(
        path,
        time="time",
        series="series" if "series" in present else None,
        regime="flag",
        channels=[*channels, "residual"],
        missing="gap",
    )
    return [_curve(panel, i, regimes) for i in range(len(panel))]


def _curve(panel: Panel, i: int, regimes: tuple[str, ...]) -> Trajectory:
    values = panel[i].values.astype(float)
    *curves, residual = np.split(values, [len(regimes) * n for n in (1, 2, 3)], axis=1)
    flag = panel.regime_names_of(i)
    return Trajectory(
        name=str(panel.names[i]),
        time=panel.time_of(i),
        regimes=regimes,
        alpha=curves[0],
        lower=curves[1],
        upper=curves[2],
        residual=residual[:, 0],
        flag=np.full(len(values), "") if flag is None else flag,
        surprise=np.full(len(values), np.nan),
        information=np.full((len(regimes), len(regimes)), np.nan),
        latent_mean=np.empty(0),
        level=float("nan"),
    )


def parse_known(text: str) -> Stretch:
    """A stretch from [SERIES/]FROM:TO=REGIME; weights as A:0.5,B:0.5, dates as FROM..TO.

    >>> parse_known("0:10=walk")
    Stretch(weights='walk', start='0', stop='10', series=None)
    >>> parse_known("run 3/4.5:6=walk:0.5,run:0.5").weights
    {'walk': 0.5, 'run': 0.5}
    """
    place, _, what = text.rpartition("=")
    series, slash, span = place.rpartition("/")
    start, _, stop = span.partition(".." if ".." in span else ":")
    if not (start and stop and what):
        raise ConfigError(f"{text!r} is not FROM:TO=REGIME", fix="write --known 0:10=walk")
    return Stretch(_weights(what), start, stop, series if slash else None)


def _weights(text: str) -> str | dict[str, float]:
    if ":" not in text:
        return text
    try:
        pairs = [part.rpartition(":") for part in text.split(",")]
        return {name: float(share) for name, _, share in pairs}
    except ValueError as error:
        raise ConfigError(
            f"{text!r} is no list of weights", fix="write 0:10=walk:0.5,run:0.5"
        ) from error
