"""Experts that are conditional normalizing flows, built on zuko (imported only when asked for)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .errors import MissingDependency
from .experts import ExpertBank

NODES = 64  # quasi-random base points for the moments of a flow


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
        uniform = sobol.draw(NODES).clamp(1e-4, 1 - 1e-4)
        self.register_buffer("nodes", torch.special.ndtri(uniform), persistent=False)

    def log_prob(self, z: Tensor, history: Tensor) -> Tensor:
        """Change of variables, by the flow."""
        return self.flow(self._context(history)).log_prob(z)

    def conditional_mean(self, history: Tensor) -> Tensor:
        """Mean over quasi-random draws."""
        return self._draws(history).mean(0)

    def noise_scale(self, history: Tensor) -> Tensor:
        """Standard deviation over quasi-random draws."""
        return self._draws(history).std(0)

    def deviation(self) -> Tensor:
        """A flow has no parts of its own per regime to shrink."""
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
