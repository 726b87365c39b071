"""The paper's assumptions A1 to A6: what data can show, and what must be taken on trust."""

from __future__ import annotations

import numpy as np

from ..recover.reference import Reference
from ..recover.trajectory import Trajectory
from .findings import Finding, graded
from .geometry import active_regimes

#: Width of the encoder's posterior over the noise: above, the observation hides the latents.
HIDDEN = 1.0
#: Correlation between the prediction errors of two latents.
LINKED = 0.3
#: Excess kurtosis of errors (Laplace: 3), and their correlation with the errors before.
HEAVY, SERIAL = 3.0, 0.2
#: Mean change of alpha per step.
ERRATIC = 0.25


def assumptions(path: Trajectory, reference: Reference) -> list[Finding]:
    """A1, A2, A4 and A6 as far as they can be seen; A3 and A5 cannot be."""
    found = [_invertible(reference), _full_rank(path, reference), _regular(path)]
    if np.isfinite(reference.pure_error).all(axis=-1).any():
        found += [_independent(reference), _noise(reference)]
    return [*found, _on_trust()]


def _invertible(reference: Reference) -> Finding:
    """A1: an observation that fixes the latents leaves the encoder no doubt about them."""
    noise = np.diagonal(reference.noise.mean(axis=0))
    value = float(np.sqrt((reference.width / noise).max()))
    return Finding(
        "A1 invertible mixing",
        graded(value, HIDDEN, np.inf),
        value,
        HIDDEN,
        f"The encoder's own doubt is {value:.2f} of the mechanisms' noise, in the worst latent.",
        "The observation may not determine the latents: add channels, or use fewer latents.",
    )


def _independent(reference: Reference) -> Finding:
    """A2: given the past, the latents are independent (as far as second moments show)."""
    covariance = reference.noise.mean(axis=0)
    scale = np.sqrt(np.diagonal(covariance))
    linked = np.abs(covariance / np.outer(scale, scale) - np.eye(len(scale)))
    value = float(linked.max())
    return Finding(
        "A2 conditional independence",
        graded(value, LINKED, np.inf),
        value,
        LINKED,
        f"Given the past, latents correlate by at most {value:.2f}. The curve does not need A2"
        " (the noise covariance is measured); names of single latents do.",
        "Do not interpret single latents.",
    )


def _full_rank(path: Trajectory, reference: Reference) -> Finding:
    """A4 and the capacity K <= d + 1, which only the constant basis needs."""
    active, d = len(active_regimes(path.alpha)), reference.means.shape[1]
    crowded = path.method == "algorithm1" and active > d + 1
    return Finding(
        "A4 capacity",
        "bad" if crowded else "good",
        float(active),
        float(d + 1),
        f"{active} regimes at work, {d} latents; the constant basis holds at most {d + 1}, the"
        " conditional basis has no such limit.",
        "Use method='state-space'.",
    )


def _regular(path: Trajectory) -> Finding:
    """A6, first half: alpha moves slowly."""
    alpha = path.alpha[np.isfinite(path.alpha).all(axis=1)]
    steps = np.linalg.norm(np.diff(alpha, axis=0), axis=1)
    value = float(steps.mean()) if len(steps) else 0.0
    return Finding(
        "A6 bounded variation",
        graded(value, ERRATIC, np.inf),
        value,
        ERRATIC,
        f"alpha moves by {value:.3f} per step on average, {steps.sum():.2f} in all.",
        "alpha changes too fast for smoothing to help: sample more densely.",
    )


def _noise(reference: Reference) -> Finding:
    """A6, second half: independent noise without heavy tails."""
    error = reference.pure_error.astype(float)
    known = np.isfinite(error).all(axis=-1)
    centred = error[known] - error[known].mean(axis=0)
    tails = float(((centred**4).mean(0) / (centred**2).mean(0) ** 2).max() - 3)
    pair = known[:, 1:] & known[:, :-1]
    before, after = error[:, :-1][pair], error[:, 1:][pair]
    power = np.sqrt((before**2).mean(0) * (after**2).mean(0)) if pair.any() else np.ones(1)
    serial = float(np.abs((before * after).mean(0) / power).max()) if pair.any() else 0.0
    value = max(tails / HEAVY, serial / SERIAL)
    return Finding(
        "A6 noise",
        graded(value, 1.0, np.inf),
        value,
        1.0,
        f"Errors on pure series: excess kurtosis at most {tails:.1f} (limit {HEAVY:g}),"
        f" correlation with the step before at most {serial:.2f} (limit {SERIAL:g}).",
        "Intervals are too narrow for such noise: use more lags, or a longer training.",
    )


def _on_trust() -> Finding:
    return Finding(
        "A3, A5 on trust",
        "good",
        2.0,
        2.0,
        "Sufficient variability (A3) and smooth mechanisms (A5) cannot be seen in data. A3 matters"
        " for naming single latents; A5 for the bounds of Theorems 2 and 3.",
    )
