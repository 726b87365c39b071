"""Experts in aligned coordinates: refitted there for a short while, if that helps.

An affine expert has independent noise in its own coordinates. In aligned ones that is true of the
system too, so the same expert can describe it better. Encoder and decoder stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ..batches import Batches
from ..experts import AffineExperts, ExpertBank, StackedLinear, make_experts, stack_history
from ..fit import learning_rate
from ..model import SequentialVAE
from ..training import Run
from .axes import Axes

#: Evaluations on held-out series over a refit; the best of them is kept.
EVALUATIONS = 10


class AlignedExperts(ExpertBank):
    """Experts that work in coordinates u = A z + c and are spoken to in z."""

    matrix: Tensor
    offset: Tensor

    def __init__(self, inner: ExpertBank) -> None:
        super().__init__(inner.regimes, inner.latents, inner.lags)
        self.inner = inner
        self.register_buffer("matrix", torch.eye(inner.latents))
        self.register_buffer("offset", torch.zeros(inner.latents))

    def log_prob(self, z: Tensor, history: Tensor) -> Tensor:
        """The density of u times |det A|."""
        log_det = torch.linalg.slogdet(self.matrix)[1]
        return self.inner.log_prob(self._aligned(z), self._past(history)) + log_det

    def conditional_mean(self, history: Tensor) -> Tensor:
        """A mean is mapped like a point."""
        expected = self.inner.conditional_mean(self._past(history))
        return (expected - self.offset) @ torch.linalg.inv(self.matrix).T

    def noise_scale(self, history: Tensor) -> Tensor:
        """Noise that is independent in u mixes in z."""
        variance = self.inner.noise_scale(self._past(history)).square()
        return (variance @ torch.linalg.inv(self.matrix).T.square()).sqrt()

    def deviation(self) -> Tensor:
        """As the experts themselves have it."""
        return self.inner.deviation()

    def _aligned(self, z: Tensor) -> Tensor:
        return z @ self.matrix.T + self.offset

    def _past(self, history: Tensor) -> Tensor:
        return self._aligned(history.unflatten(-1, (self.lags, self.latents))).flatten(-2)


def empty_aligned_experts(model: SequentialVAE) -> AlignedExperts:
    """Experts of the model's kind in coordinates yet to be filled in."""
    config = model.config
    inner = make_experts(
        config.experts, model.regimes, config.latents, config.lags, config.hidden,
        config.depth_of_experts,
    )  # fmt: skip
    return AlignedExperts(inner)


def refit_experts(
    run: Run, axes: Axes, steps: int, say: Callable[[str], None] = lambda text: None
) -> float:
    """Train experts in aligned coordinates on the latents of a fixed encoder.

    Returns the gain on held-out series in nats per step. If there is none, the model keeps the
    experts it has.
    """
    model = run.model
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.config.fit.seed)
        new = empty_aligned_experts(model)
    new.matrix.copy_(torch.from_numpy(axes.matrix))
    new.offset.copy_(torch.from_numpy(axes.offset))
    if isinstance(new.inner, AffineExperts) and isinstance(model.experts, AffineExperts):
        _take_over(new.inner, model.experts, axes)
    new.to(model.centre.device)
    before = _held_out(model, model.experts, run.trainer.held_out)
    best, kept = before, None
    schedule = run.config.fit
    optimiser = torch.optim.AdamW(new.inner.parameters(), weight_decay=schedule.weight_decay)
    for step in range(steps):
        # the tail of the training schedule: the experts are nearly there
        late = schedule.steps - (steps - step) * schedule.steps // (4 * steps)
        optimiser.param_groups[0]["lr"] = learning_rate(schedule, late)
        loss = -_log_likelihood(model, new, run.trainer.batches, step)
        if model.config.shrinkage:
            loss = loss + model.config.shrinkage / run.trainer.training_rows * new.deviation()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(new.inner.parameters(), schedule.clip)
        optimiser.step()
        if (step + 1) % max(1, steps // EVALUATIONS) == 0 or step + 1 == steps:
            found = _held_out(model, new, run.trainer.held_out)
            say(f"step {step + 1}/{steps}  held-out {found - before:+.4f} nats per step")
            if found > best:
                best = found
                kept = {name: value.clone() for name, value in new.state_dict().items()}
    if kept is not None:
        new.load_state_dict(kept)
        new.centre.copy_(model.experts.centre)
        new.spread.copy_(model.experts.spread)
        model.experts = new.eval()
    return best - before


def _log_likelihood(
    model: SequentialVAE, experts: ExpertBank, batches: Batches, step: int
) -> Tensor:
    """Mean log p of the transitions of one batch, of latents drawn from the posterior."""
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
def _held_out(model: SequentialVAE, experts: ExpertBank, batches: Batches) -> float:
    return float(_log_likelihood(model, experts, batches, 0))


@torch.no_grad()
def _take_over(new: AffineExperts, old: AffineExperts, axes: Axes) -> None:
    """The same means in the new coordinates, exactly; noise as near as independent noise comes."""
    like = old.log_scale
    matrix = torch.from_numpy(axes.matrix).to(like)
    offset = torch.from_numpy(axes.offset).to(like)
    inverse = torch.linalg.inv(matrix)
    new.load_state_dict(old.state_dict())

    def from_aligned(layer: StackedLinear) -> None:
        for part in (layer.shared, layer.own):
            steps = part.unflatten(-2, (old.lags, old.latents))
            part.copy_((inverse.T @ steps).flatten(-3, -2))

    def to_aligned(layer: StackedLinear) -> None:
        for part in (layer.shared, layer.own):
            part.copy_(part @ matrix.T)

    for layer in (new.first, new.skip):
        from_aligned(layer)
    for layer in (new.last, new.skip):
        to_aligned(layer)
    start = offset.repeat(old.lags)
    assert new.first.bias is not None
    assert new.last.bias is not None
    new.first.bias.sub_(start @ new.first.weight[:, None])
    new.last.bias.copy_(new.last.bias @ matrix.T + offset - start @ new.skip.weight[:, None])
    new.log_scale.copy_(0.5 * (old.log_scale.exp().square() @ matrix.square().T).log())
