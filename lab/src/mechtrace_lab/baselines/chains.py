"""Hidden Markov chains in torch, many series at once: posteriors, expected counts, best paths.

Shapes: log emissions (B, T, K), log initial (K,), log transitions (K, K) from rows to columns.
Loops run over steps only; nothing waits for the device, so a captured graph can hold them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class StatePosterior:
    """State posteriors, expected transition counts and log-likelihood of a hidden Markov model."""

    posterior: Tensor  # (B, T, K)
    transitions: Tensor  # (K, K) expected number of moves, summed over series
    log_likelihood: Tensor  # (B,)


@torch.no_grad()
def smooth(log_emission: Tensor, log_initial: Tensor, log_transition: Tensor) -> StatePosterior:
    """Scaled forward-backward."""
    top = log_emission.amax(-1, keepdim=True)
    emission = (log_emission - top).exp()
    move = log_transition.exp()
    state = log_initial.exp() * emission[:, 0]
    forward, scales = [], []
    for t in range(emission.shape[1]):
        if t:
            state = (state @ move) * emission[:, t]
        scale = state.sum(-1, keepdim=True)
        state = state / scale
        forward.append(state)
        scales.append(scale)
    backward = [torch.ones_like(state)]
    for t in range(emission.shape[1] - 1, 0, -1):
        backward.append((backward[-1] * emission[:, t] / scales[t]) @ move.T)
    before, after = torch.stack(forward, 1), torch.stack(backward[::-1], 1)
    scaled = torch.stack(scales, 1)
    into = (after * emission / scaled)[:, 1:]
    counts = move * (before[:, :-1].flatten(0, 1).T @ into.flatten(0, 1))
    return StatePosterior(before * after, counts, (scaled.log() + top).sum((1, 2)))


def surrogate(
    log_emission: Tensor, log_initial: Tensor, log_transition: Tensor
) -> tuple[Tensor, StatePosterior]:
    """Mean log-likelihood per series, with its exact gradient by Fisher's identity.

    By Fisher's identity the gradient of log p(x) is that of the expected complete log-likelihood
    with the posteriors held fixed.
    """
    known = smooth(log_emission.detach(), log_initial.detach(), log_transition.detach())
    series = len(log_emission)
    expected = (
        (known.posterior * log_emission).sum()
        + (known.posterior[:, 0] * log_initial).sum()
        + (known.transitions * log_transition).sum()
    ) / series
    value = known.log_likelihood.mean()
    return value + (expected - expected.detach()), known


@torch.no_grad()
def best_path(log_emission: Tensor, log_initial: Tensor, log_transition: Tensor) -> Tensor:
    """Viterbi: the most likely states of each series, (B, T)."""
    score = log_initial + log_emission[:, 0]
    origins = []
    for t in range(1, log_emission.shape[1]):
        best, origin = (score[:, :, None] + log_transition).max(dim=1)
        origins.append(origin)
        score = best + log_emission[:, t]
    state = score.argmax(-1, keepdim=True)
    path = [state]
    for origin in reversed(origins):
        state = origin.gather(1, state)
        path.append(state)
    return torch.cat(path[::-1], dim=1)
