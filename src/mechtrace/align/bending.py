"""How far the latent space is from flat: does the frame of the noise depend on the state?

If the network's latents were a bent image of the true ones, noise of constant size would look
larger here and smaller there. So the second moments of whitened residuals are regressed on the
state; what they follow on held-out rows is bending, in units of the noise.
"""

from __future__ import annotations

import numpy as np

from .rows import Rows

RIDGE = 1e-3
#: More products than this are sampled.
MOST_PRODUCTS = 400


def bending(train: Rows, test: Rows) -> float:
    """Root mean square of the change in the noise's frame over the states (whitened rows).

    Only stretching shows; a frame that turns without stretching cannot be seen in this way.
    """
    d = train.size
    first, second = np.triu_indices(d)
    weight = np.where(first == second, 1.0, 2.0)
    chosen = np.random.default_rng(0).permutation(len(first))[:MOST_PRODUCTS]
    share = len(first) / len(chosen)
    first, second, weight = first[chosen], second[chosen], weight[chosen]

    def products(rows: Rows) -> np.ndarray:
        residual = np.clip(rows.residual, -5, 5)  # one outlier squared would speak for all
        return residual[:, first] * residual[:, second]

    centre, spread = train.history[0].mean(axis=0), train.history[0].std(axis=0)

    def features(rows: Rows) -> np.ndarray:
        state = np.clip((rows.history[0] - centre) / np.where(spread > 0, spread, 1.0), -5, 5)
        return np.column_stack([np.ones(len(state)), state, state**2, np.abs(state)])

    x, y = features(train), products(train)
    mean = y.mean(axis=0)
    normal = x.T @ x + RIDGE * len(x) * np.eye(x.shape[1])
    follow = features(test) @ np.linalg.solve(normal, x.T @ (y - mean))
    follow -= follow.mean(axis=0)
    # unbiased for the energy that the prediction explains: its own errors do not count
    explained = 2 * (products(test) - mean) * follow - follow**2
    energy = share * float((explained.mean(axis=0) * weight).sum())
    return 0.5 * float(np.sqrt(max(energy, 0.0) / d))
