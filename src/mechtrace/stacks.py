"""Series side by side: what is known of every row of a panel, gathered for stage 2."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from .errors import DataError
from .latents import encode
from .model import SequentialVAE
from .recover.blocks import Block
from .recover.evidence import Evidence
from .recover.reference import Reference
from .request import Request
from .seen import Encoded, Seen
from .series import Panel
from .windows import crop_rows, positions

#: Rows of padded series that are worked on at once; more would leave the processor's cache.
GROUP_ROWS = 20_000


@dataclass(frozen=True, eq=False)
class Rows:
    """What is known of every row of a panel."""

    panel: Panel
    latents: np.ndarray  # (rows, d)
    elapsed: np.ndarray  # (rows,): usual steps since the row before
    blocks: dict[str, tuple[Block, Seen, np.ndarray | None]]  # with what widens their noise
    used: tuple[str, ...]  # the blocks that alpha is recovered from
    judged: str  # the block that is judged

    @classmethod
    def of(
        cls,
        model: SequentialVAE,
        reference: Reference,
        panel: Panel,
        request: Request,
        usual: float,
    ) -> Rows:
        """Encode the panel and let the blocks look at it."""
        used = tuple(b.name for b in reference.combination(request.blocks)[0])
        found = encode(model, panel)
        encoded = Encoded(model, found.mean, positions(panel))
        excess = reference.excess(found.scale)
        names = dict.fromkeys([*used, reference.judged.name])
        return cls(
            panel,
            found.mean,
            np.maximum(panel.steps() / usual, 0.01),
            {
                name: (
                    reference.blocks[name],
                    encoded.see(name, reference.support, reference.means),
                    reference.blocks[name].widening(excess),
                )
                for name in names
            },
            used,
            reference.judged.name,
        )

    def stack(self, chosen: np.ndarray) -> Stack:
        """Gather the rows of the chosen series."""
        panel = self.panel
        length = panel.lengths[chosen]
        rows, real = crop_rows(panel.offsets[chosen], length, int(length.max()))

        def padded(flat: np.ndarray) -> np.ndarray:
            return np.where(real.reshape(*real.shape, *[1] * (flat.ndim - 1)), flat[rows], np.nan)

        evidence = {
            name: block.evidence(
                padded(seen.values),
                None if seen.expected is None else padded(seen.expected),
                None if widen is None else np.where(real, widen[rows], 1.0),
            )
            for name, (block, seen, widen) in self.blocks.items()
        }
        return Stack(
            names=[str(panel.names[i]) for i in chosen],
            times=[panel.time_of(int(i)) for i in chosen],
            elapsed=np.where(real, self.elapsed[rows], 1.0),
            latents=padded(self.latents),
            evidence=evidence,
            used=self.used,
            judged=self.judged,
        )


@dataclass(frozen=True, eq=False)
class Stack:
    """Some series side by side, padded at the end."""

    names: list[str]
    times: list[np.ndarray]
    elapsed: np.ndarray  # (S, T)
    latents: np.ndarray  # (S, T, d)
    evidence: dict[str, Evidence]  # by block
    used: tuple[str, ...]
    judged: str
    trials: int = 1

    def whole(self) -> Evidence:
        """All blocks together."""
        return sum((self.evidence[n] for n in self.used[1:]), self.evidence[self.used[0]])

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
        return replace(
            self,
            names=["pooled"],
            times=self.times[:1],
            elapsed=self.elapsed[:1],
            latents=mean_of_known(self.latents),
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


def mean_of_known(values: np.ndarray) -> np.ndarray:
    """Mean over the first axis, which stays as one row; NaN counts for nothing."""
    known = np.isfinite(values)
    total = np.where(known, values, 0.0).sum(axis=0, keepdims=True)
    with np.errstate(invalid="ignore"):
        return total / known.sum(axis=0, keepdims=True)
