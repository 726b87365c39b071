"""Do prediction errors depend on the history in a way that no mixture of regimes explains?

A mechanism that is not in the model moves the latents as a function of their past. So the errors
e of a stretch are compared with a linear map of the past x: log Bayes factor of e = B x + noise,
with independent N(0, 1/RIDGE) entries of B, against B = 0. It is averaged over stretches of many
lengths and places. Nothing depends on the axes of the latents or knows which edge to expect.

What is normal is not taken from a formula but from recordings put together from left-out pure
series, so errors of the learned model that pure series show too raise no alarm; nor does what
differs from one group of them to the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import logsumexp

from ..recover.innovations import Innovations
from ..recover.reference import Reference
from .resample import PureSeries, front, share_above

#: Prior precision of B for histories of unit size: one edge of the size of the noise in 8 x 8.
RIDGE = 40.0
#: Stretches that are compared: from so many steps on, each length 1.5 times the one before.
SHORTEST, GROWTH, LONGEST = 6, 1.5, 100
#: A long recording is looked at in blocks of so many rows; bounds memory.
BLOCK = 2 * LONGEST
#: Made-up recordings; fewer if they are long or many trials are pooled, which are slow to make.
DRAWS, FEWER_DRAWS = 1000, 400
#: Rounds of fitting and locating.
ROUNDS = 4
#: Gain in log likelihood below which a stretch is not worth naming.
WORTH = 3.0


@dataclass(frozen=True, eq=False)
class Dependence:
    """How strongly errors depend on the past, against recordings for which the model holds."""

    p_value: float
    strength: float  # log Bayes factor, averaged over stretches
    found: tuple[tuple[int, int], ...]  # first and last row of the stretches that show it


def dependence(innovations: Innovations, reference: Reference) -> Dependence | None:
    """Test a recording, or trials that share a schedule; None where nothing can be said."""
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
    """Centre and size of pure histories: what makes a history one of unit size."""

    centre: np.ndarray  # (d,)
    size: float

    @classmethod
    def of(cls, reference: Reference) -> _Unit:
        """Over all kept rows."""
        past = reference.pure_past[np.isfinite(reference.pure_error).all(axis=-1)].astype(float)
        centre = past.mean(axis=0)
        return cls(centre, float(np.sqrt(((past - centre) ** 2).mean())) or 1.0)

    def sums(self, error: np.ndarray, past: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """e x' and x x' of each row, (..., T, d, m) and (..., T, m, m); x has a constant too."""
        known = np.isfinite(error).all(axis=-1, keepdims=True)
        x = np.concatenate([(past - self.centre) / self.size, np.ones(known.shape)], axis=-1)
        x, e = np.where(known, x, 0.0), np.where(known, error, 0.0)
        return e[..., :, None] * x[..., None, :], x[..., :, None] * x[..., None, :]


@lru_cache(maxsize=16)
def _normal(reference: Reference, steps: int, trials: int) -> np.ndarray:
    """Averaged log Bayes factors of recordings made of pure series."""
    rng = np.random.default_rng(0)
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
        for place, which, where in series.stretches(block, np.full(trials, i), rng):
            rows[0, :, place], rows[1, :, place] = which[:, None], where
        sums = unit.sums(error[rows[0], rows[1]], past[rows[0], rows[1]])
        strength[i] = _averaged(sums[0].sum(axis=0), _blocks(sums[1].sum(axis=0)))
    if steps > block:  # evidence of a long recording is the average of that of its blocks
        blocks, groups = -(-steps // block), max(1, series.drawn(draws))
        of_group = np.arange(draws) % groups
        chosen = of_group + groups * rng.integers(draws // groups, size=(blocks, draws))
        strength = logsumexp(strength[chosen], axis=0) - np.log(blocks)
    return series.of_another_group(strength, rng)


@dataclass(frozen=True, eq=False)
class _Block:
    """Some rows, the stretches in them, and what depends on their histories alone."""

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
        # every length counts alike, and every place within it
        _, number, count = np.unique(
            windows[:, 1] - windows[:, 0], return_inverse=True, return_counts=True
        )
        weight = np.log((rows.stop - first) / steps) - np.log(count[number] * len(count))
        out.append(_Block(rows, windows, np.linalg.inv(root), volume, weight))
    return out


def _windows(steps: int) -> np.ndarray:
    """First row, and the row after the last, of every stretch: (W, 2)."""
    out, length = [], float(min(SHORTEST, steps))
    while round(length) <= min(steps, LONGEST):
        size = round(length)
        out += [(a, a + size) for a in range(0, steps - size + 1, max(1, size // 3))]
        length *= GROWTH
    return np.array(out)


def _averaged(cross: np.ndarray, blocks: list[_Block]) -> float:
    """Log of the mean Bayes factor over all stretches."""
    parts = [logsumexp(_evidence(cross[b.rows], b) + b.weight) for b in blocks]
    return float(logsumexp(parts))


def _evidence(cross: np.ndarray, block: _Block) -> np.ndarray:
    """Log Bayes factor of each stretch from e x' of each row (T, d, m)."""
    steps, d, m = cross.shape
    total = np.concatenate([np.zeros((1, d * m)), np.cumsum(cross.reshape(steps, -1), axis=0)])
    inside = (total[block.windows[:, 1]] - total[block.windows[:, 0]]).reshape(-1, d, m)
    white = inside @ block.root.swapaxes(-1, -2)
    return 0.5 * np.einsum("wdm,wdm->w", white, white) - 0.5 * d * block.volume


def _located(cross: np.ndarray, square: np.ndarray, blocks: list[_Block]) -> list[tuple[int, int]]:
    """Stretches in which the map that fits the best stretch is at work.

    The map is fitted, each row says by how much it likes the map better than none, and the
    stretches of highest sum are kept; then the map is fitted to those stretches alone, and so on.
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
    """How much of its claim a row must explain: half of what the best rows do.

    A map that was fitted too widely is too weak, and rows where it is at work explain more than
    it claims; a limit of 1/2, that of the likelihood, would keep the rows in which it is idle.
    """
    kernel = np.ones(min(SHORTEST, len(claimed)))
    claims = np.convolve(claimed, kernel, "valid")
    best = (np.convolve(explained, kernel, "valid") / np.maximum(claims, 1e-12)).max()
    return float(np.clip(0.5 * best, 0.5, 1.0))


def _joined(found: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Neighbours that are nearer than the shortest stretch become one.

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


def _highest_sums(gain: np.ndarray, offset: int = 0) -> list[tuple[int, int]]:
    """The stretch of highest sum, then those on either side of it, while the sum is worth it.

    >>> _highest_sums(np.array([-1.0, 3.0, 2.0, -9.0, 4.0]))
    [(1, 3), (4, 5)]
    """
    total = np.concatenate([[0.0], np.cumsum(gain)])
    stop = int((total - np.minimum.accumulate(total)).argmax())
    first = int(total[: stop + 1].argmin())
    if total[stop] - total[first] < WORTH:
        return []
    before = _highest_sums(gain[:first], offset)
    after = _highest_sums(gain[stop:], offset + stop)
    return [*before, (offset + first, offset + stop), *after]
