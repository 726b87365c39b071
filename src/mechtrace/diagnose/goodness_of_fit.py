"""Convexity test of a recording against mixtures of the known mechanisms.

One-step prediction errors may depend on the history (`dependence`: an unknown mechanism) or be
large (`level_test`: a burst, another sensor). The null distribution of both is resampled from
held-out pure series. Named groups may differ from a new one as much as from each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.stats import ks_2samp

from ..stage2.kalman import Observed
from ..stage2.pure_statistics import PureRegimeStatistics
from .dependence import Dependence, PureSeries, dependence, front, share_above

DRAWS = 1000
#: Largest number of resampled values (draws x rows).
MAX_VALUES = 20_000_000
#: Resampled values that are in memory at once.
BLOCK_VALUES = 1 << 20
#: Steps of the window of the local test.
WINDOW = 8
#: Least squared errors of unusual rows over those of pure series: what is significant in a long
#: recording need not matter.
NOTABLE = 2.0
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
    normal = _null(pure, series, len(found), window, trials, rng)
    tolerated = TOLERATED if trials > 1 else 1.0
    local = _running_mean(found, window)

    def normal_log(sizes: np.ndarray) -> np.ndarray:
        """Resample on the logarithmic scale: groups differ by factors."""
        return series.of_another_group(_log(tolerated * sizes), rng)

    highest = normal_log(normal.highest)
    high = local > max(np.exp(np.quantile(highest, 0.99)), NOTABLE * normal.mean.mean())
    unusual = np.zeros(len(surprise), bool)
    unusual[rows] = np.convolve(high, np.ones(window)) > 0.5
    return LevelTest(
        p_overall=share_above(normal_log(normal.mean), float(_log(found.mean()))),
        p_window=share_above(highest, float(_log(local.max()))),
        excess=float(found.mean() / normal.mean.mean()),
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


class _Null(NamedTuple):
    """Of each resampled recording (draws,): the mean, and that of its highest window."""

    mean: np.ndarray
    highest: np.ndarray


def _null(
    pure: np.ndarray, series: PureSeries, steps: int, window: int, trials: int,
    rng: np.random.Generator,
) -> _Null:  # fmt: skip
    """Resample normalised innovations, averaged over trials; a block of steps at a time."""
    first = front(pure, np.isfinite(pure))
    draws = max(200, min(DRAWS, MAX_VALUES // steps))
    total, highest = np.zeros(draws), np.full(draws, -np.inf)
    sums = np.zeros((draws, 1))  # of all steps up to each of the last ones
    for block in _resampled(first, series, steps, draws, trials, rng):
        total += block.sum(axis=1)
        block[:, 0] += sums[:, -1]
        sums = np.concatenate([sums, np.cumsum(block, axis=1)], axis=1)
        local = (sums[:, window:] - sums[:, :-window]) / window
        np.maximum(highest, local.max(axis=1, initial=-np.inf), out=highest)
        sums = sums[:, -window:].copy()
    return _Null(total / steps, highest)


def _resampled(
    first: np.ndarray, series: PureSeries, steps: int, draws: int, trials: int,
    rng: np.random.Generator,
) -> Iterator[np.ndarray]:  # fmt: skip
    """Yield (draws, n) values of the next n steps, averaged over trials."""
    wanted = np.arange(draws)
    sources = [rng]
    for _ in range(trials - 1):  # all trials advance together, each by its own random numbers
        sources.insert(-1, deepcopy(rng))
        for _ in series.stretches(steps, wanted, rng, share=1.0):
            pass
    at_once = max(1, BLOCK_VALUES // draws)
    parts: list[np.ndarray] = []
    ready = 0
    for pieces in zip(
        *(series.stretches(steps, wanted, own, share=1.0) for own in sources), strict=True
    ):
        place = pieces[0][0]
        for skipped in range(0, place.stop - place.start, at_once):
            size = min(at_once, place.stop - place.start - skipped)
            total = np.zeros((draws, size))
            for _, which, start in pieces:
                total += first[which[:, None], (start + skipped)[:, None] + np.arange(size)]
            parts.append(total / trials)
            ready += size
            if ready >= at_once:
                yield np.concatenate(parts, axis=1)
                parts, ready = [], 0
    if parts:
        yield np.concatenate(parts, axis=1)


def _log(sizes: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(sizes, 1e-300))


def _running_mean(values: np.ndarray, window: int) -> np.ndarray:
    total = np.cumsum(values, axis=-1)
    total = np.concatenate([np.zeros((*total.shape[:-1], 1)), total], axis=-1)
    return (total[..., window:] - total[..., :-window]) / window
