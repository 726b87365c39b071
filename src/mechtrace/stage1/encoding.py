"""From torch to numpy: latents of a Panel, predictions of the experts and their Jacobians."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..data.device import reader
from ..data.panel import Panel
from ..data.segments import crop_rows, find_runs
from ..errors import DataError
from .vae import Learner, SequentialVAE

#: Rows encoded in one call: their hidden layers fit into the cache of a processor.
CHUNK_ROWS = 1 << 13
#: Pixels encoded in one call.
CHUNK_PIXELS = 1 << 23
#: An encoder that also looks ahead gets series uncut up to this length.
WHOLE_ROWS = 1 << 16
#: Rows predicted in one call: their K hidden layers fit into the cache of a processor.
PREDICTED_ROWS = 1536
#: Histories differentiated in one call, and averaged over unless asked otherwise, by kind of
#: experts: quadrature and the inverse of a flow keep a graph of many evaluations for each.
CHUNK = {"affine": 512, "spline": 64, "nonparametric": 8, "maf": 8}
STATES = {"affine": 1000, "spline": 500, "nonparametric": 50, "maf": 50}


@dataclass(frozen=True, eq=False)
class Latents:
    """Posterior means and standard deviations of every row; NaN where it was not observed."""

    mean: np.ndarray  # (rows, d)
    scale: np.ndarray  # (rows, d)
    offsets: np.ndarray
    names: np.ndarray

    def arrays(self) -> list[np.ndarray]:
        """Return the posterior means (T, d) of each series."""
        return [self.mean[a:b] for a, b in zip(self.offsets[:-1], self.offsets[1:], strict=True)]


@torch.no_grad()
def encode(model: Learner, panel: Panel) -> Latents:
    """Encode every observed row; the context of the encoder never crosses a gap."""
    device, kind = model.centre.device, model.centre.dtype
    d = model.latents
    mean = np.full((panel.rows, d), np.nan)
    scale = np.full((panel.rows, d), np.nan)
    read = reader(panel, device, model.rescaling())
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
    runs_as_series = -(-runs.length // longest)
    which = np.repeat(np.arange(len(runs)), runs_as_series)
    number = np.arange(len(which)) - np.repeat(
        np.cumsum(runs_as_series) - runs_as_series, runs_as_series
    )
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
    """Return E_k[z_t | history up to t - horizon] of every expert, (T, S, K, d).

    `mean` (T, S, d) holds the latents of S series side by side, `position` (T, S) the steps since
    the last gap. NaN without a full history; in memory the result is (K, d, T, S).
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


def jacobians(model: SequentialVAE, histories: np.ndarray) -> Iterator[np.ndarray]:
    """Yield d E_k[z_t] / d z_{t-lag} at histories (N, L*d), newest step first, in chunks.

    Each chunk is (K, n, L, d, d), lag 1 first; [..., i, j] is the effect of latent i on latent j.
    """
    experts, lags, d = model.experts, model.config.lags, model.config.latents
    chunk = CHUNK[model.config.experts]
    for first in range(0, len(histories), chunk):
        block = torch.from_numpy(histories[first : first + chunk]).to(model.centre)
        history = experts.for_all(block).clone().requires_grad_()
        expected = experts.conditional_mean(history)
        effects = [
            torch.autograd.grad(expected[..., j].sum(), history, retain_graph=True)[0]
            for j in range(d)
        ]
        stacked = torch.stack(effects, dim=-1)  # (K, n, L*d, d)
        yield stacked.unflatten(2, (lags, d)).cpu().double().numpy()


def histories_of(model: SequentialVAE, panel: Panel) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows with a full history, these histories (N, L*d), newest first, and latents (N, d)."""
    lags = model.config.lags
    rows = find_runs(panel, by_regime=False).rows_with_past(lags)
    if not len(rows):
        raise DataError(
            f"no recording has {lags + 1} rows without a gap", where=panel.source,
            fix="give longer recordings",
        )  # fmt: skip
    mean = encode(model, panel).mean
    histories = np.concatenate([mean[rows - lag] for lag in range(1, lags + 1)], axis=1)
    return rows, histories, mean[rows]
