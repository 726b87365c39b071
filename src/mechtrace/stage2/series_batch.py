"""Series of a panel side by side, with the information of each observation model.

Layout in all of stage 2: arrays are (S, T, ...), series by step. In memory the steps come first,
as experts and filters work on one step of many series; only `EncodedSeries` transposes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np

from ..data.panel import Panel
from ..data.segments import crop_rows, padded_rows
from ..errors import DataError
from ..stage1 import encoding
from ..stage1.vae import SequentialVAE
from .channel_experts import ChannelExperts
from .information import GaussianInformation
from .kalman import Observed
from .model_selection import joined
from .observation_models import CHANNELS, Features, TrainingSupport, centre_lag, parse
from .pure_statistics import PureRegimeStatistics
from .recording_effects import Offsets
from .window_moments import MomentDiscriminant, window_moments


class EncodedSeries:
    """Latents of S series side by side.

    `mean` is (T, S, d); `position` (T, S) counts the steps since the last gap, -1 where nothing
    was observed; `channels` (T, S, q) are the coordinates of the channels that `experts` predict,
    `recorded` (T, S, c) the channels whose `moments`, by the size of the window, tell regimes.
    """

    def __init__(
        self,
        model: SequentialVAE,
        mean: np.ndarray,
        position: np.ndarray,
        experts: ChannelExperts | None = None,
        channels: np.ndarray | None = None,
        moments: Mapping[int, MomentDiscriminant] | None = None,
        recorded: np.ndarray | None = None,
    ) -> None:
        self.model, self.mean, self.position = model, mean, position
        self.experts, self.channels = experts, channels
        self.moments, self.recorded = moments or {}, recorded
        # differences of histories as regimes fill in channels: (K, T, S, q), and of members
        self.own: np.ndarray | None = None
        self.own_errors: np.ndarray | None = None

    @classmethod
    def of_rows(
        cls,
        model: SequentialVAE,
        panel: Panel,
        mean: np.ndarray,
        experts: ChannelExperts | None = None,
        moments: Mapping[int, MomentDiscriminant] | None = None,
    ) -> EncodedSeries:
        """From the latents (rows, d) of all rows of a panel."""
        rows, position = padded_rows(panel)
        found = mean[rows]
        found[position < 0] = np.nan
        channels = None
        if experts is not None:
            channels = experts.coordinates(np.asarray(panel.values))[rows]
            channels[position < 0] = np.nan
        recorded = np.asarray(panel.values, float)[rows] if moments else None
        out = cls(model, found, position, experts, channels, moments, recorded)
        if experts is not None and experts.filled:
            series = np.split(np.asarray(panel.values), panel.offsets[1:-1])
            own = [experts.histories(values) for values in series]
            mean, errors = (np.concatenate(part, axis=-2) for part in zip(*own, strict=True))
            out.own, out.own_errors = mean[:, rows], (mean + errors)[:, :, rows]
        return out

    @property
    def latents(self) -> np.ndarray:
        """(S, T, d), NaN where nothing was observed."""
        return self.mean.swapaxes(0, 1)

    @cached_property
    def channel_predictions(self) -> np.ndarray:
        """Predictions (T, S, K, q) of the mechanisms of the channels."""
        assert self.experts is not None
        assert self.channels is not None
        found = self.experts.predict(self.channels, self.position, self.own)
        found[self.position < self.model.config.lags] = (
            np.nan
        )  # as long a warm-up as that of others
        return found

    def channel_errors(self, weights: np.ndarray) -> Iterator[np.ndarray]:
        """Yield possible errors (T, S, q) of their mixture with weights (T, S, K)."""
        assert self.experts is not None
        assert self.channels is not None
        return self.experts.errors(
            self.channels, self.position, self.channel_predictions, weights, self.own_errors
        )

    @cached_property
    def channel_doubt(self) -> np.ndarray:
        """Mean squares (T, S, q) of the possible errors of an even mixture.

        One that holds whatever alpha is: a stream does not know it yet.
        """
        predicted = self.channel_predictions
        kinds = predicted.shape[2]
        even = np.broadcast_to(1 / kinds, predicted.shape[:3])
        total, count = np.zeros(predicted[:, :, 0].shape), 0
        for error in self.channel_errors(even):
            total += error**2
            count += 1
        return total / count

    def features(
        self, name: str, support: TrainingSupport | None = None, means: np.ndarray | None = None
    ) -> Features:
        """Features of an observation model.

        Outside the support, predictions are shrunk towards the `means` (K, d) of the regimes.
        """
        kind, size = parse(name)
        if kind == "window_moments" and size in self.moments:
            assert self.recorded is not None
            found = self.moments[size].estimate(self.recorded, self.position, size)
            return Features(found.swapaxes(0, 1))
        if kind == "window_moments":  # of pictures, and of models stored before
            return Features(window_moments(self.mean, self.position, size).swapaxes(0, 1))
        if kind == "static":
            return Features(self.latents)
        if kind == CHANNELS:
            assert self.channels is not None
            assert self.experts is not None
            white = self.channels @ self.experts.axes
            parts = (white, self.channel_predictions, self.channel_doubt)
            return Features(*(part.swapaxes(0, 1) for part in parts))
        predicted = encoding.predict(self.model, self.mean, self.position, size)
        if support is not None and means is not None:
            lags = range(size, size + self.model.config.lags)
            support.shrink(predicted, means, self.mean, lags)
        if self.model.observable_subspace is not None:
            common = predicted.mean(axis=2, keepdims=True)
            predicted = common + (predicted - common) @ self.model.observable_subspace.T
        return Features(self.latents, predicted.swapaxes(0, 1))


#: Rows of padded series that are worked on at once: memory stays bounded.
GROUP_ROWS = 100_000
#: Stamps of two trials that differ by less than this share of a step are the same.
SAME_TIME = 0.01


@dataclass(frozen=True, eq=False)
class SeriesBatch:
    """Some series side by side, padded at the end; pooled ones share their information."""

    names: list[str]
    times: list[np.ndarray]
    elapsed: np.ndarray  # (S, T): usual steps since the row before
    encoded: EncodedSeries
    tested: Features  # of the tested observation model
    information: dict[str, GaussianInformation]  # by observation model
    used: tuple[str, ...]
    differ: Offsets | None = None  # of these recordings
    channels: np.ndarray | None = None  # (S, T, c) as recorded, NaN where nothing was
    channel_names: tuple[str, ...] = ()
    trials: int = 1

    @classmethod
    def of(
        cls,
        model: SequentialVAE,
        statistics: PureRegimeStatistics,
        panel: Panel,
        used: tuple[str, ...],
        step: float,
        *,
        causal: bool = False,
        keep: bool = False,
    ) -> SeriesBatch:
        """Encode a panel whose rows are usually `step` apart and apply the observation models.

        Unless the answer is causal, a window is assigned to its centre. `keep`: with the channels
        as recorded.
        """
        coded = encoding.encode(model, panel)
        names = dict.fromkeys([*used, statistics.tested.name])
        experts = statistics.experts if CHANNELS in names else None
        encoded = EncodedSeries.of_rows(model, panel, coded.mean, experts, statistics.moments)
        rows, real = crop_rows(panel.offsets[:-1], panel.lengths, int(panel.lengths.max()))
        excess = statistics.excess(coded.scale)
        channels = None
        if keep and len(panel.shape) == 1:
            recorded = panel.values if panel.recorded is None else panel.recorded
            channels = np.asarray(recorded, float)[rows]
            channels[~real] = np.nan
        information, differ = {}, None
        for name in names:
            observation = statistics.models[name]
            features = encoded.features(name, statistics.support, statistics.means)
            if name == CHANNELS and statistics.effects is not None and not causal:
                differ = statistics.effects.estimate(observation, features, statistics.seed)
                features = differ.added_to(features)
            inflation = observation.noise_inflation(excess)
            if inflation is not None:
                inflation = inflation[rows]
            found = observation.information(*features, inflation=inflation)
            information[name] = found.shift_back(0 if causal else centre_lag(name))
            if name == statistics.tested.name:
                tested = features
        return cls(
            names=[str(name) for name in panel.names],
            times=[panel.time_of(i) for i in range(len(panel))],
            elapsed=np.where(real, np.maximum(panel.steps() / step, 0.01)[rows], 1.0),
            encoded=encoded,
            tested=tested,
            information=information,
            used=used,
            differ=differ,
            channels=channels,
            channel_names=tuple(panel.channels),
        )

    @property
    def mean_latents(self) -> np.ndarray:
        """Latents of each answer, (S, T, d): averaged over the trials of a pool."""
        latents = self.encoded.latents
        return latents if self.trials == 1 else mean_of_known(latents)

    def observed(self, answer: int, recombination: np.ndarray) -> Observed:
        """View one series, or all trials of a pool, for the diagnosis."""
        steps = len(self.times[answer])
        mine = slice(answer, answer + 1) if self.trials == 1 else slice(None)
        return Observed(
            self.tested.values[mine, :steps],
            cast(np.ndarray, self.tested.predictions)[mine, :steps],
            self.elapsed[answer, :steps],
            recombination,
            self.encoded.latents[mine, :steps],
            None if self.channels is None else self.channels[mine, :steps],
            self.channel_names,
        )

    def corrected(self, statistics: PureRegimeStatistics, *names: str) -> GaussianInformation:
        """Information of these observation models together (all used, if none is named).

        The experts are recombined by the basis correction measured for this combination.
        """
        names = names or self.used
        parts = [self.information[name] for name in names]
        return sum(parts[1:], parts[0]).recombine(statistics.offsets[joined(names)].recombination)

    def pooled(self) -> SeriesBatch:
        """One answer for all series as trials of one schedule: their information is summed."""
        lengths = {len(time) for time in self.times}
        if len(lengths) > 1:
            raise DataError(
                f"series of {min(lengths)} to {max(lengths)} rows cannot be pooled",
                fix="pool only trials of equal length, aligned in time",
            )
        if any(_apart(time, self.times[0]) > SAME_TIME for time in self.times):
            raise DataError(
                "the series have different time stamps, so they cannot be pooled",
                fix="align the trials in time, for example by counting from each one's start",
            )
        return replace(
            self,
            names=["pooled"],
            times=self.times[:1],
            elapsed=self.elapsed[:1],
            information={name: part.pool() for name, part in self.information.items()},
            trials=len(self.names),
        )


def _apart(time: np.ndarray, other: np.ndarray) -> float:
    """Largest difference between time stamps, in steps."""
    if (time == other).all():
        return 0.0
    if len(other) < 2:
        return float("inf")
    return float(np.abs(time - other).max() / np.median(np.diff(other)))


def in_training_steps(panel: Panel, step: float | None) -> Panel:
    """Find gaps by the step of the training data; a panel with other steps is refused."""
    if step is None:
        return panel
    found = panel.usual_step
    if np.isfinite(found) and not 0.8 < found / step < 1.25:
        often = max(found / step, step / found)
        more, fix = "less", f"record as often, or fit at this rate: --rate {1 / found:g}"
        if found < step:
            more, fix = "more", f"resample to the rate of training: --rate {1 / step:g}"
        raise DataError(
            f"rows are {found:g} apart in time, in training they were {step:g} apart: they come"
            f" {often:.3g} times {more} often",
            where=panel.source,
            fix=f"{fix}; or use the same units of time",
        )
    return replace(panel, gap=1.5 * step) if panel.gap is None else panel


def groups(lengths: np.ndarray) -> Iterator[np.ndarray]:
    """Series of similar length, so that little is padded."""
    order = np.argsort(lengths, kind="stable")
    start = 0
    while start < len(order):
        stop = start + 1
        while stop < len(order) and (stop + 1 - start) * lengths[order[stop]] <= GROUP_ROWS:
            stop += 1
        yield order[start:stop]
        start = stop


def mean_of_known(values: np.ndarray, axis: int = 0) -> np.ndarray:
    """Mean over an axis, which stays with length one; NaN counts for nothing."""
    known = np.isfinite(values)
    total = np.where(known, values, 0.0).sum(axis=axis, keepdims=True)
    with np.errstate(invalid="ignore"):
        return total / known.sum(axis=axis, keepdims=True)
