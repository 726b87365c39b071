"""Trajectory: alpha(t) with its intervals, in the user's own time, and tables of it."""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._runtime.lazy import render
from .._runtime.process import atomic_path
from ..data.panel import Panel
from ..errors import DataError, MissingDependency
from ..io.cells import offset_of
from ..io.discover import check_file
from ..io.parts import Roles
from ..io.tables import WRITTEN_ROWS, open_table, table_parts, write_frames
from .events import Event, find_events
from .kalman import Observed

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from .calibration import IntervalLike

#: No history yet; no evidence; explained by no mixture; observation models disagree.
FLAGS = ("warm-up", "missing", "unexplained", "disagree")
#: A regime with at least this share on average is active throughout.
CLEAR = 0.75
#: Columns of a table of shares that belong to no regime.
OTHER_COLUMNS = ("series", "time", "residual", "flag")
#: Prefixes of a regime whose plain column names would collide with others.
PREFIXES = ("share:", "lower:", "upper:")


def curve_columns(regimes: Sequence[str]) -> list[tuple[str, str, str]]:
    """Columns of each regime in a table: its share and the bounds of the interval.

    A regime whose columns would collide with others gets prefixes instead.

    >>> curve_columns(["walk", "time"])
    [('walk', 'walk_lower', 'walk_upper'), ('share:time', 'lower:time', 'upper:time')]
    """
    plain = [(name, f"{name}_lower", f"{name}_upper") for name in regimes]
    uses = Counter([*OTHER_COLUMNS, *(column for columns in plain for column in columns)])
    share, lower, upper = PREFIXES
    return [
        (share + name, lower + name, upper + name)
        if name.startswith(PREFIXES) or any(uses[column] > 1 for column in columns)
        else columns
        for name, columns in zip(regimes, plain, strict=True)
    ]


def regimes_in(columns: Sequence[str]) -> tuple[str, ...]:
    """Find the regimes of a table, by the columns of their lower bounds.

    >>> regimes_in(["time", "walk", "share:time", "walk_lower", "lower:time"])
    ('walk', 'time')
    """
    found = []
    for name in columns:
        share = f"{name}_lower" in columns  # of a regime that is itself called x_lower
        if name.startswith(PREFIXES[1]):
            found.append(name.removeprefix(PREFIXES[1]))
        elif name.endswith("_lower") and not share and not name.startswith(PREFIXES):
            found.append(name.removesuffix("_lower"))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Curve:
    """Share of each regime by one observation model alone, with its interval; (T, K) each."""

    alpha: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


