"""Reference methods: a line that knows its direction, and other methods."""

from __future__ import annotations

from typing import Any

import numpy as np

from mechtrace.data import Panel
from mechtrace.evaluate import EstimatedShares, truth_of_share
from mechtrace.metrics import known_mean

from ..baselines import Method, make

#: No method: it knows the truth at both ends.
TOLD_LINE = "told-line"
#: Learns as long as all others together, so it is shown fewer transitions and by one seed alone.
NCTRL, NCTRL_TRANSITIONS = "nctrl-hard", 100_000


def told_line(moments: np.ndarray, share: np.ndarray, regime: int) -> EstimatedShares:
    """A line from 0 to 1 or back, in the direction of the true share."""
    tenth = max(1, len(share) // 10)
    rises = known_mean(share[-tenth:]) > known_mean(share[:tenth])
    line = np.linspace(0, 1, len(share)) if rises else np.linspace(1, 0, len(share))
    return EstimatedShares(moments, truth_of_share(line, regime))


def fit_baseline(name: str, learn: Panel, settings: dict[str, Any]) -> Method:
    """Fit a baseline with the seed of our fits."""
    trained = {"transitions": NCTRL_TRANSITIONS}
    more = trained if name == NCTRL else {"holdout": 0.0}  # nothing to select
    return make(name, seed=settings["seed"], **more).fit(learn)


def baseline_answers(method: Method, panel: Panel) -> list[EstimatedShares]:
    """Recover the weights of recordings by a baseline."""
    curves = method.weights(panel)
    assert curves is not None  # all of these answer
    return [EstimatedShares(panel.time_of(i), curve) for i, curve in enumerate(curves)]
