"""Variance of alpha by errors of the mechanisms, beyond the noise of the observation models.

An error of a mechanism stays the same wherever the same states come back, so it does not average
out over the steps: it goes through the smoother as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .inference import Variance, response
from .information import GaussianInformation
from .observation_models import CHANNELS
from .options import RecoverOptions
from .pure_statistics import PureRegimeStatistics
from .series_batch import SeriesBatch

#: Random rotations of the prediction errors of a recording.
ROTATIONS = 8
#: Deviation of a share a over a (1 - a), if what a mixture of parameters predicts need not be the
#: mixture of the predictions: pure regimes do not show it. Measured on development seeds of the
#: zoo.
MIXING = 0.2
#: Factor on the variance that prediction errors imply: those that are not random turn alpha more.
#: Measured likewise.
MISFIT = 1.7


def mixing_variance(alpha: np.ndarray, statistics: PureRegimeStatistics) -> np.ndarray:
    """Variance of shares (..., K) by mechanisms whose parameters mix, not their predictions.

    None where the mechanism form is known: it is linear in its parameters up to the noise.
    """
    share = np.clip(alpha, 0.0, 1.0)
    return (0.0 if statistics.form_known else MIXING**2) * (share * (1 - share)) ** 2


def doubt_variance(
    information: GaussianInformation,
    batch: SeriesBatch,
    statistics: PureRegimeStatistics,
    active: list[int],
) -> Variance | None:
    """Variance of alpha over the ensemble of mechanisms: how alpha follows each one's errors.

    And those of the offsets of a recording.
    """
    if statistics.tested.name != CHANNELS or CHANNELS not in batch.used:
        return None
    model, (_, predictions, doubt) = statistics.tested, batch.tested
    assert predictions is not None
    sure = np.asarray(model.certainty(doubt))
    recombination = statistics.combination(batch.used)[1].recombination[:, active]
    white = np.linalg.cholesky(np.linalg.inv(model.noise))
    pull = np.nan_to_num((recombination.T @ predictions) * sure[:, :, None] @ white)
    pull /= model.autocorrelation_time

    def variance(alpha: np.ndarray, process_noise: np.ndarray) -> np.ndarray:
        weights = (np.nan_to_num(alpha) @ recombination.T).swapaxes(0, 1)
        weights = np.broadcast_to(weights, (*batch.encoded.position.shape, weights.shape[-1]))

        def power(errors: Iterator[np.ndarray]) -> np.ndarray:
            """Mean square of what errors (S, T, p) do to the shares."""
            total, count = np.zeros(alpha.shape), 0
            for error in errors:
                white_error = np.nan_to_num(error * sure @ white)
                change = np.einsum("stkp,stp->kts", pull, white_error)
                if batch.trials > 1:  # all trials go through the same mechanisms
                    change = change.sum(axis=2, keepdims=True)
                plane = information.simplex_coordinates
                total += response(plane, batch.elapsed, change, process_noise) ** 2
                count += 1
            return total / max(count, 1)

        found = power(e.swapaxes(0, 1) for e in batch.encoded.channel_errors(weights))
        if batch.differ is not None:
            mixed = weights.swapaxes(0, 1)
            found += power(mixed @ draw for draw in batch.differ.errors.swapaxes(0, 1))
        return found

    return variance


def misfit_variance(
    information: GaussianInformation,
    batch: SeriesBatch,
    statistics: PureRegimeStatistics,
    active: list[int],
    options: RecoverOptions,
) -> Variance | None:
    """Variance of alpha that the prediction errors of this very recording imply.

    An unknown part of the dynamics moves the observations in some direction. Where no mixture can
    follow, it is left as prediction error; where one can, alpha follows and is wrong. Directions
    are taken to be alike: the errors, rotated at random in units of the noise, go through the
    smoother. Errors of the size and the autocorrelation of the noise give its usual variance.
    """
    if options.causal or statistics.tested.name not in batch.used:
        return None  # what is left of a causal answer is not known while it is made
    model, (values, predictions, doubt) = statistics.tested, batch.tested
    assert predictions is not None
    sure = np.asarray(model.certainty(doubt))
    recombination = statistics.combination(batch.used)[1].recombination[:, active]
    white = np.linalg.cholesky(np.linalg.inv(model.noise))
    rng = np.random.default_rng(statistics.seed)
    turns = [np.linalg.qr(rng.standard_normal(white.shape))[0] for _ in range(ROTATIONS)]

    def variance(alpha: np.ndarray, process_noise: np.ndarray) -> np.ndarray:
        expected = recombination.T @ predictions  # (S, T, K, p)
        mixed = np.einsum(
            "stk,stkp->stp",
            np.broadcast_to(np.nan_to_num(alpha), expected.shape[:3]),
            np.nan_to_num(expected),
        )
        error = np.nan_to_num((values - mixed) * sure @ white)
        error[~np.isfinite(expected).all(axis=(-2, -1))] = 0.0
        expected = expected * sure[:, :, None] if np.ndim(sure) else expected
        pull = np.nan_to_num(expected @ white) / model.autocorrelation_time
        plane = information.simplex_coordinates
        total = np.zeros(alpha.shape)
        for turn in turns:
            change = np.einsum("stkp,stp->kts", pull, error @ turn)
            if batch.trials > 1:
                change = change.sum(axis=2, keepdims=True)
            total += response(plane, batch.elapsed, change, process_noise) ** 2
        return MISFIT * total / len(turns)

    return variance
