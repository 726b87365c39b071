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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from .._runtime.process import keeping_freed_memory, torch_threads
from .._runtime.stochastic import generator, minimise, seeded, warmup_cosine
from ..config import FitConfig, ModelConfig, RunConfig
from ..data.crops import CropSampler
from ..data.panel import Panel
from ..data.segments import (
    Runs,
    runs_as_series,
    split_runs,
    subsample_runs,
    training_runs,
)
from ..data.standardise import Standardiser
from .encoding import encode
from .fit_record import SizeChoice, SizesRecord
from .networks import SkipMLP
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
STEPS, HIDDEN, CROPS, NOISE = 1200, 64, 24, 0.03
#: Training steps of the regressions of directions on others, and rows of a step.
QUICK, THOROUGH, REGRESSION_ROWS = 400, 1600, 512
#: A direction is determined if its posterior deviation is at most this share of its marginal one.
DETERMINED = 0.54
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
    open_ = config.model.open_sizes
    chosen: dict[str, Any] = {name: size for name, size in sizes.items() if name in open_}
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
    rng, q = generator(seed, "units for lags"), learn.target.shape[1]
    directions = rng.standard_normal((q, UNITS)) / math.sqrt(q)
    phases = rng.uniform(-2, 2, UNITS)

    def design(rows: _Rows) -> np.ndarray:
        history = np.concatenate(list(rows.past[:lags]), axis=1)
        units = np.tanh(rows.past[0] @ directions + phases)  # the same for all lags
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
    """Count the directions of a trial model that recordings determine and others do not."""
    seed = config.fit.seed
    model, rows = _trial(panel, train, config, device), generator(seed, "rows for latents")
    parts = [subsample_runs(part, ROWS, rows) for part in (train, held if len(held) else train)]
    learn, test = _directions(model, [runs_as_series(panel, part) for part in parts])
    left = {0: float(_undetermined(test)[0])}

    def enough(size: int, steps: int) -> bool:
        """Whether the first `size` directions leave nothing of the others that is determined."""
        if size == test.shape[1]:
            left[size] = 1.0
        elif size:
            rest = _unexplained(learn, test, size, steps, seed)
            left[size] = float(_undetermined(rest)[0])
        return left[size] > DETERMINED

    # quick regressions leave too much: they give an upper bound, which thorough ones lower
    alone = int((_undetermined(test) <= DETERMINED).sum())
    chosen = max(1, _smallest(alone, lambda size: enough(size, QUICK)))
    while chosen > 1 and enough(chosen - 1, THOROUGH):
        chosen -= 1
    if chosen not in left:
        found = _undetermined(test)
        left[chosen] = float(found[chosen]) if chosen < len(found) else 1.0
    measured = {str(size): left[size] for size in sorted(left)}
    # one less, or one more, had the limit been a little lower or higher
    one_less = left.get(chosen - 1, 0.0) > DETERMINED / CLOSE
    one_more = left.get(chosen, 1.0) < DETERMINED * CLOSE
    close = (chosen - 1,) * (one_less and chosen > 1) + (chosen + 1,) * one_more
    return SizeChoice(chosen, measured, DETERMINED, close)


def _smallest(most: int, enough: Callable[[int], bool]) -> int:
    """Smallest size of at most `most` that is enough, as `most` is: halving what is left."""
    step, known = 1, most
    while known - step >= 0 and enough(known - step):
        known, step = known - step, 2 * step
    least = max(-1, known - step)  # not enough
    while known - least > 1:
        middle = (known + least) // 2
        known, least = (middle, least) if enough(middle) else (known, middle)
    return known


def _trial(panel: Panel, train: Runs, config: RunConfig, device: torch.device) -> SequentialVAE:
    """Train a small model that starts at the principal components of the channels."""
    seed, lags, kinds = config.fit.seed, config.model.lags, len(panel.regimes)
    most = min(panel.shape[0], MOST_LATENTS)
    small = ModelConfig(latents=most, lags=lags, hidden=HIDDEN, noise_floor=NOISE)
    fit = FitConfig(steps=STEPS, window=config.fit.window, graph=config.fit.graph)
    units = Standardiser.fit(panel, train, seed)
    with seeded(seed):
        model = SequentialVAE(small, kinds, panel.shape)
    model.set_units(units.centre, units.scale)
    _start_at_components(model, panel, subsample_runs(train, ROWS, generator(seed, "components")))
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


