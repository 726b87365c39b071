"""Sizes chosen by the data: lags by held-out prediction, latents by what the channels determine.

Lags: ridge regressions of the channels on their past, with hidden units, one for each number of
lags; the smallest whose prediction of held-out recordings is about as good as the best.

Latents: a sequential VAE with as many latents as channels is trained for a few seconds. What it
does not need it leaves alone: the posterior of such a direction is as wide as its marginal. So a
nonlinear map from few latents to many channels is counted as few. The directions that held-out
recordings still determine are counted.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace

import numpy as np
import torch

from .._runtime.process import keeping_freed_memory, torch_threads
from .._runtime.stochastic import generator, seeded
from ..config import ModelConfig, RunConfig
from ..data.panel import Panel
from ..data.segments import (
    CropSampler,
    Runs,
    runs_as_series,
    split_runs,
    subsample_runs,
    training_runs,
)
from ..data.standardise import Standardiser
from .encoding import encode
from .fit_record import SizeChoice, SizesRecord
from .trainer import Batches, Trainer
from .vae import SequentialVAE

logger = logging.getLogger(__name__)

#: Sizes where there is nothing to choose from: of pictures, and without held-out recordings.
USUAL_LATENTS, USUAL_LAGS = 8, 2
#: Lags to choose from, and the loss of prediction, in nats per channel, that does not count.
LAGS, NEGLIGIBLE = (1, 2, 4), 0.01
#: Hidden units of the regressions, and their ridge penalties, in rows.
UNITS, RIDGES = 100, (0.3, 10.0, 300.0)
#: Principal components of the channels at most: for lags, and as latents of the trial.
MOST_PREDICTED, MOST_LATENTS = 16, 24
#: Rows of each regime, at most, that are looked at outside of training.
ROWS = 8000
#: Settings of the trial: training steps, width, crops per step, observation noise.
STEPS, HIDDEN, CROPS, NOISE = 1200, 128, 24, 0.05
#: A direction is determined if its posterior deviation is at most this share of its marginal one.
DETERMINED = 0.55
#: Another size is close if its score is within this factor of the limit.
CLOSE = 1.3


def choose_sizes(
    panel: Panel, config: RunConfig, device: torch.device
) -> tuple[RunConfig, SizesRecord]:
    """Return settings with numbers for all sizes, and how those were chosen that were open."""
    asked, fit, found = config.model.open_sizes, config.fit, SizesRecord()
    least = 1 if "lags" in asked else config.model.lags
    train, held = split_runs(training_runs(panel, least), fit.holdout, least, fit.seed)
    if not panel.is_image:
        if "lags" in asked and len(held):
            logger.debug("choosing the number of lags")
            found = replace(found, lags=_lags(panel, train, held, config.fit.seed))
        lags = found.lags.chosen if found.lags else min(USUAL_LAGS, _longest(train) - 1)
        config = _with_sizes(config, lags=lags)
        if "latents" in asked:
            logger.debug("choosing the number of latents")
            found = replace(found, latents=_latents(panel, train, held, config, device))
    chosen = found.latents.chosen if found.latents else USUAL_LATENTS
    return _with_sizes(config, lags=USUAL_LAGS, latents=chosen), found


def _with_sizes(config: RunConfig, **sizes: int) -> RunConfig:
    """Settings with these sizes where they are open."""
    chosen = {name: size for name, size in sizes.items() if name in config.model.open_sizes}
    return replace(config, model=replace(config.model, **chosen))


# -- lags -----------------------------------------------------------------------------------


def _lags(panel: Panel, train: Runs, held: Runs, seed: int) -> SizeChoice | None:
    """Compare lags by the prediction of held-out rows; None if no run is long enough."""
    some = generator(seed, "rows for lags")
    parts = [subsample_runs(runs, ROWS, some) for runs in (train, held)]
    kinds = int(train.regime.max()) + 1
    tried = [lags for lags in LAGS if lags < min(map(_longest, (train, held)))]
    if len(tried) < 2:
        return None
    most = max(tried)
    rows = [_Rows.of(panel, runs, most) for runs in parts]
    centre, projection = _principal(rows[0].target)
    learn, test = (part.projected(centre, projection) for part in rows)
    scores = np.stack([_held_out_scores(learn, test, lags, kinds, seed) for lags in tried])
    return _smallest_lags(tried, scores)


def _longest(runs: Runs) -> int:
    """Length of the longest run of the regime whose runs are shortest."""
    return min(int(runs.length[runs.regime == code].max()) for code in np.unique(runs.regime))


def _smallest_lags(tried: list[int], scores: np.ndarray) -> SizeChoice:
    """Take the smallest whose scores (lags, units) fall short of the best by next to nothing."""
    best = scores[scores.mean(axis=1).argmax()]
    short = best - scores
    loss = np.maximum(short.mean(axis=1), 0.0)
    error = short.std(axis=1) / math.sqrt(scores.shape[1])
    good = loss <= np.maximum(error, NEGLIGIBLE)
    chosen = int(np.argmax(good))
    limit = float(max(error[chosen], NEGLIGIBLE))
    close = tuple(
        lags for lags, one, fine in zip(tried, loss, good, strict=True)
        if lags != tried[chosen] and (fine or one <= CLOSE * NEGLIGIBLE)
    )  # fmt: skip
    measured = {str(lags): float(one) for lags, one in zip(tried, loss, strict=True)}
    return SizeChoice(tried[chosen], measured, limit, close)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows with their past: target (N, c), past (lags, N, c), regime (N,), unit (N,)."""

    target: np.ndarray
    past: np.ndarray
    regime: np.ndarray
    unit: np.ndarray  # recordings, or groups, that count as one

    @classmethod
    def of(cls, panel: Panel, runs: Runs, lags: int) -> _Rows:
        runs = runs.where(runs.length > lags)
        rows = runs.rows_with_past(lags)
        run = np.repeat(np.arange(len(runs)), runs.length - lags)
        unit = runs.series if runs.group is None else np.unique(runs.group, return_inverse=True)[1]

        def read(numbers: np.ndarray) -> np.ndarray:
            return np.asarray(panel.values[numbers], float)

        past = np.stack([read(rows - lag) for lag in range(1, lags + 1)])
        return cls(read(rows), past, runs.regime[run], unit[run])

    def projected(self, centre: np.ndarray, projection: np.ndarray) -> _Rows:
        target, past = ((part - centre) @ projection for part in (self.target, self.past))
        return replace(self, target=target, past=past)


