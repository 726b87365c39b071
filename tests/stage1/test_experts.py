"""One contract for every kind of expert; the analytic derivative against a Jacobian."""

from __future__ import annotations

import math

import pytest
import torch

from mechtrace.config import EXPERTS
from mechtrace.stage1.experts import (
    AffineExperts,
    NonparametricExperts,
    make_experts,
    stack_history,
)

K, N, D, L = 3, 7, 4, 2


def bank(kind, layers=3, seed=0, dtype=torch.float64, latents=D):
    torch.manual_seed(seed)
    experts = make_experts(kind, K, latents, L, hidden=12, layers=layers).to(dtype)
    with torch.no_grad():
        for parameter in experts.parameters():  # own parts start at zero: move everything
            parameter.add_(0.3 * torch.randn_like(parameter))
    return experts


def batch(seed=1, rows=N, latents=D, dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)
    z = torch.randn(K, rows, latents, generator=g, dtype=dtype)
    return z, torch.randn(K, rows, latents * L, generator=g, dtype=dtype)


@pytest.mark.parametrize("kind", EXPERTS)
class TestContract:
    def test_shapes_and_gradients(self, kind):
        experts = bank(kind)
        z, history = batch()
        z.requires_grad_()
        history.requires_grad_()
        value = experts.log_prob(z, history)
        assert value.shape == (K, N)
        value.sum().backward()
        for tensor in (z, history):
            assert torch.isfinite(tensor.grad).all()
            assert (tensor.grad != 0).any()
        missing = [n for n, p in experts.named_parameters() if p.grad is None]
        assert missing == []
        assert experts.conditional_mean(history[0]).shape == (K, N, D)
        assert experts.noise_scale(history[0]).shape == (K, N, D)
        assert experts.deviation().shape == ()

    def test_each_block_is_judged_by_its_own_expert(self, kind):
        """Rows of one regime know nothing of the other blocks, and experts differ."""
        experts = bank(kind)
        z, history = batch()
        same = z[:1].expand(K, -1, -1), history[:1].expand(K, -1, -1)
        value = experts.log_prob(*same)
        assert not torch.allclose(value[0], value[1])
        changed = z.clone()
        changed[1] += 1.0
        before, after = experts.log_prob(z, history), experts.log_prob(changed, history)
        assert torch.equal(before[[0, 2]], after[[0, 2]])
        assert not torch.allclose(before[1], after[1])

    def test_density_integrates_to_one(self, kind):
        experts = bank(kind, latents=1, seed=3)
        if kind == "nonparametric":  # a density only while each g_i is monotone: keep it mild
            with torch.no_grad():
                experts.last.shared.mul_(0.05)
                experts.last.own.mul_(0.05)
        grid = torch.linspace(-60, 60, 20001, dtype=torch.float64)
        z = grid[None, :, None].expand(K, -1, -1)
        _, history = batch(rows=1, latents=1)
        log_p = experts.log_prob(z, history.expand(-1, len(grid), -1).contiguous())
        total = torch.trapezoid(log_p.exp(), grid, dim=1)
        assert torch.allclose(total, torch.ones(K, dtype=torch.float64), atol=2e-3)

    def test_mean_and_scale_are_those_of_the_density(self, kind):
        experts = bank(kind, latents=1, seed=3)
        if kind == "nonparametric":
            with torch.no_grad():
                experts.last.shared.mul_(0.05)
                experts.last.own.mul_(0.05)
        experts.centre.fill_(0.0)
        experts.spread.fill_(2.0)
        grid = torch.linspace(-60, 60, 20001, dtype=torch.float64)
        _, history = batch(rows=1, latents=1)
        log_p = experts.log_prob(
            grid[None, :, None].expand(K, -1, -1), history.expand(-1, len(grid), -1).contiguous()
        )
        p = log_p.exp()
        mean = torch.trapezoid(p * grid, grid, dim=1)
        scale = torch.trapezoid(p * (grid - mean[:, None]) ** 2, grid, dim=1).sqrt()
        # flows are integrated with 64 quasi-random points, nonparametric ones on 129 points
        tolerance = 0.05 if kind in ("spline", "maf") else 1e-3
        assert torch.allclose(experts.conditional_mean(history)[:, 0, 0], mean, atol=tolerance)
        assert torch.allclose(experts.noise_scale(history)[:, 0, 0], scale, rtol=0.08)

    def test_shared_histories_equal_repeated_ones(self, kind):
        experts = bank(kind)
        _, history = batch()
        once = experts.conditional_mean(history[0])
        repeated = experts.conditional_mean(history[:1].repeat(K, 1, 1))
        assert torch.allclose(once, repeated)


