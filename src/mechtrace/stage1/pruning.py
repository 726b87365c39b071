"""Latents that carry nothing are taken out of a trained model; what is left does the same.

A latent whose posterior is as wide as its marginal is noise. Networks that read it get its mean
instead, as part of their biases.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._runtime.stochastic import generator, seeded
from ..data.panel import Panel
from ..data.segments import Runs, runs_as_series, subsample_runs
from .encoding import encode
from .experts import AffineExperts
from .fit_record import FitRecord, SizesRecord
from .fit_run import UNUSED_SHARE, FitRun
from .networks import SkipMLP
from .vae import SequentialVAE

logger = logging.getLogger(__name__)

#: Rows over all regimes from which `used_latents` decides, and rows of each for their means.
USED_ROWS, MEAN_ROWS = 1 << 15, 20_000


def used_latents(model: SequentialVAE, panel: Panel, runs: Runs, seed: int = 0) -> np.ndarray:
    """Find the latents whose posterior differs from the prior; regimes count about alike."""
    most = USED_ROWS // (1 + int(runs.regime.max()))
    some = subsample_runs(runs, most, generator(seed, "used latents"))
    found = encode(model, runs_as_series(panel, some))
    width = np.sqrt(np.nanmean(found.scale**2, axis=0))
    return np.flatnonzero(width < UNUSED_SHARE * np.hypot(width, np.nanstd(found.mean, axis=0)))


def prune(run: FitRun, record: FitRecord) -> tuple[FitRun, FitRecord]:
    """Return run and record of a model without unused latents; as they are, if all are used.

    Models of pictures stay as they are, and those whose parts are not made of `SkipMLP` and
    `AffineExperts`.
    """
    model, d = run.model, run.model.latents
    if run.frontend is not None or run.panel.is_image:
        return run, record
    writes, reads = _network(model, "encoder"), _network(model, "decoder")
    if writes is None or reads is None or not isinstance(model.experts, AffineExperts):
        return run, record
    used = used_latents(model, run.panel, run.runs[0], run.config.fit.seed)
    if not 0 < len(used) < d:
        return run, record
    logger.debug(f"{d - len(used)} of {d} latents carry nothing: they are taken out")
    keep = torch.from_numpy(used).to(model.centre.device)
    left = torch.as_tensor(np.setdiff1d(np.arange(d), used)).to(keep)
    some = subsample_runs(run.runs[0], MEAN_ROWS, generator(run.config.fit.seed, "unused"))
    found = np.nanmean(encode(model, runs_as_series(run.panel, some)).mean, axis=0)
    mean = torch.from_numpy(found).to(model.centre)[left]
    state = dict(model.state_dict())
    _write_only(state, writes, torch.cat([keep, d + keep]))
    _read_only(state, reads, keep, left, mean)
    _state_of_experts(state, model, keep, left, mean)
    config = replace(model.config, latents=len(used))
    with seeded(run.config.fit.seed):
        small = SequentialVAE(config, model.regimes, model.shape).to(model.centre.device)
    small.load_state_dict(state)
    run = replace(run, model=small, config=replace(run.config, model=config))
    sizes = replace(record.sizes or SizesRecord(), pruned=len(left))
    weights = sum(p.numel() for p in small.parameters())
    training = replace(record.training, parameters=weights)
    record = replace(record, settings=run.config, sizes=sizes, training=training)
    if record.validation is not None:
        record = replace(record, validation=replace(record.validation, unused_latents=0))
    return run, record


class _Network(NamedTuple):
    """Where a `SkipMLP` lies in the state of a model, and its number of layers."""

    name: str
    layers: int


def _network(model: SequentialVAE, part: str) -> _Network | None:
    """Find the network of the encoder that writes latents, or of the decoder that reads them."""
    for name in ("body", "head", "first"):
        found = getattr(getattr(model, part), name, None)
        if isinstance(found, SkipMLP):
            return _Network(f"{part}.{name}", len(found.layers))
    return None


def _write_only(state: dict[str, Tensor], network: _Network, keep: Tensor) -> None:
    last = f"{network.name}.layers.{network.layers - 1}"
    for name in (f"{last}.weight", f"{last}.bias", f"{network.name}.skip.weight"):
        state[name] = state[name][keep]


def _read_only(
    state: dict[str, Tensor], network: _Network, keep: Tensor, left: Tensor, mean: Tensor
) -> None:
    first, last = (f"{network.name}.layers.{number}" for number in (0, network.layers - 1))
    for weights, bias in ((f"{first}.weight", first), (f"{network.name}.skip.weight", last)):
        state[f"{bias}.bias"] = state[f"{bias}.bias"] + state[weights][:, left] @ mean
        state[weights] = state[weights][:, keep]


def _state_of_experts(
    state: dict[str, Tensor], model: SequentialVAE, keep: Tensor, left: Tensor, mean: Tensor
) -> None:
    """Slice the experts and the Gaussians of the first steps."""
    experts, d, lags = model.experts, model.latents, model.lags
    assert isinstance(experts, AffineExperts)
    past = (d * torch.arange(lags, device=keep.device)[:, None] + keep).flatten()
    gone = (d * torch.arange(lags, device=keep.device)[:, None] + left).flatten()
    constant = mean.repeat(lags)
    for layer, bias in (("first", "first"), ("skip", "last")):
        weight = getattr(experts, layer).weight  # (K, inputs, outputs)
        name = f"experts.{bias}.bias"
        state[name] = state[name] + (constant @ weight[:, gone])[:, None]
        for part in ("shared", "own"):
            state[f"experts.{layer}.{part}"] = state[f"experts.{layer}.{part}"][..., past, :]
    for name in ("last.shared", "last.own", "skip.shared", "skip.own", "last.bias"):
        state[f"experts.{name}"] = state[f"experts.{name}"][..., keep]
    for name in ("log_scale", "centre", "spread"):
        state[f"experts.{name}"] = state[f"experts.{name}"][..., keep]
    state["start_mean"] = state["start_mean"][..., keep]
    root = state["start_root"].double()
    diagonal = root.diagonal(dim1=1, dim2=2).exp()
    root = root.tril(-1) + torch.diag_embed(diagonal)
    covariance = torch.linalg.inv(root @ root.mT)[:, keep][:, :, keep]
    root = torch.linalg.cholesky(torch.linalg.inv(covariance))
    diagonal = root.diagonal(dim1=1, dim2=2).log()
    state["start_root"] = (root.tril(-1) + torch.diag_embed(diagonal)).to(model.centre)
