"""NCTRL: TDRL's trunk with unknown domains, which a hidden Markov chain on the observations finds.

Song et al., NeurIPS 2023. The chain's emissions are Gaussian around a network of the past rows; it
has its own loss and pace, and no gradient crosses. *Hard* takes the best path of states, *soft*
their posteriors, as the domain of each transition.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, cast

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from mechtrace.data import Panel, Runs, crop_rows, find_runs, reader
from mechtrace.stage1 import HALF_LOG_2PI, MLP, stack_history

from .chains import best_path, smooth, surrogate
from .protocol import Traits
from .tdrl import HIDDEN, TdrlTerms, TemporalPriorVAE
from .trained import Recipe, TrainedMethod

#: The chain learns twice as fast as the rest (1e-3 against 5e-4), with this decay in its loss.
PACE, DECAY = 2.0, 1e-4
#: Rows whose states are found in one call.
CHUNK_ROWS = 1 << 15


class SwitchingChain(nn.Module):
    """p(x_t | past rows, state) = diagonal Gaussian from a network; states follow a chain."""

    def __init__(self, channels: int, lags: int, states: int) -> None:
        super().__init__()
        self.lags, self.states = lags, states
        self.net = MLP([lags * channels, *[HIDDEN] * 3, states * 2 * channels])
        self.initial = nn.Parameter(torch.zeros(states))
        self.transition = nn.Parameter(torch.zeros(states, states))

    def parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log emissions (B, T - L, K) of rows (B, T, p), log initial, log transitions."""
        out = self.net(stack_history(x, self.lags)).unflatten(-1, (self.states, 2, -1))
        mean, log_scale = out[..., 0, :], out[..., 1, :].clamp(-7.0, 5.0)
        error = (x[:, self.lags :, None] - mean) * (-log_scale).exp()
        return (
            (-0.5 * error.square() - log_scale - HALF_LOG_2PI).sum(-1),
            self.initial.log_softmax(-1),
            self.transition.log_softmax(-1),
        )

    def decay(self) -> Tensor:
        """Weight decay of Adam as part of the loss."""
        return 0.5 * torch.stack([p.square().sum() for p in self.parameters()]).sum()


class SwitchingVAE(TemporalPriorVAE):
    """NCTRL's model; batches have one block, since nobody knows the domains."""

    order: Tensor

    def __init__(
        self,
        shape: tuple[int, ...],
        latents: int,
        lags: int,
        states: int,
        gating: Literal["hard", "soft"],
    ) -> None:
        super().__init__(shape, latents, lags, states, context_layers=3)
        self.chain = SwitchingChain(shape[0], lags, states)
        self.gating = gating
        # which state stands for which regime, once that is known
        self.register_buffer("order", torch.arange(states))

    def groups(self) -> list[tuple[list[nn.Parameter], float]]:
        """Parameter groups: the chain has its own learning rate."""
        chain = list(self.chain.parameters())
        rest = [p for n, p in self.named_parameters() if not n.startswith("chain.")]
        return [(rest, 1.0), (chain, PACE)]

    def forward(self, x: Tensor, noise: Tensor, valid: Tensor | None = None) -> TdrlTerms:
        """TDRL's parts, with the chain's states as domains, and the chain's own loss."""
        rows = self.standardise(x).flatten(0, 1)
        emission, initial, transition = self.chain.parts(rows)
        if valid is not None:  # padding says nothing about the state
            emission = emission * valid.flatten(0, 1)[:, self.lags :, None]
        likelihood, known = surrogate(emission, initial, transition)
        if self.gating == "soft":
            # the context of a mixture is not the mixture of the contexts
            shares = self.context(known.posterior @ self.embedding.weight)
            shifts: Tensor = self.prior.of_context
        else:
            path = best_path(emission.detach(), initial.detach(), transition.detach())
            shares = self._one_hot(path).to(noise.dtype)
            shifts = self.shifts()
        terms = self._terms(x, noise, valid, shares.unflatten(0, x.shape[:2]), shifts)
        return replace(terms, other=DECAY * self.chain.decay() - likelihood)

    @torch.no_grad()
    def states(self, x: Tensor) -> Tensor:
        """One-hot best path or posteriors (B, T - L, K) of rows (B, T, p), named states."""
        parts = self.chain.parts(self.standardise(x))
        if self.gating == "soft":
            found = smooth(*parts).posterior
        else:
            found = self._one_hot(best_path(*parts)).to(x.dtype)
        return found[..., self.order]

    def _one_hot(self, path: Tensor) -> Tensor:
        return path[..., None] == torch.arange(self.chain.states, device=path.device)


class NCTRL(TrainedMethod):
    """Common part of hard and soft gating."""

    gating: Literal["hard", "soft"]
    recipe = Recipe(lr=5e-4, batch=64, weight_decay=1e-4)

    def build(self, regimes: int, shape: tuple[int, ...]) -> SwitchingVAE:
        """As published; as many states as regimes."""
        settings = self.settings
        return SwitchingVAE(shape, settings.latents, settings.lags, regimes, self.gating)

    def _after_training(self, panel: Panel, train: Runs) -> None:
        """Match states to regimes one to one by how often they coincide."""
        if panel.codes is None:
            return
        order = cast(SwitchingVAE, self._model).order
        order.copy_(torch.arange(len(order)))
        shares = np.concatenate(self._weights(panel))
        rows = train.row_numbers()
        rows = rows[np.isfinite(shares[rows, 0]) & (panel.codes[rows] >= 0)]
        met = np.zeros((len(order), len(order)))
        np.add.at(met, panel.codes[rows], shares[rows])
        order.copy_(torch.from_numpy(linear_sum_assignment(-met)[1]))

    def _weights(self, panel: Panel) -> list[np.ndarray]:
        """States (T, K) of each series; NaN before the lags are full."""
        model, lags = cast(SwitchingVAE, self._model), self.settings.lags
        out = np.full((panel.rows, len(self.regimes_)), np.nan)
        runs = find_runs(panel, by_regime=False)
        read = reader(panel, model.centre.device, model.rescaling())
        for length in np.unique(runs.length[runs.length > lags]):
            same = np.flatnonzero(runs.length == length)
            for part in np.array_split(same, -(-len(same) * length // CHUNK_ROWS)):
                rows, _ = crop_rows(runs.start[part], runs.length[part], int(length))
                x = read(rows.ravel()).to(model.centre).reshape(*rows.shape, *panel.shape)
                out[rows[:, lags:]] = model.states(x).double().cpu().numpy()
        return np.split(out, panel.offsets[1:-1])


class HardNCTRL(NCTRL):
    """NCTRL with the most likely state path."""

    gating = "hard"
    traits = Traits(
        title="NCTRL (hard)",
        about="TDRL with unknown domains: the best path of a hidden Markov chain",
        labels=False,
        latents=True,
    )


class SoftNCTRL(NCTRL):
    """NCTRL with posterior probabilities of the states."""

    gating = "soft"
    traits = Traits(
        title="NCTRL (soft)",
        about="TDRL with unknown domains: state posteriors of a hidden Markov chain",
        labels=False,
        latents=True,
    )
