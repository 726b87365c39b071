"""Diagnosis of a trajectory: every check with its threshold."""

from __future__ import annotations

import numpy as np

from ..stage2.events import shown_time
from ..stage2.pure_statistics import PureRegimeStatistics
from ..stage2.trajectory import Trajectory
from .assumptions import assumptions
from .findings import Diagnosis, Finding, at_most, graded, rounded
from .goodness_of_fit import NOTABLE, Convexity, convexity, paper_test
from .sensors import sensors
from .separation import (
    MAX_DEVIATION,
    active_regimes,
    closest_pair,
    clusters,
    separation,
    static_sigma_min,
    step_scatter,
    weight_deviation,
    worst_deviation,
)

#: Largest expected mean absolute error of the shares; and largest share of unexplained steps.
OFF, FAR_OFF = 0.11, 0.16
SOME, MANY = 0.05, 0.5
#: Smallest distance of two regimes over a recording in standard deviations; and, for Algorithm 1,
#: of their mean states at a single step, where a share is then off by 1/3 and by 2/3 (near 0 and
#: 1, where half of the error is cut off, by 1/8 and 1/4 on average).
SEPARATED, HARDLY = 3.0, 1.5
#: Noise standard deviations per step below which two regimes are the same.
SAME = 0.3
#: Largest standard deviation of a constant alpha.
VAGUE, BLIND = 0.3, 1.0
MARGINAL, REJECTED = 0.05, 0.01  # p-values, as in appendix E.3
WIDE = 0.4  # largest mean width of the intervals
#: Smallest one: no recording determines shares more precisely; and in expected errors.
LEAST_WIDTH, NARROW = 1e-4, 0.5
#: Largest distance of the mean latents from mixtures of the training series, in standard
#: deviations of the states in training.
FAR, VERY_FAR = 1.4, 2.5
#: Largest share of steps at which observation models disagree.
DISAGREE, MOSTLY_DISAGREE = 0.1, 0.3
#: Smallest range of a share that has a direction.
MIN_RANGE = 0.5
#: Largest share of the total variation against the overall direction.
MAX_BACKTRACKING = 0.15

NO_EVIDENCE = Finding(
    "evidence", "bad", 0.0, 1.0,
    "No step of this recording has a full history, so the curve is the prior.",
    "Give more consecutive rows than the model has lags.", "at least",
)  # fmt: skip


def diagnose(path: Trajectory, reference: PureRegimeStatistics) -> Diagnosis:
    """Run every check that the data allow on a trajectory of the model of these statistics."""
    off = sensors(path, reference)
    if not np.isfinite(path.surprise).any():
        why = () if off is None or off.level == "good" else (off,)
        return Diagnosis(path.name, (*why, NO_EVIDENCE))
    test = convexity(path.surprise, path.observed, reference, trials=path.trials)
    assert test is not None  # there are innovations
    told = off is None or off.level != "bad"
    findings = [
        off,
        _expected_error(path) if told else None,
        _unexplained(path, test),
        _separation(path),
        _mergeable(path, reference),
        _information(path),
        _convexity(path, reference, test),
        _width(path),
        _operating_point(path, reference),
        _static_basis(path, reference),
        _agreement(path),
        _monotonicity(path),
        *assumptions(path, reference),
    ]
    return Diagnosis(path.name, tuple(finding for finding in findings if finding is not None))


def _expected_error(path: Trajectory) -> Finding | None:
    """How wrong the shares may be, by all that is known; None if it was not computed."""
    value = path.expected_error
    if path.method != "state-space" or not np.isfinite(value):
        return None
    return at_most(
        "expected error", value, OFF, FAR_OFF,
        f"Shares are likely within {rounded(value)} (limit: at most {OFF:g}): by noise, by"
        " mechanisms that are not known well at these states, and by unusual prediction errors.",
        "Record longer, pool repeated trials, name the active regimes, or add recordings of the"
        " pure regimes in states like these.",
    )  # fmt: skip


def _unexplained(path: Trajectory, test: Convexity) -> Finding | None:
    """Share of the steps that no mixture of the known mechanisms explains."""
    if path.method != "state-space":
        return None
    value = _unexplained_share(path, test)
    return at_most(
        "unexplained steps", value, SOME, MANY,
        f"No mixture of the known mechanisms explains {rounded(100 * value)} % of the steps"
        f" (limit: at most {100 * SOME:.0f} %).",
        "Do not read the curve there. Add recordings of the missing regime to the training data,"
        " or cut the stretch out.",
    )  # fmt: skip


def _unexplained_share(path: Trajectory, test: Convexity) -> float:
    """Share of the rows that are flagged; a causal answer only flags single steps."""
    found = path.flag == "unexplained"
    return float((found | test.level.unusual if path.causal else found).mean())


