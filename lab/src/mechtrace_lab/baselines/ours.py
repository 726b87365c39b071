"""This package's own method, with its two ways to recover weights, as one among the others."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, cast

import numpy as np

from .. import latents
from ..estimator import Trace
from ..fit import Listener, resolve_device
from ..metrics import linear_r2
from ..recover.trajectory import Trajectory
from ..series import Panel
from ..training import DEFAULT_BATCH, Run
from ..windows import training_runs
from .protocol import Method, Settings, Traits, Truth
from .selection import BestMatch


def trace_for(settings: Settings, panel: Panel, *, align: bool) -> Trace:
    """A Trace of the default recipe whose training shows as many transitions as are allowed."""
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


class Traced(Method):
    """What all methods around a Trace share: the fit, its latents and the oracle's choice."""

    align: ClassVar[bool] = True

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._match: tuple[Run, BestMatch] | None = None

    def _learn(self, panel: Panel, listeners: Sequence[Listener], truth: Truth | None) -> None:
        trace = trace_for(self.settings, panel, align=self.align)
        run = Run.prepare(panel, trace.config())
        match = None
        if truth is not None:
            match = BestMatch(
                run.model,
                truth,
                lambda p: latents.encode(run.model, run.seen(p)).arrays(),
                linear_r2,
            )
        run.train([*listeners, match] if match else listeners)
        self._match = (run, match) if match else None
        self._conclude(trace, run)

    def _conclude(self, trace: Trace, run: Run) -> None:
        """All that follows the training of a model."""
        self.trace_ = trace.conclude(run, progress=False)
        self.regimes_ = trace.regimes_

    def oracle_selected(self) -> Method:
        """This method with the weights that matched the truth best, measured and aligned anew."""
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


class Ours(Traced):
    """Trace with the default recipe; the state-space recovery of stage 2."""

    traits = Traits(
        title="mechtrace",
        about="One mechanism per regime, aligned latents, weights by the state-space recovery.",
        labels=True,
        latents=True,
        weights=True,
    )
    recovery: ClassVar[str] = "state-space"

    def _weights(self, panel: Panel) -> list[np.ndarray]:
        found = self.trace_.recover(panel, method=self.recovery)
        return [path.alpha for path in (found if isinstance(found, list) else [found])]

    def pooled(self, panel: Panel) -> np.ndarray | None:
        """One curve from the evidence of all series together."""
        self._check(panel)
        found = self.trace_.recover(panel, method=self.recovery, pool=True)
        return cast(Trajectory, found).alpha


class Algorithm1(Ours):
    """The same model; weights by the paper's algorithm 1."""

    traits = Traits(
        title="Algorithm 1",
        about="The model of mechtrace; latents projected on the simplex of the regime means.",
        labels=True,
        latents=True,
        weights=True,
    )
    recovery = "algorithm1"
