"""What can be drawn: result objects, or plain arrays that are checked and made alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import ConfigError, DataError
from ..recover.trajectory import Trajectory


def curve(
    alpha: Any,
    time: Any = None,
    regimes: Sequence[str] | None = None,
    *,
    lower: Any = None,
    upper: Any = None,
    name: str = "curve",
) -> Trajectory:
    """A curve (T, K) of one's own, such as that of another method, as all figures take it.

    >>> curve([[1.0, 0.0], [0.4, 0.6]], regimes=["walk", "run"]).regimes
    ('walk', 'run')
    """
    shares = numbers(alpha, "alpha", 2)
    steps, kinds = shares.shape
    names = tuple(f"R{k}" for k in range(kinds)) if regimes is None else tuple(map(str, regimes))
    stamps = np.arange(steps) if time is None else np.asarray(time)
    if len(names) != kinds or stamps.shape != (steps,):
        raise DataError(
            f"alpha has shape {shares.shape}, with {len(names)} names and times of shape"
            f" {stamps.shape}",
            fix="give one time for each row and one name for each column",
        )
    nothing = np.full(steps, np.nan)
    return Trajectory(
        name,
        stamps,
        names,
        shares,
        shares if lower is None else like(lower, shares, "lower"),
        shares if upper is None else like(upper, shares, "upper"),
        residual=nothing,
        flag=np.full(steps, "", dtype=object),
        surprise=nothing,
        information=np.full((kinds, kinds), np.nan),
        latent_mean=np.full(0, np.nan),
        method="given",
    )


def as_curve(found: Any) -> Trajectory:
    """A Trajectory as it is, an array (T, K) as one."""
    path = found if isinstance(found, Trajectory) else curve(found)
    if not len(path):
        raise DataError("the curve has no steps", fix="give at least one")
    return path


def regime_number(path: Any, regime: str | None) -> int:
    """Which column a regime is; the last one without a name."""
    if regime is None:
        return len(path.regimes) - 1
    if regime not in path.regimes:
        raise ConfigError(
            f"there is no regime {regime!r}", fix=f"the regimes are {', '.join(path.regimes)}"
        )
    return int(path.regimes.index(regime))


def numbers(values: Any, name: str, *dimensions: int) -> np.ndarray:
    """An array of floats with one of these numbers of dimensions, not empty."""
    try:
        out = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} is not made of numbers", fix="give an array") from error
    if out.ndim not in dimensions or not out.size:
        wanted = " or ".join(map(str, dimensions))
        raise DataError(
            f"{name} has shape {out.shape}", fix=f"give an array of {wanted} dimensions"
        )
    return out


def like(values: Any, other: np.ndarray, name: str) -> np.ndarray:
    """An array of the same shape as another."""
    out = numbers(values, name, other.ndim)
    if out.shape != other.shape:
        raise DataError(
            f"{name} has shape {out.shape}, not {other.shape}", fix="give a value for each"
        )
    return out


def moments(path: Trajectory, steps: np.ndarray) -> list[str]:
    """The times of some steps, as precisely as steps are apart."""
    from ..reports.words import Clock

    clock = Clock(path.time)
    return [clock.moment(path.time[step]) for step in steps]


def for_each_step(values: np.ndarray, path: Trajectory, name: str) -> np.ndarray:
    """Check that there is a row for each step of a curve."""
    if len(values) != len(path):
        raise DataError(
            f"{name} has {len(values)} rows, the curve {len(path)} steps",
            fix="give one row for each step",
        )
    return values
