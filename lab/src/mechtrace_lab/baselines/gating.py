"""Gating network: a classifier of regimes instead of stage 2, the paper's "Stage 1 only" (E.6).

It learns to name the regime of a step from the latents of the step and those before, on pure
recordings alone, and its probabilities are taken for alpha(t). It is here to be compared with: a
probability says how likely one regime is at work alone, not how much of each is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mechtrace._runtime import seeded
from mechtrace.data import Panel, Runs, find_runs, split_runs, training_runs
from mechtrace.errors import DataError
from mechtrace.estimator import Trace
from mechtrace.stage1 import FitRun, SkipMLP

from .ours import TraceMethod
from .protocol import Traits

BATCH = 1024
#: Share of the series that decides when to stop, and for how many epochs it may get no better.
HOLDOUT, PATIENCE = 0.2, 5


@dataclass(frozen=True, eq=False)
class Gate:
    """Regime probabilities of each step, from its latents and their past."""

    trace: Trace
    net: nn.Module
    centre: np.ndarray  # (d,)
    scale: np.ndarray  # (d,)
    past: int
    epochs: int
    accuracy: float  # on held-out series

    @torch.no_grad()
    def weights(self, panel: Panel) -> list[np.ndarray]:
        """Probabilities (T, K) of each series; NaN where the past is not complete."""
        panel = self.trace.prepared(panel)
        latents = np.concatenate(self.trace.encode(panel))
        out = np.full((len(latents), len(self.trace.regimes_)), np.nan)
        rows = find_runs(panel, by_regime=False).rows_with_past(self.past)
        if len(rows):
            seen = _windows((latents - self.centre) / self.scale, rows, self.past)
            out[rows] = self.net(seen).double().softmax(dim=-1).numpy()
        return np.split(out, panel.offsets[1:-1])


def fit_gate(
    trace: Trace,
    panel: Panel,
    *,
    seed: int = 0,
    past: int | None = None,
    hidden: int = 64,
    layers: int = 3,
    epochs: int = 60,
    lr: float = 3e-3,
) -> Gate:
    """Train a gating network on the labelled rows of a panel.

    By default as many as the experts see. The gate of the epoch with the least cross-entropy on
    held-out series is kept.
    """
    past = trace.record_.settings.model.lags if past is None else past
    panel = trace.prepared(panel)
    runs = training_runs(panel, past)
    if panel.regimes != trace.regimes_:
        raise DataError(
            f"the panel has the regimes {list(panel.regimes)}, the model {list(trace.regimes_)}",
            where=panel.source,
            fix="give the panel that the model was trained on",
        )
    train, held = split_runs(runs, HOLDOUT, past, seed)
    latents = np.concatenate(trace.encode(panel))
    own = latents[train.row_numbers()]
    centre, scale = own.mean(axis=0), own.std(axis=0)
    x, y = _examples((latents - centre) / scale, train, past)
    held_x, held_y = _examples((latents - centre) / scale, held if len(held) else train, past)
    # every regime counts alike, however long it was recorded
    balance = len(y) / (len(panel.regimes) * torch.bincount(y).clamp_min(1))
    net = _new_net(x.shape[1], len(panel.regimes), hidden, layers, seed)
    optimiser = torch.optim.AdamW(net.parameters(), lr=lr, weight_decay=1e-2)
    best, best_state, best_epoch = np.inf, net.state_dict(), 0
    for epoch in range(epochs):
        order = torch.from_numpy(np.random.default_rng([seed, epoch]).permutation(len(y)))
        for rows in order.split(BATCH):
            optimiser.zero_grad()
            F.cross_entropy(net(x[rows]), y[rows], weight=balance).backward()
            optimiser.step()
        with torch.no_grad():
            loss = F.cross_entropy(net(held_x), held_y, weight=balance).item()
        if loss < best:
            best, best_epoch = loss, epoch
            best_state = {name: value.clone() for name, value in net.state_dict().items()}
        elif epoch - best_epoch >= PATIENCE:
            break
    net.load_state_dict(best_state)
    with torch.no_grad():
        accuracy = (net(held_x).argmax(dim=1) == held_y).double().mean().item()
    return Gate(trace, net, centre, scale, past, best_epoch + 1, accuracy)


def _new_net(inputs: int, regimes: int, hidden: int, layers: int, seed: int) -> nn.Module:
    with seeded(seed):
        return SkipMLP(inputs, regimes, hidden, layers)


def _examples(latents: np.ndarray, runs: Runs, past: int) -> tuple[Tensor, Tensor]:
    rows = runs.rows_with_past(past)
    regime = np.repeat(runs.regime, np.maximum(runs.length - past, 0)).astype(np.int64)
    return _windows(latents, rows, past), torch.from_numpy(regime)


def _windows(latents: np.ndarray, rows: np.ndarray, past: int) -> Tensor:
    """Concatenate the latents of each row and of the rows before it."""
    seen = [latents[rows - lag] for lag in range(past + 1)]
    return torch.from_numpy(np.concatenate(seen, axis=1)).float()


class GatingNetwork(TraceMethod):
    """Regime probabilities of a gating network on the unaligned latents of a Trace."""

    traits = Traits(
        title="Gating network",
        about="Regime probabilities of a network that sees the latents of mechtrace.",
        latents=True,
    )
    align = False

    def _conclude(self, trace: Trace, run: FitRun) -> None:
        super()._conclude(trace, run)
        self.gate_ = fit_gate(trace, run.panel, seed=self.settings.seed)

    def _weights(self, panel: Panel) -> list[np.ndarray]:
        return self.gate_.weights(panel)
