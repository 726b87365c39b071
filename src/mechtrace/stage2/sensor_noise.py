"""Noise of the sensors, and histories that are freed from it where mechanisms are learned.

A regression on noisy histories is biased: a slope shrinks by the part of the noise in the variance
of the history. Within a pure regime such a mechanism still predicts best. In a transition the
state is far from where the regime keeps it, and a slope that is too small predicts a return that
no regime makes: alpha is biased. With sensor noise of known variances N = diag(n), independent
from row to row, the expected state given the noisy history h of a pure regime is

    E[s | h] = h - (I x N) C^-1 (h - mean),        C = Cov(h),

and a regression on it has the right slopes (regression calibration). Predictions are then made
from raw histories, whose noise is part of what is measured on left-out series.

N follows from the errors r_t of a regression by instruments: predicted from x_{t-1}, but learned
from what x_{t-2}, ... tell of it, which the noise of x_{t-1} does not touch. All are taken less
their means over a recording, since recordings that differ by offsets are not noisy. Noise in
x_{t-1} is part of both r_{t-1} and, times the slope J, of r_t, so that E[r_t r_{t-1}'] = -J N.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import nnls

from .bayesian_regression import Posterior, RegressionSums

#: Rows of a history from which the state is estimated.
CONTEXT = 4
#: Random units of the regression by instruments, and size of their directions.
UNITS, BEND = 120, 1.0
#: Part of the variance of a direction of the history that noise may make up.
MOST_NOISE = 0.98
#: Rows at which the slopes of a regime are measured, and the step of the difference quotient.
SLOPE_ROWS, STEP = 2000, 1e-2
#: Ridge of covariances, in units of their mean variance.
RIDGE = 1e-6
#: Part of a coordinate's variance below which its noise does not count.
NEGLIGIBLE = 1e-6
#: Histories of a regime, as a multiple of their length, that are needed at least.
ENOUGH = 10


def lagged(values: np.ndarray, rows: np.ndarray, first: int, last: int) -> np.ndarray:
    """Rows (n,) of values (N, q) `first` to `last` steps before, newest first: (n, lags q)."""
    return np.concatenate([values[rows - lag] for lag in range(first, last + 1)], axis=1)


def calibrated(
    values: np.ndarray,
    ready: np.ndarray,
    regime: np.ndarray,
    lags: int,
    noise: np.ndarray,
) -> np.ndarray:
    """Expected histories (n, lags q) without sensor noise of rows `ready` (n,).

    `values` (N, q) are all rows, `regime` (n,) those of the rows, `noise` (q,) the variances of
    the noise of the sensors. At least CONTEXT rows before each must belong to its run.
    """
    context = max(lags, CONTEXT)
    history = lagged(values, ready, 1, context)
    out = history[:, : lags * values.shape[1]].copy()
    if not noise.any():
        return out
    added = np.tile(noise, context)
    for k in np.unique(regime):
        mine = regime == k
        if mine.sum() < ENOUGH * len(added):
            continue
        away = history[mine] - history[mine].mean(axis=0)
        covariance = away.T @ away / len(away)
        covariance += RIDGE * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
        # in directions that are noise throughout (sensors that say the same), keep a little
        root = np.sqrt(added)
        inverse = np.linalg.inv(covariance)
        part, axes = np.linalg.eigh(root[:, None] * inverse * root)
        kept = np.minimum(1.0, MOST_NOISE / np.maximum(part, RIDGE))
        expected = (away @ inverse * root) @ (axes * kept) @ axes.T * root
        out[mine] -= expected[:, : out.shape[1]]
    return out


def sensor_noise(
    values: np.ndarray, position: np.ndarray, regime: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Variances (q,) of the noise of the sensors, independent from row to row.

    From rows (N, q) of pure regimes (N,) that are so many steps (N,) after a gap.

    Examples
    --------
    >>> rng = np.random.default_rng([0])
    >>> state = np.zeros((4000, 1))
    >>> for t in range(1, 4000):
    ...     state[t] = 0.9 * state[t - 1] + 0.3 * rng.standard_normal()
    >>> seen = state + 0.2 * rng.standard_normal(state.shape)
    >>> found = sensor_noise(seen, np.arange(4000), np.zeros(4000, int), rng)
    >>> bool(abs(found[0] ** 0.5 - 0.2) < 0.03)
    True
    """
    q, kinds = values.shape[1], int(regime.max()) + 1
    ready = np.flatnonzero(position >= CONTEXT)
    regime = regime[ready]
    fewest = np.bincount(regime, minlength=kinds).min()
    units = int(min(UNITS, fewest // ENOUGH - (CONTEXT - 1) * q - 1))
    if units <= 0:
        return np.zeros(q)
    directions = BEND * rng.standard_normal((q, units)) / np.sqrt(q)
    phases = rng.uniform(-2, 2, units)
    past, target = values[ready - 1], values[ready]
    linear = np.linalg.lstsq(affine(past), np.tanh(past @ directions + phases), rcond=None)[0]

    def design(x: np.ndarray) -> np.ndarray:
        plain = affine(x)
        return np.concatenate([plain, np.tanh(x @ directions + phases) - plain @ linear], axis=1)

    run = np.cumsum(np.diff(position, prepend=position[0]) != 1)[ready]
    seen, target = (_within(part, run) for part in (design(past), target))
    before = lagged(values, ready, 2, CONTEXT)
    bent = np.tanh(before[:, :q] @ directions + phases)
    instruments = _within(np.concatenate([before, bent], axis=1), run)
    told = np.empty_like(seen)
    for k in range(kinds):
        own = instruments[regime == k]
        gram = own.T @ own + RIDGE * len(own) * np.eye(own.shape[1])
        told[regime == k] = own @ np.linalg.solve(gram, own.T @ seen[regime == k])
    kind = np.repeat([0, 1, 2], [1, q, units])
    weights = Posterior.of(RegressionSums.of(told, target, regime, kinds), kind, True).weights
    error = target - np.einsum("np,npq->nq", seen, weights[regime])
    return _noise_of_errors(error, ready, regime, past, lambda x, k: design(x) @ weights[k])


def _noise_of_errors(
    error: np.ndarray,
    ready: np.ndarray,
    regime: np.ndarray,
    past: np.ndarray,
    predict: Callable[[np.ndarray, int], np.ndarray],
) -> np.ndarray:
    """Solve E[r_t r_{t-1}'] = -J N of all regimes for N >= 0, in units of the errors."""
    q = error.shape[1]
    covariance = error.T @ error / len(error)
    covariance += RIDGE * np.trace(covariance) / q * np.eye(q)
    white = np.linalg.cholesky(np.linalg.inv(covariance))
    later = 1 + np.flatnonzero((np.diff(ready) == 1) & (np.diff(regime) == 0))
    matrix, wanted = [np.zeros((1, q))], [np.zeros(1)]
    for k in np.unique(regime[later]):
        mine = later[regime[later] == k]
        product = error[mine].T @ error[mine - 1] / len(mine)
        some = past[regime == k]
        some = some[np.linspace(0, len(some) - 1, min(len(some), SLOPE_ROWS)).astype(int)]
        slopes = [
            (predict(some + step, k) - predict(some - step, k)).mean(axis=0) / (2 * STEP)
            for step in STEP * np.eye(q)
        ]
        effect = [
            -np.outer(white.T @ slope, own) for slope, own in zip(slopes, white, strict=True)
        ]
        matrix.append(np.stack([one.ravel() for one in effect], axis=1))
        wanted.append((white.T @ product @ white).ravel())
    found = np.asarray(nnls(np.concatenate(matrix), np.concatenate(wanted))[0])
    return np.where(found > NEGLIGIBLE * past.var(axis=0), found, 0.0)


def _within(x: np.ndarray, run: np.ndarray) -> np.ndarray:
    """Rows (n, p) less the mean of their run (n,): machines that differ are not noisy."""
    _, number, count = np.unique(run, return_inverse=True, return_counts=True)
    total = np.zeros((len(count), x.shape[1]))
    np.add.at(total, number, x)
    return np.asarray(x - (total / count[:, None])[number])


def affine(x: np.ndarray) -> np.ndarray:
    """A constant beside rows (n, p)."""
    return np.concatenate([np.ones((len(x), 1)), x], axis=1)
