"""What each sensor does in each labelled recording: level, fast part, spectrum, responses.

None of it knows the regimes: what compares them (`regime_differences`) may exchange labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.signal import find_peaks
from scipy.stats import chi2
from scipy.stats import t as student

#: Rows of the moving average whose remainder is the fast part, at most.
FAST_ROWS = 15
#: Rows of a segment of a spectrum at least and at most, and share of the runs that are shorter.
SEGMENT_ROWS, SHORT = (32, 512), 0.1
#: Lowest frequency of a rhythm, in cycles per segment: slower ones cannot be told from drift.
SLOWEST = 2
#: Error probability of a peak, or of a response, over all that are looked at.
CHANCE = 0.01
#: A clear peak rises at least by this factor, and holds this share of the variance in an octave.
RISE, SHARE = 2.0, 0.1
#: Lags of responses at most, and autoregressive order by which sensors are whitened.
LAGS, ORDER = 40, 5
#: Sensors and pairs of which responses are measured, at most.
RESPONDING, PAIRS = 16, 30
#: A response is this factor clearer than the one the other way, and lasts while it is so many
#: standard errors high; its sum is so many high.
ONE_WAY, NOISE, SURE = 1.5, 2.0, 4.0
#: Share of a response in the last quarter of the lags, beyond which it may go on after them.
LATE = 0.1
#: Spread below this share of a sensor's usual one is none.
LEAST = 1e-3


@dataclass(frozen=True, eq=False)
class RecordingFeatures:
    """Features of n recordings of c sensors."""

    level: np.ndarray  # (n, c) medians
    spread: np.ndarray  # (n, c) log standard deviations of the fast part
    spectrum: np.ndarray  # (n, bins, c) shares of the variance; NaN where too short; may be empty
    segments: np.ndarray  # (n,) behind each spectrum
    covariance: np.ndarray  # (n, lags, s, s): [l, i, j] of i at t - l with j at t
    rows: float  # of a run, on average
    responding: np.ndarray  # (s,) sensors of `covariance`

    @classmethod
    def measure(cls, runs: Sequence[np.ndarray], recording: np.ndarray) -> RecordingFeatures:
        """From unbroken runs (T, c) and the number of the recording (0 ... n - 1) of each."""
        length = np.array([len(run) for run in runs])
        usual = int(np.median(length))
        scale = np.sqrt(np.mean([run.var(axis=0) for run in runs], axis=0))
        scale = np.where(scale > 0, scale, 1.0)
        fast = max(3, min(FAST_ROWS, usual // 2) // 2 * 2 + 1)
        segment = min(int(np.quantile(length, SHORT)), SEGMENT_ROWS[1]) // 2 * 2
        lags = max(0, min(LAGS, usual // 4))
        spectra = [_spectrum(run / scale, segment) for run in runs]
        centred = [(run - run.mean(axis=0)) / scale for run in runs]
        responding = _related([np.diff(run, axis=0) for run in centred])
        covariances = [_lagged(run[:, responding], lags + ORDER) for run in centred]

        def mean(values: Sequence[np.ndarray], weight: np.ndarray) -> np.ndarray:
            """Weighted mean (n, ...) over the runs of each recording; NaN where all weigh zero."""
            first = np.asarray(values[0])
            total = np.zeros((int(recording.max()) + 1, *first.shape))
            for number, value, one in zip(recording, values, weight, strict=True):
                total[number] += one * value
            all_weights = np.bincount(recording, weight)
            with np.errstate(invalid="ignore", divide="ignore"):
                return total / all_weights.reshape(-1, *[1] * first.ndim)

        segments = np.array([count for _, count in spectra])
        return cls(
            level=mean([np.median(run, axis=0) for run in runs], length),
            spread=mean(
                [np.log(_fast_deviation(run, fast) + LEAST * scale) for run in runs], length
            ),
            spectrum=mean([share for share, _ in spectra], segments),
            segments=np.bincount(recording, segments),
            covariance=mean(covariances, length),
            rows=float(length.mean()),
            responding=responding,
        )

    def peaks(self, chosen: np.ndarray) -> np.ndarray:
        """Frequency (c,) of the clearest peak in cycles per row, 0 without one.

        Of the mean over recordings by a mask (n,).
        """
        mine = chosen & (self.segments > 0)
        if not self.spectrum.shape[1] or not mine.any():
            return np.zeros(self.level.shape[1])
        mean, count = self.spectrum[mine].mean(axis=0), int(self.segments[mine].sum())
        return np.array([_peak(one, count, mean.shape[1]) for one in mean.T])

    def rhythm(self, frequency: np.ndarray) -> np.ndarray:
        """Centroid of log frequency around peaks (c,), and log power there: (n, 2 c).

        Zero for sensors without a peak; NaN for recordings too short for a spectrum.
        """
        out = np.zeros((len(self.level), 2, len(frequency)))
        bins = self.spectrum.shape[1]
        grid = np.arange(bins) / max(2 * (bins - 1), 1)
        for sensor in np.flatnonzero(frequency):
            octaves = np.abs(np.log2(np.maximum(grid, 1e-12) / frequency[sensor]))
            power = self.spectrum[:, octaves <= 1, sensor] + 1e-12
            centre = power @ np.log(grid[octaves <= 1]) / power.sum(axis=1)
            near = np.log(self.spectrum[:, octaves <= 0.5, sensor].sum(axis=1) + LEAST)
            out[:, 0, sensor], out[:, 1, sensor] = centre, near
        return out.reshape(len(out), -1)

    @cached_property
    def responses(self) -> Responses:
        """Responses between sensors that are clear over all recordings."""
        return Responses.of(self.covariance, self.responding, self.rows)


@dataclass(frozen=True, eq=False)
class Responses:
    """Impulse responses of m pairs of sensors to unexpected changes, in n recordings."""

    pairs: np.ndarray  # (m, 2) sensors: cause, and what follows
    sign: np.ndarray  # (m,)
    impulse: np.ndarray  # (n, m, lags) times the sign

    @classmethod
    def of(cls, covariance: np.ndarray, sensors: np.ndarray, rows: float) -> Responses:
        """From covariances (n, lags, s, s) around means of `rows` rows.

        Both sensors are filtered so that the first is white (Box and Jenkins); the last `ORDER`
        lags serve the filter.
        """
        n, lags, s = covariance.shape[:3]
        lags -= ORDER
        none = cls(np.zeros((0, 2), int), np.zeros(0), np.zeros((n, 0, max(lags, 1))))
        if lags < 2 or n < 2 or s < 2:
            return none
        both_ways = np.concatenate([covariance[:, :0:-1].transpose(0, 1, 3, 2), covariance], 1)
        impulse = np.empty((n, 2 * lags - 1, s, s))
        pooled, middle = both_ways.mean(axis=0), lags + ORDER - 1
        for i in range(s):
            kernel = _whitening(pooled[middle : middle + ORDER + 1, i, i])
            kernel = np.correlate(kernel, kernel, "full")  # of the filter on both sides
            windows = sliding_window_view(both_ways[:, :, i], len(kernel), axis=1)
            impulse[:, :, i] = windows @ kernel
        # around its own mean a run loses 1 / rows of the whole response at each lag
        kept = max(1 - (2 * lags - 1) / rows, 0.5)
        whole = impulse.sum(axis=1, keepdims=True) / kept
        impulse = (impulse + whole / rows).transpose(0, 2, 3, 1)  # (n, s, s, lags)
        z = impulse.mean(axis=0) / _error(impulse)
        least = student.isf(CHANCE / (2 * s * (s - 1) * lags), n - 1)
        ahead, back = z[..., lags - 1 :], z[..., : lags - 1]
        peak = np.abs(ahead).max(axis=-1)
        clear = (peak > least) & (peak > ONE_WAY * np.abs(back).max(axis=-1))
        clear[np.eye(s, dtype=bool)] = False
        cause, effect = np.nonzero(clear)
        best = np.argsort(-peak[cause, effect], kind="stable")
        cause, effect = cause[best], effect[best]
        mine, highest = ahead[cause, effect], np.abs(ahead[cause, effect]).argmax(axis=-1)
        sign = np.sign(np.take_along_axis(mine, highest[:, None], axis=1)[:, 0])
        pairs = sensors[np.stack([cause, effect], axis=1)]
        found = cls(pairs, sign, sign[:, None] * impulse[:, cause, effect, lags - 1 :])
        later = np.flatnonzero(found._delay(found._part(found.impulse)) >= 1)[:PAIRS]
        return cls(pairs[later], sign[later], found.impulse[:, later])

    def timing(self) -> np.ndarray:
        """Deviation (n, m) of each recording's mean delay from the common one, linearised."""
        return self._late(self.impulse, self._part(self.impulse))

    def delays(self, mine: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean delay (m,) in rows over some recordings, and its standard error.

        Infinite where the response is not clear, or goes on beyond the lags that are looked at.
        """
        some = self.impulse[mine]
        if len(some) < 2 or not len(self.pairs):
            return np.full(len(self.pairs), np.inf), np.full(len(self.pairs), np.inf)
        part = self._part(some)
        inside = part > 0
        clear = (
            part.sum(axis=-1) > SURE * _error((some * inside).sum(axis=-1, keepdims=True))[:, 0]
        )
        clear &= part[:, -(part.shape[1] // 4) :].sum(axis=1) <= LATE * part.sum(axis=1)
        error = _error(self._late(some, part)[..., None])[:, 0]
        return np.where(clear, self._delay(part), np.inf), np.where(clear, error, np.inf)

    @staticmethod
    def _part(impulse: np.ndarray) -> np.ndarray:
        """Mean response (m, lags) around its peak, as far as it is beyond the noise."""
        mean, lags = impulse.mean(axis=0), np.arange(impulse.shape[-1])
        smooth = np.pad(impulse, ((0, 0), (0, 0), (1, 1)), mode="edge")
        smooth = (smooth[..., :-2] + smooth[..., 1:-1] + smooth[..., 2:]) / 3
        beyond = (smooth.mean(axis=0) > NOISE * _error(smooth)) & (mean > 0)
        peak = mean.argmax(axis=1)[:, None]
        ends = np.where(beyond, -1, lags)
        first = np.where((ends >= 0) & (lags < peak), ends, -1).max(axis=1, keepdims=True)
        last = np.where((ends >= 0) & (lags > peak), ends, len(lags)).min(axis=1, keepdims=True)
        return np.where((lags > first) & (lags < last), np.maximum(mean, 0.0), 0.0)

    @staticmethod
    def _delay(part: np.ndarray) -> np.ndarray:
        """Mean lag (m,)."""
        whole = part.sum(axis=1)
        return np.asarray(part @ np.arange(part.shape[1]) / np.where(whole > 0, whole, 1.0))

    @classmethod
    def _late(cls, impulse: np.ndarray, part: np.ndarray) -> np.ndarray:
        """First-order effect (n, m) of each recording on the mean lag of `part` (m, lags)."""
        weight = (part > 0) * (np.arange(part.shape[1]) - cls._delay(part)[:, None])
        whole = part.sum(axis=1)
        return np.einsum("nml,ml->nm", impulse, weight) / np.where(whole > 0, whole, 1.0)


def _error(values: np.ndarray) -> np.ndarray:
    """Standard error of the mean over the first axis."""
    found = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return np.asarray(found + 1e-12 * np.abs(values).max(initial=0) + 1e-300)


def _fast_deviation(run: np.ndarray, rows: int) -> np.ndarray:
    """Standard deviation (c,) of a run around its centred moving average."""
    if len(run) <= rows:
        return np.asarray(run.std(axis=0))
    sums = np.cumsum(np.concatenate([np.zeros((1, run.shape[1])), run - run[:1]]), axis=0)
    slow = (sums[rows:] - sums[:-rows]) / rows + run[:1]
    return np.asarray((run[rows // 2 : rows // 2 + len(slow)] - slow).std(axis=0))


def _spectrum(run: np.ndarray, rows: int) -> tuple[np.ndarray, int]:
    """Shares of the variance (bins, c) by Welch's method, and the number of segments."""
    if rows < SEGMENT_ROWS[0]:
        return np.zeros((0, run.shape[1])), 0
    if len(run) < rows:
        return np.zeros((rows // 2 + 1, run.shape[1])), 0
    pieces = sliding_window_view(run, rows, axis=0)[:: rows // 2]  # (segments, c, rows)
    pieces = (pieces - pieces.mean(axis=-1, keepdims=True)) * np.hanning(rows)
    power = (np.abs(np.fft.rfft(pieces, axis=-1)) ** 2).mean(axis=0).T
    power[0] = 0.0
    return power / np.maximum(power.sum(axis=0), 1e-12), len(pieces)


def _peak(power: np.ndarray, segments: int, sensors: int) -> float:
    """Frequency of the strongest peak that the noise of a spectrum (bins,) does not explain."""
    logs, freedom = np.log(power[SLOWEST:] + 1e-12), 1.8 * segments  # of overlapping segments
    chance = CHANCE / (len(power) * sensors)
    rise = np.log(chi2.isf(chance, freedom) / chi2.isf(1 - chance, freedom))
    found, _ = find_peaks(logs, prominence=max(rise, np.log(RISE)))
    bins = np.arange(len(power))
    best, most = 0.0, SHARE
    for peak in found + SLOWEST:
        share = power[(bins >= peak / np.sqrt(2)) & (bins <= peak * np.sqrt(2))].sum()
        if share > most:
            lower = np.flatnonzero((power < 0.5 * power[peak]) | (bins < SLOWEST))
            after = np.append(lower[lower > peak], len(power))[0]
            high = slice(lower[lower < peak][-1] + 1, after)  # centroid down to half the height
            centre = (power[high] @ bins[high]) / power[high].sum()
            best, most = centre / (2 * (len(power) - 1)), share
    return float(best)


def _related(increments: Sequence[np.ndarray]) -> np.ndarray:
    """Numbers of the sensors whose changes go most with those of others, in order."""
    square = sum(each.T @ each for each in increments)
    size = np.sqrt(np.diagonal(square))
    together = np.abs(square / np.maximum(np.outer(size, size), 1e-300))
    np.fill_diagonal(together, 0.0)
    best = np.argsort(-together.max(axis=1), kind="stable")[:RESPONDING]
    return np.sort(best[size[best] > 0])


def _lagged(values: np.ndarray, lags: int) -> np.ndarray:
    """Covariances (lags, s, s) of values (T, s): [l, i, j] of i at t - l with j at t."""
    rows = len(values)
    out = np.zeros((lags, values.shape[1], values.shape[1]))
    for lag in range(min(lags, rows)):
        out[lag] = values[: rows - lag].T @ values[lag:] / rows
    return out


def _whitening(autocovariance: np.ndarray) -> np.ndarray:
    """Filter (order + 1,) that makes a series with these autocovariances white."""
    order = len(autocovariance) - 1
    places = np.abs(np.subtract.outer(np.arange(order), np.arange(order)))
    matrix = autocovariance[places] + 1e-6 * autocovariance[0] * np.eye(order)
    return np.append(1.0, -np.linalg.solve(matrix, autocovariance[1:]))
