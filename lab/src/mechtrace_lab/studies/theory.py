"""Study of Theorems 2 and 3: noise sweep, error against length, shape.

With true latents: the theorems are about stage 2, and assume that stage 1 has succeeded.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mechtrace import worlds
from mechtrace.diagnose import static_sigma_min
from mechtrace.io import versions
from mechtrace.metrics import weight_correlation
from mechtrace.stage2 import regularised, static_weights

from .bounds import (
    approximation_error,
    fitted_rate,
    pointwise_bounds,
    smooth_bound,
    theorem_bounds,
)
from .shape import longest_monotone, shape_kept

logger = logging.getLogger(__name__)

#: Weights at which the paper measures the approximation error.
KNOWN = (0.25, 0.5, 0.75)
#: Steps at the start that are left out: the process has not yet settled.
SETTLE = 20


@dataclass(frozen=True)
class Sweeps:
    """Where the theorems are tried: worlds by noise and by size of the change, growing lengths."""

    world: str = "paper-positive"
    regimes: int = 3
    noises: Sequence[float] = (0.01, 0.05, 0.1, 0.2, 0.5)
    edges: Sequence[float] = (0.1, 0.2, 0.3, 0.5)
    lengths: Sequence[int] = (50, 100, 200, 400, 800, 1600)
    series: int = 200

    @property
    def cases(self) -> list[tuple[str, float]]:
        """What is varied, and its value."""
        return [("noise", x) for x in self.noises] + [("edge", x) for x in self.edges]


def theory_study(*, seeds: int = 3, **sweeps: Any) -> dict[str, Any]:
    """Every quantity of Theorems 2 and 3 in simulated worlds, with the errors that were made.

    `sweeps` are fields of `Sweeps`.
    """
    where = Sweeps(**sweeps)
    found = [theory_of_seed(where, seed) for seed in range(seeds)]
    return {
        "world": where.world,
        "regimes": where.regimes,
        "series": where.series,
        "seeds": seeds,
        "rows": [row for rows, _ in found for row in rows],
        "growth": [growth for _, growth in found],
        "versions": versions(),
    }


def theory_of_seed(sweeps: Sweeps, seed: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """A row for each world of the sweeps, and the errors against the length."""
    rows = []
    for varied, value in sweeps.cases:
        options = {"regimes": sweeps.regimes, varied: value}
        drawn = worlds.make(sweeps.world, seed=seed, **options)
        about = {"seed": seed, "varied": varied, "value": value}
        rows.append(about | _row(drawn, sweeps.series))
        logger.info(_line(rows[-1]))
    growth = {"seed": seed} | _against_length(sweeps, seed)
    logger.info(
        f"seed {seed}: mean squared error falls as T^{growth['rate']:.2f} (rule),"
        f" T^{growth['rate_gcv']:.2f} (cross-validation); Theorem 3 says at most T^-0.67"
    )
    return rows, growth


def _row(drawn: worlds.World, series: int) -> dict[str, float]:
    """Means, bounds and errors in one world, on a slow linear change between two regimes."""
    kinds = len(drawn.mechanisms)
    pure = drawn.simulate(series, seed=3, length=100)
    late = pure.latents[:, SETTLE:].astype(float)
    means = np.stack([late[pure.label == k].mean(axis=(0, 1)) for k in range(kinds)])
    mixed, known = _known_mixtures(drawn, series)
    delta = approximation_error(means, mixed, known)
    transition = drawn.transition(
        "linear", active=[0, kinds - 1], series=series, length=100, seed=1
    )
    z, alpha = transition.latents[:, SETTLE:].astype(float), transition.alpha[0, SETTLE:]
    free = static_weights(z, means, simplex=False)
    error = np.linalg.norm((free - alpha)[..., 1:], axis=-1)
    # the true mean of each step is that of the ensemble: noise is what single trials add to it
    limit = pointwise_bounds(means, z, z.mean(axis=0), alpha)
    average = static_weights(z.mean(axis=0), means, simplex=False)
    bounds = theorem_bounds(means, z.reshape(-1, z.shape[-1]), np.tile(alpha, (len(z), 1)), delta)
    kept = [_shape(alpha[:, -1], curve) for curve in (free[0, :, -1], average[:, -1])]
    smooth = [regularised(one, "rule", simplex=False) for one in free[:50]]
    squared = float(np.mean([((s - alpha)[:, 1:] ** 2).sum(1).mean() for s in smooth]))
    variation = float(np.linalg.norm(np.diff(alpha[:, 1:], axis=0), axis=1).sum())
    sigma = float((z - z.mean(axis=0)).std())
    rule = smooth_bound(len(alpha), kinds - 1, bounds.sigma_min, sigma, variation, delta)
    return {
        "sigma_min": bounds.sigma_min,
        "noise": bounds.noise,
        "delta_approx": delta,
        "snr": bounds.snr,
        "error": float(error.mean()),
        "bound": float(limit.mean()),
        "worst_ratio": float((error / limit).max()),
        "within": float((error <= limit * (1 + 1e-9)).mean()),
        "squared_error": squared,
        "smooth_bound": rule,
        "correlation_single": weight_correlation(alpha, free[0]),
        "correlation_ensemble": weight_correlation(alpha, average),
        "monotone_single": kept[0]["ordered"],
        "monotone_ensemble": kept[1]["ordered"],
        "shift_ensemble": kept[1]["shift"],
        "missed_ensemble": kept[1]["missed"],
    }


def _known_mixtures(drawn: worlds.World, series: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean latents of data at known weights between regime 0 and each other one."""
    kinds = len(drawn.mechanisms)
    weights = [
        (1 - share) * np.eye(kinds)[0] + share * np.eye(kinds)[k]
        for k in range(1, kinds)
        for share in KNOWN
    ]
    found = []
    for number, one in enumerate(weights):
        schedule = np.tile(one, (100, 1))
        run = drawn.transition(schedule, series=series, length=100, seed=10 + number)
        found.append(run.latents[:, SETTLE:].astype(float).mean(axis=(0, 1)))
    return np.stack(found), np.stack(weights)


