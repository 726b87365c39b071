"""Random walks on the simplex with dense Gaussian algebra to compare with."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import logsumexp

import mechtrace as mt
from mechtrace.linalg.simplex import helmert_basis
from mechtrace.stage2.information import GaussianInformation
from mechtrace.stage2.kalman import START_SCALE, log_prior


class Case:
    """Random predictions and values, with the dense joint Gaussian of what follows from them."""

    def __init__(
        self,
        seed: int = 0,
        series: int = 1,
        steps: int = 6,
        regimes: int = 3,
        d: int = 2,
        empty: tuple[int, ...] = (),
        noise: float = 0.3,
    ) -> None:
        rng = np.random.default_rng(seed)
        self.means = rng.standard_normal((series, steps, regimes, d))
        weights = rng.dirichlet(np.ones(regimes), size=(series, steps))
        self.values = np.einsum("stk,stkd->std", weights, self.means)
        self.values += noise * rng.standard_normal(self.values.shape)
        self.values[:, list(empty)] = np.nan
        root = rng.standard_normal((d, d))
        self.covariance = noise**2 * (root @ root.T + 0.5 * np.eye(d))
        self.elapsed = rng.uniform(0.2, 4.0, (series, steps))
        self.basis = helmert_basis(regimes)

    @property
    def info(self) -> GaussianInformation:
        return GaussianInformation.from_predictions(
            self.means, self.values, np.linalg.inv(self.covariance)
        )

    def alone(self, s: int) -> GaussianInformation:
        """One of the series."""
        precision = np.linalg.inv(self.covariance)
        return GaussianInformation.from_predictions(self.means[[s]], self.values[[s]], precision)

    def dense(self, q: float, s: int = 0, upto: int | None = None):
        """Mean and covariance of all beta given the rows before `upto`, and log p(rows)."""
        steps, regimes = self.means.shape[1:3]
        m, d = regimes - 1, self.values.shape[-1]
        clock = np.concatenate([[0.0], np.cumsum(self.elapsed[s, 1:])])
        prior = START_SCALE**2 + q * np.minimum.outer(clock, clock)
        prior = np.kron(prior, np.eye(m))
        seen = [t for t in range(steps if upto is None else upto) if self.known(s, t)]
        if not seen:
            return np.zeros((steps, m)), prior, 0.0
        C = np.zeros((len(seen) * d, steps * m))
        y = np.zeros(len(seen) * d)
        for i, t in enumerate(seen):
            M = self.means[s, t].T
            C[i * d : (i + 1) * d, t * m : (t + 1) * m] = M @ self.basis
            y[i * d : (i + 1) * d] = self.values[s, t] - M.mean(axis=1)
        joint = C @ prior @ C.T + np.kron(np.eye(len(seen)), self.covariance)
        gain = np.linalg.solve(joint, C @ prior).T
        fit = -0.5 * (
            y @ np.linalg.solve(joint, y)
            + np.linalg.slogdet(joint)[1]
            + len(y) * np.log(2 * np.pi)
        )
        return (gain @ y).reshape(steps, m), prior - gain @ C @ prior, fit

    def known(self, s: int, t: int) -> bool:
        return bool(np.isfinite(self.values[s, t]).all())


def block(covariance: np.ndarray, t: int, m: int) -> np.ndarray:
    return covariance[t * m : (t + 1) * m, t * m : (t + 1) * m]


@cache
def oracle(
    schedule: str, series: int = 60, **options: int
) -> tuple[GaussianInformation, np.ndarray]:
    """Information from the true latents and conditional means of a world, and the truth."""
    world = mt.worlds.make("paper-positive")
    run = world.transition(schedule, series=series, **options)
    precision = np.eye(world.config.latents) / 0.01
    latents = run.latents.astype(float)
    info = GaussianInformation.from_predictions(run.conditional_means(), latents, precision)
    return info, np.asarray(run.alpha)


def mixture(case: Case, values: np.ndarray, t: int, upto: int | None):
    """Probability of each q, mean and covariance of beta at a step, by dense algebra."""
    parts = [case.dense(q, upto=upto) for q in values]
    score = log_prior(np.log10(values)) + [part[2] for part in parts]
    share = np.exp(score - logsumexp(score))
    mean = sum(w * part[0][t] for w, part in zip(share, parts, strict=True))
    second = sum(
        w * (block(part[1], t, 2) + np.outer(part[0][t], part[0][t]))
        for w, part in zip(share, parts, strict=True)
    )
    return share, mean, second - np.outer(mean, mean)


CASES = {
    "plain": Case(1),
    "one step": Case(2, steps=1),
    "two regimes": Case(3, regimes=2),
    "five regimes, one dimension": Case(4, regimes=5, d=1, steps=5),
    "holes": Case(5, steps=9, empty=(0, 3, 4, 8)),
    "strong": Case(6, noise=0.01, d=3),
    "nothing seen": Case(7, steps=4, empty=(0, 1, 2, 3)),
}
