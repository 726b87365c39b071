"""ExpertBank: the K transition mechanisms p_k(z_t | z_{t-L:t-1}), stacked in one tensor program.

Shapes: `z` is (K, N, d), one row of blocks per regime, each evaluated by its own expert;
`history` is (K, N, L*d), newest step first. No Python loop runs over regimes or components.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import MissingDependency
from .networks import SLOPE

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
NODES = 129  # of the quadrature over one component
FLOW_NODES = 64  # quasi-random base points for the moments of a flow


def stack_history(z: Tensor, lags: int) -> Tensor:
    """Histories of z_L ... z_{T-1} from (..., T, d): (..., T-L, L*d), newest first."""
    steps = z.shape[-2]
    return torch.cat([z[..., lags - lag : steps - lag, :] for lag in range(1, lags + 1)], dim=-1)


def gaussian_log_prob(standardised: Tensor) -> Tensor:
    """Log density of N(0, 1), element by element."""
    return -0.5 * standardised.square() - HALF_LOG_2PI


class ExpertBank(nn.Module, ABC):
    """K transition densities p_k(z_t | z_{t-L:t-1}), evaluated as one tensor program."""

    centre: Tensor
    spread: Tensor

    def __init__(self, regimes: int, latents: int, lags: int) -> None:
        super().__init__()
        self.regimes, self.latents, self.lags = regimes, latents, lags
        # support of the training latents
        self.register_buffer("centre", torch.zeros(latents))
        self.register_buffer("spread", torch.ones(latents))

    @abstractmethod
    def log_prob(self, z: Tensor, history: Tensor) -> Tensor:
        """Return log p_k(z | history) of the rows (K, N, d) of each regime: (K, N)."""

    @abstractmethod
    def conditional_mean(self, history: Tensor) -> Tensor:
        """Return E_k[z | history] at (N, L*d) or (K, N, L*d) histories: (K, N, d)."""

    @abstractmethod
    def noise_scale(self, history: Tensor) -> Tensor:
        """Return the standard deviations of z given the history, (K, N, d)."""

    def ahead(self, history: Tensor, steps: int) -> Tensor:
        """Return each expert's mean `steps` steps after (N, L*d) histories, (K, N, d).

        Beyond one step, the means are fed back as history.
        """
        expected = self.conditional_mean(history)
        for _ in range(1, steps):
            older = self.for_all(history)[..., : -self.latents]
            history = torch.cat([expected, older], dim=-1)
            expected = self.conditional_mean(history)
        return expected

    def deviation(self) -> Tensor:
        """Return the squared difference of the regimes' weights from the shared ones."""
        own = [m.own.square().sum() for m in self.modules() if isinstance(m, StackedLinear)]
        return torch.stack(own).sum()

    def for_all(self, history: Tensor) -> Tensor:
        """Expand histories to every regime: (N, L*d) -> (K, N, L*d)."""
        return history.expand(self.regimes, *history.shape[-2:])


