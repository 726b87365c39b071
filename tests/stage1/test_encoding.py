"""Latents: chunks change nothing, context stops at gaps, unobserved rows stay NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from mechtrace.config import ModelConfig
from mechtrace.data.panel import Panel
from mechtrace.stage1 import encoding as latents
from mechtrace.stage1.encoding import encode
from mechtrace.stage1.vae import SequentialVAE

ENCODERS = ["mlp", "temporal"]


def a_model(encoder: str = "mlp", shape: tuple[int, ...] = (4,), **options: Any) -> SequentialVAE:
    torch.manual_seed(3)
    config = ModelConfig(hidden=8, latents=3, encoder=encoder, **options)  # type: ignore[arg-type]
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
