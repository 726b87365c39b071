"""A missing channel, filled in from the others: Kalman smoother of the Gaussian of two rows.

With channels x = (o, m) standardised as in training, of which m is missing, and the Gaussian of
two consecutive rows of labelled recordings, x_t = A x_{t-1} + w, w ~ N(0, Q): the posterior of m
given all o (given their past, for a causal answer).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .._runtime.stochastic import generator
from .channel_statistics import ChannelStatistics

#: Relative change of the covariances below which they stay as they are.
SETTLED = 1e-6
#: Smallest eigenvalue of Q, in variances of a channel.
LEAST_NOISE = 1e-6


class _Step(NamedTuple):
    """Matrices of a step: m_{t-1} learns from o_t, and m_t is predicted."""

    gain: np.ndarray  # (m, o)
    filtered: np.ndarray  # (m, m) covariance of m_{t-1} given o up to t
    back: np.ndarray  # (m, m) from m_t to m_{t-1}
    left: np.ndarray  # (m, m) Cholesky factor of the covariance of m_{t-1} given m_t as well
    last: np.ndarray  # (m, m) and given o up to t - 1 only


@dataclass(frozen=True, eq=False)
class Imputation:
    """Posterior of the channels `missing`, given the others."""

    missing: tuple[int, ...]
    centre: np.ndarray  # (c,)
    scale: np.ndarray  # (c,)
    transition: np.ndarray  # (c, c): A
    noise: np.ndarray  # (c, c): Q
    usual: np.ndarray  # (c, c): covariance of x_t
    causal: bool = False
    seed: int = 0  # of the draws

    @classmethod
    def of(
        cls,
        known: ChannelStatistics,
        missing: Sequence[int],
        *,
        causal: bool = False,
        seed: int = 0,
    ) -> Imputation:
        """From the statistics of labelled recordings."""
        c = len(known.centre)
        usual = (known.moment[:c, :c] + known.moment[c:, c:]) / 2
        cross = known.moment[:c, c:]
        transition = np.linalg.solve(usual, cross.T).T
        values, vectors = np.linalg.eigh(usual - transition @ cross.T)
        noise = (vectors * np.maximum(values, LEAST_NOISE)) @ vectors.T
        return cls(tuple(missing), known.centre, known.scale, transition, noise, usual, causal, seed)

    @cached_property
    def others(self) -> np.ndarray:
        """Numbers of the channels that are there."""
        return np.setdiff1d(np.arange(len(self.centre)), self.missing)

    def fill(self, values: np.ndarray) -> np.ndarray:
        """Return rows (T, c) of a series with the posterior mean in the missing channels."""
        out = np.array(values, float)
        missing = list(self.missing)
        for rows, seen in self._runs(out):
            found = self._smoothed(seen)
            out[rows, missing] = found * self.scale[missing] + self.centre[missing]
        return out

    def draws(self, values: np.ndarray, count: int) -> np.ndarray:
        """Deviations (count, T, m) of posterior draws from the mean, in standard deviations."""
        rng = generator(self.seed, "filled in")
        out = np.zeros((count, len(values), len(self.missing)))
        for rows, seen in self._runs(np.asarray(values, float)):
            zeros = np.zeros((count, *seen.shape))
            out[:, rows] = self._smoothed(zeros, rng)
        return out

    @cached_property
    def determined(self) -> np.ndarray:
        """Share (m,) of the variance of the missing channels that the others determine."""
        own = list(self.missing)
        left = np.diagonal(self._steps[-1].filtered)
        return np.asarray(1 - left / np.diagonal(self.usual)[own])

    def _runs(self, values: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield stretches in which the other channels are known, and these, standardised."""
        seen = ((values - self.centre) / self.scale)[:, self.others]
        known = np.concatenate([[False], np.isfinite(seen).all(axis=1), [False]])
        ends = np.flatnonzero(known[1:] != known[:-1])
        for first, stop in zip(ends[::2], ends[1::2], strict=True):
            yield slice(first, stop), seen[first:stop]

    @cached_property
    def _parts(self) -> tuple[np.ndarray, ...]:
        """A_om, F, B and b of m_t = F m_{t-1} + B o_{t-1} + b o_t + w', and covariance of w'."""
        o, m = self.others, list(self.missing)
        A, Q = self.transition, self.noise
        b = np.linalg.solve(Q[np.ix_(o, o)], Q[np.ix_(o, m)]).T
        F = A[np.ix_(m, m)] - b @ A[np.ix_(o, m)]
        B = A[np.ix_(m, o)] - b @ A[np.ix_(o, o)]
        return A[np.ix_(o, m)], F, B, b, Q[np.ix_(m, m)] - b @ Q[np.ix_(o, m)]

    @cached_property
    def _first(self) -> tuple[np.ndarray, np.ndarray]:
        """Regression (m, o) of the missing channels in the first row, and what it leaves."""
        o, m, C = self.others, list(self.missing), self.usual
        weights = np.linalg.solve(C[np.ix_(o, o)], C[np.ix_(o, m)]).T
        return weights, C[np.ix_(m, m)] - weights @ C[np.ix_(o, m)]

    @cached_property
    def _steps(self) -> list[_Step]:
        """Matrices of the steps from the first row on, until they stay the same."""
        see, F, _, _, more = self._parts
        noise = self.noise[np.ix_(self.others, self.others)]
        P, out = self._first[1], []
        while True:
            gain = np.linalg.solve(see @ P @ see.T + noise, see @ P).T
            filtered = P - gain @ see @ P
            after = F @ filtered @ F.T + more
            back = np.linalg.solve(after, F @ filtered).T
            if self.causal:  # the error goes on as it is predicted
                filtered, back = P, np.zeros_like(back)
            left = filtered - back @ after @ back.T
            roots = (np.linalg.cholesky(one + 1e-12 * np.eye(len(P))) for one in (left, P))
            out.append(_Step(gain, filtered, back, *roots))
            if np.abs(after - P).max() <= SETTLED * np.abs(P).max() or len(out) > 1000:
                return out
            P = after

    def _step(self, t: int) -> _Step:
        return self._steps[min(t, len(self._steps) - 1)]

    def _smoothed(self, seen: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """Posterior mean (..., T, m) given the others (..., T, o); with `rng`, a draw."""
        see, F, B, b, _ = self._parts
        o = self.others
        among = self.transition[np.ix_(o, o)]
        steps = seen.shape[-2]
        mean = seen[..., 0, :] @ self._first[0].T
        predicted, filtered = [mean], []
        for t in range(1, steps):
            before, now = seen[..., t - 1, :], seen[..., t, :]
            surprise = now - before @ among.T - mean @ see.T
            better = mean + surprise @ self._step(t - 1).gain.T
            filtered.append(better)
            mean = better @ F.T + before @ B.T + now @ b.T
            predicted.append(mean)
        out = np.stack(predicted, axis=-2)
        if self.causal and rng is None:
            return out
        for t in range(steps - 1, -1, -1):
            if t < steps - 1 and not self.causal:
                back = self._step(t).back
                out[..., t, :] = filtered[t] + (out[..., t + 1, :] - predicted[t + 1]) @ back.T
            if rng is not None:
                root = self._step(t).left if t < steps - 1 else self._step(t).last
                out[..., t, :] += rng.standard_normal(out.shape[:-2] + root.shape[:1]) @ root.T
        return out
