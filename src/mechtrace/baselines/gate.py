"""The gating network alone: a classifier of latents instead of stage 2."""

from __future__ import annotations

import numpy as np

from ..estimator import Trace
from ..gating import fit_gate
from ..series import Panel
from ..training import Run
from .ours import Traced
from .protocol import Traits


class GateAlone(Traced):
    """Probabilities of a gate on the latents of a Trace, which nobody aligns."""

    traits = Traits(
        title="Gating network",
        about="Regime probabilities of a network that sees the latents of mechtrace.",
        labels=True,
        latents=True,
        weights=True,
    )
    align = False

    def _conclude(self, trace: Trace, run: Run) -> None:
        super()._conclude(trace, run)
        self.gate_ = fit_gate(trace, run.panel, seed=self.settings.seed)

    def _weights(self, panel: Panel) -> list[np.ndarray]:
        return self.gate_.weights(panel)