def _separation(path: Trajectory) -> Finding:
    active = active_regimes(path.alpha)
    distance = np.sqrt(separation(path.information))[np.ix_(active, active)]
    first, second = (active[i] for i in closest_pair(distance))
    value = float(distance[np.triu_indices(len(active), 1)].min())
    return Finding(
        "separation", graded(-value, -SEPARATED, -HARDLY), value, SEPARATED,
        f"The closest active regimes, {path.regimes[first]!r} and {path.regimes[second]!r}, are"
        f" {rounded(value)} standard deviations apart over this recording (limit: at least"
        f" {SEPARATED:g}).",
        "Merge them if they mean the same, record longer, or pool repeated trials.", "at least",
    )  # fmt: skip


def _mergeable(path: Trajectory, reference: PureRegimeStatistics) -> Finding:
    """Find regimes with equal predictions on pure data, or else on this recording."""
    rows = int(np.isfinite(path.surprise).sum()) * path.trials
    gram = reference.gram if reference.gram.size else path.information / rows
    distance = np.sqrt(separation(gram))
    groups = [[path.regimes[k] for k in group] for group in clusters(distance < SAME)]
    first, second = closest_pair(distance)
    value = float(distance[first, second])
    if not groups:
        return Finding(
            "mergeable regimes", "good", value, SAME,
            f"All regimes differ: the closest, {path.regimes[first]!r} and"
            f" {path.regimes[second]!r}, by {rounded(value)} noise standard deviations per step"
            f" (limit: at least {SAME:g}).", side="at least",
        )  # fmt: skip
    named = "; ".join(" and ".join(repr(name) for name in group) for group in groups)
    fewer = len(path.regimes) - sum(len(group) - 1 for group in groups)
    concerned = {name for group in groups for name in group}
    at_work = {path.regimes[k] for k in active_regimes(path.alpha)}
    return Finding(
        "mergeable regimes", "bad" if concerned & at_work else "caution", value, SAME,
        f"{named} differ by only {rounded(value)} noise standard deviations per step (limit: at"
        f" least {SAME:g}): their shares are arbitrary, the sum of their shares is not.",
        f"Merge {named} and fit {fewer} regimes, or read only the sum of their shares.",
        "at least",
    )  # fmt: skip


def _information(path: Trajectory) -> Finding:
    """Best achievable precision of a constant alpha with the conditional basis."""
    active = active_regimes(path.alpha)
    value, whole = worst_deviation(path.information, active), worst_deviation(path.information)
    return at_most(
        "information", value, VAGUE, BLIND,
        f"Best achievable precision of a constant share: +-{rounded(value)} for the {len(active)}"
        f" active regimes (limit: at most {VAGUE:g}), +-{rounded(whole)} for all"
        f" {len(path.regimes)}.",
        "Record longer, pool repeated trials, or name the active regimes.",
    )  # fmt: skip


def _convexity(path: Trajectory, reference: PureRegimeStatistics, test: Convexity) -> Finding:
    level = graded(-test.p_value, -MARGINAL, -REJECTED)
    small = test.level.excess < NOTABLE and _unexplained_share(path, test) <= SOME
    if level == "bad" and small:  # significant, but of little effect
        level = "caution"
    paper = paper_test(path.residual, np.sqrt(reference.surprise))
    aside = f"(limit: p of at least {MARGINAL:g}; the paper's KS test: p = {rounded(paper)})"
    if level == "good":
        meaning = "A mixture of the known mechanisms explains this recording"
        said = f"{meaning} {aside}."
        return Finding("convexity", level, test.p_value, MARGINAL, said, side="at least")
    ends = [(shown_time(path.time[a]), shown_time(path.time[b])) for a, b in test.stretches()]
    parts = [f"{first} to {last}" for first, last in ends]
    where = f", most clearly from {', '.join(parts)}" if parts else ""
    how = f"squared prediction errors are {rounded(test.level.excess)} times those of pure series"
    if test.depends:
        how = "prediction errors depend on the history as in no mixture of the regimes"
    meaning = f"No mixture of the known mechanisms explains this recording{where}: {how} {aside}."
    step = (
        "Do not read the curve there. Plot the residual over time; add recordings of the missing"
        " regime to the training data, or cut the stretch out."
    )
    if test.level.groups == 1:  # one group does not show how much groups differ
        level = "caution"
        meaning += " Or the recording is of another group: only one was held out from training."
        step += " To decide, fit with more groups held out (--holdout 0.3)."
    return Finding("convexity", level, test.p_value, MARGINAL, meaning, step, "at least")


def _width(path: Trajectory) -> Finding:
    known = path.flag != "warm-up"
    value = float((path.upper - path.lower)[known].mean()) if known.any() else 1.0
    error = path.expected_error
    least = max(LEAST_WIDTH, NARROW * error if np.isfinite(error) else 0.0)
    if value < least:  # a curve that a constraint holds, not the data
        return Finding(
            "interval width", "caution", value, least,
            f"The {100 * path.level:.0f} % intervals are only {rounded(value)} wide on average"
            f" (limit: at least {rounded(least)}): narrower than this recording can tell.",
            "Do not read them as certainty: look at the expected error and the residual.",
            "at least",
        )  # fmt: skip
    return at_most(
        "interval width", value, WIDE, np.inf,  # wide intervals are not wrong
        f"The {100 * path.level:.0f} % intervals are {rounded(value)} wide on average (limit:"
        f" at most {WIDE:g}).",
        "Pool trials, record longer, or name the active regimes.",
    )  # fmt: skip


