"""Test of prediction errors e for dependence on the history x, and the block bootstrap.

An unknown mechanism moves the latents as a function of their past. The statistic is the log Bayes
factor of e = B x + noise, with independent N(0, 1/RIDGE) entries of B, against B = 0, averaged
over stretches of many lengths and places. It does not depend on the axes of the latents.

The null distribution is resampled from held-out pure series (block bootstrap), so errors of the
learned model that pure series show too, and differences between groups, raise no alarm.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import logsumexp
from scipy.stats import f

from .._runtime.stochastic import generator
from ..stage2.kalman import Innovations
from ..stage2.pure_statistics import PureRegimeStatistics

#: Prior precision of B for histories of unit size.
RIDGE = 40.0
#: Lengths of the stretches: SHORTEST, each GROWTH times the one before, at most LONGEST.
SHORTEST, GROWTH, LONGEST = 6, 1.5, 100
#: Rows of a long recording that are tested together; bounds memory.
BLOCK = 2 * LONGEST
#: Resampled recordings; fewer if they are long or many trials are pooled.
DRAWS, FEWER_DRAWS = 1000, 400
#: Iterations of fitting and locating.
ROUNDS = 4
#: Smallest gain in log likelihood of a reported stretch.
MIN_GAIN = 3.0
#: With at least COUNTED draws above a value its p-value is their share; otherwise it comes from an
#: exponential tail fitted to the share TAIL of the draws (at least COUNTED, at most half).
COUNTED, TAIL = 10, 0.1
#: Smallest p-value: the tail is not known further out.
MIN_P_VALUE = 1e-6
#: Draws of Student's t for each resampled recording, where groups differ.
REPEATS = 50


@dataclass(frozen=True, eq=False)
class Dependence:
    """Result of the test."""

    p_value: float
    strength: float  # log Bayes factor, averaged over stretches
    found: tuple[tuple[int, int], ...]  # first and last row of stretches with dependence


def dependence(innovations: Innovations, reference: PureRegimeStatistics) -> Dependence | None:
    """Test a recording, or trials that share a schedule; None without prediction errors."""
    known = np.isfinite(innovations.error).all(axis=-1)
    rows = np.flatnonzero(known.any(axis=0))
    if len(rows) < 2 or not np.isfinite(reference.pure_error).all(axis=-1).any():
        return None
    sums = _Unit.of(reference).sums(innovations.error[:, rows], innovations.past[:, rows])
    cross, square = (part.sum(axis=0) for part in sums)
    blocks = _blocks(square)
    strength = _averaged(cross, blocks)
    normal = _normal(reference, len(rows), len(known))
    found = tuple((int(rows[a]), int(rows[b - 1])) for a, b in _located(cross, square, blocks))
    return Dependence(share_above(normal, strength), strength, found)


@dataclass(frozen=True, eq=False)
class _Unit:
    """Centre and root mean square of pure histories, to standardise them."""

    centre: np.ndarray  # (d,)
    size: float

    @classmethod
    def of(cls, reference: PureRegimeStatistics) -> _Unit:
        past = reference.pure_past[np.isfinite(reference.pure_error).all(axis=-1)].astype(float)
        centre = past.mean(axis=0)
        return cls(centre, float(np.sqrt(((past - centre) ** 2).mean())) or 1.0)

    def sums(self, error: np.ndarray, past: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return e x' and x x' (..., T, d, m) and (..., T, m, m), x with a constant."""
        known = np.isfinite(error).all(axis=-1, keepdims=True)
        x = np.concatenate([(past - self.centre) / self.size, np.ones(known.shape)], axis=-1)
        x, e = np.where(known, x, 0.0), np.where(known, error, 0.0)
        return e[..., :, None] * x[..., None, :], x[..., :, None] * x[..., None, :]


