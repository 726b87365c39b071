"""How far the answer is off in recordings whose regime is known, and what follows from it.

A pure series of regime l should give alpha = e_l. What left-out series give instead, beyond their
noise, is the error of the learned mechanisms in units of alpha. Its part that all series share is
corrected (experts are recombined: the paper's M-inverse, with shrinkage, before the simplex is
imposed); what is left widens the intervals.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .evidence import Evidence
from .simplex import plane_basis

ITERATIONS, ROUNDS = 40, 2
#: Series of each regime that tell how series differ; more would only take longer.
SERIES = 40
#: Steps of a stretch in which a shared error is looked for.
STRETCH = 10


@dataclass(frozen=True, eq=False)
class Offsets:
    """Errors of the mechanisms, in units of alpha."""

    stacking: np.ndarray  # (K, K): column l recombines the experts into what regime l shows
    doubt: np.ndarray  # (K, K): [l, k] variance of that
    series: np.ndarray  # (K, K) covariance of what differs from series to series
    stretch: np.ndarray  # (K, K) covariance of what differs from stretch to stretch, in all series

    @classmethod
    def none(cls, regimes: int) -> Offsets:
        """Perfect mechanisms."""
        zero = np.zeros((regimes, regimes))
        return cls(np.eye(regimes), zero, zero, zero)

    @classmethod
    def measure(cls, evidence: Evidence, regime: np.ndarray) -> Offsets:
        """From the evidence of n left-out pure series and the regime of each (n,)."""
        kinds = evidence.h.shape[-1]
        basis = plane_basis(kinds)
        information, pull = _against_own(evidence, regime, basis)  # (n, T, m, m), (n, T, m)
        of_series, rest = information.sum(axis=1), pull
        some = np.concatenate([np.flatnonzero(regime == k)[:SERIES] for k in range(kinds)])
        for _ in range(ROUNDS):
            series = _spread(of_series[some], rest[some].sum(axis=1))
            shift, doubt = _shared(*_by_regime(of_series, pull.sum(axis=1), series, regime))
            rest = pull - (information @ shift[regime][:, None, :, None])[..., 0]
        stacking = np.eye(kinds) + basis @ shift.T
        stretches = [
            (information[regime == k, a : a + STRETCH].sum((0, 1)),
             rest[regime == k, a : a + STRETCH].sum((0, 1)))
            for k in range(kinds)
            for a in range(0, information.shape[1], STRETCH)
        ]  # fmt: skip
        stretch = _spread(*(np.stack(part) for part in zip(*stretches, strict=True)))
        return cls(
            stacking,
            np.einsum("ki,lij,kj->lk", basis, doubt, basis),
            basis @ series @ basis.T,
            basis @ stretch @ basis.T,
        )

    def of(self, regimes: list[int]) -> Offsets:
        """Only these regimes can be active."""
        grid = np.ix_(regimes, regimes)
        return Offsets(self.stacking[:, regimes], *(part[grid] for part in self._spreads()))

    def _spreads(self) -> tuple[np.ndarray, ...]:
        return self.doubt, self.series, self.stretch

    def variance(self, alpha: np.ndarray, trials: int = 1) -> np.ndarray:
        """What the mechanisms' errors add to the variance of each weight of (..., K)."""
        constant = np.diagonal(self.series) / trials + np.diagonal(self.stretch)
        return alpha**2 @ self.doubt + constant


def _by_regime(
    information: np.ndarray, pull: np.ndarray, series: np.ndarray, regime: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """What the series of each regime say of its offset, each being off by itself too."""
    carried = np.eye(len(series)) + information @ series
    seen = np.linalg.solve(carried, information)
    about = np.linalg.solve(carried, pull[..., None])[..., 0]
    kinds = range(int(regime.max()) + 1)
    return (
        np.stack([seen[regime == k].sum(axis=0) for k in kinds]),
        np.stack([about[regime == k].sum(axis=0) for k in kinds]),
    )


def _against_own(
    evidence: Evidence, regime: np.ndarray, basis: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Information about alpha - e_l on the plane, at each step of series of regime l."""
    own = np.take_along_axis(evidence.G, regime[:, None, None, None], axis=3)[..., 0]
    return basis.T @ evidence.G @ basis, (evidence.h - own) @ basis


def _shared(information: np.ndarray, pull: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Offset of each regime, (K, m), and its covariance (K, m, m), shrunk by empirical Bayes.

    A part is common to all regimes, since they share networks: x_l = c + d_l, both Gaussian
    around zero, with variances that make the data most likely (expectation-maximisation).
    """
    kinds, m = pull.shape
    eye = np.eye(m)
    common, own = 0.01, 0.01
    for _ in range(ITERATIONS):
        inner = np.linalg.inv(information + eye / own)  # (K, m, m): d_l given c
        carried = eye + own * information
        seen = np.linalg.solve(carried, information)  # about c, with d_l integrated out
        about = np.linalg.solve(carried, pull[..., None])[..., 0]
        spread = np.linalg.inv(seen.sum(0) + eye / common)
        centre = spread @ about.sum(0)
        keep = inner / own
        shift = (keep @ centre) + (inner @ pull[..., None])[..., 0]
        covariance = inner + keep @ spread @ keep.swapaxes(1, 2)
        change = inner @ information
        left = shift - centre
        left_trace = np.trace(inner + change @ spread @ change.swapaxes(1, 2), axis1=1, axis2=2)
        common = max(float(centre @ centre + np.trace(spread)) / m, 1e-10)
        own = max(float((left**2).sum() + left_trace.sum()) / (kinds * m), 1e-10)
    return shift, covariance


def _spread(information: np.ndarray, pull: np.ndarray) -> np.ndarray:
    """Covariance (m, m) of offsets of g groups around zero, noise left out, by the same means."""
    seen = np.trace(information, axis1=1, axis2=2) > 0
    information, pull = information[seen], pull[seen]
    m = pull.shape[1]
    covariance = 0.01 * np.eye(m)
    for _ in range(ITERATIONS):
        inner = np.linalg.inv(information + np.linalg.inv(covariance))
        centre = (inner @ pull[..., None])[..., 0]
        covariance = (inner.sum(0) + centre.T @ centre) / len(pull) + 1e-9 * np.eye(m)
    return covariance
