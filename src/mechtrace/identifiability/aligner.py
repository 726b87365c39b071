"""All evidence together: the strongest kind sets the axes, the others split what it leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

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


class _Group(NamedTuple):
    """One identified axis, or a block (m, d) that nothing splits further."""

    axes: np.ndarray
    by: tuple[str, ...]
    strength: list[tuple[float, float]]


def combine(clues: list[Clue], train: Rows, test: Rows) -> Agreed:
    """Settle what the clues can, look at what they leave, and name all that agree."""
    groups = _settle(np.eye(train.size), clues, train, test)
    sizes = [len(group.axes) for group in groups]
    numbers = np.split(np.arange(train.size), np.cumsum(sizes)[:-1])
    agreed = Agreed(
        np.concatenate([group.axes for group in groups]),
        [block.tolist() for block in numbers],
        [group.by for group in groups for _ in group.axes],
        [strength for group in groups for strength in group.strength],
    )
    return replace(agreed, by=_confirmed(agreed, [clue for clue in clues if clue.identified]))


def taken_alone(clue: Clue) -> Agreed:
    """What one clue says, with the blocks that it leaves."""
    numbers = [axis for block in clue.blocks for axis in block]
    sizes = np.cumsum([len(block) for block in clue.blocks])[:-1]
    alone = {block[0] for block in clue.blocks if len(block) == 1}
    return Agreed(
        clue.rotation[numbers],
        [block.tolist() for block in np.split(np.arange(len(numbers)), sizes)],
        [(clue.kind,) if axis in alone else () for axis in numbers],
        [clue.strength(axis) for axis in numbers],
    )


def _settle(basis: np.ndarray, clues: list[Clue], train: Rows, test: Rows) -> list[_Group]:
    """The clue with the most identified axes splits the basis (m, d); the first wins a tie."""
    best = max(clues, key=lambda clue: len(clue.identified))
    if not best.identified:
        return [_Group(basis, (), [_best_offer(clues)] * len(basis))]
    groups = []
    for block in best.blocks:
        axes = best.rotation[block] @ basis
        if len(block) == 1:
            groups.append(_Group(axes, (best.kind,), [best.strength(block[0])]))
        else:
            inside = [look(train.mapped(axes), test.mapped(axes)) for look in SPLITTERS]
            groups += _settle(axes, inside, train, test)
    return groups


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


def _best_offer(clues: list[Clue]) -> tuple[float, float]:
    """The best that any evidence offers, although it is not enough."""
    offers = [clue.strength(axis) for clue in clues for axis in range(len(clue.cost))]
    return min(offers, key=lambda offer: offer[1])


def in_axes_of(agreed: Agreed, form: Form) -> Form:
    """The form in the agreed axes, with its own signs; W takes up the turn between the two."""
    turn = agreed.rotation @ form.rotation.T
    signs = np.sign(np.take_along_axis(turn, np.abs(turn).argmax(axis=1)[:, None], axis=1))
    turn = turn * signs
    return Form(
        agreed.rotation * signs,
        turn @ form.origin,
        turn @ form.first @ turn.T,
        turn @ form.later @ turn.T,
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
