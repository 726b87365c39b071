"""The oracle: true latents and true conditional means, handed to the same stage-2 engine.

It is the ceiling that a learned model is compared with, never a result of its own.
"""

from __future__ import annotations

import numpy as np

from .recover.engine import Answer, state_space
from .recover.evidence import Evidence
from .worlds import Simulation


def oracle(simulation: Simulation, *, pool: bool = False, causal: bool = False) -> Answer:
    """What the engine would answer if stage 1 were perfect."""
    variance = (simulation.world.scales**2).mean(axis=0)
    evidence = Evidence.of_block(
        simulation.conditional_means(), simulation.latents.astype(float), np.diag(1 / variance)
    )
    evidence = evidence.pooled() if pool else evidence
    return state_space(evidence, np.ones(evidence.dims.shape), causal=causal)