@lru_cache(maxsize=16)
def _normal(reference: PureRegimeStatistics, steps: int, trials: int) -> np.ndarray:
    """Draw averaged log Bayes factors of resampled pure recordings."""
    rng = generator(reference.seed, "dependence")
    known = np.isfinite(reference.pure_error).all(axis=-1)
    error = front(reference.pure_error.astype(float), known)
    past = front(reference.pure_past.astype(float), known)
    series = PureSeries(known.sum(axis=1), reference.pure_group)
    unit = _Unit.of(reference)
    block = min(steps, BLOCK)
    draws = DRAWS if trials == 1 and steps <= LONGEST else FEWER_DRAWS
    strength = np.empty(draws)
    for i in range(draws):
        rows = np.empty((2, trials, block), int)
        for place, which, start in series.stretches(block, np.full(trials, i), rng):
            within = np.arange(place.stop - place.start)
            rows[0, :, place], rows[1, :, place] = which[:, None], start[:, None] + within
        sums = unit.sums(error[rows[0], rows[1]], past[rows[0], rows[1]])
        strength[i] = _averaged(sums[0].sum(axis=0), _blocks(sums[1].sum(axis=0)))
    if steps > block:  # the Bayes factor of a long recording is the mean over its blocks
        blocks, groups = -(-steps // block), max(1, series.drawn(draws))
        of_group = np.arange(draws) % groups
        chosen = of_group + groups * rng.integers(draws // groups, size=(blocks, draws))
        strength = logsumexp(strength[chosen], axis=0) - np.log(blocks)
    return series.of_another_group(strength, rng)


@dataclass(frozen=True, eq=False)
class _Block:
    """Some rows, the stretches in them, and statistics of their histories."""

    rows: slice
    windows: np.ndarray  # (W, 2)
    root: np.ndarray  # (W, m, m): inverse Cholesky factor of x x' + RIDGE
    volume: np.ndarray  # (W,): log det of the same, over that of RIDGE alone
    weight: np.ndarray  # (W,): log of the share of each stretch in the average


def _blocks(square: np.ndarray) -> list[_Block]:
    steps, m = square.shape[:2]
    out = []
    for first in range(0, steps, BLOCK):
        rows = slice(first, min(first + BLOCK, steps))
        windows = _windows(rows.stop - first)
        total = np.concatenate([np.zeros((1, m, m)), np.cumsum(square[rows], axis=0)])
        inside = total[windows[:, 1]] - total[windows[:, 0]] + RIDGE * np.eye(m)
        root = np.linalg.cholesky(inside)
        volume = 2 * np.log(np.diagonal(root, axis1=-2, axis2=-1)).sum(-1) - m * np.log(RIDGE)
        # lengths are weighted equally, and places within a length
        length = windows[:, 1] - windows[:, 0]
        _, number, count = np.unique(length, return_inverse=True, return_counts=True)
        weight = np.log((rows.stop - first) / steps) - np.log(count[number] * len(count))
        out.append(_Block(rows, windows, np.linalg.inv(root), volume, weight))
    return out


def _windows(steps: int) -> np.ndarray:
    """List first row and end of every stretch: (W, 2)."""
    out, length = [], float(min(SHORTEST, steps))
    while round(length) <= min(steps, LONGEST):
        size = round(length)
        out += [(a, a + size) for a in range(0, steps - size + 1, max(1, size // 3))]
        length *= GROWTH
    return np.array(out)


def _averaged(cross: np.ndarray, blocks: list[_Block]) -> float:
    """Log of the mean Bayes factor over all stretches."""
    return float(logsumexp([logsumexp(_evidence(cross[b.rows], b) + b.weight) for b in blocks]))


def _evidence(cross: np.ndarray, block: _Block) -> np.ndarray:
    """Log Bayes factor of each stretch from e x' of each row (T, d, m)."""
    steps, d, m = cross.shape
    total = np.concatenate([np.zeros((1, d * m)), np.cumsum(cross.reshape(steps, -1), axis=0)])
    inside = (total[block.windows[:, 1]] - total[block.windows[:, 0]]).reshape(-1, d, m)
    white = inside @ block.root.swapaxes(-1, -2)
    return 0.5 * np.einsum("wdm,wdm->w", white, white) - 0.5 * d * block.volume


def _located(cross: np.ndarray, square: np.ndarray, blocks: list[_Block]) -> list[tuple[int, int]]:
    """Locate the dependence, starting from the stretch of highest Bayes factor.

    Alternate between fitting B to the stretches and selecting the stretches of highest summed
    log likelihood gain.
    """
    best = max(blocks, key=lambda block: _evidence(cross[block.rows], block).max())
    first, stop = best.rows.start + best.windows[_evidence(cross[best.rows], best).argmax()]
    found = [(int(first), int(stop))]
    for _ in range(ROUNDS):
        inside = np.zeros(len(cross), bool)
        for first, stop in found:
            inside[first:stop] = True
        ridge = RIDGE * np.eye(square.shape[-1])
        fitted = np.linalg.solve(square[inside].sum(axis=0) + ridge, cross[inside].sum(axis=0).T)
        explained = np.einsum("tdm,md->t", cross, fitted)
        claimed = np.einsum("tmn,md,nd->t", square, fitted, fitted, optimize=True)
        gain = explained - _due(explained, claimed) * claimed
        found = _highest_sums(gain)
        if not found:
            break
    return _joined(found)


def _due(explained: np.ndarray, claimed: np.ndarray) -> float:
    """Return the penalty on B's predicted power: half the ratio of the best rows.

    B fitted to too long a stretch is too small; the likelihood's own penalty of 1/2 would then
    keep rows without dependence.
    """
    kernel = np.ones(min(SHORTEST, len(claimed)))
    claims = np.convolve(claimed, kernel, "valid")
    best = (np.convolve(explained, kernel, "valid") / np.maximum(claims, 1e-12)).max()
    return float(np.clip(0.5 * best, 0.5, 1.0))


def _joined(found: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join stretches whose gap is shorter than the shortest stretch.

    >>> _joined([(6, 7), (8, 20), (40, 50)])
    [(6, 20), (40, 50)]
    """
    out = found[:1]
    for first, stop in found[1:]:
        if first - out[-1][1] < SHORTEST:
            out[-1] = (out[-1][0], stop)
        else:
            out.append((first, stop))
    return out


def _highest_sums(gain: np.ndarray) -> list[tuple[int, int]]:
    """Find all maximal scoring stretches with a sum of at least `MIN_GAIN`.

    Linear time: Ruzzo and Tompa (1999), A linear time algorithm for finding all maximal scoring
    subsequences, ISMB.

    >>> _highest_sums(np.array([-1.0, 3.0, 2.0, -9.0, 4.0]))
    [(1, 3), (4, 5)]
    """
    total = np.concatenate([[0.0], np.cumsum(gain)]).tolist()
    found: list[tuple[int, int]] = []
    lower: list[int] = []  # for each of them, the last before it that starts at a lower total
    for row in np.flatnonzero(gain > 0).tolist():
        first, stop = row, row + 1
        last = len(found) - 1
        while True:
            while last >= 0 and total[found[last][0]] >= total[first]:
                last = lower[last]
            if last < 0 or total[found[last][1]] >= total[stop]:
                break
            first, before = found[last][0], lower[last]
            del found[last:], lower[last:]
            last = before
        found.append((first, stop))
        lower.append(last)
    return [(first, stop) for first, stop in found if total[stop] - total[first] >= MIN_GAIN]


@dataclass(frozen=True, eq=False)
class PureSeries:
    """Lengths (n,) and group codes (n,) of pure series; no codes where there are no groups.

    A resampled recording is of one group (a subject, a machine). The tested one may be of another,
    so `of_another_group` adds the variance between groups.
    """

    lengths: np.ndarray
    group: np.ndarray

    @property
    def groups(self) -> int:
        """Number of groups; 0 if none is named."""
        return len(self._members()) if self.group.size else 0

    def drawn(self, draws: int) -> int:
        """Return how many groups so many recordings cover; 0 if none is named."""
        return min(self.groups, draws)

    def stretches(
        self, steps: int, wanted: np.ndarray, rng: np.random.Generator, share: float = 0.5
    ) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Yield stretches of resampled recordings, their series and first rows there (draws,).

        Recordings are of the `wanted` groups (draws,), modulo the number of groups. A stretch is
        at most this `share` of a pure series. Stretches keep their place within a series, whose
        start may be transient; beyond the end of a series only ends follow.
        """
        members = self._members()
        usual = int(np.median(self.lengths[self.lengths > 0]))
        # every group has a series of this length
        typical = min(usual, *(int(self.lengths[mine].max()) for mine in members))
        whole = min(steps, typical)
        piece = max(1, int(np.ceil(whole * share)))
        enough = [mine[self.lengths[mine] >= whole] for mine in members]
        count = np.array([len(mine) for mine in enough])
        first_of = np.concatenate([[0], np.cumsum(count)[:-1]])
        every, wanted = np.concatenate(enough), wanted % len(members)
        draws = len(wanted)
        shift = rng.integers(0, typical - whole + 1, size=draws)  # short recordings start anywhere
        for first in range(0, steps, piece):
            stop = min(first + piece, steps)
            which = every[first_of[wanted] + rng.integers(count[wanted])]
            last = self.lengths[which] - (stop - first)
            start = np.minimum(first + shift, last) if stop <= whole else last
            yield slice(first, stop), which, start

    def of_another_group(self, normal: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Add the variance between groups to values (draws,) of groups 0, 1, ... in turn.

        Returns (REPEATS * draws,) values. The variance is estimated from few groups: hence
        Student's t. Values of a single group are left as they are.
        """
        groups = self.drawn(len(normal))
        if groups < 2:
            return normal
        centre = np.array([normal[number::groups].mean() for number in range(groups)])
        within = normal - centre[np.arange(len(normal)) % groups]
        apart = centre.std(ddof=1) * np.sqrt(1 + 1 / groups)
        within = np.tile(within, REPEATS)
        return centre.mean() + within + apart * rng.standard_t(groups - 1, len(within))

    def _members(self) -> list[np.ndarray]:
        usable = np.flatnonzero(self.lengths > 0)
        if not self.group.size:
            return [usable]
        own = self.group[usable]
        return [usable[own == code] for code in np.unique(own)]


def share_above(normal: np.ndarray, value: float) -> float:
    """Return the p-value of a value among draws of the null: counted, or extrapolated.

    The upper tail is taken to be exponential: with k excesses of mean m over a threshold, the next
    excess over m is F-distributed with 2 and 2k degrees of freedom. Equal draws, which repeat one
    series, count as a single excess.
    """
    above = int((normal >= value).sum())
    if above >= COUNTED:
        return above / len(normal)
    distinct = np.unique(normal)
    k = min(max(round(TAIL * len(distinct)), COUNTED), len(distinct) // 2)
    if k == 0:  # all equal: their scatter is unknown
        return 1.0
    threshold = distinct[-k - 1]
    excess = (value - threshold) / (distinct[-k:] - threshold).mean()
    return max(float((normal > threshold).mean() * f.sf(excess, 2, 2 * k)), MIN_P_VALUE)


def front(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Move the known rows of each series (n, T, ...) to its front."""
    order = np.argsort(~known, axis=1, kind="stable")
    return np.take_along_axis(values, order.reshape(*order.shape, *[1] * (values.ndim - 2)), 1)
