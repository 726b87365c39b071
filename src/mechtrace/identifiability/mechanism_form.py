"""Mechanism form: z_t = s(s(z_{t-1} W_k) + sum_l s(z_{t-l} V_l)) + noise.

s is LeakyReLU. It acts on single axes and has its kink at zero, so the form holds in one set of
axes, with one origin and one choice of signs. Rotation, origin and matrices are fitted jointly by
least squares from many starts, with an L1 penalty on W_k - mean_k W_k.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from .._runtime.stochastic import generator, minimise, warmup_cosine
from ..stage1.networks import SLOPE
from .rotation_test import (
    ANGLES,
    RotationEvidence,
    evidence_of_losses,
    givens_rotation,
    paired_mean,
    random_rotations,
)
from .transitions import Transitions, TransitionSplit

MECHANISM_FORM = "mechanism form"

RESTARTS = 8
#: Steps with all starts, then with the best of them.
SEARCH_STEPS, FINAL_STEPS, FINALISTS = 500, 800, 2
BATCHES = (512, 1024)  # transitions of each regime
LEARNING_RATE = 0.02
#: Weight of the L1 penalty in nats.
SPARSITY = 0.01
#: Nats per step by which the experts must beat linear mechanisms on the selection series: only
#: nonlinear mechanisms can show the form.
MIN_NONLINEARITY = 0.05
#: Share of that gain that the form must reach: otherwise the mechanisms have another form.
MIN_SHARE = 0.8
#: Transitions of each regime and steps with which rotated axes are fitted again.
REFIT_ROWS, REFIT_STEPS = 1000, 100
#: Largest number of latents: more starts would not fit into memory.
MAX_LATENTS = 24


@dataclass(frozen=True, eq=False)
class MechanismForm:
    """u_t = s(s(u_{t-1} W_k) + sum_l s(u_{t-l} V_l)) of u = rotation z + origin, z whitened."""

    rotation: np.ndarray  # (d, d), rows are axes
    origin: np.ndarray  # (d,), where the kinks of s lie
    first: np.ndarray  # W_k (K, d, d), [source, target]
    later: np.ndarray  # V_l (L - 1, d, d), shared by all regimes


@dataclass(frozen=True, eq=False)
class _Balanced:
    """Equally many transitions of each regime as tensors (K, n, d) and (K, L, n, d)."""

    value: Tensor
    history: Tensor

    @classmethod
    def of(
        cls, rows: Transitions, most: int, device: torch.device, random: np.random.Generator
    ) -> _Balanced:
        """Draw at most so many of each regime, repeating those of a regime with fewer."""
        count = min(most, int(np.bincount(rows.regime, minlength=rows.regimes).max()))
        own = (np.flatnonzero(rows.regime == k) for k in range(rows.regimes))
        index = np.stack([np.resize(random.permutation(mine), count) for mine in own])
        history = rows.history[:, index].swapaxes(0, 1)
        return cls(_tensor(rows.value[index], device), _tensor(history, device))

    def batch(self, index: Tensor) -> _Balanced:
        return _Balanced(self.value[:, index], self.history[:, :, index])


def _tensor(values: np.ndarray, device: torch.device) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values)).to(device, torch.float32)


def fit_mechanism_form(
    parts: TransitionSplit, starts: list[np.ndarray], device: torch.device
) -> tuple[RotationEvidence, MechanismForm] | None:
    """Fit the form and test it; None if the transitions are linear or of another form."""
    train, selection, test, seed = parts
    random, regime = generator(seed, MECHANISM_FORM), selection.regime_of_unit
    if not 2 <= train.size <= MAX_LATENTS:
        return None
    linear = _linear_loss(train, selection)
    flexible = selection.by_unit(0.5 * (selection.residual**2).sum(axis=1))
    nonlinearity, _ = paired_mean(linear - flexible, regime)
    if nonlinearity < MIN_NONLINEARITY:
        return None
    known, new = (_Balanced.of(rows, 1 << 30, device, random) for rows in (train, selection))
    form = _fit(known, new, train, starts, random)
    share = paired_mean(linear - _form_loss(form, selection), regime)[0] / nonlinearity
    if share < MIN_SHARE:
        return None
    facts = {"nonlinearity": nonlinearity, "share_explained": share}
    losses = losses_by_rotation(form, train, test, device, random)
    regime = test.regime_of_unit
    return evidence_of_losses(MECHANISM_FORM, form.rotation, losses, regime, facts), form


# -- fitting -----------------------------------------------------------------------------------


@dataclass
class _Candidates:
    """R candidate fits in one batch."""

    rotation: Tensor  # (R, d, d), orthogonal only in the end
    origin: Tensor  # (R, d)
    first: Tensor  # (R, K, d, d)
    later: Tensor  # (R, L - 1, d, d)

    def parameters(self) -> list[Tensor]:
        return [self.rotation, self.origin, self.first, self.later]

    def best(self, loss: Tensor, count: int) -> _Candidates:
        chosen = loss.argsort()[:count]
        return _Candidates(*(p.detach()[chosen].clone() for p in self.parameters()))

    def loss(self, rows: _Balanced) -> Tensor:
        """Mean negative log likelihood of each candidate, without constants, (R,)."""
        here = torch.einsum("knd,red->rkne", rows.value, self.rotation)
        here = here + self.origin[:, None, None]
        past = torch.einsum("klnd,red->rklne", rows.history, self.rotation)
        past = past + self.origin[:, None, None, None]
        total = F.leaky_relu(past[:, :, 0] @ self.first, SLOPE)
        for lag in range(1, past.shape[2]):
            total = total + F.leaky_relu(past[:, :, lag] @ self.later[:, None, lag - 1], SLOPE)
        error = (here - F.leaky_relu(total, SLOPE)).square().sum(-1)
        return 0.5 * error.mean((1, 2)) - torch.linalg.slogdet(self.rotation)[1]


def _fit(
    known: _Balanced,
    new: _Balanced,
    train: Transitions,
    starts: list[np.ndarray],
    random: np.random.Generator,
) -> MechanismForm:
    candidates = _initial_candidates(train, starts, known.value.device, random)
    stages = ((SEARCH_STEPS, BATCHES[0], FINALISTS), (FINAL_STEPS, BATCHES[1], 1))
    for steps, batch, keep in stages:
        _descend(candidates, known, steps, batch, random)
        with torch.no_grad():
            loss = candidates.loss(new)
        candidates = candidates.best(loss.nan_to_num(torch.inf), keep)
    rotation, origin, first, later = (p[0].double().cpu().numpy() for p in candidates.parameters())
    left, _, right = np.linalg.svd(rotation)  # the nearest rotation: noise is white already
    return MechanismForm(left @ right, origin, first, later)


def _initial_candidates(
    train: Transitions, starts: list[np.ndarray], device: torch.device, random: np.random.Generator
) -> _Candidates:
    """Start from given and random rotations of the linear fit to all regimes."""
    lags, d = len(train.history), train.size
    drawn = random_rotations(max(1, RESTARTS - len(starts)), d, random)
    rotation = np.stack([*starts, *drawn])
    mean = train.value.mean(axis=0)
    # LeakyReLU is not odd; most states are positive
    rotation = rotation * np.where(rotation @ mean < 0, -1.0, 1.0)[:, :, None]
    design = np.column_stack([*train.history, np.ones(len(train.value))])
    linear = np.linalg.lstsq(design, train.value, rcond=None)[0][:-1].reshape(lags, d, d)
    rotated = rotation[:, None] @ linear @ np.swapaxes(rotation, 1, 2)[:, None]
    first = np.repeat(rotated[:, :1], train.regimes, axis=1)
    parts = (rotation, np.zeros((len(rotation), d)), first, rotated[:, 1:])
    return _Candidates(*(_tensor(part, device) for part in parts))


def _descend(
    candidates: _Candidates, rows: _Balanced, steps: int, batch: int, random: np.random.Generator
) -> None:
    count = rows.value.shape[1]

    def loss(step: int) -> Tensor:
        index = torch.from_numpy(random.integers(count, size=min(batch, count)))
        apart = candidates.first - candidates.first.mean(1, keepdim=True)
        error = candidates.loss(rows.batch(index.to(rows.value.device)))
        return (error + SPARSITY * apart.abs().sum((1, 2, 3))).sum()

    def rate(step: int) -> float:
        return warmup_cosine(step, steps, LEARNING_RATE, warmup=20, floor=0.01)

    free = [p.requires_grad_() for p in candidates.parameters()]
    minimise(free, loss, steps, rate, betas=(0.9, 0.98))


# -- judging -----------------------------------------------------------------------------------


def _prediction(
    past: np.ndarray, regime: np.ndarray, first: np.ndarray, later: np.ndarray
) -> np.ndarray:
    """Predict targets (N, m) from sources (L, N, s) by W (K, s, m) and V (L - 1, s, m)."""
    total = np.empty((len(regime), first.shape[-1]))
    for k, matrix in enumerate(first):
        mine = regime == k
        total[mine] = _leaky(past[0][mine] @ matrix)
    for lag, matrix in enumerate(later, start=1):
        total += _leaky(past[lag] @ matrix)
    return _leaky(total)


def _leaky(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, SLOPE * x)


def _form_loss(form: MechanismForm, rows: Transitions) -> np.ndarray:
    """Negative log likelihood of each stretch, without constants."""
    past = rows.history @ form.rotation.T + form.origin
    predicted = _prediction(past, rows.regime, form.first, form.later)
    error = rows.value @ form.rotation.T + form.origin - predicted
    return rows.by_unit(0.5 * (error**2).sum(axis=1))


def _linear_loss(train: Transitions, test: Transitions) -> np.ndarray:
    """Negative log likelihood of a linear mechanism for each regime."""
    error = np.empty_like(test.value)
    for k in range(train.regimes):
        mine, yours = train.regime == k, test.regime == k
        design = np.column_stack([*train.history[:, mine], np.ones(mine.sum())])
        fitted = np.linalg.lstsq(design, train.value[mine], rcond=None)[0]
        new = np.column_stack([*test.history[:, yours], np.ones(yours.sum())])
        error[yours] = test.value[yours] - new @ fitted
    return test.by_unit(0.5 * (error**2).sum(axis=1))


def losses_by_rotation(
    form: MechanismForm,
    train: Transitions,
    test: Transitions,
    device: torch.device,
    random: np.random.Generator,
    angles: np.ndarray = ANGLES,
) -> dict[tuple[int, int], list[np.ndarray]]:
    """Likelihood lost by rotating each pair of axes, by angle and stretch (U,).

    W absorbs a rotation of the sources exactly, so only the mechanisms of the two rotated targets
    are fitted again: one column each, all pairs and angles (in radians) in one batch.
    """
    d = train.size
    rotations = [(i, j, angle) for i, j in combinations(range(d), 2) for angle in angles]
    # the unrotated axes come first and are fitted in the same way
    rotated = [givens_rotation(d, i, j, angle)[[i, j]] for i, j, angle in rotations]
    mixture = np.concatenate([np.eye(d), *rotated])
    fitted = _fit_columns(form, _Balanced.of(train, REFIT_ROWS, device, random), mixture)
    loss = _column_losses(form, test, mixture, *fitted)  # (U, columns)
    losses: dict[tuple[int, int], list[np.ndarray]] = {}
    for number, (i, j, _) in enumerate(rotations):
        two = d + 2 * number
        lost = loss[:, two] + loss[:, two + 1] - loss[:, i] - loss[:, j]
        losses.setdefault((i, j), []).append(lost)
    return losses


def _fit_columns(
    form: MechanismForm, rows: _Balanced, mixture: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fit origin (C,), W (K, d + 1, C) and V (L - 1, d + 1, C) of rotated axes (C, d).

    The last entries of W and V are constants: rotated axes may have another origin.
    """
    device = rows.value.device
    rotation, origin = _tensor(form.rotation, device), _tensor(form.origin, device)
    value = (rows.value @ rotation.T) @ _tensor(mixture, device).T  # (K, n, C)
    past = F.pad(rows.history @ rotation.T + origin, (0, 1), value=1.0)  # (K, L, n, d + 1)
    shift = _tensor(mixture @ form.origin, device).requires_grad_()
    mixed = (np.einsum("ca,ksa->kcs", mixture, part) for part in (form.first, form.later))
    first, later = (F.pad(_tensor(part, device), (0, 1)).requires_grad_() for part in mixed)

    def loss(step: int) -> Tensor:
        total = F.leaky_relu(past[:, 0] @ first.mT, SLOPE)
        for lag in range(1, past.shape[1]):
            total = total + F.leaky_relu(past[:, lag] @ later[lag - 1].T, SLOPE)
        error = value + shift - F.leaky_relu(total, SLOPE)
        return error.square().mean((0, 1)).sum()

    def rate(step: int) -> float:
        return LEARNING_RATE * (1 - step / REFIT_STEPS)

    minimise([shift, first, later], loss, REFIT_STEPS, rate)
    found = (shift, first.mT, later.mT)
    shift_, first_, later_ = (p.detach().double().cpu().numpy() for p in found)
    return shift_, first_, later_


def _column_losses(
    form: MechanismForm,
    rows: Transitions,
    mixture: np.ndarray,
    shift: np.ndarray,
    first: np.ndarray,
    later: np.ndarray,
) -> np.ndarray:
    """Half squared error of each rotated axis and stretch, (U, C)."""
    past = rows.history @ form.rotation.T + form.origin
    past = np.pad(past, ((0, 0), (0, 0), (0, 1)), constant_values=1.0)
    value = rows.value @ form.rotation.T @ mixture.T + shift
    return rows.by_unit(0.5 * (value - _prediction(past, rows.regime, first, later)) ** 2)
