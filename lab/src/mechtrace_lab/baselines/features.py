"""Rows as the vectors that textbook methods take: standardised, frames as principal components."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from ..errors import MissingDependency
from ..series import Panel
from ..windows import Runs, Standardiser

#: Rows that a method learns from at most, drawn evenly from the regimes: more of them take hours
#: and change nothing, as none of these methods has more than some thousand parameters.
MAX_ROWS = 200_000
#: Frames become so many principal components, measured on so many frames.
COMPONENTS, COMPONENT_ROWS = 32, 2000
#: Rows worked on at a time: of channels, and of frames.
CHUNK_ROWS, CHUNK_FRAMES = 1 << 17, 1 << 12


def optional(module: str) -> Any:
    """A module of a package of the extra `baselines`, imported when it is needed."""
    package = module.partition(".")[0]
    try:
        import_module(package)
        return import_module(module)
    except ImportError as error:
        raise MissingDependency(
            f"this method needs the package {package}", fix='pip install "mechtrace[baselines]"'
        ) from error


@dataclass(frozen=True, eq=False)
class Features:
    """How a row becomes a vector of about unit variance; measured on training rows alone."""

    units: Standardiser
    axes: np.ndarray | None  # (pixels, m): what frames are projected on

    @classmethod
    def of(cls, panel: Panel, runs: Runs, seed: int) -> Features:
        """Measure centre and scale, and for frames the principal components, on these runs."""
        features = cls(Standardiser.of(panel, runs), None)
        if not panel.is_image:
            return features
        rows = some(runs.row_numbers(), COMPONENT_ROWS, np.random.default_rng([seed, 19]))
        pixels = features.at(panel, rows)
        _, sizes, axes = np.linalg.svd(pixels, full_matrices=False)
        keep = min(COMPONENTS, int((sizes > 1e-6 * sizes[0]).sum()))
        return cls(features.units, axes[:keep].T * (np.sqrt(len(rows)) / sizes[:keep]))

    def at(self, panel: Panel, rows: np.ndarray) -> np.ndarray:
        """The vectors (n, p) of these rows."""
        parts = [self._some_at(panel, part) for part in chunks(panel, rows)]
        return np.concatenate(parts) if parts else self._some_at(panel, rows)

    def windows(self, panel: Panel, rows: np.ndarray, past: int) -> np.ndarray:
        """The vectors of so many rows before each row and its own, side by side, oldest first."""
        seen = [self.at(panel, rows - lag) for lag in range(past, -1, -1)]
        return np.concatenate(seen, axis=1)

    def _some_at(self, panel: Panel, rows: np.ndarray) -> np.ndarray:
        values = np.take(panel.values, rows, axis=0).astype(np.float64)
        flat = ((values - self.units.centre) / self.units.scale).reshape(len(rows), -1)
        return flat if self.axes is None else flat @ self.axes


def chunks(panel: Panel, rows: np.ndarray) -> Iterator[np.ndarray]:
    """The rows in pieces that fit into memory as float64."""
    size = CHUNK_FRAMES if panel.is_image else CHUNK_ROWS
    return (rows[first : first + size] for first in range(0, len(rows), size))


def some(items: np.ndarray, limit: int, rng: np.random.Generator) -> np.ndarray:
    """At most so many of the items, in their order."""
    if len(items) <= limit:
        return items
    return items[np.sort(rng.choice(len(items), limit, replace=False))]


def balanced_rows(
    runs: Runs, past: int, seed: int, limit: int = MAX_ROWS
) -> tuple[np.ndarray, np.ndarray]:
    """Rows with a full past and their regimes; of each regime at most its share of the limit."""
    rows = runs.rows_with_past(past)
    regime = np.repeat(runs.regime, np.maximum(runs.length - past, 0)).astype(np.int64)
    rng = np.random.default_rng([seed, 17])
    codes = np.unique(regime)
    share = limit // len(codes)
    kept = np.concatenate([some(np.flatnonzero(regime == code), share, rng) for code in codes])
    return rows[kept], regime[kept]


def curves_of(panel: Panel, rows: np.ndarray, values: np.ndarray) -> list[np.ndarray]:
    """Values (n, K) of these rows as one array per series, NaN at all other rows."""
    out = np.full((panel.rows, values.shape[1]), np.nan)
    out[rows] = values
    return np.split(out, panel.offsets[1:-1])
