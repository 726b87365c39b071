"""mechtrace, Algorithm 1 and the gating network behind the common protocol."""

from __future__ import annotations

import numpy as np
import pytest
from test_baselines_classic import check_curves

from mechtrace_lab.baselines import Truth, make

FEW = {"latents": 4, "transitions": 60_000, "window": 20, "evaluations": 3, "device": "cpu"}


@pytest.fixture(scope="module")
def glide(world):
    return world.transition("simple", series=6, seed=3)


@pytest.mark.parametrize("name", ["mechtrace", "algorithm1", "gate"])
def test_ours_beside_the_oracles_choice(name, world, glide):
    made = world.simulate(12)
    seen = []
    truth = Truth(made.panel, list(made.latents))
    method = make(name, **FEW).fit(made.panel, listeners=[seen.append], truth=truth)
    assert seen[-1].steps == -(-60_000 // (42 * 18))
    assert sum(progress.evaluated for progress in seen) >= 3
    check_curves(method.weights(glide.panel), glide.panel, 3)
    assert method.pooled(glide.panel).shape == (20, 3)
    assert [z.shape for z in method.encode(glide.panel)] == [(20, 4)] * 6
    other = method.oracle_selected()
    assert other is not method
    assert other.regimes_ == method.regimes_
    _, match = method._match
    for key, value in other.trace_.model_.named_parameters():
        np.testing.assert_array_equal(value.detach(), match.weights[key])
    check_curves(other.weights(glide.panel), glide.panel, 3)
    assert other.oracle_selected() is other


def test_without_truth_nothing_is_selected(panel):
    method = make("gate", **FEW).fit(panel)
    assert method.oracle_selected() is method
    single = panel[:1].without_labels()
    check_curves(method.weights(single), single, 3)
