"""The experts as transition matrices: derivatives of what they expect, automatically.

A row of histories never mixes with another, so one backward pass per latent gives the derivatives
of all regimes at all histories at once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from . import latents
from .errors import ConfigError, DataError
from .model import SequentialVAE
from .recover.network import Mechanisms
from .recover.reference import Reference
from .series import Panel
from .windows import find_runs

#: Histories differentiated in one call, and averaged over unless asked otherwise, by kind of
#: experts: quadrature and the inverse of a flow keep a graph of many evaluations for each.
CHUNK = {"affine": 512, "spline": 64, "nonparametric": 8, "maf": 8}
STATES = {"affine": 1000, "spline": 500, "nonparametric": 50, "maf": 50}


def measure(
    model: SequentialVAE,
    regimes: tuple[str, ...],
    reference: Reference,
    panel: Panel | None,
    states: int | None,
) -> Mechanisms:
    """Derivatives of every expert, averaged over the same histories for all of them."""
    states = STATES[model.config.experts] if states is None else states
    if states < 1:
        raise ConfigError(f"states = {states}", fix="average over at least one")
    if panel is None:
        histories = _typical_histories(reference, model.config.lags, states)
    else:
        histories = histories_of(model, panel)[1]
        # evenly spread over the panel: the same panel gives the same answer
        chosen = np.linspace(0, len(histories) - 1, min(states, len(histories))).round()
        histories = histories[chosen.astype(int)]
    total = sum(block.sum(axis=1) for block in jacobians(model, histories))
    return Mechanisms(regimes, np.asarray(total) / len(histories), len(histories))


def at_each_step(model: SequentialVAE, panel: Panel, alpha: np.ndarray) -> np.ndarray:
    """Sum of alpha_k(t) times the derivatives of expert k at the history of step t: (T, L, d, d).

    `panel` holds the one recording of `alpha` (T, K), or the trials that were pooled for it, over
    which the derivatives are averaged. NaN where no trial has a history.
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
    for block in jacobians(model, histories):
        here = step[done : done + block.shape[1]]
        np.add.at(total, here, np.einsum("nk,knlij->nlij", alpha[here], block, optimize=True))
        done += block.shape[1]
    with np.errstate(invalid="ignore"):
        return np.where(count[:, None, None, None] > 0, total / count[:, None, None, None], np.nan)


def jacobians(model: SequentialVAE, histories: np.ndarray) -> Iterator[np.ndarray]:
    """d E_k[z_t] / d z_{t-lag} at histories (N, L*d), newest step first, in chunks of N.

    Each chunk is (K, n, L, d, d), lag 1 first; [..., i, j] is the effect of latent i on latent j.
    """
    experts, lags, d = model.experts, model.config.lags, model.config.latents
    chunk = CHUNK[model.config.experts]
    for first in range(0, len(histories), chunk):
        block = torch.from_numpy(histories[first : first + chunk]).to(model.centre)
        history = experts.for_all(block).clone().requires_grad_()
        expected = experts.conditional_mean(history)
        effects = [
            torch.autograd.grad(expected[..., j].sum(), history, retain_graph=True)[0]
            for j in range(d)
        ]
        stacked = torch.stack(effects, dim=-1)  # (K, n, L*d, d)
        yield stacked.unflatten(2, (lags, d)).cpu().double().numpy()


def histories_of(model: SequentialVAE, panel: Panel) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows with a full history, these histories (N, L*d), newest first, and latents (N, d)."""
    lags = model.config.lags
    rows = find_runs(panel, by_regime=False).rows_with_past(lags)
    if not len(rows):
        raise DataError(
            f"no recording has {lags + 1} rows without a gap",
            where=panel.source,
            fix="give longer recordings",
        )
    mean = latents.encode(model, panel).mean
    histories = np.concatenate([mean[rows - lag] for lag in range(1, lags + 1)], axis=1)
    return rows, histories, mean[rows]


def _typical_histories(reference: Reference, lags: int, states: int) -> np.ndarray:
    """States drawn around the mean latents of each regime in turn, at rest: all lags alike."""
    regimes, d = reference.means.shape
    drawn = np.random.default_rng(0).multivariate_normal(np.zeros(d), reference.spread, states)
    return np.tile(reference.means[np.arange(states) % regimes] + drawn, (1, lags))
