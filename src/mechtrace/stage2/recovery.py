"""Stage 2 on a Panel: options, latents, information, posterior of alpha, Trajectory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.stats import chi2, norm

from .._runtime.process import one_blas_thread
from .._runtime.progress import watched
from ..data.panel import Panel
from ..errors import DataError
from ..stage1.vae import SequentialVAE
from . import algorithm1
from .active_set import Shown, choose_active
from .calibration import as_intervals
from .corrections import SeriesOffset
from .inference import MixturePosterior, Variance, state_space
from .information import GaussianInformation
from .kalman import nis
from .mechanism_errors import doubt_variance, misfit_variance, mixing_variance
from .observation_models import CHANNELS, ObservationModel, centre_lag, history_length
from .options import RecoverOptions
from .partial import without_channels
from .pure_statistics import PureRegimeStatistics
from .series_batch import SeriesBatch, groups, in_training_steps, mean_of_known
from .trajectory import Curve, Trajectory
from .unknown import tolerances, unknown_rows

#: A step whose residual is rarer than this in pure regimes is unexplained.
UNEXPLAINED = 1e-3
#: Recordings, spread over all, in which the active regimes are searched for; the others are then
#: only tested for one more.
MOST_SEARCHED = 50
#: Rows up to which trajectories keep latents and predictions for their diagnosis, which else only
#: tests how large the errors are, not what they depend on.
KEPT_ROWS = 500_000


def recover(
    model: SequentialVAE,
    statistics: PureRegimeStatistics,
    regimes: tuple[str, ...],
    panel: Panel,
    options: RecoverOptions,
    step: float | None = None,
    *,
    progress: bool = False,
) -> list[Trajectory]:
    """Recover one Trajectory per series, or one for all if they are pooled.

    With `progress`, long work is reported on standard error. `step` is the usual time between
    rows in training. Gaps are found by it, not by the new recording, of which a causal answer
    cannot know the rest.
    """
    active = options.check(regimes)
    if options.pool and not len(panel):
        raise DataError("there is no series to pool", where=panel.source)
    usual = panel.usual_step if step is None else step
    panel = in_training_steps(panel, step)
    _check_anchor(panel, options)
    if options.without:
        statistics, panel = without_channels(statistics, panel, options.without)
        options = replace(options, evidence=(CHANNELS,))
    used = tuple(used.name for used in statistics.combination(options.evidence)[0])
    keep = panel.rows <= KEPT_ROWS

    def batch(some: np.ndarray) -> SeriesBatch:
        return SeriesBatch.of(
            model, statistics, panel[some], used, usual, causal=options.causal, keep=keep
        )

    def one_more(chosen: list[int]) -> int | None:
        shown = Shown(chosen, len(regimes))
        for some in groups(panel.lengths) if shown.others else ():
            part = batch(some)
            shown.add(part.corrected(statistics), part.elapsed)
        return shown.best()

    everything = np.arange(len(panel))
    with one_blas_thread():
        whole = batch(everything).pooled() if options.pool else None
        if options.active == "auto" and len(panel):
            spread = np.linspace(0, len(panel) - 1, min(len(panel), MOST_SEARCHED)).round()
            searched = whole or batch(everything[spread.astype(int)])
            chosen = choose_active(searched.corrected(statistics), searched.elapsed)
            while whole is None and (more := one_more(chosen)) is not None:
                chosen = sorted([*chosen, more])
            options = replace(options, active=[regimes[k] for k in chosen])
            active = options.check(regimes)
        if whole is not None:
            paths = _trajectories(whole, statistics, regimes, active, options, keep=keep)
            return [replace(path, zone=panel.preparation.zone) for path in paths]
        found: dict[int, Trajectory] = {}
        parts = list(groups(panel.lengths))  # one after the other: memory stays bounded
        for some in watched(parts, "recovering", not progress, [len(part) for part in parts]):
            paths = _trajectories(batch(some), statistics, regimes, active, options, keep=keep)
            found |= zip(some.tolist(), paths, strict=True)
    return [replace(found[i], zone=panel.preparation.zone) for i in range(len(panel))]


class Recovered(NamedTuple):
    """The answer, that of each observation model if there are several, and their information."""

    answer: MixturePosterior
    alone: dict[str, MixturePosterior]
    tested: GaussianInformation
    used: dict[str, GaussianInformation]


def _recovered(
    batch: SeriesBatch,
    statistics: PureRegimeStatistics,
    regimes: tuple[str, ...],
    active: list[int],
    options: RecoverOptions,
) -> Recovered:
    alone = {
        name: part.recombine(statistics.offsets[name].recombination[:, active])
        for name, part in batch.information.items()
    }
    tested = alone[statistics.tested.name]
    if options.method == "algorithm1":
        return Recovered(_by_algorithm1(batch, statistics, active, options), {}, tested, {})
    removed = batch.differ is not None
    correction = statistics.combination(batch.used, removed=removed)[1].restrict_to(active)
    several = len(batch.used) > 1
    information = (
        batch.corrected(statistics).restrict_to(active) if several else alone[batch.used[0]]
    )
    series = SeriesOffset(correction)
    if options.anchor:
        weights = _anchored(batch, options, regimes)[..., active]
        series = SeriesOffset.from_known(information, correction, weights)
    elif options.estimate_offset:
        series = SeriesOffset.from_simplex(information, correction, batch.elapsed)
    left = series.subtract_from(information)
    misfit = misfit_variance(left, batch, statistics, active, options)
    doubt = None if options.causal else doubt_variance(left, batch, statistics, active)
    answer = _by_state_space(left, batch, options, statistics, series.variance, misfit, doubt)
    curves = {
        name: _by_state_space(
            alone[name],
            batch,
            options,
            statistics,
            statistics.offsets[name].restrict_to(active).variance,
        )
        for name in (batch.used if several else ())
    }
    used = {name: series.subtract_from(alone[name]) for name in batch.used}
    return Recovered(answer, curves, series.subtract_from(tested), used)


def _trajectories(
    batch: SeriesBatch,
    statistics: PureRegimeStatistics,
    regimes: tuple[str, ...],
    active: list[int],
    options: RecoverOptions,
    *,
    keep: bool,
) -> list[Trajectory]:
    """Trajectories of a batch; with `keep` they carry what a diagnosis looks at."""
    answer, alone, tested, used = _recovered(batch, statistics, regimes, active, options)
    innovation = nis(tested, batch.elapsed)
    residual = _residual(tested, answer.alpha)
    outliers = [
        _outliers(statistics.models[name], _residual(part, answer.alpha), causal=options.causal)
        for name, part in used.items()
        if not statistics.models[name].predicts
    ]
    possible = tolerances(tested, answer.alpha, batch, statistics, active)
    predicted = not used or statistics.tested.name in used  # else levels alone are looked at
    flags = _flags(
        tested, statistics.tested, residual if predicted else np.zeros_like(residual), alone,
        outliers, possible.single,
    )  # fmt: skip
    if statistics.tested.name in used and not options.causal:
        found = unknown_rows(tested, answer.alpha, batch, statistics, active, possible.steady)
        flags[found] = "unexplained"
    alpha, lower, upper = _of_all_regimes(answer, active, len(regimes))
    by_evidence = {name: _of_all_regimes(one, active, len(regimes)) for name, one in alone.items()}
    latent_mean = mean_of_known(batch.mean_latents, axis=1)
    recombination = statistics.offsets[statistics.tested.name].recombination
    total = np.moveaxis(batch.information[statistics.tested.name].G.sum(axis=2), -1, 0)
    information = statistics.tested.autocorrelation_time * (
        recombination.T @ total @ recombination
    )
    return [
        Trajectory(
            name=name,
            time=time,
            regimes=regimes,
            alpha=alpha[s, : len(time)],
            lower=lower[s, : len(time)],
            upper=upper[s, : len(time)],
            residual=residual[s, : len(time)],
            flag=flags[s, : len(time)],
            surprise=innovation[s, : len(time)],
            error=answer.error[s, : len(time)].sum(axis=-1) / len(regimes),
            information=information[s],
            latent_mean=latent_mean[s, 0],
            method=options.method,
            causal=options.causal,
            level=options.level,
            process_noise=float(answer.process_noise[s]),
            trials=batch.trials,
            by_evidence={
                model: Curve(*(part[s, : len(time)] for part in curve))
                for model, curve in by_evidence.items()
            },
            observed=batch.observed(s, recombination[:, active]) if keep else None,
            without=options.without,
        )
        for s, (name, time) in enumerate(zip(batch.names, batch.times, strict=True))
    ]


def _of_all_regimes(answer: MixturePosterior, active: list[int], regimes: int) -> list[np.ndarray]:
    """alpha, lower and upper (S, T, K) with zeros for regimes that are not active."""
    out = []
    for part in (answer.alpha, answer.lower, answer.upper):
        out.append(np.zeros((*part.shape[:2], regimes)))
        out[-1][:, :, active] = part
    return out


def _by_state_space(
    information: GaussianInformation,
    batch: SeriesBatch,
    options: RecoverOptions,
    statistics: PureRegimeStatistics,
    variance: Callable[[np.ndarray, int], np.ndarray],
    misfit: Variance | None = None,
    doubt: Variance | None = None,
) -> MixturePosterior:
    def extra(alpha: np.ndarray) -> np.ndarray:
        return variance(alpha, batch.trials) + mixing_variance(alpha, statistics)

    return state_space(
        information,
        batch.elapsed,
        causal=options.causal,
        simplex=options.simplex,
        level=options.level,
        misfit=misfit,
        doubt=doubt,
        extra=extra,
    )


def _check_anchor(panel: Panel, options: RecoverOptions) -> None:
    """Refuse known intervals that contain no row."""
    for interval in as_intervals(options.anchor):
        mine = [i for i, name in enumerate(panel.names) if interval.series in (None, str(name))]
        if not any(interval.contains(panel.time_of(i)).any() for i in mine):
            raise DataError(
                f"no row lies between {interval.start} and {interval.stop}, where"
                f" {interval.weights!r} is said to hold",
                where=panel.source,
                fix="give times and series as they are in the recording",
            )


def _anchored(batch: SeriesBatch, options: RecoverOptions, regimes: tuple[str, ...]) -> np.ndarray:
    """Known shares at each step (S, T, K), NaN where none are known."""
    out = np.full((*batch.elapsed.shape, len(regimes)), np.nan)
    for interval in as_intervals(options.anchor):
        for s, (name, time) in enumerate(zip(batch.names, batch.times, strict=True)):
            if interval.series in (None, name):
                out[s, np.flatnonzero(interval.contains(time))] = interval.shares(regimes)
    return out


def _by_algorithm1(
    batch: SeriesBatch,
    statistics: PureRegimeStatistics,
    active: list[int],
    options: RecoverOptions,
) -> MixturePosterior:
    means = statistics.means[active]
    free = algorithm1.static_weights(batch.mean_latents, means, simplex=options.simplex)
    known = (batch.information[statistics.tested.name].dims > 0).T[..., None]
    alpha, left = _smoothed(np.where(known, free, np.nan), options)
    # pointwise variance of the estimator, of which the smoothing leaves a share
    inverse = np.linalg.pinv((means[1:] - means[0]).T)
    others = inverse @ statistics.spread @ inverse.T
    variance = np.append(others.sum(), np.diagonal(others)) / batch.trials
    half = norm.ppf(0.5 + options.level / 2) * np.sqrt(variance * left)
    lower, upper = alpha - half, alpha + half
    if options.simplex:
        lower, upper = np.clip(lower, 0, 1), np.clip(upper, 0, 1)
    error = np.broadcast_to(np.sqrt(2 / np.pi * variance * left), alpha.shape)
    return MixturePosterior(alpha, lower, upper, np.full(len(alpha), np.nan), error)


def _smoothed(
    weights: np.ndarray, options: RecoverOptions
) -> tuple[np.ndarray, np.ndarray | float]:
    """Smoothed weights (S, T, K) and the share of the variance of independent errors left."""
    if options.smoother == "window":
        alpha = algorithm1.centred_window(weights, options.window)
        # the other steps are left as they are
        averaged = algorithm1.whole_windows(weights, options.window)[..., None]
        return alpha, np.where(averaged, 1 / (2 * options.window + 1), 1.0)
    alpha, left = np.empty_like(weights), np.empty((len(weights), 1, 1))
    for s, series in enumerate(weights):
        strength = algorithm1.strength_of(series, options.smoother)
        alpha[s] = algorithm1.regularised(series, strength, simplex=options.simplex)
        left[s] = algorithm1.averaging(len(series), strength)
    return alpha, left


def _residual(information: GaussianInformation, alpha: np.ndarray) -> np.ndarray:
    """Root mean square of the whitened prediction error: about 1 if the mixture explains it."""
    quadratic = np.maximum(information.quadratic(np.nan_to_num(alpha).T), 0.0)
    dims = np.where(information.dims > 0, information.dims, np.nan)
    return np.ascontiguousarray(np.sqrt(quadratic / dims).T)


def _outliers(model: ObservationModel, residual: np.ndarray, *, causal: bool) -> np.ndarray:
    """Find steps (S, T) unlike all pure series to an observation model of levels.

    Centred windows: the first and last window also cover the rows at the ends.
    """
    found = residual > model.outlier_residual
    if causal:
        return found
    after = centre_lag(model.name)
    before = history_length(model.name, 0) - after
    known, rows = np.isfinite(residual), np.arange(residual.shape[1])
    last = np.maximum.accumulate(np.where(known, rows, -len(rows)), axis=1)
    onwards = np.where(known, rows, 2 * len(rows))[:, ::-1]
    following = np.minimum.accumulate(onwards, axis=1)[:, ::-1]
    window = np.where(
        rows - last <= after, last, np.where(following - rows <= before, following, rows)
    )
    return np.take_along_axis(found, window, axis=1)


def _flags(
    information: GaussianInformation,
    model: ObservationModel,
    residual: np.ndarray,
    alone: dict[str, MixturePosterior],
    outliers: Sequence[np.ndarray],
    tolerated: np.ndarray,
) -> np.ndarray:
    """Flag of each step (S, T) by the tested model, the models alone and their outliers.

    `tolerated` (S, T) are squared errors, over the noise, that are no news.
    """
    dims = information.dims.T
    known = dims > 0
    flags = np.full(known.shape, "", dtype="<U11")
    for one, other in combinations(alone.values(), 2):
        apart = (one.lower > other.upper) | (other.lower > one.upper)
        flags[apart.any(axis=-1)] = "disagree"
    # `dims` is divided by the autocorrelation time, but a single step is as variable as ever
    counts, which = np.unique(dims, return_inverse=True)
    freedom = np.maximum(model.autocorrelation_time * counts, 1)
    freedom *= model.degrees_of_freedom / len(model.noise)
    limit = np.sqrt(chi2.isf(UNEXPLAINED, freedom) / freedom)[which.reshape(known.shape)]
    limit *= np.sqrt(1 + tolerated / np.where(known, dims, 1.0))
    flags[known & (residual > limit)] = "unexplained"
    for steps in outliers:
        flags[steps] = "unexplained"
    flags[~known] = "missing"
    flags[np.cumsum(known, axis=1) == 0] = "warm-up"
    return flags