class StackedLinear(nn.Module):
    """Linear layers of K regimes as one batched product: a shared part plus each regime's own.

    With `copies` there are as many independent layers per regime (one for each component).
    """

    def __init__(
        self, inputs: int, outputs: int, kinds: int, copies: int = 1, bias: bool = True
    ) -> None:
        super().__init__()
        bound = 1 / math.sqrt(inputs)
        self.shared = nn.Parameter(torch.empty(copies, inputs, outputs).uniform_(-bound, bound))
        self.own = nn.Parameter(torch.zeros(kinds, copies, inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(kinds * copies, 1, outputs)) if bias else None

    @property
    def weight(self) -> Tensor:
        """(kinds * copies, inputs, outputs)."""
        return (self.shared + self.own).flatten(0, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(kinds * copies, N, inputs), or (N, inputs) for all -> (kinds * copies, N, outputs)."""
        if x.ndim == 2:
            return self._of_all(x)
        if self.bias is None:
            return torch.bmm(x, self.weight)
        wide = 8 * self.bias.shape[-1] > x.shape[-1]
        if wide or x.is_cuda or torch.is_grad_enabled():
            return torch.baddbmm(self.bias, x, self.weight)
        # few outputs of many inputs: on a CPU the transposed product takes a third of the time
        return torch.baddbmm(self.bias.mT, self.weight.mT, x.mT).mT

    def _of_all(self, x: Tensor) -> Tensor:
        """Apply every layer to the same rows by one product, transposed as above."""
        weight = self.weight.mT
        flat = weight.flatten(0, 1)
        if self.bias is None:
            out = flat @ x.mT
        else:
            out = torch.addmm(self.bias.flatten()[:, None], flat, x.mT)
        return out.unflatten(0, weight.shape[:2]).mT


class AffineExperts(ExpertBank):
    """z_t = m_k(history) + s_k * eps: a shared trunk plus a regime's own part, shrunk towards it.

    The first and the last layer, the linear path and the biases have a part of their own
    for each regime; the layers between are shared, so that little data of one regime suffices.
    """

    def __init__(
        self, regimes: int, latents: int, lags: int, hidden: int = 128, layers: int = 2
    ) -> None:
        super().__init__(regimes, latents, lags)
        inputs = latents * lags
        self.first = StackedLinear(inputs, hidden, regimes)
        self.middle = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(layers - 2))
        self.last = StackedLinear(hidden, latents, regimes)
        self.skip = StackedLinear(inputs, latents, regimes, bias=False)
        self.log_scale = nn.Parameter(torch.zeros(regimes, latents))

    def conditional_mean(self, history: Tensor) -> Tensor:
        """Return the output of the mean network."""
        spare = not torch.is_grad_enabled()  # no backward pass needs the input
        h = F.leaky_relu(self.first(history), SLOPE, inplace=spare)
        for layer in self.middle:
            h = F.leaky_relu(layer(h), SLOPE, inplace=spare)
        return self.last(h) + self.skip(history)

    def noise_scale(self, history: Tensor) -> Tensor:
        """One scale per regime and component, whatever the history."""
        return self.log_scale.exp()[:, None].expand(-1, history.shape[-2], -1)

    def log_prob(self, z: Tensor, history: Tensor) -> Tensor:
        """Independent Gaussian noise around the mean."""
        log_scale = self.log_scale[:, None]
        eps = (z - self.conditional_mean(history)) * torch.exp(-log_scale)
        return (gaussian_log_prob(eps) - log_scale).sum(-1)


class AlignedExperts(ExpertBank):
    """Experts in coordinates u = A z + c, with an interface in z."""

    matrix: Tensor
    offset: Tensor

    def __init__(self, inner: ExpertBank) -> None:
        super().__init__(inner.regimes, inner.latents, inner.lags)
        self.inner = inner
        self.register_buffer("matrix", torch.eye(inner.latents))
        self.register_buffer("offset", torch.zeros(inner.latents))

    def log_prob(self, z: Tensor, history: Tensor) -> Tensor:
        """Return log p(u) + log |det A|."""
        log_det = torch.linalg.slogdet(self.matrix)[1]
        return self.inner.log_prob(self._aligned(z), self._past(history)) + log_det

    def conditional_mean(self, history: Tensor) -> Tensor:
        """Map the mean of u back to z."""
        expected = self.inner.conditional_mean(self._past(history))
        return (expected - self.offset) @ torch.linalg.inv(self.matrix).T

    def noise_scale(self, history: Tensor) -> Tensor:
        """Map the variances of u back to z."""
        variance = self.inner.noise_scale(self._past(history)).square()
        return (variance @ torch.linalg.inv(self.matrix).T.square()).sqrt()

    def deviation(self) -> Tensor:
        """Return that of the experts in u."""
        return self.inner.deviation()

    def _aligned(self, z: Tensor) -> Tensor:
        return z @ self.matrix.T + self.offset

    def _past(self, history: Tensor) -> Tensor:
        return self._aligned(history.unflatten(-1, (self.lags, self.latents))).flatten(-2)


class NonparametricExperts(ExpertBank):
    """eps_i = g_i(z_i, history) with eps ~ N(0, I): any noise, any nonlinearity, as TDRL has it.

    log p = sum_i log N(eps_i) + log |d eps_i / d z_i|. The one derivative that is needed travels
    as a tangent beside the forward pass, so no Jacobian matrix is ever formed.
    """

    #: Slopes below this count as this: in float32 their logarithm would be noise.
    MIN_SLOPE = 1e-8

    def __init__(
        self, regimes: int, latents: int, lags: int, hidden: int = 128, layers: int = 3
    ) -> None:
        super().__init__(regimes, latents, lags)
        self.first = StackedLinear(1 + latents * lags, hidden, regimes, latents)
        self.middle = nn.ModuleList(
            StackedLinear(hidden, hidden, regimes, latents) for _ in range(layers - 2)
        )
        self.last = StackedLinear(hidden, 1, regimes, latents)
        # A linear path of slope 1 at the start: eps = z is a sane density to begin with.
        self.slope = nn.Parameter(torch.ones(regimes * latents, 1, 1))

    def residual_and_slope(self, z: Tensor, history: Tensor) -> tuple[Tensor, Tensor]:
        """Return eps and d eps_i / d z_i, both (K, N, d), at z and history (K, N, L*d)."""
        kinds, rows, d = z.shape
        own = z.transpose(1, 2).reshape(kinds * d, rows, 1)
        past = history[:, None].expand(kinds, d, rows, -1).reshape(kinds * d, rows, -1)
        a = self.first(torch.cat([own, past], dim=-1))
        tangent = self.first.weight[:, :1].expand_as(a)  # d a / d z_i
        a, tangent = with_tangent(a, tangent, [*self.middle, self.last])
        return _by_row(a + self.slope * own, kinds), _by_row(tangent + self.slope, kinds)

    def log_prob(self, z: Tensor, history: Tensor) -> Tensor:
        """Change of variables, component by component."""
        eps, slope = self.residual_and_slope(z, history)
        return (gaussian_log_prob(eps) + slope.abs().clamp_min(self.MIN_SLOPE).log()).sum(-1)

    def conditional_mean(self, history: Tensor) -> Tensor:
        """By quadrature over the density of each component.

        The density jumps where the network has kinks, and the jumps move with the history; the
        derivative of the sum over nodes would miss that. So the derivative has its own form:
        z = g^-1(eps) moves by -(d eps / d history) / slope, averaged over eps.
        """
        with torch.no_grad():
            mean, deviation = self._moments(history)
        if not torch.is_grad_enabled():
            return mean
        history = self.for_all(history)
        points, at = _around(mean, 6 * deviation, history)
        eps, slope = (
            part.unflatten(1, (-1, NODES)) for part in self.residual_and_slope(points, at)
        )
        with torch.no_grad():
            density = gaussian_log_prob(eps).exp()
            share = density * slope.sign() / (density * slope.abs()).sum(2, keepdim=True)
        moves = -(share * eps).sum(2)
        return mean + (moves - moves.detach())

    def noise_scale(self, history: Tensor) -> Tensor:
        """By quadrature over the density of each component."""
        return self._moments(history)[1]

    def _moments(self, history: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and deviation of p_k(z_i | history): a wide grid finds the mass, finer follow."""
        history = self.for_all(history)
        shape = (*history.shape[:2], self.latents)
        mean, reach = self.centre.expand(shape), 8 * self.spread.expand(shape)
        for _ in range(3):
            points, at = _around(mean, reach, history)
            eps, slope = self.residual_and_slope(points, at)
            log_density = gaussian_log_prob(eps) + slope.abs().clamp_min(self.MIN_SLOPE).log()
            weight = log_density.unflatten(1, (-1, NODES)).softmax(dim=2)
            points = points.unflatten(1, (-1, NODES))
            mean = (weight * points).sum(2)
            deviation = (weight * (points - mean[:, :, None]).square()).sum(2).sqrt()
            step = 2 * reach / (NODES - 1)
            reach = 6 * torch.maximum(deviation, step / 2)
        return mean, deviation


def _around(centre: Tensor, reach: Tensor, history: Tensor) -> tuple[Tensor, Tensor]:
    """Nodes around each centre (K, N, d) with the history of each, both (K, N * NODES, ...)."""
    grid = torch.linspace(-1, 1, NODES, dtype=history.dtype, device=history.device)
    points = centre[:, :, None] + reach[:, :, None] * grid[:, None]
    at = history[:, :, None].expand(-1, -1, NODES, -1)
    return points.flatten(1, 2), at.flatten(1, 2)


def with_tangent(a: Tensor, tangent: Tensor, layers: Iterable[Any]) -> tuple[Tensor, Tensor]:
    """Carry (C, N, h) activations and their derivative through LeakyReLUs and layers of weights.

    A derivative by one input is all that a component-wise change of variables needs; no Jacobian
    matrix is formed.
    """
    for layer in layers:
        h, tangent = F.leaky_relu(a, SLOPE), _leaky_slope_times(tangent, a)
        a, tangent = layer(h), product(tangent, layer.weight)
    return a, tangent


def product(x: Tensor, weight: Tensor) -> Tensor:
    """(C, N, inputs) by (C, inputs, outputs); on a CPU a single output is a sum.

    The library's product with one column takes three times as long there, its derivative ten.
    """
    if weight.shape[-1] == 1 and not x.is_cuda:
        return (x * weight.mT).sum(-1, keepdim=True)
    return torch.bmm(x, weight)


def _leaky_slope_times(tangent: Tensor, a: Tensor) -> Tensor:
    """Return tangent * LeakyReLU'(a), by the kernel of the backward pass."""
    return torch.ops.aten.leaky_relu_backward(tangent, a, SLOPE, False)


def _by_row(stacked: Tensor, kinds: int) -> Tensor:
    """(K*d, N, 1) -> (K, N, d)."""
    return stacked.unflatten(0, (kinds, -1)).squeeze(-1).transpose(1, 2)


class FlowExperts(ExpertBank):
    """p_k(z | history) as a flow whose context is the history and the one-hot regime.

    `spline`: a monotone rational-quadratic spline and an affine map per component, so components
    stay independent given the history. `maf`: two masked autoregressive layers, as appendix D.1.
    """

    def __init__(
        self, kind: str, regimes: int, latents: int, lags: int, hidden: int, layers: int
    ) -> None:
        super().__init__(regimes, latents, lags)
        self.flow = _make_flow(kind, latents, latents * lags + regimes, [hidden] * (layers - 1))
        sobol = torch.quasirandom.SobolEngine(latents, scramble=True, seed=0)
        uniform = sobol.draw(FLOW_NODES).clamp(1e-4, 1 - 1e-4)
        self.register_buffer("nodes", torch.special.ndtri(uniform), persistent=False)

    def log_prob(self, z: Tensor, history: Tensor) -> Tensor:
        """Change of variables, by the flow."""
        return self.flow(self._context(history)).log_prob(z)

    def conditional_mean(self, history: Tensor) -> Tensor:
        """Mean over quasi-random draws."""
        return self._draws(history).mean(0)

    def noise_scale(self, history: Tensor) -> Tensor:
        """Return the standard deviation over quasi-random draws."""
        return self._draws(history).std(0)

    def deviation(self) -> Tensor:
        """Return 0: the weights of a flow are shared by all regimes."""
        return self.centre.new_zeros(())

    def _context(self, history: Tensor) -> Tensor:
        which = torch.eye(self.regimes, dtype=history.dtype, device=history.device)
        return torch.cat([history, which[:, None].expand(-1, history.shape[1], -1)], dim=-1)

    def _draws(self, history: Tensor) -> Tensor:
        transform = self.flow(self._context(self.for_all(history))).transform
        nodes: Tensor = self.nodes  # type: ignore[assignment]
        base = nodes[:, None, None].to(history.dtype)
        return transform.inv(base.expand(-1, self.regimes, history.shape[-2], -1))


def _make_flow(kind: str, latents: int, context: int, hidden: list[int]) -> Any:
    try:
        import zuko
    except ImportError as error:
        raise MissingDependency(
            f"experts={kind!r} needs the package zuko", fix='pip install "mechtrace[flows]"'
        ) from error
    options = {"context": context, "hidden_features": hidden}
    if kind == "maf":
        return zuko.flows.MAF(latents, transforms=2, **options)
    bins = 8
    spline = zuko.flows.ElementWiseTransform(
        latents,
        univariate=zuko.transforms.MonotonicRQSTransform,
        shapes=[(bins,), (bins,), (bins - 1,)],
        **options,
    )
    affine = zuko.flows.ElementWiseTransform(latents, **options)
    base = zuko.lazy.UnconditionalDistribution(
        zuko.distributions.DiagNormal, torch.zeros(latents), torch.ones(latents), buffer=True
    )
    return zuko.lazy.Flow([affine, spline], base)


def make_experts(
    kind: str, regimes: int, latents: int, lags: int, hidden: int, layers: int
) -> ExpertBank:
    """Build the experts of a kind; zuko is imported only where flows are asked for."""
    if kind == "affine":
        return AffineExperts(regimes, latents, lags, hidden, layers)
    if kind == "nonparametric":
        return NonparametricExperts(regimes, latents, lags, hidden, layers)
    return FlowExperts(kind, regimes, latents, lags, hidden, layers)
