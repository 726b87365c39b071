"""The table that `mechtrace recover` writes, and reads again; and known stretches as text."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .atomic import atomic_path
from .errors import ConfigError, DataError
from .readers.files import TABLES, column_names, existing_file
from .recover.known import Stretch
from .recover.trajectory import Trajectory
from .series import Panel
from .writers import write_frames


def write_curves(paths: Sequence[Trajectory], out: Path) -> None:
    """One table of all curves; as npz, arrays with one entry per row of the table."""
    if out.suffix.lower() != ".npz":
        write_frames({path.name: path.to_frame() for path in paths}, out)
        return
    arrays = {
        name: np.concatenate([getattr(path, name) for path in paths])
        for name in ("time", "alpha", "lower", "upper", "residual", "flag")
    }
    arrays["series"] = np.repeat([path.name for path in paths], [len(path) for path in paths])
    arrays["regimes"] = np.array(paths[0].regimes)
    with atomic_path(out) as temporary:
        np.savez_compressed(temporary, allow_pickle=False, **arrays)


def read_curves(path: Path) -> list[Trajectory]:
    """One Trajectory per series of a table.

    The table holds the curves alone: what a diagnosis needs beside them is missing here.
    """
    return _from_npz(path) if path.suffix.lower() == ".npz" else _from_table(path)


def _from_npz(path: Path) -> list[Trajectory]:
    existing_file(path)
    fix = "give a file that `mechtrace recover` has written"
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            table = {name: archive[name] for name in archive.files}
        _, first = np.unique(table["series"], return_index=True)
        names = table["series"][np.sort(first)]
        rows = [np.flatnonzero(table["series"] == name) for name in names]
        return [_trajectory(str(n), table, r) for n, r in zip(names, rows, strict=True)]
    except (KeyError, IndexError) as error:
        what = f"there is no usable array {str(error).strip(chr(39))!r}"
        raise DataError(what, where=path.name, fix=fix) from error
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        raise DataError("is damaged or not an npz file", where=path.name, fix=fix) from error


def _trajectory(name: str, table: dict[str, np.ndarray], rows: np.ndarray) -> Trajectory:
    regimes = tuple(table["regimes"].tolist())
    curves = [table[key][rows] for key in ("time", "alpha", "lower", "upper", "residual", "flag")]
    time, alpha, lower, upper, residual, flag = curves
    return _curve(name, time, regimes, (alpha, lower, upper), residual, flag)


def _from_table(path: Path) -> list[Trajectory]:
    present = column_names(path)
    regimes = tuple(name.removesuffix("_lower") for name in present if name.endswith("_lower"))
    channels = [f"{name}{end}" for end in ("", "_lower", "_upper") for name in regimes]
    missing = [name for name in [*channels, "time", "residual", "flag"] if name not in present]
    if path.name.lower().endswith(TABLES) and present and (missing or not regimes):
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
    found = []
    for i in range(len(panel)):
        values = np.asarray(panel[i].values, dtype=float)
        *curves, residual = np.split(values, [len(regimes) * n for n in (1, 2, 3)], axis=1)
        flag = panel.regime_names_of(i)
        flag = np.full(len(values), "") if flag is None else flag
        one = (curves[0], curves[1], curves[2])
        name = str(panel.names[i])
        found.append(_curve(name, panel.time_of(i), regimes, one, residual[:, 0], flag))
    return found


def _curve(
    name: str,
    time: np.ndarray,
    regimes: tuple[str, ...],
    curves: tuple[np.ndarray, np.ndarray, np.ndarray],
    residual: np.ndarray,
    flag: np.ndarray,
) -> Trajectory:
    alpha, lower, upper = curves
    return Trajectory(
        name=name,
        time=time,
        regimes=regimes,
        alpha=alpha,
        lower=lower,
        upper=upper,
        residual=residual,
        flag=flag,
        surprise=np.full(len(alpha), np.nan),
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
