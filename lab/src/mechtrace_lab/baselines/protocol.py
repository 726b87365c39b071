"""The protocol of compared methods: fit a panel, encode it, and recover regime weights.

A method that has no latents answers None to `encode`, one that cannot say how much of each regime
is at work answers None to `weights`; `Traits` say so beforehand. What a method cannot do with
*these* data (no labels, too short) is a DataError.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from mechtrace.data import Panel
from mechtrace.errors import ConfigError, DataError, NotFitted
from mechtrace.stage1 import Listener


@dataclass(frozen=True)
class Traits:
    """Properties of a method that are known before it runs."""

    title: str  # as its authors write it
    about: str  # one sentence
    labels: bool = True  # learning needs regime labels
    latents: bool = False  # `encode` gives latents
    weights: bool = True  # `weights` gives curves
    labels_to_encode: bool = False  # also recordings that are only encoded must be labelled
    package: str = ""  # an optional package that it cannot do without, as it is imported


@dataclass(frozen=True)
class Settings:
    """Settings that all methods share; everything else is as its authors publish it."""

    latents: int = 8
    lags: int = 2
    seed: int = 0
    device: str = "auto"
    #: hidden states of a method that learns without labels; of labelled panels, the regimes
    states: int = 2
    #: share of the series of each regime that no method learns from: they select
    holdout: float = 0.1
    #: longer series are cropped to so many rows at random places while learning
    window: int = 50
    #: transitions shown while learning, repeats counted: the budget of every trained method
    transitions: int = 6_720_000
    #: series per step; None: the authors'. Another number scales their learning rate by the root
    #: of the ratio, which keeps the noise of the gradient where it was
    batch: int | None = None
    #: held-out evaluations over a training run, among which the best is kept
    evaluations: int = 20

    def __post_init__(self) -> None:
        """Raise on values that are out of range."""
        for name in ("latents", "lags", "states", "window", "transitions", "evaluations"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} = {getattr(self, name)}", fix="make it at least 1")
        if self.batch is not None and self.batch < 1:
            raise ConfigError(f"batch = {self.batch}", fix="make it at least 1")
        if not 0 <= self.holdout < 1:
            raise ConfigError(f"holdout = {self.holdout}", fix="use a share in [0, 1)")


@dataclass(frozen=True, eq=False)
class Truth:
    """Recordings with known latents, used by oracle selection only."""

    panel: Panel
    latents: Sequence[np.ndarray]  # (T, d) of each series


class Method(ABC):
    """A method that learns regimes from recordings."""

    traits: ClassVar[Traits]

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.regimes_: tuple[str, ...] = ()  # set by fit: what the columns of `weights` are
        self.channels_: tuple[str, ...] = ()

    def fit(
        self, panel: Panel, *, listeners: Sequence[Listener] = (), truth: Truth | None = None
    ) -> Self:
        """Learn. With `truth`, a trained method also remembers the weights that match it best.

        A method that needs no labels may use them all the same: NCTRL to name its states, the
        hidden Markov models to learn from.
        """
        if self.traits.labels and not panel.labelled:
            raise DataError(
                f"{self.traits.title} learns from labelled recordings, and these have no labels",
                where=panel.source,
                fix="name the column that holds the regime of each row",
            )
        self._learn(panel, listeners, truth)
        self.channels_ = tuple(panel.channels)
        return self

    @abstractmethod
    def _learn(self, panel: Panel, listeners: Sequence[Listener], truth: Truth | None) -> None:
        """Learn from a panel that has what the method needs; sets `regimes_`."""

    def encode(self, panel: Panel) -> list[np.ndarray] | None:
        """Latents (T, d) of each series, NaN where a row has none; None if there are no latents.

        Posterior means, never samples.
        """
        self._check(panel)
        if not self.traits.latents:
            return None
        if self.traits.labels_to_encode and not panel.labelled:
            raise DataError(
                f"{self.traits.title} encodes only recordings whose regime is known",
                where=panel.source,
                fix="give labelled recordings, or leave this method out",
            )
        return self._encode(panel)

    def weights(self, panel: Panel) -> list[np.ndarray] | None:
        """How much of each regime, (T, K) of each series in the order of `regimes_`.

        Rows sum to 1, or are NaN where the method says nothing; None if it never says anything.
        """
        self._check(panel)
        return self._weights(panel) if self.traits.weights else None

    def pooled(self, panel: Panel) -> np.ndarray | None:
        """One curve (T, K) for series of equal length that share a schedule: their mean."""
        curves = self.weights(panel)
        if curves is None:
            return None
        if len({len(curve) for curve in curves}) != 1:
            raise DataError(
                "series that share a schedule must have equal lengths",
                where=panel.source,
                fix="cut them to one length, or look at them one by one",
            )
        return np.mean(curves, axis=0)

    def oracle_selected(self) -> Method:
        """Return this method with the checkpoint that matched the truth best, or itself."""
        return self

    def _encode(self, panel: Panel) -> list[np.ndarray]:
        raise NotImplementedError

    def _weights(self, panel: Panel) -> list[np.ndarray]:
        raise NotImplementedError

    def _check(self, panel: Panel) -> None:
        if not self.regimes_:
            raise NotFitted(f"{self.traits.title} has learned nothing yet", fix="call fit first")
        if tuple(panel.channels) != self.channels_:
            raise DataError(
                f"the recordings have the channels {list(panel.channels)}, learned were"
                f" {list(self.channels_)}",
                where=panel.source,
                fix="give the same channels in the same order",
            )
