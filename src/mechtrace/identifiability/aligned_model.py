"""The trained model in aligned coordinates u = A z + c, and experts trained further there."""

from __future__ import annotations

import logging

import torch
from torch import Tensor

from .._runtime.stochastic import minimise, seeded
from ..stage1.experts import (
    AffineExperts,
    AlignedExperts,
    ExpertBank,
    stack_history,
)
from ..stage1.fit_run import FitRun
from ..stage1.trainer import Batches, learning_rate
from ..stage1.vae import SequentialVAE
from .axes import Axes

#: Evaluations of `refit_experts` on held-out series; the best one is kept.
EVALUATIONS = 10

logger = logging.getLogger(__name__)


class AlignedModel:
    """Encoder, decoder and experts in coordinates u = A z + c.

    p(u) = p(z) / |det A| in the prior and in the posterior, so the evidence lower bound stays the
    same. Posterior covariances are no longer diagonal.
    """

    def __init__(self, model: SequentialVAE, axes: Axes) -> None:
        self.model = model
        like = model.centre
        self.matrix = torch.from_numpy(axes.matrix).to(like)
        self.offset = torch.from_numpy(axes.offset).to(like)
        self.inverse = torch.linalg.inv(self.matrix)
        self.log_det = torch.linalg.slogdet(self.matrix)[1]

    def native(self, u: Tensor) -> Tensor:
        """Map aligned latents (..., d) to the network's."""
        return (u - self.offset) @ self.inverse.T

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the posterior mean (..., T, d) and covariance (..., T, d, d)."""
        mean, log_scale = self.model.encode(x)
        root = self.matrix * log_scale.exp()[..., None, :]
        return mean @ self.matrix.T + self.offset, root @ root.mT

    def decode(self, u: Tensor) -> Tensor:
        """Decode latents (..., d), in the units of the data."""
        return self.model.in_units_of_data(self.model.decoder(self.native(u)))

    def conditional_mean(self, history: Tensor) -> Tensor:
        """Conditional means (K, N, d) after histories (N, L*d), newest first."""
        mean = self.model.experts.conditional_mean(self._past(history))
        return mean @ self.matrix.T + self.offset

    def log_prob(self, u: Tensor, history: Tensor) -> Tensor:
        """Log p_k(u | history) of each regime's own transitions: (K, N)."""
        return self.model.experts.log_prob(self.native(u), self._past(history)) - self.log_det

    def _past(self, history: Tensor) -> Tensor:
        steps = history.unflatten(-1, (-1, len(self.offset)))
        return self.native(steps).flatten(-2)


def refit_experts(run: FitRun, axes: Axes, steps: int) -> float:
    """Train experts in aligned coordinates on the latents of a fixed encoder; return the gain.

    An affine expert has independent noise in its own coordinates; in aligned coordinates the
    system has too, so the same expert can fit better. The gain is in nats per step.
    """
    model = run.model
    with seeded(run.config.fit.seed):
        new = AlignedExperts(model.new_experts())
    new.matrix.copy_(torch.from_numpy(axes.matrix))
    new.offset.copy_(torch.from_numpy(axes.offset))
    if isinstance(new.inner, AffineExperts) and isinstance(model.experts, AffineExperts):
        _copy_affine(new.inner, model.experts, axes)
    new.to(model.centre.device)
    schedule = run.config.fit

    @torch.no_grad()
    def held_out(experts: ExpertBank) -> float:
        return float(_log_likelihood(model, experts, run.trainer.held_out, 0))

    before = held_out(model.experts)
    best, kept = before, None

    def rate(step: int) -> float:
        # the tail of the training schedule: the experts are nearly there
        late = schedule.steps - (steps - step) * schedule.steps // (4 * steps)
        return learning_rate(schedule, late)

    def loss(step: int) -> Tensor:
        likelihood = _log_likelihood(model, new, run.trainer.batches, step)
        if not model.config.shrinkage:
            return -likelihood
        return -likelihood + model.config.shrinkage / run.trainer.training_rows * new.deviation()

    def evaluate(done: int) -> None:
        nonlocal best, kept
        if done % max(1, steps // EVALUATIONS) and done != steps:
            return
        found = held_out(new)
        logger.debug(f"step {done}/{steps}  held-out {found - before:+.4f} nats per step")
        if found > best:
            best = found
            kept = {name: value.clone() for name, value in new.state_dict().items()}

    parameters, decay, clip = new.inner.parameters(), schedule.weight_decay, schedule.clip
    minimise(parameters, loss, steps, rate, weight_decay=decay, clip=clip, after=evaluate)
    if kept is not None:
        new.load_state_dict(kept)
        new.centre.copy_(model.experts.centre)
        new.spread.copy_(model.experts.spread)
        model.experts = new.eval()
    return best - before


def _log_likelihood(
    model: SequentialVAE, experts: ExpertBank, batches: Batches, step: int
) -> Tensor:
    """Mean log p of one batch, with latents drawn from the posterior."""
    batches.load(step)
    lags = model.config.lags
    with torch.no_grad():
        mean, log_scale = model.encode(batches.x)
        z = mean + log_scale.exp() * batches.noise
    found = experts.log_prob(z[:, :, lags:].flatten(1, 2), stack_history(z, lags).flatten(1, 2))
    if batches.valid is None:
        return found.mean()
    weight = batches.valid[:, :, lags:].flatten(1, 2)
    return (found * weight).sum() / weight.sum()


@torch.no_grad()
def _copy_affine(new: AffineExperts, old: AffineExperts, axes: Axes) -> None:
    """Copy the means exactly and the noise up to its correlations."""
    like = old.log_scale
    matrix = torch.from_numpy(axes.matrix).to(like)
    offset = torch.from_numpy(axes.offset).to(like)
    inverse = torch.linalg.inv(matrix)
    new.load_state_dict(old.state_dict())

    for layer in (new.first, new.skip):  # inputs
        for part in (layer.shared, layer.own):
            steps = part.unflatten(-2, (old.lags, old.latents))
            part.copy_((inverse.T @ steps).flatten(-3, -2))
    for layer in (new.last, new.skip):  # outputs
        for part in (layer.shared, layer.own):
            part.copy_(part @ matrix.T)
    start = offset.repeat(old.lags)
    assert new.first.bias is not None
    assert new.last.bias is not None
    new.first.bias.sub_(start @ new.first.weight[:, None])
    new.last.bias.copy_(new.last.bias @ matrix.T + offset - start @ new.skip.weight[:, None])
    new.log_scale.copy_(0.5 * (old.log_scale.exp().square() @ matrix.square().T).log())
