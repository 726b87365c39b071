"""Convexity test of a recording against mixtures of the known mechanisms.

One-step prediction errors may depend on the history (`dependence`: an unknown mechanism) or be
large (`level_test`: a burst, another sensor). The null distribution of both is resampled from
held-out pure series. Named groups may differ from a new one as much as from each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import ks_2samp

from ..stage2.kalman import Observed
from ..stage2.pure_statistics import PureRegimeStatistics
from .dependence import Dependence, PureSeries, dependence, front, share_above

DRAWS = 1000
#: Largest number of resampled values (draws x rows).
MAX_VALUES = 20_000_000
#: Steps of the window of the local test.
WINDOW = 8
#: Excess that is tolerated in pooled trials: every learned model has a percent or two.
TOLERATED = 1.05
#: Shares of the significance level that each test gets. Their sum is below 1, because alpha moves
#: in transitions and not in pure series: with the true model, tests at 0.035 and 0.01 raised 0.052
#: and 0.020 false alarms.
TO_DEPENDENCE, TO_LEVEL = 0.65, 0.1


@dataclass(frozen=True, eq=False)
class LevelTest:
    """Size of the errors, overall and in the worst window."""

    p_overall: float
    p_window: float
    excess: float  # mean squared error over that of pure series
    peak: int  # first row of the worst window
    unusual: np.ndarray  # (T,) bool: rows in windows of significant excess
    groups: int  # of the pure series; 0 where no groups are named

    @property
    def p_value(self) -> float:
        """Corrected p-value of both (Bonferroni)."""
        return min(1.0, 2 * min(self.p_overall, self.p_window))


@dataclass(frozen=True, eq=False)
class Convexity:
    """Result of the convexity test: size of prediction errors, dependence on the history."""

    level: LevelTest
    dependence: Dependence | None

    @property
    def p_value(self) -> float:
        """Corrected p-value of both tests (Bonferroni, with unequal shares)."""
        if self.dependence is None:
            return self.level.p_value
        return min(1.0, self.level.p_value / TO_LEVEL, self.dependence.p_value / TO_DEPENDENCE)

    @property
    def depends(self) -> bool:
        """Whether the errors depend on the history."""
        odd = self.dependence
        return odd is not None and bool(odd.found) and odd.p_value <= 0.05

    def stretches(self) -> list[tuple[int, int]]:
        """List first and last row of the stretches that are not explained."""
        if self.dependence is not None and self.depends:
            return list(self.dependence.found)
        edges = np.flatnonzero(np.diff(np.concatenate([[0], self.level.unusual, [0]])))
        return [(int(a), int(b) - 1) for a, b in edges.reshape(-1, 2)]


def convexity(
    surprise: np.ndarray, observed: Observed | None, reference: PureRegimeStatistics, *,
    trials: int = 1,
) -> Convexity | None:  # fmt: skip
    """Test whether a recording, or pooled trials, is a mixture of the known mechanisms.

    `surprise` (T,) has its normalised innovations, NaN where there is none; `observed` its latents
    and predictions. None without innovations.
    """
    pure = reference.surprise
    if not np.isfinite(surprise).any() or not np.isfinite(pure).any():
        return None
    level = level_test(surprise, pure, reference.group, trials=trials, seed=reference.seed)
    found = None
    if observed is not None:
        found = dependence(observed.innovations(reference.precision), reference)
    return Convexity(level, found)


def level_test(
    surprise: np.ndarray, pure: np.ndarray, group: np.ndarray | None = None, *,
    trials: int = 1, seed: int = 0,
) -> LevelTest:  # fmt: skip
    """Compare normalised innovations (T,) with those of pure series (n, T') of groups (n,)."""
    rows = np.flatnonzero(np.isfinite(surprise))
    found = surprise[rows]
    window = max(1, min(WINDOW, len(found)))
    rng = np.random.default_rng(seed)
    series = PureSeries(np.isfinite(pure).sum(axis=1), np.empty(0) if group is None else group)
    normal = _resampled(pure, series, len(found), trials, rng)
    usual = normal.mean()
    normal = normal * (TOLERATED if trials > 1 else 1.0)
    local, normal_local = _running_mean(found, window), _running_mean(normal, window)

    def normal_log(sizes: np.ndarray) -> np.ndarray:
        """Resample on the logarithmic scale: groups differ by factors."""
        return series.of_another_group(_log(sizes), rng)

    highest = normal_log(normal_local.max(axis=1))
    unusual = np.zeros(len(surprise), bool)
    for start in np.flatnonzero(local > np.exp(np.quantile(highest, 0.99))):
        unusual[rows[start : start + window]] = True
    return LevelTest(
        p_overall=share_above(normal_log(normal.mean(axis=1)), float(_log(found.mean()))),
        p_window=share_above(highest, float(_log(local.max()))),
        excess=float(found.mean() / usual),
        peak=int(rows[int(local.argmax())]),
        unusual=unusual,
        groups=series.groups,
    )


def paper_test(residual: np.ndarray, pure: np.ndarray) -> float:
    """Return the p-value of the paper's Kolmogorov-Smirnov test (appendix E.3), for comparison.

    Its size is wrong: residuals at a fitted alpha are compared with residuals at a known one, and
    dependent steps are taken to be independent. NaN is left out.
    """
    a, b = residual[np.isfinite(residual)], pure[np.isfinite(pure)]
    return float(ks_2samp(a, b).pvalue) if len(a) and len(b) else 1.0


def _resampled(
    pure: np.ndarray, series: PureSeries, steps: int, trials: int, rng: np.random.Generator
) -> np.ndarray:
    """Resample normalised innovations (draws, steps), averaged over trials."""
    first = front(pure, np.isfinite(pure))
    draws = max(200, min(DRAWS, MAX_VALUES // steps))
    total = np.zeros((draws, steps))
    for _ in range(trials):
        for place, which, rows in series.stretches(steps, np.arange(draws), rng, share=1.0):
            total[:, place] += first[which[:, None], rows]
    return total / trials


def _log(sizes: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(sizes, 1e-300))


def _running_mean(values: np.ndarray, window: int) -> np.ndarray:
    total = np.cumsum(values, axis=-1)
    total = np.concatenate([np.zeros((*total.shape[:-1], 1)), total], axis=-1)
    return (total[..., window:] - total[..., :-window]) / window
