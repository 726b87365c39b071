"""How well recovered curves match what is known of recordings: labels, or a stand-in for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .errors import DataError
from .metrics import weight_correlation, weight_error
from .recover.trajectory import Trajectory
from .series import Panel

#: Where the truth is this close to 0 or 1, an answer should be at its end too.
NEAR = 0.15
#: Flags of steps about which nothing is claimed.
UNKNOWN = ("warm-up", "missing", "unexplained")

Figures = dict[str, float]


class Answer(NamedTuple):
    """Weights (T, K) of one recording; bounds and flags where a method has them."""

    time: np.ndarray
    alpha: np.ndarray
    lower: np.ndarray | None = None
    upper: np.ndarray | None = None
    flag: np.ndarray | None = None

    @classmethod
    def of(cls, path: Trajectory) -> Answer:
        """What a Trajectory says."""
        return cls(path.time, path.alpha, path.lower, path.upper, path.flag)


def figures(answer: Answer, truth: np.ndarray, regime: int) -> Figures:
    """How the weight of one regime follows the truth (T, K), NaN where that is not known.

    pearson and spearman (of all regimes that vary); mae; low and high, the mean weight where the
    truth is near 0 and near 1; midpoint, by how much later (in time) the weight crosses one half
    in the direction in which the truth first does; coverage of the truth by the intervals;
    unknown, the share of steps that are flagged as such. Of several crossings of the weight the
    nearest counts. NaN stands for what cannot be said.
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
        slack = 1e-9
        inside = (answer.lower[known] <= wanted + slack) & (wanted <= answer.upper[known] + slack)
        said = np.isfinite(alpha).all(axis=1)
        out["coverage"] = _mean(inside[said])
    if answer.flag is not None:
        out["unknown"] = _mean(np.isin(answer.flag[known], UNKNOWN))
    return out


def mean_figures(rows: Sequence[Figures]) -> Figures:
    """The mean of each figure over the recordings that have it; of midpoints the mean distance."""
    out: Figures = {"recordings": float(len(rows))}
    for name in dict.fromkeys(name for row in rows for name in row):
        found = np.array([row[name] for row in rows if name in row], dtype=float)
        found = np.abs(found) if name == "midpoint" else found
        out[name] = _mean(found[np.isfinite(found)])
    return out


def truth_of_labels(panel: Panel, regimes: Sequence[str]) -> list[np.ndarray]:
    """Weights (T, K) of each series by its labels, NaN where it has none."""
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
    """Weights (T, 2) from the share of one of two regimes, cut to [0, 1]."""
    cut = np.clip(share, 0.0, 1.0)
    return np.column_stack([1 - cut, cut] if regime == 1 else [cut, 1 - cut])


class Fold(NamedTuple):
    """Recordings to learn from and those that are left out, by their numbers."""

    groups: tuple[str, ...]
    learn: np.ndarray
    test: np.ndarray


def leave_groups_out(panel: Panel) -> Iterator[Fold]:
    """One fold per group of labelled series; groups that nothing is learned from share one.

    Only series that are labelled throughout are learned from.
    """
    if panel.groups is None or panel.codes is None:
        what = "there are no groups" if panel.groups is None else "there are no labels"
        raise DataError(what, where=panel.source, fix="name the columns: group=..., regime=...")
    pure = np.logical_and.reduceat(panel.codes >= 0, panel.offsets[:-1])
    every = [str(name) for name in dict.fromkeys(panel.groups.tolist())]
    taught = [name for name in every if pure[panel.groups == name].any()]
    alone = [name for name in every if name not in taught]
    for names in [*((name,) for name in taught), *([tuple(alone)] if alone else [])]:
        mine = np.isin(panel.groups, names)
        yield Fold(names, np.flatnonzero(pure & ~mine), np.flatnonzero(mine))


def answers_of(paths: Trajectory | list[Trajectory]) -> list[Answer]:
    """Of one or several recordings."""
    return [Answer.of(path) for path in (paths if isinstance(paths, list) else [paths])]


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
    """Rows after which one half is crossed."""
    above = values >= 0.5
    both = np.isfinite(values[1:]) & np.isfinite(values[:-1])
    return np.flatnonzero((above[1:] != above[:-1]) & both)


def _when(time: np.ndarray, values: np.ndarray, row: int) -> float:
    part = (0.5 - values[row]) / (values[row + 1] - values[row])
    return float(time[row] + part * (time[row + 1] - time[row]))


def _numbers(time: np.ndarray) -> np.ndarray:
    """Times as numbers, in seconds for dates."""
    dates = time.dtype.kind == "M"
    return (time - time[0]) / np.timedelta64(1, "s") if dates else time.astype(float)


def _mean(values: Any) -> float:
    return float(np.mean(values)) if len(values) else float("nan")
