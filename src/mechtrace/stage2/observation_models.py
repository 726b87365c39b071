"""Observation models: what a recording shows about alpha_t, each with its own noise.

Each reads y_t = M_t alpha_t + e_t, e_t ~ N(0, R), with one column of M_t per regime:

- `prediction(h)`: y is the latent, M the experts' means given the history h steps back;
- `channels`: y are the channels, M the predictions of `channel_experts`;
- `static`: y is the latent, M the mean latents of the regimes (the paper's evidence);
- `window_moments(w)`: y is the mean, log standard deviation and log standard deviation of the
  steps of the latents over the last w rows, M their means in each regime (gait, vibration).

R is measured on held-out series of pure regimes around the mean error of each series, whose
constant part is left to `corrections`. Information is divided by the autocorrelation time of
the errors, so that the sampling rate does not matter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import fft
from scipy.optimize import brentq
from scipy.stats import chi2

from ..errors import ConfigError
from .channel_experts import MEMBER_LAGS
from .information import GaussianInformation

#: Share of the pure rows inside a limit, and factor on the squared distance of that quantile.
WITHIN, MARGIN = 0.999, 1.5
#: The observation model that every fit has.
PLAIN = "prediction(1)"
#: The observation model of the channels themselves, which most fits have.
CHANNELS = "channels"
#: Kinds that predict from the history: mechanisms, and not levels.
MECHANISMS = ("prediction", CHANNELS)
HORIZONS = (1, 2, 4, 8)
WINDOWS = (8, 16, 32)
#: Names of earlier versions.
FORMER = {"conditional": "prediction", "moments": "window_moments"}
#: Excess variance of the encoder, relative to the noise, below which it is ignored.
NEGLIGIBLE_EXCESS = 0.2
#: Lower bound of the degrees of freedom: one outlier shall not hide all others.
LEAST_FREEDOM = 0.25
#: Autocorrelations up to this are zero but for rounding.
ROUNDING = 1e-12


def canonical(name: str) -> str:
    """Name of one or several joined observation models; former names are translated.

    >>> canonical("moments(0.5s)"), canonical("conditional(2) + static")
    ('window_moments(0.5s)', 'prediction(2) + static')
    """
    return re.sub(r"\b(conditional|moments)\(", lambda f: f"{FORMER[f[1]]}(", name.strip())


def parse(name: str) -> tuple[str, int]:
    """Kind and size of an observation model.

    >>> parse("prediction(2)"), parse("static")
    (('prediction', 2), ('static', 0))
    """
    found = re.fullmatch(
        r"(prediction|window_moments)\(([1-9]\d*)\)|(static|channels)", canonical(name)
    )
    if not found:
        raise ConfigError(
            f"{name!r} is not a kind of evidence",
            fix="use channels, prediction(1), static or window_moments(16), or other numbers of"
            " steps",
        )
    return (found[3], 0) if found[3] else (found[1], int(found[2]))


def in_steps(name: str, step: float | None) -> str:
    """Canonical name, with a size in seconds converted to steps of that length.

    >>> in_steps("window_moments(0.5s)", 0.04), in_steps("static", 0.04)
    ('window_moments(12)', 'static')
    """
    name = canonical(name)
    found = re.fullmatch(r"(\w+)\((\d*\.?\d+)s\)", name)
    if not found:
        return name
    return f"{found[1]}({max(1, round(float(found[2]) / (step or 1.0)))})"


def candidates(lags: int, steps: int) -> list[str]:
    """Observation models to try on series of so many steps."""
    horizons = [h for h in HORIZONS if h == 1 or 4 * (h + lags) <= steps]
    windows = [w for w in WINDOWS if 3 * w <= steps]
    names = [f"prediction({h})" for h in horizons]
    return [*names, "static", *(f"window_moments({w})" for w in windows)]


def history_length(name: str, lags: int) -> int:
    """Count the latents before the present one that the observation model needs."""
    kind, size = parse(name)
    of_kind = {"prediction": lags + size - 1, "static": 0, "window_moments": size - 1}
    return max(MEMBER_LAGS) if kind == CHANNELS else of_kind[kind]


def centre_lag(name: str) -> int:
    """Count the steps from the centre of a window to its end; 0 for models of one latent.

    An offline answer assigns a window to its centre.
    """
    kind, size = parse(name)
    return (size - 1) // 2 if kind == "window_moments" else 0


class Features(NamedTuple):
    """Values y (S, T, p) of an observation model and, if it predicts, its M (S, T, K, p).

    `doubt` (S, T, p) are the mean squares of its possible errors, if these are known.
    """

    values: np.ndarray
    predictions: np.ndarray | None = None
    doubt: np.ndarray | None = None

    def of_series(self, rows: np.ndarray) -> Features:
        """These series."""
        return Features(*(None if one is None else one[rows] for one in self))  # type: ignore[arg-type]

    def of_steps(self, steps: slice) -> Features:
        """These steps of all series."""
        return Features(*(None if one is None else one[:, steps] for one in self))  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class ObservationModel:
    """y = M alpha + e, e ~ N(0, R), with figures from held-out pure series."""

    name: str
    means: np.ndarray  # (K, p): mean of y in each regime; M of models that do not predict
    noise: np.ndarray  # (p, p): R, covariance of the errors within a series
    autocorrelation_time: float  # of the errors, in steps
    limit: float = np.inf  # quantile of the root mean square of whitened errors, if known

    @classmethod
    def measure(
        cls, name: str, values: np.ndarray, predictions: np.ndarray | None, regime: np.ndarray
    ) -> ObservationModel:
        """Estimate from n pure series of known regime (n,).

        `values` (n, T, p) are y, `predictions` (n, T, K, p) M of a model that predicts; both are
        padded with NaN.
        """
        kinds = int(regime.max()) + 1
        known = known_steps(values, predictions)
        means = np.stack([values[known & (regime == k)[:, None]].mean(0) for k in range(kinds)])
        if predictions is None:
            own = means[regime][:, None]
        else:
            own = np.take_along_axis(predictions, regime[:, None, None, None], axis=2)[:, :, 0]
        error = np.where(known[..., None], values - own, 0.0)
        whole = error[known]
        count = known.sum(axis=1)
        centre = error.sum(axis=1) / np.maximum(count, 1)[:, None]
        error = np.where(known[..., None], error - centre[:, None], 0.0)
        freedom = max(int(count.sum() - (count > 0).sum()), 1)
        flat = error.reshape(-1, error.shape[-1])
        noise = flat.T @ flat / freedom
        time = _autocorrelation_time(error, known)
        # shrink towards the diagonal where few independent steps are behind the covariance
        weight = freedom / (freedom + len(noise) * time)
        noise = weight * noise + (1 - weight) * np.diag(np.diag(noise))
        floor = 1e-6 * np.trace(noise) / len(noise) + 1e-12
        noise = noise + floor * np.eye(len(noise))
        return cls(name, means, noise, time, _limit(whole, noise))

    @property
    def predicts(self) -> bool:
        """Whether M depends on the history; else it is `means`."""
        return parse(self.name)[0] in MECHANISMS

    @property
    def degrees_of_freedom(self) -> float:
        """Of a chi-squared law with the tail of the squared errors of pure series.

        At most p. The excess of the tail is measured on few series, so it is widened by `MARGIN`.
        """
        p = float(len(self.noise))

        def bound(freedom: float) -> float:
            return float(chi2.isf(1 - WITHIN, freedom)) / freedom

        usual = self.limit**2
        if not bound(p) < usual < np.inf:
            return p
        wanted = bound(p) + MARGIN * (usual - bound(p))
        if bound(LEAST_FREEDOM) <= wanted:
            return LEAST_FREEDOM
        return float(brentq(lambda freedom: bound(freedom) - wanted, LEAST_FREEDOM, p))

    @property
    def outlier_residual(self) -> float:
        """Residual beyond which a step is unlike all pure series."""
        return float(np.sqrt(MARGIN) * self.limit)

    def noise_inflation(self, excess: np.ndarray) -> np.ndarray | None:
        """Factor (rows,) on R where the variance of the encoder exceeds its usual one.

        `excess` is (rows, d). None where no factor is needed, and for models of other values.
        """
        if parse(self.name)[0] not in ("prediction", "static"):
            return None
        more = (excess / np.diagonal(self.noise)).mean(axis=-1)
        unusual = more > NEGLIGIBLE_EXCESS
        return np.where(unusual, 1 + more, 1.0) if unusual.any() else None

    def certainty(self, doubt: np.ndarray | None) -> np.ndarray | float:
        """Factor (S, T, p) on values and predictions that makes their noise R again.

        `doubt` (S, T, p) are mean squares of possible errors of the predictions.
        """
        if doubt is None:
            return 1.0
        return 1 / np.sqrt(1 + np.nan_to_num(doubt) / np.diagonal(self.noise))

    def information(
        self,
        values: np.ndarray,
        predictions: np.ndarray | None = None,
        doubt: np.ndarray | None = None,
        *,
        inflation: np.ndarray | None = None,
    ) -> GaussianInformation:
        """Information about alpha, divided by the autocorrelation time.

        `values` (S, T, p) are y, NaN where unknown, `predictions` (S, T, K, p) M of a model that
        predicts, `doubt` (S, T, p) mean squares of its possible errors, `inflation` (S, T) is a
        factor on R at each step.
        """
        precision = np.linalg.inv(self.noise)
        if predictions is None:
            found = GaussianInformation.from_constant_means(self.means, values, precision)
        elif doubt is None:
            found = GaussianInformation.from_predictions(predictions, values, precision)
        else:
            sure = np.asarray(self.certainty(doubt))
            found = GaussianInformation.from_predictions(
                predictions * sure[:, :, None], values * sure, precision
            )
            more = np.where(found.dims > 0, -2 * np.log(sure).sum(axis=-1).T, 0.0)
            found = replace(found, offset=found.offset + more, log_det=found.log_det + more)
        if inflation is not None:
            found = found.inflate_noise(inflation)
        return found.power(1 / self.autocorrelation_time)


def known_steps(values: np.ndarray, predictions: np.ndarray | None) -> np.ndarray:
    """Find the steps (n, T) with values and, if there are any, predictions."""
    known = np.isfinite(values).all(-1)
    return known if predictions is None else known & np.isfinite(predictions).all((-2, -1))


def _limit(errors: np.ndarray, noise: np.ndarray) -> float:
    """Quantile of the root mean square of whitened errors (n, p), offsets of series included."""
    if not len(errors):
        return np.inf
    squares = np.einsum("ni,ij,nj->n", errors, np.linalg.inv(noise), errors) / len(noise)
    return float(np.sqrt(np.quantile(squares, WITHIN)))


def _autocorrelation_time(error: np.ndarray, known: np.ndarray) -> float:
    """1 + 2 sum of autocorrelations up to the first that is not positive."""
    scale = np.sqrt((error**2).sum(axis=(0, 1)) / max(known.sum(), 1))
    white = error / np.where(scale > 0, scale, 1.0)
    product = sum((_lag_products(one) for one in np.moveaxis(white, -1, 0)), np.zeros(1))
    pairs = np.rint(_lag_products(known.astype(float)))
    mean = np.where(pairs > 0, product, 0.0) / np.maximum(pairs, 1)
    ends = np.flatnonzero(~(mean > ROUNDING * mean[0]))
    return 1.0 + 2 * float(mean[1 : ends[0] if len(ends) else None].sum() / (mean[0] or 1.0))


def _lag_products(values: np.ndarray) -> np.ndarray:
    """Sum x_t x_{t+lag} over all series (n, T), for each lag (T,)."""
    steps = values.shape[1]
    size = fft.next_fast_len(2 * steps - 1, real=True)
    power = (np.abs(fft.rfft(values, size, axis=1)) ** 2).sum(axis=0)
    return np.asarray(fft.irfft(power, size)[:steps])


@dataclass(frozen=True, eq=False)
class TrainingSupport:
    """Ellipsoid |(z - centre) root|^2 <= limit in which the latents of labelled series ran."""

    centre: np.ndarray  # (d,)
    root: np.ndarray  # (d, d): (z - centre) @ root has unit covariance
    limit: float

    @classmethod
    def of(cls, latents: np.ndarray) -> TrainingSupport:
        """From latents (n, d)."""
        centre = latents.mean(axis=0)
        covariance = np.atleast_2d(np.cov(latents.T)) if len(latents) > 1 else np.eye(len(centre))
        floor = 1e-9 * np.trace(covariance) / len(covariance) + 1e-12
        root = np.linalg.cholesky(np.linalg.inv(covariance + floor * np.eye(len(covariance))))
        distance = (((latents - centre) @ root) ** 2).sum(axis=1)
        return cls(centre, root, MARGIN * float(np.quantile(distance, WITHIN)))

    def trust(self, latents: np.ndarray) -> np.ndarray:
        """Weight of predictions at latents (..., d): 1 inside, sqrt(limit) / distance outside."""
        distance = (((latents - self.centre) @ self.root) ** 2).sum(axis=-1)
        with np.errstate(divide="ignore"):
            return np.minimum(1.0, np.sqrt(self.limit / distance))

    def shrink(
        self, predicted: np.ndarray, means: np.ndarray, latents: np.ndarray, lags: range
    ) -> None:
        """Shrink predictions (T, S, K, d) towards the regimes' means (K, d), in place.

        By the lowest `trust` among the latents (T, S, d) `lags` steps before.
        """
        if not np.isfinite(self.limit):
            return
        with np.errstate(invalid="ignore"):
            trust = self.trust(latents)
        lowest = np.ones(trust.shape)
        for lag in lags:
            np.fmin(lowest[lag:], trust[:-lag], out=lowest[lag:])
        where = lowest < 1
        share = lowest[where][:, None, None]
        predicted[where] = means + share * (predicted[where] - means)

    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays for storage."""
        parts = {"centre": self.centre, "root": self.root, "limit": np.asarray(self.limit)}
        return {f"support/{name}": value for name, value in parts.items()}

    @classmethod
    def from_arrays(cls, stored: dict[str, np.ndarray]) -> TrainingSupport:
        """From stored arrays."""
        limit = float(stored["support/limit"])
        return cls(stored["support/centre"], stored["support/root"], limit)
