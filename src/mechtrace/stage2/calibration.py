"""Calibrate whole curves by stretches of time in which the regimes are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import ConfigError, DataError
from .calibrate import Correction, mixing_matrix, two_point_map, unmixing_map
from .trajectory import Trajectory

HOW = ("auto", "two-point", "matrix")


@dataclass(frozen=True)
class Stretch:
    """These weights were at work from one time to another, both included.

    `weights` is the name of one pure regime, or a share for each of several. Without `series`
    the stretch counts in every recording.
    """

    weights: str | Mapping[str, float]
    start: Any
    stop: Any
    series: str | None = None

    def __str__(self) -> str:
        return f"{f'{self.series}/' if self.series is not None else ''}{self.start}:{self.stop}"

    def truth(self, regimes: tuple[str, ...]) -> np.ndarray:
        """The known weights, (K,)."""
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
        """What was found in the stretch, (n, K)."""
        mine = [path for path in paths if self.series is None or path.name == self.series]
        if not mine:
            names = ", ".join(path.name for path in paths[:5])
            raise DataError(f"there is no series {self.series!r}", fix=f"there are {names}")
        found = np.concatenate([path.alpha[self.inside(path.time)] for path in mine])
        found = found[np.isfinite(found).all(axis=1)]
        if not len(found):
            raise DataError(
                f"no step lies between {self.start} and {self.stop}",
                fix=f"time runs from {mine[0].time[0]} to {mine[0].time[-1]}",
            )
        return found

    def inside(self, time: np.ndarray) -> np.ndarray:
        """Which of these times lie in it."""
        stamp: Callable[[Any], Any] = np.datetime64 if time.dtype.kind == "M" else float
        try:
            start, stop = stamp(self.start), stamp(self.stop)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"{self.start} to {self.stop} is no stretch of this recording",
                fix=f"give times such as {time[0]}",
            ) from error
        return (time >= start) & (time <= stop)


Known = Stretch | tuple[Any, ...]


def stretches_of(known: Sequence[Known]) -> list[Stretch]:
    """Stretches, of which some may be given as (regime, from, to[, series])."""
    return [s if isinstance(s, Stretch) else Stretch(*s) for s in known]


def calibrated(
    paths: Sequence[Trajectory],
    known: Sequence[Known],
    *,
    how: str = "auto",
    simplex: bool = True,
) -> list[Trajectory]:
    """Curves whose known stretches come out as they are known to be.

    The distortion is a property of the model, so one correction serves all curves: stretches may
    lie in different recordings, and in several at once. "two-point" maps each regime for itself
    by a straight line; "matrix" undoes a mixing of the regimes and needs a pure stretch of each.
    "auto" takes the matrix where it can. Intervals go through the same map; they do not contain
    the uncertainty of the map itself.
    """
    if how not in HOW:
        raise ConfigError(f"how = {how!r}", fix=f"use one of {', '.join(HOW)}")
    regimes = paths[0].regimes
    stretches = stretches_of(known)
    truth = np.array([s.truth(regimes) for s in stretches]).reshape(-1, len(regimes))
    pure = truth.max(axis=1, initial=0.0) > 1 - 1e-9
    complete = set(truth[pure].argmax(axis=1)) == set(range(len(regimes)))
    if how == "auto":
        how = "matrix" if complete and pure.all() else "two-point"
    rows = [s.rows(paths) for s in stretches]
    correction = (_matrix if how == "matrix" else _line)(rows, truth, regimes)
    out = []
    for path in paths:
        curve = correction.interval(path.alpha, path.lower, path.upper, simplex=simplex)
        alpha, lower, upper = curve
        out.append(replace(path, alpha=alpha, lower=lower, upper=upper, calibration=how))
    return out


def _line(rows: list[np.ndarray], truth: np.ndarray, regimes: tuple[str, ...]) -> Correction:
    if len(rows) < 2 or not np.ptp(truth, axis=0).any():
        raise DataError(
            "one known state fixes no scale", fix="name stretches of two different regimes"
        )
    seen = np.stack([found.mean(axis=0) for found in rows])
    correction = two_point_map(seen, truth, regimes)
    against = np.flatnonzero(np.diagonal(correction.matrix) <= 0)
    if len(against):
        raise DataError(
            f"the recovered weight of {regimes[against[0]]} runs against what is known",
            fix="check the stretches, and diagnose the recording",
        )
    return correction


def _matrix(rows: list[np.ndarray], truth: np.ndarray, regimes: tuple[str, ...]) -> Correction:
    pure: dict[int, np.ndarray] = {}
    for k, name in enumerate(regimes):
        mine = [found for found, w in zip(rows, truth, strict=True) if w[k] > 1 - 1e-9]
        if not mine:
            raise DataError(
                f"no pure stretch of {name} is known", fix="name one of each regime, or two-point"
            )
        pure[k] = np.concatenate(mine)
    return unmixing_map(mixing_matrix(pure))
