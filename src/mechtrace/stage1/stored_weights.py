"""Stored tensors -> the network, or the state of its training.

Nothing is built that the file does not hold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..config import ModelConfig
from ..errors import ConfigError
from ..io.tensor_schema import check_tensors, persistent_tensors
from ..io.typed_json import Count, Mismatch, NotNegative, plain
from .experts import AlignedExperts
from .fit_record import Evaluation, FitRecord
from .trainer import Trainer, TrainState
from .vae import SequentialVAE

#: Tensors by which something is divided; the last two are of flows.
DIVISORS = ("scale", "spread", "unit", "base.scale", "base._1")
#: Of channels that float32 cannot hold; most files lack them.
OPTIONAL = ("origin", "unit")
#: Standard deviations of an ordinary value, and the largest latent that one can lead to.
ORDINARY, LARGEST_LATENT = 3.0, 1e6
#: Condition of a map between coordinates, at most.
WORST_CONDITION = 1e9


def restored_network(record: FitRecord, stored: Mapping[str, Tensor]) -> SequentialVAE:
    """Build the network of a record and load its weights; raise `Mismatch` if they do not fit."""
    config, (kinds, shape) = record.settings.model, (len(record.data.regimes), record.data.shape)
    aligned = record.refit is not None and record.refit.gain > 0
    _check_room(config, kinds, shape, stored)
    meta = config if config.experts != "maf" else replace(config, experts="affine")
    with torch.device("meta"):  # names and shapes without memory; masks of a MAF need values
        expected = persistent_tensors(_new(meta, kinds, shape, aligned))
    if meta is config:
        check_tensors("weights", expected, stored, optional=OPTIONAL)
    else:
        check_tensors("weights", _but_experts(expected), _but_experts(stored), optional=OPTIONAL)
    model = _new(config, kinds, shape, aligned)
    check_tensors("weights", persistent_tensors(model), stored, DIVISORS, OPTIONAL)
    if aligned and not torch.linalg.cond(stored["experts.matrix"].double()) < WORST_CONDITION:
        raise Mismatch("weights/experts.matrix is not invertible")
    model.load_state_dict(dict(stored))
    if sum(p.numel() for p in model.parameters()) != record.training.parameters:
        raise Mismatch("training.parameters is not the number of weights")
    _check_answers(model.eval())
    return model


@torch.no_grad()
def _check_answers(model: SequentialVAE) -> None:
    """Refuse weights with which ordinary rows, or the histories of training, lead nowhere."""
    steps = torch.tensor([-ORDINARY, 0.0, ORDINARY]).reshape(3, *[1] * len(model.shape))
    latents = torch.cat(model.encode(model.centre + steps * model.scale))
    experts = model.experts
    states = experts.centre + steps.reshape(3, 1) * experts.spread
    means = experts.conditional_mean(states.repeat(1, model.lags))
    for name, found in (("encoder", latents), ("experts", means)):
        if not (found.abs() <= LARGEST_LATENT).all():
            raise Mismatch(f"weights of the {name} give no usable latents")


def _but_experts(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in tensors.items() if not name.startswith("experts.")}


def _new(
    config: ModelConfig, regimes: int, shape: tuple[int, ...], aligned: bool
) -> SequentialVAE:
    try:
        model = SequentialVAE(config, regimes, shape)
        if aligned:
            model.experts = AlignedExperts(model.new_experts())
    except (ConfigError, ValueError, RuntimeError) as error:  # torch knows more limits than we do
        raise Mismatch(f"settings: {str(error).splitlines()[0][:200]}") from error
    return model


def _check_room(
    config: ModelConfig, regimes: int, shape: tuple[int, ...], stored: Mapping[str, Tensor]
) -> None:
    """Refuse settings of a network with more layers or weights than the stored tensors have."""
    tensors, weights = len(stored), sum(tensor.numel() for tensor in stored.values())
    inputs = config.latents * config.lags + regimes
    depth = max(config.layers, config.depth_of_experts)
    context = config.lags if config.context is None else config.context
    needed = {
        "layers": (depth, tensors),
        "shape": (math.prod(shape), weights),
        "context": (context, weights),
        "lags": (inputs * config.hidden, weights),
        "latents": (regimes * config.latents**2, weights),
        "expert_layers": ((config.depth_of_experts - 2) * config.hidden**2, weights),
    }
    for name, (least, available) in needed.items():
        if least > available:
            raise Mismatch(f"settings: {name} needs more weights than are stored")


@dataclass(frozen=True)
class Counters:
    """The numbers of a `TrainState` as stored; without an evaluation there is no best one."""

    step: Count
    best_elbo: float | None
    best_step: Count
    stale: Count
    seconds: NotNegative
    history: tuple[Evaluation, ...]


def stored_state(
    counters: Counters, tensors: dict[str, dict[str, Tensor]], trainer: Trainer
) -> TrainState:
    """Check the state of a checkpoint against the run that it shall continue."""
    steps, evaluated = trainer.config.steps, bool(counters.history)
    if not counters.best_step <= counters.step <= steps or (
        evaluated != (counters.best_elbo is not None)
    ):
        raise Mismatch("counters contradict each other")
    weights, moments = tensors.get("weights", {}), tensors.get("training", {})
    expected = {f"weights/{name}": p.detach() for name, p in trainer.parameters.items()}
    if counters.step:
        for name, p in trainer.parameters.items():
            expected |= {
                f"optimiser/step/{name}": torch.zeros(()),
                f"optimiser/exp_avg/{name}": p.detach(),
                f"optimiser/exp_avg_sq/{name}": p.detach(),
            }
    check_tensors("training", expected, moments)
    best = {name: weights[name] for name in trainer.parameters.keys() & weights.keys()}
    check_tensors("weights", dict(trainer.parameters), best)
    numbers = plain(counters)
    if not evaluated:
        numbers["best_elbo"] = -math.inf
    return TrainState(**numbers, tensors=moments | {f"best/{n}": t for n, t in best.items()})
