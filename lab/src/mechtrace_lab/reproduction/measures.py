"""Measures of a trained model: each returns figures by name, ready for JSON.

Three answers stand side by side everywhere: `algorithm1` (the paper's, on our latents, told which
regimes take part, as the paper's tables are), `default` (ours, told nothing) and `oracle` (true
latents and mechanisms in our engine).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from mechtrace.diagnose import paper_test, static_sigma_min
from mechtrace.metrics import (
    invalid_fraction,
    linear_r2,
    mean_correlation,
    weight_correlation,
    weight_error,
)
from mechtrace.stage2 import Trajectory, centred_window, static_weights
from mechtrace.worlds import EmergentEdge

from ..baselines.gating import fit_gate
from ..studies.bounds import approximation_error, pointwise_bounds, static_residuals
from ..studies.theory import KNOWN
from .answers import (
    WINDOW,
    by_algorithm1,
    by_default,
    by_oracle,
    calibrated,
    groups_of_trials,
    pure_rows,
    recovered,
    rounded,
    select_trials,
    simulate_transition,
)
from .models import Trained

Figures = dict[str, Any]
#: Recordings that are also looked at one by one.
ALONE = 100
#: Recordings of each regime from which the gating network learns, at the paper's scale.
GATE_RECORDINGS = 2000
#: With more than this a regime counts as active.
AT_WORK = 0.05


def latents(one: Trained) -> Figures:
    """MCC and R^2 of the latents of new pure recordings, for t >= L and over all steps."""
    late = slice(one.lags, None)
    truth, learned = one.pure.latents, one.pure_latents
    weights = one.effects
    wanted = one.world.mechanisms[one.known]
    return {
        "mcc": mean_correlation(truth[:, late], learned[:, late]),
        "mcc_all_steps": mean_correlation(truth, learned),
        "r2": linear_r2(truth[:, late], learned[:, late]),
        "w": None if weights is None else _flat_correlation(weights, wanted),
    }


def recovery(one: Trained, *, active: Sequence[int], schedule: str = "simple") -> Figures:
    """Scores of the pooled and the single curves, of W(t), and of calibrated weights."""
    transition = simulate_transition(one, schedule, active)
    some = select_trials(transition, slice(0, ALONE))
    truth, late = transition.alpha[0], slice(one.lags, None)
    out: Figures = {}
    for who in ("algorithm1", "default", "oracle"):
        pooled, *_ = recovered(who, one, transition, active, pool=True)
        alone = recovered(who, one, some, active, pool=False)
        each = [weight_correlation(truth[late], curve[late]) for curve in alone]
        out[who] = _score(one, truth, pooled) | {"single": float(np.mean(each))}
    return out


def bounds(one: Trained, *, active: Sequence[int], schedule: str = "simple") -> Figures:
    """Quantities of Theorem 2 on learned latents, and the share of errors below the bound."""
    means = _means(one)[list(active)]
    transition = simulate_transition(one, schedule, active)
    late = slice(one.lags, None)
    z = np.stack(one.trace.encode(transition.panel))[:, late]
    alpha = transition.alpha[0][late][:, list(active)]
    free = static_weights(z, means, simplex=False)
    error = np.linalg.norm((free - alpha)[..., 1:], axis=-1)
    limit = pointwise_bounds(means, z, z.mean(axis=0), alpha)
    noise = float(np.linalg.norm(z - alpha @ means, axis=-1).mean())
    sigma = static_sigma_min(means)
    delta = approximation_error(means, *_known_mixtures(one, active))
    return {
        "sigma_min": sigma,
        "noise": noise,
        "delta_approx": delta,
        "snr": sigma / (noise + delta),
        "error": float(error.mean()),
        "bound": float(limit.mean()),
        "below": float((error <= limit * (1 + 1e-9)).mean()),
    }


def windows(
    one: Trained,
    *,
    active: Sequence[int],
    schedule: str = "complex",
    widths: Sequence[int] = (0, 3, 5, 7, 10),
    trials: int | None = None,
) -> Figures:
    """Algorithm 1 with several smoothing windows, with the default and the oracle.

    Pooled over all trials, or in groups of so many (1: each recording alone), groups averaged.
    """
    transition = simulate_transition(one, schedule, active)
    groups = [transition] if trials is None else groups_of_trials(transition, trials)
    late = slice(one.lags, None)
    truth = transition.alpha[0][late]

    def mean(answer: Callable[..., list[np.ndarray]], **options: Any) -> Figures:
        curves = [answer(one, group, pool=True, **options)[0][late] for group in groups]
        return {
            "pooled": float(np.mean([weight_correlation(truth, curve) for curve in curves])),
            "mae": float(np.mean([weight_error(truth, curve) for curve in curves])),
        }

    out: Figures = {"default": mean(by_default), "oracle": mean(by_oracle)}
    for width in widths:
        out[str(width)] = mean(by_algorithm1, active=active, window=width)
    return out


def simplex(one: Trained, *, active: Sequence[int], schedule: str = "simple") -> Figures:
    """Constrained and free weights."""
    transition = simulate_transition(one, schedule, active)
    truth, late = transition.alpha[0], slice(one.lags, None)
    out: Figures = {}
    for name, held in (("simplex", True), ("free", False)):
        found = {
            "algorithm1": by_algorithm1(one, transition, active, pool=True, simplex=held)[0],
            "default": by_default(one, transition, pool=True, simplex=held)[0],
        }
        for who, curve in found.items():
            weights = curve[late]
            out[f"{who}, {name}"] = {
                "pooled": weight_correlation(truth[late], weights),
                "invalid": invalid_fraction(weights),
                "negative_steps": float((weights < -1e-9).any(axis=1).mean()),
                "lowest": float(weights.min()),
                "highest": float(weights.max()),
            }
    return out


def two_stages(
    one: Trained, *, active: Sequence[int], schedule: str = "simple", past: int | None = None
) -> Figures:
    """The gating network alone on pure recordings and on transitions, and both stages.

    The gate sees as much of the past as the experts, or so many steps; it is judged where it has
    an answer.
    """
    panel = one.world.simulate(one.scale.recordings(GATE_RECORDINGS)).panel
    gate = fit_gate(one.trace, panel, past=past)
    transition = simulate_transition(one, schedule, active)
    truth, late = transition.alpha[0], slice(gate.past, None)
    wanted = np.concatenate(one.pure.alpha[:, late])
    given = np.concatenate([curve[late] for curve in gate.weights(one.pure.panel)])
    alone = gate.weights(transition.panel)
    pooled = {
        "stage 1 only": np.mean(alone, axis=0),
        "algorithm1": by_algorithm1(one, transition, active, pool=True)[0],
        "default": by_default(one, transition, pool=True)[0],
    }
    found = {}
    for who, curve in pooled.items():
        known = np.isfinite(curve).all(axis=1) & (np.arange(len(curve)) >= one.lags)
        found[f"OOD, {who}"] = _agreement(truth[known], curve[known])
    each = [weight_correlation(truth[late], curve[late]) for curve in alone]
    found["OOD, stage 1 only"]["single"] = float(np.mean(each))
    shown = {"truth": truth, **pooled}
    return {
        "ID, stage 1 only": _agreement(wanted, given) | {"accuracy": gate.accuracy},
        **found,
        "curves": {who: rounded(curve, active) for who, curve in shown.items()},
    }


def _agreement(truth: np.ndarray, curve: np.ndarray) -> Figures:
    return {
        "pooled": weight_correlation(truth, curve),
        "mse": float(((truth - curve) ** 2).mean()),
    }


def curves(one: Trained, *, active: Sequence[int], schedule: str = "simple") -> Figures:
    """The curves of active regimes, for figures: truth, pooled answers raw and calibrated."""
    transition = simulate_transition(one, schedule, active)
    truth = transition.alpha[0]
    path = cast(Trajectory, one.trace.recover(transition.panel, pool=True))
    found = {
        "algorithm1": by_algorithm1(one, transition, active, pool=True)[0],
        "default": path.alpha,
        "oracle": by_oracle(one, transition, pool=True)[0],
    }

    def error(curve: np.ndarray) -> float:
        return float(((truth - curve)[one.lags :][:, list(active)] ** 2).mean())

    shown = {"truth": truth, **found, "lower": path.lower, "upper": path.upper}
    out: Figures = {who: rounded(curve, active) for who, curve in shown.items()}
    for who, curve in found.items():
        scaled = calibrated(curve, pure_rows(truth, one.lags))
        out[f"{who}_calibrated"] = rounded(scaled, active)
        out[f"{who}_mse_raw"], out[f"{who}_mse"] = error(curve), error(scaled)
    return out


def convexity(one: Trained, *, active: Sequence[int], recordings: int = 60) -> Figures:
    """The paper's KS test and ours, on valid transitions and with the emergent edge."""
    out: Figures = {}
    late = slice(one.lags, None)
    means = _means(one)
    pure = one.pure_latents[:, late] - means[one.pure.label][:, None]
    pure_residuals = np.linalg.norm(pure, axis=-1)
    for name, edge in (("valid", None), ("emergent edge", EmergentEdge())):
        transition = one.world.transition(
            "simple", series=recordings, active=list(active), seed=1, emergent=edge
        )
        paths = cast(list[Trajectory], one.trace.recover(transition.panel))
        z = np.stack(one.trace.encode(transition.panel))
        told = means[list(active)]
        each = [centred_window(static_weights(x, told), WINDOW) for x in z]
        residuals = np.stack([static_residuals(x, told, w) for x, w in zip(z, each, strict=True)])[
            :, late
        ]
        ours = [one.trace.diagnose(path)["convexity"].value for path in paths]
        pool = cast(Trajectory, one.trace.recover(transition.panel, pool=True))
        out[name] = {
            "ks_p_all": float(paper_test(residuals, pure_residuals)),
            "ks_alarms": float(
                np.mean([paper_test(r[None], pure_residuals) <= 0.05 for r in residuals])
            ),
            "alarms": float(np.mean(np.array(ours) <= 0.05)),
            "pooled_p": float(one.trace.diagnose(pool)["convexity"].value),
            # for the figure: where along the transition the residuals are
            "algorithm1_residual": np.round(residuals.mean(axis=0), 4).tolist(),
            "default_residual": np.round(pool.residual[late], 4).tolist(),
            "edge": EmergentEdge().active(transition.alpha[0])[late].tolist(),
        }
    return out


