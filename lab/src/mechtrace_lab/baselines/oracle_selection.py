"""Oracle selection: the checkpoint whose latents match the true ones best."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch import Tensor

from mechtrace.data import Panel
from mechtrace.stage1 import Learner, Progress

from .protocol import Truth


class BestMatch:
    """A listener that keeps a copy of the weights with the highest score against the truth.

    `score` takes true and learned latents of all steps that have a full past.
    """

    def __init__(
        self,
        model: Learner,
        truth: Truth,
        encode: Callable[[Panel], list[np.ndarray]],
        score: Callable[[np.ndarray, np.ndarray], float],
    ) -> None:
        self.model, self.truth, self.encode, self.score = model, truth, encode, score
        self.best, self.step = -np.inf, 0
        self.scores: list[tuple[int, float]] = []  # after each evaluation
        self.weights: dict[str, Tensor] = {}

    def __call__(self, progress: Progress) -> None:
        """Compare after every evaluation."""
        if not progress.evaluated:
            return
        late = slice(self.model.lags, None)
        known = np.concatenate([z[late] for z in self.truth.latents])
        found = np.concatenate([z[late] for z in self.encode(self.truth.panel)])
        rows = np.isfinite(found).all(axis=1)
        score = self.score(known[rows], found[rows])
        self.scores.append((progress.step, score))
        if score > self.best:
            self.best, self.step = score, progress.step
            self.weights = {n: w.detach().clone() for n, w in self.model.state_dict().items()}
