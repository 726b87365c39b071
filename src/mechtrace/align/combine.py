"""All evidence together: the strongest kind sets the axes, the others split what it leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from .change import sparse_change
from .form import Form
from .noise import noise_by_regime, noise_shape
from .rows import Rows
from .turning import Clue

#: Evidence that needs no history and so can look at a block of axes alone.
SPLITTERS: tuple[Callable[[Rows, Rows], Clue], ...] = (noise_shape, noise_by_regime, sparse_change)
#: Cosine from which two kinds of evidence mean the same axis.
SAME_AXIS = 0.9


@dataclass(frozen=True, eq=False)
class Agreed:
    """Axes in whitened coordinates, with what is known of each."""

    rotation: np.ndarray  # (d, d)
    blocks: list[list[int]]
    by: list[tuple[str, ...]]
    strength: list[tuple[float, float]]  # cost and p-value


def combine(clues: list[Clue], train: Rows, test: Rows) -> Agreed:
    """Start from the clue with the most identified axes; the first kind wins a tie."""
    d = train.size
    present = [clue for clue in clues if clue.identified]
    if not present:
        return Agreed(np.eye(d), [list(range(d))], [()] * d, [_weakest(clues)] * d)
    best = max(present, key=lambda clue: len(clue.identified))
    rotation = best.rotation.copy()
    strength = [best.strength(axis) for axis in range(d)]
    by: list[tuple[str, ...]] = [
        (best.kind,) if axis in best.identified else () for axis in range(d)
    ]
    blocks = []
    for block in best.blocks:
        if len(block) == 1:
            blocks.append(block)
            continue
        parts, kinds, turned, found = _split(rotation[block], train, test)
        rotation[block] = turned
        blocks += [[block[i] for i in part] for part in parts]
        for i, axis in enumerate(block):
            by[axis] = kinds[i]
            strength[axis] = found[i] if kinds[i] else strength[axis]
    agreed = Agreed(rotation, sorted(blocks), by, strength)
    return replace(agreed, by=_confirmed(agreed, present))


def _split(
    basis: np.ndarray, train: Rows, test: Rows
) -> tuple[list[list[int]], list[tuple[str, ...]], np.ndarray, list[tuple[float, float]]]:
    """Look at a block alone (m, d), with one kind of evidence after the other."""
    size = len(basis)
    inside = [look(train.mapped(basis), test.mapped(basis)) for look in SPLITTERS]
    best = max(inside, key=lambda clue: len(clue.identified))
    if not best.identified:
        nothing: list[tuple[str, ...]] = [()] * size
        return [list(range(size))], nothing, basis, [(0.0, 1.0)] * size
    by: list[tuple[str, ...]] = [
        (best.kind,) if axis in best.identified else () for axis in range(size)
    ]
    strength = [best.strength(axis) for axis in range(size)]
    return best.blocks, by, best.rotation @ basis, strength


def _confirmed(agreed: Agreed, clues: list[Clue]) -> list[tuple[str, ...]]:
    """Other kinds that single out the same axis on their own are named after the first."""
    out = []
    for axis, by in zip(agreed.rotation, agreed.by, strict=True):
        also = [
            clue.kind
            for clue in clues
            if by
            and clue.kind not in by
            and np.abs(clue.rotation[clue.identified] @ axis).max() > SAME_AXIS
        ]
        out.append((*by, *also))
    return out


def _weakest(clues: list[Clue]) -> tuple[float, float]:
    """The best that any evidence offers, although it is not enough."""
    offers = [clue.strength(axis) for clue in clues for axis in range(len(clue.cost))]
    return min(offers, key=lambda offer: offer[1])


def in_axes_of(agreed: Agreed, form: Form) -> Form | None:
    """The form in the agreed axes, in their order but with its own signs; None if they differ."""
    cosine = agreed.rotation @ form.rotation.T
    order = np.abs(cosine).argmax(axis=1)
    best = cosine[np.arange(len(order)), order]
    if len(set(order.tolist())) < len(order) or np.abs(best).min() < SAME_AXIS:
        return None
    return Form(
        agreed.rotation * np.sign(best)[:, None],
        form.origin[order],
        form.first[:, order][:, :, order],
        form.later[:, order][:, :, order],
    )


def ordered(agreed: Agreed, form: Form | None, rows: Rows) -> tuple[Agreed, Form | None]:
    """Identified axes first, then blocks; among equals the one that varies most.

    Signs are those of the form, which knows them; otherwise an axis is positive on average.
    """
    rotation = agreed.rotation if form is None else form.rotation
    if form is None:
        rotation = rotation * np.where(rotation @ rows.value.mean(axis=0) < 0, -1.0, 1.0)[:, None]
    spread = (rows.value @ rotation.T).std(axis=0)
    ranked = [sorted(block, key=lambda axis: -spread[axis]) for block in agreed.blocks]
    ranked.sort(key=lambda block: (len(block) > 1, -spread[block[0]]))
    order = [axis for block in ranked for axis in block]
    place = {axis: number for number, axis in enumerate(order)}
    agreed = Agreed(
        rotation[order],
        [[place[axis] for axis in block] for block in ranked],
        [agreed.by[axis] for axis in order],
        [agreed.strength[axis] for axis in order],
    )
    if form is not None:
        form = Form(
            rotation[order],
            form.origin[order],
            form.first[:, order][:, :, order],
            form.later[:, order][:, :, order],
        )
    return agreed, form
