"""Variance of alpha by errors of the mechanisms: possible ones, and those that are observed.

An error of a mechanism stays the same wherever the same states come back, so it does not average
out over the steps. Each error goes through the smoother as a whole.
"""

from __future__ import annotations

import numpy as np

from .inference import DOUBT, Variance, response
from .information import GaussianInformation
from .observation_models import CHANNELS
from .options import RecoverOptions
from .pure_statistics import PureRegimeStatistics
from .series_batch import SeriesBatch

#: Random rotations of the prediction errors of a recording.
ROTATIONS = 8


def ensemble_variance(
    information: GaussianInformation,
    batch: SeriesBatch,
    statistics: PureRegimeStatistics,
    active: list[int],
    options: RecoverOptions,
) -> Variance | None:
    """Variance of alpha by possible errors of the mechanisms of the channels, if they are used."""
    if CHANNELS not in batch.used:
        return None
    model, encoded = statistics.models[CHANNELS], batch.encoded
    recombination = statistics.combination(batch.used)[1].recombination[:, active]

    def variance(alpha: np.ndarray, process_noise: np.ndarray) -> np.ndarray:
        pull = model.pull(recombination.T @ encoded.channel_predictions)
        weights = np.nan_to_num(alpha).swapaxes(0, 1) @ recombination.T
        weights = np.broadcast_to(weights, (*encoded.position.shape, weights.shape[-1]))
        total, count = np.zeros(alpha.shape), 0
        plane = information.simplex_coordinates
        noise = None if options.causal else process_noise
        for error in encoded.channel_errors(weights):
            change = np.einsum("tskq,tsq->kts", pull, error)
            if batch.trials > 1:
                change = change.sum(axis=2, keepdims=True)
            total += response(plane, batch.elapsed, change, noise) ** 2
            count += 1
        return DOUBT * total / count

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
    model, (values, predictions) = statistics.tested, batch.tested
    assert predictions is not None
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
        error = np.nan_to_num((values - mixed) @ white)
        error[~np.isfinite(expected).all(axis=(-2, -1))] = 0.0
        pull = np.nan_to_num(expected @ white) / model.autocorrelation_time
        plane = information.simplex_coordinates
        total = np.zeros(alpha.shape)
        for turn in turns:
            change = np.einsum("stkp,stp->kts", pull, error @ turn)
            if batch.trials > 1:
                change = change.sum(axis=2, keepdims=True)
            total += response(plane, batch.elapsed, change, process_noise) ** 2
        return total / len(turns)

    return variance
