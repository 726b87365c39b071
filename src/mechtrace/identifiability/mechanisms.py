"""Mechanisms as matrices, their mixture W(t), and its edges: a dynamic Bayesian network."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import norm

from ..errors import ConfigError
from .simplex import linear_bounds
from .trajectory import Trajectory

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Mechanisms:
    """The lagged effects of each regime: the derivative of what its expert expects.

    `jacobian[k, l, i, j]` is d E_k[z_t, j] / d z_{t-1-l}, i: how latent i acts on latent j, l + 1
    steps later. A nonlinear expert has another derivative at every state; this is their mean over
    `states` histories. Latents are those that `encode` returns. Where their axes are not
    identified (`trace.axes_`), they are known only up to an invertible map A, and these matrices
    up to A^-1 W A: eigenvalues mean something then, single edges do not.
    """

    regimes: tuple[str, ...]
    jacobian: np.ndarray = field(repr=False)  # (K, L, d, d)
    states: int = 1
    #: standard errors of the effects, where they are known
    error: np.ndarray | None = field(default=None, repr=False)  # (K, L, d, d)
    latents: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Latents without a name are called z0, z1 and so on."""
        if not self.latents:
            names = tuple(f"z{i}" for i in range(self.jacobian.shape[-1]))
            object.__setattr__(self, "latents", names)

    def plot(self, ax: Any = None, *, lag: int = 1, difference: bool = False) -> np.ndarray:
        """Draw the matrix of each regime, or what sets it apart; returns matplotlib axes."""
        from ..plot import mechanisms

        return mechanisms(self, ax, lag=lag, difference=difference)

    def _repr_html_(self) -> str:
        from ..notebook import mechanisms_html

        return mechanisms_html(self)

    @property
    def lags(self) -> int:
        """Steps back that have an effect."""
        return self.jacobian.shape[1]

    def of(self, regime: str) -> np.ndarray:
        """The matrices of one regime, (L, d, d)."""
        if regime not in self.regimes:
            raise ConfigError(
                f"there is no regime {regime!r}", fix=f"the regimes are {', '.join(self.regimes)}"
            )
        return self.jacobian[self.regimes.index(regime)]

    def at(self, alpha: np.ndarray) -> np.ndarray:
        """W of weights (..., K): their mixture of the regimes' matrices, (..., L, d, d)."""
        return np.tensordot(alpha, self.jacobian, axes=1)

    def edges(
        self, path: Trajectory, *, threshold: float = 0.05, top: int | None = None
    ) -> pd.DataFrame:
        """W(t) of a recovered curve as a table: time, source, target, lag, weight, lower, upper.

        Edges weaker than `threshold` are left out, and with `top` all but the so many strongest
        of each step. The bounds follow from the intervals of alpha, and from the errors of the
        matrices where these are known; otherwise the matrices are taken for granted.
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
