"""Adapter: undo a shift and a rescaling of channels between training and use (CORAL)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.optimize import minimize

from ..errors import DataError
from ..io.frames import row_chunks
from .panel import Panel

#: A scale may differ from the ratio of the standard deviations by this factor. Where correlations
#: have changed sign, the CORAL loss alone would shrink a channel to zero.
MAX_RELATIVE_SCALE = 2.0


@dataclass(frozen=True, eq=False)
class Adapter:
    """x' = scale * x + shift per channel, by the CORAL loss (the paper's appendix E.6).

    Use it where sensors were exchanged, moved or recalibrated. Do *not* use it because a new
    recording merely looks different: a transition, or a recording of one regime only, has another
    mean and covariance for good reasons, which an adapter would remove. So fit it on many target
    recordings with the same mixture of regimes as the source (`source.select([...])` helps).
    Scales are positive: a channel whose sign has changed is not found.

    Attributes
    ----------
    channels : tuple of str
        Names of the p channels.
    scale, shift : ndarray
        (p,) each.
    loss_before, loss : float
        CORAL loss in units of the source's standard deviations; one that stays high means that
        something else than scales and shifts has changed.
    """

    channels: tuple[str, ...]
    scale: np.ndarray = field(repr=False)
    shift: np.ndarray = field(repr=False)
    loss_before: float
    loss: float

    @classmethod
    def fit(cls, source: Panel, target: Panel) -> Adapter:
        """Match the mean exactly, and the covariance as well as one scale per channel can.

        Parameters
        ----------
        source, target : Panel
            Recordings as in training, and those to adapt, with the same channels.

        Returns
        -------
        Adapter
            The fitted map.

        Raises
        ------
        DataError
            If the channels differ, or are pictures.
        """
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
        """Return the recordings of a panel in the units of the source."""
        _check_channels(self.channels, panel)
        kind = np.result_type(panel.values, np.float32)
        values = (panel.values * self.scale + self.shift).astype(kind)
        return replace(panel, values=values, recorded=None)


def _relative_scales(wanted: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Minimise |wanted - diag(r) found diag(r)|^2 over r > 0; both are correlation matrices."""

    def loss_and_gradient(log_r: np.ndarray) -> tuple[float, np.ndarray]:
        outer = np.exp(log_r[:, None] + log_r) * found
        error = wanted - outer
        return float((error**2).sum()), -4 * (error * outer).sum(axis=1)

    limits = [(-np.log(MAX_RELATIVE_SCALE), np.log(MAX_RELATIVE_SCALE))] * len(wanted)
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