def _principal(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Centre (c,) and projection (c, q) on standardised channels, or components if many."""
    centre, scale = values.mean(axis=0), values.std(axis=0)
    varies = scale > 1e-12 * np.abs(centre)
    projection = np.diag(np.where(varies, 1 / np.where(varies, scale, 1.0), 0.0))[:, varies]
    if projection.shape[1] > MOST_PREDICTED:
        white = (values - centre) @ projection
        size, axes = np.linalg.eigh(white.T @ white / len(white))
        best = np.argsort(-size)[:MOST_PREDICTED]
        projection = projection @ axes[:, best] / np.sqrt(np.maximum(size[best], 1e-12))
    return centre, projection


def _held_out_scores(learn: _Rows, test: _Rows, lags: int, kinds: int, seed: int) -> np.ndarray:
    """Mean log likelihood of each unit, per channel and step, with the best ridge penalty."""
    rng, q = generator(seed, f"units for {lags} lags"), learn.target.shape[1]
    seen = min(2, lags) * q
    directions = rng.standard_normal((seen, UNITS)) / math.sqrt(seen)
    phases = rng.uniform(-2, 2, UNITS)

    def design(rows: _Rows) -> np.ndarray:
        history = np.concatenate(list(rows.past[:lags]), axis=1)
        units = np.tanh(history[:, :seen] @ directions + phases)
        own = np.eye(kinds)[rows.regime]
        affine = np.concatenate([np.ones((len(history), 1)), history], axis=1)
        apart = (own[:, :, None] * affine[:, None]).reshape(len(affine), -1)
        return np.concatenate([affine, units, apart], axis=1)

    x, new = design(learn), design(test)
    gram, cross = x.T @ x, x.T @ learn.target
    found = []
    for ridge in RIDGES:
        weights = np.linalg.solve(gram + ridge * np.eye(len(gram)), cross)
        left, error = learn.target - x @ weights, test.target - new @ weights
        noise = left.T @ left / len(left) + 1e-9 * np.eye(q)
        root = np.linalg.cholesky(np.linalg.inv(noise))
        nats = -0.5 * ((error @ root) ** 2).sum(axis=1) + np.log(np.diagonal(root)).sum()
        count = np.bincount(test.unit)
        found.append((np.bincount(test.unit, nats) / np.maximum(count, 1) / q)[count > 0])
    return max(found, key=lambda scores: scores.mean())


# -- latents --------------------------------------------------------------------------------


def _latents(
    panel: Panel, train: Runs, held: Runs, config: RunConfig, device: torch.device
) -> SizeChoice:
    """Count the directions of a trial model that recordings determine."""
    model = _trial(panel, train, config, device)
    judged = subsample_runs(
        held if len(held) else train, ROWS, generator(config.fit.seed, "trial")
    )
    return _count_determined(_undetermined(model, runs_as_series(panel, judged)))


def _count_determined(share: np.ndarray) -> SizeChoice:
    """Choose by the shares (m,) of posterior in marginal deviations, rising."""
    chosen = max(1, int((share <= DETERMINED).sum()))
    close = tuple(
        size for size in (chosen - 1, chosen + 1)
        if 1 <= size <= len(share)
        and DETERMINED / CLOSE < share[max(size, chosen) - 1] < DETERMINED * CLOSE
    )  # fmt: skip
    measured = {str(size): float(one) for size, one in enumerate(share, 1)}
    return SizeChoice(chosen, measured, DETERMINED, close)


def _trial(panel: Panel, train: Runs, config: RunConfig, device: torch.device) -> SequentialVAE:
    """Train a small model that starts at the principal components of the channels."""
    seed, lags, kinds = config.fit.seed, config.model.lags, len(panel.regimes)
    most = min(panel.shape[0], MOST_LATENTS)
    small = ModelConfig(latents=most, lags=lags, hidden=HIDDEN, noise_floor=NOISE)
    fit = replace(config.fit, steps=STEPS, lr=4e-3, warmup=100, clip=10.0, graph=config.fit.graph)
    units = Standardiser.fit(panel, train, seed)
    with seeded(seed):
        model = SequentialVAE(small, kinds, panel.shape)
    model.set_units(units.centre, units.scale)
    model.to(device)
    length = max(lags + 1, min(fit.window, int(train.length.max())))
    sampler = CropSampler(train, kinds, math.ceil(CROPS / kinds), length, seed)
    batches = Batches(panel, sampler, most, device, rescaling=model.rescaling())
    trainer = Trainer(model, batches, batches, train.rows, fit)
    with keeping_freed_memory(), torch_threads(trainer.threads):
        trainer.capture()
        for step in range(STEPS):
            trainer.step(step)
    return model


def _undetermined(model: SequentialVAE, panel: Panel) -> np.ndarray:
    """Posterior deviation of each direction as a share of its marginal one, rising, (m,).

    Directions are those of the covariance of all latents in units of their posterior.
    """
    found = encode(model, panel)
    known = np.isfinite(found.mean).all(axis=1)
    mean, variance = found.mean[known], (found.scale[known] ** 2).mean(axis=0)
    spread = (mean - mean.mean(axis=0)) / np.sqrt(variance)
    own = np.linalg.eigvalsh(spread.T @ spread / len(spread))
    return np.sort(1 / np.sqrt(1 + np.maximum(own, 0.0)))
