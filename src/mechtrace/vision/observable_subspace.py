"""Which part of a latent state a single picture shows."""

from __future__ import annotations

import numpy as np
import torch

from .model import SequentialVAE

STATES = 1024
#: A direction is seen if it moves the channels by this share of what the most visible one does.
LEAST_SHOWN = 0.1


def visible_part(model: SequentialVAE, shown: int) -> np.ndarray:
    """Projection (d, d) on what moves the first `shown` channels of the same step.

    What is remembered follows from the past in every regime alike, so regimes can only differ in
    what they show next; other differences between experts are errors, and look very certain,
    because what is remembered has hardly any noise. The projection is orthogonal where the noise
    of the transitions is white.
    """
    experts, d = model.experts, model.config.latents
    like = experts.centre
    random = torch.randn(STATES, d, generator=torch.Generator().manual_seed(0)).to(like)
    states = (experts.centre + experts.spread * random).requires_grad_()
    with torch.enable_grad():
        seen = model.decoder(states)[:, :shown]
        effects = [
            torch.autograd.grad(channel.sum(), states, retain_graph=True)[0]
            for channel in seen.unbind(-1)
        ]
    with torch.no_grad():
        scale = experts.noise_scale(experts.centre.repeat(model.config.lags)[None]).mean((0, 1))
    moves = (torch.cat(effects) * scale).double()
    size, axes = torch.linalg.eigh(moves.T @ moves)
    axes = axes[:, size >= LEAST_SHOWN**2 * size[-1]]
    scale = scale.double()
    return (scale[:, None] * (axes @ axes.T) / scale).detach().cpu().numpy()
