"""Is a finished fit fit for use? A model that learned nothing is an error, not a result."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from .batches import Batches
from .errors import DeadExpert, FitError, FitWarning
from .experts import HALF_LOG_2PI, stack_history
from .model import SequentialVAE

#: A latent whose posterior is as wide as its spread carries nothing.
UNUSED_SHARE = 0.9
#: Nats per step and latent by which an expert may fall behind at home before it counts as dead.
TOLERANCE = 0.1


@torch.no_grad()
def check_model(
    model: SequentialVAE, train: Batches, held_out: Batches, regimes: Sequence[str]
) -> dict[str, object]:
    """Note where the latents lie, refuse dead experts, and return figures for the model card."""
    known = _sample(model, train)
    if not torch.isfinite(known.z).all():
        raise FitError(
            "the encoder gives values that are not finite",
            fix="lower the learning rate and look for outliers in the data",
        )
    centre, covariance = _moments(known.z.flatten(0, 1)[None], known.weight.flatten()[None])
    model.experts.centre.copy_(centre.flatten())
    model.experts.spread.copy_(covariance[0].diagonal().sqrt())
    law = _moments(known.z, known.weight)
    gain = _gain_over_no_history(model, *law, _sample(model, held_out))
    at_home = _gain_over_no_history(model, *law, known)
    for name, new, old in zip(regimes, gain.tolist(), at_home.tolist(), strict=True):
        _judge(name, new, old, TOLERANCE * model.config.latents)
    return {
        "gain_over_no_history": dict(zip(regimes, gain.tolist(), strict=True)),
        "unused_latents": int((known.width > UNUSED_SHARE * model.experts.spread).sum()),
    }


def _judge(regime: str, new: float, at_home: float, tolerance: float) -> None:
    """Failing on its own training series, an expert is dead; failing on new ones, weak."""
    fix = "check that its rows are in time order, give it more data or steps, or use other lags"
    worse = "worse than a guess that ignores the past"
    if not (math.isfinite(new) and at_home > -tolerance):
        raise DeadExpert(
            f"the expert of regime {regime!r} learned nothing: it predicts its own training series"
            f" {-at_home:.2f} nats per step {worse}",
            fix=fix,
        )
    if new <= 0:
        found = (
            f"the expert of regime {regime!r} predicts held-out series {-new:.2f} nats per step"
        )
        warnings.warn(f"{found} {worse}; {fix}.", FitWarning, stacklevel=2)


class _Sample(NamedTuple):
    """Latents drawn from the posterior, as the experts saw them in training."""

    z: Tensor  # (K, N, d), the steps that have a history
    history: Tensor  # (K, N, L*d)
    weight: Tensor  # (K, N), zero on padding
    width: Tensor  # (d,), typical standard deviation of the posterior


def _sample(model: SequentialVAE, batches: Batches) -> _Sample:
    batches.load(0)
    encoded = [model.encode(x) for x, _, _ in batches.pieces()]
    mean, log_scale = (torch.cat(parts, dim=1) for parts in zip(*encoded, strict=True))
    width = log_scale.exp()
    z = mean + width * batches.noise
    lags = model.config.lags
    weight = z.new_ones(z.shape[:-1])
    if batches.valid is not None:
        weight = weight * batches.valid
    return _Sample(
        z[:, :, lags:].flatten(1, 2),
        stack_history(z, lags).flatten(1, 2),
        weight[:, :, lags:].flatten(1, 2),
        width.mean((0, 1, 2)),
    )


def _moments(z: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Weighted mean (K, 1, d) and covariance (K, d, d), never singular."""
    share = (weight / weight.sum(1, keepdim=True))[..., None]
    centre = (share * z).sum(1, keepdim=True)
    shifted = z - centre
    floor = 1e-8 * torch.eye(z.shape[-1], device=z.device)
    return centre, torch.bmm(shifted.mT, share * shifted) + floor


def _gain_over_no_history(
    model: SequentialVAE, centre: Tensor, covariance: Tensor, new: _Sample
) -> Tensor:
    """Nats per step by which each expert beats the Gaussian of its regime's latents."""
    own = model.experts.log_prob(new.z, new.history)
    root = torch.linalg.cholesky(covariance)
    eps = torch.linalg.solve_triangular(root, (new.z - centre).mT, upper=False)
    blind = -0.5 * eps.square().sum(1) - new.z.shape[-1] * HALF_LOG_2PI
    blind = blind - root.diagonal(dim1=1, dim2=2).log().sum(-1)[:, None]
    return ((own - blind) * new.weight).sum(1) / new.weight.sum(1)
