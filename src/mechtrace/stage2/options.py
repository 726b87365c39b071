"""Options of `Trace.recover`, and their checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..errors import ConfigError
from .calibration import IntervalLike, as_intervals

METHODS = ("state-space", "algorithm1")
#: Former names of options, and the present ones.
FORMER_OPTIONS = {"blocks": "evidence", "bias": "estimate_offset", "known": "anchor"}


@dataclass(frozen=True)
class RecoverOptions:
    """Options of `Trace.recover`; see there."""

    method: str = "state-space"
    causal: bool = False
    pool: bool = False
    simplex: bool = True
    level: float = 0.9
    active: Sequence[str] | Literal["auto"] | None = None
    window: int = 5
    smoother: str | float = "window"
    evidence: tuple[str, ...] | None = None
    estimate_offset: bool = False
    anchor: Sequence[IntervalLike] = ()
    without: tuple[str, ...] = ()

    def check(self, regimes: tuple[str, ...]) -> list[int]:
        """Raise ConfigError for invalid options; returns the numbers of the active regimes."""
        if self.method not in METHODS:
            raise ConfigError(f"method = {self.method!r}", fix=f"use one of {', '.join(METHODS)}")
        if not 0 < self.level < 1:
            raise ConfigError(f"level = {self.level}", fix="use a share between 0 and 1")
        if not isinstance(self.window, int) or self.window < 0:
            raise ConfigError(f"window = {self.window}", fix="use a whole number of steps")
        centred = self.window > 0 or self.smoother != "window"
        if self.causal and self.method == "algorithm1" and centred:
            raise ConfigError(
                "the paper's centred window looks ahead, so it has no causal answer",
                fix="use method='state-space', or window=0",
            )
        if self.smoother not in ("window", "rule", "gcv") and (
            isinstance(self.smoother, str) or not self.smoother >= 0
        ):
            raise ConfigError(
                f"smoother = {self.smoother!r}", fix='use "window", "rule", "gcv" or a number >= 0'
            )
        if self.estimate_offset and (self.causal or self.pool):
            raise ConfigError(
                "an offset is estimated from the whole of one recording, so it has no causal"
                " answer and averages out in a pool",
                fix="leave out estimate_offset, or causal and pool",
            )
        active = self._active(regimes)
        for interval in as_intervals(self.anchor):
            if interval.shares(regimes)[active].sum() < 1:
                raise ConfigError(
                    f"the anchor {interval.weights!r} is not among the active regimes",
                    fix=f"name one of {', '.join(regimes[k] for k in active)}",
                )
        if self.anchor and self.pool:
            raise ConfigError(
                "anchors correct single recordings, not a pool",
                fix="recover the recordings one by one",
            )
        return active

    def _active(self, regimes: tuple[str, ...]) -> list[int]:
        if self.active is None or self.active == "auto":
            return list(range(len(regimes)))
        unknown = [name for name in self.active if name not in regimes]
        if unknown or len(set(self.active)) < 2:
            raise ConfigError(
                f"active = {list(self.active)}", fix=f"name at least two of {', '.join(regimes)}"
            )
        return [k for k, name in enumerate(regimes) if name in self.active]
