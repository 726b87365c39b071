"""Transitions of pure series as plain arrays: what came, what came before, what was expected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from .. import latents
from ..health import UNUSED_SHARE
from ..mechanisms import histories_of
from ..model import SequentialVAE
from ..series import Panel
from ..windows import Runs, pieces_of

#: Rows of each regime to learn axes from and to test them on, by kind of experts: what a
#: nonparametric expert or a flow expects takes a quadrature for every row.
ROWS = {"affine": 40_000, "spline": 4_000, "nonparametric": 800, "maf": 800}
#: Rows that count as one independent observation in tests: neighbours in time are not.
STRETCH = 64


@dataclass(frozen=True, eq=False)
class Rows:
    """N transitions. Coordinates are those of the model until `mapped`."""

    value: np.ndarray  # (N, d)
    history: np.ndarray  # (L, N, d), newest step first
    expected: np.ndarray  # (N, K, d), by the expert of every regime
    regime: np.ndarray  # (N,)
    unit: np.ndarray  # (N,), the stretch that a row belongs to, from 0 on
    shown: np.ndarray | None = None  # (N, C), what a picture of the row shows

    @property
    def size(self) -> int:
        """Latents."""
        return self.value.shape[1]

    @property
    def regimes(self) -> int:
        """Mechanisms."""
        return self.expected.shape[1]

    @property
    def residual(self) -> np.ndarray:
        """Value minus what the expert of the row's own regime expected, (N, d)."""
        return self.value - self.expected[np.arange(len(self.value)), self.regime]

    def mapped(self, matrix: np.ndarray) -> Rows:
        """In other coordinates, of which each is a row of the matrix (m, d)."""
        return replace(
            self,
            value=self.value @ matrix.T,
            history=self.history @ matrix.T,
            expected=self.expected @ matrix.T,
        )

    @property
    def regime_of_unit(self) -> np.ndarray:
        """The regime of each stretch, (U,)."""
        out = np.zeros(self.unit.max() + 1, int)
        out[self.unit] = self.regime
        return out

    def halves(self) -> tuple[Rows, Rows]:
        """Every second stretch of each regime, in random order, and the rest."""
        order = np.random.default_rng(0).permutation(self.unit.max() + 1)
        rank = np.empty(len(order), int)
        for k in range(self.regimes):
            mine = order[self.regime_of_unit[order] == k]
            rank[mine] = np.arange(len(mine))
        first = rank[self.unit] % 2 == 0
        return self.where(first), self.where(~first)

    def where(self, keep: np.ndarray) -> Rows:
        """Some rows (a mask), with their stretches counted anew."""
        return Rows(
            self.value[keep],
            self.history[:, keep],
            self.expected[keep],
            self.regime[keep],
            np.unique(self.unit[keep], return_inverse=True)[1],
            None if self.shown is None else self.shown[keep],
        )

    def by_unit(self, values: np.ndarray) -> np.ndarray:
        """Means (U, ...) of values (N, ...) over the stretches that they belong to."""
        count = np.bincount(self.unit)
        flat = values.reshape(len(values), -1)
        total = np.stack([np.bincount(self.unit, column) for column in flat.T], axis=-1)
        return (total / count[:, None]).reshape(len(count), *values.shape[1:])


def collect(model: SequentialVAE, panel: Panel, *sources: Runs, shown: int = 0) -> Rows:
    """Transitions of labelled runs, at most `ROWS` of each regime; earlier sources come first.

    The first `shown` channels are what a picture of the step shows.
    """
    most = ROWS[model.config.experts] * 5 // max(5, model.regimes)
    runs = _some(sources, model.regimes, most, model.config.lags)
    pieces = pieces_of(panel, runs)
    rows, flat, value = histories_of(model, pieces)
    run = np.repeat(np.arange(len(runs)), runs.length)[rows]
    stretch = run * (1 + runs.length.max() // STRETCH) + runs.within()[rows] // STRETCH
    return Rows(
        value=value,
        history=flat.reshape(len(rows), model.config.lags, -1).swapaxes(0, 1),
        expected=_expected(model, flat),
        regime=runs.regime[run],
        unit=np.unique(stretch, return_inverse=True)[1],
        shown=pieces.values[rows][:, :shown].astype(float) if shown else None,
    )


def used_latents(model: SequentialVAE, panel: Panel, runs: Runs) -> np.ndarray:
    """Numbers of the latents that carry something."""
    some = runs.where(np.arange(min(len(runs), 200)))
    found = latents.encode(model, pieces_of(panel, some))
    width = np.sqrt(np.nanmean(found.scale**2, axis=0))
    return np.flatnonzero(width < UNUSED_SHARE * np.hypot(width, np.nanstd(found.mean, axis=0)))


def _some(sources: Sequence[Runs], regimes: int, most: int, lags: int) -> Runs:
    """Runs of each source in random order, so many transitions of each regime at most."""
    random = np.random.default_rng(0)
    order = [source.where(random.permutation(len(source))) for source in sources]
    runs = sum(order[1:], order[0])
    runs = runs.where(runs.length > lags)
    chosen = runs.where(np.zeros(0, int))
    for code in range(regimes):
        mine = runs.where(runs.regime == code)
        before = np.cumsum(mine.length - lags) - (mine.length - lags)
        mine, left = mine.where(before < most), most - before[before < most]
        chosen = chosen + replace(mine, length=np.minimum(mine.length, left + lags))
    return chosen


@torch.no_grad()
def _expected(model: SequentialVAE, histories: np.ndarray) -> np.ndarray:
    parts = [
        model.experts.conditional_mean(torch.from_numpy(block).to(model.centre)).cpu().double()
        for block in np.array_split(histories, 1 + len(histories) // latents.PREDICTED_ROWS)
    ]
    return np.ascontiguousarray(torch.cat(parts, dim=1).numpy().swapaxes(0, 1))
