"""From a trained model and its series to Axes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from ..mechanisms import STATES, jacobians
from ..model import SequentialVAE
from ..recover.network import Mechanisms
from ..series import Panel
from ..windows import Runs
from .axes import Axes, Axis, Evidence
from .bending import bending
from .change import sparse_change
from .combine import Agreed, combine, in_axes_of, ordered
from .form import FORM, Form, mechanism_form
from .noise import covariances, noise_by_regime, noise_shape, root
from .rows import Rows, collect, used_latents
from .turning import Clue
from .weights import weights_of_effects, weights_of_form

#: Stretches of each regime below which nothing can be tested.
LEAST_STRETCHES = 4

Say = Callable[[str], None]


def find_axes(
    model: SequentialVAE,
    panel: Panel,
    train: Runs,
    held: Runs,
    regimes: tuple[str, ...],
    say: Say = lambda text: None,
) -> Axes:
    """Learn axes from one half of the training series, test them on the rest."""
    d = model.config.latents
    used = used_latents(model, panel, train)
    say("gathering residuals")
    half = np.random.default_rng(0).permutation(len(train)) % 2 == 0
    learn = collect(model, panel, train.where(half))
    test = collect(model, panel, train.where(~half) + held)
    if len(used) < 2 or not (_testable(learn) and _testable(test)):
        return Axes.unaligned(d)
    # a latent that carries nothing stays what it is
    keep = np.eye(d)[used]
    whitening = root(covariances(learn.mapped(keep)).mean(axis=0), -0.5) @ keep
    white, new = learn.mapped(whitening), test.mapped(whitening)
    clues, form = _evidence(white, new, model.centre.device, say)
    agreed = combine(clues, white, new)
    if form is not None:
        form = in_axes_of(agreed, form)
    agreed, form = ordered(agreed, form, white)
    unused = np.setdiff1d(np.arange(d), used)
    matrix = np.concatenate([agreed.rotation @ whitening, np.eye(d)[unused]])
    offset = np.zeros(d)
    if form is not None:
        offset[: len(used)] = form.origin
    axes = Axes(
        matrix,
        offset,
        _verdicts(agreed, d),
        tuple(_summary(clue) for clue in clues),
        bending(white, new),
        weights_from="average effects" if form is None else FORM,
    )
    say("estimating the mechanisms")
    weights, error = _weights(model, axes, learn, white, form)
    mechanisms = Mechanisms(regimes, weights, len(white.value), error, axes.names)
    return replace(axes, weights=mechanisms)


def _testable(rows: Rows) -> bool:
    count = np.bincount(rows.regime_of_unit, minlength=rows.regimes)
    return bool((count >= LEAST_STRETCHES).all())


def _evidence(
    white: Rows, new: Rows, device: torch.device, say: Say
) -> tuple[list[Clue], Form | None]:
    """Every kind of evidence; the form only if it tells all axes apart."""
    clues = []
    for look in (noise_shape, noise_by_regime, sparse_change):
        say(f"looking for axes in {look.__name__.replace('_', ' ')}")
        clues.append(look(white, new))
    say("looking for axes in the form of the mechanisms")
    fitted = mechanism_form(white, new, [clue.rotation for clue in clues], device)
    if fitted is None:
        return clues, None
    clue, form = fitted
    return [*clues, clue], form if len(clue.identified) == white.size else None


def _weights(
    model: SequentialVAE, axes: Axes, learn: Rows, white: Rows, form: Form | None
) -> tuple[np.ndarray, np.ndarray]:
    """W and its standard errors, (K, L, d, d); zero for latents that carry nothing."""
    used = white.size
    if form is not None:
        found = weights_of_form(form, white)
    else:
        some = np.random.default_rng(0).permutation(len(learn.value))
        some = some[: STATES[model.config.experts]]
        histories = np.concatenate(list(learn.history[:, some]), axis=1)
        total = sum(block.sum(axis=1) for block in jacobians(model, histories))
        effects = axes.aligned_effects(np.asarray(total) / len(some))[..., :used, :used]
        found = weights_of_effects(learn.mapped(axes.matrix[:used]), effects)
    shape = (white.regimes, len(white.history), len(axes.axes), len(axes.axes))
    weights, error = np.zeros(shape), np.zeros(shape)
    weights[..., :used, :used], error[..., :used, :used] = found
    return weights, error


def _verdicts(agreed: Agreed, size: int) -> tuple[Axis, ...]:
    names = [f"z{i}" for i in range(size)]
    block_of = {
        axis: tuple(names[i] for i in sorted(block)) for block in agreed.blocks for axis in block
    }
    used = len(agreed.rotation)
    return tuple(
        Axis(names[i], agreed.by[i], block_of[i], *agreed.strength[i])
        if i < used
        else Axis(names[i], block=(names[i],), used=False)
        for i in range(size)
    )


def _summary(clue: Clue) -> Evidence:
    strength = np.array([clue.strength(axis) for axis in range(len(clue.cost))])
    cost, p_value = np.median(strength, axis=0).tolist()
    return Evidence(clue.kind, len(clue.identified), cost, p_value, clue.facts)
