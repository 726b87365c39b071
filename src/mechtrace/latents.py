"""The seam between torch and numpy: a trained model and a Panel give latents in float64."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from .model import SequentialVAE
from .series import Panel
from .windows import crop_rows, find_runs

#: Rows encoded in one call; bounds memory whatever the length of a series.
CHUNK_ROWS = 1 << 12
#: Rows predicted in one call: K hidden layers of so many rows still fit into a processor's cache.
PREDICTED_ROWS = 1 << 10


@dataclass(frozen=True, eq=False)
class Latents:
    """Posterior means and standard deviations of every row; NaN where a row was not observed."""

    mean: np.ndarray  # (rows, d)
    scale: np.ndarray  # (rows, d)
    offsets: np.ndarray
    names: np.ndarray

    def arrays(self) -> list[np.ndarray]:
        """The posterior means of each series, (T, d)."""
        return [self.mean[a:b] for a, b in zip(self.offsets[:-1], self.offsets[1:], strict=True)]


@torch.no_grad()
def encode(model: SequentialVAE, panel: Panel) -> Latents:
    """Encode every observed row; the encoder's context never crosses a gap."""
    device, kind = model.centre.device, model.centre.dtype
    d = model.config.latents
    mean = np.full((panel.rows, d), np.nan)
    scale = np.full((panel.rows, d), np.nan)
    for rows, valid, fresh in _blocks(panel, model.encoder.reach):  # type: ignore[arg-type]
        block = np.ascontiguousarray(np.take(panel.values, rows.ravel(), axis=0))
        x = torch.from_numpy(block).to(device, kind)
        m, log_scale = model.encode(x.reshape(*rows.shape, *panel.shape))
        keep = np.flatnonzero(valid & fresh)
        places = rows.ravel()[keep]
        mean[places] = m.cpu().numpy().reshape(-1, d)[keep]
        scale[places] = log_scale.exp().cpu().numpy().reshape(-1, d)[keep]
    return Latents(mean, scale, panel.offsets, np.asarray(panel.names))


def _blocks(panel: Panel, reach: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Batches of runs of similar length: row numbers, which are real, which are new.

    A long run is cut into pieces that repeat the last `reach` rows of the piece before, so that
    every row is encoded with the context it has in the whole series.
    """
    runs = find_runs(panel, by_regime=False)
    pieces_of = -(-runs.length // CHUNK_ROWS)
    which = np.repeat(np.arange(len(runs)), pieces_of)
    number = np.arange(len(which)) - np.repeat(np.cumsum(pieces_of) - pieces_of, pieces_of)
    first = number * CHUNK_ROWS
    overlap = np.minimum(first, reach)
    start = runs.start[which] + first - overlap
    length = np.minimum(runs.length[which] - first, CHUNK_ROWS) + overlap
    order = np.argsort(length, kind="stable")
    position = 0
    while position < len(order):
        # as many pieces of about this length as fit into one call
        limit = max(1, CHUNK_ROWS // int(length[order[position]]))
        pieces = order[position : position + limit]
        steps = np.arange(length[pieces].max())
        while len(pieces) > 1 and len(pieces) * len(steps) > 2 * CHUNK_ROWS:
            pieces = pieces[: len(pieces) // 2]
            steps = np.arange(length[pieces].max())
        rows, real = crop_rows(start[pieces], length[pieces], len(steps))
        yield rows, real, steps >= overlap[pieces][:, None]
        position += len(pieces)


@torch.no_grad()
def predict(model: SequentialVAE, latents: Latents, panel: Panel) -> np.ndarray:
    """What each expert expects of a row given its history: (rows, K, d), NaN without a history."""
    lags, d = model.config.lags, model.config.latents
    mean, kinds = latents.mean, model.regimes
    out = np.full((len(mean), kinds, d), np.nan)
    # a row has a history if the `lags` rows before it belong to the same unbroken run
    runs = find_runs(panel, by_regime=False)
    position = np.full(len(mean), -1)
    position[runs.row_numbers()] = runs.within()
    ready = np.flatnonzero(position >= lags)
    known = torch.from_numpy(mean).to(model.centre.device, model.centre.dtype)
    for first in range(0, len(ready), PREDICTED_ROWS):
        rows = ready[first : first + PREDICTED_ROWS]
        before = torch.from_numpy(rows).to(known.device)
        history = torch.cat([known[before - lag] for lag in range(1, lags + 1)], dim=-1)
        out[rows] = model.experts.conditional_mean(history).cpu().numpy().transpose(1, 0, 2)
    return out
