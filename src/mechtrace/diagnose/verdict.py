"""From measured quantities to findings about a curve: thresholds and their meaning live here."""

from __future__ import annotations

import numpy as np
from scipy.stats import chi2

from ..recover.events import shown_time
from ..recover.reference import Reference
from ..recover.trajectory import Trajectory
from .assumptions import assumptions
from .findings import Diagnosis, Finding, Level, graded
from .geometry import (
    NOT_AT_ALL,
    active_regimes,
    closest_pair,
    clusters,
    separation,
    static_sigma_min,
    step_scatter,
    weight_deviation,
    worst_deviation,
)
from .residual import convexity, paper_test
from .shape import orderly

#: Standard deviations by which a recording must be able to tell its regimes apart; and by which
#: the mean states must differ at a single step, for Algorithm 1. There, a weight is off by a third
#: and by two thirds: at the ends of the scale, where half of that is cut off, by an eighth and a
#: quarter on average, where two regimes by chance are off by a half.
SEPARATED, HARDLY = 3.0, 1.5
#: Noise standard deviations per step below which two regimes are one and the same.
SAME = 0.3
#: Standard deviation of a constant alpha: above, a recording says little, or nothing.
VAGUE, BLIND = 0.3, 1.0
MARGINAL, REJECTED = 0.05, 0.01  # p-values, as in appendix E.3
WIDE = 0.4  # mean width of the intervals
FAR = 1e-3  # p-value of the operating point
#: Share of the steps at which blocks of evidence contradict each other.
DISAGREE, MOSTLY_DISAGREE = 0.1, 0.3


def diagnose(path: Trajectory, reference: Reference) -> Diagnosis:
    """Look at one curve in every way that the data allows."""
    if not np.isfinite(path.surprise).any():
        return Diagnosis(path.name, (_nothing_seen(path),))
    findings = [
        _told_apart(path),
        _mergeable(path, reference),
        _information(path),
        _convexity(path, reference),
        _width(path),
        _operating_point(path, reference),
        _static_basis(path, reference),
        _agreement(path),
        orderly(path),
        *assumptions(path, reference),
    ]
    return Diagnosis(path.name, tuple(finding for finding in findings if finding is not None))


def _nothing_seen(path: Trajectory) -> Finding:
    return Finding(
        "evidence",
        "bad",
        0.0,
        1.0,
        "No step of this recording has a full history, so the curve is nothing but a prior.",
        "Give more rows than the model has lags, without missing values in between.",
    )


def _told_apart(path: Trajectory) -> Finding:
    active = active_regimes(path.alpha)
    distance = np.sqrt(separation(path.information))[np.ix_(active, active)]
    first, second = (active[i] for i in closest_pair(distance))
    value = float(distance[np.triu_indices(len(active), 1)].min())
    return Finding(
        "separation",
        graded(-value, -SEPARATED, -HARDLY),
        value,
        SEPARATED,
        f"Of the regimes at work, {path.regimes[first]!r} and {path.regimes[second]!r} are the"
        f" hardest to tell apart: {value:.1f} standard deviations over this recording.",
        "Merge them if they mean the same, give a longer recording, or pool repeated trials.",
    )


def _mergeable(path: Trajectory, reference: Reference) -> Finding:
    """Regimes whose predictions never differ: on pure data, or on this recording if it says so."""
    rows = int(np.isfinite(path.surprise).sum()) * path.trials
    gram = reference.gram if reference.gram.size else path.information / rows
    distance = np.sqrt(separation(gram))
    kinds = len(path.regimes)
    groups = [[path.regimes[k] for k in group] for group in clusters(distance < SAME)]
    first, second = closest_pair(distance)
    value = float(distance[first, second])
    if not groups:
        return Finding(
            "mergeable regimes",
            "good",
            value,
            SAME,
            f"No two regimes are the same; the closest, {path.regimes[first]!r} and"
            f" {path.regimes[second]!r}, differ by {value:.2f} noise deviations per step.",
        )
    named = "; ".join(" and ".join(repr(name) for name in group) for group in groups)
    fewer = kinds - sum(len(group) - 1 for group in groups)
    concerned = {name for group in groups for name in group}
    at_work = {path.regimes[k] for k in active_regimes(path.alpha)}
    return Finding(
        "mergeable regimes",
        "bad" if concerned & at_work else "caution",
        value,
        SAME,
        f"{named} predict the same ({value:.2f} noise deviations per step), so how alpha is split"
        " between them is arbitrary; their sum is not.",
        f"Merge {named} and fit {fewer} regimes, or read only the sum of their weights.",
    )


def _information(path: Trajectory) -> Finding:
    """What the conditional basis could tell of an alpha that stands still."""
    active = active_regimes(path.alpha)
    value, whole = worst_deviation(path.information, active), worst_deviation(path.information)
    return Finding(
        "information",
        graded(value, VAGUE, BLIND),
        value,
        VAGUE,
        f"If alpha stood still, this recording would fix the weights of the {len(active)} regimes"
        f" at work to {value:.2g} (one standard deviation, worst direction); with all"
        f" {len(path.regimes)} regimes allowed to {whole:.2g}.",
        "Give a longer recording, pool repeated trials, or name the active regimes.",
    )


