"""Filter for a random walk on the simplex plane, over many series at once.

    beta_{t+1} = beta_t + w_t,  w_t ~ N(0, q I)        evidence (A_t, b_t) about beta_t

Inside, arrays are (m, m, S) and (m, S): see `small`. One pass gives the causal answer and its
likelihood; `smoother` has the answer that uses the whole series.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from . import small
from .chain import blocks_of, bonds, messages
from .evidence import Plane

#: Prior deviation of beta at the first step: covers the simplex, favours no corner.
START_SCALE = 0.7
LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True, eq=False)
class Estimate:
    """Mean and covariance of beta at every step."""

    mean: np.ndarray  # (S, T, m)
    covariance: np.ndarray  # (S, T, m, m)


@dataclass(frozen=True, eq=False)
class Filtered:
    """The causal answer and its likelihood."""

    mean: np.ndarray  # (T, m, S)
    covariance: np.ndarray  # (T, m, m, S)
    log_likelihood: np.ndarray  # (T, S): of the evidence up to each step


class Filter:
    """The recursion itself, one step at a time; batch and streaming answers share it."""

    def __init__(self, dimensions: int, series: int, drift: float | np.ndarray) -> None:
        self.drift = np.broadcast_to(np.asarray(drift, float), (series,))
        self.eye = np.eye(dimensions)[:, :, None]
        self.mean = np.zeros((dimensions, series))
        self.covariance = np.repeat(START_SCALE**2 * self.eye, series, axis=2)
        self.started = False

    def step(
        self, A: np.ndarray, b: np.ndarray, elapsed: float | np.ndarray = 1.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Predict and update with (m, m, S), (m, S).

        Returns the two parts of -2 log likelihood that depend on the state: the squared
        prediction error (less its constant) and the log determinant.
        """
        if self.started:
            self.covariance = self.covariance + self.eye * (self.drift * elapsed)
        self.started = True
        precision, predicted = small.inverse(self.covariance)
        covariance, posterior = small.inverse(precision + A)
        surprise = b - small.apply(A, self.mean)
        correction = small.apply(covariance, surprise)
        # -2 b'm + m'Am - surprise' P surprise, and log |I + P A|
        quadratic = -((b + surprise) * self.mean).sum(0) - (surprise * correction).sum(0)
        self.mean = self.mean + correction
        self.covariance = covariance
        return quadratic, small.log_determinant(predicted + posterior)


def run_filter(plane: Plane, drift: float | np.ndarray, elapsed: np.ndarray) -> Filtered:
    """Forward pass over all series.

    `drift` is q, one number or one per series; `elapsed` (S, T) how many usual steps have passed
    since the row before, so that alpha may move further over a gap.
    """
    series, steps, m = plane.b.shape
    A, b = plane.A.transpose(1, 2, 3, 0), plane.b.transpose(1, 2, 0)
    state = Filter(m, series, drift)
    mean, covariance = np.empty((steps, m, series)), np.empty((steps, m, m, series))
    quadratic = np.empty((steps, series))
    for t in range(steps):
        squares, log_det = state.step(A[t], b[t], elapsed[:, t])
        quadratic[t] = squares + log_det
        mean[t], covariance[t] = state.mean, state.covariance
    constant = plane.offset.T + LOG_2PI * plane.dims.T
    return Filtered(mean, covariance, -0.5 * np.cumsum(quadratic + constant, axis=0))


#: Drift of the filter whose surprise is judged; pure and mixed series are judged by the same one.
JUDGED_DRIFT = 1e-2


def surprise(plane: Plane, elapsed: np.ndarray, log_det: np.ndarray) -> np.ndarray:
    """Squared one-step prediction error per dimension, in units of its variance: (S, T).

    About 1 if the evidence is as the model says; NaN where there is none. `log_det` (S, T) is
    that of the noise covariance behind each step, which `plane.offset` contains.
    """
    A, b = plane.by_step()
    bond = bonds(np.full(len(elapsed), JUDGED_DRIFT), elapsed, START_SCALE**-2)
    precision, predicted = messages(A, b, bond)
    informed = predicted + b
    mean = np.empty(b.shape)
    for block in blocks_of(bond):
        known = small.inverse(precision[:, :, block] + A[:, :, block])[0]
        mean[:, block] = small.apply(known, informed[:, block])
    # how much each step adds to b' H^-1 b of the steps up to it
    squares = (informed * mean).sum(axis=0)
    squares[1:] -= (predicted[:, 1:] * mean[:, :-1]).sum(axis=0)
    total = plane.offset - log_det - squares.T
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(plane.dims > 0, (total / plane.dims).clip(0.0), np.nan)


#: Drifts that are weighed: from almost constant to jumps of half the simplex per step.
DRIFTS = 10.0 ** np.arange(-5.0, -0.4, 0.75)
#: What is believed of log10(drift) beforehand, mean and deviation: a change takes some tens of
#: steps. A short series says little about its own drift; a long one overrules this.
DRIFT_PRIOR = (-2.0, 0.75)
#: A drift with less than this share of the probability is left out.
NEGLIGIBLE = 1e-3


def causal_average(plane: Plane, elapsed: np.ndarray) -> tuple[Estimate, np.ndarray]:
    """Every step given the steps up to it, and the typical drift (S,) given all.

    Each drift is weighed by the likelihood of the evidence up to the step, so nothing is needed
    from the future, not even the drift.
    """
    series, count = len(plane.b), len(DRIFTS)
    # every series once per drift, side by side: one pass of the filter serves them all
    run = run_filter(
        plane.repeated(count), np.repeat(DRIFTS, series), np.tile(elapsed, (count, 1))
    )
    share = drift_shares(run.log_likelihood.reshape(-1, count, series).swapaxes(0, 1))  # (Q, T, S)
    average = Moments()
    for i, w in enumerate(share):
        if w.any():
            mine = slice(i * series, (i + 1) * series)
            average.add(w, run.mean[..., mine], run.covariance[..., mine])
    mean, covariance = average.result()
    estimate = Estimate(mean.transpose(2, 0, 1), covariance.transpose(3, 0, 1, 2))
    return estimate, np.exp(np.log(DRIFTS) @ share[:, -1])


def drift_shares(log_likelihood: np.ndarray) -> np.ndarray:
    """Probability of each drift (first axis) given the evidence; negligible ones are dropped."""
    prior = drift_prior(np.log10(DRIFTS))
    scores = log_likelihood + prior.reshape(-1, *[1] * (log_likelihood.ndim - 1))
    share = np.exp(scores - scores.max(axis=0))
    share /= share.sum(axis=0)
    share[share < NEGLIGIBLE] = 0.0
    return share / share.sum(axis=0)


def drift_prior(log10_drift: np.ndarray) -> np.ndarray:
    """Logarithm of what is believed of the drift beforehand, but for a constant."""
    return -0.5 * ((log10_drift - DRIFT_PRIOR[0]) / DRIFT_PRIOR[1]) ** 2


class Moments:
    """Mean and covariance of a mixture, added up; (..., m, S) and (..., m, m, S)."""

    def __init__(self) -> None:
        self.first: np.ndarray | float = 0.0
        self.second: np.ndarray | float = 0.0

    def add(self, share: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> None:
        """One part of the mixture with its share (..., S)."""
        outer = mean[..., :, None, :] * mean[..., None, :, :]
        self.first = self.first + share[..., None, :] * mean
        self.second = self.second + share[..., None, None, :] * (covariance + outer)

    def result(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance."""
        mean = np.asarray(self.first)
        return mean, np.asarray(self.second) - mean[..., :, None, :] * mean[..., None, :, :]
