"""Change points: cut a series where its mean jumps, name each stretch by the likeliest regime."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from mechtrace.data import Panel, find_runs, split_runs, training_runs
from mechtrace.stage1 import Listener

from .emissions import Emissions
from .features import WindowFeatures, balanced_rows, curves_of, optional
from .protocol import Method, Traits, Truth

#: The search is quadratic: of longer stretches, means of neighbouring rows are searched instead.
MAX_POINTS = 3000
#: Shortest stretch between two change points.
MIN_ROWS = 2


class ChangePoints(Method):
    """PELT change points of the mean; each segment belongs wholly to one regime."""

    traits = Traits(
        title="Change points",
        about="Jumps of the mean (PELT, BIC penalty); each stretch is its likeliest regime.",
        package="ruptures",
    )

    def _learn(self, panel: Panel, listeners: Sequence[Listener], truth: Truth | None) -> None:
        optional("ruptures")
        seed = self.settings.seed
        train, _ = split_runs(training_runs(panel, 0), self.settings.holdout, 0, seed)
        self._features = WindowFeatures.of(panel, train, seed)
        rows, regime = balanced_rows(train, 0, seed)
        seen = self._features.at(panel, rows)
        self._emissions = Emissions.fit(seen, np.eye(len(panel.regimes))[regime], seen.shape[1])
        within = self._emissions.covariance.mean(axis=0)
        self._whitening = np.linalg.inv(np.linalg.cholesky(within)).T
        self.regimes_ = tuple(panel.regimes)

    def _weights(self, panel: Panel) -> list[np.ndarray]:
        runs = find_runs(panel, by_regime=False)
        found = np.zeros((runs.rows, len(self.regimes_)))
        done = 0
        for start, length in zip(runs.start, runs.length, strict=True):
            seen = self._features.at(panel, np.arange(start, start + length))
            scores = self._emissions.log_likelihood(seen)
            edges = [0, *change_points(seen @ self._whitening), length]
            for first, last in pairwise(edges):
                named = int(scores[first:last].sum(axis=0).argmax())
                found[done + first : done + last, named] = 1.0
            done += length
        return curves_of(panel, runs.row_numbers(), found)


def change_points(noise: np.ndarray) -> list[int]:
    """Detect the first rows of all segments but the first in rows (T, p) of unit noise.

    Twice the log-likelihood must rise by log T for each number that a change adds: p, its place.
    """
    together = -(-len(noise) // MAX_POINTS)
    points = len(noise) // together
    if points < 2 * MIN_ROWS:
        return []
    means = noise[: points * together].reshape(points, together, -1).mean(axis=1)
    penalty = (noise.shape[1] + 1) * np.log(points)
    search = optional("ruptures").KernelCPD(kernel="linear", min_size=MIN_ROWS)
    ends = search.fit(means * np.sqrt(together)).predict(pen=penalty)
    return [together * int(end) for end in ends[:-1]]
