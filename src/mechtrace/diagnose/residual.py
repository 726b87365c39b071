"""Is the recording a mixture of the known mechanisms? Tests of right size, and the paper's own.

The statistic is the surprise: the squared one-step prediction error of the causal filter, in units
of its predicted variance. No alpha is fitted to the step that is judged, so pure and mixed
recordings are surprised alike if the model holds. What surprise is normal is not taken from a
formula but from left-out pure series, in whole stretches, so that dependence over time counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import ks_2samp

DRAWS = 2000
#: Steps over which a local excess is looked for.
WINDOW = 8


@dataclass(frozen=True)
class ConvexityTest:
    """How surprising a recording is, in all and in its most surprising window."""

    p_overall: float
    p_window: float
    excess: float  # mean surprise over that of pure series
    peak: int  # first row of the most surprising window
    unusual: np.ndarray  # (T,) bool: rows in windows that pure series do not show

    @property
    def p_value(self) -> float:
        """Of both together (Bonferroni)."""
        return min(1.0, 2 * min(self.p_overall, self.p_window))


def convexity_test(
    surprise: np.ndarray, pure: np.ndarray, *, trials: int = 1, seed: int = 0
) -> ConvexityTest:
    """Compare (T,) surprises with those of pure series (n, T'), NaN where there is none."""
    rows = np.flatnonzero(np.isfinite(surprise))
    found = surprise[rows]
    window = max(1, min(WINDOW, len(found)))
    normal = _resampled(pure, len(found), trials, np.random.default_rng(seed))
    local, normal_local = _running_mean(found, window), _running_mean(normal, window)
    highest = normal_local.max(axis=1)
    unusual = np.zeros(len(surprise), bool)
    for start in np.flatnonzero(local > np.quantile(highest, 0.99)):
        unusual[rows[start : start + window]] = True
    return ConvexityTest(
        p_overall=_share_above(normal.mean(axis=1), found.mean()),
        p_window=_share_above(highest, local.max()),
        excess=float(found.mean() / normal.mean()),
        peak=int(rows[int(local.argmax())]),
        unusual=unusual,
    )


def paper_test(residual: np.ndarray, pure: np.ndarray) -> float:
    """p-value of the paper's two-sample Kolmogorov-Smirnov test (appendix E.3).

    It compares residuals at a *fitted* alpha with residuals at a *known* one and takes dependent
    steps for independent, so its size is not what it says; kept for comparison.
    """
    a, b = residual[np.isfinite(residual)], pure[np.isfinite(pure)]
    return float(ks_2samp(a, b).pvalue)


def _resampled(pure: np.ndarray, steps: int, trials: int, rng: np.random.Generator) -> np.ndarray:
    """(DRAWS, steps) of normal surprise: whole series, laid end to end, averaged over trials."""
    lengths = np.isfinite(pure).sum(axis=1)
    pure = pure[lengths > 0]
    lengths = lengths[lengths > 0]
    total = np.zeros((DRAWS, steps))
    for _ in range(trials):
        filled = np.zeros(DRAWS, dtype=int)
        while (filled < steps).any():
            which = rng.integers(len(pure), size=DRAWS)
            room = steps - filled
            for draw in np.flatnonzero(room > 0):
                series = pure[which[draw]]
                series = series[np.isfinite(series)]
                take = min(len(series), room[draw])
                first = rng.integers(len(series) - take + 1)
                total[draw, filled[draw] : filled[draw] + take] += series[first : first + take]
                filled[draw] += take
    return total / trials


def _running_mean(values: np.ndarray, window: int) -> np.ndarray:
    views = np.lib.stride_tricks.sliding_window_view(values, window, axis=-1)
    return views.mean(axis=-1)


def _share_above(normal: np.ndarray, value: float) -> float:
    return float((1 + (normal >= value).sum()) / (1 + len(normal)))
