"""What stage 2 knows of the pure regimes, measured on series that training never saw."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any, cast

import numpy as np

from ..errors import ConfigError, DataError
from .blocks import PLAIN, Block, parse
from .choose import Choice, Material, joined, rank_within
from .evidence import Evidence
from .innovations import Innovations
from .offsets import Offsets
from .statespace import surprise
from .support import Support

#: Pure series whose innovations are kept.
KEPT = 400
#: Fields that are plain arrays, as older models have them too.
FIGURES = ("means", "spread", "noise", "between", "surprise", "width", "steps")
FOR_TESTS = ("pure_error", "pure_past", "gram", "group", "pure_group")


@dataclass(frozen=True, eq=False)
class Reference:
    """Means of the latents, the blocks of evidence with their noise, and which of them to use."""

    means: np.ndarray  # (K, d) mean latents of each regime
    spread: np.ndarray  # (d, d) covariance of the latents within a regime
    noise: np.ndarray  # (K, d, d) second moments of z - m_k(history) in regime k
    between: np.ndarray  # (d, d) covariance of the mean latents of series within a regime
    surprise: np.ndarray  # (n, T) surprise of pure series, NaN where there is none
    width: np.ndarray  # (d,) mean square of the encoder's standard deviation
    steps: np.ndarray  # (K,) steps behind these figures
    blocks: dict[str, Block]
    offsets: dict[str, Offsets]  # by the name of a block or of a combination of them
    choice: Choice
    support: Support
    # for the convexity test: innovations of some pure series and the latents before, (n, T, d)
    pure_error: np.ndarray = field(default_factory=lambda: np.empty((0, 0, 0)))
    pure_past: np.ndarray = field(default_factory=lambda: np.empty((0, 0, 0)))
    # (K, K) mean of M' R^-1 M over pure rows: how far apart the regimes' predictions are
    gram: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    # codes of the groups of the series of `surprise` and of `pure_error`; empty without groups
    group: np.ndarray = field(default_factory=lambda: np.empty(0, int))
    pure_group: np.ndarray = field(default_factory=lambda: np.empty(0, int))

    @classmethod
    def measure(
        cls, latents: np.ndarray, width: np.ndarray, predicted: np.ndarray, regime: np.ndarray
    ) -> Reference:
        """From n pure series, padded with NaN: latents and encoder widths (n, T, d), predictions
        one step ahead (n, T, K, d), and the regime of each series (n,). No choice is made.
        """

        def material(name: str) -> tuple[np.ndarray, np.ndarray | None]:
            return latents, predicted if name == PLAIN else None

        choice = Choice((PLAIN,), (PLAIN, "static"), {})
        return cls.of_material(latents, width, material, regime, choice)

    @classmethod
    def of_material(
        cls,
        latents: np.ndarray,
        width: np.ndarray,
        material: Material,
        regime: np.ndarray,
        choice: Choice,
        group: np.ndarray | None = None,
    ) -> Reference:
        """The same with these blocks of evidence, which `material` shows, and a choice of them;
        `group` (n,) names whose series they are.
        """
        blocks: dict[str, Block] = {}
        offsets: dict[str, Offsets] = {}
        chosen: list[Evidence] = []
        main = judged(choice.blocks)
        for name in choice.tried:
            values, expected = material(name)
            if name == PLAIN:
                predicted = cast(np.ndarray, expected)
                known = np.isfinite(latents).all(-1) & np.isfinite(predicted).all((-2, -1))
                figures = _figures(latents, predicted, known, regime)
            blocks[name] = Block.measure(name, values, expected, regime)
            seen = blocks[name].evidence(values, expected)
            offsets[name] = Offsets.measure(seen, regime)
            if name in choice.blocks:
                chosen.append(seen)
            if name == main:
                tested = _for_the_tests(
                    blocks[name], offsets[name], seen, values, cast(Any, expected), regime, group
                )
        if len(chosen) > 1:
            whole = sum(chosen[1:], chosen[0])
            offsets[joined(choice.blocks)] = Offsets.measure(whole, regime)
        return cls(
            **figures,
            **tested,
            width=(width[known] ** 2).mean(axis=0),
            blocks=blocks,
            offsets=offsets,
            choice=choice,
            support=Support.of(latents[np.isfinite(latents).all(-1)]),
        )

    def surprise_of(self, latents: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        """Surprise (n, T) of series whose predictions (n, T, K, d) are those of `judged`."""
        stacking = self.offsets[self.judged.name].stacking
        return _surprise(self.judged.evidence(latents, predicted, stacking=stacking))

    def combination(self, names: tuple[str, ...] | None) -> tuple[list[Block], Offsets]:
        """The blocks of that name, or the chosen ones, and their offsets."""
        wanted = self.choice.blocks if names is None else names
        if joined(wanted) not in self.offsets:
            for name in wanted:
                parse(name)  # says so if that is not a block at all
            offered = [f"'{name}'" for name in self.offsets]
            raise ConfigError(
                f"the evidence {joined(wanted)!r} was not measured when this model was fitted",
                fix=f"use one of {', '.join(offered)}",
            )
        return [self.blocks[name] for name in wanted], self.offsets[joined(wanted)]

    @cached_property
    def judged(self) -> Block:
        """The block by which it is judged whether the known mechanisms explain a step."""
        return self.blocks[judged(self.choice.blocks)]

    @property
    def precision(self) -> np.ndarray:
        """Inverse of the noise covariance of the judged block."""
        return np.linalg.inv(self.judged.noise)

    def excess(self, scale: np.ndarray) -> np.ndarray:
        """By how much the encoder's variance at rows of deviation (rows, d) exceeds the usual."""
        return np.maximum(scale**2 - self.width, 0.0)

    # -- storage -------------------------------------------------------------------------------

    def arrays(self) -> dict[str, np.ndarray]:
        """For storage."""
        out = {name: getattr(self, name) for name in (*FIGURES, *FOR_TESTS)}
        out |= self.support.arrays()
        for block in self.blocks.values():
            out |= {f"block/{block.name}/{part}": getattr(block, part) for part in BLOCK_PARTS}
        for name, offsets in self.offsets.items():
            parts = {f.name: getattr(offsets, f.name) for f in fields(offsets)}
            out |= {f"offsets/{name}/{part}": value for part, value in parts.items()}
        out["choice"] = np.frombuffer(json.dumps(asdict(self.choice)).encode(), np.uint8)
        return {f"reference_{name}": np.asarray(value) for name, value in out.items()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Reference | None:
        """From storage; None where a model was stored without."""
        stored = {
            name.removeprefix("reference_"): value
            for name, value in arrays.items()
            if name.startswith("reference_")
        }
        if not all(name in stored for name in FIGURES):
            return None
        figures = {name: stored[name] for name in (*FIGURES, *FOR_TESTS) if name in stored}
        if "choice" not in stored:
            return cls._without_blocks(figures)
        blocks = {
            name: Block(
                name,
                parts["means"],
                parts["noise"],
                float(parts["time"]),
                float(parts.get("limit", np.inf)),  # older models have none
            )
            for name, parts in _grouped(stored, "block").items()
        }
        offsets = {name: Offsets(**parts) for name, parts in _grouped(stored, "offsets").items()}
        told = json.loads(stored["choice"].tobytes())
        choice = Choice(tuple(told["blocks"]), tuple(told["tried"]), told["errors"])
        support = Support.from_arrays(stored)
        return cls(**figures, blocks=blocks, offsets=offsets, choice=choice, support=support)

    @classmethod
    def _without_blocks(cls, figures: dict[str, np.ndarray]) -> Reference:
        """From a model stored before there were blocks: one step ahead is all it knows."""
        name = PLAIN
        noise = figures["noise"].mean(axis=0)
        floor = 1e-6 * np.trace(noise) / len(noise)
        block = Block(name, figures["means"], noise + floor * np.eye(len(noise)), 1.0)
        return cls(
            **figures,
            blocks={name: block},
            offsets={name: Offsets.none(len(figures["means"]))},
            choice=Choice((name,), (name,), {}),
            support=Support.everywhere(len(noise)),
        )


BLOCK_PARTS = ("means", "noise", "time", "limit")


def judged(chosen: tuple[str, ...]) -> str:
    """The chosen conditional block, or the plainest."""
    return next((n for n in chosen if parse(n)[0] == "conditional"), PLAIN)


def _for_the_tests(
    block: Block,
    offsets: Offsets,
    evidence: Evidence,
    values: np.ndarray,
    expected: np.ndarray,
    regime: np.ndarray,
    group: np.ndarray | None,
) -> dict[str, np.ndarray]:
    """What the tests of a recording compare it with: errors of pure series by the judged block."""
    some = np.sort(np.argsort(rank_within(regime), kind="stable")[:KEPT])
    stacked = offsets.stacking.T @ expected[some]
    precision = np.linalg.inv(block.noise)
    pure = Innovations.of(values[some][:, None], stacked[:, None], precision)
    seen = evidence.stacked(offsets.stacking)
    codes = np.empty(0, int) if group is None else np.unique(group, return_inverse=True)[1]
    return {
        "surprise": _surprise(seen).astype(np.float32),
        "pure_error": pure.error.astype(np.float32),
        "pure_past": pure.past.astype(np.float32),
        "gram": block.time * seen.G[seen.dims > 0].mean(axis=0),
        "group": codes,
        "pure_group": codes[some] if codes.size else codes,
    }


def _surprise(seen: Evidence) -> np.ndarray:
    return surprise(seen.on_plane(), np.ones(seen.dims.shape), seen.log_det)


def _grouped(stored: dict[str, Any], kind: str) -> dict[str, dict[str, np.ndarray]]:
    """name -> part -> array, from keys kind/name/part."""
    out: dict[str, dict[str, np.ndarray]] = {}
    for key, value in stored.items():
        head, _, rest = key.partition("/")
        if head == kind:
            name, _, part = rest.rpartition("/")
            out.setdefault(name, {})[part] = value
    return out


def _figures(
    latents: np.ndarray, predicted: np.ndarray, known: np.ndarray, regime: np.ndarray
) -> dict[str, np.ndarray]:
    """Means, spread and noise, regime by regime."""
    regimes, d = predicted.shape[2:]
    means, noise, steps = np.zeros((regimes, d)), np.zeros((regimes, d, d)), np.zeros(regimes)
    spread, between = np.zeros((d, d)), np.zeros((d, d))
    for k in range(regimes):
        mine = known & (regime == k)[:, None]
        if not mine.any():
            raise DataError(f"regime number {k} has no step with a full history")
        z = latents[mine]
        error = z - predicted[mine][:, k]
        steps[k] = len(z)
        means[k] = z.mean(axis=0)
        noise[k] = error.T @ error / steps[k]
        within = (z - means[k]).T @ (z - means[k]) / steps[k]
        spread += within / regimes
        # one or two series say nothing of how series differ: then anything within reach goes
        several = mine.any(axis=1).sum() > 2
        between += (_between_series(latents, mine, means[k]) if several else within) / regimes
    return {
        "means": means,
        "spread": spread,
        "noise": noise,
        "between": between,
        "steps": steps,
    }


def _between_series(latents: np.ndarray, known: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Covariance of the series' own means around the mean of their regime."""
    count = known.sum(axis=1)
    own = count > 0
    centre = np.where(known[..., None], latents, 0.0).sum(axis=1)[own] / count[own][:, None]
    return (centre - mean).T @ (centre - mean) / own.sum()
