"""Which blocks of evidence to use: those that recover alpha best on series left out.

Pure series, and pseudo-transitions spliced from two of them, have a known alpha. A block is judged
by the error of alpha there, with its noise measured on other series: a likelihood ratio would
reward experts that extrapolate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .blocks import PLAIN, Block, middle, parse
from .engine import state_space
from .evidence import Evidence

#: Left-out series that take part (at least four of each regime), and pseudo-transitions of them.
SERIES, SPLICES = 60, 40
#: With more regimes than this fewer are judged, as each costs the cube of their number; the least.
MANY, FEW = 10, 12
#: Another choice must be better by this share of the error, and by so many standard errors.
MARGIN, CERTAINTY = 0.05, 2.0
#: What does not look at the step before is only taken if its error is below this share of the
#: error by chance. Pure series and splices of them do not show what it gets wrong in a mixture,
#: where means need not be mixtures of means: a little is no reason to leave the mechanisms.
TELLING = 0.5

#: Gives the values (n, T, p) of a block, and its predictions (n, T, K, p) if it has any.
Material = Callable[[str], tuple[np.ndarray, np.ndarray | None]]


@dataclass(frozen=True)
class Choice:
    """The blocks to use and how every combination that was tried did."""

    blocks: tuple[str, ...]
    tried: tuple[str, ...]  # single blocks
    errors: dict[str, float]  # half the sum of |alpha - truth|, mean over steps


def joined(blocks: tuple[str, ...] | list[str]) -> str:
    """The name of a combination."""
    return " + ".join(blocks)


def rank_within(regime: np.ndarray) -> np.ndarray:
    """The place of each series among those of its regime.

    >>> rank_within(np.array([0, 1, 0, 0, 1])).tolist()
    [0, 0, 1, 2, 1]
    """
    order = np.argsort(regime, kind="stable")
    first = np.searchsorted(regime[order], regime[order])
    out = np.empty(len(regime), int)
    out[order] = np.arange(len(regime)) - first
    return out


def halves(regime: np.ndarray, group: np.ndarray | None = None) -> np.ndarray:
    """Two halves (0 or 1) of the series of every regime; a group is in one of them if it can be.

    What levels tell of subjects that were measured, they need not tell of a new one.

    >>> halves(np.array([0, 0, 0, 0, 1, 1]), np.array(["a", "a", "b", "b", "b", "b"])).tolist()
    [0, 0, 1, 1, 0, 1]
    """
    out = rank_within(regime) % 2
    if group is None:
        return out
    number = np.unique(group, return_inverse=True)[1]
    for code in np.unique(regime):
        mine = regime == code
        several, own = np.unique(number[mine], return_inverse=True)
        if len(several) > 1:
            of_all = number[mine] % 2
            out[mine] = of_all if np.ptp(of_all) else own % 2
    return out


def choose(
    material: Material,
    names: list[str],
    regime: np.ndarray,
    lags: int,
    group: np.ndarray | None = None,
) -> Choice:
    """Start from the best single block and add others while that clearly helps.

    With a single series of some regime nothing can be left out: the first block is taken.
    """
    if np.bincount(regime).min() < 2:
        return Choice(tuple(names[:1]), (PLAIN, "static"), {})
    rank = rank_within(regime)
    some = np.flatnonzero(rank < max(4, SERIES // (1 + regime.max())))
    judge = _Judge(
        regime[some], halves(regime[some], None if group is None else group[some]), lags
    )
    evidence: dict[str, Evidence] = {}
    tried: dict[str, np.ndarray] = {}
    further = {"conditional": True, "moments": True, "static": True}
    for name in names:
        kind = parse(name)[0]
        if not further[kind]:
            continue
        values, expected = material(name)
        evidence[name] = judge.left_out(
            name, values[some], None if expected is None else expected[some]
        )
        errors = judge.errors(evidence[name])
        # what does not get better with twice the steps does not with four times as many
        shorter = [tried[other].mean() for other in tried if parse(other)[0] == kind]
        further[kind] = not shorter or bool(errors.mean() < min(shorter))
        tried[name] = errors
    by_chance = 1 - 1 / (1 + regime.max())

    def rash(chosen: list[str], other: str, errors: np.ndarray) -> bool:
        """Whether too little is known to leave the mechanisms for another kind of evidence."""
        alone = [parse(name)[0] for name in chosen] == ["conditional"]
        leaves = alone and parse(other)[0] != "conditional"
        return bool(leaves and errors.mean() > TELLING * by_chance)

    names = list(tried)
    chosen = names[:1]
    for name in names[1:]:
        errors = tried[name]
        before = tried[joined(chosen)]
        # mechanisms are only left, and windows only grow, for good reason; else the better one
        levels = {parse(name)[0], parse(chosen[0])[0]} == {"static", "moments"}
        better = errors.mean() < before.mean() if levels else _clearly_better(errors, before)
        if better and not rash(chosen, name, errors):
            chosen = [name]
    while True:
        kinds = {parse(name)[0] for name in chosen}
        others = [name for name in names if parse(name)[0] not in kinds]
        best = None
        for name in others:
            both = sum((evidence[part] for part in chosen[1:]), evidence[chosen[0]])
            errors = tried[joined([*chosen, name])] = judge.errors(both + evidence[name])
            before = tried[joined(chosen if best is None else best)]
            if not rash(chosen, name, errors) and _clearly_better(errors, before):
                best = [*chosen, name]
        if best is None:
            break
        chosen = best
    return Choice(
        tuple(chosen), tuple(names), {name: float(error.mean()) for name, error in tried.items()}
    )


def _clearly_better(errors: np.ndarray, other: np.ndarray) -> bool:
    gain = other - errors
    sure = gain.mean() > CERTAINTY * gain.std() / np.sqrt(len(gain))
    return bool(sure and gain.mean() > MARGIN * other.mean())


@dataclass(frozen=True, eq=False)
class _Judge:
    """The series that alpha is recovered from, and the truth."""

    regime: np.ndarray  # (n,)
    half: np.ndarray  # (n,): noise is measured on the half that a series does not belong to
    lags: int

    def left_out(self, name: str, values: np.ndarray, expected: np.ndarray | None) -> Evidence:
        """Evidence of every series with the block measured on the other half."""
        found: list[tuple[np.ndarray, Evidence]] = []
        seen_at = np.isfinite(values).all(-1)
        if expected is not None:
            seen_at &= np.isfinite(expected).all((-2, -1))
        usable = seen_at.any(axis=1)
        for half in (0, 1):
            mine, others = self.half == half, (self.half != half) & usable
            if len(np.unique(self.regime[others])) < len(np.unique(self.regime)):
                others = usable  # those of the other half are too short, or all missing

            def part(array: np.ndarray | None, rows: np.ndarray) -> np.ndarray | None:
                return None if array is None else array[rows]

            block = Block.measure(
                name, values[others], part(expected, others), self.regime[others]
            )
            if mine.any():
                seen = block.evidence(values[mine], part(expected, mine))
                found.append((np.flatnonzero(mine), seen))
        order = np.argsort(np.concatenate([rows for rows, _ in found]))
        return Evidence.joined([seen for _, seen in found]).rows(order).earlier(middle(name))

    def errors(self, evidence: Evidence) -> np.ndarray:
        """Mean error of each pure series and of each pseudo-transition."""
        kinds = evidence.h.shape[-1]
        truth = np.eye(kinds)[self.regime][:, None]
        share = min(1.0, (MANY / kinds) ** 2)
        some = self._spread(max(FEW, round(share * len(self.regime))))
        wanted = np.broadcast_to(truth[some], (len(some), *evidence.h.shape[1:]))
        pure = self._error(evidence.rows(some), wanted)
        first, second = (side[: max(FEW, round(share * SPLICES))] for side in self._pairs())
        glides = evidence.rows(first).followed_by(evidence.rows(second))
        both = np.concatenate(
            [np.broadcast_to(truth[i], (len(i), *evidence.h.shape[1:])) for i in (first, second)],
            axis=1,
        )
        return np.append(pure, self._error(glides, both))

    def _spread(self, count: int) -> np.ndarray:
        """So many of the series, spread evenly over the regimes; all if there are no more."""
        if count >= len(self.regime):
            return np.arange(len(self.regime))
        order = np.argsort(self.regime, kind="stable")
        return order[np.linspace(0, len(order) - 1, count).round().astype(int)]

    def _error(self, evidence: Evidence, truth: np.ndarray) -> np.ndarray:
        alpha = state_space(evidence, np.ones(evidence.dims.shape)).alpha
        return 0.5 * np.abs(alpha - truth).sum(-1)[:, self.lags :].mean(axis=1)

    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(0)
        first, second = rng.integers(len(self.regime), size=(2, 4 * SPLICES))
        other = np.flatnonzero(self.regime[first] != self.regime[second])[:SPLICES]
        return first[other], second[other]
