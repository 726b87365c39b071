"""From evidence to weights and intervals, for many series at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from .constrained import solve
from .evidence import Evidence, Plane
from .smoother import smooth
from .statespace import Estimate, causal_average


@dataclass(frozen=True, eq=False)
class Answer:
    """Weights of S series of T steps."""

    alpha: np.ndarray  # (S, T, K)
    lower: np.ndarray
    upper: np.ndarray
    drift: np.ndarray  # (S,)


def state_space(
    evidence: Evidence,
    elapsed: np.ndarray,
    *,
    causal: bool = False,
    simplex: bool = True,
    level: float = 0.9,
    extra: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Answer:
    """Recover alpha by the random walk on the simplex plane.

    `elapsed` (S, T) counts the usual steps since the row before. The offline answer is the most
    probable curve on the simplex; the causal one, at each step, the most probable point given
    what has been seen. Intervals come from the averaged posterior without the simplex, cut to it;
    `extra` gives variance to be added at alpha (S, T, K), for what the evidence does not know of
    its own errors.
    """
    plane = evidence.on_plane()
    if causal:
        estimate, drift = causal_average(plane, elapsed)
        free = plane.weights(estimate.mean)
        alpha = nearest_on_simplex(plane, estimate) if simplex else free
        variance = _variance(plane, estimate)
    else:
        found = smooth(plane, elapsed)
        free, drift = found.mean, found.drift
        alpha = solve(plane, drift, elapsed, guess=free).alpha if simplex else free
        variance = found.variance
    if extra is not None:
        variance = variance + extra(alpha)
    lower, upper = _around(free, variance, level, simplex=simplex)
    return Answer(alpha, np.minimum(lower, alpha), np.maximum(upper, alpha), drift)


def nearest_on_simplex(plane: Plane, estimate: Estimate) -> np.ndarray:
    """The most probable point of the simplex under each step's own Gaussian."""
    series, steps, m = estimate.mean.shape
    precision = np.linalg.inv(estimate.covariance.reshape(-1, m, m))
    mean = estimate.mean.reshape(-1, m)
    single = Plane(
        A=precision[:, None],
        b=(precision @ mean[..., None])[:, None, :, 0],
        offset=np.zeros((len(mean), 1)),
        dims=np.zeros((len(mean), 1)),
        basis=plane.basis,
    )
    alpha = solve(single, 1.0, np.ones((len(mean), 1)), start_precision=0.0).alpha
    return alpha.reshape(series, steps, -1)


def interval(
    plane: Plane,
    estimate: Estimate,
    level: float,
    *,
    simplex: bool,
    more: np.ndarray | float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Central intervals of each weight, cut to [0, 1] on the simplex; `more` adds variance."""
    variance = _variance(plane, estimate) + more
    return _around(plane.weights(estimate.mean), variance, level, simplex=simplex)


def _variance(plane: Plane, estimate: Estimate) -> np.ndarray:
    """Of each weight, (S, T, K)."""
    return np.einsum(
        "ki,stij,kj->stk", plane.basis, estimate.covariance, plane.basis, optimize=True
    )


def _around(
    mean: np.ndarray, variance: np.ndarray, level: float, *, simplex: bool
) -> tuple[np.ndarray, np.ndarray]:
    half = float(ndtri(0.5 + level / 2)) * np.sqrt(np.maximum(variance, 0.0))
    lower, upper = mean - half, mean + half
    return (np.clip(lower, 0, 1), np.clip(upper, 0, 1)) if simplex else (lower, upper)
