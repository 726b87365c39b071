"""Adapter: bring recordings from shifted or rescaled channels back to those of training.

The paper's optional step (appendix E.6): x' = s * x + b, one scale and one shift per channel, with
the CORAL loss between the covariances of the training data and of the adapted recordings.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.optimize import minimize

from .errors import DataError
from .frames import row_chunks
from .series import Panel

#: A scale may leave the ratio of the standard deviations by this factor. Where correlations have
#: turned round, the CORAL loss alone would rather silence a channel.
REACH = 2.0


@dataclass(frozen=True, eq=False)
class Adapter:
    """One scale and one shift per channel.

    Use it where sensors were exchanged, moved or recalibrated between training and use. Do *not*
    use it because a new recording merely looks different: a transition visits states that no pure
    regime has, and a recording may show one regime only; both move the mean and the covariance for
    good reasons, which an adapter would wipe out. So fit it on target recordings that show the
    same mixture of regimes as the source (`source.select([...])` helps), and rather on many.
    A channel whose sign was turned is not found: scales are positive. A `loss` that stays high
    says that scales and shifts are not what has changed.
    """

    channels: tuple[str, ...]
    scale: np.ndarray = field(repr=False)  # (p,)
    shift: np.ndarray = field(repr=False)  # (p,)
    loss_before: float  # CORAL loss, channels in units of the source's standard deviations
    loss: float

    @classmethod
    def fit(cls, source: Panel, target: Panel) -> Adapter:
        """Match the mean exactly, and the covariance as well as a scale per channel can."""
        if source.is_image or target.is_image:
            raise DataError("images have no channels to adapt", where=target.source)
        _check_channels(source.channels, target)
        wanted, found = _Moments.of(source), _Moments.of(target)
        # a constant channel has no scale to learn from: it is only shifted
        varies = (wanted.deviation > 0) & (found.deviation > 0)
        scale = np.ones(len(varies))
        own = np.where(wanted.deviation > 0, wanted.deviation, 1.0)
        scale[varies] = wanted.deviation[varies] / found.deviation[varies]
        scale[varies] *= _relative_scales(
            wanted.correlation[np.ix_(varies, varies)], found.correlation[np.ix_(varies, varies)]
        )

        def loss(s: np.ndarray) -> float:
            difference = wanted.covariance - s[:, None] * found.covariance * s
            return float(((difference / own / own[:, None]) ** 2).sum() / (4 * len(s) ** 2))

        return cls(
            channels=source.channels,
            scale=scale,
            shift=wanted.mean - scale * found.mean,
            loss_before=loss(np.ones(len(scale))),
            loss=loss(scale),
        )

    def apply(self, panel: Panel) -> Panel:
        """The same recordings in the channels of the source."""
        _check_channels(self.channels, panel)
        kind = np.result_type(panel.values, np.float32)
        values = (panel.values * self.scale + self.shift).astype(kind)
        return replace(panel, values=values)


def _relative_scales(wanted: np.ndarray, found: np.ndarray) -> np.ndarray:
    """The r > 0 that minimise |wanted - diag(r) found diag(r)|^2, from r = 1.

    Both are correlation matrices, so r stays near 1: the ratio of the standard deviations is the
    answer if the correlations agree, and else the off-diagonal entries have a say.
    """

    def loss_and_gradient(log_r: np.ndarray) -> tuple[float, np.ndarray]:
        outer = np.exp(log_r[:, None] + log_r) * found
        error = wanted - outer
        return float((error**2).sum()), -4 * (error * outer).sum(axis=1)

    limits = [(-np.log(REACH), np.log(REACH))] * len(wanted)
    start = np.zeros(len(wanted))
    best = minimize(loss_and_gradient, start, jac=True, method="L-BFGS-B", bounds=limits)
    return np.exp(best.x)


@dataclass(frozen=True, eq=False)
class _Moments:
    """Mean and covariance of the observed rows of a panel."""

    mean: np.ndarray  # (p,)
    covariance: np.ndarray  # (p, p)

    @classmethod
    def of(cls, panel: Panel) -> _Moments:
        seen = panel.observed()
        if seen.sum() < 2:
            raise DataError("fewer than two rows were observed", where=panel.source)
        blocks = [(rows, seen[rows]) for rows in row_chunks(panel.values)]
        count = seen.sum()
        mean = sum(panel.values[rows][keep].sum(axis=0, dtype=float) for rows, keep in blocks)
        mean = np.asarray(mean) / count
        covariance = np.zeros((len(mean), len(mean)))
        for rows, keep in blocks:  # a second sweep: the mean must be known to lose no digits
            centred = panel.values[rows][keep] - mean
            covariance += centred.T @ centred / count
        return cls(mean, covariance)

    @property
    def deviation(self) -> np.ndarray:
        """Standard deviations; 0 where a channel is constant but for rounding."""
        deviation = np.sqrt(np.diagonal(self.covariance))
        return np.where(deviation > 1e-7 * np.abs(self.mean), deviation, 0.0)

    @property
    def correlation(self) -> np.ndarray:
        """Correlations, 0 with a constant channel."""
        scale = np.where(self.deviation > 0, self.deviation, np.inf)
        return self.covariance / scale / scale[:, None]


def _check_channels(channels: tuple[str, ...], panel: Panel) -> None:
    if tuple(panel.channels) != tuple(channels):
        raise DataError(
            f"the channels are {list(panel.channels)}, not {list(channels)}",
            where=panel.source,
            fix="name the same channels in the same order",
        )
