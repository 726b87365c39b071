"""Stage 2 on a Panel: latents, predictions, evidence, answer, Trajectory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.stats import chi2, norm

from .blas import one_blas_thread
from .errors import DataError
from .memory import keeping_freed_memory
from .model import SequentialVAE
from .recover import algorithm1
from .recover.bias import SeriesOffset
from .recover.blocks import Block, memory, middle
from .recover.engine import Answer, state_space
from .recover.evidence import Evidence
from .recover.known import stretches_of
from .recover.reference import Reference
from .recover.sparse import choose_active
from .recover.statespace import surprise
from .recover.trajectory import Curve, Trajectory
from .request import Request
from .series import Panel
from .stacks import Stack, groups, in_training_steps, mean_of_known

#: A step whose residual is rarer than this in pure regimes is not explained by any of them.
UNEXPLAINED = 1e-3
#: Recordings that are asked which regimes take part; more would hardly tell another thing.
MOST_ASKED = 50
#: Rows up to which trajectories keep latents and predictions for their diagnosis; without them it
#: judges how large errors are, not what they depend on.
KEPT_ROWS = 500_000


def recover(
    model: SequentialVAE,
    reference: Reference,
    regimes: tuple[str, ...],
    panel: Panel,
    request: Request,
    step: float | None = None,
) -> list[Trajectory]:
    """One Trajectory per series, or one for all if they are pooled.

    `step` is the usual time between rows in training. Gaps are judged by it, not by the new
    recording, of which a causal answer cannot know the rest.
    """
    active = request.check(regimes)
    if request.pool and not len(panel):
        raise DataError("there is no series to pool", where=panel.source)
    usual = panel.usual_step if step is None else step
    panel = in_training_steps(panel, step)
    _check_known(panel, request)
    used = tuple(block.name for block in reference.combination(request.blocks)[0])

    def stack(some: np.ndarray) -> Stack:
        return Stack.of(model, reference, panel[some], used, usual, causal=request.causal)

    everything, keep = np.arange(len(panel)), panel.rows <= KEPT_ROWS
    with keeping_freed_memory(), one_blas_thread():
        whole = stack(everything).pooled() if request.pool else None
        if request.active == "auto" and len(panel):
            asked = whole or stack(everything[:MOST_ASKED])
            chosen = choose_active(asked.whole(reference), asked.elapsed)
            request = replace(request, active=[regimes[k] for k in chosen])
            active = request.check(regimes)
        if whole is not None:
            return _answer(whole, reference, regimes, active, request, keep=keep)
        found: dict[int, Trajectory] = {}
        for some in groups(panel.lengths):  # one after the other: memory stays bounded
            paths = _answer(stack(some), reference, regimes, active, request, keep=keep)
            found |= zip(some.tolist(), paths, strict=True)
    return [found[i] for i in range(len(panel))]


class Recovered(NamedTuple):
    """The answer, what each block says alone if there are several, and what is judged by."""

    answer: Answer
    curves: dict[str, Answer]
    judged: Evidence
    used: dict[str, Evidence]  # by block


def _recovered(
    stack: Stack,
    reference: Reference,
    regimes: tuple[str, ...],
    active: list[int],
    request: Request,
) -> Recovered:
    alone = {name: seen.of(active) for name, seen in stack.evidence.items()}
    judged = alone[stack.judged]
    if request.method == "algorithm1":
        return Recovered(_by_algorithm1(stack, reference, active, request), {}, judged, {})
    offsets = reference.combination(stack.used)[1].of(active)
    several = len(stack.used) > 1
    evidence = stack.whole(reference).of(active) if several else alone[stack.used[0]]
    series = SeriesOffset(offsets)
    if request.known:
        weights = _known_weights(stack, request, regimes)[..., active]
        series = SeriesOffset.from_known(evidence, offsets, weights)
    elif request.bias:
        series = SeriesOffset.from_simplex(evidence, offsets, stack.elapsed)
    answer = _by_state_space(series.removed_from(evidence), stack, request, series.variance)
    curves = {
        name: _by_state_space(
            alone[name], stack, request, reference.offsets[name].of(active).variance
        )
        for name in (stack.used if several else ())
    }
    used = {name: series.removed_from(alone[name]) for name in stack.used}
    return Recovered(answer, curves, series.removed_from(judged), used)


def _answer(
    stack: Stack,
    reference: Reference,
    regimes: tuple[str, ...],
    active: list[int],
    request: Request,
    *,
    keep: bool = True,
) -> list[Trajectory]:
    """Trajectories of a stack; with `keep` they carry what a diagnosis looks at."""
    answer, curves, judged, used = _recovered(stack, reference, regimes, active, request)
    surprises = surprise(judged.on_plane(), stack.elapsed, judged.log_det)
    residual = _residual(judged, answer.alpha)
    strange = [
        _strange(reference.blocks[name], _residual(seen, answer.alpha), causal=request.causal)
        for name, seen in used.items()
        if not reference.blocks[name].conditional
    ]
    flags = _flags(judged, reference.judged, residual, curves, strange)
    alpha, lower, upper = _of_all_regimes(answer, active, len(regimes))
    by_block = {name: _of_all_regimes(c, active, len(regimes)) for name, c in curves.items()}
    information = reference.judged.time * stack.evidence[stack.judged].G.sum(axis=1)
    latent_mean = mean_of_known(stack.typical_latents, axis=1)
    stacking = reference.offsets[stack.judged].of(active).stacking
    return [
        Trajectory(
            name=name,
            time=time,
            regimes=regimes,
            alpha=alpha[s, : len(time)],
            lower=lower[s, : len(time)],
            upper=upper[s, : len(time)],
            residual=residual[s, : len(time)],
            flag=flags[s, : len(time)],
            surprise=surprises[s, : len(time)],
            information=information[s],
            latent_mean=latent_mean[s, 0],
            method=request.method,
            causal=request.causal,
            level=request.level,
            drift=float(answer.drift[s]),
            trials=stack.trials,
            blocks={
                block: Curve(*(part[s, : len(time)] for part in curve))
                for block, curve in by_block.items()
            },
            observed=stack.observed(s, stacking) if keep else None,
        )
        for s, (name, time) in enumerate(zip(stack.names, stack.times, strict=True))
    ]


def _of_all_regimes(answer: Answer, active: list[int], regimes: int) -> list[np.ndarray]:
    """alpha, lower and upper (S, T, K) with zeros for regimes that are not active."""
    out = []
    for part in (answer.alpha, answer.lower, answer.upper):
        out.append(np.zeros((*part.shape[:2], regimes)))
        out[-1][:, :, active] = part
    return out


def _by_state_space(
    evidence: Evidence,
    stack: Stack,
    request: Request,
    variance: Callable[[np.ndarray, int], np.ndarray],
) -> Answer:
    return state_space(
        evidence,
        stack.elapsed,
        causal=request.causal,
        simplex=request.simplex,
        level=request.level,
        extra=lambda alpha: variance(alpha, stack.trials),
    )


def _check_known(panel: Panel, request: Request) -> None:
    """Refuse stretches that no recording reaches."""
    for stretch in stretches_of(request.known):
        mine = [i for i, name in enumerate(panel.names) if stretch.series in (None, str(name))]
        if not any(stretch.inside(panel.time_of(i)).any() for i in mine):
            raise DataError(
                f"no row lies between {stretch.start} and {stretch.stop}, where"
                f" {stretch.weights!r} is said to hold",
                where=panel.source,
                fix="give times and series as they are in the recording",
            )


def _known_weights(stack: Stack, request: Request, regimes: tuple[str, ...]) -> np.ndarray:
    """The weights that are known to hold at each step (S, T, K), NaN where none are."""
    out = np.full((*stack.elapsed.shape, len(regimes)), np.nan)
    for stretch in stretches_of(request.known):
        for s, (name, time) in enumerate(zip(stack.names, stack.times, strict=True)):
            if stretch.series in (None, name):
                out[s, np.flatnonzero(stretch.inside(time))] = stretch.truth(regimes)
    return out


def _by_algorithm1(
    stack: Stack, reference: Reference, active: list[int], request: Request
) -> Answer:
    means = reference.means[active]
    free = algorithm1.static_weights(stack.typical_latents, means, simplex=request.simplex)
    known = (stack.evidence[stack.judged].dims > 0)[..., None]
    alpha, left = _smoothed(np.where(known, free, np.nan), request)
    # pointwise noise of the estimator, of which the smoothing leaves a share
    inverse = np.linalg.pinv((means[1:] - means[0]).T)
    others = inverse @ reference.spread @ inverse.T
    variance = np.append(others.sum(), np.diagonal(others)) / stack.trials
    half = norm.ppf(0.5 + request.level / 2) * np.sqrt(variance * left)
    lower, upper = alpha - half, alpha + half
    if request.simplex:
        lower, upper = np.clip(lower, 0, 1), np.clip(upper, 0, 1)
    return Answer(alpha, lower, upper, np.full(len(alpha), np.nan))


def _smoothed(weights: np.ndarray, request: Request) -> tuple[np.ndarray, np.ndarray | float]:
    """Smoothed weights (S, T, K) and the share of the variance of independent errors left."""
    if request.smoother == "window":
        alpha = algorithm1.centred_window(weights, request.window)
        # edges are left as they are
        return alpha, np.where(alpha == weights, 1.0, 1 / (2 * request.window + 1))
    alpha, left = np.empty_like(weights), np.empty((len(weights), 1, 1))
    for s, series in enumerate(weights):
        strength = algorithm1.strength_of(series, request.smoother)
        alpha[s] = algorithm1.regularised(series, strength, simplex=request.simplex)
        left[s] = algorithm1.averaging(len(series), strength)
    return alpha, left


def _residual(evidence: Evidence, alpha: np.ndarray) -> np.ndarray:
    """Root mean square of the whitened prediction error: about 1 if the mixture explains it."""
    filled = np.nan_to_num(alpha).transpose(2, 1, 0)
    G, h = evidence.G.transpose(2, 3, 1, 0), evidence.h.transpose(2, 1, 0)
    quadratic = (((G * filled).sum(axis=1) - 2 * h) * filled).sum(axis=0).T
    quadratic += evidence.offset - evidence.log_det
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.ascontiguousarray(
            np.sqrt(
                np.maximum(quadratic, 0.0) / np.where(evidence.dims > 0, evidence.dims, np.nan)
            )
        )


def _strange(block: Block, residual: np.ndarray, *, causal: bool) -> np.ndarray:
    """Steps (S, T) that are like no pure series to a block that does not predict.

    Where windows speak of their middle, the first and the last also speak of the rows that lie in
    no middle: they see them, and nothing else does.
    """
    found = residual > block.stranger
    if causal:
        return found
    after = middle(block.name)
    before = memory(block.name, 0) - after
    known, rows = np.isfinite(residual), np.arange(residual.shape[1])
    last = np.maximum.accumulate(np.where(known, rows, -len(rows)), axis=1)
    onwards = np.where(known, rows, 2 * len(rows))[:, ::-1]
    following = np.minimum.accumulate(onwards, axis=1)[:, ::-1]
    speaker = np.where(
        rows - last <= after, last, np.where(following - rows <= before, following, rows)
    )
    return np.take_along_axis(found, speaker, axis=1)


def _flags(
    evidence: Evidence,
    block: Block,
    residual: np.ndarray,
    curves: dict[str, Answer],
    strange: Sequence[np.ndarray],
) -> np.ndarray:
    """`strange` has the steps (S, T) that are like no pure series to one of the blocks."""
    known = evidence.dims > 0
    flags = np.full(known.shape, "", dtype="<U11")
    for one, other in combinations(curves.values(), 2):
        apart = (one.lower > other.upper) | (other.lower > one.upper)
        flags[apart.any(axis=-1)] = "disagree"
    # steps that depend on each other count for less in `dims`, but one alone is as wide as ever
    counts, which = np.unique(evidence.dims, return_inverse=True)
    freedom = np.maximum(block.time * counts, 1) * block.freedom / len(block.noise)
    limit = np.sqrt(chi2.isf(UNEXPLAINED, freedom) / freedom)[which.reshape(known.shape)]
    flags[known & (residual > limit)] = "unexplained"
    for steps in strange:
        flags[steps] = "unexplained"
    flags[~known] = "missing"
    before = np.cumsum(known, axis=1) == 0
    flags[before] = "warm-up"
    return flags
