"""One-step prediction errors as vectors, and the histories they may depend on.

What a test of the model needs and the answer itself does not: so it is computed only when asked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .simplex import plane_basis
from .statespace import START_SCALE

#: Drift of the filter that is judged. Generous, so that no fast change of alpha passes for a
#: foreign mechanism; the price in power is small.
GENEROUS_DRIFT = 0.1
#: Rows worked on at once; bounds memory for many series.
CHUNK_ROWS = 1 << 14


@dataclass(frozen=True, eq=False)
class Observed:
    """What stage 2 saw of one recording, or of n trials of one schedule. Views, not copies."""

    latents: np.ndarray  # (n, T, d)
    expected: np.ndarray  # (n, T, K, d): what each regime predicts
    elapsed: np.ndarray  # (T,): usual steps since the row before
    stacking: np.ndarray  # (K, K'): how predictions are recombined for the regimes allowed

    def innovations(self, precision: np.ndarray) -> Innovations:
        """Prediction errors of the one filter that all trials share."""
        allowed = self.stacking.T @ self.expected
        return Innovations.of(self.latents[None], allowed[None], precision, self.elapsed)


@dataclass(frozen=True, eq=False)
class Innovations:
    """Prediction errors of unit variance, and the latents before them, in units of the noise."""

    error: np.ndarray  # (n, T, d), NaN where there is none
    past: np.ndarray  # (n, T, d)

    @classmethod
    def of(
        cls,
        latents: np.ndarray,
        expected: np.ndarray,
        precision: np.ndarray,
        elapsed: np.ndarray | None = None,
    ) -> Innovations:
        """From latents (G, n, T, d) and predictions (G, n, T, K, d).

        The n trials of a group share one alpha; groups do not. Everything is made white by
        `precision` first, so that linear maps of the latents change nothing.
        """
        root = np.linalg.cholesky(precision)
        groups, trials, steps, d = latents.shape
        size = max(1, CHUNK_ROWS // max(trials * steps, 1))
        parts = [
            _filter_errors(latents[g : g + size] @ root, expected[g : g + size] @ root, elapsed)
            for g in range(0, groups, size)
        ]
        past = np.full(latents.shape, np.nan)
        past[:, :, 1:] = latents[:, :, :-1] @ root
        error = np.concatenate(parts)
        error[~np.isfinite(past).all(axis=-1)] = np.nan
        return cls(error.reshape(-1, steps, d), past.reshape(-1, steps, d))


def _filter_errors(z: np.ndarray, means: np.ndarray, elapsed: np.ndarray | None) -> np.ndarray:
    """Errors (G, n, T, d) of white latents under white predictions, each of unit variance."""
    groups, _, steps, d = z.shape
    basis = plane_basis(means.shape[-2])
    m = basis.shape[1]
    known = np.isfinite(z).all(axis=-1) & np.isfinite(means).all(axis=(-2, -1))
    z, means = np.where(known[..., None], z, 0.0), np.where(known[..., None, None], means, 0.0)
    beta, covariance = np.zeros((groups, m)), np.tile(START_SCALE**2 * np.eye(m), (groups, 1, 1))
    out = np.full(z.shape, np.nan)
    started = False
    for t in range(steps):
        if started:
            gone = 1.0 if elapsed is None else float(elapsed[t])
            covariance = covariance + GENEROUS_DRIFT * gone * np.eye(m)
        mine = known[:, :, t]
        if not mine.any():
            continue
        started = True
        slope = means[:, :, t].swapaxes(-1, -2) @ basis  # (G, n, d, m), zero where not known
        gap = z[:, :, t] - means[:, :, t].mean(axis=-2) - (slope @ beta[:, None, :, None])[..., 0]
        spread = slope @ covariance[:, None] @ slope.swapaxes(-1, -2) + np.eye(d)
        values, vectors = np.linalg.eigh(spread)
        along = (vectors.swapaxes(-1, -2) @ gap[..., None]) / np.sqrt(values)[..., None]
        out[:, :, t][mine] = (vectors @ along)[..., 0][mine]
        information = (slope.swapaxes(-1, -2) @ slope).sum(axis=1)
        score = (slope.swapaxes(-1, -2) @ gap[..., None]).sum(axis=1)[..., 0]
        covariance = np.linalg.inv(np.linalg.inv(covariance) + information)
        beta = beta + (covariance @ score[..., None])[..., 0]
    return out
