"""Axis alignment: from a trained model and its series to `Axes`.

Consensus of all evidence: the strongest kind sets the axes, others split what it leaves.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch

from .._runtime.process import one_blas_thread
from .._runtime.stochastic import generator
from ..stage1.encoding import STATES, jacobians
from ..stage1.fit_run import FitRun
from ..stage1.pruning import used_latents
from ..stage1.vae import SequentialVAE
from .additive_decoder import additive_decoder
from .axes import Axes, Axis, EvidenceSummary
from .mechanism_form import MECHANISM_FORM, MechanismForm, fit_mechanism_form
from .mechanisms import Mechanisms
from .residual_evidence import RESIDUAL_EVIDENCE
from .rotation_test import RotationEvidence
from .transitions import (
    Transitions,
    TransitionSplit,
    collect,
    curvature,
    inverse_square_root,
    split_for_alignment,
)
from .weights import weights_of_effects, weights_of_form

#: Largest number of latents: more have too many pairs of axes to test in reasonable time.
MAX_LATENTS = 48
#: Cosine above which two kinds of evidence mean the same axis.
SAME_AXIS = 0.9

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Consensus:
    """Axes (d, d) in whitened coordinates; for each the evidence, and its loss and p-value."""

    rotation: np.ndarray
    subspaces: list[list[int]]
    by: list[tuple[str, ...]]
    strength: list[tuple[float, float]]


class _Group(NamedTuple):
    """One identified axis, or a subspace (m, d) that nothing splits further."""

    axes: np.ndarray
    by: tuple[str, ...]
    strength: list[tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Rotation:
    """Whitening (m, d), the evidence for a rotation, its consensus, and the form in these axes."""

    whitening: np.ndarray
    evidence: list[RotationEvidence]
    consensus: Consensus
    form: MechanismForm | None


def axes_of_run(run: FitRun) -> Axes:
    """Align the latents of a trained run; without `align` no axis is identified."""
    if not run.config.fit.align:
        return Axes.unaligned(run.config.model.latents)
    with one_blas_thread():
        return _find_axes(run)


def _find_axes(run: FitRun) -> Axes:
    """Fit axes on some series, select among fits on others, and test on held-out ones."""
    model, seed = run.model, run.config.fit.seed
    d = model.config.latents
    used = used_latents(model, run.panel, run.runs[0], seed)
    if not 2 <= len(used) <= MAX_LATENTS:
        return Axes.unaligned(d)
    runs = split_for_alignment(*run.runs, model.regimes, model.config.lags, seed)
    if runs is None:
        return Axes.unaligned(d)
    random = generator(seed, "rows for axes")
    keypoints = 0 if run.frontend is None else run.frontend.keypoint_channels
    fit, selection, test = (
        collect(model, run.panel, part, random, keypoints) for part in runs[:3]
    )
    parts = TransitionSplit(fit, selection, test, seed)
    keep = np.eye(d)[used]  # unused latents stay as they are
    found = find_rotation(parts.mapped(keep), model.centre.device)
    whitening = found.whitening @ keep
    white = parts.mapped(whitening)
    unused = np.setdiff1d(np.arange(d), used)
    offset = np.zeros(d)
    if found.form is not None:
        offset[: len(used)] = found.form.origin
    axes = Axes(
        np.concatenate([found.consensus.rotation @ whitening, np.eye(d)[unused]]),
        offset,
        _verdicts(found.consensus, d),
        tuple(_summary(evidence) for evidence in found.evidence),
        curvature(white),
        weights_from="average effects" if found.form is None else MECHANISM_FORM,
        held_out=runs.held_out,
    )
    logger.debug("estimating the mechanisms")
    weights, error = _weights(model, axes, parts, white.fit, found.form)
    regimes = tuple(run.panel.regimes)
    mechanisms = Mechanisms(regimes, weights, len(white.fit.value), error, axes.names)
    return replace(axes, weights=mechanisms)


def find_rotation(parts: TransitionSplit, device: torch.device) -> Rotation:
    """Whiten the noise, test every kind of evidence for a rotation, and combine them."""
    whitening = inverse_square_root(parts.fit.residual_covariances.mean(axis=0))
    white = parts.mapped(whitening)
    if white.fit.keypoints is not None:
        logger.debug("testing the axes by an additive decoder")
        alone = additive_decoder(white)
        if alone.identified:  # dynamics of a partly observed state would mislead
            axes = sort_axes(single_evidence(alone), None, white.fit)
            return Rotation(whitening, [alone], *axes)
    evidence = []
    for look in RESIDUAL_EVIDENCE:
        logger.debug("testing the axes by %s", look.__name__.replace("_", " "))
        evidence.append(look(white))
    logger.debug("testing the axes by the mechanism form")
    fitted = fit_mechanism_form(white, [each.rotation for each in evidence], device)
    evidence += [] if fitted is None else [fitted[0]]
    found = consensus(evidence, white)
    # W has a meaning only if every axis is identified
    form = form_in_axes(found, fitted[1]) if fitted is not None and all(found.by) else None
    return Rotation(whitening, evidence, *sort_axes(found, form, white.fit))


def _weights(
    model: SequentialVAE,
    axes: Axes,
    parts: TransitionSplit,
    white: Transitions,
    form: MechanismForm | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Estimate W and its standard errors, (K, L, d, d); zero for unused latents."""
    used = white.size
    if form is not None:
        found = weights_of_form(form, white)
    else:
        some = generator(parts.seed, "average effects").permutation(len(parts.fit.value))
        some = some[: STATES[model.config.experts]]
        histories = np.concatenate(list(parts.fit.history[:, some]), axis=1)
        total = sum(part.sum(axis=1) for part in jacobians(model, histories))
        effects = axes.aligned_effects(np.asarray(total) / len(some))[..., :used, :used]
        found = weights_of_effects(parts.fit.mapped(axes.matrix[:used]), effects)
    shape = (white.regimes, len(white.history), len(axes.axes), len(axes.axes))
    weights, error = np.zeros(shape), np.zeros(shape)
    weights[..., :used, :used], error[..., :used, :used] = found
    return weights, error


