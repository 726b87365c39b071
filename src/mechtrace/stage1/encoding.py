"""The seam between torch and numpy: a trained model and a Panel give latents in float64."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .batches import reader
from .model import Learner, SequentialVAE
from .series import Panel
from .windows import crop_rows, find_runs

#: Rows encoded in one call: hidden layers of so many rows still fit into a processor's cache.
CHUNK_ROWS = 1 << 13
#: Pixels encoded in one call: fewer rows, where a row is a picture.
CHUNK_PIXELS = 1 << 23
#: An encoder that looks at whole series gets them uncut up to this length.
WHOLE_ROWS = 1 << 16
#: Rows predicted in one call: K hidden layers of so many rows still fit into a processor's cache.
PREDICTED_ROWS = 1536


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
def encode(model: Learner, panel: Panel) -> Latents:
    """Encode every observed row; the encoder's context never crosses a gap."""
    device, kind = model.centre.device, model.centre.dtype
    d = model.latents
    mean = np.full((panel.rows, d), np.nan)
    scale = np.full((panel.rows, d), np.nan)
    read = reader(panel, device)
    for rows, valid, fresh in _blocks(panel, model.reach, model.whole):
        x = read(rows.ravel()).to(kind)
        m, log_scale = model.encode(x.reshape(*rows.shape, *panel.shape))
        keep = valid & fresh
        new = rows[keep]
        mean[new] = m.cpu().numpy()[keep]
        scale[new] = log_scale.exp().cpu().numpy()[keep]
    return Latents(mean, scale, panel.offsets, np.asarray(panel.names))


def _blocks(
    panel: Panel, reach: int, whole: bool
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Batches of runs of similar length: row numbers, which are real, which are new.

    A long run is cut into pieces that repeat the last `reach` rows of the piece before, so that
    every row is encoded with the context it has in the whole series. `whole`: runs of equal
    length only, and hardly ever cut.
    """
    runs = find_runs(panel, by_regime=False)
    chunk = CHUNK_ROWS
    if panel.is_image:
        chunk = min(chunk, max(2 * reach + 1, CHUNK_PIXELS // int(np.prod(panel.shape))))
    longest = max(chunk, WHOLE_ROWS) if whole else chunk
    pieces_of = -(-runs.length // longest)
    which = np.repeat(np.arange(len(runs)), pieces_of)
    number = np.arange(len(which)) - np.repeat(np.cumsum(pieces_of) - pieces_of, pieces_of)
    first = number * longest
    overlap = np.minimum(first, reach)
    start = runs.start[which] + first - overlap
    length = np.minimum(runs.length[which] - first, longest) + overlap
    order = np.argsort(length, kind="stable")
    position = 0
    while position < len(order):
        # as many pieces of about this length as fit into one call
        limit = max(1, chunk // int(length[order[position]]))
        pieces = order[position : position + limit]
        if whole:
            pieces = pieces[length[pieces] == length[pieces[0]]]
        steps = np.arange(length[pieces].max())
        while len(pieces) > 1 and len(pieces) * len(steps) > 2 * chunk:
            pieces = pieces[: len(pieces) // 2]
            steps = np.arange(length[pieces].max())
        rows, real = crop_rows(start[pieces], length[pieces], len(steps))
        yield rows, real, steps >= overlap[pieces][:, None]
        position += len(pieces)


@torch.no_grad()
def predict(
    model: SequentialVAE, mean: np.ndarray, position: np.ndarray, horizon: int = 1
) -> np.ndarray:
    """What each expert expects of a row, given the history `horizon` steps before it.

    From latents (T, S, d) of series side by side, of which `position` (T, S) counts the steps
    since the last gap: (T, S, K, d), NaN without a history. In memory it is (K, d, T, S), as
    the experts give it and as evidence is made of it.
    """
    lags, (steps, series, d) = model.config.lags, mean.shape
    out = np.full((model.regimes, d, steps * series), np.nan)
    ready = np.flatnonzero(position >= lags + horizon - 1)
    known = torch.from_numpy(mean.reshape(-1, d)).to(model.centre.device, model.centre.dtype)
    for first in range(0, len(ready), PREDICTED_ROWS):
        rows: Any = ready[first : first + PREDICTED_ROWS]
        if rows[-1] - rows[0] < len(rows):  # no gap between them: nothing needs to be copied
            lagged = [
                known[rows[0] - lag * series : rows[-1] + 1 - lag * series]
                for lag in range(horizon, horizon + lags)
            ]
            rows = slice(rows[0], rows[-1] + 1)
        else:
            before = torch.from_numpy(rows).to(known.device)
            lagged = [known[before - lag * series] for lag in range(horizon, horizon + lags)]
        expected = model.experts.ahead(torch.cat(lagged, dim=-1), horizon)
        out[:, :, rows] = expected.cpu().numpy().transpose(0, 2, 1)
    return out.reshape(model.regimes, d, steps, series).transpose(2, 3, 0, 1)
