"""Latents: chunks change nothing, context stops at gaps, unobserved rows stay NaN."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from mechtrace.config import ModelConfig
from mechtrace.data.crops import CropSampler
from mechtrace.data.device import on_device
from mechtrace.data.panel import Panel
from mechtrace.data.segments import training_runs
from mechtrace.stage1 import encoding as latents
from mechtrace.stage1.encoding import encode
from mechtrace.stage1.trainer import Batches
from mechtrace.stage1.vae import SequentialVAE

ENCODERS = ["mlp", "temporal"]


def a_model(encoder: str = "mlp", shape: tuple[int, ...] = (4,), **options: Any) -> SequentialVAE:
    torch.manual_seed(3)
    config = ModelConfig(3, 2, hidden=8, encoder=encoder, **options)  # type: ignore[arg-type]
    model = SequentialVAE(config, regimes=2, shape=shape)
    model.centre += 0.5
    model.scale *= 2.0
    return model


def some_series(*lengths: int, shape: tuple[int, ...] = (4,)) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal((n, *shape)).astype(np.float32) for n in lengths]


def directly(model: SequentialVAE, block: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One stretch of rows through the encoder, by itself."""
    with torch.no_grad():
        mean, log_scale = model.encode(torch.from_numpy(block)[None])
    return mean[0].double().numpy(), log_scale[0].double().exp().numpy()


def close(a: np.ndarray, b: np.ndarray) -> None:
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_every_series_is_encoded_as_if_it_were_alone(encoder: str) -> None:
    model = a_model(encoder)
    data = some_series(30, 1, 7, 30, 2, 55)
    found = encode(model, Panel.from_arrays(data, names=list("zyxabc")))
    assert found.names.tolist() == list("zyxabc")
    assert found.offsets.tolist() == [0, 30, 31, 38, 68, 70, 125]
    assert found.mean.dtype == found.scale.dtype == np.float64
    for block, mean, start in zip(data, found.arrays(), found.offsets[:-1], strict=True):
        expected, scale = directly(model, block)
        close(mean, expected)
        close(found.scale[start : start + len(block)], scale)
    assert (found.scale > 0).all()


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("chunk", [1, 2, 3, 8, 33, 64])
def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch, encoder: str, chunk: int) -> None:
    model = a_model(encoder, layers=3)
    panel = Panel.from_arrays(some_series(64, 5, 33, 1, 64, 9))
    whole = encode(model, panel)
    seen: list[int] = []
    plain = model.encode

    def counted(x: torch.Tensor) -> Any:
        seen.append(x.shape[0] * x.shape[1])
        return plain(x)

    monkeypatch.setattr(latents, "CHUNK_ROWS", chunk)
    monkeypatch.setattr(model, "encode", counted)
    pieces = encode(model, panel)
    close(pieces.mean, whole.mean)
    close(pieces.scale, whole.scale)
    reach = int(model.encoder.reach)  # type: ignore[arg-type]
    assert len(seen) > 1
    assert max(seen) <= max(2 * chunk, chunk + reach)  # memory stays bounded


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("chunk", [4, 1 << 15])
def test_context_stops_at_gaps(monkeypatch: pytest.MonkeyPatch, encoder: str, chunk: int) -> None:
    monkeypatch.setattr(latents, "CHUNK_ROWS", chunk)
    model = a_model(encoder, layers=3)
    (block,) = some_series(30)
    block[12, 1] = np.nan
    time = np.arange(30.0)
    time[20:] += 50
    panel = Panel.from_arrays([block], time=[time], missing="gap", gap=1.5)
    found = encode(model, panel)
    for rows in (slice(0, 12), slice(13, 20), slice(20, 30)):
        mean, scale = directly(model, block[rows])
        close(found.mean[rows], mean)
        close(found.scale[rows], scale)
    assert np.isnan(found.mean[12]).all()
    assert np.isnan(found.scale[12]).all()
    assert np.isfinite(np.delete(found.mean, 12, axis=0)).all()
    # what is before a gap does not matter after it
    other = block.copy()
    other[:20] += 5
    later = encode(model, Panel.from_arrays([other], time=[time], missing="gap", gap=1.5))
    np.testing.assert_array_equal(later.mean[20:], found.mean[20:])
    assert np.nanmin(np.abs(later.mean[:20] - found.mean[:20]).max(axis=1)) > 1e-3
    # without the gap it would
    smooth = encode(model, Panel.from_arrays([block], missing="gap"))
    assert np.abs(smooth.mean[20] - found.mean[20]).max() > 1e-3


def test_labels_do_not_break_the_context() -> None:
    model = a_model()
    data = some_series(12)
    labels = [["a"] * 5 + [""] * 2 + ["b"] * 5]
    labelled = encode(model, Panel.from_arrays(data, regime=labels))
    plain = encode(model, Panel.from_arrays(data))
    np.testing.assert_array_equal(labelled.mean, plain.mean)


