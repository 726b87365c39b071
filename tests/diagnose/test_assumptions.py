"""Only latents that the sensors determine are judged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from diagnose_cases import oracle_reference

from mechtrace.diagnose.assumptions import _independent, _invertible
from mechtrace.worlds import make


@pytest.fixture(scope="module")
def reference():
    return oracle_reference(make("paper", regimes=3, latents=4, length=60, seed=0))


def test_latents_that_nothing_determines_are_left_out(reference):
    assert reference.determined.tolist() == [0, 1, 2, 3]
    own = np.diagonal(reference.spread) + reference.means.var(axis=0)
    width = np.zeros(4)
    width[2] = 20 * max(own[2], reference.noise.mean(axis=0)[2, 2])
    noise = reference.noise.copy()
    noise[:, 2, 3] = noise[:, 3, 2] = 0.9 * np.sqrt(noise[:, 2, 2] * noise[:, 3, 3])
    without = replace(reference, width=width, noise=noise)
    assert without.determined.tolist() == [0, 1, 3]
    finding = _invertible(without)
    assert finding.level == "good"
    assert "do not determine 1 of the 4 latents; refit with 3." in finding.meaning
    assert _independent(without).level == "good"
    assert _independent(replace(without, width=np.zeros(4))).level == "caution"


def test_a_latent_that_is_seen_badly_is_a_caution(reference):
    own = np.diagonal(reference.spread) + reference.means.var(axis=0)
    noise = np.tile(np.diag(own), (3, 1, 1))
    vague = replace(reference, width=0.5 * own, noise=noise)
    assert len(vague.determined) == 4
    assert _invertible(vague).level == "caution"
