"""The paper's figures, drawn from what is kept; None where that is not enough."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..atomic import atomic_path
from . import charts, paths
from .kept import Kept


@dataclass(frozen=True)
class Picture:
    """A figure and the tables whose numbers it shows."""

    name: str
    tables: tuple[str, ...]
    draw: Callable[[Kept], Any]


PICTURES = (
    Picture("theory", ("noise", "perturbation"), charts.theory),
    *(
        Picture(function.__name__, (function.__name__,), function)
        for function in (
            paths.trajectory,
            paths.calibration,
            charts.scaling,
            charts.window,
            charts.capacity,
            charts.samples,
            charts.beyond,
            paths.ood,
            charts.impurity,
            paths.assumption,
        )
    ),
)


def pictures(names: Sequence[str]) -> list[Picture]:
    """The pictures that belong to these tables."""
    return [picture for picture in PICTURES if set(picture.tables) & set(names)]


def save(picture: Picture, kept: Kept, path: Path, *, dpi: int = 150) -> bool:
    """Write a picture; False where too little is kept for it."""
    from matplotlib import pyplot

    figure = picture.draw(kept)
    if figure is None:
        return False
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=dpi, bbox_inches="tight")
    pyplot.close(figure)
    return True


def write(names: Sequence[str], out: Path, *, scale: str, seeds: int) -> Iterator[Path]:
    """Draw what belongs to these tables beside the rows; the files that were written."""
    for picture in pictures(names):
        path = out / scale / f"{picture.name}.png"
        if save(picture, Kept(out, scale, seeds), path):
            yield path