@torch.no_grad()
def _start_at_components(model: SequentialVAE, panel: Panel, runs: Runs) -> None:
    """Let encoder and decoder begin as the principal components, beside small networks."""
    centre, scale = model.units()
    x = (np.asarray(panel.values[runs.row_numbers()], float) - centre) / scale
    size, axes = np.linalg.eigh(x.T @ x / len(x))
    best = np.argsort(-size)[: model.latents]
    spread, axes = np.sqrt(np.maximum(size[best], NOISE**2)), axes[:, best]
    encoder, decoder = model.encoder.body, model.decoder.body
    assert isinstance(encoder, SkipMLP)
    assert isinstance(decoder, SkipMLP)
    narrow = np.repeat([0.0, 1.0], model.latents) * np.log(NOISE / np.tile(spread, 2))
    project = np.zeros(encoder.skip.weight.shape)
    project[: model.latents, : len(axes)] = (axes / spread).T
    starts = ((encoder, project, narrow), (decoder, axes * spread, np.zeros(len(axes))))
    for network, linear, bias in starts:
        last = network.layers[-1]
        assert isinstance(last, torch.nn.Linear)
        last.weight *= 0.1
        last.bias.copy_(torch.from_numpy(bias))
        network.skip.weight.copy_(torch.from_numpy(linear))
    model.log_noise.fill_(math.log(NOISE))


def _directions(model: SequentialVAE, panels: Sequence[Panel]) -> list[np.ndarray]:
    """Latents (n, m) of panels in units of their posterior deviations, the strongest first."""
    found = [encode(model, panel) for panel in panels]
    known = [np.isfinite(part.mean).all(axis=1) for part in found]
    variance = (found[0].scale[known[0]] ** 2).mean(axis=0)
    centre = found[0].mean[known[0]].mean(axis=0)
    white = [
        (part.mean[rows] - centre) / np.sqrt(variance)
        for part, rows in zip(found, known, strict=True)
    ]
    axes = np.linalg.eigh(white[0].T @ white[0] / len(white[0]))[1][:, ::-1]
    return [part @ axes for part in white]


def _undetermined(values: np.ndarray) -> np.ndarray:
    """Posterior deviation of directions as a share of the marginal one, rising, (m,).

    `values` (n, m) are in units of the posterior; new directions are those of their covariance.
    """
    own = np.linalg.eigvalsh(np.cov(values.T).reshape(values.shape[1], -1))[::-1]
    return np.asarray(1 / np.sqrt(1 + np.maximum(own, 0.0)))


def _unexplained(
    learn: np.ndarray, test: np.ndarray, size: int, steps: int, seed: int
) -> np.ndarray:
    """What the first `size` directions leave of the others, by a network that has seen `learn`."""
    scale = [part.std(axis=0) for part in (learn[:, :size], learn[:, size:])]
    x, y = (
        torch.from_numpy(part / deviation).float()
        for part, deviation in zip((learn[:, :size], learn[:, size:]), scale, strict=True)
    )
    with seeded(seed), torch_threads(1), torch.enable_grad():
        network = SkipMLP(size, y.shape[1], 2 * HIDDEN, 3)
        draw = torch.Generator().manual_seed(seed)

        def loss(_: int) -> torch.Tensor:
            rows = torch.randint(len(x), (REGRESSION_ROWS,), generator=draw)
            return (network(x[rows]) - y[rows]).square().sum(dim=1).mean()

        minimise(network.parameters(), loss, steps, lambda k: warmup_cosine(k, steps, 4e-3, 50))
    with torch.no_grad():
        explained = network(torch.from_numpy(test[:, :size] / scale[0]).float()).numpy()
    return np.asarray(test[:, size:] - explained * scale[1])
