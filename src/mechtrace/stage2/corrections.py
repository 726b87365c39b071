"""Errors of the learned mechanisms and of single recordings, in units of alpha.

A pure series of regime l should give alpha = e_l. What held-out series give instead, beyond their
noise, is an error of the mechanisms. Its part that all series share is corrected (predictions are
recombined: the paper's M-inverse, with shrinkage, before the simplex is imposed); what is left
widens the intervals. A constant offset of one recording that is not alpha (another subject,
another day) makes it show alpha + offset; how large offsets are is known from held-out series.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..linalg.batched import apply
from ..linalg.simplex import helmert_basis
from .inference import state_space
from .information import GaussianInformation

ITERATIONS, ROUNDS = 40, 2
#: Alternations between a curve and its offset, at most.
MAX_ALTERNATIONS = 30
#: Deviation of offsets that a user who asks for them thinks possible, whatever was measured.
POSSIBLE = 0.1
#: Series of each regime that tell how series differ; more would only take longer.
SERIES = 40
#: Steps of a stretch in which a shared error is looked for.
STRETCH = 10


@dataclass(frozen=True, eq=False)
class BasisCorrection:
    """Recombination of the mechanisms' predictions, and the covariances of what is left."""

    recombination: np.ndarray  # (K, K): column l mixes the experts into what regime l shows
    recombination_variance: np.ndarray  # (K, K): [l, k] variance of that
    series_covariance: np.ndarray  # (K, K) of the error that differs from series to series
    stretch_covariance: np.ndarray  # (K, K) of that from stretch to stretch, in all series

    @classmethod
    def none(cls, regimes: int) -> BasisCorrection:
        """Perfect mechanisms."""
        zero = np.zeros((regimes, regimes))
        return cls(np.eye(regimes), zero, zero, zero)

    @classmethod
    def measure(cls, info: GaussianInformation, regime: np.ndarray) -> BasisCorrection:
        """From the information of n held-out pure series and the regime of each (n,)."""
        kinds = info.regimes
        basis = helmert_basis(kinds)
        # information about alpha - e_l, in simplex coordinates: (m, m, T, n), (m, T, n)
        A = info.simplex_coordinates.A
        own = np.take_along_axis(info.G, regime[None, None, None], axis=1)[:, 0]
        score = np.einsum("ki,kts->its", basis, info.h - own)
        of_series, left = np.moveaxis(A.sum(axis=2), -1, 0), score
        some = np.concatenate([np.flatnonzero(regime == k)[:SERIES] for k in range(kinds)])
        for _ in range(ROUNDS):
            series = _covariance(of_series[some], left.sum(axis=1).T[some])
            shift, variance = _shared(*_by_regime(of_series, score.sum(axis=1).T, series, regime))
            left = score - apply(A, shift[regime].T[:, None])
        stretches = [
            (slice(a, a + STRETCH), regime == k)
            for k in range(kinds)
            for a in range(0, A.shape[2], STRETCH)
        ]
        stretch = _covariance(
            np.stack([A[:, :, rows][..., mine].sum((2, 3)) for rows, mine in stretches]),
            np.stack([left[:, rows][..., mine].sum((1, 2)) for rows, mine in stretches]),
        )
        return cls(
            np.eye(kinds) + basis @ shift.T,
            np.einsum("ki,lij,kj->lk", basis, variance, basis),
            basis @ series @ basis.T,
            basis @ stretch @ basis.T,
        )

    def restrict_to(self, regimes: list[int]) -> BasisCorrection:
        """Only these regimes can be active."""
        grid = np.ix_(regimes, regimes)
        return BasisCorrection(
            self.recombination[:, regimes],
            self.recombination_variance[grid],
            self.series_covariance[grid],
            self.stretch_covariance[grid],
        )

    def variance(self, alpha: np.ndarray, trials: int = 1) -> np.ndarray:
        """Variance that the mechanisms' errors add to each weight of (..., K)."""
        constant = np.diagonal(self.series_covariance) / trials
        constant = constant + np.diagonal(self.stretch_covariance)
        return alpha**2 @ self.recombination_variance + constant


