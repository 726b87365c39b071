"""From measured quantities to findings: all thresholds and their meaning live here."""

from __future__ import annotations

import numpy as np
from scipy.stats import chi2

from ..recover.reference import Reference
from ..recover.trajectory import Trajectory
from .findings import Diagnosis, Finding, Level
from .geometry import closest_pair, separation, static_sigma_min
from .residual import convexity_test, paper_test

#: Standard deviations by which a recording must be able to tell its regimes apart.
SEPARATED, HARDLY = 3.0, 1.5
MARGINAL, REJECTED = 0.05, 0.01  # p-values, as in appendix E.3
WIDE = 0.4  # mean width of the intervals
FAR = 1e-3  # p-value of the operating point


def diagnose(path: Trajectory, reference: Reference) -> Diagnosis:
    """Look at one curve in every way that the data allows."""
    findings = [
        _told_apart(path),
        _convexity(path, reference),
        _width(path),
        _operating_point(path, reference),
        _static_basis(path, reference),
    ]
    return Diagnosis(path.name, tuple(findings))


def _told_apart(path: Trajectory) -> Finding:
    distance = np.sqrt(separation(path.information))
    first, second = closest_pair(distance)
    names = f"{path.regimes[first]!r} and {path.regimes[second]!r}"
    value = float(distance[first, second])
    return Finding(
        "separation",
        _graded(-value, -SEPARATED, -HARDLY),
        value,
        SEPARATED,
        f"{names} are the hardest to tell apart here, {value:.1f} standard deviations.",
        "Merge them if they mean the same, give a longer recording, or pool repeated trials.",
    )


def _convexity(path: Trajectory, reference: Reference) -> Finding:
    test = convexity_test(path.surprise, reference.surprise, trials=path.trials)
    level = _graded(-test.p_value, -MARGINAL, -REJECTED)
    paper = paper_test(path.residual, np.sqrt(reference.surprise))
    where = ""
    if test.unusual.any():
        rows = np.flatnonzero(test.unusual)
        where = f" Most unusual between {path.time[rows[0]]} and {path.time[rows[-1]]}."
    meaning = (
        "No step is explained worse than in pure recordings."
        if level == "good"
        else f"Part of this recording is explained by none of the known mechanisms.{where}"
    )
    return Finding(
        "convexity",
        level,
        test.p_value,
        MARGINAL,
        f"{meaning} (The paper's KS test gives p = {paper:.2g}.)",
        "Look at the residual over time; add the missing regime to the training data.",
    )


def _width(path: Trajectory) -> Finding:
    known = path.flag != "warm-up"
    value = float((path.upper - path.lower)[known].mean()) if known.any() else 1.0
    return Finding(
        "interval width",
        _graded(value, WIDE, np.inf),  # wide intervals are honest, not wrong
        value,
        WIDE,
        f"The {100 * path.level:.0f} % intervals are {value:.2f} wide on average.",
        "One recording of this length says little; pool trials, record longer, or name the"
        " active regimes.",
    )


def _operating_point(path: Trajectory, reference: Reference) -> Finding:
    """Does the recording run where the training recordings ran?"""
    known = np.isfinite(path.alpha).all(axis=1)
    expected = path.alpha[known].mean(axis=0) @ reference.means
    gap = path.latent_mean - expected
    scatter = reference.between + 1e-9 * np.eye(len(gap)) * np.trace(reference.between)
    value = float(gap @ np.linalg.solve(scatter, gap)) / len(gap)
    limit = float(chi2.isf(FAR, len(gap))) / len(gap)
    return Finding(
        "operating point",
        _graded(value, limit, 3 * limit),
        value,
        limit,
        "Squared distance of the mean latents from those of training series, per latent.",
        "The recording runs at another operating point than any training series: check units and"
        " sensors, or add such recordings to the training data.",
    )


def _static_basis(path: Trajectory, reference: Reference) -> Finding:
    value = static_sigma_min(reference.means)
    spread = float(np.sqrt(np.trace(reference.spread)))
    level: Level = (
        "good" if path.method == "state-space" else _graded(-value / spread, -0.2, -0.05)
    )
    return Finding(
        "sigma_min",
        level,
        value,
        0.2 * spread,
        "Smallest singular value of the constant basis, which only method='algorithm1' needs.",
        "Use method='state-space'.",
    )


def _graded(value: float, caution: float, bad: float) -> Level:
    return "bad" if value > bad else "caution" if value > caution else "good"
