"""Nets: shapes, causality, exact reach, repeated first rows, gradients everywhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from mechtrace.stage1.networks import (
    ImageDecoder,
    ImageEncoder,
    MLPDecoder,
    MLPEncoder,
    SkipMLP,
    TemporalEncoder,
    halvings,
    split_posterior,
    with_past,
)

Build = Callable[[], nn.Module]
ENCODERS: dict[str, tuple[Build, tuple[int, ...], int]] = {
    "mlp-0": (lambda: MLPEncoder(3, 2, context=0, hidden=8), (3,), 0),
    "mlp-1": (lambda: MLPEncoder(3, 2, context=1, hidden=8, layers=2), (3,), 1),
    "mlp-4": (lambda: MLPEncoder(3, 2, context=4, hidden=8), (3,), 4),
    "temporal-1": (lambda: TemporalEncoder(3, 2, context=0, hidden=8, layers=1), (3,), 1),
    "temporal-3": (lambda: TemporalEncoder(3, 2, context=2, hidden=8, layers=3), (3,), 7),
    "temporal-far": (lambda: TemporalEncoder(3, 2, context=9, hidden=8, layers=2), (3,), 9),
    "image-0": (lambda: ImageEncoder((8, 8), 2, context=0, hidden=8, width=2), (8, 8), 0),
    "image-2": (lambda: ImageEncoder((8, 8), 2, context=2, hidden=8, width=2), (8, 8), 2),
}
encoders = pytest.mark.parametrize("name", sorted(ENCODERS))


def built(name: str) -> tuple[nn.Module, tuple[int, ...], int]:
    torch.manual_seed(1)
    build, shape, reach = ENCODERS[name]
    return build().double(), shape, reach


def noise(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


def both(encoder: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.cat(encoder(x), dim=-1)


def depends(before: Tensor, after: Tensor) -> list[int]:
    """Steps of (1, T, 2d) whose output moved."""
    moved = (before - after).abs().amax(dim=(0, 2)) > 1e-10
    return torch.nonzero(moved).flatten().tolist()


@encoders
def test_encoders_see_exactly_reach_rows_back_and_none_ahead(name: str) -> None:
    encoder, shape, reach = built(name)
    assert encoder.reach == reach
    x = noise(1, 25, *shape)
    before = both(encoder, x)
    for row in (0, 11, 24):
        other = x.clone()
        other[:, row] += noise(*shape) + 3
        changed = depends(before, both(encoder, other))
        assert changed[0] == row  # nothing before
        assert changed[-1] == min(row + reach, 24)  # nothing later than reach
    # every row inside the reach of an MLP counts
    if not name.startswith("temporal"):
        other = x.clone()
        other[:, 11] += 3
        assert depends(before, both(encoder, other)) == list(range(11, 12 + reach))


@encoders
def test_a_piece_with_its_reach_gives_the_same_posterior(name: str) -> None:
    encoder, shape, reach = built(name)
    x = noise(2, 30, *shape)
    whole = both(encoder, x)
    piece = both(encoder, x[:, 15 - reach :])
    torch.testing.assert_close(piece[:, reach:], whole[:, 15:], rtol=1e-10, atol=1e-10)
    if reach:
        short = both(encoder, x[:, 16 - reach :])  # one row less is too few
        assert (short[:, reach - 1] - whole[:, 15]).abs().max() > 1e-8


@encoders
def test_before_the_start_the_first_row_is_repeated(name: str) -> None:
    encoder, shape, reach = built(name)
    x = noise(1, 5, *shape)
    longer = torch.cat([x[:, :1].expand(1, reach + 3, *shape), x], dim=1)
    torch.testing.assert_close(
        both(encoder, longer)[:, reach + 3 :], both(encoder, x), rtol=1e-10, atol=1e-10
    )


@encoders
@pytest.mark.parametrize("lead", [(1,), (3,), (2, 3), (2, 1, 3)])
def test_encoders_take_any_leading_dimensions(name: str, lead: tuple[int, ...]) -> None:
    encoder, shape, _ = built(name)
    x = noise(*lead, 6, *shape)
    mean, log_scale = encoder(x)
    assert mean.shape == log_scale.shape == (*lead, 6, 2)
    alone = encoder(x.reshape(-1, 6, *shape)[:1])[0]
    torch.testing.assert_close(mean.reshape(-1, 6, 2)[:1], alone, rtol=1e-10, atol=1e-10)
    one_row = encoder(x[(0,) * len(lead)][None, :1])[0]
    assert one_row.shape == (1, 1, 2)


@pytest.mark.parametrize(
    "name",
    [
        "mlp-4",
        "image-2",
        "temporal-3",
    ],
)
def test_encoders_take_a_single_series(name: str) -> None:
    encoder, shape, _ = built(name)
    x = noise(6, *shape)
    mean, _ = encoder(x)
    torch.testing.assert_close(mean, encoder(x[None])[0][0], rtol=1e-10, atol=1e-10)


@encoders
def test_gradients_reach_every_parameter_of_an_encoder(name: str) -> None:
    encoder, shape, _ = built(name)
    mean, log_scale = encoder(noise(2, 12, *shape))
    (mean.square().sum() + log_scale.square().sum()).backward()
    for key, parameter in encoder.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.abs().max() > 0, key


SIZES = [(16, 16), (12, 20), (64, 64), (15, 9), (4, 4)]


@pytest.mark.parametrize("size", SIZES)
def test_image_nets_fit_every_size(size: tuple[int, int]) -> None:
    torch.manual_seed(0)
    encoder = ImageEncoder(size, latents=3, context=1, hidden=8, width=4)
    decoder = ImageDecoder(size, latents=3, hidden=8, width=4)
    x = noise(2, 2, 5, *size).float()
    mean, log_scale = encoder(x)
    assert mean.shape == log_scale.shape == (2, 2, 5, 3)
    frame = decoder(mean)
    assert frame.shape == x.shape
    (frame.square().mean() + log_scale.square().mean()).backward()
    for net in (encoder, decoder):
        for key, parameter in net.named_parameters():
            assert parameter.grad is not None, key
            assert parameter.grad.abs().max() > 0, key
    # each frame comes from the latents of its own step alone
    other = mean.detach().clone()
    other[..., 2, :] += 1
    moved = (decoder(other) - frame).abs().amax(dim=(0, 1, 3, 4)) > 1e-6
    assert moved.tolist() == [False, False, True, False, False]


def test_every_pixel_is_seen_and_painted() -> None:
    torch.manual_seed(0)
    size = (12, 20)
    encoder = ImageEncoder(size, latents=3, context=0, hidden=8, width=4)
    x = noise(1, 1, *size).float().requires_grad_()
    encoder(x)[0].sum().backward()
    assert x.grad is not None
    assert (x.grad != 0).all()
    decoder = ImageDecoder(size, latents=3, hidden=8, width=4)
    z = noise(2, 1, 3).float()
    first, second = decoder(z)
    assert (first != second).all()


@pytest.mark.parametrize(
    ("size", "steps"),
    [((16, 16), 2), ((12, 20), 2), ((64, 64), 4), ((15, 9), 0), ((4, 4), 0), ((8, 6), 1)],
)
def test_halvings(size: tuple[int, int], steps: int) -> None:
    assert halvings(size) == steps


def test_mlp_decoder_works_step_by_step() -> None:
    torch.manual_seed(0)
    decoder = MLPDecoder(5, 3, hidden=8).double()
    z = noise(2, 4, 3)
    x = decoder(z)
    assert x.shape == (2, 4, 5)
    torch.testing.assert_close(decoder(z[1, 2]), x[1, 2], rtol=1e-10, atol=1e-10)
    x.square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in decoder.parameters())


@pytest.mark.parametrize("layers", [1, 2, 4])
def test_skip_mlp_is_a_network_beside_a_linear_map(layers: int) -> None:
    torch.manual_seed(0)
    net = SkipMLP(3, 2, hidden=6, layers=layers).double()
    assert len(net.layers) == layers
    x = noise(7, 3)
    h = x
    for position, layer in enumerate(net.layers):
        h = h @ layer.weight.T + layer.bias
        if position < layers - 1:
            h = torch.where(h > 0, h, 0.2 * h)
    torch.testing.assert_close(net(x), h + x @ net.skip.weight.T)
    nn.init.zeros_(net.layers[-1].weight)
    nn.init.zeros_(net.layers[-1].bias)
    torch.testing.assert_close(net(x), x @ net.skip.weight.T)


def test_with_past_puts_older_rows_to_the_right() -> None:
    x = torch.tensor([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]])
    assert with_past(x, 2).tolist() == [
        [1, 10, 1, 10, 1, 10],
        [2, 20, 1, 10, 1, 10],
        [3, 30, 2, 20, 1, 10],
    ]
    assert with_past(x, 0) is x
    assert with_past(x[None, None], 4).shape == (1, 1, 3, 10)
    assert with_past(x[:1], 3).tolist() == [[1, 10] * 4]


def test_split_posterior_keeps_the_scale_in_range() -> None:
    out = torch.tensor([[1.0, -2.0, -400.0, 400.0], [3.0, 4.0, 0.5, -0.5]])
    mean, log_scale = split_posterior(out)
    assert mean.tolist() == [[1.0, -2.0], [3.0, 4.0]]
    assert log_scale.tolist() == [[-10.0, 5.0], [0.5, -0.5]]
