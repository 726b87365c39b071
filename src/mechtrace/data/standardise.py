"""Mean and scale of the channels, measured in chunks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .._runtime.stochastic import generator
from ..errors import DataError
from ..io.frames import row_chunks
from .panel import Panel
from .segments import Runs

CHUNK_ROWS = 1 << 16
#: Frames that statistics of pictures are measured on.
MEASURED_FRAMES = 1 << 14
#: A channel that varies by less than this share of its mean is constant but for rounding.
CONSTANT = 1e-12


@dataclass(frozen=True, eq=False)
class Standardiser:
    """Standardise x to (x - centre) / scale; a constant channel has scale 1.

    Attributes
    ----------
    centre, scale : ndarray
        Mean and standard deviation of each channel; pictures have one scale for all pixels.
    """

    centre: np.ndarray
    scale: np.ndarray

    @classmethod
    def fit(cls, panel: Panel, runs: Runs, seed: int = 0) -> Standardiser:
        """Measure centre and scale on the rows of these runs, in one pass over chunks.

        Parameters
        ----------
        panel : Panel
            The recordings.
        runs : Runs
            The rows to use.
        seed : int
            Draws the frames to use where there are very many.

        Returns
        -------
        Standardiser
            Mean and standard deviation.
        """
        used = np.zeros(panel.rows + 1, dtype=np.int32)
        np.add.at(used, runs.start, 1)
        np.add.at(used, runs.start + runs.length, -1)
        mask = np.cumsum(used[:-1]) > 0
        count = 0
        mean = np.zeros(panel.shape)
        moment = np.zeros(panel.shape)
        blocks = _frames_of(panel, mask, seed) if panel.is_image else _rows_of(panel, mask)
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            for block in blocks:
                block_mean = block.mean(axis=0)
                shift = block_mean - mean
                total = count + len(block)
                moment += ((block - block_mean) ** 2).sum(axis=0)
                moment += shift**2 * count * len(block) / total
                mean += shift * len(block) / total
                count = total
        deviation = np.sqrt(moment / count)
        if panel.is_image:  # dead pixels must not be blown up: one scale for the whole frame
            deviation = np.full_like(deviation, np.sqrt((deviation**2).mean()))
        _refuse_immeasurable(deviation, mean, panel)
        constant = deviation <= CONSTANT * np.abs(mean)
        return cls(mean, np.where(constant, 1.0, deviation))


def _refuse_immeasurable(deviation: np.ndarray, mean: np.ndarray, panel: Panel) -> None:
    """Refuse channels whose squares leave the range of float64."""
    bad = ~(np.isfinite(deviation) & np.isfinite(mean)).reshape(-1)
    if bad.any():
        name = panel.channels[0 if panel.is_image else int(np.argmax(bad))]
        what = f"the values of channel {name!r} are too large to compute with"
        raise DataError(what, where=panel.source, fix="use another unit, or correct them")


def _rows_of(panel: Panel, mask: np.ndarray) -> Iterator[np.ndarray]:
    for first in range(0, panel.rows, CHUNK_ROWS):
        rows = slice(first, first + CHUNK_ROWS)
        if mask[rows].any():
            yield np.asarray(panel.values[rows])[mask[rows]].astype(np.float64)


def _frames_of(panel: Panel, mask: np.ndarray, seed: int) -> Iterator[np.ndarray]:
    rows = np.flatnonzero(mask)
    if len(rows) > MEASURED_FRAMES:
        rows = generator(seed, "measured frames").choice(rows, MEASURED_FRAMES, replace=False)
        rows.sort()  # as they lie in the file
    for some in row_chunks(panel.values, len(rows)):
        yield np.take(panel.values, rows[some], axis=0).astype(np.float64)
