"""Tiny methods for the tests of the comparison; importable in a fresh process."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from mechtrace.errors import DataError, MissingDependency
from mechtrace.stage1.trainer import Progress
from mechtrace_lab.baselines import Method, Traits


def traits(title: str, **other: object) -> Traits:
    usual = {"labels": True, "latents": True, "weights": True}
    return Traits(title=title, about="For tests.", **(usual | other))


class Good(Method):
    """The nearest mean names the regime, and the channels are the latents."""

    traits = traits("The good one")

    def _learn(self, panel, listeners, truth):
        with Path(os.environ["FAKE_LOG"]).open("a") as log:
            log.write(f"{type(self).__name__} {self.settings.seed}\n")
        for listener in listeners:
            listener(Progress(1, 2, 0.5, None, None, 1e-3, 100.0, 1.0, 1.0, False))
        self.regimes_ = panel.regimes[::-1]  # columns are found by name, not by place
        self.means = np.stack(
            [panel.values[panel.codes == panel.regimes.index(r)].mean(0) for r in self.regimes_]
        )

    def _weights(self, panel):
        assert not panel.labelled
        out = []
        for values in panel.to_arrays():
            score = -((values[:, None] - self.means) ** 2).sum(-1)
            share = np.exp(score - score.max(1, keepdims=True))
            out.append(share / share.sum(1, keepdims=True))
        return out

    def _encode(self, panel):
        return [values[:, : self.settings.latents] for values in panel.to_arrays()]


class Selecting(Good):
    """The truth would select other weights."""

    traits = traits("The selecting one")

    def oracle_selected(self):
        other = Good(self.settings)
        other.__dict__ |= self.__dict__
        other._encode = lambda panel: [v[:, ::-1] ** 2 for v in panel.to_arrays()]
        return other


class Failing(Good):
    traits = traits("The failing one")

    def _weights(self, panel):
        raise ValueError("the numbers were bad\nand more")


class Dying(Good):
    traits = traits("The dying one")

    def _learn(self, panel, listeners, truth):
        os._exit(9)


class Lacking(Good):
    traits = traits("The lacking one")

    def _learn(self, panel, listeners, truth):
        raise MissingDependency("it needs a package", fix="pip install it")


class Picky(Good):
    traits = traits("The picky one")

    def _learn(self, panel, listeners, truth):
        raise DataError("it wants more regimes", fix="give more")


class Weightless(Good):
    traits = traits("The weightless one", weights=False)


class Blind(Good):
    traits = traits("The blind one", latents=False)


class Absent(Good):
    traits = traits("The absent one", package="there_is_no_such_package")
