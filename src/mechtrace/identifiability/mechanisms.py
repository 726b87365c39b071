"""Mechanisms as matrices W^(k), their mixture W(t), and edges in which regimes differ."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import norm

from .._runtime.lazy import render
from ..errors import ConfigError
from ..linalg.simplex import linear_bounds

if TYPE_CHECKING:
    import pandas as pd

    from ..stage2.trajectory import Trajectory
    from .axes import Axes

#: Smallest change that is reported, as a share of the largest weight.
MIN_SHARE = 0.1
#: Probability of a false report over all edges of all regimes.
LEVEL = 0.01


@dataclass(frozen=True, eq=False)
class Mechanisms:
    """Lagged effects of each regime: the mean Jacobian of its expert's conditional mean.

    Where the axes are not identified (`trace.axes_`), latents are known only up to an invertible
    map A and these matrices up to A^-1 W A: interpret eigenvalues, not single edges.

    Parameters
    ----------
    regimes : tuple of str
        Names of the K regimes.
    jacobian : (K, L, d, d)
        `[k, l, i, j]` is d E_k[z_t,j] / d z_{t-1-l,i}: the effect of latent i on latent j, l + 1
        steps later, averaged over histories.
    states : int
        Number of histories.
    error : (K, L, d, d), optional
        Standard errors.
    latents : tuple of str, optional
        Names of the d latents; z0, z1, ... by default.
    """

    regimes: tuple[str, ...]
    jacobian: np.ndarray = field(repr=False)
    states: int = 1
    error: np.ndarray | None = field(default=None, repr=False)
    latents: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Name latents z0, z1, ... by default."""
        if not self.latents:
            names = tuple(f"z{i}" for i in range(self.jacobian.shape[-1]))
            object.__setattr__(self, "latents", names)

    def plot(self, ax: Any = None, *, lag: int = 1, difference: bool = False) -> np.ndarray:
        """Draw the matrix of each regime, or its difference from the median, with matplotlib."""
        return render("mechanisms_plot", self, ax, lag=lag, difference=difference)

    def _repr_html_(self) -> str:
        return render("html", self)

    @property
    def lags(self) -> int:
        """Number of lags L."""
        return self.jacobian.shape[1]

    def of(self, regime: str) -> np.ndarray:
        """Return the matrices of one regime, (L, d, d)."""
        if regime not in self.regimes:
            raise ConfigError(
                f"there is no regime {regime!r}", fix=f"the regimes are {', '.join(self.regimes)}"
            )
        return self.jacobian[self.regimes.index(regime)]

    def at(self, alpha: np.ndarray) -> np.ndarray:
        """Mix the matrices by shares (..., K): W = sum_k alpha_k W^(k), (..., L, d, d)."""
        return np.tensordot(alpha, self.jacobian, axes=1)

    def edges(
        self, path: Trajectory, *, threshold: float = 0.05, top: int | None = None
    ) -> pd.DataFrame:
        """List the edges of W(t) along a recovered trajectory.

        Parameters
        ----------
        path : Trajectory
            Of the same model.
        threshold : float
            Smallest absolute weight that is listed.
        top : int, optional
            List at most this many edges of each step, the strongest.

        Returns
        -------
        pandas.DataFrame
            time, source, target, lag, weight, lower, upper. The bounds combine the intervals of
            alpha with the standard errors of the matrices, where these are known.

        Raises
        ------
        ConfigError
            If the regimes differ, or `threshold` or `top` is out of range.
        """
        import pandas as pd

        if path.regimes != self.regimes:
            raise ConfigError(
                f"the curve has the regimes {', '.join(path.regimes)}, the mechanisms"
                f" {', '.join(self.regimes)}",
                fix="use a curve of the same model",
            )
        if not threshold >= 0 or (top is not None and top < 1):
            raise ConfigError(
                f"threshold = {threshold}, top = {top}", fix="use a threshold >= 0 and a top >= 1"
            )
        rows = self.jacobian.reshape(len(self.regimes), -1).T  # (edges, K)
        weight = path.alpha @ rows.T
        lower, upper = linear_bounds(rows, path.alpha, path.lower, path.upper)
        if self.error is not None:
            errors = self.error.reshape(len(self.regimes), -1)
            margin = norm.ppf(0.5 + 0.5 * path.level) * np.sqrt(path.alpha**2 @ errors**2)
            lower, upper = lower - margin, upper + margin
        size = np.abs(weight)
        keep = size >= threshold  # never true of a missing step
        if top is not None and top < size.shape[1]:
            # NaN would sort first
            limit = np.partition(np.nan_to_num(size), -top, axis=1)[:, [-top]]
            keep &= size >= limit
        step, edge = np.nonzero(keep)
        lag, source, target = np.unravel_index(edge, self.jacobian.shape[1:])
        names = np.array(self.latents)
        return pd.DataFrame(
            {
                "time": path.time[step],
                "source": names[source],
                "target": names[target],
                "lag": lag + 1,
                "weight": weight[step, edge],
                "lower": lower[step, edge],
                "upper": upper[step, edge],
            }
        )


