"""Size and power of the convexity test, compared with the paper's test."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from scipy.stats import norm

from mechtrace import worlds
from mechtrace.config import PAPER_SIZES
from mechtrace.diagnose import Convexity, convexity, paper_test
from mechtrace.estimator import Trace
from mechtrace.io import versions
from mechtrace.stage2 import (
    GaussianInformation,
    Observed,
    PureRegimeStatistics,
    Trajectory,
    centred_window,
    nis,
    static_weights,
)
from mechtrace.worlds import leaky_relu

from . import SCHEDULES
from .bounds import static_residuals

logger = logging.getLogger(__name__)

#: Rows around the true interval that still count as inside: the shortest stretch that is compared.
AROUND = 6


class LatentSource:
    """Latents and reference statistics of a learned model, or of the truth."""

    def __init__(self, world: worlds.World, trace: Trace | None, pure: worlds.Simulation) -> None:
        self.world, self.trace = world, trace
        if trace is None:
            nothing = np.zeros(pure.latents.shape)
            self.reference = PureRegimeStatistics.measure(
                pure.latents.astype(float),
                nothing,
                pure.conditional_means(),
                _labels(pure),
                world.seed,
            )
            latents = pure.latents.astype(float)
        else:
            self.reference = trace._statistics("study")
            latents = np.stack(trace.encode(pure.panel))
        lags = world.config.lags
        means = self.reference.means[_labels(pure)][:, None]
        self.pure_residuals = np.linalg.norm(latents - means, axis=-1)[:, lags:]

    def tests(self, transition: worlds.Simulation, trials: int) -> list[tuple[Convexity, float]]:
        """Our test and the p-value of the paper's, for every group of so many trials."""
        return [self._one(*seen) for seen in self._seen(transition, trials)]

    def _one(self, found: np.ndarray, observed: Observed) -> tuple[Convexity, float]:
        latents = observed.values if observed.latents is None else observed.latents
        means = self.reference.means
        test = convexity(found, observed, self.reference, trials=len(latents))
        assert test is not None
        weights = centred_window(static_weights(latents, means))
        residuals = static_residuals(latents, means, weights)[:, self.world.config.lags :]
        return test, paper_test(residuals, self.pure_residuals)

    def _seen(
        self, transition: worlds.Simulation, trials: int
    ) -> Iterator[tuple[np.ndarray, Observed]]:
        """Surprises and what was observed, group by group."""
        groups = [slice(g, g + trials) for g in range(0, len(transition.latents), trials)]
        if self.trace is None:
            latents, expected = transition.latents.astype(float), transition.conditional_means()
            for group in groups:
                yield self._true_evidence(latents[group], expected[group])
        else:
            panel = replace(transition, label=None).panel
            paths = (
                cast(list[Trajectory], self.trace.recover(panel))
                if trials == 1
                else (self._pooled(transition, group) for group in groups)
            )
            for path in paths:
                assert path.observed is not None
                yield path.surprise, path.observed

    def _pooled(self, transition: worlds.Simulation, group: slice) -> Trajectory:
        assert self.trace is not None
        some = replace(transition, observations=transition.observations[group], label=None)
        return cast(Trajectory, self.trace.recover(some.panel, pool=True))

    def _true_evidence(
        self, latents: np.ndarray, expected: np.ndarray
    ) -> tuple[np.ndarray, Observed]:
        precision = self.reference.precision
        info = GaussianInformation.from_predictions(expected, latents, precision).pool()
        steps, kinds = latents.shape[1], expected.shape[2]
        found = nis(info, np.ones((1, steps)))[0]
        return found, Observed(latents, expected, np.ones(steps), np.eye(kinds))


