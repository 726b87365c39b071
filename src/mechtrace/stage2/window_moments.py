"""Moments of windows, and the directions of the channels' moments that tell regimes apart.

With many channels and few people or machines, most of what varies is who was recorded. So moments
f of all channels (means, and log deviations of the steps; the deviation of the values would count
a drift inside a transition, too) are reduced to a linear estimate of the shares,

    y = H' (D S^-1 D')^+ D S^-1 (f - m),        S = (1 - s) W + s diag(W)

with D the means of f in each regime around their mean m, W the covariance within regimes and H the
Helmert basis (regularised discriminant analysis): y has the mean H' e_k in regime k. The shrinkage
s is the strongest whose error on groups (or series) that are left out is not clearly above the
lowest: pure series favour fine directions, which need not hold between regimes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..linalg.simplex import helmert_basis
from .channel_member import CONSTANT, ChannelRows

#: Standard deviations below this are set to it before the logarithm.
LEAST_DEVIATION = 1e-6
#: Shrinkages to choose from, weak ones first, and standard errors by which one is clearly worse.
SHRINKAGES, CERTAINTY = (0.01, 0.03, 0.1, 0.3, 0.6, 0.9), 2.0
#: Channels whose moments are reduced, and windows that are learned from, at most.
MOST_CHANNELS, MOST_WINDOWS = 256, 20_000


def window_moments(latents: np.ndarray, position: np.ndarray, window: int) -> np.ndarray:
    """Mean, log deviation and log deviation of the steps over the last `window` rows.

    From latents (T, S, d): (T, S, 3 d), NaN where the window is not full.
    """
    # one lag at a time around each window's own mean: running sums would carry rounding errors on
    length, series, d = latents.shape
    out = np.full((length * series, 3 * d), np.nan)
    ready = np.flatnonzero(position >= window - 1)
    flat = latents.reshape(-1, d)
    count = max(window - 1, 1)
    later = flat[ready]
    mean_step = (later - flat[ready - (window - 1) * series]) / count
    mean = sum(flat[ready - lag * series] for lag in range(window)) / window
    square, moved = (later - mean) ** 2, np.zeros_like(mean)
    for lag in range(1, window):
        earlier = flat[ready - lag * series]
        square += (earlier - mean) ** 2
        moved += (later - earlier - mean_step) ** 2
        later = earlier
    deviations = (np.log(np.sqrt(s) + LEAST_DEVIATION) for s in (square / window, moved / count))
    out[ready] = np.concatenate([mean, *deviations], axis=1)
    return out.reshape(length, series, 3 * d)


@dataclass(frozen=True, eq=False)
class MomentDiscriminant:
    """Estimate of the shares, in simplex coordinates, from the moments of c channels."""

    centre: np.ndarray  # (c,)
    rescale: np.ndarray  # (c,): one over the deviation, 0 for constant channels
    weights: np.ndarray  # (2 c, K - 1)
    offset: np.ndarray  # (K - 1,)

    @classmethod
    def cross_fit(
        cls, rows: ChannelRows, centre: np.ndarray, scale: np.ndarray, window: int
    ) -> list[MomentDiscriminant]:
        """Learn from windows of all labelled rows, then without each fold.

        `centre` and `scale` (c,) are those of the channels. Empty if there are too many channels,
        or a regime has no window once a fold is left out.
        """
        if rows.values.shape[1] > MOST_CHANNELS:
            return []
        assert rows.fold is not None
        varies = rows.values.std(axis=0) > CONSTANT * scale
        rescale = np.where(varies, 1 / scale, 0.0)
        ready = np.flatnonzero(rows.position >= window - 1)
        some = ready[np.linspace(0, len(ready) - 1, min(len(ready), MOST_WINDOWS)).astype(int)]
        white = ((rows.values - centre) * rescale)[:, None]
        moments = _moments(white, rows.position[:, None], window)[some, 0]
        regime, fold, kinds = rows.regime[some], rows.fold[some], int(rows.regime.max()) + 1
        folds = range(int(rows.fold.max()) + 1)
        middle = moments.mean(axis=0) if len(some) else 0.0  # sums of squares stay small
        parts = [_Sums.of(moments[fold == f] - middle, regime[fold == f], kinds) for f in folds]
        whole = sum(parts[1:], parts[0])
        learned = [whole, *(whole - part for part in parts)]
        if len(folds) < 2 or any((one.count < 2).any() for one in learned):
            return []
        basis = helmert_basis(kinds)
        errors = np.full((len(SHRINKAGES), len(folds), kinds), np.nan)
        for f in folds:
            mine = fold == f
            for i, shrinkage in enumerate(SHRINKAGES):
                weights, offset = learned[1 + f].discriminant(shrinkage)
                error = (moments[mine] - middle) @ weights + offset - basis[regime[mine]]
                square = (error**2).sum(axis=1)
                for k in np.unique(regime[mine]):
                    errors[i, f, k] = square[regime[mine] == k].mean()
        shrinkage = SHRINKAGES[_simplest(errors.reshape(len(SHRINKAGES), -1))]
        found = [one.discriminant(shrinkage) for one in learned]
        return [cls(centre, rescale, weights, offset - middle @ weights)
                for weights, offset in found]  # fmt: skip

    def estimate(self, values: np.ndarray, position: np.ndarray, window: int) -> np.ndarray:
        """Estimates (T, S, K - 1) at the end of windows of channels (T, S, c)."""
        white = (values - self.centre) * self.rescale
        return _moments(white, position, window) @ self.weights + self.offset

    def shares(self, values: np.ndarray, position: np.ndarray, window: int) -> np.ndarray:
        """Shares (K - 1, c) of the channels (T, S, c) in the movement of each estimate."""
        moments = _moments((values - self.centre) * self.rescale, position, window)
        moments = moments[np.isfinite(moments).all(axis=2)]
        sensors = len(self.centre)
        parts = moments[..., None] * self.weights  # (n, 2 c, K - 1)
        moved = (parts[:, :sensors] + parts[:, sensors:]).var(axis=0).T if len(moments) else 0.0
        moved = moved + np.full((self.weights.shape[1], sensors), LEAST_DEVIATION)
        return np.asarray(moved / moved.sum(axis=1, keepdims=True))


def _moments(channels: np.ndarray, position: np.ndarray, window: int) -> np.ndarray:
    """Means and log deviations of the steps, (T, S, 2 c)."""
    mean, _, steps = np.split(window_moments(channels, position, window), 3, axis=2)
    return np.concatenate([mean, steps], axis=2)


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums over the windows of each regime, from which a discriminant follows."""

    count: np.ndarray  # (K,)
    total: np.ndarray  # (K, p)
    square: np.ndarray  # (K, p, p)

    @classmethod
    def of(cls, moments: np.ndarray, regime: np.ndarray, kinds: int) -> _Sums:
        parts = [moments[regime == k] for k in range(kinds)]
        return cls(
            np.array([len(part) for part in parts]),
            np.stack([part.sum(axis=0) for part in parts]),
            np.stack([part.T @ part for part in parts]),
        )

    def __add__(self, other: _Sums) -> _Sums:
        return _Sums(
            self.count + other.count, self.total + other.total, self.square + other.square
        )

    def __sub__(self, other: _Sums) -> _Sums:
        return _Sums(
            self.count - other.count, self.total - other.total, self.square - other.square
        )

    def discriminant(self, shrinkage: float) -> tuple[np.ndarray, np.ndarray]:
        """Weights (p, K - 1) and offset (K - 1,); regimes count alike."""
        kinds, means = len(self.count), self.total / self.count[:, None]
        within = (self.square / self.count[:, None, None]).mean(axis=0)
        within -= means.T @ means / kinds
        variance = np.diagonal(within)
        varies = variance > CONSTANT * variance.max()
        gaps = (means - means.mean(axis=0))[:, varies]
        shrunk = (1 - shrinkage) * within[np.ix_(varies, varies)]
        shrunk[np.diag_indices(len(shrunk))] = variance[varies]
        telling = np.linalg.solve(shrunk, gaps.T)  # (p, K)
        weights = np.zeros((len(variance), kinds - 1))
        weights[varies] = telling @ np.linalg.pinv(gaps @ telling) @ helmert_basis(kinds)
        return weights, -means.mean(axis=0) @ weights


def _simplest(errors: np.ndarray) -> int:
    """Number of the last of these choices (n, units) that is not clearly worse than the best.

    >>> _simplest(np.array([[1.0, 3.0, 2.0], [1.2, 2.9, 2.1], [3.0, 5.0, 4.1]]))
    1
    """
    errors = errors[:, np.isfinite(errors).all(axis=0)]
    worse = errors - errors[errors.mean(axis=1).argmin()]
    limit = CERTAINTY * worse.std(axis=1, ddof=1) / np.sqrt(errors.shape[1])
    return int(np.flatnonzero(worse.mean(axis=1) <= limit)[-1])
