"""Recordings and references that several tests of the diagnosis use."""

from __future__ import annotations

import numpy as np

from mechtrace.diagnose.goodness_of_fit import (
    convexity,
)
from mechtrace.stage2.kalman import Observed, nis
from mechtrace.stage2.pure_statistics import PureRegimeStatistics


def dependent_surprise(rng, series, steps):
    """Squared noise whose level drifts slowly: positive, skewed and dependent over time."""
    level = np.cumsum(rng.normal(0, 0.1, (series, steps)), axis=1)
    return (
        rng.chisquare(8, (series, steps))
        / 8
        * np.exp(0.3 * (level - level.mean(1, keepdims=True)))
    )


def oracle_reference(world):
    pure = world.simulate(60, seed=9)
    return PureRegimeStatistics.measure(
        pure.latents.astype(float),
        np.zeros(pure.latents.shape),
        pure.conditional_means(),
        pure.label,
    )


def judged(reference, glide, trials=1):
    """The whole test on true latents and mechanisms, one by one or pooled."""
    z, m = glide.latents.astype(float), glide.conditional_means()
    out = []
    for g in range(0, len(z), trials):
        part, every = slice(g, g + trials), np.eye(m.shape[2])
        plain = reference.tested
        stacking = reference.offsets[plain.name].recombination
        info = plain.information(z[part], m[part]).recombine(stacking)
        surprise = nis(info, np.ones(info.dims.T.shape)).mean(axis=0)
        observed = Observed(z[part], m[part], np.ones(z.shape[1]), every)
        out.append(convexity(surprise, observed, reference, trials=trials))
    return out
