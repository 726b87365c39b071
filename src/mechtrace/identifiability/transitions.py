"""Transitions of pure series as arrays: values, histories and the experts' predictions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch

from .._runtime.stochastic import generator
from ..data.panel import Panel
from ..data.segments import Runs, runs_as_series, split_runs
from ..stage1 import encoding as latents
from ..stage1.encoding import histories_of
from ..stage1.vae import SequentialVAE

#: Transitions of each regime in each part, by kind of expert: the conditional mean of a
#: nonparametric expert or a flow takes one quadrature per transition.
MAX_TRANSITIONS = {"affine": 20_000, "spline": 2_000, "nonparametric": 400, "maf": 400}
#: Consecutive transitions that count as one independent observation in tests.
STRETCH = 64
#: Smallest number of stretches of each regime for fitting, selection and testing.
MIN_STRETCHES = (4, 2, 4)
#: With this many held-out stretches of each regime, only held-out series are tested; 40 of them
#: distinguish the axes of the paper's world with p < 0.001.
ENOUGH_HELD_OUT = 32
#: Share of the series used for testing where too few are held out, and for selection.
SHARE = 1 / 3
#: Largest number of entries of the covariance whose curvature is measured, and its ridge.
MAX_ENTRIES, RIDGE = 400, 1e-3


@dataclass(frozen=True, eq=False)
class Transitions:
    """N transitions of pure series, in the model's coordinates until `mapped`."""

    value: np.ndarray  # z_t, (N, d)
    history: np.ndarray  # z_{t-1}, ..., z_{t-L}, (L, N, d)
    expected: np.ndarray  # mean of z_t under the expert of each regime, (N, K, d)
    regime: np.ndarray  # code of the regime, (N,)
    #: number of the stretch, from 0 on, (N,); transitions of one stretch are dependent
    unit: np.ndarray
    keypoints: np.ndarray | None = None  # of the picture at step t, (N, C)

    @property
    def size(self) -> int:
        """Number of latents d."""
        return self.value.shape[1]

    @property
    def regimes(self) -> int:
        """Number of regimes K."""
        return self.expected.shape[1]

    @property
    def residual(self) -> np.ndarray:
        """Value minus the conditional mean of the transition's own regime, (N, d)."""
        return self.value - self.expected[np.arange(len(self.value)), self.regime]

    @property
    def residual_covariances(self) -> np.ndarray:
        """Second moments of the residuals of each regime, (K, d, d)."""
        residual = self.residual
        parts = (residual[self.regime == k] for k in range(self.regimes))
        return np.stack([part.T @ part / len(part) for part in parts])

    @property
    def regime_of_unit(self) -> np.ndarray:
        """The regime of each stretch, (U,)."""
        out = np.zeros(self.unit.max() + 1, int)
        out[self.unit] = self.regime
        return out

    def mapped(self, matrix: np.ndarray) -> Transitions:
        """Map latents to coordinates given by the rows of a matrix (m, d)."""
        given = (self.value, self.history, self.expected)
        value, history, expected = (array @ matrix.T for array in given)
        return replace(self, value=value, history=history, expected=expected)

    def where(self, keep: np.ndarray) -> Transitions:
        """Select transitions by a mask (N,) and renumber their stretches."""
        return Transitions(
            self.value[keep],
            self.history[:, keep],
            self.expected[keep],
            self.regime[keep],
            np.unique(self.unit[keep], return_inverse=True)[1],
            None if self.keypoints is None else self.keypoints[keep],
        )

    def by_unit(self, values: np.ndarray) -> np.ndarray:
        """Average values (N, ...) over each stretch: (U, ...)."""
        count = np.bincount(self.unit)
        flat = values.reshape(len(values), -1)
        total = np.stack([np.bincount(self.unit, column) for column in flat.T], axis=-1)
        return (total / count[:, None]).reshape(len(count), *values.shape[1:])


class TransitionSplit(NamedTuple):
    """Transitions of disjoint series: to fit axes, to select among fits, and to test."""

    fit: Transitions
    selection: Transitions
    test: Transitions
    seed: int = 0

    def mapped(self, matrix: np.ndarray) -> TransitionSplit:
        """Map latents to coordinates given by the rows of a matrix (m, d)."""
        fit, selection, test = (part.mapped(matrix) for part in self[:3])
        return TransitionSplit(fit, selection, test, self.seed)


class RunSplit(NamedTuple):
    """Runs to fit axes, to select among fits, and to test; `held_out`: all test runs were."""

    fit: Runs
    selection: Runs
    test: Runs
    held_out: bool


def split_for_alignment(
    train: Runs, held: Runs, regimes: int, lags: int, seed: int
) -> RunSplit | None:
    """Split runs by series so that each part has every regime; None if there are too few.

    Held-out runs are tested; where these are too few, training series are added. A regime with
    too few series has its stretches split instead.
    """
    held_out = bool((_stretches(held, regimes, lags) >= ENOUGH_HELD_OUT).all())
    for source in (train, _cut(train, lags)):
        rest, test = source, held
        if not held_out:
            rest, more = split_runs(source, SHARE, lags, seed)
            test = held + more
        found = RunSplit(*split_runs(rest, SHARE, lags, seed), test, held_out)
        counts = [_stretches(runs, regimes, lags).min() for runs in found[:3]]
        if np.greater_equal(counts, MIN_STRETCHES).all():
            return found
    return None


