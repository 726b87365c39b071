"""Which regimes take part at all: for models that know more regimes than a recording shows.

With many regimes the simplex alone spreads weight over look-alikes. Which set of regimes explains
the evidence is a question for the marginal likelihood: a regime that is not needed costs, because
the model that has it would have expected data that were not seen. That cost grows with the number
of recordings, so a regime that few of many show is looked for apart: see `Shown`.
"""

from __future__ import annotations

import numpy as np

from .inference import log_likelihoods, state_space
from .information import GaussianInformation
from .kalman import GRID, LOG_2PI, START_SCALE, log_prior

#: A regime goes only if the evidence is so many nats more probable without it: 20 to 1. The prior
#: does not know the simplex, so it would drop regimes of which a short recording says little.
#: Of 1, 2, 3 and 4 this one lost least where all regimes take part and gained most where few do.
MARGIN = 3.0
#: Shares of the recordings that may show a regime: from all of them to one in a million.
SHARES = 0.5 ** np.arange(21)


def choose_active(info: GaussianInformation, elapsed: np.ndarray, *, least: int = 2) -> list[int]:
    """The regimes, in order, that all series of the evidence together ask for; at least `least`.

    Blocks of the weakest regimes are dropped while the marginal likelihood gains enough, a block
    being half of what is left and then half of that; so 50 regimes take tens of fits, not
    thousands. A large block may have taken a needed regime along, so single regimes are then
    taken in and dropped until no such step helps.
    """
    search = _Search(info, elapsed)
    regimes = info.regimes
    chosen = search.without_weak_blocks(tuple(range(regimes)), least)
    improved = True
    while improved:
        added = [tuple(sorted((*chosen, k))) for k in range(regimes) if k not in chosen]
        dropped = [tuple(j for j in chosen if j != k) for k in chosen if len(chosen) > least]
        best = max([*added, *dropped], key=search.score, default=chosen)
        improved = search.score(best) > search.score(chosen)
        chosen = best if improved else chosen
    return list(chosen)


def marginal_likelihood(info: GaussianInformation, elapsed: np.ndarray) -> np.ndarray:
    """Log evidence (S,) of each series, with the process noise integrated out by its prior."""
    if info.regimes == 1:  # nothing is free: the one regime has weight 1
        quadratic = info.quadratic(np.ones(info.h.shape)) + info.log_det
        return np.asarray(-0.5 * (quadratic + LOG_2PI * info.dims).sum(axis=0))
    plane = info.simplex_coordinates
    prior = log_prior(GRID)
    prior -= np.logaddexp.reduce(prior)
    scores = log_likelihoods(plane.A, plane.b, elapsed, GRID) + prior[:, None]
    constant = (plane.offset + LOG_2PI * plane.dims).sum(axis=0)
    constant += 2 * len(plane.b) * np.log(START_SCALE)
    return np.asarray(np.logaddexp.reduce(scores, axis=0) - 0.5 * constant)


class Shown:
    """Which regimes, beside those chosen, some of many recordings show; asked part by part.

    If a share of the recordings has the regime and the others do not, the probability of all is
    the product of the mixtures. Averaged over shares and relative to no recording having it, it
    exceeds exp(x) with a probability of at most exp(-x) where the regime takes part nowhere,
    however many recordings there are (Markov's inequality).
    """

    def __init__(self, chosen: list[int], regimes: int) -> None:
        self.chosen = chosen
        self.others = [k for k in range(regimes) if k not in chosen]
        self.log_ratio = np.zeros((len(self.others), len(SHARES)))

    def add(self, info: GaussianInformation, elapsed: np.ndarray) -> None:
        """Count further recordings."""
        without = marginal_likelihood(info.restrict_to(self.chosen), elapsed)
        with np.errstate(divide="ignore"):  # none is left where the share is one
            absent = np.log1p(-SHARES)[:, None]
        for i, k in enumerate(self.others):
            gain = (
                marginal_likelihood(info.restrict_to(sorted([*self.chosen, k])), elapsed) - without
            )
            mixture = np.logaddexp(absent, np.log(SHARES)[:, None] + gain)
            self.log_ratio[i] += mixture.sum(axis=1)

    def best(self) -> int | None:
        """The regime that is shown most clearly, if one is."""
        score = np.logaddexp.reduce(self.log_ratio, axis=1) - np.log(len(SHARES))
        clear = score.size and score.max() > MARGIN
        return self.others[int(score.argmax())] if clear else None


class _Search:
    """Sets of regimes with their scores; no set is fitted twice."""

    def __init__(self, info: GaussianInformation, elapsed: np.ndarray) -> None:
        self.info, self.elapsed = info, elapsed
        self.scores: dict[tuple[int, ...], float] = {}

    def score(self, chosen: tuple[int, ...]) -> float:
        """Marginal likelihood of a set of regimes, each of which has the benefit of the doubt."""
        if chosen not in self.scores:
            fit = marginal_likelihood(self.info.restrict_to(chosen), self.elapsed).sum()
            self.scores[chosen] = float(fit) + MARGIN * len(chosen)
        return self.scores[chosen]

    def without_weak_blocks(self, chosen: tuple[int, ...], least: int) -> tuple[int, ...]:
        """Drop the weakest half, or half of that, and so on, while the score does not fall."""
        block = len(chosen) // 2
        while block and len(chosen) > least:
            answer = state_space(self.info.restrict_to(chosen), self.elapsed)
            order = answer.alpha.mean(axis=(0, 1)).argsort()
            block = min(block, len(chosen) - least)
            while block:
                gone = {chosen[i] for i in order[:block]}
                fewer = tuple(k for k in chosen if k not in gone)
                if self.score(fewer) >= self.score(chosen):
                    chosen, block = fewer, max(1, min(block, len(fewer) // 2))
                    break
                block //= 2
        return chosen
