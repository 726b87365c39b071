"""What a correlation with one change is worth: a line in time that was told its direction."""

from __future__ import annotations

import numpy as np

from ..evaluate import Answer, truth_of_share
from ..metrics import known_mean

#: No method: it knows the truth at both ends.
TOLD = "told-line"


def told_line(moments: np.ndarray, share: np.ndarray, regime: int) -> Answer:
    """From 0 to 1 or back, as the true share of a regime does from its first to its last tenth."""
    tenth = max(1, len(share) // 10)
    rises = known_mean(share[-tenth:]) > known_mean(share[:tenth])
    line = np.linspace(0, 1, len(share)) if rises else np.linspace(1, 0, len(share))
    return Answer(moments, truth_of_share(line, regime))
