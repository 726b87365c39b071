"""Statistics of the pure regimes, measured once after training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from .._runtime.process import one_blas_thread
from .._runtime.stochastic import generator
from ..data.panel import Panel
from ..data.segments import (
    Runs,
    cumcount,
    padded_rows,
    positions,
    runs_as_series,
    subsample_runs,
)
from ..data.standardise import MEASURED_FRAMES
from ..stage1.encoding import Latents, encode
from ..stage1.fit_run import FitRun
from ..stage1.vae import SequentialVAE
from ..vision.observable_subspace import observable_subspace
from .channel_experts import MOST_ROWS, ChannelExperts
from .channel_member import ChannelRows
from .channel_statistics import ChannelStatistics
from .effect_selection import select_effects
from .model_selection import select_models
from .observation_models import CHANNELS, Features, ObservationModel, candidates, parse
from .pure_statistics import PureRegimeStatistics, PureRows
from .recording_effects import RecordingEffects
from .sensor_statistics import SensorStatistics
from .series_batch import EncodedSeries
from .window_moments import MomentDiscriminant

#: Rows that are read and encoded at once.
CHUNK_ROWS = 1 << 16
#: Held-out runs of each regime on which the noise is measured, at most and at least.
MOST_RUNS, FEWEST_RUNS = 400, 4
#: Numbers that may be held for it: at every step, predictions of every expert for every latent,
#: and information about every pair of weights.
MOST_NUMBERS = 40_000_000
#: Possible squared errors of mechanisms at states of other regimes, over the noise, beyond which
#: held-out pure series do not tell which mechanisms are right in a mixture, or which observation
#: model; and the multiple of that at their own states, since with little data mechanisms are
#: doubtful everywhere.
SOME_DOUBT, MOST_DOUBT, MORE_DOUBT = 0.15, 1.0, 5.0
#: Autocorrelation time (steps) of the errors of mechanisms, beyond which the channels' past is not
#: the state. It is 1.0 in all systems of the zoo and on a pump rig, 2.5 to 2.9 in human gait.
LONG_ERRORS = 1.5
#: Folds of groups, at most; and recordings up to which each is a group where none are named.
MOST_FOLDS, FEW_RECORDINGS = 8, 16
#: Numbers in the latents of all labelled series that tell where the experts were trained.
VISITED_SIZE = 1 << 22


def measure_statistics(run: FitRun) -> PureRegimeStatistics:
    """Measure noise on held-out runs, and means and support of the latents on all labelled rows.

    Where recordings belong to groups, the mechanisms of the channels are learned without each fold
    of groups in turn, and errors are measured in all groups: one that happens to be held out does
    not show how groups differ. Of more labelled rows than `VISITED_SIZE` allows, stretches are
    drawn from every series.
    """
    model, panel, seed = run.model, run.panel, run.config.fit.seed
    if run.frontend is not None:
        model.observable_subspace = observable_subspace(
            model, run.frontend.keypoint_channels, seed
        )
    held, regimes = run.trainer.held_out.sampler.runs, len(panel.regimes)
    folds = Folds.of(run.runs[0] + run.runs[1])
    measured = held if folds is None else run.runs[0] + run.runs[1]
    of_one = regimes * max(regimes, model.config.latents) * max(1, int(measured.length.mean()))
    most = min(MOST_RUNS, max(FEWEST_RUNS, MOST_NUMBERS // (regimes * of_one)))
    # recordings often lie in the order of subjects or days: the first are not like all
    order = np.random.default_rng(seed).permutation(len(measured.regime))
    measured = measured.where(
        np.concatenate([order[measured.regime[order] == code][:most] for code in range(regimes)])
    )
    labelled = run.runs[0] + run.runs[1]
    most = max(1, VISITED_SIZE // (regimes * model.config.latents))
    if panel.is_image:
        most = min(most, MEASURED_FRAMES)
    stretches = subsample_runs(labelled, most, generator(seed, "visited"))
    with one_blas_thread():
        pieces = runs_as_series(panel, measured)
        latents = encode(model, pieces)
        visited = pure_rows(model, panel, labelled, stretches, (measured, latents.mean))
        experts, channels, rows = of_channels(run, folds)
        unseen = None if folds is None else np.isin(measured.start, held.start)
        recording = None if folds is None else Folds.names(measured)
        fold = None if folds is None else folds.number(measured)
        found = statistics_of(
            model, pieces, latents, measured.regime, visited, seed, experts, fold, unseen, rows,
            recording,
        )  # fmt: skip
        return replace(found, channels=channels, sensors=of_sensors(run))


@dataclass(frozen=True, eq=False)
class Folds:
    """Groups of recordings in folds, each of which is left out once.

    Where no groups are named, a few recordings are left out one by one: of those that the networks
    have not seen there are hardly any.
    """

    groups: np.ndarray  # names, sorted
    fold: np.ndarray  # of each group

    @classmethod
    def of(cls, runs: Runs) -> Folds | None:
        """Deal groups to folds; None without any, or where leaving some out loses a regime."""
        groups, number = np.unique(cls.names(runs), return_inverse=True)
        if runs.group is None and len(groups) > FEW_RECORDINGS:
            return None
        fold = np.arange(len(groups)) % MOST_FOLDS
        pairs = np.unique(np.stack([runs.regime, fold[number]]), axis=1)
        return None if (np.bincount(pairs[0]) < 2).any() else cls(groups, fold)

    def number(self, runs: Runs) -> np.ndarray:
        """Fold of each run."""
        return self.fold[np.searchsorted(self.groups, self.names(runs))]

    @staticmethod
    def names(runs: Runs) -> np.ndarray:
        """Group of each run; where none are named, its recording."""
        return runs.series if runs.group is None else runs.group


def of_channels(
    run: FitRun, folds: Folds | None
) -> tuple[list[ChannelExperts], ChannelStatistics | None, ChannelRows | None]:
    """Learn mechanisms on the channels, and how channels go together; nothing for pictures.

    Of the training runs; with folds of all runs, then without each fold. The rows come with them,
    in folds of groups or else of series.
    """
    panel, seed, units = run.panel, run.config.fit.seed, run.model.units()
    if len(panel.shape) > 1:
        return [], None, None

    def some(runs: Runs) -> tuple[Runs, Panel]:
        most = max(1, MOST_ROWS // len(panel.regimes))
        runs = subsample_runs(runs, most, generator(seed, "channel rows"))
        return runs, runs_as_series(panel, runs)

    runs, pieces = some(run.runs[0] if folds is None else run.runs[0] + run.runs[1])
    values = np.asarray(pieces.values, float)
    rows = ChannelRows(values, positions(pieces), np.repeat(runs.regime, runs.length))
    if folds is not None:
        rows = rows._replace(fold=np.repeat(folds.number(runs), runs.length))
    experts = ChannelExperts.cross_fit(rows, *units, seed)
    if folds is None:
        rows = rows._replace(fold=np.repeat(cumcount(runs.regime) % MOST_FOLDS, runs.length))
    runs, pieces = some(run.runs[0] + run.runs[1])
    series = np.repeat(np.arange(len(runs)), runs.length)
    values = np.asarray(pieces.values, float)
    statistics = ChannelStatistics.measure(values, series, *units, runs.group, runs.regime)
    return experts, statistics, rows


def of_sensors(run: FitRun) -> SensorStatistics | None:
    """Measure what the sensors do in each regime; None for pictures."""
    if run.pictures is not None or run.panel.is_image:
        return None
    return SensorStatistics.of_runs(run.panel, run.runs[0] + run.runs[1], run.config.fit.seed)


def pure_rows(
    model: SequentialVAE,
    panel: Panel,
    runs: Runs,
    stretches: Runs,
    encoded: tuple[Runs, np.ndarray] | None = None,
) -> PureRows:
    """Latents of stretches of these runs; a stretch inside a run loses the rows without context.

    `encoded` are runs whose latents (rows, d) are known. The others are read and encoded a few at
    a time.
    """
    order = np.argsort(runs.start)
    run = order[np.searchsorted(runs.start[order], stretches.start, side="right") - 1]
    number = np.repeat(run, stretches.length)
    place = (
        np.repeat(stretches.start - runs.start[run], stretches.length)
        + stretches.position_in_run()
    )
    mean = np.empty((stretches.rows, model.config.latents))
    first = np.cumsum(stretches.length) - stretches.length
    missing = np.arange(len(stretches))
    if encoded is not None:
        held, latents = encoded
        _, mine, theirs = np.intersect1d(stretches.start, held.start, return_indices=True)
        whole = stretches.length[mine] == held.length[theirs]
        mine, theirs = mine[whole], theirs[whole]
        begins = np.cumsum(held.length) - held.length
        source = replace(held.where(theirs), start=begins[theirs]).row_numbers()
        mean[replace(stretches.where(mine), start=first[mine]).row_numbers()] = latents[source]
        missing = np.setdiff1d(missing, mine)
    chunks = np.cumsum(stretches.length[missing]) // CHUNK_ROWS
    for some in np.split(missing, 1 + np.flatnonzero(np.diff(chunks))):
        if len(some):
            rows = replace(stretches.where(some), start=first[some]).row_numbers()
            mean[rows] = encode(model, runs_as_series(panel, stretches.where(some))).mean
    known = stretches.position_in_run() >= np.minimum(place, model.reach)
    settled = place >= model.config.lags
    return PureRows(mean[known], number[known], runs.regime[number[known]], settled[known])


def statistics_of(
    model: SequentialVAE,
    pieces: Panel,
    latents: Latents,
    regime: np.ndarray,
    visited: PureRows,
    seed: int,
    experts: Sequence[ChannelExperts] = (),
    fold: np.ndarray | None = None,
    unseen: np.ndarray | None = None,
    rows: ChannelRows | None = None,
    recording: np.ndarray | None = None,
) -> PureRegimeStatistics:
    """Statistics of pure series `pieces` with their latents, each of one regime (n,).

    `visited` are rows of all labelled series. The first of the `experts` are kept; the others
    predict the series of each `fold` (n,), without which they were learned. The networks were
    trained on the series that are not `unseen` (n,): their predictions of those do not count.
    `rows` are channels in folds, from which moments of windows are learned likewise. The series of
    one `recording` or group (n,) share their offsets.
    """
    first = experts[0] if experts else None
    encoded = EncodedSeries.of_rows(model, pieces, latents.mean, first)
    width = EncodedSeries.of_rows(model, pieces, latents.scale).latents
    seen = np.zeros(len(regime), bool) if unseen is None else ~unseen
    recorded = np.asarray(pieces.values, float)[padded_rows(pieces)[0]]

    moments: dict[int, MomentDiscriminant] = {}

    def of_moments(window: int) -> Features | None:
        if rows is None:
            return None
        found = MomentDiscriminant.cross_fit(rows, *model.units(), window)
        if not found:
            return None
        moments[window] = found[0]
        by_fold = found[:1] if fold is None else found[1:]
        number = np.zeros(len(regime), int) if fold is None else fold
        values = np.full((*encoded.latents.shape[:2], found[0].weights.shape[1]), np.nan)
        for one in np.unique(number):
            mine = number == one
            part = by_fold[one].estimate(recorded[:, mine], encoded.position[:, mine], window)
            values[mine] = part.swapaxes(0, 1)
        return Features(values)

    @cache  # the selection and the measurement look at the same features
    def features(name: str) -> Features:
        if name == CHANNELS and fold is not None:
            return _left_out(encoded, experts[1:], fold)
        kind, size = parse(name)
        reduced = of_moments(size) if kind == "window_moments" else None
        if reduced is not None:
            return reduced
        found = encoded.features(name)
        if found.predictions is not None and name != CHANNELS:
            found.predictions[seen] = np.nan
        return found

    lags = model.config.lags
    names = candidates(lags, int(np.median((encoded.position >= 0).sum(axis=0))))
    apart = doubtful = hidden = False
    effects: RecordingEffects | None = None
    if first is not None:
        # the first is taken unless another is clearly better: it tells what it does not know
        names.insert(0, CHANNELS)
        assert encoded.channels is not None
        at_home, elsewhere = first.doubt(encoded.channels, encoded.position, regime)
        apart = elsewhere > max(MOST_DOUBT, MORE_DOUBT * at_home)
        doubtful = elsewhere > max(SOME_DOUBT, MORE_DOUBT * at_home)
        found = features(CHANNELS)
        if recording is not None:  # what offsets explain does not speak against the mechanisms
            effects = select_effects(found, regime, recording, seed)
        if effects is not None and recording is not None:
            own = effects.known(found, regime, recording)
            assert found.predictions is not None
            found.predictions[:] += own[:, None, None]
        measured = ObservationModel.measure(CHANNELS, found.values, found.predictions, regime)
        hidden = measured.autocorrelation_time > LONG_ERRORS
    selection = select_models(
        features, names, regime, lags, pieces.groups, seed,
        unseen=unseen, apart=apart, doubtful=doubtful, hidden=hidden,
    )  # fmt: skip
    effects = effects if CHANNELS in selection.selected else None
    return PureRegimeStatistics.of_features(
        features, width, regime, selection, visited, pieces.groups, seed, first, moments, effects
    )


def _left_out(
    encoded: EncodedSeries, experts: Sequence[ChannelExperts], fold: np.ndarray
) -> Features:
    """Features of the channels, of each fold (n,) by the experts that were learned without it."""
    assert encoded.channels is not None
    order, parts = [], []
    for number in np.unique(fold):
        mine = fold == number
        own = EncodedSeries(
            encoded.model, encoded.mean[:, mine], encoded.position[:, mine], experts[number],
            encoded.channels[:, mine],
        )  # fmt: skip
        parts.append(own.features(CHANNELS))
        order.append(np.flatnonzero(mine))
    back = np.argsort(np.concatenate(order))
    values, predictions, doubt = (np.concatenate(part)[back] for part in zip(*parts, strict=True))
    return Features(values, predictions, doubt)