def named_changes(axes: Axes) -> pd.DataFrame:
    """Edges in which a regime differs significantly from the median over regimes.

    Of two regimes, the second is compared to the first.

    Parameters
    ----------
    axes : Axes
        Of a fitted model.

    Returns
    -------
    pandas.DataFrame
        regime, source, target, lag, usual (the median), weight, error (of the difference),
        p_value, and `named`: both ends are identified axes. Largest differences first.
    """
    import pandas as pd

    columns = ["regime", "source", "target", "lag", "usual", "weight", "error", "p_value", "named"]
    if axes.weights is None or axes.weights.error is None:
        return pd.DataFrame(columns=columns)
    weights, error = axes.weights.jacobian, axes.weights.error
    kinds = len(weights)
    usual = weights[0] if kinds == 2 else np.median(weights, axis=0)
    difference = weights - usual
    spread = np.sqrt(error**2 + (error**2).mean(axis=0) / max(1, kinds - 1))
    statistic = np.abs(difference) / np.maximum(spread, 1e-12)
    large = np.abs(difference) >= MIN_SHARE * np.abs(weights).max()
    found = np.argwhere(large & (statistic >= norm.isf(0.5 * LEVEL / weights.size)))
    rows = []
    for k, lag, i, j in found.tolist():
        source, target, at = axes.axes[i], axes.axes[j], (k, lag, i, j)
        edge = axes.weights.regimes[k], source.name, target.name, lag + 1
        numbers = usual[lag, i, j], weights[at], spread[at]
        p_value = min(1.0, 2 * weights.size * float(norm.sf(statistic[at])))
        rows.append((*edge, *numbers, p_value, source.identified and target.identified))
    frame = pd.DataFrame(rows, columns=columns)
    size = (frame["weight"] - frame["usual"]).abs()
    return frame.assign(size=size).sort_values("size", ascending=False).drop(columns="size")


def sentences(axes: Axes) -> list[str]:
    """Describe each change; where the source is not identified, only the target is named."""
    verdicts = {axis.name: axis for axis in axes.axes}
    lines: list[str] = []
    for row in axes.changes().to_dict("records"):
        if row["named"]:
            lag = "" if row["lag"] == 1 else f" at lag {row['lag']}"
            text = (
                f"{row['regime']} {_verb(row['usual'], row['weight'], row['error'])}"
                f" {row['source']} -> {row['target']}{lag}"
                f" ({row['usual']:.2f} to {row['weight']:.2f})"
            )
        elif verdicts[row["target"]].identified:
            text = f"{row['regime']} changes effects of unidentified sources on {row['target']}"
        else:
            continue
        if text not in lines:
            lines.append(text)
    return lines


def _verb(usual: float, weight: float, error: float) -> str:
    if weight * usual < 0 and abs(usual) > 4 * error:
        return "reverses"
    return "strengthens" if abs(weight) > abs(usual) else "weakens"
