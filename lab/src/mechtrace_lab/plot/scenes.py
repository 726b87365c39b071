"""Recordings of motion, coloured by a share: tracks of vehicles and skeletons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mechtrace import Trajectory
from mechtrace.errors import DataError
from mechtrace.viz.plot import (
    INK,
    ShareColours,
    as_curve,
    axes_for,
    colour_bar,
    evenly_spaced,
    for_each_step,
    moments,
    numbers,
    regime_number,
    tidy,
)


def track(
    positions: Any,
    path: Trajectory | Any,
    ax: Any = None,
    *,
    regime: str | None = None,
    image: Any = None,
) -> Any:
    """Draw positions (T, 2) from above, coloured by the share of one regime, over an image."""
    path = as_curve(path)
    xy = for_each_step(numbers(positions, "positions", 2), path, "positions")
    if xy.shape[1] != 2 or len(xy) < 2:
        raise DataError(
            f"positions have shape {xy.shape}", fix="give x and y of two steps or more"
        )
    k = regime_number(path, regime)
    ax = axes_for(ax, (5, 4))
    from matplotlib.collections import LineCollection

    shade = ShareColours(path, k)
    if image is not None:
        ax.imshow(image, cmap="gray")
    pieces = np.stack([xy[:-1], xy[1:]], axis=1)
    ax.plot(*xy.T, color="white", lw=6, solid_capstyle="round", zorder=2)
    line = LineCollection(
        list(pieces), array=(shade.share[:-1] + shade.share[1:]) / 2, cmap=shade.map, lw=3.5,
        capstyle="round", zorder=3,
    )  # fmt: skip
    line.set_clim(0, 1)
    ax.add_collection(line)
    ax.plot(*xy[0], "o", color="white", mec=INK, ms=7, zorder=4)
    arrow = {"arrowstyle": "-|>", "color": INK, "mutation_scale": 18, "lw": 0}
    ax.annotate("", xy[-1], xy[-2], arrowprops=arrow, zorder=4)
    ax.set_aspect("equal")
    tidy(ax, "x", "y")
    colour_bar(ax, line, shade.label, shrink=0.6)
    return ax


def skeletons(
    joints: Any,
    bones: Sequence[tuple[int, int]],
    path: Trajectory | Any,
    ax: Any = None,
    *,
    regime: str | None = None,
    count: int = 5,
    plane: tuple[int, int] = (0, 1),
) -> Any:
    """Draw joints (T, J, 2 or 3) at some times side by side, coloured by the share of one regime.

    `bones` are pairs of joints; `plane` names the coordinates that point to the right and up.
    """
    path = as_curve(path)
    body = for_each_step(numbers(joints, "joints", 3), path, "joints")
    pairs = np.asarray(bones)
    if body.shape[2] not in (2, 3) or max(plane) >= body.shape[2] or len(set(plane)) != 2:
        raise DataError(
            f"joints of shape {body.shape} have no plane {tuple(plane)}",
            fix="give 2 or 3 coordinates, and name two of them",
        )
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.min() < 0 or pairs.max() >= body.shape[1]:
        raise DataError(
            "the bones are no pairs of joints", fix=f"number joints from 0 to {body.shape[1] - 1}"
        )
    k, steps = regime_number(path, regime), evenly_spaced(len(path), count)
    ax = axes_for(ax, (1.6 * count + 1, 2.8))
    from matplotlib.collections import LineCollection

    shade = ShareColours(path, k)
    flat = body[:, :, list(plane)]
    flat[..., 0] -= flat[..., 0].mean(axis=1, keepdims=True)
    width, height = np.ptp(flat[steps], axis=(0, 1))
    apart = 1.25 * max(width, 0.4 * height)
    for place, step in enumerate(steps):
        figure = flat[step] + [place * apart, 0]
        tone = shade.map(shade.share[step])
        ax.add_collection(LineCollection(list(figure[pairs]), color=[tone], lw=3,
                                         capstyle="round"))  # fmt: skip
        ax.plot(*figure.T, "o", color=tone, ms=3.5)
    ax.set_aspect("equal")
    tidy(ax, "time")
    ax.spines["left"].set_visible(False)
    ax.set_yticks([])
    ax.set_xticks(apart * np.arange(len(steps)), labels=moments(path, steps))
    ax.set_xlim(-0.6 * apart, (len(steps) - 0.4) * apart)
    shade.bar(ax)
    return ax
