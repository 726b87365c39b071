"""Mechanisms as graphs: latents in a circle, arrows from cause to effect."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ConfigError
from ..recover.network import Mechanisms
from .inputs import regime_number
from .matrices import SURE, as_mechanisms, effects, largest_of
from .style import INK, MINUS, PLUS, SOFT, axes_for, colour, plain

#: Radius of a node where the circle of all has radius 1.
NODE = 0.13


def mechanism_graph(
    found: Mechanisms | Any,
    regime: str | None = None,
    ax: Any = None,
    *,
    lag: int = 1,
    difference: bool = False,
    top: int = 20,
) -> Any:
    """The strongest effects of one regime (by default the last) as arrows.

    Blue and solid is positive, orange and dashed negative, width is strength; effects that may
    be none are left out where errors are known. `plot.mechanism_graph(trace.weights_, "R3")`
    """
    found = as_mechanisms(found)
    k = regime_number(found, regime)
    weights, error = effects(found, lag, difference)
    shown, largest = np.nan_to_num(weights[k]), largest_of(weights)
    if error is not None:
        shown = np.where(np.abs(shown) >= SURE * error[k], shown, 0.0)
    if top < 1:
        raise ConfigError(f"top = {top}", fix="show at least one effect")
    ax = axes_for(ax, (4, 4))
    size = len(shown)
    turn = np.pi / 2 - 2 * np.pi * np.arange(size) / size
    place = np.column_stack([np.cos(turn), np.sin(turn)])
    for edge in np.argsort(-np.abs(shown), axis=None)[:top]:
        source, target = divmod(int(edge), size)
        weight = float(shown[source, target])
        if weight:
            _arrow(ax, place[source], place[target], weight, abs(weight) / largest)
    ax.scatter(*place.T, s=420, color="white", edgecolor=SOFT, lw=1.2, zorder=3)
    for name, spot in zip(found.latents, place, strict=True):
        ax.annotate(plain(name), spot, ha="center", va="center", fontsize=9, color=INK, zorder=4)
    ax.set_aspect("equal")
    ax.set_xlim(-1.55, 1.55)
    ax.set_ylim(-1.55, 1.55)
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_visible(False)
    ax.set_title(plain(found.regimes[k]), color=colour(k), fontsize=10)
    what = "differences to the usual" if difference else "effects"
    ax.set_xlabel(f"{what} at lag {lag}: solid +, dashed \N{MINUS SIGN}", color=SOFT, fontsize=8)
    return ax


def _arrow(ax: Any, start: np.ndarray, end: np.ndarray, weight: float, strength: float) -> None:
    """Bent to one side, so that there and back are two; a latent's own effect is a loop."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    if np.allclose(start, end):
        out = start / np.linalg.norm(start)
        aside = np.array([-out[1], out[0]])
        points = [(0.8, 0.9), (3.8, 2.0), (3.8, -2.0), (0.9, -1.0)]
        curve = [start + NODE * (a * out + b * aside) for a, b in points]
    else:
        way = end - start
        bend = (start + end) / 2 + 0.14 * np.array([-way[1], way[0]])
        curve = [_towards(start, bend), bend, _towards(end, bend)]
    kinds = [Path.MOVETO] + [Path.CURVE4 if len(curve) == 4 else Path.CURVE3] * (len(curve) - 1)
    ax.add_patch(
        FancyArrowPatch(
            path=Path(curve, kinds),
            arrowstyle="-|>",
            mutation_scale=7 + 6 * strength,
            color=PLUS if weight > 0 else MINUS,
            lw=0.6 + 2.6 * strength,
            alpha=0.3 + 0.7 * strength,
            ls="-" if weight > 0 else (0, (4, 2)),
            zorder=2,
        )
    )


def _towards(node: np.ndarray, point: np.ndarray) -> np.ndarray:
    """Where the edge of a node faces a point."""
    way = point - node
    return node + (NODE + 0.02) * way / np.linalg.norm(way)