def convexity_study(
    *,
    world: str = "paper",
    regimes: int = 3,
    seeds: int = 3,
    first: int = 0,
    series: int = 400,
    valid: int = 510,
    broken: int = 150,
    trials: Sequence[int] = (1, 5, 20),
    strengths: Sequence[float] = (0.25, 0.5, 1.0),
    lengths: Sequence[int] = (50, 200),
    **settings: Any,
) -> dict[str, Any]:
    """False alarms on `valid` recordings and alarms on `broken` ones, learned and oracle.

    The emergent edge is the paper's: z2 -> z5 while 0.3 < alpha_1 < 0.7. The first strength is
    varied at the first length and the other way round, around strength 0.5 and length 50.
    """
    settings, rows = PAPER_SIZES | settings, list[dict[str, Any]]()
    for seed in range(first, first + seeds):
        drawn = worlds.make(world, seed=seed, regimes=regimes)
        trace = Trace(seed=seed, align=False, **settings).fit(
            drawn.simulate(series).panel, progress=False
        )
        pure = drawn.simulate(100, seed=3)
        sources = {
            "learned": LatentSource(drawn, trace, pure),
            "oracle": LatentSource(drawn, None, pure),
        }
        cases = _cases(trials, strengths, lengths)
        for number, case in enumerate(cases):
            edge = case["strength"]
            count = max(10, (valid // len(SCHEDULES) if not edge else broken) // case["trials"])
            transition = drawn.transition(
                case["schedule"],
                active=list(range(min(3, regimes))) if edge else None,
                series=count * case["trials"],
                length=case["length"],
                seed=4 + number,
                emergent=worlds.EmergentEdge(strength=edge) if edge else None,
            )
            for name, source in sources.items():
                about = {"seed": seed, "source": name} | case
                rows.append(
                    about | _summary(source.tests(transition, case["trials"]), transition, case)
                )
                logger.info(_line(rows[-1]))
    return {
        "world": world,
        "regimes": regimes,
        "series_per_regime": series,
        "seeds": seeds,
        "first_seed": first,
        "rows": rows,
        "settings": Trace(**settings).get_params(),
        "versions": versions(),
    }


def _cases(
    trials: Sequence[int], strengths: Sequence[float], lengths: Sequence[int]
) -> list[dict[str, Any]]:
    """Valid recordings by schedule and pool, then the edge by pool, strength and length."""

    def case(schedule: str, pool: int, length: int, strength: float) -> dict[str, Any]:
        return {"schedule": schedule, "trials": pool, "length": length, "strength": strength}

    out = [case(s, n, lengths[0], 0.0) for n in trials for s in SCHEDULES]
    out += [case("simple", 1, length, 0.0) for length in lengths[1:]]
    out += [case(s, n, lengths[0], 0.5) for n in trials for s in SCHEDULES[:2]]
    out += [case("simple", 1, lengths[0], x) for x in strengths if x != 0.5]
    out += [case("simple", 1, length, 0.5) for length in lengths[1:]]
    return out


def _summary(
    tests: list[tuple[Convexity, float]], transition: worlds.Simulation, case: dict[str, Any]
) -> dict[str, Any]:
    p = np.array([test.p_value for test, _ in tests])
    paper = np.array([value for _, value in tests])
    out: dict[str, Any] = {
        "recordings": len(tests),
        "alarms": float((p <= 0.05).mean()),
        "alarms_strong": float((p <= 0.01).mean()),
        "paper_alarms": float((paper <= 0.05).mean()),
    }
    if transition.emergent is not None:
        out |= _located(tests, transition.emergent.active(transition.alpha[0]))
        if case["trials"] == 1:
            out["ceiling"] = omniscient_power(transition)
    return out


def _located(tests: list[tuple[Convexity, float]], true: np.ndarray) -> dict[str, float]:
    """How much of what is flagged, where there is an alarm, lies in or near the true interval."""
    near = np.convolve(true, np.ones(2 * AROUND + 1), "same") > 0.5
    inside, around, hit = [], [], []
    for test, _ in tests:
        flagged = np.zeros(len(true), bool)
        for first, last in test.stretches():
            flagged[first : last + 1] = True
        if test.p_value <= 0.05 and flagged.any():
            inside.append(true[flagged].mean())
            around.append(near[flagged].mean())
            hit.append(true[flagged].any())
    if not inside:
        return {}
    return {
        "flagged_inside": float(np.mean(inside)),
        "flagged_near": float(np.mean(around)),
        "located": float(np.mean(hit)),
        "true_share": float(true.mean()),
    }


def omniscient_power(transition: worlds.Simulation, size: float = 0.05) -> float:
    """Power of the best of all tests: it knows the edge, its strength, when, alpha and latents.

    No test of one recording can do better (Neyman and Pearson). For noise outside the activation.
    """
    world, edge = transition.world, transition.emergent
    assert edge is not None
    z, lags, leak = transition.latents.astype(float), world.config.lags, world.config.leak
    bare = np.tensordot(transition.alpha[0], world.mechanisms, axes=1)
    squares = np.zeros(len(z))
    for t in np.flatnonzero(edge.active(transition.alpha[0])):
        if t < lags:
            continue
        before = sum(
            leaky_relu(z[:, t - lag] @ later, leak)
            for lag, later in enumerate(world.lagged, start=2)
        )
        means = [
            leaky_relu(leaky_relu(z[:, t - 1] @ matrix, leak) + before, leak)
            for matrix in (bare[t], transition.transition_matrices[t])
        ]
        scale = transition.alpha[0, t] @ world.scales
        squares += (((means[1] - means[0]) / scale) ** 2).sum(axis=1)
    return float(norm.sf(norm.isf(size) - np.sqrt(squares)).mean())


def _labels(pure: worlds.Simulation) -> np.ndarray:
    assert pure.label is not None
    return pure.label


def _line(row: dict[str, Any]) -> str:
    kind = f"edge {row['strength']:g}" if row["strength"] else "valid"
    return (
        f"seed {row['seed']} {row['source']} {row['schedule']} T {row['length']} x"
        f" {row['trials']} {kind}: alarms {row['alarms']:.3f} (paper's test"
        f" {row['paper_alarms']:.3f}) of {row['recordings']}"
        + (f", inside {row['flagged_inside']:.2f}" if "flagged_inside" in row else "")
        + (f", best possible {row['ceiling']:.3f}" if "ceiling" in row else "")
    )