def reference_log_prob(experts, z, history):
    """log |det| from a full autograd Jacobian of the residuals, one row at a time."""
    out = torch.zeros(K, z.shape[1], dtype=z.dtype)
    for k in range(K):
        for n in range(z.shape[1]):

            def residual(value, k=k, n=n):
                rows = z[:, n : n + 1].clone()
                rows[k, 0] = value
                return experts.residual_and_slope(rows, history[:, n : n + 1])[0][k, 0]

            jacobian = torch.autograd.functional.jacobian(
                residual, z[k, n], create_graph=True, vectorize=False
            )
            eps = residual(z[k, n])
            density = -0.5 * eps.square() - 0.5 * math.log(2 * math.pi)
            slope = jacobian.diagonal().abs().clamp_min(experts.MIN_SLOPE)
            out[k, n] = density.sum() + slope.log().sum()
            off_diagonal = jacobian - torch.diag(jacobian.diagonal())
            assert off_diagonal.abs().max() == 0  # each residual sees its own component only
    return out


@pytest.mark.parametrize("layers", [2, 3, 4])
@pytest.mark.parametrize("near_zero", [False, True])
def test_log_determinant_and_all_gradients_equal_a_float64_jacobian(layers, near_zero):
    experts = bank("nonparametric", layers=layers)
    z, history = batch(rows=4)
    if near_zero:
        # set one component's linear path so that its slope all but vanishes at some rows
        with torch.no_grad():
            _, slope = experts.residual_and_slope(z, history)
            target = slope[:, 0, 0]
            experts.slope.view(K, D)[:, 0] -= target - torch.tensor([1e-7, -1e-6, 1e-9])
            _, slope = experts.residual_and_slope(z, history)
            assert slope.abs().min() < 2e-7
    inputs = [z, history, *experts.parameters()]
    for tensor in inputs:
        tensor.requires_grad_()
    fast = experts.log_prob(z, history)
    slow = reference_log_prob(experts, z, history)
    assert torch.allclose(fast, slow, rtol=1e-8, atol=1e-8)
    weight = torch.randn(fast.shape, dtype=fast.dtype, generator=torch.Generator().manual_seed(2))
    quick = torch.autograd.grad((weight * fast).sum(), inputs, allow_unused=True)
    full = torch.autograd.grad((weight * slow).sum(), inputs, allow_unused=True)
    for a, b in zip(quick, full, strict=True):
        scale = max(1.0, float(b.abs().max()))
        assert torch.allclose(a / scale, b / scale, rtol=1e-8, atol=1e-8)


def test_vanishing_slope_is_clamped_in_float32():
    experts = bank("nonparametric", dtype=torch.float32)
    with torch.no_grad():
        for parameter in experts.parameters():
            parameter.zero_()
    z, history = batch(dtype=torch.float32)
    z.requires_grad_()
    value = experts.log_prob(z, history)
    value.sum().backward()
    assert torch.isfinite(value).all()
    assert torch.isfinite(z.grad).all()


def test_affine_log_prob_is_the_gaussian_around_the_conditional_mean():
    experts = bank("affine")
    z, history = batch()
    mean, scale = experts.conditional_mean(history), experts.noise_scale(history)
    expected = torch.distributions.Normal(mean, scale).log_prob(z).sum(-1)
    assert torch.allclose(experts.log_prob(z, history), expected)


@pytest.mark.parametrize("kind", [AffineExperts, NonparametricExperts])
def test_new_experts_are_all_alike(kind):
    """The regimes' own parts start at nothing, so what sets them apart is learned."""
    experts = kind(K, D, L, 8, 3)
    z, history = batch(dtype=torch.float32)
    same = experts.log_prob(z[:1].repeat(K, 1, 1), history[:1].repeat(K, 1, 1))
    assert torch.allclose(same, same[:1].expand(K, -1))
    assert experts.deviation() == 0


def test_history_is_newest_first():
    z = torch.arange(10.0).reshape(1, 5, 2)
    assert stack_history(z, 2)[0, 0].tolist() == [2.0, 3.0, 0.0, 1.0]
    assert stack_history(z, 2).shape == (1, 3, 4)


def test_missing_zuko_is_named_with_its_install_line(monkeypatch):
    import sys

    from mechtrace.errors import MissingDependency

    monkeypatch.setitem(sys.modules, "zuko", None)
    with pytest.raises(MissingDependency, match=r'pip install "mechtrace\[flows\]"'):
        make_experts("spline", K, D, L, 8, 3)
