"""Score recovered shares against labels, a proxy, or a table of true shares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .data.panel import Panel
from .data.read import read_panel
from .errors import DataError
from .io.parts import Preparation
from .metrics import weight_correlation, weight_error
from .stage2.trajectory import Trajectory

#: A true share within this distance of 0 or 1 counts as low or high.
NEAR = 0.15
#: Flags of steps without a claim.
UNKNOWN = ("warm-up", "missing", "unexplained")

#: Largest difference of the sum of true shares from 1, as by rounding.
ROUNDING = 0.02

Figures = dict[str, float]


class EstimatedShares(NamedTuple):
    """Estimated shares of one recording.

    `time` (T,) has numbers or dates, `alpha` (T, K) the shares of the regimes, `lower` and `upper`
    (T, K) the bounds of their intervals; `flag` (T,) is that of `Trajectory`.
    """

    time: np.ndarray
    alpha: np.ndarray
    lower: np.ndarray | None = None
    upper: np.ndarray | None = None
    flag: np.ndarray | None = None

    @classmethod
    def of(cls, path: Trajectory) -> EstimatedShares:
        """Take the shares of a trajectory."""
        return cls(path.time, path.alpha, path.lower, path.upper, path.flag)


def figures(answer: EstimatedShares, truth: np.ndarray, regime: int) -> Figures:
    """Score estimated shares against the truth.

    Parameters
    ----------
    answer : EstimatedShares
        Of one recording.
    truth : (T, K)
        True shares, NaN where unknown.
    regime : int
        The regime whose share `low`, `high` and `midpoint` describe.

    Returns
    -------
    dict
        pearson, spearman (over regimes that vary) and mae; low and high, the mean share where the
        truth is near 0 and near 1; midpoint, the delay of the share's crossing of one half behind
        the first one of the truth (the nearest crossing in the same direction counts); coverage of
        the truth by the intervals; unknown, the share of flagged steps. NaN where undefined.

    Raises
    ------
    DataError
        If no step has a truth.
    """
    known = np.isfinite(truth).all(axis=1)
    if not known.any():
        raise DataError("nothing is known of this recording", fix="name a column with the truth")
    time = _numbers(answer.time)[known]
    alpha, wanted = answer.alpha[known], truth[known]
    share, target = alpha[:, regime], wanted[:, regime]
    out = {
        "pearson": weight_correlation(wanted, alpha),
        "spearman": weight_correlation(wanted, alpha, rank=True),
        "mae": weight_error(wanted, alpha),
        "low": _mean(share[target <= NEAR]),
        "high": _mean(share[target >= 1 - NEAR]),
        "midpoint": _midpoint(time, share, target),
    }
    if answer.lower is not None and answer.upper is not None:
        inside = _inside(answer.lower[known], answer.upper[known], wanted)
        out["coverage"] = _mean(inside[np.isfinite(alpha).all(axis=1)])
    if answer.flag is not None:
        out["unknown"] = _mean(np.isin(answer.flag[known], UNKNOWN))
    return out


def mean_figures(rows: Sequence[Figures]) -> Figures:
    """Average each score over the recordings that have it; of midpoints the absolute value."""
    out: Figures = {"recordings": float(len(rows))}
    for name in dict.fromkeys(name for row in rows for name in row):
        found = np.array([row[name] for row in rows if name in row], dtype=float)
        found = np.abs(found) if name == "midpoint" else found
        out[name] = _mean(found[np.isfinite(found)])
    return out


def truth_of_labels(panel: Panel, regimes: Sequence[str]) -> list[np.ndarray]:
    """Convert the labels of each series to shares (T, K), NaN where there is none."""
    out = []
    for i in range(len(panel)):
        names = panel.regime_names_of(i)
        truth = np.full((int(panel.lengths[i]), len(regimes)), np.nan)
        if names is not None:
            known = np.isin(names, list(regimes))
            truth[known] = names[known, None] == np.array(regimes)
        out.append(truth)
    return out


def truth_of_share(share: np.ndarray, regime: int) -> np.ndarray:
    """Make shares (T, 2) from that of one of two regimes, clipped to [0, 1]."""
    cut = np.clip(share, 0.0, 1.0)
    return np.column_stack([1 - cut, cut] if regime == 1 else [cut, 1 - cut])


class TruthTable(NamedTuple):
    """True shares of recordings; `shared` if the table names none, so that all have the same."""

    panel: Panel
    shared: bool

    @classmethod
    def read(
        cls, path: Path, regimes: Sequence[str], preparation: Preparation | None = None
    ) -> TruthTable:
        """Read a table with a column of shares for each regime, prepared as the recordings.

        Parameters
        ----------
        path : Path
            The table; time and recording are columns named as in the fit, or are detected.
        regimes : sequence of str
            Names of the columns with the shares, which sum to 1 in each row.
        preparation : Preparation, optional
            How the recordings were prepared.

        Returns
        -------
        TruthTable

        Raises
        ------
        DataError
            If a column is missing, or rows do not sum to 1.
        """
        how = preparation or Preparation()
        found = read_panel(path, channels=regimes, labelled=False, model_roles=how.columns)
        total = np.asarray(found.panel.values, dtype=float).sum(axis=1)
        far = np.abs(total - 1) > ROUNDING
        if far.any():
            what = f"the shares of {', '.join(regimes)} sum to {total[far][0]:.4g} in a row, not 1"
            raise DataError(what, where=path.name, fix="give shares from 0 to 1 of all regimes")
        panel = replace(how, detrend=None, gap=None).apply(found.panel)
        return cls(panel, found.roles.get("series") is None)

    def of(self, name: str, time: np.ndarray) -> np.ndarray:
        """Return the true shares (T, K) of a recording at these times, NaN where unknown.

        Rows are matched by time, or by number if the table has no time and as many rows.

        Raises
        ------
        DataError
            If times are dates in one and numbers in the other.
        """
        names = self.panel.names.tolist()
        out = np.full((len(time), len(self.panel.channels)), np.nan)
        if not self.shared and name not in names:
            return out
        i = 0 if self.shared else names.index(name)
        shares, there = np.asarray(self.panel[i].values, dtype=float), self.panel.time_of(i)
        if self.panel.time is None and len(shares) == len(time):
            return shares
        if (there.dtype.kind == "M") != (time.dtype.kind == "M"):
            what = "its times and those of the recordings are of different kinds"
            raise DataError(what, where=self.panel.source,
                            fix="use numbers in both, or dates in both")  # fmt: skip
        place = np.searchsorted(there, time).clip(0, len(there) - 1)
        before = (place - 1).clip(0)
        place = np.where(np.abs(there[before] - time) < np.abs(there[place] - time), before, place)
        unit = np.timedelta64(1, "s") if time.dtype.kind == "M" else 1
        step = float(np.median(np.diff(time)) / unit) if len(time) > 1 else 1.0
        near = (np.abs(there[place] - time) / unit).astype(float) <= 1e-6 * step
        out[near] = shares[place[near]]
        return out


def figures_by_regime(
    answers: Sequence[EstimatedShares], truths: Sequence[np.ndarray], regimes: Sequence[str]
) -> dict[str, Figures]:
    """Score the share of each regime, over the rows of all recordings together.

    Parameters
    ----------
    answers : sequence of EstimatedShares
        One per recording.
    truths : sequence of (T, K)
        True shares, NaN where unknown.
    regimes : sequence of str
        Names of the columns.

    Returns
    -------
    dict
        For each regime pearson (NaN if its true share is constant), mae, and coverage if the
        answers have intervals.
    """
    pairs = list(zip(answers, truths, strict=True))
    known = [
        np.isfinite(truth).all(axis=1) & np.isfinite(answer.alpha).all(axis=1)
        for answer, truth in pairs
    ]

    def rows(arrays: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate([one[mask] for one, mask in zip(arrays, known, strict=True)])

    wanted, alpha = rows(truths), rows([answer.alpha for answer in answers])
    out = {}
    for k, name in enumerate(regimes):
        column = slice(k, k + 1)
        out[name] = {
            "pearson": weight_correlation(wanted[:, column], alpha[:, column]),
            "mae": weight_error(wanted[:, column], alpha[:, column]),
        }
    lower = [answer.lower for answer in answers if answer.lower is not None]
    upper = [answer.upper for answer in answers if answer.upper is not None]
    if len(lower) == len(upper) == len(answers):
        inside = _inside(rows(lower), rows(upper), wanted)
        for k, name in enumerate(regimes):
            out[name]["coverage"] = _mean(inside[:, k])
    return out


def _inside(lower: np.ndarray, upper: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    slack = 1e-9
    return (lower <= wanted + slack) & (wanted <= upper + slack)


class GroupFold(NamedTuple):
    """Names of the groups left out, and the numbers of training and test recordings."""

    groups: tuple[str, ...]
    learn: np.ndarray
    test: np.ndarray


def leave_groups_out(panel: Panel) -> Iterator[GroupFold]:
    """Yield one fold per group with labelled rows; all other groups share one.

    Series without a label are not trained on. Without groups or labels it is a DataError.
    """
    if panel.groups is None or panel.codes is None:
        what = "there are no groups" if panel.groups is None else "there are no labels"
        raise DataError(what, where=panel.source, fix="name the columns: group=..., regime=...")
    known = np.logical_or.reduceat(panel.codes >= 0, panel.offsets[:-1])
    every = [str(name) for name in dict.fromkeys(panel.groups.tolist())]
    taught = [name for name in every if known[panel.groups == name].any()]
    alone = [name for name in every if name not in taught]
    for names in [*((name,) for name in taught), *([tuple(alone)] if alone else [])]:
        mine = np.isin(panel.groups, names)
        yield GroupFold(names, np.flatnonzero(known & ~mine), np.flatnonzero(mine))


def estimated_shares(paths: Trajectory | list[Trajectory]) -> list[EstimatedShares]:
    """Take the shares of one or several trajectories."""
    return [EstimatedShares.of(path) for path in (paths if isinstance(paths, list) else [paths])]


def _midpoint(time: np.ndarray, share: np.ndarray, target: np.ndarray) -> float:
    wanted = _crossings(target)
    if not len(wanted):
        return float("nan")
    rises = bool(target[wanted[0] + 1] > target[wanted[0]])
    found = [i for i in _crossings(share) if (share[i + 1] > share[i]) == rises]
    if not found:
        return float("nan")
    moment = _when(time, target, wanted[0])
    return min((_when(time, share, i) - moment for i in found), key=abs)


def _crossings(values: np.ndarray) -> np.ndarray:
    """Find rows after which one half is crossed."""
    above = values >= 0.5
    both = np.isfinite(values[1:]) & np.isfinite(values[:-1])
    return np.flatnonzero((above[1:] != above[:-1]) & both)


def _when(time: np.ndarray, values: np.ndarray, row: int) -> float:
    part = (0.5 - values[row]) / (values[row + 1] - values[row])
    return float(time[row] + part * (time[row + 1] - time[row]))


def _numbers(time: np.ndarray) -> np.ndarray:
    """Convert times to numbers, dates to seconds."""
    dates = time.dtype.kind == "M"
    return (time - time[0]) / np.timedelta64(1, "s") if dates else time.astype(float)


def _mean(values: Any) -> float:
    return float(np.mean(values)) if len(values) else float("nan")
