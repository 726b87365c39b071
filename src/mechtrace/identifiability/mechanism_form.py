"""Evidence in the form of the mechanisms: z_t = s(s(z_{t-1} W_k) + sum_l s(z_{t-l} V_l)) + noise.

s is LeakyReLU. It acts on single axes and has its kink at zero, so the form holds in one set of
axes, with one origin and one choice of signs. Rotation, origin and matrices are fitted together
by least squares, from many starts at once, with a penalty on what sets a regime's W_k apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..nets import SLOPE
from .noise import random_rotations
from .rows import Rows
from .turning import ANGLES, Clue, judged, paired, turn

FORM = "mechanism form"

RESTARTS = 8
#: Steps with all starts, then with the best of them.
SEARCH_STEPS, FINAL_STEPS, FINALISTS = 500, 800, 2
BATCHES = (512, 1024)  # rows of each regime in a step of either
LEARNING_RATE = 0.02
#: Nats per unit by which a regime's W is drawn towards the mean of all.
SPARSITY = 0.01
#: Nats per step by which flexible experts must beat linear ones on held-out rows: without bends
#: there is nothing that the form could be seen by.
LEAST_BEND = 0.05
#: Share of that gain that the form must reach too: otherwise the mechanisms have another form.
LEAST_SHARE = 0.8
#: Rows of each regime for the turning test: so many columns are fitted anew there.
TURNED_ROWS, TURNED_STEPS = 1000, 100
#: More latents than this are not tried: the starts would not fit into memory.
MOST_LATENTS = 24


@dataclass(frozen=True, eq=False)
class Form:
    """Fitted mechanisms u_t = s(s(u_{t-1} W_k) + ...) of u = rotation z + origin, z whitened."""

    rotation: np.ndarray  # (d, d)
    origin: np.ndarray  # (d,)
    first: np.ndarray  # (K, d, d), [source, target]
    later: np.ndarray  # (L - 1, d, d), shared by all regimes


@dataclass(frozen=True, eq=False)
class _Balanced:
    """Rows as tensors in which every regime has the same number: (K, n, d) and (K, L, n, d)."""

    value: Tensor
    history: Tensor

    @classmethod
    def of(cls, rows: Rows, most: int, device: torch.device) -> _Balanced:
        """The same number of rows of each regime, drawn again where a regime has fewer."""
        random = np.random.default_rng(0)
        count = min(most, int(np.bincount(rows.regime, minlength=rows.regimes).max()))
        chosen = []
        for k in range(rows.regimes):
            mine = random.permutation(np.flatnonzero(rows.regime == k))
            chosen.append(np.resize(mine, count))
        index = np.stack(chosen)
        history = rows.history[:, index].swapaxes(0, 1)

        def tensor(values: np.ndarray) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(values)).to(device, torch.float32)

        return cls(tensor(rows.value[index]), tensor(history))

    def batch(self, index: Tensor) -> _Balanced:
        return _Balanced(self.value[:, index], self.history[:, :, index])


def mechanism_form(
    train: Rows, test: Rows, starts: list[np.ndarray], device: torch.device
) -> tuple[Clue, Form] | None:
    """Fit the form and test it; None if the rows cannot show it or deny it."""
    if not 2 <= train.size <= MOST_LATENTS:
        return None
    linear, flexible = _linear_loss(train, test), _expert_loss(test)
    bend, _ = paired(linear - flexible, test.regime_of_unit)
    if bend < LEAST_BEND:
        return None
    known, new = (_Balanced.of(rows, 1 << 30, device) for rows in (train, test))
    form = _fit(known, new, train, starts)
    share = paired(linear - _loss(form, test), test.regime_of_unit)[0] / bend
    if share < LEAST_SHARE:
        return None
    facts = {"bend": bend, "share_of_bend": share}
    losses = losses_by_turning(form, train, test, device)
    return judged(FORM, form.rotation, losses, test.regime_of_unit, facts), form


# -- fitting -----------------------------------------------------------------------------------


@dataclass
class _Guesses:
    """R fits side by side."""

    rotation: Tensor  # (R, d, d), made orthogonal only in the end: freer paths to the optimum
    origin: Tensor  # (R, d)
    first: Tensor  # (R, K, d, d)
    later: Tensor  # (R, L - 1, d, d)

    def parameters(self) -> list[Tensor]:
        return [self.rotation, self.origin, self.first, self.later]

    def best(self, loss: Tensor, count: int) -> _Guesses:
        chosen = loss.argsort()[:count]
        return _Guesses(*(p.detach()[chosen].clone() for p in self.parameters()))

    def loss(self, rows: _Balanced) -> Tensor:
        """Mean negative log likelihood of each fit, without constants, (R,)."""
        here = torch.einsum("knd,red->rkne", rows.value, self.rotation)
        here = here + self.origin[:, None, None]
        past = torch.einsum("klnd,red->rklne", rows.history, self.rotation)
        past = past + self.origin[:, None, None, None]
        total = F.leaky_relu(past[:, :, 0] @ self.first, SLOPE)
        for lag in range(1, past.shape[2]):
            total = total + F.leaky_relu(past[:, :, lag] @ self.later[:, None, lag - 1], SLOPE)
        error = (here - F.leaky_relu(total, SLOPE)).square().sum(-1)
        return 0.5 * error.mean((1, 2)) - torch.linalg.slogdet(self.rotation)[1]


def _fit(known: _Balanced, new: _Balanced, train: Rows, starts: list[np.ndarray]) -> Form:
    guesses = _first_guesses(train, starts, known.value)
    for steps, batch, keep in zip(
        (SEARCH_STEPS, FINAL_STEPS), BATCHES, (FINALISTS, 1), strict=True
    ):
        _descend(guesses, known, steps, batch)
        with torch.no_grad():
            loss = guesses.loss(new)
        guesses = guesses.best(loss.nan_to_num(torch.inf), keep)
    rotation, origin, first, later = (p[0].double().cpu().numpy() for p in guesses.parameters())
    left, _, right = np.linalg.svd(rotation)  # the nearest rotation: noise is white already
    return Form(left @ right, origin, first, later)


def _first_guesses(train: Rows, starts: list[np.ndarray], like: Tensor) -> _Guesses:
    """Given and random rotations, each with the linear fit that all regimes share."""
    lags, d = len(train.history), train.size
    drawn = random_rotations(max(1, RESTARTS - len(starts)), d, seed=1)
    rotation = np.stack([*starts, *drawn])
    mean = train.value.mean(axis=0)
    # the sign of an axis matters to LeakyReLU; most systems live more above zero than below
    rotation = rotation * np.where(rotation @ mean < 0, -1.0, 1.0)[:, :, None]
    design = np.column_stack([*train.history, np.ones(len(train.value))])
    linear = np.linalg.lstsq(design, train.value, rcond=None)[0][:-1].reshape(lags, d, d)
    turned = rotation[:, None] @ linear @ np.swapaxes(rotation, 1, 2)[:, None]

    def tensor(values: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(like)

    return _Guesses(
        tensor(rotation),
        tensor(np.zeros((len(rotation), d))),
        tensor(np.repeat(turned[:, :1], train.regimes, axis=1)),
        tensor(turned[:, 1:]),
    )


def _descend(guesses: _Guesses, rows: _Balanced, steps: int, batch: int) -> None:
    parameters = [p.requires_grad_() for p in guesses.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=LEARNING_RATE, betas=(0.9, 0.98))
    random = np.random.default_rng(0)
    count = rows.value.shape[1]
    for step in range(steps):
        cosine = 0.5 * (1 + np.cos(np.pi * step / steps)) + 0.01
        optimiser.param_groups[0]["lr"] = LEARNING_RATE * min(1.0, (step + 1) / 20) * cosine
        index = torch.from_numpy(random.integers(count, size=min(batch, count)))
        apart = guesses.first - guesses.first.mean(1, keepdim=True)
        loss = guesses.loss(rows.batch(index.to(rows.value.device)))
        optimiser.zero_grad(set_to_none=True)
        (loss + SPARSITY * apart.abs().sum((1, 2, 3))).sum().backward()
        optimiser.step()


# -- judging -----------------------------------------------------------------------------------


def expected(form: Form, rows: Rows) -> np.ndarray:
    """What the form expects of each row in its own axes, (N, d)."""
    past = rows.history @ form.rotation.T + form.origin
    return _driven(past, rows.regime, form.first, form.later)


def _driven(
    past: np.ndarray, regime: np.ndarray, first: np.ndarray, later: np.ndarray
) -> np.ndarray:
    """What follows (N, m) from past sources (L, N, s) by W (K, s, m) and V (L - 1, s, m)."""
    total = np.empty((len(regime), first.shape[-1]))
    for k, matrix in enumerate(first):
        mine = regime == k
        total[mine] = _leaky(past[0][mine] @ matrix)
    for lag, matrix in enumerate(later, start=1):
        total += _leaky(past[lag] @ matrix)
    return _leaky(total)


def _leaky(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, SLOPE * x)


def _loss(form: Form, rows: Rows) -> np.ndarray:
    """Negative log likelihood of each stretch, without constants."""
    error = rows.value @ form.rotation.T + form.origin - expected(form, rows)
    return rows.by_unit(0.5 * (error**2).sum(axis=1))


def _expert_loss(rows: Rows) -> np.ndarray:
    return rows.by_unit(0.5 * (rows.residual**2).sum(axis=1))


def _linear_loss(train: Rows, test: Rows) -> np.ndarray:
    """The same for a linear mechanism of each regime."""
    error = np.empty_like(test.value)
    for k in range(train.regimes):
        mine, yours = train.regime == k, test.regime == k
        design = np.column_stack([*train.history[:, mine], np.ones(mine.sum())])
        fitted = np.linalg.lstsq(design, train.value[mine], rcond=None)[0]
        new = np.column_stack([*test.history[:, yours], np.ones(yours.sum())])
        error[yours] = test.value[yours] - new @ fitted
    return test.by_unit(0.5 * (error**2).sum(axis=1))


def losses_by_turning(
    form: Form, train: Rows, test: Rows, device: torch.device, angles: np.ndarray = ANGLES
) -> dict[tuple[int, int], list[np.ndarray]]:
    """Turn pairs of axes; what drives the two turned ones is fitted anew, the rest is the same.

    Turned sources need no new fit: W takes the turn up exactly. So every turned axis is one
    column, and all columns of all pairs and angles are fitted side by side.
    """
    d = train.size
    turns = [(i, j, angle) for i, j in combinations(range(d), 2) for angle in angles]
    # the straight axes come first and are fitted in the same way
    turned = [turn(d, i, j, angle)[[i, j]] for i, j, angle in turns]
    mixture = np.concatenate([np.eye(d), *turned])
    fitted = _fit_columns(form, _Balanced.of(train, TURNED_ROWS, device), mixture)
    loss = _column_losses(form, test, mixture, *fitted)  # (U, columns)
    losses: dict[tuple[int, int], list[np.ndarray]] = {}
    for number, (i, j, _) in enumerate(turns):
        two = d + 2 * number
        lost = loss[:, two] + loss[:, two + 1] - loss[:, i] - loss[:, j]
        losses.setdefault((i, j), []).append(lost)
    return losses


def _fit_columns(
    form: Form, rows: _Balanced, mixture: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Origin (C,), W (K, d + 1, C) and V (L - 1, d + 1, C) of turned axes, mixtures (C, d).

    The last entries of W and V are constants: the turned axes may have another origin.
    """

    def tensor(values: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(rows.value)

    rotation, origin = tensor(form.rotation), tensor(form.origin)
    value = (rows.value @ rotation.T) @ tensor(mixture).T  # (K, n, C)
    past = F.pad(rows.history @ rotation.T + origin, (0, 1), value=1.0)  # (K, L, n, d + 1)
    shift = tensor(mixture @ form.origin).requires_grad_()
    first, later = (
        F.pad(tensor(np.einsum("ca,ksa->kcs", mixture, part)), (0, 1)).requires_grad_()
        for part in (form.first, form.later)
    )
    optimiser = torch.optim.Adam([shift, first, later], lr=LEARNING_RATE)
    for step in range(TURNED_STEPS):
        optimiser.param_groups[0]["lr"] = LEARNING_RATE * (1 - step / TURNED_STEPS)
        total = F.leaky_relu(past[:, 0] @ first.mT, SLOPE)
        for lag in range(1, past.shape[1]):
            total = total + F.leaky_relu(past[:, lag] @ later[lag - 1].T, SLOPE)
        error = value + shift - F.leaky_relu(total, SLOPE)
        optimiser.zero_grad(set_to_none=True)
        error.square().mean((0, 1)).sum().backward()
        optimiser.step()
    found = (shift, first.mT, later.mT)
    shift_, first_, later_ = (p.detach().double().cpu().numpy() for p in found)
    return shift_, first_, later_


def _column_losses(
    form: Form,
    rows: Rows,
    mixture: np.ndarray,
    shift: np.ndarray,
    first: np.ndarray,
    later: np.ndarray,
) -> np.ndarray:
    """Half squared error of each turned axis, stretch by stretch, (U, C)."""
    past = np.pad(
        rows.history @ form.rotation.T + form.origin, ((0, 0), (0, 0), (0, 1)), constant_values=1.0
    )
    value = rows.value @ form.rotation.T @ mixture.T + shift
    return rows.by_unit(0.5 * (value - _driven(past, rows.regime, first, later)) ** 2)
