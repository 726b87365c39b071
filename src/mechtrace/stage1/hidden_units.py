"""Hidden units of the mechanism form tanh(W^(k) x): a small network that all regimes share.

    x_t = c + B x + sum_h r_h tanh(w_h^(k)' x + b_h^(k)) + noise        (regime k)

Regimes differ inside the nonlinearity, by as little as the data allow. Only the units are kept;
who uses them determines the read-out.
"""

from __future__ import annotations

import numpy as np
import torch

#: Training steps at most, and passes over the rows at most.
STEPS, PASSES = 2000, 40
#: Rows of each regime in a training step.
ROWS = 256
LEARNING_RATE, WEIGHT_DECAY = 5e-3, 1e-4
#: Penalty on the squared difference of a regime's units from the shared ones.
OWN = 1e-3


def hidden_units(
    inputs: np.ndarray, outputs: np.ndarray, regime: np.ndarray, units: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Learn the directions (K, n, units) and phases (K, units) of tanh units.

    `inputs` (N, n) predict `outputs` (N, q) in regimes (N,).
    """
    affine = np.concatenate([np.ones((len(inputs), 1)), inputs], axis=1)
    linear = np.linalg.lstsq(affine, outputs, rcond=None)[0]
    left = outputs - affine @ linear
    noise = left.T @ left / len(left)
    noise += 1e-9 * np.trace(noise) * np.eye(len(noise)) + 1e-12 * np.eye(len(noise))
    x = torch.from_numpy(affine.astype(np.float32))
    y = torch.from_numpy((left @ np.linalg.cholesky(np.linalg.inv(noise))).astype(np.float32))
    rows = [torch.from_numpy(np.flatnonzero(regime == k)) for k in range(int(regime.max()) + 1)]
    draw = torch.Generator().manual_seed(seed)
    n, q = affine.shape[1], outputs.shape[1]
    shared = torch.randn(n, units, generator=draw) / n**0.5
    shared[0] = 4 * torch.rand(units, generator=draw) - 2
    weights = [shared, torch.zeros(len(rows), n, units), torch.zeros(units + n, q)]
    shared, own, readout = (w.requires_grad_() for w in weights)
    optimiser = torch.optim.AdamW([shared, own, readout], LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    steps = max(1, min(STEPS, PASSES * len(inputs) // (ROWS * len(rows))))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, LEARNING_RATE, total_steps=steps)
    with torch.enable_grad():
        for _ in range(steps):
            chosen = torch.stack(
                [one[torch.randint(len(one), (ROWS,), generator=draw)] for one in rows]
            )
            past = x[chosen]
            units_ = torch.tanh(torch.bmm(past, shared + own))
            predicted = torch.cat([past, units_], dim=-1) @ readout
            loss = (y[chosen] - predicted).square().sum(-1).mean() + OWN * own.square().sum()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    found = (shared + own).detach().double().numpy()
    return found[:, 1:], found[:, 0]
