"""Feature vectors of rows: standardised channels, or principal components of frames."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from mechtrace.data import Panel, Runs, Standardiser
from mechtrace.errors import MissingDependency

#: Rows that a method learns from at most, drawn evenly from the regimes: more of them take hours
#: and change nothing, as none of these methods has more than some thousand parameters.
MAX_ROWS = 200_000
#: Frames become so many principal components, measured on so many frames.
COMPONENTS, COMPONENT_ROWS = 32, 2000
#: Rows worked on at a time: of channels, and of frames.
CHUNK_ROWS, CHUNK_FRAMES = 1 << 17, 1 << 12


def optional(module: str) -> Any:
    """Import a module of an optional package when it is needed."""
    package = module.partition(".")[0]
    try:
        import_module(package)
        return import_module(module)
    except ImportError as error:
        raise MissingDependency(
            f"this method needs the package {package}", fix='pip install "mechtrace[lab]"'
        ) from error


@dataclass(frozen=True, eq=False)
class WindowFeatures:
    """Map from a row to a feature vector of unit variance, estimated from training rows only."""

    units: Standardiser
    axes: np.ndarray | None  # (pixels, m): what frames are projected on

    @classmethod
    def of(cls, panel: Panel, runs: Runs, seed: int) -> WindowFeatures:
        """Measure centre and scale, and for frames the principal components, on these runs."""
        features = cls(Standardiser.fit(panel, runs, seed), None)
        if not panel.is_image:
            return features
        rows = some(runs.row_numbers(), COMPONENT_ROWS, np.random.default_rng([seed, 19]))
        pixels = features.at(panel, rows)
        _, sizes, axes = np.linalg.svd(pixels, full_matrices=False)
        keep = min(COMPONENTS, int((sizes > 1e-6 * sizes[0]).sum()))
        return cls(features.units, axes[:keep].T * (np.sqrt(len(rows)) / sizes[:keep]))

    def at(self, panel: Panel, rows: np.ndarray) -> np.ndarray:
        """Feature vectors (n, p) of these rows."""
        parts = [self._some_at(panel, part) for part in chunks(panel, rows)]
        return np.concatenate(parts) if parts else self._some_at(panel, rows)

    def windows(self, panel: Panel, rows: np.ndarray, past: int) -> np.ndarray:
        """Concatenate the vectors of each row and of `past` rows before it, oldest first."""
        seen = [self.at(panel, rows - lag) for lag in range(past, -1, -1)]
        return np.concatenate(seen, axis=1)

    def _some_at(self, panel: Panel, rows: np.ndarray) -> np.ndarray:
        values = np.take(panel.values, rows, axis=0).astype(np.float64)
        flat = ((values - self.units.centre) / self.units.scale).reshape(len(rows), -1)
        return flat if self.axes is None else flat @ self.axes


def chunks(panel: Panel, rows: np.ndarray) -> Iterator[np.ndarray]:
    """Split rows into chunks that fit into memory as float64."""
    size = CHUNK_FRAMES if panel.is_image else CHUNK_ROWS
    return (rows[first : first + size] for first in range(0, len(rows), size))


def some(items: np.ndarray, limit: int, rng: np.random.Generator) -> np.ndarray:
    """Draw at most `limit` of the items, in their order."""
    if len(items) <= limit:
        return items
    return items[np.sort(rng.choice(len(items), limit, replace=False))]


def balanced_rows(
    runs: Runs, past: int, seed: int, limit: int = MAX_ROWS
) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows with a full past, and their regimes, evenly from the regimes."""
    rows = runs.rows_with_past(past)
    regime = np.repeat(runs.regime, np.maximum(runs.length - past, 0)).astype(np.int64)
    rng = np.random.default_rng([seed, 17])
    codes = np.unique(regime)
    share = limit // len(codes)
    kept = np.concatenate([some(np.flatnonzero(regime == code), share, rng) for code in codes])
    return rows[kept], regime[kept]


def curves_of(panel: Panel, rows: np.ndarray, values: np.ndarray) -> list[np.ndarray]:
    """Arrange values (n, K) of some rows by series, with NaN at all other rows."""
    out = np.full((panel.rows, values.shape[1]), np.nan)
    out[rows] = values
    return np.split(out, panel.offsets[1:-1])
