"""d small networks eps_i = g_i(context, history, z_i), one per latent, evaluated in parallel.

The density of z_t given its past follows by a change of variables, component by component:
log p = sum_i log N(eps_i) + log |d eps_i / d z_i|. The derivative travels beside the forward pass.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from mechtrace.stage1 import gaussian_log_prob, product, with_tangent

#: Slopes below this count as this: in float32 their logarithm would be noise.
MIN_SLOPE = 1e-8
#: Rows of which a CPU keeps all layers in its cache; products of more take twice as long each.
CHUNK = 512


class ParallelLinear(nn.Module):
    """C linear layers in parallel, each initialised as a single one would be."""

    def __init__(self, copies: int, inputs: int, outputs: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(inputs)
        self.weight = nn.Parameter(torch.empty(copies, inputs, outputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(copies, 1, outputs).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        """(C, N, inputs) -> (C, N, outputs)."""
        if self.weight.shape[-1] == 1:
            return product(x, self.weight) + self.bias
        return torch.baddbmm(self.bias, x, self.weight)


class ComponentNets(nn.Module):
    """The d networks; their first layer sees [context, history, z_i], or no context if 0."""

    of_context: nn.Parameter

    def __init__(self, latents: int, history: int, context: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.latents, self.hidden, self.context = latents, hidden, context
        # One layer in parts: history and context are the same for all d networks, so that their
        # share is one product instead of d products of copies.
        first = ParallelLinear(latents, context + history + 1, hidden)
        weight = first.weight.detach()
        self.register_parameter(
            "of_context", nn.Parameter(_joined(weight[:, :context])) if context else None
        )
        self.of_history = nn.Parameter(_joined(weight[:, context:-1]))
        self.of_own = nn.Parameter(weight[:, -1:].clone())
        self.bias = nn.Parameter(first.bias.detach().clone())
        self.later = nn.ModuleList(
            ParallelLinear(latents, hidden, size) for size in [*[hidden] * (layers - 1), 1]
        )

    def shift(self, context: Tensor) -> Tensor:
        """Contribution of a context (..., C) to all first layers, (..., d * hidden)."""
        return context @ self.of_context

    def forward(
        self,
        z: Tensor,
        history: Tensor,
        shares: Tensor | None = None,
        shifts: Tensor | None = None,
        gates: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Eps and d eps_i / d z_i, both (..., N, d), of z (..., N, d) and history (..., N, L*d).

        A row is shifted by `shares` (..., N, M) of the `shifts` (M, d * hidden); `gates` (L*d, d)
        say how much of an entry of the history each network sees.
        """
        weight: Tensor = self.of_history
        if gates is not None:
            weight = weight * gates.repeat_interleave(self.hidden, dim=1)
        # z_i is for the i-th network alone: its weights are blocks of a wide matrix, so that the
        # whole layer is one product
        own = torch.diag_embed(self.of_own[:, 0].T).permute(1, 2, 0).flatten(1)
        inputs, weights = [history, z, torch.ones_like(z[..., :1])], [weight, own]
        weights.append(self.bias.reshape(1, -1))
        if shares is not None and shifts is not None:
            inputs.append(shares)
            weights.append(shifts)
        rows, whole = torch.cat(inputs, dim=-1).flatten(0, -2), torch.cat(weights)
        found = [
            self._of_rows(some, whole) for some in rows.split(len(rows) if z.is_cuda else CHUNK)
        ]
        eps, slope = (torch.cat(parts, dim=1) for parts in zip(*found, strict=True))
        return eps[..., 0].T.reshape(z.shape), slope[..., 0].T.reshape(z.shape)

    def _of_rows(self, inputs: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """All layers of (N, inputs): eps and slope, (d, N, 1)."""
        a = (inputs @ weight).unflatten(-1, (self.latents, self.hidden)).transpose(0, 1)
        return with_tangent(a, self.of_own.expand_as(a), self.later)


def change_of_variables(eps: Tensor, slope: Tensor) -> Tensor:
    """Log p(z | history) of independent standard normal eps: (..., d) -> (...)."""
    return (gaussian_log_prob(eps) + log_slope(slope)).sum(-1)


def log_slope(slope: Tensor) -> Tensor:
    """Log |d eps_i / d z_i|, bounded below."""
    return slope.abs().clamp_min(MIN_SLOPE).log()


def _joined(weight: Tensor) -> Tensor:
    """(d, inputs, hidden) -> (inputs, d * hidden)."""
    return weight.transpose(0, 1).flatten(1).clone()
