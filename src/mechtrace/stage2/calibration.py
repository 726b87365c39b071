"""Calibration of recovered shares by intervals of time in which the regimes are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ConfigError, DataError
from ..linalg.simplex import linear_bounds, project

if TYPE_CHECKING:
    from .trajectory import Trajectory

HOW = ("auto", "two-point", "matrix")


@dataclass(frozen=True)
class KnownInterval:
    """Shares that are known from one time to another, both included."""

    weights: str | Mapping[str, float]  # a pure regime, or the share of each of several
    start: Any
    stop: Any
    series: str | None = None  # name of the recording; None for all

    @classmethod
    def parse(cls, text: str) -> KnownInterval:
        """From [SERIES/]FROM:TO=REGIME; weights as A:0.5,B:0.5, dates as FROM..TO.

        >>> KnownInterval.parse("0:10=walk")
        KnownInterval(weights='walk', start='0', stop='10', series=None)
        >>> KnownInterval.parse("run 3/4.5:6=walk:0.5,run:0.5").weights
        {'walk': 0.5, 'run': 0.5}
        """
        place, _, what = text.rpartition("=")
        series, slash, span = place.rpartition("/")
        start, _, stop = span.partition(".." if ".." in span else ":")
        if not (start and stop and what):
            raise ConfigError(f"{text!r} is not FROM:TO=REGIME", fix="write 0:10=walk")
        return cls(_weights(what), start, stop, series if slash else None)

    def __str__(self) -> str:
        return f"{f'{self.series}/' if self.series is not None else ''}{self.start}:{self.stop}"

    def shares(self, regimes: tuple[str, ...]) -> np.ndarray:
        """Known share of each regime, (K,)."""
        shares = {self.weights: 1.0} if isinstance(self.weights, str) else dict(self.weights)
        unknown = [name for name in shares if name not in regimes]
        if unknown:
            raise DataError(
                f"there is no regime {unknown[0]!r}", fix=f"the regimes are {', '.join(regimes)}"
            )
        out = np.array([float(shares.get(name, 0.0)) for name in regimes])
        if not (out >= 0).all() or abs(out.sum() - 1) > 1e-6:
            raise DataError(f"the weights known at {self} do not sum to 1", fix="give all shares")
        return out

    def rows(self, paths: Sequence[Trajectory]) -> np.ndarray:
        """Shares recovered inside the interval, (n, K)."""
        mine = [path for path in paths if self.series is None or path.name == self.series]
        if not mine:
            names = ", ".join(path.name for path in paths[:5])
            raise DataError(f"there is no series {self.series!r}", fix=f"there are {names}")
        found = np.concatenate([path.alpha[self.contains(path.time)] for path in mine])
        found = found[np.isfinite(found).all(axis=1)]
        if not len(found):
            raise DataError(
                f"no step lies between {self.start} and {self.stop}",
                fix=f"time runs from {mine[0].time[0]} to {mine[0].time[-1]}",
            )
        return found

    def contains(self, time: np.ndarray) -> np.ndarray:
        """Mask of the times inside the interval; numbers count seconds from the first date."""
        try:
            start, stop = self._limits(time)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"{self.start} to {self.stop} is no interval of this recording",
                fix=f"give times such as {time[0]}",
            ) from error
        return (time >= start) & (time <= stop)

    def _limits(self, time: np.ndarray) -> tuple[Any, Any]:
        """Return start and stop in the time of a recording."""
        if time.dtype.kind != "M":
            return float(self.start), float(self.stop)
        try:
            seconds = [float(self.start), float(self.stop)]
        except (TypeError, ValueError):
            return np.datetime64(self.start), np.datetime64(self.stop)
        start, stop = (time[0] + np.timedelta64(round(1e9 * s), "ns") for s in seconds)
        return start, stop


IntervalLike = KnownInterval | tuple[Any, ...]


def as_intervals(known: Sequence[IntervalLike]) -> list[KnownInterval]:
    """Known intervals, of which some may be given as (regime, from, to[, series])."""
    return [s if isinstance(s, KnownInterval) else KnownInterval(*s) for s in known]


def calibrated(
    paths: Sequence[Trajectory],
    known: Sequence[IntervalLike],
    *,
    how: str = "auto",
    simplex: bool = True,
) -> list[Trajectory]:
    """Correct the scale of trajectories so that known intervals come out as known.

    The distortion is a property of the model, so one map serves all trajectories.

    Parameters
    ----------
    paths
        Trajectories of one model.
    known
        Known intervals, in one recording or in several.
    how
        "two-point" maps each regime by a straight line; "matrix" inverts a mixing of the regimes
        and needs a pure interval of each; "auto" takes the matrix where it can.
    simplex
        Project the result onto the simplex.

    Returns
    -------
    list of Trajectory
        Intervals go through the same map; they do not contain the uncertainty of the map.

    Raises
    ------
    DataError
        If the known intervals do not determine the map, or contradict the trajectories.
    """
    if how not in HOW:
        raise ConfigError(f"how = {how!r}", fix=f"use one of {', '.join(HOW)}")
    regimes = paths[0].regimes
    intervals = as_intervals(known)
    truth = np.array([i.shares(regimes) for i in intervals]).reshape(-1, len(regimes))
    pure = truth.max(axis=1, initial=0.0) > 1 - 1e-9
    complete = set(truth[pure].argmax(axis=1)) == set(range(len(regimes)))
    if how == "auto":
        how = "matrix" if complete and pure.all() else "two-point"
    rows = [i.rows(paths) for i in intervals]
    correction = (_matrix if how == "matrix" else _line)(rows, truth, regimes)
    out = []
    for path in paths:
        alpha, lower, upper = correction.interval(
            path.alpha, path.lower, path.upper, simplex=simplex
        )
        out.append(replace(path, alpha=alpha, lower=lower, upper=upper, calibration=how))
    return out


def _line(rows: list[np.ndarray], truth: np.ndarray, regimes: tuple[str, ...]) -> Correction:
    if len(rows) < 2 or not np.ptp(truth, axis=0).any():
        what = "one known state does not determine a scale"
        raise DataError(what, fix="give intervals of two regimes")
    seen = np.stack([found.mean(axis=0) for found in rows])
    correction = two_point_map(seen, truth, regimes)
    against = np.flatnonzero(np.diagonal(correction.matrix) <= 0)
    if len(against):
        raise DataError(
            f"the recovered weight of {regimes[against[0]]} runs against what is known",
            fix="check the intervals, and diagnose the recording",
        )
    return correction


def _matrix(rows: list[np.ndarray], truth: np.ndarray, regimes: tuple[str, ...]) -> Correction:
    columns = []
    for k, name in enumerate(regimes):
        mine = [found for found, w in zip(rows, truth, strict=True) if w[k] > 1 - 1e-9]
        if not mine:
            raise DataError(
                f"no pure interval of {name} is known", fix="name one of each regime, or two-point"
            )
        columns.append(np.concatenate(mine).mean(axis=0))
    return unmixing_map(np.stack(columns, axis=1))


@dataclass(frozen=True, eq=False)
class Correction:
    """The affine map alpha -> matrix @ alpha + shift."""

    matrix: np.ndarray  # (K, K)
    shift: np.ndarray  # (K,)

    def apply(self, weights: np.ndarray, *, simplex: bool = True) -> np.ndarray:
        """Corrected weights (T, K)."""
        out = weights @ self.matrix.T + self.shift
        return project(out) if simplex else out

    def interval(
        self, alpha: np.ndarray, lower: np.ndarray, upper: np.ndarray, *, simplex: bool = True
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Corrected weights and their interval, which always contains them."""
        found = self.apply(alpha, simplex=simplex)
        bounds = [b + self.shift for b in linear_bounds(self.matrix, alpha, lower, upper)]
        if simplex:
            bounds = [np.clip(b, 0.0, 1.0) for b in bounds]
        return found, np.minimum(bounds[0], found), np.maximum(bounds[1], found)


