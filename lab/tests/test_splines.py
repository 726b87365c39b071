"""Rational splines: monotone, invertible, slopes as autograd has them, the identity at first."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mechtrace_lab.baselines.splines import RationalSplines

CURVES = 6


def bent(seed: int = 0, size: float = 1.5) -> RationalSplines:
    torch.manual_seed(seed)
    splines = RationalSplines(CURVES).double()
    with torch.no_grad():
        for p in splines.parameters():
            p.normal_(0, size)
    return splines


def grid(points: int = 4001, reach: float = 7.0) -> torch.Tensor:
    return torch.linspace(-reach, reach, points, dtype=torch.float64).expand(CURVES, -1)


def test_the_identity_at_the_start() -> None:
    value, slope = RationalSplines(CURVES).double()(grid())
    torch.testing.assert_close(value, grid())
    torch.testing.assert_close(slope, torch.ones_like(slope))


@pytest.mark.parametrize("size", [0.3, 1.5, 4.0])
def test_monotone_with_the_slope_of_autograd(size: float) -> None:
    splines = bent(size=size)
    x = grid().clone().requires_grad_()
    value, slope = splines(x)
    (derivative,) = torch.autograd.grad(value.sum(), x)
    torch.testing.assert_close(slope, derivative)
    assert (value.diff(dim=1) > 0).all()
    assert (slope > 0).all()


def test_the_identity_outside_the_bound_and_no_jump_at_it() -> None:
    splines = bent()
    value, slope = splines(grid())
    outside = grid().abs() >= splines.bound
    assert torch.equal(value[outside], grid()[outside])
    assert (slope[outside] == 1).all()
    edge = torch.tensor([[-5 + 1e-9, 5 - 1e-9]], dtype=torch.float64).expand(CURVES, -1)
    value, slope = splines(edge)
    torch.testing.assert_close(value, edge, rtol=0, atol=1e-7)
    torch.testing.assert_close(slope, torch.ones_like(slope), rtol=0, atol=1e-5)


def test_it_goes_through_its_knots_with_their_slopes_and_these_are_continuous() -> None:
    splines = bent()
    knots, table = splines.table()
    heights = table[..., 3]
    for side in (-1e-9, 1e-9):
        value, slope = splines(knots[:, 1:] + side)
        torch.testing.assert_close(value, heights[:, 1:], rtol=0, atol=1e-6)
        expected = torch.nn.functional.softplus(splines.slopes + np.log(np.expm1(0.999))) + 1e-3
        torch.testing.assert_close(slope, expected, rtol=1e-5, atol=1e-5)
    middle = table[..., 0] + table[..., 1] * table[..., 2]
    before, after = splines(middle - 1e-9), splines(middle + 1e-9)
    torch.testing.assert_close(before[0], after[0], rtol=0, atol=1e-5)
    torch.testing.assert_close(before[1], after[1], rtol=1e-4, atol=1e-5)


def test_every_value_is_reached_once() -> None:
    splines = bent()
    wanted = torch.linspace(-6, 6, 301, dtype=torch.float64).expand(CURVES, -1)
    low, high = wanted - 20, wanted + 20
    with torch.no_grad():
        for _ in range(80):
            middle = (low + high) / 2
            small = splines(middle)[0] < wanted
            low, high = torch.where(small, middle, low), torch.where(small, high, middle)
        torch.testing.assert_close(splines(low)[0], wanted, rtol=0, atol=1e-9)


def test_each_row_has_its_own_curve_and_all_parameters_learn() -> None:
    splines = bent()
    x = grid(201)
    value, slope = splines(x)
    for c in range(CURVES):
        alone = RationalSplines(1).double()
        with torch.no_grad():
            for own, all_of_them in zip(alone.parameters(), splines.parameters(), strict=True):
                own.copy_(all_of_them[c : c + 1])
        torch.testing.assert_close(alone(x[c : c + 1])[0][0], value[c])
    (value.sin() + slope.log()).sum().backward()
    for p in splines.parameters():
        assert p.grad is not None
        assert torch.isfinite(p.grad).all()
        assert (p.grad != 0).all()