@dataclass(frozen=True, eq=False)
class Trajectory:
    """alpha(t): the share of each mechanism at each step of one recording (or of a pool).

    Parameters
    ----------
    name : str
        Of the recording.
    time : (T,)
        Time stamps of the recording.
    regimes : tuple of str
        Names of the regimes.
    alpha, lower, upper : (T, K)
        Shares on the simplex and their intervals, in the order of `regimes`.
    residual : (T,)
        Root mean square of the whitened prediction error; about 1 in pure regimes.
    flag : (T,) of str
        "" or one of `FLAGS`.
    surprise : (T,)
        Squared causal prediction error, in units of its variance.
    information : (K, K)
        Sum over the steps of M' R^-1 M.
    latent_mean : (d,)
        Mean of the latents.
    method, causal, level, trials
        How it was recovered; `trials` recordings were pooled.
    process_noise : float
        Variance of the random walk of alpha per step.
    calibration : str
        "two-point" or "matrix" where known intervals have corrected it, else "".
    by_evidence : dict of Curve
        Answer of each observation model alone, if several were used.
    error : (T,), optional
        Expected absolute error of the shares, mean over the regimes.
    observed : Observed, optional
        Values and predictions of the tested observation model, for the diagnosis.
    zone : str, optional
        UTC offset of the dates in `time`, as +05:30; written with them.
    without : tuple of str
        Sensors that were left out.
    """

    name: str
    time: np.ndarray
    regimes: tuple[str, ...]
    alpha: np.ndarray = field(repr=False)
    lower: np.ndarray = field(repr=False)
    upper: np.ndarray = field(repr=False)
    residual: np.ndarray = field(repr=False)
    flag: np.ndarray = field(repr=False)
    surprise: np.ndarray = field(repr=False)
    information: np.ndarray = field(repr=False)
    latent_mean: np.ndarray = field(repr=False)
    method: str = "state-space"
    causal: bool = False
    level: float = 0.9
    process_noise: float = float("nan")
    trials: int = 1
    calibration: str = ""
    by_evidence: dict[str, Curve] = field(default_factory=dict, repr=False)
    error: np.ndarray | None = field(repr=False, default=None)
    observed: Observed | None = field(repr=False, default=None)
    zone: str | None = None
    without: tuple[str, ...] = ()

    @property
    def expected_error(self) -> float:
        """Expected mean absolute error of the shares; NaN where it was not computed."""
        if self.error is None:
            return float("nan")
        known = np.isfinite(self.error) & (self.flag != "warm-up")
        return float(self.error[known].mean()) if known.any() else float("nan")

    def __len__(self) -> int:
        return len(self.time)

    def to_frame(self) -> pd.DataFrame:
        """Table: time, one column per regime, <regime>_lower and _upper, residual, flag.

        Returns
        -------
        pandas.DataFrame
            See `curve_columns` for regimes whose names would collide with other columns.
        """
        return self._frame(slice(None))

    def _frame(self, rows: slice) -> pd.DataFrame:
        import pandas as pd

        stamps = pd.Series(self.time[rows])
        if self.zone is not None and self.time.dtype.kind == "M":
            stamps = stamps.dt.tz_localize(timezone(offset_of(self.zone)))
        columns: dict[str, Any] = {"time": stamps}
        names = curve_columns(self.regimes)
        columns |= {share: self.alpha[rows, k] for k, (share, _, _) in enumerate(names)}
        for k, (_, lower, upper) in enumerate(names):
            columns |= {lower: self.lower[rows, k], upper: self.upper[rows, k]}
        return pd.DataFrame(columns | {"residual": self.residual[rows], "flag": self.flag[rows]})

    def to_xarray(self) -> xr.Dataset:
        """Dataset of alpha, lower, upper (time, regime), residual and flag (time).

        Returns
        -------
        xarray.Dataset

        Raises
        ------
        MissingDependency
            Without the package xarray.
        """
        try:
            import xarray as xr
        except ImportError as error:
            fix = 'pip install "mechtrace[xarray]"'
            raise MissingDependency("to_xarray needs the package xarray", fix=fix) from error
        both = ("time", "regime")
        return xr.Dataset(
            {
                "alpha": (both, self.alpha),
                "lower": (both, self.lower),
                "upper": (both, self.upper),
                "residual": ("time", self.residual),
                "flag": ("time", np.asarray(self.flag, dtype=np.str_)),
            },
            coords={"time": self.time, "regime": list(self.regimes)},
            attrs={
                "name": self.name,
                "method": self.method,
                "causal": int(self.causal),  # netCDF has no truth values
                "level": self.level,
                "trials": self.trials,
            },
        )

    def events(self, *, edge: float = 0.1, minimum: int = 1) -> list[Event]:
        """Transitions from one leading regime to the next.

        Parameters
        ----------
        edge
            A regime counts as pure from a share of 1 - edge on.
        minimum
            Ignore leads of fewer steps.

        Returns
        -------
        list of Event
            Empty if nothing changed.
        """
        found: dict[tuple[float, int], list[Event]] = self.__dict__.setdefault("_events", {})
        if (edge, minimum) not in found:  # sentence, report and diagnosis ask for the same
            found[edge, minimum] = find_events(
                self.time, self.alpha, self.regimes, edge=edge, minimum=minimum
            )
        return list(found[edge, minimum])

    def calibrate(
        self, known: Sequence[IntervalLike], *, how: str = "auto", simplex: bool = True
    ) -> Trajectory:
        """Correct the scale by intervals of time whose regime is known.

        Parameters
        ----------
        known
            As (regime, from, to); weights such as {"walk": 0.5, "run": 0.5} may replace a regime.
        how, simplex
            See `mechtrace.stage2.calibration.calibrated`, which also takes several trajectories.

        Returns
        -------
        Trajectory
        """
        from .calibration import calibrated

        return calibrated([self], known, how=how, simplex=simplex)[0]

    def plot(self, ax: Any = None, truth: np.ndarray | None = None) -> Any:
        """Plot alpha(t) with its intervals.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to plot.
        truth : (T, K), optional
            True shares, for comparison.

        Returns
        -------
        matplotlib Axes
        """
        return render("trajectory_plot", self, ax, truth)

    def _repr_html_(self) -> str:
        return render("html", self)

    def __str__(self) -> str:
        return str(render("sentence", self))


