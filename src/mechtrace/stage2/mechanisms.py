"""The experts as transition matrices W, and their mixture along a recovered curve."""

from __future__ import annotations

import numpy as np

from .._runtime.stochastic import generator
from ..data.panel import Panel
from ..errors import ConfigError, DataError
from ..identifiability.mechanisms import Mechanisms
from ..stage1.encoding import STATES, histories_of, jacobians
from ..stage1.vae import SequentialVAE
from .pure_statistics import PureRegimeStatistics


def measure(
    model: SequentialVAE,
    regimes: tuple[str, ...],
    statistics: PureRegimeStatistics,
    panel: Panel | None,
    states: int | None,
) -> Mechanisms:
    """Jacobian of every expert, averaged over the same histories for all of them."""
    states = STATES[model.config.experts] if states is None else states
    if states < 1:
        raise ConfigError(f"states = {states}", fix="average over at least one")
    if panel is None:
        histories = _typical_histories(statistics, model.config.lags, states)
    else:
        histories = histories_of(model, panel)[1]
        # evenly spread over the panel: the same panel gives the same answer
        chosen = np.linspace(0, len(histories) - 1, min(states, len(histories))).round()
        histories = histories[chosen.astype(int)]
    total = sum(part.sum(axis=1) for part in jacobians(model, histories))
    return Mechanisms(regimes, np.asarray(total) / len(histories), len(histories))


def at_each_step(model: SequentialVAE, panel: Panel, alpha: np.ndarray) -> np.ndarray:
    """Sum over k of alpha_k(t) J_k(history of step t), (T, L, d, d), J the experts' Jacobians.

    `panel` holds the recording of `alpha` (T, K), or the pooled trials, over which the Jacobians
    are averaged. NaN where no trial has a history.
    """
    steps = len(alpha)
    if (panel.lengths != steps).any():
        raise DataError(
            f"the curve has {steps} steps, but the recordings have {panel.lengths.tolist()[:5]}",
            where=panel.source,
            fix="give the recordings that the curve was recovered from",
        )
    rows, histories, _ = histories_of(model, panel)
    step = rows % steps
    lags, d = model.config.lags, model.config.latents
    total, count, done = np.zeros((steps, lags, d, d)), np.bincount(step, minlength=steps), 0
    for part in jacobians(model, histories):
        here = step[done : done + part.shape[1]]
        np.add.at(total, here, np.einsum("nk,knlij->nlij", alpha[here], part, optimize=True))
        done += part.shape[1]
    with np.errstate(invalid="ignore"):
        return np.where(count[:, None, None, None] > 0, total / count[:, None, None, None], np.nan)


def _typical_histories(statistics: PureRegimeStatistics, lags: int, states: int) -> np.ndarray:
    """States drawn around the mean latents of each regime in turn, the same at all lags."""
    regimes, d = statistics.means.shape
    random = generator(statistics.seed, "typical histories")
    drawn = random.multivariate_normal(np.zeros(d), statistics.spread, states)
    return np.tile(statistics.means[np.arange(states) % regimes] + drawn, (1, lags))
