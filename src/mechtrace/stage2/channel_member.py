"""One regression of the ensemble: features of the history, and weights of each regime."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..stage1.hidden_units import hidden_units
from .bayesian_regression import Posterior, RegressionSums
from .sensor_noise import CONTEXT, affine, calibrated

#: Lags whose values the units see.
BENT_LAGS = 2
#: Posterior draws of each member.
DRAWS = 2
#: Size of the directions of random units.
BEND = 1.0
#: Rows worked on at once.
CHUNK = 1 << 12
#: A channel that varies by less than this, in standard deviations of training, is constant.
CONSTANT = 1e-9


class ChannelRows(NamedTuple):
    """Rows of labelled series: values (N, c), steps since the last gap (N,), regime (N,).

    `fold` (N,) numbers the folds that are left out in turn.
    """

    values: np.ndarray
    position: np.ndarray
    regime: np.ndarray
    fold: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Member:
    """One regression: features of the history, and weights of each regime."""

    directions: np.ndarray  # (1 or K, BENT_LAGS * q at most, F)
    phases: np.ndarray  # (1 or K, F)
    linear: np.ndarray  # (1 + L q, F): linear part of the units
    weights: np.ndarray  # (K, P, q), P = 1 + L q + F
    draws: np.ndarray  # (D, K, P, q) of the posterior

    @property
    def lags(self) -> int:
        """Rows of history."""
        return (len(self.linear) - 1) // self.weights.shape[-1]

    def features(self, history: np.ndarray) -> np.ndarray:
        """Features (1 or K, N, P) of histories (N, L q), newest first."""
        plain = affine(history)
        bent = _units(history, self.directions, self.phases) - plain @ self.linear
        return np.concatenate([np.broadcast_to(plain, (len(bent), *plain.shape)), bent], axis=2)

    @classmethod
    def cross_fit(
        cls,
        rows: ChannelRows,
        lags: int,
        units: int,
        rng: np.random.Generator,
        noise: np.ndarray,
        *,
        own: bool = False,
        learned: bool = False,
    ) -> list[Member]:
        """Learn from all rows, then without each fold; `own` lets each D_k read the units.

        `noise` (q,) are the variances of the noise of the sensors.
        """
        ready = np.flatnonzero(rows.position >= (CONTEXT if noise.any() else lags))
        q, regime = rows.values.shape[1], rows.regime[ready]
        history = calibrated(rows.values, ready, regime, lags, noise)
        own_slope = _own_slopes(history[:, :q], rows.values[ready], regime)
        target = rows.values[ready] - history[:, :q] * own_slope
        seen = min(BENT_LAGS, lags) * q
        if learned:
            seed = int(rng.integers(1 << 31))
            directions, phases = hidden_units(history[:, :seen], target, regime, units, seed)
        else:
            directions = BEND * rng.standard_normal((1, seen, units)) / np.sqrt(seen)
            phases = rng.uniform(-2, 2, (1, units))
        plain, bent = affine(history), _units(history, directions, phases)
        bent = bent[regime if learned else 0, np.arange(len(history))]
        ridge = plain.T @ plain + 1e-6 * len(plain) * np.eye(plain.shape[1])
        linear = np.linalg.solve(ridge, plain.T @ bent)
        design = np.concatenate([plain, bent - plain @ linear], axis=1)
        kind, kinds = np.repeat([0, 1, 2], [1, lags * q, units]), int(regime.max()) + 1
        fold = np.zeros(len(ready), int) if rows.fold is None else rows.fold[ready]
        folds = range(0 if rows.fold is None else int(rows.fold.max()) + 1)
        parts = [
            RegressionSums.of(design[fold == f], target[fold == f], regime[fold == f], kinds)
            for f in folds or [0]
        ]
        whole = sum(parts[1:], parts[0])
        posterior = Posterior.of(whole, kind, own)
        prior = np.zeros((len(kind), q))
        prior[1 : 1 + q] = np.diag(own_slope)
        found = [posterior]
        found += [Posterior.of(whole - parts[f], kind, own, posterior.precision) for f in folds]
        directions, phases, linear = map(stored, (directions, phases, linear))
        return [
            cls(
                directions,
                phases,
                linear,
                stored(prior + one.weights),
                stored(np.stack([prior + one.draw(rng) for _ in range(DRAWS)])),
            )
            for one in found
        ]


def _own_slopes(before: np.ndarray, after: np.ndarray, regime: np.ndarray) -> np.ndarray:
    """Slope (q,) of each coordinate on its own past (n, q), within regimes (n,), from 0 to 1."""
    product, square = np.zeros(before.shape[1]), np.full(before.shape[1], CONSTANT)
    for k in np.unique(regime):
        away = before[regime == k] - before[regime == k].mean(axis=0)
        product += (away * after[regime == k]).sum(axis=0)
        square += (away**2).sum(axis=0)
    return np.clip(product / square, 0.0, 1.0)


def stored(array: np.ndarray) -> np.ndarray:
    """In the precision in which it is stored: a stored model gives the same answer."""
    return array.astype(np.float32).astype(float)


def chunks(
    member: Member, x: np.ndarray, position: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield flat numbers of steps whose history is known, and their features."""
    series = x.shape[1]
    flat, known = x.reshape(-1, x.shape[-1]), np.flatnonzero(position >= member.lags)
    for first in range(0, len(known), CHUNK):
        ready = known[first : first + CHUNK]
        lagged = [flat[ready - lag * series] for lag in range(1, member.lags + 1)]
        yield ready, member.features(np.concatenate(lagged, axis=1))


def apply(features: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Predictions (N, K, q) of features (1 or K, N, P) by weights (K, P, q)."""
    if len(features) > 1:
        return (features @ weights).swapaxes(0, 1)
    kinds, P, q = weights.shape
    flat = features[0] @ weights.transpose(1, 0, 2).reshape(P, kinds * q)
    return flat.reshape(-1, kinds, q)


def _units(history: np.ndarray, directions: np.ndarray, phases: np.ndarray) -> np.ndarray:
    """Units (1 or K, N, F) of histories (N, n), of which directions see the newest part."""
    return np.tanh(history[:, : directions.shape[1]] @ directions + phases[:, None])
