"""Additive decoder: axes whose effects on the key points of a picture add up.

Some latents move the picture of the same step and others do not; with white noise the two kinds
span orthogonal spaces. A key point mostly adds the effects of several latents: x = sum_i f_i(z_i).
The axes are identified as far as the f_i are nonlinear (additive decoders, Lachapelle et al.
2023); where all are linear, nothing is claimed.
"""

from __future__ import annotations

from itertools import combinations
from typing import cast

import numpy as np

from .._runtime.stochastic import generator
from ..vision.observable_subspace import LEAST_EFFECT
from .rotation_test import RotationEvidence, givens_rotation, random_rotations, rotation_test
from .transitions import Transitions, TransitionSplit

ADDITIVE_DECODER = "additive view"

POWERS = 3
RESTARTS, SWEEPS = 3, 4
SEARCHED_ROWS = 6_000
GRID = np.deg2rad(np.arange(-45.0, 45.0, 3.0))
FINE = np.deg2rad(np.arange(-3.0, 3.01, 0.5))
#: Lower bound of a channel's noise variance, as a share of its variance.
NOISE_FLOOR = 1e-4


def additive_decoder(parts: TransitionSplit) -> RotationEvidence:
    """Rotate the observable axes until their effects add up; unobservable ones follow."""
    train, test = parts.fit, parts.test
    random = generator(parts.seed, ADDITIVE_DECODER)
    basis, visible = observable_first(train)
    keep = np.zeros(len(train.value), bool)
    keep[random.permutation(len(keep))[:SEARCHED_ROWS]] = True
    part = train.where(keep).mapped(basis[:visible])
    starts = random_rotations(RESTARTS, visible, random)
    found = max((_search(part, start) for start in starts), key=lambda pair: pair[1])[0]
    rotation = basis.copy()
    rotation[:visible] = found @ basis[:visible]

    def score(axes: np.ndarray, pair: tuple[int, int]) -> np.ndarray:
        if min(pair) >= visible:  # any rotation is equally likely
            return np.zeros(len(test.regime_of_unit))
        return test.by_unit(_log_likelihood(train, test, axes[:visible]))

    facts = {"visible": float(visible)}
    return rotation_test(ADDITIVE_DECODER, rotation, score, test.regime_of_unit, facts)


def observable_first(rows: Transitions) -> tuple[np.ndarray, int]:
    """Return a rotation whose first axes span what moves the key points, and their number."""
    shown = cast(np.ndarray, rows.keypoints)
    design = rows.value - rows.value.mean(axis=0)
    effects = np.linalg.lstsq(design, shown - shown.mean(axis=0), rcond=None)[0]
    _, size, axes = np.linalg.svd(effects.T, full_matrices=True)
    return axes, max(1, int((size >= LEAST_EFFECT * size[0]).sum()))


def _log_likelihood(train: Transitions, test: Transitions, axes: np.ndarray) -> np.ndarray:
    """Log likelihood (N,) of test key points as sums of cubics in single axes."""
    shown = cast(np.ndarray, train.keypoints)
    centre, spread = train.value.mean(axis=0), (train.value @ axes.T).std(axis=0)

    def powers(latents: np.ndarray) -> np.ndarray:
        u = (latents - centre) @ axes.T / spread
        return np.column_stack([np.ones(len(u)), *(u**power for power in range(1, POWERS + 1))])

    design = powers(train.value)
    fitted = np.linalg.lstsq(design, shown, rcond=None)[0]
    floor = NOISE_FLOOR * shown.var(axis=0) + 1e-30
    noise = ((shown - design @ fitted) ** 2).mean(axis=0) + floor
    error = cast(np.ndarray, test.keypoints) - powers(test.value) @ fitted
    return -0.5 * (error**2 / noise + np.log(noise)).sum(axis=1)


def _search(train: Transitions, rotation: np.ndarray) -> tuple[np.ndarray, float]:
    """Rotate one pair of axes after the other to its best angle, in large, then small steps."""
    size = len(rotation)
    best = float(_log_likelihood(train, train, rotation).mean())
    for sweep in range(SWEEPS):
        before = best
        for i, j in combinations(range(size), 2):
            angles = (GRID, FINE)[sweep > 0]
            rotated = [givens_rotation(size, i, j, angle) @ rotation for angle in angles]
            scores = [float(_log_likelihood(train, train, axes).mean()) for axes in rotated]
            if max(scores) > best:
                best, rotation = max(scores), rotated[int(np.argmax(scores))]
        if sweep > 0 and best - before < 1e-6:
            break
    return rotation, best
