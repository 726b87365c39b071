"""Online recovery: the causal answer row by row, in constant memory."""

from __future__ import annotations

import math
import warnings
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import torch

from ..data.plausible import PlausibleRange
from ..errors import DataError, DataWarning
from ..io.cells import shown
from ..stage1.vae import SequentialVAE
from ..vision.keypoint_frontend import KeypointFrontend, OnlineFrontend
from .inference import interval, nearest_on_simplex
from .information import GaussianInformation, SimplexCoordinates
from .kalman import (
    GRID,
    LOG_2PI,
    KalmanFilter,
    average_over_process_noise,
)
from .mechanism_errors import mixing_variance
from .observation_models import CHANNELS, ObservationModel, history_length
from .pure_statistics import PureRegimeStatistics
from .series_batch import EncodedSeries


@dataclass(frozen=True)
class Stamp:
    """Time of a row as a number, or as a date in nanoseconds since 1970."""

    kind: str  # "a number", "a date" or "a date with a time zone"
    value: int | float
    given: Any

    @classmethod
    def of(cls, time: Any) -> Stamp:
        """Read a number, datetime, pandas.Timestamp or datetime64."""
        if isinstance(time, datetime | np.datetime64):
            import pandas as pd

            try:
                date = pd.Timestamp(time).as_unit("ns")
            except (ValueError, OverflowError) as error:
                what = f"the date {time} is outside the years 1678 to 2261"
                raise DataError(what, fix="give the time as numbers") from error
            if date is not pd.NaT:
                zoned = " with a time zone" if date.tzinfo is not None else ""
                return cls(f"a date{zoned}", date.value, time)
        elif isinstance(time, int | np.integer) and not isinstance(time, bool):
            return cls("a number", int(time), time)
        elif isinstance(time, float | np.floating) and math.isfinite(time):
            return cls("a number", float(time), time)
        fix = "give a finite number, datetime, pandas.Timestamp or datetime64"
        raise DataError(f"{shown(time)} is not a time", fix=fix)

    def since(self, before: Stamp | None) -> float | None:
        """Seconds or units of time since the row before, which must be earlier."""
        if before is None:
            return None
        if self.kind != before.kind:
            what = (
                f"the time {self.given} is {self.kind}, but that of the row before {before.kind}"
            )
            raise DataError(what, fix="use one kind of time in a stream")
        passed = self.value - before.value
        if not passed > 0:
            what = f"time went from {before.given} to {self.given}"
            raise DataError(what, fix="give rows in time order")
        return float(passed) if self.kind == "a number" else passed / 1e9


@dataclass(frozen=True, eq=False)
class OnlineEstimate:
    """Filtered estimate after one row."""

    time: Any  # of the row, or its number
    regimes: tuple[str, ...]
    alpha: np.ndarray  # (K,) share of each regime
    lower: np.ndarray
    upper: np.ndarray
    warm_up: bool  # no row has had a full history yet

    def __str__(self) -> str:
        shares = ", ".join(f"{n} {a:.2f}" for n, a in zip(self.regimes, self.alpha, strict=True))
        return f"{self.time}: {shares}"


