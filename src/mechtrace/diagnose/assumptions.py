"""The paper's assumptions: A1, A2, A4 and A6 as far as data can test them; A3 and A5 cannot be.

Latents that the sensors do not determine carry nothing, so only the others are judged.
"""

from __future__ import annotations

import numpy as np

from ..stage2.observation_models import parse
from ..stage2.pure_statistics import PureRegimeStatistics
from ..stage2.trajectory import Trajectory
from .findings import Finding, at_most, rounded
from .separation import active_regimes

#: Largest posterior standard deviation of a latent, in units of its own in training.
MAX_POSTERIOR_SD = 0.3
#: Largest correlation between the prediction errors of two latents.
MAX_CORRELATION = 0.5
#: Largest excess kurtosis (Laplace: 3) and lag-1 autocorrelation of prediction errors; information
#: is divided by the autocorrelation time, so it is only large ones that matter.
MAX_KURTOSIS, MAX_AUTOCORRELATION = 6.0, 0.5
#: Largest mean change of alpha per step.
MAX_CHANGE = 0.25

ON_TRUST = Finding(
    "A3, A5 on trust", "untestable", np.nan, np.nan,
    "Data cannot test sufficient variability (A3), which interpreting single latents needs,"
    " and smooth mechanisms (A5), which the bounds of Theorems 2 and 3 need.",
    "Decide from knowledge of the system whether they hold.",
)  # fmt: skip


def assumptions(path: Trajectory, reference: PureRegimeStatistics) -> list[Finding]:
    """List what is known of each assumption."""
    found = [
        _invertible(reference),
        _full_rank(path, reference),
        _regular(path),
        _independent(reference),
        _noise(reference),
        ON_TRUST,
    ]
    return [finding for finding in found if finding is not None]


def _invertible(reference: PureRegimeStatistics) -> Finding:
    """A1: the posterior of the latents is narrow if observations determine them."""
    used, latents = reference.determined, len(reference.width)
    own = (np.diagonal(reference.spread) + reference.means.var(axis=0))[used]
    value = float(np.sqrt((reference.width[used] / np.maximum(own, 1e-300)).max()))
    left_out = ""
    if len(used) < latents:
        left_out = (
            f" These sensors do not determine {latents - len(used)} of the {latents} latents;"
            f" refit with {len(used)}."
        )
    return at_most(
        "A1 invertible mixing", value, MAX_POSTERIOR_SD, np.inf,
        f"The largest posterior standard deviation of a latent is {rounded(value)} times its own"
        f" (limit: at most {MAX_POSTERIOR_SD:g}).{left_out}",
        "Sensors are too noisy for this latent: add channels, or use fewer latents.",
    )  # fmt: skip


def _independent(reference: PureRegimeStatistics) -> Finding | None:
    """A2: given the past, the latents are uncorrelated; None without prediction errors."""
    if not np.isfinite(reference.pure_error).all(axis=-1).any():
        return None
    used = reference.determined
    covariance = reference.noise.mean(axis=0)[np.ix_(used, used)]
    scale = np.sqrt(np.diagonal(covariance))
    linked = np.abs(covariance / np.outer(scale, scale) - np.eye(len(scale)))
    value = float(linked.max())
    return at_most(
        "A2 conditional independence", value, MAX_CORRELATION, np.inf,
        f"The largest correlation of two latents given the past is {rounded(value)} (limit: at"
        f" most {MAX_CORRELATION:g}). alpha(t) does not need A2, interpreting single latents"
        " does.",
        "Do not interpret single latents.",
    )  # fmt: skip


def _full_rank(path: Trajectory, reference: PureRegimeStatistics) -> Finding:
    """A4: K <= d + 1, which only the constant basis needs."""
    active, d = len(active_regimes(path.alpha)), reference.means.shape[1]
    crowded = path.method == "algorithm1" and active > d + 1
    return Finding(
        "A4 capacity", "bad" if crowded else "good", float(active), float(d + 1),
        f"{active} regimes are active. The constant basis of {d} latents holds at most {d + 1};"
        " the conditional basis has no such limit.",
        "Use method='state-space'.",
    )  # fmt: skip


def _regular(path: Trajectory) -> Finding:
    """A6, first half: alpha changes slowly."""
    alpha = path.alpha[np.isfinite(path.alpha).all(axis=1)]
    steps = np.linalg.norm(np.diff(alpha, axis=0), axis=1)
    value = float(steps.mean()) if len(steps) else 0.0
    return at_most(
        "A6 bounded variation", value, MAX_CHANGE, np.inf,
        f"alpha changes by {rounded(value)} per step on average (limit: at most {MAX_CHANGE:g}),"
        f" {rounded(float(steps.sum()))} in total.",
        "alpha changes too fast for smoothing: use a higher sampling rate.",
    )  # fmt: skip


def _noise(reference: PureRegimeStatistics) -> Finding | None:
    """A6, second half: noise without heavy tails or autocorrelation; None as for A2."""
    error = reference.pure_error.astype(float)
    known = np.isfinite(error).all(axis=-1)
    if not known.any():
        return None
    centred = error[known] - error[known].mean(axis=0)
    tails = float(((centred**4).mean(0) / (centred**2).mean(0) ** 2).max() - 3)
    pair = known[:, 1:] & known[:, :-1]
    before, after = error[:, :-1][pair], error[:, 1:][pair]
    power = np.sqrt((before**2).mean(0) * (after**2).mean(0)) if pair.any() else np.ones(1)
    serial = float(np.abs((before * after).mean(0) / power).max()) if pair.any() else 0.0
    if parse(reference.tested.name)[1] > 1:  # predictions of several steps overlap
        serial = 0.0
    value = max(tails / MAX_KURTOSIS, serial / MAX_AUTOCORRELATION)
    return at_most(
        "A6 noise", value, 1.0, np.inf,
        f"Prediction errors on pure series: excess kurtosis {rounded(tails)} (limit: at most"
        f" {MAX_KURTOSIS:g}), lag-1 autocorrelation {rounded(serial)} (limit: at most"
        f" {MAX_AUTOCORRELATION:g}).",
        "Intervals are too narrow for such noise: use more lags, or train longer.",
    )  # fmt: skip
