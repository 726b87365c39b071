"""Row by row, in constant memory: the causal answer as the data arrives."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .errors import DataError
from .eye import Eye, Glance
from .model import SequentialVAE
from .recover.blocks import Block, memory
from .recover.engine import interval, nearest_on_simplex
from .recover.evidence import Evidence, Plane
from .recover.reference import Reference
from .recover.statespace import DRIFTS, LOG_2PI, Estimate, Filter, Moments, drift_shares
from .seen import Encoded


@dataclass(frozen=True, eq=False)
class Now:
    """The answer after one row."""

    time: Any
    regimes: tuple[str, ...]
    alpha: np.ndarray  # (K,)
    lower: np.ndarray
    upper: np.ndarray
    warm_up: bool  # no evidence has been seen yet

    def __str__(self) -> str:
        shares = ", ".join(f"{n} {a:.2f}" for n, a in zip(self.regimes, self.alpha, strict=True))
        return f"{self.time}: {shares}"


class Stream:
    """Feed rows with `push`; each returns the answer given all rows so far."""

    def __init__(
        self,
        model: SequentialVAE,
        reference: Reference,
        regimes: tuple[str, ...],
        step: float | None,
        level: float,
        eye: Eye | None = None,
    ) -> None:
        self.model, self.regimes, self.level = model, regimes, level
        self.step = 1.0 if step is None else step
        self.reference = reference
        self.shape = model.shape if eye is None else eye.size
        self.glance = None if eye is None else Glance(eye)
        self.used, self.offsets = reference.combination(None)
        m = len(regimes) - 1
        self.filters = Filter(m, len(DRIFTS), DRIFTS)  # one for each drift, side by side
        self.log_likelihood = np.zeros(len(DRIFTS))
        self.rows: deque[torch.Tensor] = deque(maxlen=int(model.encoder.reach) + 1)  # type: ignore[arg-type]
        reach = max(memory(block.name, model.config.lags) for block in self.used)
        self.latents: deque[np.ndarray] = deque(maxlen=reach + 1)
        self.last_time: Any = None
        self.count = 0
        self.seen = False

    @torch.no_grad()
    def push(self, row: np.ndarray, time: Any = None) -> Now:
        """Take one row of channels, or a picture; NaN in it: the row was not observed."""
        row = np.asarray(row, dtype=np.float64)
        if row.shape != self.shape:
            raise DataError(f"a row of shape {row.shape} was pushed, the model reads {self.shape}")
        elapsed = self._elapsed(time)
        if self.glance is not None:
            row = self.glance.see(row).astype(np.float64)
        plane = self._evidence(row)
        A, b = plane.A[0, 0][:, :, None], plane.b[0, 0][:, None]
        squares, log_det = self.filters.step(A, b, elapsed)
        constant = plane.offset[0, 0] + LOG_2PI * plane.dims[0, 0]
        self.log_likelihood -= 0.5 * (squares + log_det + constant)
        average = Moments()
        for i, share in enumerate(drift_shares(self.log_likelihood)):
            if share:
                one = slice(i, i + 1)
                average.add(
                    share[None], self.filters.mean[:, one], self.filters.covariance[:, :, one]
                )
        mean, covariance = average.result()
        estimate = Estimate(mean.T[:, None], covariance.transpose(2, 0, 1)[:, None])
        alpha = nearest_on_simplex(plane, estimate)[0, 0]
        more = self.offsets.variance(alpha)
        lower, upper = interval(plane, estimate, self.level, simplex=True, more=more)
        self.seen = self.seen or bool(plane.dims[0, 0])
        return Now(
            time if time is not None else self.count - 1,
            self.regimes,
            alpha,
            np.minimum(lower[0, 0], alpha),
            np.maximum(upper[0, 0], alpha),
            not self.seen,
        )

    def _elapsed(self, time: Any) -> float:
        """Usual steps since the row before; over a gap the past is forgotten by the encoder."""
        self.count += 1
        before, self.last_time = self.last_time, time
        if before is None or time is None:
            return 1.0
        gone = time - before
        seconds = gone / np.timedelta64(1, "s") if isinstance(gone, np.timedelta64) else gone
        if not seconds > 0:
            raise DataError(f"time went from {before} to {time}", fix="push rows in time order")
        steps = float(seconds) / self.step
        if steps > 1.5 * (1 + 1e-9):
            self.rows.clear()
            self.latents.clear()
            if self.glance is not None:
                self.glance.forget()
        return max(steps, 0.01)

    def _evidence(self, row: np.ndarray) -> Plane:
        """What the newest row says of alpha, given those before it."""
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
        encoded = Encoded(self.model, past, np.arange(steps)[:, None])
        parts = [self._of_block(block, encoded, scale) for block in self.used]
        whole = sum(parts[1:], parts[0])
        return whole.stacked(self.offsets.stacking).on_plane()

    def _of_block(self, block: Block, encoded: Encoded, scale: np.ndarray) -> Evidence:
        if not len(encoded.position):
            kinds = (1, 1, *block.means.shape)
            return block.evidence(np.full((1, 1, kinds[-1]), np.nan), np.full(kinds, np.nan))
        seen = encoded.see(block.name, self.reference.support, self.reference.means)
        expected = None if seen.expected is None else seen.expected[-1:]
        widen = block.widening(self.reference.excess(scale))
        return block.evidence(seen.values[-1:], expected, None if widen is None else widen[None])
