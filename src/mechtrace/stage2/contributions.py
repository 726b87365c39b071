r"""Which sensors speak for which regime at each row of a recording.

An observation model gives each regime k at row t a Gaussian log likelihood, -1/2 e' P e with the
prediction error e = y_t - m_k and precision P. Of sensors that are predicted themselves (the model
`channels`), the share of sensor i is

    -1/2 e_i (P e)_i,

the Shapley value of the error of sensor i: its contribution averaged over all orders in which
errors could be put in, so that what two sensors tell together is halved. Shares add up to the
whole. Other models predict latents. The share of each latent is the same expression, and is
divided among the sensors in proportion to how far the latent moves (mean square over the
recording) if the sensor is held at its mean: an approximation that adds up, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .._runtime.lazy import render
from ..data.panel import Panel
from ..errors import DataError
from ..stage1 import encoding
from ..stage1.vae import SequentialVAE
from .model_selection import joined
from .observation_models import CHANNELS, centre_lag, parse
from .pure_statistics import PureRegimeStatistics
from .series_batch import EncodedSeries

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Contributions:
    """Log likelihood of each regime at each row of one recording, by sensor.

    Parameters
    ----------
    name : str
        Of the recording.
    time : (T,)
        Time stamps of the recording.
    regimes, sensors : tuple of str
        Names, in the order of the arrays.
    values : (T, K, c)
        Contributions in nats, less their mean over the regimes; NaN where there is no evidence.
    exact : bool
        Whether all evidence is about the sensors themselves. Else a part of it is about latents,
        and is divided among the sensors approximately.
    """

    name: str
    time: np.ndarray
    regimes: tuple[str, ...]
    sensors: tuple[str, ...]
    values: np.ndarray
    exact: bool

    @property
    def total(self) -> np.ndarray:
        """Log likelihood (T, K) of each regime at each row, less its mean over the regimes."""
        return np.asarray(self.values.sum(axis=2))

    def ratio(self, regime: str, other: str) -> np.ndarray:
        """Contribution of each sensor to the log likelihood ratio of two regimes.

        Parameters
        ----------
        regime, other : str
            The regimes; positive values speak for the first.

        Returns
        -------
        ndarray (T, c)
            In nats. The sum over the sensors is the log likelihood ratio at each row.

        Raises
        ------
        DataError
            If there is no such regime.
        """
        return np.asarray(
            self.values[:, self._number(regime)] - self.values[:, self._number(other)]
        )

    def strongest(self, most: int | None = None) -> tuple[str, ...]:
        """Names of the sensors that tell regimes apart most, over all rows.

        Parameters
        ----------
        most : int, optional
            So many at most.

        Returns
        -------
        tuple of str
            The strongest first.
        """
        size = np.nan_to_num(np.ptp(self.values, axis=1)).sum(axis=0)
        return tuple(self.sensors[i] for i in np.argsort(-size, kind="stable")[:most])

    def to_frame(self) -> pd.DataFrame:
        """Table: time, regime and one column per sensor; a row for each step and regime.

        Returns
        -------
        pandas.DataFrame
        """
        import pandas as pd

        kinds = len(self.regimes)
        columns = {
            "time": np.repeat(self.time, kinds),
            "regime": list(self.regimes) * len(self.time),
        }
        flat = self.values.reshape(-1, len(self.sensors))
        return pd.DataFrame(columns).join(pd.DataFrame(flat, columns=list(self.sensors)))

    def plot(self, ax: Any = None) -> Any:
        """Draw which regime each sensor speaks for over time; returns matplotlib axes."""
        return render("contributions_plot", self, ax)

    def _number(self, regime: str) -> int:
        if regime not in self.regimes:
            fix = f"the regimes are {', '.join(self.regimes)}"
            raise DataError(f"there is no regime {regime!r}", fix=fix)
        return self.regimes.index(regime)


def contributions(
    model: SequentialVAE,
    statistics: PureRegimeStatistics,
    regimes: tuple[str, ...],
    panel: Panel,
    names: tuple[str, ...] | None = None,
    *,
    causal: bool = False,
) -> Contributions:
    """Divide the evidence of one recording among its sensors.

    By the observation models `names` (None: the selected ones), as `recover` uses them.
    """
    models, correction = statistics.combination(names)
    used = [one.name for one in models]
    coded = encoding.encode(model, panel)
    experts = statistics.experts if CHANNELS in used else None
    encoded = EncodedSeries.of_rows(model, panel, coded.mean, experts, statistics.moments)
    excess = statistics.excess(coded.scale)
    steps, sensors = panel.rows, panel.shape[0]
    total, known = np.zeros((steps, len(regimes), sensors)), np.zeros(steps, bool)
    moved: np.ndarray | None = None
    for one in models:
        if one.name == CHANNELS:
            divide = _channels(model, statistics)
        elif _reduced(one.name, statistics) and encoded.recorded is not None:
            size = parse(one.name)[1]
            moments = statistics.moments[size]
            divide = _latents(moments.shares(encoded.recorded, encoded.position, size), 1)
        else:
            moved = _movement(model, panel, coded.mean) if moved is None else moved
            blocks = 3 if parse(one.name)[0] == "window_moments" else 1
            divide = _latents(moved, blocks)
        values, predictions, doubt = encoded.features(
            one.name, statistics.support, statistics.means
        )
        expected = one.means if predictions is None else predictions[0]
        error = values[0][:, None] - correction.recombination.T @ expected  # (T, K, p)
        sure = np.asarray(one.certainty(doubt))
        sure = sure[0][:, None] if sure.ndim else sure
        weighed = error * sure @ np.linalg.inv(one.noise) * sure
        parts = -0.5 * divide(error, weighed) / one.autocorrelation_time
        inflation = one.noise_inflation(excess)
        if inflation is not None:
            parts /= inflation[:, None, None]
        lag = 0 if causal else centre_lag(one.name)
        finite = np.asarray(np.isfinite(parts).all(axis=(1, 2)))
        there = np.append(finite[lag:], np.zeros(min(lag, steps), bool))
        rows = np.flatnonzero(there)
        total[rows] += parts[rows + lag]
        known |= there
    total -= total.mean(axis=1, keepdims=True)
    total[~known] = np.nan
    return Contributions(
        str(panel.names[0]),
        panel.time_of(0),
        regimes,
        tuple(panel.channels),
        total,
        exact=joined(tuple(used)) == CHANNELS,
    )


def _reduced(name: str, statistics: PureRegimeStatistics) -> bool:
    """Tell whether an observation model is an estimate from moments of the channels."""
    kind, size = parse(name)
    return kind == "window_moments" and size in statistics.moments


#: Errors (T, K, p) and the same times the precision -> products by sensor (T, K, c).
Divide = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _channels(model: SequentialVAE, statistics: PureRegimeStatistics) -> Divide:
    """Divide by sensor where errors are linear in theirs."""
    experts = statistics.experts
    assert experts is not None
    scale = model.units()[1].reshape(-1)
    map_ = (
        scale[:, None] * experts.projection @ experts.axes
    )  # (c, p): errors of sensors -> errors
    back = np.linalg.pinv(map_)  # where sensors were compressed, their smallest errors

    def divide(error: np.ndarray, weighed: np.ndarray) -> np.ndarray:
        return np.asarray((error @ back) * (weighed @ map_.T))

    return divide


def _latents(moved: np.ndarray, blocks: int) -> Divide:
    """Divide by latent, and the latents among the sensors by shares (d, c).

    Values are `blocks` of as many latents; what is estimated from the channels counts likewise.
    """

    def divide(error: np.ndarray, weighed: np.ndarray) -> np.ndarray:
        product = (error * weighed).reshape(*error.shape[:2], blocks, -1)
        return np.asarray(product.sum(axis=2) @ moved)

    return divide


def _movement(model: SequentialVAE, panel: Panel, latents: np.ndarray) -> np.ndarray:
    """Shares (d, c) of the sensors in the movement of each latent; each row adds up to one."""
    values = np.asarray(panel.values, float)
    out = np.zeros((latents.shape[1], values.shape[1]))
    for sensor in range(values.shape[1]):
        held = values.copy()
        column = held[:, sensor]
        known = np.isfinite(column)
        column[known] = column[known].mean() if known.any() else 0.0
        change = encoding.encode(model, replace(panel, values=held)).mean - latents
        out[:, sensor] = np.nan_to_num(change**2).sum(axis=0)
    whole = out.sum(axis=1, keepdims=True)
    return np.where(whole > 0, out / np.where(whole > 0, whole, 1.0), 1 / out.shape[1])
