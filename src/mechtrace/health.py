"""Is a finished fit fit for use? A model that learned nothing is an error, not a result."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .batches import Batches
from .errors import DeadExpert, FitError
from .experts import HALF_LOG_2PI, stack_history
from .model import SequentialVAE

#: A latent whose posterior is as wide as its spread carries nothing.
UNUSED_SHARE = 0.9


@torch.no_grad()
def check_model(
    model: SequentialVAE, train: Batches, held_out: Batches, regimes: Sequence[str]
) -> dict[str, object]:
    """Note where the latents lie, refuse dead experts, and return figures for the model card."""
    train.load(0)
    held_out.load(0)
    known, weight, width = _latents(model, train)
    if not torch.isfinite(known).all():
        raise FitError(
            "the encoder gives values that are not finite",
            fix="lower the learning rate and look for outliers in the data",
        )
    centre, covariance = _moments(known.flatten(0, 1)[None], weight.flatten()[None])
    model.experts.centre.copy_(centre.flatten())
    model.experts.spread.copy_(covariance[0].diagonal().sqrt())
    gain = _gain_over_no_history(model, *_moments(known, weight), held_out)
    for name, nats in zip(regimes, gain.tolist(), strict=True):
        if not nats > 0:
            raise DeadExpert(
                f"the expert of regime {name!r} predicts its held-out series {-nats:.2f} nats per"
                " step worse than a guess that ignores the past",
                fix="check that its rows are in time order, give it more data or more steps, or"
                " use other lags",
            )
    return {
        "gain_over_no_history": dict(zip(regimes, gain.tolist(), strict=True)),
        "unused_latents": int((width > UNUSED_SHARE * model.experts.spread).sum()),
    }


def _latents(model: SequentialVAE, batches: Batches) -> tuple[Tensor, Tensor, Tensor]:
    """Means of the steps with a history (K, N, d), their weights (K, N), the posterior's width."""
    mean, log_scale = model.encode(batches.x)
    late = mean[:, :, model.config.lags :]
    weight = late.new_ones(late.shape[:-1])
    if batches.valid is not None:
        weight = weight * batches.valid[:, :, model.config.lags :]
    return late.flatten(1, 2), weight.flatten(1, 2), log_scale.exp().mean((0, 1, 2))


def _moments(z: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Weighted mean (K, 1, d) and covariance (K, d, d), never singular."""
    share = (weight / weight.sum(1, keepdim=True))[..., None]
    centre = (share * z).sum(1, keepdim=True)
    shifted = z - centre
    floor = 1e-8 * torch.eye(z.shape[-1], device=z.device)
    return centre, torch.bmm(shifted.mT, share * shifted) + floor


def _gain_over_no_history(
    model: SequentialVAE, centre: Tensor, covariance: Tensor, held_out: Batches
) -> Tensor:
    """Nats per step by which each expert beats the Gaussian of its regime's latents."""
    z, weight, _ = _latents(model, held_out)
    history = stack_history(model.encode(held_out.x)[0], model.config.lags).flatten(1, 2)
    own = model.experts.log_prob(z, history)
    root = torch.linalg.cholesky(covariance)
    eps = torch.linalg.solve_triangular(root, (z - centre).mT, upper=False)
    blind = -0.5 * eps.square().sum(1) - z.shape[-1] * HALF_LOG_2PI
    blind = blind - root.diagonal(dim1=1, dim2=2).log().sum(-1)[:, None]
    return ((own - blind) * weight).sum(1) / weight.sum(1)
