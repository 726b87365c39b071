"""From a trained model and its series to Axes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from ..mechanisms import STATES, jacobians
from ..model import SequentialVAE
from ..recover.network import Mechanisms
from ..series import Panel
from ..windows import Runs
from .additive import additive_view
from .axes import Axes, Axis, Evidence
from .bending import bending
from .change import sparse_change
from .combine import Agreed, combine, in_axes_of, ordered, taken_alone
from .form import FORM, Form, mechanism_form
from .noise import covariances, noise_by_regime, noise_shape, root
from .rows import Rows, collect, used_latents
from .turning import Clue
from .weights import weights_of_effects, weights_of_form

#: Stretches of each regime below which nothing can be tested.
LEAST_STRETCHES = 4
#: With more latents than this there are too many pairs of axes to test in reasonable time.
MOST_LATENTS = 48

Say = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Found:
    """What rows say about their axes."""

    whitening: np.ndarray  # (m, d), to coordinates in which noise is white
    clues: list[Clue]
    agreed: Agreed
    form: Form | None  # in the agreed axes


def find_axes(
    model: SequentialVAE,
    panel: Panel,
    train: Runs,
    held: Runs,
    regimes: tuple[str, ...],
    say: Say = lambda text: None,
    shown: int = 0,
) -> Axes:
    """Learn axes from one half of the stretches of every regime, test them on the other.

    Held-out series come first where not all rows are needed. The first `shown` channels are what
    a picture shows at the same step.
    """
    d = model.config.latents
    used = used_latents(model, panel, train)
    if not 2 <= len(used) <= MOST_LATENTS:
        return Axes.unaligned(d)
    learn, test = collect(model, panel, held, train, shown=shown).halves()
    if not (_testable(learn) and _testable(test)):
        return Axes.unaligned(d)
    keep = np.eye(d)[used]  # a latent that carries nothing stays what it is
    found = axes_of_rows(learn.mapped(keep), test.mapped(keep), model.centre.device, say)
    whitening = found.whitening @ keep
    white, new = learn.mapped(whitening), test.mapped(whitening)
    unused = np.setdiff1d(np.arange(d), used)
    offset = np.zeros(d)
    if found.form is not None:
        offset[: len(used)] = found.form.origin
    axes = Axes(
        np.concatenate([found.agreed.rotation @ whitening, np.eye(d)[unused]]),
        offset,
        _verdicts(found.agreed, d),
        tuple(_summary(clue) for clue in found.clues),
        bending(white, new),
        weights_from="average effects" if found.form is None else FORM,
    )
    say("estimating the mechanisms")
    weights, error = _weights(model, axes, learn, white, found.form)
    mechanisms = Mechanisms(regimes, weights, len(white.value), error, axes.names)
    return replace(axes, weights=mechanisms)


def axes_of_rows(learn: Rows, test: Rows, device: torch.device, say: Say) -> Found:
    """Whiten the noise, gather the evidence for a rotation, and weigh it."""
    whitening = root(covariances(learn).mean(axis=0), -0.5)
    white, new = learn.mapped(whitening), test.mapped(whitening)
    if white.shown is not None:
        say("looking for axes in the pictures")
        clue = additive_view(white, new)
        if clue.identified:  # dynamics that are seen in part only would mislead
            return Found(whitening, [clue], *ordered(taken_alone(clue), None, white))
    clues, form = _evidence(white, new, device, say)
    agreed = combine(clues, white, new)
    # without axes of their own there is no W to speak of
    form = in_axes_of(agreed, form) if form is not None and all(agreed.by) else None
    return Found(whitening, clues, *ordered(agreed, form, white))


def _testable(rows: Rows) -> bool:
    count = np.bincount(rows.regime_of_unit, minlength=rows.regimes)
    return bool((count >= LEAST_STRETCHES).all())


def _evidence(
    white: Rows, new: Rows, device: torch.device, say: Say
) -> tuple[list[Clue], Form | None]:
    """Every kind of evidence, and the form if the rows bear it out."""
    clues = []
    for look in (noise_shape, noise_by_regime, sparse_change):
        say(f"looking for axes in {look.__name__.replace('_', ' ')}")
        clues.append(look(white, new))
    say("looking for axes in the form of the mechanisms")
    fitted = mechanism_form(white, new, [clue.rotation for clue in clues], device)
    if fitted is None:
        return clues, None
    clue, form = fitted
    return [*clues, clue], form


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
