"""What stage 2 knows of the pure regimes, measured on series that training never saw."""

from __future__ import annotations

from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np

from ..errors import DataError
from .evidence import Evidence
from .innovations import Innovations
from .statespace import surprise

#: Pure series whose innovations are kept.
KEPT = 400


@dataclass(frozen=True, eq=False)
class Reference:
    """Means of the latents and the noise of the experts' predictions, regime by regime."""

    means: np.ndarray  # (K, d) mean latents of each regime
    spread: np.ndarray  # (d, d) covariance of the latents within a regime
    noise: np.ndarray  # (K, d, d) second moments of z - m_k(history) in regime k
    between: np.ndarray  # (d, d) covariance of the mean latents of series within a regime
    surprise: np.ndarray  # (n, T) surprise of pure series, NaN where there is none
    width: np.ndarray  # (d,) mean square of the encoder's standard deviation
    steps: np.ndarray  # (K,) steps behind these figures
    #: for the convexity test: innovations of some pure series and the latents before, (n, T, d)
    pure_error: np.ndarray = field(default_factory=lambda: np.empty((0, 0, 0)))
    pure_past: np.ndarray = field(default_factory=lambda: np.empty((0, 0, 0)))
    #: (K, K) mean of M' R^-1 M over pure rows: how far apart the regimes' predictions are
    gram: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))

    @classmethod
    def measure(
        cls, latents: np.ndarray, width: np.ndarray, predicted: np.ndarray, regime: np.ndarray
    ) -> Reference:
        """From n pure series, padded with NaN: latents and encoder widths (n, T, d),
        predictions (n, T, K, d), and the regime of each series (n,).
        """
        regimes, d = predicted.shape[2:]
        known = np.isfinite(latents).all(-1) & np.isfinite(predicted).all((-2, -1))
        means, noise, steps = np.zeros((regimes, d)), np.zeros((regimes, d, d)), np.zeros(regimes)
        spread, between = np.zeros((d, d)), np.zeros((d, d))
        for k in range(regimes):
            mine = known & (regime == k)[:, None]
            if not mine.any():
                raise DataError(f"regime number {k} has no step with a full history")
            z = latents[mine]
            error = z - predicted[mine][:, k]
            steps[k] = len(z)
            means[k] = z.mean(axis=0)
            noise[k] = error.T @ error / steps[k]
            within = (z - means[k]).T @ (z - means[k]) / steps[k]
            spread += within / regimes
            # one or two series say nothing of how series differ: then anything within reach goes
            several = mine.any(axis=1).sum() > 2
            between += (_between_series(latents, mine, means[k]) if several else within) / regimes
        bare = cls(
            means,
            spread,
            noise,
            between,
            np.empty((0, 0)),
            (width[known] ** 2).mean(axis=0),
            steps,
        )
        kept = _evenly(regime, KEPT)
        pure = Innovations.of(latents[kept][:, None], predicted[kept][:, None], bare.precision)
        return replace(
            bare,
            surprise=bare.surprise_of(latents, predicted).astype(np.float32),
            pure_error=pure.error.astype(np.float32),
            pure_past=pure.past.astype(np.float32),
            gram=Evidence.of_block(predicted, latents, bare.precision).G[known].mean(axis=0),
        )

    def surprise_of(self, latents: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        """Surprise (n, T) of series under this noise."""
        precision = self.precision
        evidence = Evidence.of_block(predicted, latents, precision)
        log_det = -np.linalg.slogdet(precision)[1] * (evidence.dims > 0)
        return surprise(evidence.on_plane(), np.ones(evidence.dims.shape), log_det)

    @property
    def precision(self) -> np.ndarray:
        """Inverse of the noise covariance, all regimes alike, kept away from singularity."""
        covariance = self.noise.mean(axis=0)
        floor = 1e-6 * np.trace(covariance) / len(covariance)
        return np.linalg.inv(covariance + floor * np.eye(len(covariance)))

    def arrays(self) -> dict[str, np.ndarray]:
        """For storage."""
        return {f"reference_{name}": value for name, value in asdict(self).items()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Reference | None:
        """From storage; None where a model was stored without."""
        names = [name for name in cls.__annotations__ if f"reference_{name}" in arrays]
        needed = [f.name for f in fields(cls) if f.default_factory is MISSING]
        if not set(needed) <= set(names):
            return None
        return cls(**{name: arrays[f"reference_{name}"] for name in names})


def _between_series(latents: np.ndarray, known: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Covariance of the series' own means around the mean of their regime."""
    count = known.sum(axis=1)
    own = count > 0
    centre = np.where(known[..., None], latents, 0.0).sum(axis=1)[own] / count[own][:, None]
    return (centre - mean).T @ (centre - mean) / own.sum()


def _evenly(regime: np.ndarray, most: int) -> np.ndarray:
    """Numbers of at most so many series, the first of every regime in turn."""
    rank = np.empty(len(regime), int)
    for k in np.unique(regime):
        mine = np.flatnonzero(regime == k)
        rank[mine] = np.arange(len(mine))
    return np.sort(np.argsort(rank, kind="stable")[:most])