class Stream:
    """Causal recovery row by row, in constant memory; see `Trace.stream`."""

    def __init__(
        self,
        model: SequentialVAE,
        statistics: PureRegimeStatistics,
        regimes: tuple[str, ...],
        step: float | None,
        level: float,
        frontend: KeypointFrontend | None = None,
        gap: float | None = None,
        plausible: PlausibleRange | None = None,
        channels: Sequence[str] = (),
    ) -> None:
        self.model, self.regimes, self.level = model, regimes, level
        self.step = 1.0 if step is None else step
        self.longest = 1.5 if gap is None else gap / self.step  # steps that continue the past
        self.statistics = statistics
        self.shape = model.shape if frontend is None else frontend.size
        self.frontend = None if frontend is None else OnlineFrontend(frontend)
        self.used, self.offsets = statistics.combination(None)
        # one filter for each process noise, side by side
        self.filters = KalmanFilter(len(regimes) - 1, 10.0 ** GRID[:, None])
        self.quadratic = np.zeros((1, len(GRID), 1))
        self.rows: deque[torch.Tensor] = deque(maxlen=int(model.encoder.reach) + 1)  # type: ignore[arg-type]
        reach = max(history_length(used.name, model.config.lags) for used in self.used)
        self.latents: deque[np.ndarray] = deque(maxlen=reach + 1)
        self.coordinates: deque[np.ndarray] = deque(maxlen=reach + 1)
        self.recorded: deque[np.ndarray] = deque(maxlen=reach + 1)
        self.experts = None
        if CHANNELS in [used.name for used in self.used]:
            self.experts = statistics.experts
        self.rescaling = model.rescaling()
        self.plausible, self.channels = plausible, channels
        self.implausible = np.zeros(0, int)  # channels of the row before
        self.last_time: Stamp | None = None
        self.count = 0
        self.informed = False

    @torch.no_grad()
    def update(self, row: np.ndarray, time: Any = None) -> OnlineEstimate:
        """Filter step with one row; `push` is another name of this method.

        Parameters
        ----------
        row
            Values of the channels, or a picture; with a NaN, or a value that is no plausible
            measurement (a DataWarning names it), the row counts as not observed.
        time
            Of the row, later than that of the row before: a number, or a date as datetime,
            pandas.Timestamp or datetime64. Without, rows are one step apart.

        Returns
        -------
        OnlineEstimate
            Given all rows so far.

        Raises
        ------
        DataError
            If the row has another shape than in training, or time does not increase. The stream
            is then as if the row had not been given.
        """
        row, stamp = self._numbers(row), None if time is None else Stamp.of(time)
        seconds = None if stamp is None else stamp.since(self.last_time)
        # nothing below refuses the row
        row = self._plausible(row, time)
        elapsed = self._elapsed(stamp, seconds)
        if self.frontend is not None:
            row = self.frontend.update(row).astype(np.float64)
        encoded, scale = self._encode(row)
        plane = self._evidence(encoded, scale)
        found = self.filters.update(plane.A[:, :, :, None], plane.b[:, :, None], elapsed)
        self.quadratic += found.square + plane.offset + LOG_2PI * plane.dims
        average = average_over_process_noise(found, self.quadratic)
        alpha = nearest_on_simplex(plane, average)[:, 0, 0]
        variance = plane.variances(average.covariance)[:, 0, 0] + self.offsets.variance(alpha)
        variance += mixing_variance(alpha, self.statistics)
        mean = plane.weights(average.mean)[:, 0, 0]
        lower, upper = interval(mean, variance, self.level, simplex=True)
        self.informed = self.informed or bool(plane.dims.any())
        return OnlineEstimate(
            time if time is not None else self.count - 1,
            self.regimes,
            alpha,
            np.minimum(lower, alpha),
            np.maximum(upper, alpha),
            not self.informed,
        )

    push = update

    def _numbers(self, row: Any) -> np.ndarray:
        """Return a copy of a row as numbers of the shape that the model reads."""
        try:
            numbers = np.array(row, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            what = f"the row {shown(row)} does not consist of numbers"
            raise DataError(what, fix="give one number for each channel") from error
        if numbers.shape != self.shape:
            what = f"a row of shape {numbers.shape} was given, the model reads {self.shape}"
            raise DataError(what, fix="give the channels of the fit, in their order")
        return numbers

    def _plausible(self, row: np.ndarray, time: Any) -> np.ndarray:
        """Empty the cells that are no measurements; a channel is named when that begins."""
        if self.plausible is None:
            return row
        outside = self.plausible.outside(row)
        found = np.flatnonzero(outside)
        place = f"stream, row {self.count}" + ("" if time is None else f", time {time}")
        for number in np.setdiff1d(found, self.implausible)[: 1 if row.ndim > 1 else None]:
            name = self.channels[0 if row.ndim > 1 else number]
            text = self.plausible.warning(place, name, int(number), float(row.flat[number]))
            warnings.warn(text, DataWarning, stacklevel=3)
        self.implausible = found
        row[outside] = np.nan
        return row

    def _elapsed(self, stamp: Stamp | None, seconds: float | None) -> float:
        """Usual steps since the row before; a gap clears the history of the encoder."""
        self.count += 1
        self.last_time = stamp
        if seconds is None:
            return 1.0
        steps = seconds / self.step
        if steps > self.longest * (1 + 1e-9):
            self.rows.clear()
            self.latents.clear()
            self.coordinates.clear()
            self.recorded.clear()
            if self.frontend is not None:
                self.frontend.reset()
        return max(steps, 0.01)

    def _encode(self, row: np.ndarray) -> tuple[EncodedSeries, np.ndarray]:
        """Latents of the last rows, and the encoder's deviations (1, d) at the newest."""
        scale = np.full((1, self.model.config.latents), np.nan)
        if np.isfinite(row).all():
            scaled = row if self.rescaling is None else self.rescaling(row)
            self.rows.append(torch.from_numpy(scaled))
            mean, log_scale = self.model.encode(torch.stack(list(self.rows))[None])
            self.latents.append(mean[0, -1].numpy())
            scale = log_scale[0, -1:].exp().numpy()
            if self.experts is not None:
                self.coordinates.append(self.experts.coordinates(row))
            if self.statistics.moments:
                self.recorded.append(row)
        else:
            self.rows.clear()
            self.latents.clear()
            self.coordinates.clear()
            self.recorded.clear()
        steps = len(self.latents)
        past = np.array(self.latents).reshape(steps, 1, scale.shape[-1])
        channels = None
        if self.experts is not None:
            channels = np.array(self.coordinates).reshape(
                steps, 1, self.experts.projection.shape[1]
            )
        position, moments = np.arange(steps)[:, None], self.statistics.moments
        recorded = np.array(self.recorded).reshape(steps, 1, -1) if moments and steps else None
        encoded = EncodedSeries(
            self.model, past, position, self.experts, channels, moments, recorded
        )
        return encoded, scale

    def _evidence(self, encoded: EncodedSeries, scale: np.ndarray) -> SimplexCoordinates:
        """Information of the newest row about alpha, given those before it."""
        parts = [self._information(model, encoded, scale) for model in self.used]
        whole = sum(parts[1:], parts[0])
        return whole.recombine(self.offsets.recombination).simplex_coordinates

    def _information(
        self, model: ObservationModel, encoded: EncodedSeries, scale: np.ndarray
    ) -> GaussianInformation:
        if not len(encoded.position):
            kinds = (1, 1, *model.means.shape)
            return model.information(np.full((1, 1, kinds[-1]), np.nan), np.full(kinds, np.nan))
        features = encoded.features(model.name, self.statistics.support, self.statistics.means)
        inflation = model.noise_inflation(self.statistics.excess(scale))
        return model.information(
            *(None if part is None else part[:, -1:] for part in features),  # type: ignore[arg-type]
            inflation=None if inflation is None else inflation[None],
        )