def two_point_map(
    seen: np.ndarray, wanted: np.ndarray, names: Sequence[str] | None = None
) -> Correction:
    """Least-squares line a * alpha + b of each regime, from weights found and true, both (n, K).

    A regime whose true weight is the same at all points is only shifted.
    """
    regimes = seen.shape[1]
    slope, shift = np.ones(regimes), np.zeros(regimes)
    for k in range(regimes):
        if np.ptp(wanted[:, k]) > 1e-9:
            if np.ptp(seen[:, k]) < 1e-9:
                raise DataError(
                    f"regime {names[k] if names else k} has the same weight at all known rows",
                    fix="name other rows",
                )
            slope[k] = np.polyfit(seen[:, k], wanted[:, k], 1)[0]
        shift[k] = wanted[:, k].mean() - slope[k] * seen[:, k].mean()
    return Correction(np.diag(slope), shift)


def two_point(
    weights: np.ndarray, known: dict[int, np.ndarray], *, simplex: bool = True
) -> np.ndarray:
    """Correct weights (T, K) by the rows whose true weights (K,) are known (appendix E.2)."""
    if not known:
        raise DataError("no row with known weights was given", fix="name at least two")
    rows = np.array(sorted(known))
    truth = np.stack([np.asarray(known[row], float) for row in rows])
    return two_point_map(weights[rows], truth).apply(weights, simplex=simplex)


def unmixing_map(matrix: np.ndarray) -> Correction:
    """Inverse of M in alpha_found = M alpha_true (appendix A.8, effect of basis error)."""
    if np.linalg.cond(matrix) > 1e6:
        raise DataError(
            "the recovered endpoints of two regimes coincide, so they cannot be told apart",
            fix="merge these regimes",
        )
    return Correction(np.linalg.inv(matrix), np.zeros(len(matrix)))


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
