"""What our curves are held against: a line that was told its direction, and other methods."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..baselines import Method, make
from ..evaluate import Answer, truth_of_share
from ..metrics import known_mean
from ..series import Panel

#: No method: it knows the truth at both ends.
TOLD = "told-line"
#: Learns as long as all others together, so it is shown fewer transitions and by one seed alone.
NCTRL, SHOWN = "nctrl-hard", 100_000


def told_line(moments: np.ndarray, share: np.ndarray, regime: int) -> Answer:
    """From 0 to 1 or back, as the true share of a regime does from its first to its last tenth."""
    tenth = max(1, len(share) // 10)
    rises = known_mean(share[-tenth:]) > known_mean(share[:tenth])
    line = np.linspace(0, 1, len(share)) if rises else np.linspace(1, 0, len(share))
    return Answer(moments, truth_of_share(line, regime))


def taught(name: str, learn: Panel, settings: dict[str, Any]) -> Method:
    """Another method with the seed and the latents of our fits."""
    trained = {"transitions": SHOWN, "holdout": settings["holdout"]}
    more = trained if name == NCTRL else {"holdout": 0.0}  # nothing to select
    return make(name, seed=settings["seed"], latents=settings["latents"], **more).fit(learn)


def answers_by(method: Method, panel: Panel) -> list[Answer]:
    """What such a method says of recordings."""
    curves = method.weights(panel)
    assert curves is not None  # all of these answer
    return [Answer(panel.time_of(i), curve) for i, curve in enumerate(curves)]