def _shape(truth: np.ndarray, found: np.ndarray) -> dict[str, float]:
    part = longest_monotone(truth)
    return vars(shape_kept(truth[part], found[part]))


def _against_length(sweeps: Sweeps, seed: int) -> dict[str, Any]:
    """Theorem 3's own setting: z = mu_0 + B alpha + independent noise, one change, growing T."""
    regimes, lengths = sweeps.regimes, sweeps.lengths
    rng = np.random.default_rng([seed, 77])
    means = rng.standard_normal((regimes, 8))
    sigma, sigma_min = 0.5, static_sigma_min(means)
    errors: dict[str, list[float]] = {"rule": [], "gcv": []}
    bound = []
    for length in lengths:
        alpha = worlds.make_schedule("linear", length, regimes, [0, regimes - 1])
        for kind, found in errors.items():
            squares = []
            for _ in range(max(5, sweeps.series // 10)):
                z = alpha @ means + sigma * rng.standard_normal((length, means.shape[1]))
                free = static_weights(z, means, simplex=False)
                smooth = regularised(free, kind, simplex=False)
                squares.append(((smooth - alpha)[:, 1:] ** 2).sum(axis=1).mean())
            found.append(float(np.mean(squares)))
        variation = float(np.linalg.norm(np.diff(alpha[:, 1:], axis=0), axis=1).sum())
        bound.append(smooth_bound(length, regimes - 1, sigma_min, sigma, variation))
    return {
        "lengths": list(lengths),
        "squared_error": errors["rule"],
        "squared_error_gcv": errors["gcv"],
        "smooth_bound": bound,
        "rate": fitted_rate(np.array(lengths), np.array(errors["rule"])),
        "rate_gcv": fitted_rate(np.array(lengths), np.array(errors["gcv"])),
    }


def _line(row: dict[str, Any]) -> str:
    return (
        f"seed {row['seed']} {row['varied']} {row['value']:g}: sigma_min {row['sigma_min']:.3f},"
        f" SNR {row['snr']:.3f}, delta {row['delta_approx']:.3f}, error {row['error']:.3f} <="
        f" {row['bound']:.3f} in {100 * row['within']:.1f} % of steps"
    )
