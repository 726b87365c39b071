"""Which regimes take part at all: for models that know more regimes than a recording shows.

With many regimes the simplex alone spreads weight over look-alikes. Which set of regimes explains
the evidence is a question for the marginal likelihood: a regime that is not needed costs, because
the model that has it would have expected data that were not seen.
"""

from __future__ import annotations

import numpy as np

from .engine import state_space
from .evidence import Evidence
from .statespace import DRIFTS, drift_prior, run_filter

#: A regime goes only if the evidence is so many nats more probable without it: 20 to 1. The prior
#: does not know the simplex, so it would drop regimes of which a short recording says little.
#: Of 1, 2, 3 and 4 this one lost least where all regimes take part and gained most where few do.
MARGIN = 3.0


def choose_active(evidence: Evidence, elapsed: np.ndarray, *, least: int = 2) -> list[int]:
    """The regimes, in order, that all series of the evidence together ask for; at least `least`.

    Blocks of the weakest regimes are dropped while the marginal likelihood gains enough, a block
    being half of what is left and then half of that; so 50 regimes take tens of fits, not
    thousands. A large block may have taken a needed regime along, so single regimes are then
    taken in and dropped until no such step helps.
    """
    search = _Search(evidence, elapsed)
    regimes = evidence.h.shape[-1]
    chosen = search.without_weak_blocks(tuple(range(regimes)), least)
    improved = True
    while improved:
        added = [tuple(sorted((*chosen, k))) for k in range(regimes) if k not in chosen]
        dropped = [tuple(j for j in chosen if j != k) for k in chosen if len(chosen) > least]
        best = max([*added, *dropped], key=search.score, default=chosen)
        improved = search.score(best) > search.score(chosen)
        chosen = best if improved else chosen
    return list(chosen)


def marginal_likelihood(evidence: Evidence, elapsed: np.ndarray) -> float:
    """Log probability of the evidence of all series, averaged over drifts by their prior."""
    if evidence.h.shape[-1] == 1:  # nothing is free: the one regime has weight 1
        quadratic = evidence.offset - 2 * evidence.h[..., 0] + evidence.G[..., 0, 0]
        return float(-0.5 * (quadratic + np.log(2 * np.pi) * evidence.dims).sum())
    series, count = len(evidence.h), len(DRIFTS)
    plane = evidence.on_plane().repeated(count)
    run = run_filter(plane, np.repeat(DRIFTS, series), np.tile(elapsed, (count, 1)))
    belief = drift_prior(np.log10(DRIFTS))
    belief -= np.logaddexp.reduce(belief)
    scores = run.log_likelihood[-1].reshape(count, series) + belief[:, None]
    return float(np.logaddexp.reduce(scores, axis=0).sum())


class _Search:
    """Sets of regimes with their scores; no set is fitted twice."""

    def __init__(self, evidence: Evidence, elapsed: np.ndarray) -> None:
        self.evidence, self.elapsed = evidence, elapsed
        self.scores: dict[tuple[int, ...], float] = {}

    def score(self, chosen: tuple[int, ...]) -> float:
        """Marginal likelihood of a set of regimes, each of which has the benefit of the doubt."""
        if chosen not in self.scores:
            fit = marginal_likelihood(self.evidence.of(chosen), self.elapsed)
            self.scores[chosen] = fit + MARGIN * len(chosen)
        return self.scores[chosen]

    def without_weak_blocks(self, chosen: tuple[int, ...], least: int) -> tuple[int, ...]:
        """Drop the weakest half, or half of that, and so on, while the score does not fall."""
        block = len(chosen) // 2
        while block and len(chosen) > least:
            answer = state_space(self.evidence.of(chosen), self.elapsed)
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
