"""Two ways of elimination, by steps and by LAPACK's band, against each other and dense algebra."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechtrace.linalg import block_tridiagonal as chain


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 40), st.integers(1, 5), st.floats(-5, -0.5))
def test_both_ways_of_elimination_agree(seed, steps, m, log10_q):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((m, 1 + seed % 4, steps, 3))
    A = np.einsum("idts,jdts->ijts", root, root) / 0.3**2
    b = rng.standard_normal((m, steps, 3)) / 0.3**2
    elapsed = rng.uniform(0.2, 4.0, (3, steps))
    coupling = chain.random_walk_coupling(np.full(3, 10**log10_q), elapsed, 2.0)
    answers = []
    for many in (0, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(chain, "MANY", many)
            past = chain.messages(A, b, coupling)[:2]
            future = chain.backward_messages(A, b, coupling)[:2]
            sums = chain.log_det_and_quadratic(A, b, coupling)
            pivots = np.concatenate(
                [part.log_pivot for _, part in chain.forward_messages(A, b, coupling)]
            )
            np.testing.assert_allclose(pivots.sum(axis=0), sums[0], rtol=1e-9)
            answers.append([*past, *future, *sums, chain.solve(A, b, coupling)])
    size = coupling.max() + np.abs(A).max()
    for left, right in zip(*answers, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-13 * size)


@pytest.mark.parametrize("many", [0, 10**9])
def test_the_solution_is_that_of_the_dense_system(many, monkeypatch):
    monkeypatch.setattr(chain, "MANY", many)
    rng = np.random.default_rng(0)
    m, steps = 2, 6
    root = rng.standard_normal((m, 3, steps, 1))
    A, b = np.einsum("idts,jdts->ijts", root, root), rng.standard_normal((m, steps, 1))
    coupling = chain.random_walk_coupling(np.array([0.1]), np.ones((1, steps)), 2.0)
    penalty = chain.Penalty.of_rows(rng.standard_normal((3, m)), rng.random((3, steps, 1)))
    dense = np.zeros((steps, m, steps, m))
    for t in range(steps):
        dense[t, :, t] += penalty.added_to(A[:, :, t], t)[..., 0]
        dense[t, :, t] += (coupling[t, 0] + coupling[t + 1, 0]) * np.eye(m)
        if t:
            dense[t, :, t - 1] -= coupling[t, 0] * np.eye(m)
            dense[t - 1, :, t] -= coupling[t, 0] * np.eye(m)
    expected = np.linalg.solve(dense.reshape(steps * m, -1), b[..., 0].T.ravel())
    found = chain.solve(A, b, coupling, penalty)
    np.testing.assert_allclose(found[..., 0].T.ravel(), expected, rtol=1e-10)
    log_det, square = chain.log_det_and_quadratic(penalty.added_to(A, slice(None)), b, coupling)
    assert log_det[0] == pytest.approx(np.linalg.slogdet(dense.reshape(steps * m, -1))[1])
    assert square[0] == pytest.approx(b[..., 0].T.ravel() @ expected)