def _convexity(path: Trajectory, reference: Reference) -> Finding:
    test = convexity(path.surprise, path.observed, reference, trials=path.trials)
    assert test is not None  # diagnose has seen to it
    level = graded(-test.p_value, -MARGINAL, -REJECTED)
    paper = paper_test(path.residual, np.sqrt(reference.surprise))
    aside = f"(The paper's KS test gives p = {paper:.2g}.)"
    if level == "good":
        meaning = "The known mechanisms explain this recording as well as pure ones."
        return Finding("convexity", level, test.p_value, MARGINAL, f"{meaning} {aside}")
    parts = [
        f"{shown_time(path.time[a])} to {shown_time(path.time[b])}" for a, b in test.stretches()
    ]
    where = f", most clearly from {', '.join(parts)}" if parts else ""
    how = (
        "what happens next depends on the past in a way that no mixture of the regimes does"
        if test.depends
        else f"prediction errors are {test.level.excess:.2f} times the usual"
    )
    meaning = f"Part of this recording is explained by none of the known mechanisms{where}: {how}."
    step = (
        "Do not read the curve there. Look at the residual over time; add recordings of the"
        " missing regime to the training data, or cut the stretch out."
    )
    if test.level.groups == 1:  # how much groups differ is not known: no more than a suspicion
        level = "caution"
        meaning += " Or it is just of another group: a single one was held out from training."
        step += " To tell the two apart, fit with more groups held out (--set holdout=0.3)."
    return Finding("convexity", level, test.p_value, MARGINAL, f"{meaning} {aside}", step)


def _width(path: Trajectory) -> Finding:
    known = path.flag != "warm-up"
    value = float((path.upper - path.lower)[known].mean()) if known.any() else 1.0
    return Finding(
        "interval width",
        graded(value, WIDE, np.inf),  # wide intervals are honest, not wrong
        value,
        WIDE,
        f"The {100 * path.level:.0f} % intervals are {value:.2f} wide on average.",
        "One recording of this length says little; pool trials, record longer, or name the"
        " active regimes.",
    )


def _operating_point(path: Trajectory, reference: Reference) -> Finding | None:
    """Does the recording run where the training recordings ran?"""
    known = np.isfinite(path.alpha).all(axis=1)
    if not known.any() or not np.isfinite(path.latent_mean).all():
        return None
    expected = path.alpha[known].mean(axis=0) @ reference.means
    gap = path.latent_mean - expected
    scatter = reference.between + 1e-9 * np.eye(len(gap)) * np.trace(reference.between)
    value = float(gap @ np.linalg.solve(scatter, gap)) / len(gap)
    limit = float(chi2.isf(FAR, len(gap))) / len(gap)
    return Finding(
        "operating point",
        graded(value, limit, 3 * limit),
        value,
        limit,
        "Squared distance of the mean latents from those of training series, per latent.",
        "The recording runs at another operating point than any training series: check units and"
        " sensors, or add such recordings to the training data.",
    )


def _agreement(path: Trajectory) -> Finding | None:
    """Do the blocks of evidence tell the same story? Only where there are several."""
    if not path.blocks:
        return None
    apart = path.flag == "disagree"
    value = float(apart.mean())
    names = " and ".join(path.blocks)
    rows = np.flatnonzero(apart)
    ends = [shown_time(path.time[rows[i]]) for i in (0, -1)] if len(rows) else []
    where = f", between {ends[0]} and {ends[1]}" if ends else ""
    return Finding(
        "agreement",
        graded(value, DISAGREE, MOSTLY_DISAGREE),
        value,
        DISAGREE,
        f"The evidence of {names} contradicts each other in {100 * value:.0f} % of the steps"
        f"{where}.",
        "Look at the curve of each (path.blocks). One of them does not hold for this recording:"
        " name the other (blocks=...), or give a stretch whose regime is known (known=...).",
    )


def _static_basis(path: Trajectory, reference: Reference) -> Finding:
    """Would the mean states of the regimes tell them apart, at the scatter of a step's state?"""
    active = active_regimes(path.alpha)
    means = reference.means[active]
    whole, value = static_sigma_min(reference.means), static_sigma_min(means)
    scatter = step_scatter(reference, path.trials)
    off = weight_deviation(means, scatter)
    noise = value * off if value > 0 else float(np.sqrt(np.trace(scatter)))
    level: Level = (
        "good" if path.method == "state-space" else graded(-1 / off, -SEPARATED, -HARDLY)
    )
    of_what = "the mean of the trials" if path.trials > 1 else "a state"
    how_far = (
        f"A regime's mean is {1 / off:.1f} standard deviations of {of_what} within a regime away"
        f" from the others, so a weight read off one step is wrong by {off:.2g} (one standard"
        " deviation)"
        if off < NOT_AT_ALL
        else "Different weights have the same mean, so no step tells them apart"
    )
    return Finding(
        "sigma_min",
        level,
        value,
        SEPARATED * noise,
        f"Smallest singular value of the constant basis of the {len(active)} regimes at work"
        f" ({whole:.2g} with all {len(path.regimes)}). {how_far}; only method='algorithm1' goes by"
        " these means.",
        "Where states are hardly tells these regimes apart: use method='state-space' (the"
        " default), which goes by how they change, pool repeated trials, or name fewer active"
        " regimes.",
    )
