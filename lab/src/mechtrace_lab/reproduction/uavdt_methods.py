"""Methods of the vehicle experiment: reference curves, textbook methods, NCTRL and mechtrace."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from mechtrace.data import Panel
from mechtrace.estimator import Trace
from mechtrace.evaluate import EstimatedShares, truth_of_share
from mechtrace.stage2 import Trajectory

from ..baselines import Method
from ..baselines.heuristics import direction_proxy
from ..datasets.recordings import Recordings
from ..datasets.tracks import Track
from ..datasets.uavdt import RATE
from .reference_methods import NCTRL, TOLD_LINE, baseline_answers, fit_baseline, told_line

#: The direction of the centres over half a second, whatever the features: what the proxy is made
#: of, so nothing is expected to be closer to it.
CENTROID = "centroid"
CLASSIC = ("lda", "logistic-regression", "gaussian-hmm")
#: One model in two ways: the paper's recovery, and ours.
ALGORITHM1, OURS = "algorithm1", "mechtrace"
WAYS: dict[str, dict[str, Any]] = {ALGORITHM1: {"method": "algorithm1"}, OURS: {}}
METHODS = (CENTROID, TOLD_LINE, *CLASSIC, NCTRL, *WAYS)
VERTICAL = "vertical"


class FoldMethods:
    """All methods of one fold; each is fitted when first used."""

    def __init__(self, learn: Panel, settings: dict[str, Any]) -> None:
        self.learn, self.settings = learn, settings
        self.vertical = learn.regimes.index(VERTICAL)
        self._learned: dict[str, Method] = {}

    def runs_with_this_seed(self, method: str) -> bool:
        """Whether the method runs with this seed."""
        return method != NCTRL or self.settings["seed"] == 0

    def answers(
        self, method: str, test: Recordings, tracks: Sequence[Track]
    ) -> list[EstimatedShares]:
        """Recover the weights of left-out tracks."""
        panel = test.panel.without_labels()
        if method == CENTROID:
            return [self._centroid(panel.time_of(i), track) for i, track in enumerate(tracks)]
        if method == TOLD_LINE:
            shares = test.column("proxy")
            return [
                told_line(panel.time_of(i), share, self.vertical) for i, share in enumerate(shares)
            ]
        if method in WAYS:
            return [EstimatedShares.of(path) for path in self.paths(method, panel)]
        return baseline_answers(self._method(method), panel)

    def paths(self, method: str, panel: Panel) -> list[Trajectory]:
        """Recover by one of our ways."""
        found = self.trace.recover(panel, **WAYS[method])
        return found if isinstance(found, list) else [found]

    @cached_property
    def trace(self) -> Trace:
        """The model of all of our ways."""
        return Trace(**self.settings).fit(self.learn, progress=False)

    def _method(self, name: str) -> Method:
        if name not in self._learned:
            self._learned[name] = fit_baseline(name, self.learn, self.settings)
        return self._learned[name]

    def _centroid(self, moments: np.ndarray, track: Track) -> EstimatedShares:
        whole = track.filled()
        share = direction_proxy(whole.centres)
        known = np.isfinite(share)
        at_rows = np.interp(moments, whole.frames[known] / RATE, share[known])
        return EstimatedShares(moments, truth_of_share(at_rows, self.vertical))