def _verdicts(found: Consensus, size: int) -> tuple[Axis, ...]:
    names = [f"z{i}" for i in range(size)]
    out = [Axis(name, subspace=(name,), used=False) for name in names]
    for subspace in found.subspaces:
        members = tuple(names[i] for i in sorted(subspace))
        for i in subspace:
            out[i] = Axis(names[i], found.by[i], members, *found.strength[i])
    return tuple(out)


def _summary(evidence: RotationEvidence) -> EvidenceSummary:
    strength = np.array([evidence.strength(axis) for axis in range(len(evidence.loss))])
    loss, p_value = np.median(strength, axis=0).tolist()
    return EvidenceSummary(evidence.kind, len(evidence.identified), loss, p_value, evidence.facts)


def consensus(evidence: list[RotationEvidence], parts: TransitionSplit) -> Consensus:
    """Combine all evidence, and list every kind that identifies an axis by itself."""
    found = _joined(_split(np.eye(parts.fit.size), evidence, parts))
    return replace(found, by=_confirmed(found, [each for each in evidence if each.identified]))


def single_evidence(evidence: RotationEvidence) -> Consensus:
    """Take one kind of evidence as it is."""
    groups = []
    for axes in evidence.subspaces:
        by = (evidence.kind,) if len(axes) == 1 else ()
        strength = [evidence.strength(axis) for axis in axes]
        groups.append(_Group(evidence.rotation[axes], by, strength))
    return _joined(groups)


def _joined(groups: list[_Group]) -> Consensus:
    sizes = [len(group.axes) for group in groups]
    numbers = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    return Consensus(
        np.concatenate([group.axes for group in groups]),
        [subspace.tolist() for subspace in numbers],
        [group.by for group in groups for _ in group.axes],
        [strength for group in groups for strength in group.strength],
    )


def _split(
    basis: np.ndarray, evidence: list[RotationEvidence], parts: TransitionSplit
) -> list[_Group]:
    """Split the basis (m, d) by the kind that identifies most axes; the first wins a tie."""
    best = max(evidence, key=lambda each: len(each.identified))
    if not best.identified:
        offers = [each.strength(axis) for each in evidence for axis in range(len(each.loss))]
        return [_Group(basis, (), [min(offers, key=lambda offer: offer[1])] * len(basis))]
    groups = []
    for subspace in best.subspaces:
        axes = best.rotation[subspace] @ basis
        if len(subspace) == 1:
            groups.append(_Group(axes, (best.kind,), [best.strength(subspace[0])]))
        else:
            inside = [look(parts.mapped(axes)) for look in RESIDUAL_EVIDENCE]
            groups += _split(axes, inside, parts)
    return groups


def _confirmed(found: Consensus, evidence: list[RotationEvidence]) -> list[tuple[str, ...]]:
    """Append the other kinds of evidence that identify the same axis."""
    out = []
    for axis, by in zip(found.rotation, found.by, strict=True):
        others = [each for each in evidence if by and each.kind not in by]
        cosines = [np.abs(each.rotation[each.identified] @ axis).max() for each in others]
        also = (each.kind for each, c in zip(others, cosines, strict=True) if c > SAME_AXIS)
        out.append((*by, *also))
    return out


def form_in_axes(found: Consensus, form: MechanismForm) -> MechanismForm:
    """Rotate the mechanism form to the consensus axes, keeping its signs."""
    change = found.rotation @ form.rotation.T
    signs = np.sign(np.take_along_axis(change, np.abs(change).argmax(axis=1)[:, None], axis=1))
    change = change * signs
    return MechanismForm(
        found.rotation * signs,
        change @ form.origin,
        change @ form.first @ change.T,
        change @ form.later @ change.T,
    )


def sort_axes(
    found: Consensus, form: MechanismForm | None, rows: Transitions
) -> tuple[Consensus, MechanismForm | None]:
    """Put identified axes first, then subspaces, each by falling standard deviation.

    The mechanism form determines signs; without it, an axis is positive on average.
    """
    rotation = found.rotation if form is None else form.rotation
    if form is None:
        rotation = rotation * np.where(rotation @ rows.value.mean(axis=0) < 0, -1.0, 1.0)[:, None]
    scale = (rows.value @ rotation.T).std(axis=0)
    ranked = [sorted(subspace, key=lambda axis: -scale[axis]) for subspace in found.subspaces]
    ranked.sort(key=lambda subspace: (len(subspace) > 1, -scale[subspace[0]]))
    order = [axis for subspace in ranked for axis in subspace]
    place = {axis: number for number, axis in enumerate(order)}
    found = Consensus(
        rotation[order],
        [[place[axis] for axis in subspace] for subspace in ranked],
        [found.by[axis] for axis in order],
        [found.strength[axis] for axis in order],
    )
    if form is not None:
        form = MechanismForm(
            rotation[order],
            form.origin[order],
            form.first[:, order][:, :, order],
            form.later[:, order][:, :, order],
        )
    return found, form
