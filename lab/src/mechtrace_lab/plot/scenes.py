"""What moves, coloured by alpha: tracks of vehicles, skeletons, frames of a film."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ConfigError, DataError
from .inputs import as_curve, for_each_step, moments, numbers, regime_number
from .style import INK, SOFT, axes_for, colour_bar, share_colours, tidy

if TYPE_CHECKING:
    from ..recover.trajectory import Trajectory


def track(
    positions: Any,
    path: Trajectory | Any,
    ax: Any = None,
    *,
    regime: str | None = None,
    image: Any = None,
) -> Any:
    """Where something was (T, 2), seen from above, coloured by the share of one regime.

    `image` is drawn below, its pixels being the unit then. `plot.track(xy, path, regime="turn")`
    """
    path = as_curve(path)
    xy = for_each_step(numbers(positions, "positions", 2), path, "positions")
    if xy.shape[1] != 2 or len(xy) < 2:
        raise DataError(
            f"positions have shape {xy.shape}", fix="give x and y of two steps or more"
        )
    k = regime_number(path, regime)
    ax = axes_for(ax, (5, 4))
    from matplotlib.collections import LineCollection

    shade = _Shade(path, k)
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
    """Snapshots of joints (T, J, 2 or 3) side by side, coloured by the share of one regime.

    `bones` are pairs of joints; `plane` names the coordinates that point to the right and
    upwards. `plot.skeletons(joints, [(0, 1), (1, 2)], path, regime="run", plane=(0, 2))`
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
    k, steps = regime_number(path, regime), _spread(len(path), count)
    ax = axes_for(ax, (1.6 * count + 1, 2.8))
    from matplotlib.collections import LineCollection

    shade = _Shade(path, k)
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
    colour_bar(ax, shade.scale(), shade.label)
    return ax


def frames(
    images: Any,
    path: Trajectory | Any,
    ax: Any = None,
    *,
    regime: str | None = None,
    count: int = 6,
) -> Any:
    """Some images (T, H, W) or (T, H, W, colours) in a row, framed by the share of one regime.

    `plot.frames(film, path)`
    """
    path = as_curve(path)
    film = for_each_step(numbers(images, "images", 3, 4), path, "images")
    if film.ndim == 4 and film.shape[3] not in (1, 3, 4):
        raise DataError(f"images have shape {film.shape}", fix="put 1, 3 or 4 colours last")
    film = film[..., 0] if film.shape[3:] == (1,) else film
    seen = film[np.isfinite(film)]
    if not len(seen):
        raise DataError("the images show nothing", fix="give some that are known")
    low, high = float(seen.min()), float(seen.max())
    k, steps = regime_number(path, regime), _spread(len(path), count)
    ax = axes_for(ax, (1.5 * count + 1, 2.2))
    from matplotlib.patches import Rectangle

    shade = _Shade(path, k)
    height, width = film.shape[1:3]
    apart, line = 1.15 * width, 0.03 * width
    for place, step in enumerate(steps):
        left = place * apart
        picture = (film[step] - low) / ((high - low) or 1.0)
        ax.imshow(picture, cmap="gray", vmin=0, vmax=1, extent=(left, left + width, height, 0))
        ax.add_patch(
            Rectangle((left - line, -line), width + 2 * line, height + 2 * line, fill=False,
                      ec=shade.map(shade.share[step]), lw=3.5)
        )  # fmt: skip
    ax.set_xlim(-0.1 * width, (len(steps) - 1) * apart + 1.1 * width)
    ax.set_ylim(1.1 * height, -0.1 * height)
    ax.set_yticks([])
    ax.set_xticks(apart * np.arange(len(steps)) + width / 2, labels=moments(path, steps))
    tidy(ax, "time")
    ax.spines[:].set_visible(False)
    colour_bar(ax, shade.scale(), shade.label)
    return ax


class _Shade:
    """Colours by the share of one regime."""

    def __init__(self, path: Trajectory, k: int) -> None:
        self.share = path.alpha[:, k]
        self.map = share_colours(k, len(path.regimes)).with_extremes(bad=SOFT)
        self.label = f"share of {path.regimes[k]}"

    def scale(self) -> Any:
        """What a colour bar shows."""
        from matplotlib.cm import ScalarMappable

        return ScalarMappable(cmap=self.map)


def _spread(steps: int, count: int) -> np.ndarray:
    """Steps evenly spread over all, each once."""
    if count < 1:
        raise ConfigError(f"count = {count}", fix="show at least one")
    return np.unique(np.linspace(0, steps - 1, min(count, steps)).round().astype(int))
