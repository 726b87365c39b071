"""Stage 2 on a Panel: latents, predictions, evidence, answer, Trajectory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.stats import chi2, norm

from . import latents
from .errors import ConfigError, DataError
from .model import SequentialVAE
from .recover import algorithm1
from .recover.engine import Answer, state_space
from .recover.evidence import Evidence
from .recover.innovations import Observed
from .recover.reference import Reference
from .recover.statespace import surprise
from .recover.trajectory import Trajectory
from .series import Panel
from .windows import crop_rows

METHODS = ("state-space", "algorithm1")
#: Rows of padded series that are worked on at once; more would leave the processor's cache.
GROUP_ROWS = 20_000
#: A step whose residual is rarer than this in pure regimes is not explained by any of them.
UNEXPLAINED = 1e-3


@dataclass(frozen=True)
class Request:
    """What was asked of `Trace.recover`."""

    method: str = "state-space"
    causal: bool = False
    pool: bool = False
    simplex: bool = True
    level: float = 0.9
    active: Sequence[str] | None = None
    window: int = 5

    def check(self, regimes: tuple[str, ...]) -> list[int]:
        """Refuse what cannot be done; returns the numbers of the active regimes."""
        if self.method not in METHODS:
            raise ConfigError(f"method = {self.method!r}", fix=f"use one of {', '.join(METHODS)}")
        if not 0 < self.level < 1:
            raise ConfigError(f"level = {self.level}", fix="use a share between 0 and 1")
        if not isinstance(self.window, int) or self.window < 0:
            raise ConfigError(f"window = {self.window}", fix="use a whole number of steps")
        if self.causal and self.method == "algorithm1" and self.window > 0:
            raise ConfigError(
                "the paper's centred window looks ahead, so it has no causal answer",
                fix="use method='state-space', or window=0",
            )
        if self.active is None:
            return list(range(len(regimes)))
        unknown = [name for name in self.active if name not in regimes]
        if unknown or len(set(self.active)) < 2:
            raise ConfigError(
                f"active = {list(self.active)}",
                fix=f"name at least two of {', '.join(regimes)}",
            )
        return [k for k, name in enumerate(regimes) if name in self.active]


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
    panel = _in_training_steps(panel, step)
    encoded = latents.encode(model, panel)
    rows = Rows(
        encoded.mean,
        latents.predict(model, encoded, panel),
        np.maximum(panel.steps() / usual, 0.01),
        reference.precision,
    )
    if request.pool:
        stack = Stack.of(panel, rows, np.arange(len(panel))).pooled()
        paths = _answer(stack, reference, regimes, active, request)
        return [replace(paths[0], observed=_observed(panel, rows, active, pooled=True))]
    found: dict[int, Trajectory] = {}
    for chosen in _groups(panel.lengths):
        paths = _answer(Stack.of(panel, rows, chosen), reference, regimes, active, request)
        found |= zip(chosen.tolist(), paths, strict=True)
    return [
        replace(found[i], observed=_observed(panel, rows, active, i)) for i in range(len(panel))
    ]


class Rows(NamedTuple):
    """What is known of every row of a panel, and the precision of its noise."""

    latents: np.ndarray  # (rows, d)
    expected: np.ndarray  # (rows, K, d)
    elapsed: np.ndarray  # (rows,): usual steps since the row before
    precision: np.ndarray  # (d, d)


def _observed(
    panel: Panel, rows: Rows, active: list[int], series: int = 0, *, pooled: bool = False
) -> Observed:
    """What the diagnosis may look at: views of the rows of one series, or of all trials."""
    steps = int(panel.lengths[series])
    first = int(panel.offsets[series])
    mine = slice(first, first + steps * (len(panel) if pooled else 1))
    return Observed(
        rows.latents[mine].reshape(-1, steps, rows.latents.shape[-1]),
        rows.expected[mine].reshape(-1, steps, *rows.expected.shape[1:]),
        rows.elapsed[first : first + steps],
        tuple(active),
    )


@dataclass(frozen=True, eq=False)
class Stack:
    """Some series side by side, padded at the end."""

    names: list[str]
    times: list[np.ndarray]
    elapsed: np.ndarray  # (S, T)
    latents: np.ndarray  # (S, T, d)
    evidence: Evidence
    log_det: float
    trials: int = 1

    @classmethod
    def of(cls, panel: Panel, known: Rows, chosen: np.ndarray) -> Stack:
        """Gather the rows of the chosen series."""
        length = panel.lengths[chosen]
        rows, real = crop_rows(panel.offsets[chosen], length, int(length.max()))
        z = np.where(real[..., None], known.latents[rows], np.nan)
        m = np.where(real[..., None, None], known.expected[rows], np.nan)
        return cls(
            names=[str(panel.names[i]) for i in chosen],
            times=[panel.time_of(int(i)) for i in chosen],
            elapsed=np.where(real, known.elapsed[rows], 1.0),
            latents=z,
            evidence=Evidence.of_block(m, z, known.precision),
            log_det=-float(np.linalg.slogdet(known.precision)[1]),
        )

    def log_dets(self) -> np.ndarray:
        """What the noise covariance adds to `evidence.offset` at each step, (S, T)."""
        return self.log_det * self.evidence.dims / self.latents.shape[-1]

    def pooled(self) -> Stack:
        """Trials of one schedule: information adds up, latents are averaged."""
        lengths = {len(time) for time in self.times}
        if len(lengths) > 1:
            raise DataError(
                f"series of {min(lengths)} to {max(lengths)} rows cannot be pooled",
                fix="pool only trials of equal length, aligned in time",
            )
        if any((time != self.times[0]).any() for time in self.times):
            raise DataError(
                "the series have different time stamps, so they cannot be pooled",
                fix="align the trials in time, for example by counting from each one's start",
            )
        return Stack(
            names=["pooled"],
            times=self.times[:1],
            elapsed=self.elapsed[:1],
            latents=_mean_of_known(self.latents),
            evidence=self.evidence.pooled(),
            log_det=self.log_det,
            trials=len(self.names),
        )


def _answer(
    stack: Stack,
    reference: Reference,
    regimes: tuple[str, ...],
    active: list[int],
    request: Request,
) -> list[Trajectory]:
    evidence = stack.evidence.of(active)
    if request.method == "state-space":
        answer = state_space(
            evidence,
            stack.elapsed,
            causal=request.causal,
            simplex=request.simplex,
            level=request.level,
        )
    else:
        answer = _by_algorithm1(stack, reference, active, request)
    surprises = surprise(evidence.on_plane(), stack.elapsed, stack.log_dets())
    residual = _residual(stack, evidence, answer.alpha)
    flags = _flags(evidence, residual)
    paths = []
    for s, (name, time) in enumerate(zip(stack.names, stack.times, strict=True)):
        steps = len(time)

        def whole(part: np.ndarray, s: int = s, steps: int = steps) -> np.ndarray:
            out = np.zeros((steps, len(regimes)))
            out[:, active] = part[s, :steps]
            return out

        paths.append(
            Trajectory(
                name=name,
                time=time,
                regimes=regimes,
                alpha=whole(answer.alpha),
                lower=whole(answer.lower),
                upper=whole(answer.upper),
                residual=residual[s, :steps],
                flag=flags[s, :steps],
                surprise=surprises[s, :steps],
                information=stack.evidence.G[s].sum(axis=0),
                latent_mean=_mean_of_known(stack.latents[s])[0],
                method=request.method,
                causal=request.causal,
                level=request.level,
                drift=float(answer.drift[s]),
                trials=stack.trials,
            )
        )
    return paths


def _by_algorithm1(
    stack: Stack, reference: Reference, active: list[int], request: Request
) -> Answer:
    means = reference.means[active]
    free = algorithm1.static_weights(stack.latents, means, simplex=request.simplex)
    known = (stack.evidence.dims > 0)[..., None]
    alpha = algorithm1.centred_window(np.where(known, free, np.nan), request.window)
    # pointwise noise of the estimator, less by the window's averaging where it was applied
    inverse = np.linalg.pinv((means[1:] - means[0]).T)
    others = inverse @ reference.spread @ inverse.T
    variance = np.append(others.sum(), np.diagonal(others)) / stack.trials
    averaged = np.where(alpha == free, 1, 2 * request.window + 1)  # edges are left as they are
    half = norm.ppf(0.5 + request.level / 2) * np.sqrt(variance / averaged)
    lower, upper = alpha - half, alpha + half
    if request.simplex:
        lower, upper = np.clip(lower, 0, 1), np.clip(upper, 0, 1)
    return Answer(alpha, lower, upper, np.full(len(alpha), np.nan))


def _residual(stack: Stack, evidence: Evidence, alpha: np.ndarray) -> np.ndarray:
    """Root mean square of the whitened prediction error: about 1 if the mixture explains it."""
    quadratic = evidence.offset - stack.log_dets()
    filled = np.nan_to_num(alpha)
    quadratic = quadratic - 2 * (evidence.h * filled).sum(-1)
    quadratic += np.einsum("stk,stkj,stj->st", filled, evidence.G, filled, optimize=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.sqrt(
            np.maximum(quadratic, 0.0) / np.where(evidence.dims > 0, evidence.dims, np.nan)
        )


def _flags(evidence: Evidence, residual: np.ndarray) -> np.ndarray:
    known = evidence.dims > 0
    flags = np.full(known.shape, "", dtype="<U11")
    limit = np.sqrt(
        chi2.isf(UNEXPLAINED, np.maximum(evidence.dims, 1)) / np.maximum(evidence.dims, 1)
    )
    flags[known & (residual > limit)] = "unexplained"
    flags[~known] = "missing"
    before = np.cumsum(known, axis=1) == 0
    flags[before] = "warm-up"
    return flags


def _in_training_steps(panel: Panel, step: float | None) -> Panel:
    """The panel with gaps judged by the step of the training data; other steps are refused."""
    if step is None:
        return panel
    found = panel.usual_step
    if np.isfinite(found) and not 0.8 < found / step < 1.25:
        raise DataError(
            f"rows are {found:g} apart in time, in training they were {step:g} apart",
            where=panel.source,
            fix="use the same units of time, or resample to the same rate",
        )
    return replace(panel, gap=1.5 * step) if panel.gap is None else panel


def _groups(lengths: np.ndarray) -> Iterator[np.ndarray]:
    """Series of similar length, so that little is padded."""
    order = np.argsort(lengths, kind="stable")
    start = 0
    while start < len(order):
        stop = start + 1
        while stop < len(order) and (stop + 1 - start) * lengths[order[stop]] <= GROUP_ROWS:
            stop += 1
        yield order[start:stop]
        start = stop


def _mean_of_known(values: np.ndarray) -> np.ndarray:
    known = np.isfinite(values)
    total = np.where(known, values, 0.0).sum(axis=0, keepdims=True)
    with np.errstate(invalid="ignore"):
        return total / known.sum(axis=0, keepdims=True)