def test_series_without_any_observed_row() -> None:
    model = a_model()
    data = some_series(6, 6)
    data[0][:] = np.nan
    found = encode(model, Panel.from_arrays(data, missing="gap"))
    assert np.isnan(found.mean[:6]).all()
    close(found.mean[6:], directly(model, data[1])[0])
    empty = encode(model, Panel.from_arrays(data[:1], missing="gap"))
    assert empty.mean.shape == (6, 3)
    assert np.isnan(empty.mean).all()


@pytest.mark.parametrize("dtype", [np.float64, np.int16, np.uint8])
def test_other_number_types_are_encoded_too(dtype: type) -> None:
    model = a_model()
    values = np.random.default_rng(0).integers(0, 9, (2, 10, 4))
    found = encode(model, Panel.from_arrays(values.astype(dtype)))
    close(found.mean, encode(model, Panel.from_arrays(values.astype(np.float32))).mean)


def test_images() -> None:
    model = a_model("auto", shape=(8, 8))
    data = some_series(5, 9, shape=(8, 8))
    found = encode(model, Panel.from_arrays(data))
    close(found.mean[5:], directly(model, data[1])[0])
    assert found.mean.shape == (14, 3)


def test_no_gradients_are_kept() -> None:
    model = a_model()
    encode(model, Panel.from_arrays(some_series(5)))
    assert all(p.grad is None for p in model.parameters())
    assert torch.is_grad_enabled()


def offset_channels(panel: Panel) -> tuple[Panel, tuple[np.ndarray, np.ndarray]]:
    """Channels as UTM metres, and in a very small unit; with the units of all."""
    unit, origin = np.array([1.0, 0.1, 1e-30, 1.0]), np.array([0.0, 4.5e6, 0.0, -1e7])
    units = unit * 0.5 + origin, unit * 2.0
    return replace(panel, values=panel.values.astype(np.float64) * unit + origin), units


@pytest.mark.parametrize("double", [False, True])
def test_a_large_offset_and_a_small_unit_change_no_latent(double: bool) -> None:
    panel = Panel.from_arrays(some_series(40, 25))
    offset, units = offset_channels(panel)
    plain, model = a_model(), a_model()
    model.set_units(*units)
    if double:
        plain, model = plain.double(), model.double()
    expected, found = encode(plain, panel), encode(model, offset)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.units(), units, rtol=1e-7)
    with torch.no_grad():
        decoded = plain.in_units_of_data(torch.ones(3, 4, dtype=plain.centre.dtype))
        shifted = model.in_units_of_data(torch.ones(3, 4, dtype=plain.centre.dtype)).numpy()
    raw = offset_channels(replace(panel[:1], values=decoded.numpy(), offsets=np.array([0, 3])))[0]
    np.testing.assert_allclose(shifted, raw.values, rtol=1e-12)


def test_training_batches_keep_what_lies_on_a_large_offset() -> None:
    panel = Panel.from_arrays(some_series(40, 25, 40, 25), regime=list("abab"))
    offset, units = offset_channels(panel)
    plain, model = a_model(), a_model()
    model.set_units(*units)
    found = []
    for data, learner in ((panel, plain), (offset, model)):
        sampler = CropSampler(training_runs(data, 2), 2, 2, 10, seed=0)
        batches = Batches(data, sampler, 3, torch.device("cpu"), rescaling=learner.rescaling())
        batches.load(0)
        assert batches.x.dtype == torch.float32
        found.append(learner.standardise(batches.x).numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-6)


def test_only_rescaled_models_store_a_rescaling() -> None:
    plain, model = a_model(), a_model()
    assert not {"origin", "unit"} & set(plain.state_dict())
    model.set_units(*offset_channels(Panel.from_arrays(some_series(4)))[1])
    other = a_model()
    other.load_state_dict(model.state_dict())
    assert other.origin.tolist() == model.origin.tolist() != [0.0] * 4
    other.load_state_dict(plain.state_dict())  # as stored by older versions
    assert other.rescaling() is None


@pytest.mark.cuda
def test_a_panel_on_a_gpu_keeps_what_lies_on_a_large_offset() -> None:
    device = torch.device("cuda")
    panel = Panel.from_arrays(some_series(40, 25))
    offset, units = offset_channels(panel)
    plain, model = a_model().to(device), a_model().to(device)
    model.set_units(*units)
    for data, learner in ((panel, plain), (offset, model)):
        resident = on_device(data, device, learner.rescaling())
        assert resident is not None
        assert resident.dtype == torch.float32
        found = learner.standardise(resident).cpu().numpy()
        np.testing.assert_allclose(found, (panel.values - 0.5) / 2.0, rtol=1e-5, atol=1e-6)
    close(encode(model, offset).mean, encode(plain, panel).mean)
