"""Draw docs/images/identifiability.png: likelihood lost by rotating two axes, by kind of evidence.

True latents and mechanisms are used: the curves show what there is to know, not what was learned.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import torch
from project_files import save

from mechtrace import worlds
from mechtrace.identifiability import (
    MechanismForm,
    Transitions,
    givens_rotation,
    losses_by_rotation,
    non_gaussian_score,
    regime_variance_score,
    sparse_change_score,
)
from mechtrace.identifiability import mechanism_form as form_of
from mechtrace_lab.studies.alignment import true_transitions

ANGLES = np.deg2rad(np.linspace(-45, 45, 31))
LATENTS, REGIMES = 5, 5


def transitions_of(name: str, **options: object) -> tuple[worlds.World, Transitions, Transitions]:
    """A small world and two halves of its rows, in units of the noise."""
    world = worlds.make(name, seed=1, latents=LATENTS, channels=6, regimes=REGIMES, **options)
    halves = (true_transitions(world.simulate(200, seed=seed)) for seed in (0, 1))
    train, test = (half.mapped(np.eye(LATENTS) / world.config.noise) for half in halves)
    return world, train, test


def cost(score: object, pair: tuple[int, int] = (0, 1)) -> np.ndarray:
    """Nats per step that each angle costs."""
    straight = score(np.eye(LATENTS), pair).mean()
    return np.array(
        [straight - score(givens_rotation(LATENTS, *pair, a), pair).mean() for a in ANGLES]
    )


def form_cost(world: worlds.World, train: Transitions, test: Transitions) -> np.ndarray:
    """The same for the mechanism form, whose columns are fitted anew at every angle."""
    form = MechanismForm(np.eye(LATENTS), np.zeros(LATENTS), world.mechanisms, world.lagged)
    near = np.abs(ANGLES) < np.deg2rad(31)  # large rotations of a linear system do not converge
    random = np.random.default_rng(0)
    losses = losses_by_rotation(form, train, test, torch.device("cpu"), random, ANGLES[near])
    out = np.full(len(ANGLES), np.nan)
    out[near] = [loss.mean() for loss in losses[0, 1]]
    return out


def changed_pair(world: worlds.World) -> tuple[np.ndarray, tuple[int, int]]:
    """Which mechanisms a regime has for itself, and two axes of which one is touched."""
    apart = np.abs(world.mechanisms - np.median(world.mechanisms, axis=0)).sum(axis=1) > 1e-9
    touched = int(np.flatnonzero(apart.any(axis=0))[0])
    return apart, (touched, (touched + 1) % LATENTS)


def main() -> None:
    """Four panels: each kind of evidence, beside a world that lacks it."""
    form_of.REFIT_STEPS = 1500  # rotations of a linear system converge slowly
    panels = []
    gaussian, laplace = transitions_of("paper"), transitions_of("laplace")
    shape = [cost(non_gaussian_score(*rows[1:])) for rows in (laplace, gaussian)]
    panels.append(("shape of the noise", "Laplace", "Gaussian", shape))
    varied = transitions_of("regime-noise")
    by_regime = [cost(regime_variance_score(*rows[1:])) for rows in (varied, gaussian)]
    panels.append(("noise by regime", "differs between regimes", "the same", by_regime))
    straight = transitions_of("paper-positive")
    forms = [form_cost(*gaussian), form_cost(*straight)]
    panels.append(("form of the mechanisms", "kinks are visited", "only positive states", forms))
    apart, pair = changed_pair(straight[0])
    dense = transitions_of("linear-gaussian")
    changes = [
        cost(sparse_change_score(*straight[1:], apart), pair),
        cost(sparse_change_score(*dense[1:], np.ones((REGIMES, LATENTS), bool)), pair),
    ]
    panels.append(("changes of mechanisms", "few mechanisms", "all mechanisms", changes))
    figure, axes = plt.subplots(1, 4, figsize=(12, 3), layout="constrained")
    for axis, (title, present, absent, curves) in zip(axes, panels, strict=True):
        axis.axhline(0, color="0.8", lw=1)
        degrees = np.rad2deg(ANGLES)
        axis.plot(degrees, curves[0], color="#D55E00", lw=2, label=present)
        axis.plot(degrees, curves[1], "--", color="#0072B2", lw=2, label=absent)
        axis.set_ylim(top=1.35 * np.nanmax(curves))
        axis.set(
            title=title, xlabel="rotation of two axes (degrees)", xticks=[-45, -20, 0, 20, 45]
        )
        axis.legend(frameon=False, fontsize=8, loc="upper center")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("nats per step lost")
    save(figure, "identifiability")


if __name__ == "__main__":
    main()