def _marginal(
    information: np.ndarray, score: np.ndarray, covariance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Information about c in x = c + d, with d ~ N(0, covariance) integrated out."""
    carried = np.eye(len(covariance)) + information @ covariance
    return (
        np.linalg.solve(carried, information),
        np.linalg.solve(carried, score[..., None])[..., 0],
    )


def _by_regime(
    information: np.ndarray, score: np.ndarray, series: np.ndarray, regime: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Information of the series of each regime about its shift, each being off by itself too."""
    parts = _marginal(information, score, series)
    kinds = range(int(regime.max()) + 1)
    first, second = (np.stack([part[regime == k].sum(axis=0) for k in kinds]) for part in parts)
    return first, second


def _shared(information: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shift of each regime (K, m) and its covariance (K, m, m), shrunk by empirical Bayes.

    A part is common to all regimes, since they share networks: x_l = c + d_l, both Gaussian
    around zero, with variances of maximal likelihood (expectation-maximisation).
    """
    kinds, m = score.shape
    eye = np.eye(m)
    common, own = 0.01, 0.01
    for _ in range(ITERATIONS):
        inner = np.linalg.inv(information + eye / own)  # (K, m, m): d_l given c
        about, about_score = _marginal(information, score, own * eye)
        covariance = np.linalg.inv(about.sum(0) + eye / common)
        centre = covariance @ about_score.sum(0)
        keep = inner / own
        shift = (keep @ centre) + (inner @ score[..., None])[..., 0]
        shift_covariance = inner + keep @ covariance @ keep.swapaxes(1, 2)
        change = inner @ information
        left = shift - centre
        left_trace = np.trace(
            inner + change @ covariance @ change.swapaxes(1, 2), axis1=1, axis2=2
        )
        common = max(float(centre @ centre + np.trace(covariance)) / m, 1e-10)
        own = max(float((left**2).sum() + left_trace.sum()) / (kinds * m), 1e-10)
    return shift, shift_covariance


def _covariance(information: np.ndarray, score: np.ndarray) -> np.ndarray:
    """Covariance (m, m) of the offsets of g groups around zero, without noise, by the same."""
    seen = np.trace(information, axis1=1, axis2=2) > 0
    information, score = information[seen], score[seen]
    m = score.shape[1]
    covariance = 0.01 * np.eye(m)
    for _ in range(ITERATIONS):
        inner = np.linalg.inv(information + np.linalg.inv(covariance))
        centre = (inner @ score[..., None])[..., 0]
        covariance = (inner.sum(0) + centre.T @ centre) / len(score) + 1e-9 * np.eye(m)
    return covariance


@dataclass(frozen=True, eq=False)
class SeriesOffset:
    """The offset of each of S series, and how well it is known."""

    correction: BasisCorrection
    offset: np.ndarray | None = None  # (K, S)
    variance_left: np.ndarray | None = None  # (K, S)

    @classmethod
    def from_known(
        cls, info: GaussianInformation, correction: BasisCorrection, weights: np.ndarray
    ) -> SeriesOffset:
        """From steps whose weights are known: (S, T, K), NaN elsewhere."""
        alpha = weights.T
        inside = np.isfinite(alpha).all(axis=0)
        part = replace(info, G=info.G * inside, h=info.h * inside)
        return cls(correction, *_estimate(part, np.where(inside, alpha, 0.0), correction))

    @classmethod
    def from_simplex(
        cls, info: GaussianInformation, correction: BasisCorrection, elapsed: np.ndarray
    ) -> SeriesOffset:
        """From the recording alone: alpha must stay on the simplex, an offset need not.

        The most probable pair of curve and offset, by alternating between them. What an offset
        may be is hardly known afterwards: the intervals keep its whole variance.
        """
        offset = np.zeros(info.h[:, 0].shape)
        for _ in range(MAX_ALTERNATIONS):
            alpha = state_space(info.subtract_offset(offset), elapsed).alpha.T
            before, offset = offset, _estimate(info, alpha, correction)[0]
            if np.abs(offset - before).max() < 1e-4:
                break
        return cls(correction, offset)

    def subtract_from(self, info: GaussianInformation) -> GaussianInformation:
        """Information about alpha itself."""
        return info if self.offset is None else info.subtract_offset(self.offset)

    def variance(self, alpha: np.ndarray, trials: int = 1) -> np.ndarray:
        """As that of `BasisCorrection`, with what is now known of this series."""
        total = self.correction.variance(alpha, trials)
        if self.variance_left is None:
            return total
        usual = np.diagonal(self.correction.series_covariance) / trials
        return total - usual + self.variance_left.T[:, None]


def _estimate(
    info: GaussianInformation, alpha: np.ndarray, correction: BasisCorrection
) -> tuple[np.ndarray, np.ndarray]:
    """Offset (K, S) of series whose alpha (K, T, S) is given, and its variance."""
    basis = helmert_basis(info.regimes)
    usual = basis.T @ correction.series_covariance @ basis
    prior = np.linalg.inv(usual + POSSIBLE**2 * np.eye(len(usual)))
    precision = basis.T @ np.moveaxis(info.G.sum(axis=2), -1, 0) @ basis + prior
    score = basis.T @ (info.h - apply(info.G, alpha)).sum(axis=1)
    covariance = np.linalg.inv(precision)
    offset = basis @ np.einsum("sij,js->is", covariance, score)
    return offset, np.einsum("ki,sij,kj->ks", basis, covariance, basis)