def schedule(one: Trained, *, active: Sequence[int], schedule: str) -> Figures:
    """Properties of a schedule; the model is not used."""
    alpha = simulate_transition(one, schedule, active).alpha[0][:, list(active)]
    return {
        "active at once": float((alpha > AT_WORK).sum(axis=1).max()),
        "peak": float(np.median(alpha.max(axis=0))),
        "monotone segments": float(np.mean([_rises_and_falls(curve) for curve in alpha.T])),
    }


def _rises_and_falls(curve: np.ndarray) -> bool:
    """Whether the curve has at most one peak."""
    moves = np.sign(np.round(np.diff(curve), 9))
    moves = moves[moves != 0]
    return not ((moves[:-1] < 0) & (moves[1:] > 0)).any()


MEASURES: dict[str, Callable[..., Figures]] = {
    f.__name__: f
    for f in (
        latents,
        recovery,
        bounds,
        windows,
        schedule,
        simplex,
        two_stages,
        curves,
        convexity,
    )
}


def _score(one: Trained, truth: np.ndarray, curve: np.ndarray) -> Figures:
    late = slice(one.lags, None)
    y, x = truth[late], curve[late]
    mechanisms = one.world.mechanisms
    wanted = np.einsum("tk,kij->tij", y, mechanisms)
    out: Figures = {
        "pooled": weight_correlation(y, x),
        "rank": weight_correlation(y, x, rank=True),
        "mae": weight_error(y, x),
        "mse": float(np.nanmean((y - x) ** 2)),
        "w": _flat_correlation(np.einsum("tk,kij->tij", np.nan_to_num(x), mechanisms), wanted),
    }
    known = pure_rows(truth, one.lags)
    if len({int(weights.argmax()) for weights in known.values()}) > 1:
        corrected = calibrated(np.nan_to_num(curve), known)
        out["mae_calibrated"] = weight_error(y, corrected[late])
    if one.effects is not None and len(one.known) == len(mechanisms):
        own = np.einsum("tk,kij->tij", np.nan_to_num(x), one.effects)
        out["w_learned"] = _flat_correlation(own, wanted)
    return out


def _means(one: Trained) -> np.ndarray:
    """Mean latents of every regime of the world, from new pure recordings: (K, d)."""
    late = one.pure_latents[:, one.lags :]
    label = cast(np.ndarray, one.pure.label)
    return np.stack([late[label == k].mean(axis=(0, 1)) for k in range(len(one.world.regimes))])


def _known_mixtures(one: Trained, active: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Mean learned latents at known weights between the first active regime and each other."""
    found, weights = [], []
    for number, other in enumerate(active[1:], start=1):
        for share in KNOWN:
            alpha = np.zeros(len(active))
            alpha[0], alpha[number] = 1 - share, share
            steps = one.world.config.length
            run = one.world.transition(
                np.tile([1 - share, share], (steps, 1)),
                series=one.scale.trials,
                active=[active[0], other],
                seed=100 + number,
            )
            z = np.stack(one.trace.encode(run.panel))[:, one.lags :]
            found.append(z.mean(axis=(0, 1)))
            weights.append(alpha)
    return np.stack(found), np.stack(weights)


def _flat_correlation(found: np.ndarray, wanted: np.ndarray) -> float:
    if np.ptp(found) == 0:
        return 0.0
    return float(np.corrcoef(found.ravel(), wanted.ravel())[0, 1])