def _stretches(runs: Runs, regimes: int, lags: int) -> np.ndarray:
    """Count the stretches of each regime, (K,)."""
    count = -(-np.maximum(runs.length - lags, 0) // STRETCH)
    return np.bincount(runs.regime, count, minlength=regimes)


def _cut(runs: Runs, lags: int) -> Runs:
    """Make every stretch, with its history, a series of its own."""
    size = STRETCH + lags
    pieces = -(-runs.length // size)
    run = np.repeat(np.arange(len(runs)), pieces)
    before = size * (np.arange(len(run)) - np.repeat(np.cumsum(pieces) - pieces, pieces))
    length = np.minimum(runs.length[run] - before, size)
    cut = Runs(runs.start[run] + before, length, np.arange(len(run)), runs.regime[run])
    return cut.where(length > lags)


def collect(
    model: SequentialVAE, panel: Panel, runs: Runs, random: np.random.Generator, keypoints: int = 0
) -> Transitions:
    """Encode labelled runs, at most `MAX_TRANSITIONS` transitions of each regime.

    The first `keypoints` channels of the panel are key points of the picture.
    """
    most = MAX_TRANSITIONS[model.config.experts] * 5 // max(5, model.regimes)
    lags = model.config.lags
    runs = _sample(runs, model.regimes, most, lags, random)
    pieces = runs_as_series(panel, runs)
    rows, flat, value = histories_of(model, pieces)
    run = np.repeat(np.arange(len(runs)), runs.length)[rows]
    within = (runs.position_in_run()[rows] - lags) // STRETCH
    stretch = run * (1 + runs.length.max() // STRETCH) + within
    return Transitions(
        value=value,
        history=flat.reshape(len(rows), lags, -1).swapaxes(0, 1),
        expected=_expected(model, flat),
        regime=runs.regime[run],
        unit=np.unique(stretch, return_inverse=True)[1],
        keypoints=pieces.values[rows][:, :keypoints].astype(float) if keypoints else None,
    )


def inverse_square_root(covariance: np.ndarray) -> np.ndarray:
    """Symmetric C^(-1/2) of covariances (..., d, d), with eigenvalues bounded from below."""
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, 1e-6 * values[..., -1:])
    return (vectors * values[..., None, :] ** -0.5) @ np.swapaxes(vectors, -1, -2)


def _sample(runs: Runs, regimes: int, most: int, lags: int, random: np.random.Generator) -> Runs:
    """Draw runs in random order until each regime has at most so many transitions."""
    runs = runs.where(random.permutation(len(runs)))
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
        model.experts.conditional_mean(torch.from_numpy(part).to(model.centre)).cpu().double()
        for part in np.array_split(histories, 1 + len(histories) // latents.PREDICTED_ROWS)
    ]
    return np.ascontiguousarray(torch.cat(parts, dim=1).numpy().swapaxes(0, 1))


def curvature(parts: TransitionSplit) -> float:
    """Curvature of the latent space: how far the noise covariance depends on the state.

    If the network's latents were a nonlinear image of the true ones, noise of constant covariance
    would look larger in some states. So second moments of whitened residuals are regressed on the
    state; the part explained on held-out transitions is the root mean square change of the noise's
    scale. Stretching shows; a frame that rotates without stretching does not.
    """
    train, test = parts.fit, parts.test
    d = train.size
    first, second = np.triu_indices(d)
    weight = np.where(first == second, 1.0, 2.0)
    chosen = generator(parts.seed, "bending").permutation(len(first))[:MAX_ENTRIES]
    share = len(first) / len(chosen)
    first, second, weight = first[chosen], second[chosen], weight[chosen]

    def products(rows: Transitions) -> np.ndarray:
        residual = np.clip(rows.residual, -5, 5)  # limits the influence of outliers
        return residual[:, first] * residual[:, second]

    centre, spread = train.history[0].mean(axis=0), train.history[0].std(axis=0)

    def features(rows: Transitions) -> np.ndarray:
        state = np.clip((rows.history[0] - centre) / np.where(spread > 0, spread, 1.0), -5, 5)
        return np.column_stack([np.ones(len(state)), state, state**2, np.abs(state)])

    x, y = features(train), products(train)
    mean = y.mean(axis=0)
    normal = x.T @ x + RIDGE * len(x) * np.eye(x.shape[1])
    predicted = features(test) @ np.linalg.solve(normal, x.T @ (y - mean))
    predicted -= predicted.mean(axis=0)
    # unbiased: errors of the regression do not count as explained
    explained = 2 * (products(test) - mean) * predicted - predicted**2
    energy = share * float((explained.mean(axis=0) * weight).sum())
    return 0.5 * float(np.sqrt(max(energy, 0.0) / d))
