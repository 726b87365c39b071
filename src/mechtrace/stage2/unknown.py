"""Stretches of a recording that no mixture of the known mechanisms explains.

In a stretch of unknown dynamics, prediction errors e_t at the recovered shares have something in
common: they keep a direction, or shares outside of the simplex would predict better,

    e_t = b + noise,   b ~ N(0, E / p I),        or        e_t = M_t N beta + noise,

with the Helmert basis N. The log Bayes factor of both, for several energies E, is taken over
stretches of many lengths and places; errors that the model is known to make (`tolerated`) may lie
in any direction under both hypotheses. The stretches of highest total evidence are chosen by
dynamic programming, each run of them at the price `PRICE`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from .information import GaussianInformation
from .observation_models import CHANNELS
from .pure_statistics import PureRegimeStatistics
from .series_batch import SeriesBatch

#: Lengths of the stretches; each begins at multiples of a quarter of its length.
LENGTHS = (8, 12, 16, 24, 32, 48, 64, 96, 128)
#: Squared errors per row, over the noise, of unknown dynamics.
ENERGIES = (0.3, 1.0, 4.0, 16.0, 64.0)
#: Evidence (nats) that a run of stretches has to exceed.
PRICE = 4.0
#: Parts of the doubt about the mechanisms, and of the squared distance of the mixed predictions,
#: that an error may keep over a whole stretch, in a single direction; and at a single step.
STEADY_DOUBT, STEADY_SPREAD = 0.008, 0.03
SINGLE_DOUBT, SINGLE_SPREAD = 1.0, 0.3
#: Numbers of all stretches that are worked on at once.
CHUNK = 1 << 20
#: Information below this is none.
LEAST = 1e-9


class Errors(NamedTuple):
    """Prediction errors of one recording, or the sum over trials, in units of the noise."""

    error: np.ndarray  # (T, p), zero where nothing is known
    trials: np.ndarray  # (T,) recordings behind each row
    A: np.ndarray  # (m, m, T) information about the shares in simplex coordinates
    score: np.ndarray  # (m, T) its gradient at the recovered shares
    tolerated: np.ndarray  # (T,) squared error that is no news


class Tolerances(NamedTuple):
    """Squared errors (S, T) that the model is known to make, over the noise."""

    steady: np.ndarray
    single: np.ndarray


def tolerances(
    information: GaussianInformation,
    alpha: np.ndarray,
    batch: SeriesBatch,
    statistics: PureRegimeStatistics,
    active: list[int],
) -> Tolerances:
    """Squared errors that are no news at shares (S, T, K) of these active regimes.

    Mechanisms may be wrong by what their ensemble says, or by what is steady in the errors of
    held-out pure series, and a mixture of them by a part of the distance between the predictions
    that it mixes: to mix is exact only to first order.
    """
    model = statistics.tested
    offsets = statistics.offsets[model.name].restrict_to(active)
    shares = np.nan_to_num(alpha).T
    spread = np.einsum("kts,kkts->ts", shares, information.G)
    spread -= np.einsum("kts,klts,lts->ts", shares, information.G, shares, optimize=True)
    usual = np.einsum("klts,kl->ts", information.G, offsets.series_covariance)
    doubt = np.zeros(spread.shape)
    if model.name == CHANNELS:
        mixed = shares.transpose(1, 2, 0) @ offsets.recombination.T
        encoded = batch.encoded
        weights = np.broadcast_to(mixed, (*encoded.position.shape, mixed.shape[-1]))
        white = np.linalg.cholesky(np.linalg.inv(model.noise))
        sure = model.certainty(encoded.channel_doubt)
        draws = 0
        for error in encoded.channel_errors(weights):
            power = np.nan_to_num((error * sure @ white) ** 2).sum(axis=-1)
            doubt += power if batch.trials == 1 else power.sum(axis=1, keepdims=True)
            draws += 1
        doubt /= max(draws, 1) * model.autocorrelation_time
    spread = np.maximum(spread, 0.0)
    usual = np.maximum(usual, 0.0) + batch.trials * statistics.steady_error
    return Tolerances(
        (STEADY_DOUBT * doubt + STEADY_SPREAD * spread + usual).T,
        (SINGLE_DOUBT * doubt + SINGLE_SPREAD * spread + usual).T,
    )


def unknown_rows(
    information: GaussianInformation,
    alpha: np.ndarray,
    batch: SeriesBatch,
    statistics: PureRegimeStatistics,
    active: list[int],
    tolerated: np.ndarray,
) -> np.ndarray:
    """Find the rows (S, T) of stretches that no mixture explains, at shares (S, T, K)."""
    model, (values, predictions, doubt) = statistics.tested, batch.tested
    assert predictions is not None
    sure = np.broadcast_to(np.asarray(model.certainty(doubt)), values.shape)
    white = np.linalg.cholesky(np.linalg.inv(model.noise) / model.autocorrelation_time)
    recombination = statistics.offsets[model.name].recombination[:, active]
    weights = np.nan_to_num(alpha) @ recombination.T
    plane = information.simplex_coordinates
    shares = np.nan_to_num(alpha).T
    score = plane.b - np.einsum(
        "mnts,nts->mts", plane.A, np.einsum("km,kts->mts", plane.basis, shares)
    )
    out = np.zeros(alpha.shape[:2], bool)
    for s in range(len(out)):
        mine = slice(s, s + 1) if batch.trials == 1 else slice(None)
        mixed = np.einsum("tk,stkp->stp", weights[s], predictions[mine])
        error = (values[mine] - mixed) * sure[mine] @ white
        known = np.isfinite(error).all(axis=-1) & (information.dims[:, s] > 0)
        error = np.where(known[..., None], error, 0.0).sum(axis=0)
        found = Errors(error, known.sum(axis=0), plane.A[..., s], score[..., s], tolerated[s])
        out[s] = unknown_stretches(found) & known.any(axis=0)
    return out


def unknown_stretches(errors: Errors) -> np.ndarray:
    """Find the rows (T,) of the stretches of highest evidence."""
    parts = [found for length in LENGTHS for found in _evidence(errors, length)]
    if not parts:
        return np.zeros(len(errors.trials), bool)
    first, stop, evidence = (np.concatenate(part) for part in zip(*parts, strict=True))
    return _chosen(len(errors.trials), first, stop, evidence)


def _evidence(errors: Errors, length: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield first row, end and log Bayes factor of the stretches that speak for the unknown."""
    steps, p, m = len(errors.trials), errors.error.shape[1], len(errors.A)
    begins = np.arange(0, steps - length + 1, length // 4)
    at_once = max(1, CHUNK // (m * m + len(ENERGIES) * p))
    for some in range(0, len(begins), at_once):
        first = begins[some : some + at_once]
        rows = slice(first[0], first[-1] + length)
        first, stop = first - rows.start, first - rows.start + length

        def total(part: np.ndarray) -> np.ndarray:
            """Sum part (..., T) over each stretch: (W, ...)."""
            sums = np.cumsum(part[..., rows], axis=-1)  # noqa: B023
            sums = np.concatenate([np.zeros((*sums.shape[:-1], 1)), sums], axis=-1)
            return np.moveaxis(sums[..., stop] - sums[..., first], -1, 0)  # noqa: B023

        count = total(errors.trials)
        rows_known = total((errors.trials > 0).astype(float))
        enough = rows_known >= length / 2
        count = np.maximum(count, 1)[:, None]
        tolerated = total(errors.tolerated)[:, None] / count
        everywhere = np.repeat(count, p, axis=1)
        gains = _bayes_factors(total(errors.error.T) ** 2 / count, everywhere, tolerated, 1.0 / p)
        if m:
            values, vectors = np.linalg.eigh(total(errors.A))
            values = np.maximum(values, LEAST)
            along = np.einsum("wmk,wm->wk", vectors, total(errors.score)) ** 2 / values
            scaled = values * count / values.sum(axis=1, keepdims=True)  # of unit energy per row
            gains += _bayes_factors(along, scaled, tolerated, 1.0)
        evidence = logsumexp(gains, axis=0) - np.log(len(gains))
        keep = enough & (evidence > 0)
        yield rows.start + first[keep], rows.start + stop[keep], evidence[keep]


def _bayes_factors(
    square: np.ndarray, power: np.ndarray, tolerated: np.ndarray, part: float
) -> list[np.ndarray]:
    """Log Bayes factors (W,) of coefficients with unit noise and signal `power` (W, J).

    Squares (W, J) have mean 1 + power * variance of the coefficient, which is `tolerated` (W, 1)
    or more by a `part` of each energy.
    """
    usual = 1 + power * tolerated
    out = []
    for energy in ENERGIES:
        more = usual + power * energy * part
        out.append(0.5 * (square * (1 / usual - 1 / more) - np.log(more / usual)).sum(axis=1))
    return out


def _chosen(steps: int, first: np.ndarray, stop: np.ndarray, evidence: np.ndarray) -> np.ndarray:
    """Find the rows (steps,) of the stretches of highest total evidence, less the price of runs.

    >>> _chosen(6, np.array([0, 2, 4]), np.array([2, 4, 6]), np.array([9.0, 1.0, 0.5])).tolist()
    [True, True, True, True, True, True]
    """
    order = np.argsort(stop, kind="stable")
    firsts, stops, gains = first[order].tolist(), stop[order].tolist(), evidence[order].tolist()
    known = [0.0] * (steps + 1)  # best total up to a row that no stretch needs to reach
    inside = [-np.inf] * (steps + 1)  # of those whose last stretch ends there
    source = [-1] * (steps + 1)  # that last stretch
    ended = [False] * (steps + 1)
    number = 0
    for row in range(1, steps + 1):
        while number < len(stops) and stops[number] == row:
            begin = firsts[number]
            value = max(known[begin] - PRICE, inside[begin]) + gains[number]
            if value > inside[row]:
                inside[row], source[row] = value, number
            number += 1
        ended[row] = inside[row] > known[row - 1]
        known[row] = max(inside[row], known[row - 1])
    out, row, within = np.zeros(steps, bool), steps, False
    while row > 0:
        if not within and not ended[row]:
            row -= 1
            continue
        begin = firsts[source[row]]
        out[begin:row] = True
        within = inside[begin] >= known[begin] - PRICE and source[begin] >= 0
        row = begin
    return out
