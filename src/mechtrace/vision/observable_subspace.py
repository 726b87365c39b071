"""The part of a latent state that a single picture determines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from .._runtime.stochastic import generator

if TYPE_CHECKING:
    from ..stage1.vae import SequentialVAE

STATES = 1024
#: A direction is observable if it moves the channels by this share of what the strongest one does.
LEAST_EFFECT = 0.1


def observable_subspace(model: SequentialVAE, channels: int, seed: int) -> np.ndarray:
    """Projection (d, d) on the latent directions that move the first channels of the same step.

    The moving averages of the frontend follow from the past alike in every regime, so regimes
    differ only in this subspace. Differences between the experts outside of it are errors, and
    would get a large weight, because the averages have hardly any noise. The projection is
    orthogonal in coordinates in which the transition noise is white.
    """
    experts, d = model.experts, model.config.latents
    like = experts.centre
    random = torch.from_numpy(generator(seed, "visible").standard_normal((STATES, d))).to(like)
    states = (experts.centre + experts.spread * random).requires_grad_()
    with torch.enable_grad():
        decoded = model.decoder(states)[:, :channels]
        effects = [
            torch.autograd.grad(channel.sum(), states, retain_graph=True)[0]
            for channel in decoded.unbind(-1)
        ]
    with torch.no_grad():
        scale = experts.noise_scale(experts.centre.repeat(model.config.lags)[None]).mean((0, 1))
    jacobian = (torch.cat(effects) * scale).double()
    size, axes = torch.linalg.eigh(jacobian.T @ jacobian)
    axes = axes[:, size >= LEAST_EFFECT**2 * size[-1]]
    scale = scale.double()
    return (scale[:, None] * (axes @ axes.T) / scale).detach().cpu().numpy()
