"""Series side by side: what the blocks of evidence say of a panel, gathered for stage 2."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from . import latents
from .errors import DataError
from .model import SequentialVAE
from .recover.blocks import middle
from .recover.evidence import Evidence
from .recover.innovations import Observed
from .recover.reference import Reference
from .seen import Encoded, gather
from .series import Panel
from .windows import side_by_side

#: Rows of padded series that are worked on at once; more would leave the processor's cache.
GROUP_ROWS = 100_000


@dataclass(frozen=True, eq=False)
class Stack:
    """Some series side by side, padded at the end; pooled ones share their evidence."""

    names: list[str]
    times: list[np.ndarray]
    elapsed: np.ndarray  # (S, T)
    latents: np.ndarray  # (S, T, d)
    expected: np.ndarray  # (S, T, K, d): what the judged block expects
    evidence: dict[str, Evidence]  # by block, with the experts recombined as it asks for
    used: tuple[str, ...]
    judged: str
    trials: int = 1

    @classmethod
    def of(
        cls,
        model: SequentialVAE,
        reference: Reference,
        panel: Panel,
        used: tuple[str, ...],
        usual: float,
        *,
        causal: bool = False,
    ) -> Stack:
        """Encode a panel and let the blocks look at it; `usual` is the time between rows.

        Unless the answer is to be causal, a window speaks of its middle.
        """
        coded = latents.encode(model, panel)
        rows, position = side_by_side(panel)
        encoded = Encoded(model, gather(coded.mean, rows, position), position)
        excess = reference.excess(coded.scale)
        evidence = {}
        for name in dict.fromkeys([*used, reference.judged.name]):
            block = reference.blocks[name]
            seen = encoded.see(name, reference.support, reference.means)
            expected = None if seen.expected is None else seen.expected.swapaxes(0, 1)
            widen = block.widening(excess)
            if widen is not None:
                widen = widen[rows].T
            stacking = reference.offsets[name].stacking
            found = block.evidence(seen.values.swapaxes(0, 1), expected, widen, stacking)
            evidence[name] = found.earlier(0 if causal else middle(name))
            if name == reference.judged.name:
                predicted = cast(np.ndarray, expected)
        elapsed = np.maximum(panel.steps() / usual, 0.01)[rows]
        real = np.arange(len(rows))[:, None] < panel.lengths
        return cls(
            names=[str(name) for name in panel.names],
            times=[panel.time_of(i) for i in range(len(panel))],
            elapsed=np.where(real, elapsed, 1.0).T,
            latents=encoded.mean.swapaxes(0, 1),
            expected=predicted,
            evidence=evidence,
            used=used,
            judged=reference.judged.name,
        )

    @property
    def typical_latents(self) -> np.ndarray:
        """Latents of each answer, (S, T, d): averaged over the trials of a pool."""
        return self.latents if self.trials == 1 else mean_of_known(self.latents)

    def observed(self, answer: int, stacking: np.ndarray) -> Observed:
        """What the diagnosis may look at: views of one series, or of all trials of a pool."""
        steps = len(self.times[answer])
        mine = slice(answer, answer + 1) if self.trials == 1 else slice(None)
        return Observed(
            self.latents[mine, :steps],
            self.expected[mine, :steps],
            self.elapsed[answer, :steps],
            stacking,
        )

    def whole(self, reference: Reference) -> Evidence:
        """All blocks together, with the experts recombined as the combination asks for."""
        if len(self.used) == 1:
            return self.evidence[self.used[0]]
        wanted = reference.combination(self.used)[1].stacking
        parts = [
            self.evidence[name].stacked(np.linalg.solve(reference.offsets[name].stacking, wanted))
            for name in self.used
        ]
        return sum(parts[1:], parts[0])

    def pooled(self) -> Stack:
        """Trials of one schedule: information adds up."""
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
        return replace(
            self,
            names=["pooled"],
            times=self.times[:1],
            elapsed=self.elapsed[:1],
            evidence={name: part.pooled() for name, part in self.evidence.items()},
            trials=len(self.names),
        )


def in_training_steps(panel: Panel, step: float | None) -> Panel:
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


def groups(lengths: np.ndarray) -> Iterator[np.ndarray]:
    """Series of similar length, so that little is padded."""
    order = np.argsort(lengths, kind="stable")
    start = 0
    while start < len(order):
        stop = start + 1
        while stop < len(order) and (stop + 1 - start) * lengths[order[stop]] <= GROUP_ROWS:
            stop += 1
        yield order[start:stop]
        start = stop


def mean_of_known(values: np.ndarray, axis: int = 0) -> np.ndarray:
    """Mean over an axis, which stays with length one; NaN counts for nothing."""
    known = np.isfinite(values)
    total = np.where(known, values, 0.0).sum(axis=axis, keepdims=True)
    with np.errstate(invalid="ignore"):
        return total / known.sum(axis=axis, keepdims=True)
