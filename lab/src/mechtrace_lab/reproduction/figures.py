"""The paper's figures, drawn from stored rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mechtrace._runtime import atomic_path

from . import table_figures, time_figures
from .result_store import ResultStore


@dataclass(frozen=True)
class Picture:
    """A figure and the tables whose numbers it shows."""

    name: str
    tables: tuple[str, ...]
    draw: Callable[[ResultStore], Any]


PICTURES = (
    Picture("theory", ("noise", "perturbation"), table_figures.theory),
    *(
        Picture(function.__name__, (function.__name__,), function)
        for function in (
            time_figures.trajectory,
            time_figures.calibration,
            table_figures.scaling,
            table_figures.window,
            table_figures.capacity,
            table_figures.samples,
            table_figures.beyond,
            time_figures.ood,
            table_figures.impurity,
            time_figures.assumption,
        )
    ),
)


def pictures(names: Sequence[str]) -> list[Picture]:
    """The pictures that belong to these tables."""
    return [picture for picture in PICTURES if set(picture.tables) & set(names)]


def save(picture: Picture, store: ResultStore, path: Path, *, dpi: int = 150) -> bool:
    """Write a figure; return False if too few rows are stored for it."""
    from matplotlib import pyplot

    figure = picture.draw(store)
    if figure is None:
        return False
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=dpi, bbox_inches="tight")
    pyplot.close(figure)
    return True


def write(names: Sequence[str], out: Path, *, scale: str, seeds: int) -> Iterator[Path]:
    """Draw the figures of these tables next to the rows and yield their paths."""
    for picture in pictures(names):
        path = out / scale / f"{picture.name}.png"
        if save(picture, ResultStore(out, scale, seeds), path):
            yield path
