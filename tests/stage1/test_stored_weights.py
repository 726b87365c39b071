"""Stored tensors: every kind of network comes back, and none that the record does not describe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from mechtrace.config import RunConfig
from mechtrace.io.typed_json import Mismatch
from mechtrace.stage1.experts import AlignedExperts
from mechtrace.stage1.fit_record import FitRecord, RefitRecord
from mechtrace.stage1.stored_weights import restored_network
from mechtrace.stage1.vae import SequentialVAE

Tensors = dict[str, torch.Tensor]


def stored_network(trained, refit: bool = False, **settings: Any) -> tuple[FitRecord, Tensors]:
    """The record and the tensors of an untrained network."""
    config = RunConfig.from_options(latents=4, lags=2, hidden=8, **settings)
    model = SequentialVAE(config.model, 3, (6,))
    if refit:
        model.experts = AlignedExperts(model.new_experts())
    count = sum(p.numel() for p in model.parameters())
    record = replace(
        trained.record_,
        settings=config,
        training=replace(trained.record_.training, parameters=count),
        refit=RefitRecord(10, 0.1) if refit else None,
    )
    return record, dict(model.state_dict())


@pytest.mark.parametrize("refit", [False, True])
@pytest.mark.parametrize("experts", ["affine", "nonparametric", "spline", "maf"])
def test_every_kind_of_expert_comes_back(trained, experts: str, refit: bool) -> None:
    record, tensors = stored_network(trained, refit, experts=experts)
    again = restored_network(record, tensors).state_dict()
    assert again.keys() == tensors.keys()
    assert all(torch.equal(again[name], tensors[name]) for name in tensors)


@pytest.mark.parametrize(
    "settings", [{"encoder": "temporal"}, {"layers": 4, "expert_layers": 5}, {"context": 0}]
)
def test_every_shape_of_network_comes_back(trained, settings: dict[str, Any]) -> None:
    record, tensors = stored_network(trained, **settings)
    assert restored_network(record, tensors).config == record.settings.model


def first(tensors: Tensors, part: str) -> str:
    return next(name for name in tensors if part in name)


FORGED: dict[str, tuple[str, Callable[[Tensors], object]]] = {
    r"no tensor weights/start_mean": ("affine", lambda t: t.pop("start_mean")),
    r"unknown tensor weights/odd": ("affine", lambda t: t.update(odd=torch.ones(1))),
    r"weights/centre is torch.float64 \(6,\)": (
        "affine",
        lambda t: t.update(centre=t["centre"].double()),
    ),
    r"weights/start_mean is torch.float32 \(12,\), not": (
        "affine",
        lambda t: t.update(start_mean=t["start_mean"].flatten()),
    ),
    r"weights/log_noise is not finite": ("affine", lambda t: t["log_noise"].fill_(torch.nan)),
    r"weights/scale is not positive": ("affine", lambda t: t["scale"].zero_()),
    r"weights/experts.spread is not positive": (
        "affine",
        lambda t: t["experts.spread"].fill_(-1),
    ),
    r"encoder give no usable latents": (
        "affine",
        lambda t: t["encoder.body.skip.weight"].fill_(1e30),
    ),
    r"experts give no usable latents": ("affine", lambda t: t["experts.last.bias"].fill_(1e30)),
    r"order is not that of a new network": ("maf", lambda t: t[first(t, ".order")].fill_(99)),
    r"mask is not that of a new network": ("maf", lambda t: t[first(t, ".mask")].fill_(True)),
    r"base.scale is not positive": ("maf", lambda t: t[first(t, "base.scale")].zero_()),
    r"base._1 is not positive": ("spline", lambda t: t[first(t, "base._1")].zero_()),
}


@pytest.mark.parametrize("message", FORGED)
def test_forged_tensors_are_named(trained, message: str) -> None:
    experts, change = FORGED[message]
    record, tensors = stored_network(trained, experts=experts)
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    change(tensors)
    with pytest.raises(Mismatch, match=message):
        restored_network(record, tensors)


def test_a_map_between_coordinates_is_invertible(trained) -> None:
    record, tensors = stored_network(trained, refit=True)
    tensors["experts.matrix"] = torch.ones(4, 4)
    with pytest.raises(Mismatch, match=r"experts.matrix is not invertible"):
        restored_network(record, tensors)


def test_the_number_of_weights_is_that_of_the_record(trained) -> None:
    record, tensors = stored_network(trained)
    wrong = replace(record, training=replace(record.training, parameters=1))
    with pytest.raises(Mismatch, match=r"training.parameters"):
        restored_network(wrong, tensors)