def _operating_point(path: Trajectory, reference: PureRegimeStatistics) -> Finding | None:
    """Compare the mean latents with those that training leads to expect at these shares.

    Between the regimes, states are anywhere in the range that their means span.
    """
    known = np.isfinite(path.alpha).all(axis=1)
    if not known.any() or not np.isfinite(path.latent_mean).all():
        return None
    means = reference.means[:, reference.determined]
    gap = path.latent_mean[reference.determined] - path.alpha[known].mean(axis=0) @ means
    within = np.ix_(reference.determined, reference.determined)
    scatter = (reference.between + reference.spread)[within] + np.cov(means.T, bias=True)
    scatter = scatter + 1e-9 * np.eye(len(gap)) * np.trace(scatter)
    value = float(np.sqrt(gap @ np.linalg.solve(scatter, gap) / len(gap)))
    return at_most(
        "operating point", value, FAR, VERY_FAR,
        f"The mean latents are {rounded(value)} standard deviations of the states in training from"
        f" where these shares lead them (limit: at most {FAR:g}).",
        "The operating point differs from that of all training series: check units and sensors,"
        " or add such recordings to the training data.",
    )  # fmt: skip


def _agreement(path: Trajectory) -> Finding | None:
    """Compare the observation models; None if there is only one."""
    if not path.by_evidence:
        return None
    apart = path.flag == "disagree"
    value = float(apart.mean())
    names = " and ".join(path.by_evidence)
    rows = np.flatnonzero(apart)
    ends = [shown_time(path.time[rows[i]]) for i in (0, -1)] if len(rows) else []
    where = f", between {ends[0]} and {ends[1]}" if ends else ""
    return at_most(
        "agreement", value, DISAGREE, MOSTLY_DISAGREE,
        f"{names} disagree in {rounded(100 * value)} % of the steps{where} (limit: at most"
        f" {100 * DISAGREE:.0f} %).",
        "Compare their curves (path.by_evidence). One of them does not hold for this recording:"
        " name the other (evidence=...), or give an interval whose regime is known (anchor=...).",
    )  # fmt: skip


def _static_basis(path: Trajectory, reference: PureRegimeStatistics) -> Finding:
    """Compare the distances of the regimes' mean states with the scatter of a step's state."""
    active = active_regimes(path.alpha)
    means = reference.means[active]
    whole, value = static_sigma_min(reference.means), static_sigma_min(means)
    scatter = step_scatter(reference, path.trials)
    off = weight_deviation(means, scatter)
    noise = value * off if value > 0 else float(np.sqrt(np.trace(scatter)))
    level = graded(-1 / off, -SEPARATED, -HARDLY) if path.method != "state-space" else "good"
    of_what = "the mean of the trials" if path.trials > 1 else "a state"
    how_far = (
        f"The closest regime means are {rounded(1 / off)} standard deviations of {of_what} apart"
        f" (limit: at least {SEPARATED:g}), so a share read off one step is off by"
        f" +-{rounded(off)}"
        if off < MAX_DEVIATION
        else "Different shares have the same mean, so no step distinguishes them"
    )
    return Finding(
        "sigma_min", level, value, SEPARATED * noise,
        f"Smallest singular value of the constant basis of the {len(active)} active regimes"
        f" ({rounded(whole)} with all {len(path.regimes)}). {how_far}; only method='algorithm1'"
        " uses these means.",
        "Mean states hardly distinguish these regimes: use method='state-space' (the default),"
        " which uses how states change, pool repeated trials, or name fewer active regimes.",
        "at least",
    )  # fmt: skip


def backtracking(curve: np.ndarray) -> float:
    """Share of the total variation against the overall direction: 0 if monotone.

    >>> round(backtracking(np.array([0.0, 0.6, 0.5, 1.0])), 4)
    0.0833
    """
    change = np.diff(curve[np.isfinite(curve)])
    way = np.abs(change).sum()
    return float(0.5 * (1 - abs(change.sum()) / way)) if way > 0 else 0.0


def _monotonicity(path: Trajectory) -> Finding | None:
    """Check that a single transition goes one way; None unless there is exactly one."""
    events = path.events(minimum=2)
    known = np.isfinite(path.alpha).all(axis=1)
    if len(events) != 1 or known.sum() < 3:
        return None
    alpha = path.alpha[known]
    moving = [k for k in range(len(path.regimes)) if np.ptp(alpha[:, k]) >= MIN_RANGE]
    if not moving:
        return None
    ways = {path.regimes[k]: backtracking(alpha[:, k]) for k in moving}
    name = max(ways, key=lambda regime: ways[regime])
    return at_most(
        "monotonicity", ways[name], MAX_BACKTRACKING, np.inf,  # real ones may go back and forth
        f"In the one transition, {rounded(100 * ways[name])} % of the variation of {name!r} goes"
        f" against its direction (limit: at most {100 * MAX_BACKTRACKING:.0f} %).",
        "If the true change is one-way, this is noise: pool trials or record longer before reading"
        " crossing times off the curve.",
    )  # fmt: skip
