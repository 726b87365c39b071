"""Online recovery: the causal answer row by row, in constant memory."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..errors import DataError
from ..stage1.vae import SequentialVAE
from ..vision.keypoint_frontend import KeypointFrontend, OnlineFrontend
from .inference import interval, nearest_on_simplex
from .information import GaussianInformation, SimplexCoordinates
from .kalman import GRID, LOG_2PI, KalmanFilter, average_over_process_noise
from .observation_models import ObservationModel, history_length
from .pure_statistics import PureRegimeStatistics
from .series_batch import EncodedSeries


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
        self.last_time: Any = None
        self.count = 0
        self.informed = False

    @torch.no_grad()
    def update(self, row: np.ndarray, time: Any = None) -> OnlineEstimate:
        """Filter step with one row; `push` is another name of this method.

        Parameters
        ----------
        row
            Values of the channels, or a picture; with a NaN the row counts as not observed.
        time
            Of the row, later than that of the row before. Without, rows are one step apart.

        Returns
        -------
        OnlineEstimate
            Given all rows so far.

        Raises
        ------
        DataError
            If the row has another shape than in training, or time does not increase.
        """
        row = np.asarray(row, dtype=np.float64)
        if row.shape != self.shape:
            raise DataError(f"a row of shape {row.shape} was given, the model reads {self.shape}")
        elapsed = self._elapsed(time)
        if self.frontend is not None:
            row = self.frontend.update(row).astype(np.float64)
        plane = self._evidence(row)
        found = self.filters.update(plane.A[:, :, :, None], plane.b[:, :, None], elapsed)
        self.quadratic += found.square + plane.offset + LOG_2PI * plane.dims
        average = average_over_process_noise(found, self.quadratic)
        alpha = nearest_on_simplex(plane, average)[:, 0, 0]
        variance = plane.variances(average.covariance)[:, 0, 0] + self.offsets.variance(alpha)
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

    def _elapsed(self, time: Any) -> float:
        """Usual steps since the row before; a gap clears the history of the encoder."""
        self.count += 1
        before, self.last_time = self.last_time, time
        if before is None or time is None:
            return 1.0
        gone = time - before
        seconds = gone / np.timedelta64(1, "s") if isinstance(gone, np.timedelta64) else gone
        if not seconds > 0:
            raise DataError(f"time went from {before} to {time}", fix="give rows in time order")
        steps = float(seconds) / self.step
        if steps > self.longest * (1 + 1e-9):
            self.rows.clear()
            self.latents.clear()
            if self.frontend is not None:
                self.frontend.reset()
        return max(steps, 0.01)

    def _evidence(self, row: np.ndarray) -> SimplexCoordinates:
        """Information of the newest row about alpha, given those before it."""
        scale = np.full((1, self.model.config.latents), np.nan)
        if np.isfinite(row).all():
            self.rows.append(torch.from_numpy(row))
            mean, log_scale = self.model.encode(torch.stack(list(self.rows))[None])
            self.latents.append(mean[0, -1].numpy())
            scale = log_scale[0, -1:].exp().numpy()
        else:
            self.rows.clear()
            self.latents.clear()
        steps = len(self.latents)
        past = np.array(self.latents).reshape(steps, 1, scale.shape[-1])
        encoded = EncodedSeries(self.model, past, np.arange(steps)[:, None])
        parts = [self._information(model, encoded, scale) for model in self.used]
        whole = sum(parts[1:], parts[0])
        return whole.recombine(self.offsets.recombination).simplex_coordinates

    def _information(
        self, model: ObservationModel, encoded: EncodedSeries, scale: np.ndarray
    ) -> GaussianInformation:
        if not len(encoded.position):
            kinds = (1, 1, *model.means.shape)
            return model.information(np.full((1, 1, kinds[-1]), np.nan), np.full(kinds, np.nan))
        values, predictions = encoded.features(
            model.name, self.statistics.support, self.statistics.means
        )
        inflation = model.noise_inflation(self.statistics.excess(scale))
        return model.information(
            values[:, -1:],
            None if predictions is None else predictions[:, -1:],
            None if inflation is None else inflation[None],
        )
