"""Missing channels, filled in from the others: Kalman filter of the Gaussian of two rows.

With channels x = (o, m) standardised as in training, of which m are missing, and the Gaussian of
two consecutive rows of labelled recordings, x_t = A x_{t-1} + w, w ~ N(0, Q): the posterior of m_t
given o up to t. Not beyond: what predicts o_{t+1} must not have seen it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._runtime.stochastic import generator
from .channel_statistics import ChannelStatistics
from .sensor_faults import RIDGE

#: Relative change of the covariance below which it stays as it is, and steps until then at most.
SETTLED, MOST_STEPS = 1e-6, 1000
#: Smallest eigenvalue of Q, in variances of a channel.
LEAST_NOISE = 1e-6


@dataclass(frozen=True, eq=False)
class Imputation:
    """Posterior of the channels `missing` (m,), given the past and present of the others."""

    missing: tuple[int, ...]
    centre: np.ndarray  # (c,)
    scale: np.ndarray  # (c,)
    transition: np.ndarray  # (c, c): A
    noise: np.ndarray  # (c, c): Q
    usual: np.ndarray  # (c, c): covariance of x_t
    mean: np.ndarray  # (c,) of x_t
    seed: int = 0  # of the draws

    @classmethod
    def of(
        cls,
        known: ChannelStatistics,
        missing: Sequence[int],
        seed: int = 0,
        regime: int | None = None,
    ) -> Imputation:
        """From the statistics of labelled recordings, of all regimes or of one."""
        c, mean, moment = len(known.centre), np.zeros(len(known.centre)), known.moment
        if regime is not None and known.regimes is not None:
            of_regime = known.regimes[regime]
            mean = (of_regime[-1, :c] + of_regime[-1, c:-1]) / 2
            both = np.tile(mean, 2)
            moment = of_regime[:-1, :-1] - np.outer(both, both) + RIDGE * np.eye(2 * c)
        usual = (moment[:c, :c] + moment[c:, c:]) / 2
        cross = moment[:c, c:]
        transition = np.linalg.solve(usual, cross.T).T
        values, vectors = np.linalg.eigh(usual - transition @ cross.T)
        noise = (vectors * np.maximum(values, LEAST_NOISE)) @ vectors.T
        return cls(tuple(missing), known.centre, known.scale, transition, noise, usual, mean, seed)

    def fill(self, values: np.ndarray) -> np.ndarray:
        """Return rows (T, c) of a series with the posterior mean in the missing channels."""
        out, missing = np.array(values, float), list(self.missing)
        for rows, seen in self._runs(out):
            found = self._filtered(seen) + self.mean[missing]
            out[rows, missing] = found * self.scale[missing] + self.centre[missing]
        return out

    def draws(self, values: np.ndarray, count: int) -> np.ndarray:
        """Possible errors (count, T, m) of the posterior mean."""
        rng, P = generator(self.seed, "filled in"), self._gains[-1][1]
        see, F = self._parts[:2]
        on = F @ (np.eye(len(P)) - self._gains[-1][0] @ see)  # errors go on from row to row
        first = np.linalg.cholesky(P + LEAST_NOISE * np.eye(len(P)))
        size, vectors = np.linalg.eigh(P - on @ P @ on.T)
        root = vectors * np.sqrt(np.maximum(size, 0))
        out = np.zeros((count, len(values), len(P)))
        for rows, seen in self._runs(np.asarray(values, float)):
            noise = rng.standard_normal((count, len(seen), len(P)))
            error = noise[:, 0] @ first.T
            for t in range(len(seen)):
                error = error if t == 0 else error @ on.T + noise[:, t] @ root.T
                out[:, rows.start + t] = error
        return out * self.scale[list(self.missing)]

    @property
    def determined(self) -> np.ndarray:
        """Share (m,) of the variance of the missing channels that the others determine."""
        own = np.diagonal(self.usual)[list(self.missing)]
        return np.asarray(1 - np.diagonal(self._gains[-1][1]) / own)

    @cached_property
    def _mine(self) -> np.ndarray:
        return np.array(self.missing)

    @cached_property
    def _others(self) -> np.ndarray:
        return np.setdiff1d(np.arange(len(self.centre)), self.missing)

    def _runs(self, values: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield stretches in which the other channels are known, and these, standardised."""
        seen = ((values - self.centre) / self.scale - self.mean)[:, self._others]
        known = np.concatenate([[False], np.isfinite(seen).all(axis=1), [False]])
        ends = np.flatnonzero(known[1:] != known[:-1])
        for first, stop in zip(ends[::2], ends[1::2], strict=True):
            yield slice(int(first), int(stop)), seen[first:stop]

    @cached_property
    def _parts(self) -> tuple[np.ndarray, ...]:
        """A_om, F, B and b of m_t = F m_{t-1} + B o_{t-1} + b o_t + w', and covariance of w'."""
        o, m = self._others, self._mine
        A, Q = self.transition, self.noise
        b = np.linalg.solve(Q[np.ix_(o, o)], Q[np.ix_(o, m)]).T
        F = A[np.ix_(m, m)] - b @ A[np.ix_(o, m)]
        B = A[np.ix_(m, o)] - b @ A[np.ix_(o, o)]
        return A[np.ix_(o, m)], F, B, b, Q[np.ix_(m, m)] - b @ Q[np.ix_(o, m)]

    @cached_property
    def _first(self) -> tuple[np.ndarray, np.ndarray]:
        """Regression (m, o) of the missing channels in the first row, and what it leaves."""
        o, m, C = self._others, self._mine, self.usual
        weights = np.linalg.solve(C[np.ix_(o, o)], C[np.ix_(o, m)]).T
        return weights, C[np.ix_(m, m)] - weights @ C[np.ix_(o, m)]

    @cached_property
    def _gains(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """What m_{t-1} learns from o_t (m, o), and its covariance before, until both stay."""
        see, F, _, _, more = self._parts
        noise = self.noise[np.ix_(self._others, self._others)]
        P, out = self._first[1], list[tuple[np.ndarray, np.ndarray]]()
        while len(out) < MOST_STEPS:
            gain = np.linalg.solve(see @ P @ see.T + noise, see @ P).T
            out.append((gain, P))
            after = F @ (P - gain @ see @ P) @ F.T + more
            if np.abs(after - P).max() <= SETTLED * np.abs(P).max():
                break
            P = after
        return out

    def _filtered(self, seen: np.ndarray) -> np.ndarray:
        """Posterior mean (T, m) given others (T, o)."""
        see, F, B, b, _ = self._parts
        among = self.transition[np.ix_(self._others, self._others)]
        out = np.empty((len(seen), len(self.missing)))
        out[0] = seen[0] @ self._first[0].T
        surprise, known = seen[1:] - seen[:-1] @ among.T, seen[:-1] @ B.T + seen[1:] @ b.T
        for t in range(1, len(seen)):
            gain = self._gains[min(t, len(self._gains)) - 1][0]
            before = out[t - 1] + gain @ (surprise[t - 1] - see @ out[t - 1])
            out[t] = F @ before + known[t - 1]
        return out
