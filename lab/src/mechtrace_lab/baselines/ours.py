"""mechtrace and the paper's Algorithm 1 behind the common protocol."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, cast

import numpy as np

from mechtrace.data import Panel, training_runs
from mechtrace.estimator import Trace
from mechtrace.metrics import linear_r2
from mechtrace.stage1 import DEFAULT_BATCH, FitRun, Listener, resolve_device
from mechtrace.stage1 import encoding as latents
from mechtrace.stage2 import Trajectory

from .oracle_selection import BestMatch
from .protocol import Method, Settings, Traits, Truth


def trace_for(settings: Settings, panel: Panel, *, align: bool) -> Trace:
    """Make a Trace with default settings and as many steps as the budget of transitions allows."""
    longest = int(training_runs(panel, settings.lags).length.max())
    new = max(1, min(settings.window, longest) - settings.lags)
    regimes = len(panel.regimes)
    batch = regimes * math.ceil(DEFAULT_BATCH[resolve_device(settings.device).type] / regimes)
    return Trace(
        settings.latents,
        settings.lags,
        seed=settings.seed,
        steps=math.ceil(settings.transitions / (batch * new)),
        window=max(2, settings.window),
        holdout=settings.holdout,
        evaluations=settings.evaluations,
        align=align,
        device=settings.device,
    )


class TraceMethod(Method):
    """A method around a Trace: fit, latents and oracle selection."""

    align: ClassVar[bool] = True

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._match: tuple[FitRun, BestMatch] | None = None

    def _learn(self, panel: Panel, listeners: Sequence[Listener], truth: Truth | None) -> None:
        trace = trace_for(self.settings, panel, align=self.align)
        run = FitRun.prepare(panel, trace.config())
        match = None
        if truth is not None:
            match = BestMatch(
                run.model,
                truth,
                lambda p: latents.encode(run.model, run.as_channels(p)).arrays(),
                linear_r2,
            )
        run.train([*listeners, match] if match else listeners)
        self._match = (run, match) if match else None
        self._conclude(trace, run)

    def _conclude(self, trace: Trace, run: FitRun) -> None:
        """Complete the fit after training."""
        self.trace_ = trace.conclude(run, progress=False)
        self.regimes_ = trace.regimes_

    def oracle_selected(self) -> Method:
        """Return this method with the checkpoint that matched the true latents best."""
        if self._match is None:
            return self
        run, match = self._match
        other = type(self)(self.settings)
        model = copy.deepcopy(run.model)
        model.load_state_dict(match.weights)
        other._conclude(Trace(**self.trace_.get_params()), replace(run, model=model))
        other.channels_ = self.channels_
        return other

    def _encode(self, panel: Panel) -> list[np.ndarray]:
        return self.trace_.encode(panel)


class MechtraceMethod(TraceMethod):
    """Trace with the default recipe; the state-space recovery of stage 2."""

    traits = Traits(
        title="mechtrace",
        about="One mechanism per regime, aligned latents, weights by the state-space recovery.",
        latents=True,
    )
    recovery: ClassVar[str] = "state-space"

    def _weights(self, panel: Panel) -> list[np.ndarray]:
        found = self.trace_.recover(panel, method=self.recovery)
        return [path.alpha for path in (found if isinstance(found, list) else [found])]

    def pooled(self, panel: Panel) -> np.ndarray | None:
        """Recover one curve from all series together."""
        self._check(panel)
        found = self.trace_.recover(panel, method=self.recovery, pool=True)
        return cast(Trajectory, found).alpha


class Algorithm1(MechtraceMethod):
    """The same model; weights by the paper's algorithm 1."""

    traits = Traits(
        title="Algorithm 1",
        about="The model of mechtrace; latents projected on the simplex of the regime means.",
        latents=True,
    )
    recovery = "algorithm1"