#: Arrays of a Trajectory that a table holds.
COLUMNS = ("time", "alpha", "lower", "upper", "residual", "flag")


def _frames(paths: Sequence[Trajectory]) -> Iterator[tuple[str, pd.DataFrame]]:
    """Tables of all trajectories in turn, long ones a block of rows at a time."""
    for path in paths:
        for first in range(0, max(len(path), 1), WRITTEN_ROWS):
            yield path.name, path._frame(slice(first, first + WRITTEN_ROWS))


def write_curves(paths: Sequence[Trajectory], out: Path) -> None:
    """Write one table of all trajectories; as npz, arrays with one entry per row of the table."""
    if out.suffix.lower() != ".npz":
        write_frames(_frames(paths), out)
        return
    arrays = {name: np.concatenate([getattr(path, name) for path in paths]) for name in COLUMNS}
    arrays["series"] = np.repeat([path.name for path in paths], [len(path) for path in paths])
    arrays["regimes"] = np.array(paths[0].regimes)
    with atomic_path(out) as temporary:
        np.savez_compressed(temporary, allow_pickle=False, **arrays)


def read_curves(path: Path) -> list[Trajectory]:
    """One Trajectory per series of a table, without what only a diagnosis needs."""
    return _from_npz(path) if path.suffix.lower() == ".npz" else _from_table(path)


def _from_npz(path: Path) -> list[Trajectory]:
    check_file(path)
    fix = "give a file that `mechtrace recover` has written"
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            table = {name: archive[name] for name in archive.files}
        _, first = np.unique(table["series"], return_index=True)
        names = table["series"][np.sort(first)]
        regimes = table["regimes"].tolist()
        return [
            _trajectory(
                str(name), regimes, **{k: table[k][table["series"] == name] for k in COLUMNS}
            )
            for name in names
        ]
    except (KeyError, IndexError) as error:
        what = f"there is no usable array {str(error).strip(chr(39))!r}"
        raise DataError(what, where=path.name, fix=fix) from error
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        raise DataError("is damaged or not an npz file", where=path.name, fix=fix) from error


def _from_table(path: Path) -> list[Trajectory]:
    with open_table(path) as table:
        present = table.header
        regimes = regimes_in(present)
        channels = [name for kind in zip(*curve_columns(regimes), strict=True) for name in kind]
        missing = [name for name in [*channels, "time", "residual", "flag"] if name not in present]
        if missing or not regimes:
            what = f"there is no column {missing[0]!r}" if missing else "there are no shares"
            fix = "give a table that `mechtrace recover` has written"
            raise DataError(what, where=path.name, fix=fix)
        # a flag is like a regime label: a name, or nothing
        roles = Roles(
            time="time", series="series" if "series" in present else None, regime="flag",
            channels=[*channels, "residual"], missing="gap",
        )  # fmt: skip
        panel = Panel.from_parts(table_parts(table, roles))
    found = []
    for i in range(len(panel)):
        values = np.asarray(panel[i].values, dtype=float)
        *curves, residual = np.split(values, [len(regimes) * n for n in (1, 2, 3)], axis=1)
        flag = panel.regime_names_of(i)
        flag = np.full(len(values), "") if flag is None else flag
        arrays = (panel.time_of(i), *curves, residual[:, 0], flag)
        columns = dict(zip(COLUMNS, arrays, strict=True))
        found.append(
            _trajectory(str(panel.names[i]), regimes, zone=panel.preparation.zone, **columns)
        )
    return found


def _trajectory(name: str, regimes: Sequence[str], **columns: Any) -> Trajectory:
    rows = len(columns["alpha"])
    return Trajectory(
        name=name,
        regimes=tuple(regimes),
        **columns,
        surprise=np.full(rows, np.nan),
        information=np.full((len(regimes), len(regimes)), np.nan),
        latent_mean=np.empty(0),
        level=float("nan"),
    )
