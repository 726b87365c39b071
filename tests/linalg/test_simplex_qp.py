"""The most probable curve on the simplex: optimality conditions, and other solvers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, minimize

from mechtrace.errors import DataError
from mechtrace.linalg import block_tridiagonal, simplex_qp
from mechtrace.linalg.batched import lift
from mechtrace.linalg.block_tridiagonal import random_walk_coupling
from mechtrace.linalg.simplex import helmert_basis, project
from mechtrace.linalg.simplex_qp import Optimum

START = 2.0


class Program:
    """Least squares on a chain of simplexes, and the weights of neighbours."""

    def __init__(
        self, means: np.ndarray, values: np.ndarray, precision: np.ndarray, elapsed: np.ndarray
    ) -> None:
        """From means (T, S, K, d), values (T, S, d) and precisions (T, S); NaN is left out."""
        self.regimes, self.elapsed = means.shape[2], elapsed
        self.basis = helmert_basis(self.regimes)
        weight = np.where(np.isfinite(values).all(axis=-1), precision, 0.0)[..., None]
        slope = means.swapaxes(-1, -2) @ self.basis
        target = np.nan_to_num(values) - means.mean(axis=2)
        self.A = np.einsum("tsdi,tsdj->ijts", weight[..., None] * slope, slope)
        self.b = np.einsum("tsdi,tsd->its", slope, weight * target)

    def coupling(self, q: float | np.ndarray, start: float = START) -> np.ndarray:
        """Of a random walk with this process noise."""
        q = np.broadcast_to(np.asarray(q, float), self.b.shape[2:])
        return random_walk_coupling(q, self.elapsed, start)

    def solve(
        self, q: float | np.ndarray, guess: np.ndarray | None = None, start: float = START
    ) -> Optimum:
        """The optimum on the simplex."""
        return simplex_qp.solve(self.A, self.b, self.coupling(q, start), self.basis, guess)

    def free(self, q: float) -> np.ndarray:
        """The optimum (K, T, S) without the simplex."""
        return self.weights(block_tridiagonal.solve(self.A, self.b, self.coupling(q)))

    def weights(self, beta: np.ndarray) -> np.ndarray:
        """Alpha of beta."""
        return lift(self.basis, beta) + 1 / self.regimes

    def dense(self, q: float, s: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """The matrix (T m, T m) and the right side of one series."""
        m, steps = self.b.shape[:2]
        chain = np.zeros((steps, steps))
        chain[0, 0] = START
        for t in range(1, steps):
            weight = 1 / (q * self.elapsed[s, t])
            chain[t - 1 : t + 1, t - 1 : t + 1] += weight * np.array([[1, -1], [-1, 1]])
        full = np.kron(chain, np.eye(m))
        for t in range(steps):
            full[t * m : (t + 1) * m, t * m : (t + 1) * m] += self.A[:, :, t, s]
        return full, self.b[:, :, s].T.ravel()


def program(
    seed: int,
    series: int = 1,
    steps: int = 5,
    regimes: int = 3,
    noise: float = 0.3,
    d: int = 3,
    holes: float = 0.0,
    off: float = 0.0,
) -> Program:
    """A random one; `off` pushes the values out of the simplex."""
    rng = np.random.default_rng(seed)
    means = rng.standard_normal((steps, series, regimes, d))
    weights = rng.dirichlet(np.full(regimes, 0.5), size=(steps, series))
    values = np.einsum("tsk,tskd->tsd", weights, means)
    values += (noise + off) * rng.standard_normal(values.shape)
    values[rng.random((steps, series)) < holes] = np.nan
    elapsed = rng.uniform(0.05, 5.0, (series, steps))
    return Program(means, values, np.full((steps, series), noise**-2), elapsed)


def check_optimal(problem: Program, q: np.ndarray, found: Optimum) -> None:
    for s in range(problem.b.shape[2]):
        alpha, dual = found.alpha[..., s], found.multipliers[..., s]
        matrix, right = problem.dense(float(q[s]), s)
        size = 1 + np.abs(right).max()
        assert alpha.min() >= 0
        np.testing.assert_allclose(alpha.sum(0), 1, rtol=0, atol=1e-12)
        assert dual.min() >= 0
        beta = (problem.basis.T @ (alpha - 1 / len(alpha))).T.ravel()
        stationarity = matrix @ beta - right - (problem.basis.T @ dual).T.ravel()
        assert np.abs(stationarity).max() <= 1e-8 * size
        assert (alpha * dual).max() <= 1e-8 * size


@pytest.fixture(params=["step by step", "banded", "interior point"])
def way(request, monkeypatch):
    """Many chains, few chains, and what is left to the interior-point method."""
    monkeypatch.setattr(block_tridiagonal, "MANY", 0 if request.param == "step by step" else 10**9)
    if request.param == "interior point":
        monkeypatch.setattr(simplex_qp, "MAX_ROUNDS", 0)


@example(
    # weights of 1e-12 beside weights of 1: the barrier once drowned the information in rounding
    seed=1_002_778_081, steps=21, regimes=4, log_q=-1.5, log_noise=-2.892993330423895,
    holes=0.0, off=1.0,
)  # fmt: skip
@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    seed=st.integers(0, 2**31),
    steps=st.integers(1, 30),
    regimes=st.integers(2, 6),
    log_q=st.floats(-5, -0.52),
    log_noise=st.floats(-3, 1),
    holes=st.sampled_from([0.0, 0.3, 0.9]),
    off=st.sampled_from([0.0, 1.0]),
)
def test_the_answer_meets_the_optimality_conditions(
    way, seed, steps, regimes, log_q, log_noise, holes, off
):
    problem = program(
        seed,
        series=3,
        steps=steps,
        regimes=regimes,
        noise=10**log_noise,
        d=1 + seed % 6,
        holes=holes,
        off=off,
    )
    q = np.clip(10**log_q * np.array([1.0, 0.1, 1.0]), 1e-5, 0.3)
    check_optimal(problem, q, problem.solve(q))


@pytest.mark.parametrize("seed", range(6))
def test_tiny_problems_equal_a_general_solver(seed):
    regimes, steps = 2 + seed % 3, 1 + seed // 2
    problem = program(seed, steps=steps, regimes=regimes, off=0.8)
    H, g = problem.dense(0.05)
    rows_of = np.kron(np.eye(steps), problem.basis)
    other = minimize(
        lambda x: 0.5 * x @ H @ x - g @ x,
        np.zeros(len(g)),
        jac=lambda x: H @ x - g,
        constraints=LinearConstraint(rows_of, -1 / regimes, np.inf),
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    found = problem.solve(0.05).alpha[..., 0]
    expected = problem.weights(other.x.reshape(steps, -1).T)
    np.testing.assert_allclose(found, expected, atol=2e-6)
    if problem.free(0.05).min() < -0.01:
        assert found.min() < 1e-4  # the constraint matters


def test_tiny_problems_equal_the_best_active_set():
    for seed in range(8):
        problem = program(seed, steps=2, regimes=3, off=0.8)
        H, g = problem.dense(0.05)
        rows_of = np.kron(np.eye(2), problem.basis)
        best, value = None, np.inf
        for code in range(2**6):
            on = np.array([bool(code >> i & 1) for i in range(6)])
            if on.sum() > 4 or on[:3].all() or on[3:].all():
                continue
            rows = rows_of[on]
            system = np.block([[H, rows.T], [rows, np.zeros((on.sum(), on.sum()))]])
            right = np.concatenate([g, np.full(on.sum(), -1 / 3)])
            x = np.linalg.solve(system, right)[: len(g)]
            cost = 0.5 * x @ H @ x - g @ x
            if (rows_of @ x >= -1 / 3 - 1e-9).all() and cost < value:
                best, value = x, cost
        found = problem.solve(0.05).alpha[..., 0]
        np.testing.assert_allclose(found.T.ravel(), rows_of @ best + 1 / 3, atol=1e-6)


def test_an_interior_optimum_is_the_smoothed_mean():
    rng = np.random.default_rng(0)
    means = rng.standard_normal((12, 2, 3, 4))
    values = means.mean(axis=2) + 0.02 * rng.standard_normal((12, 2, 4))
    elapsed = rng.uniform(0.5, 2.0, (2, 12))
    problem = Program(means, values, np.full((12, 2), 0.02**-2), elapsed)
    unconstrained = problem.free(0.01)
    assert unconstrained.min() > 0.05
    found = problem.solve(0.01)
    np.testing.assert_allclose(found.alpha, unconstrained, atol=1e-6)
    assert found.multipliers.max() <= 1e-6 * (1 + np.abs(problem.b).max())


def test_the_constrained_answer_is_better_than_the_projected_one():
    problem = program(3, steps=10, regimes=4, off=1.0)
    H, g = problem.dense(0.02)

    def cost(alpha: np.ndarray) -> float:
        x = ((alpha - 0.25) @ problem.basis).ravel()
        return float(0.5 * x @ H @ x - g @ x)

    projected = project(problem.free(0.02)[..., 0].T)
    found = problem.solve(0.02).alpha[..., 0].T
    assert cost(found) < cost(projected) - 1e-3
    rng = np.random.default_rng(0)
    for _ in range(50):  # nor is any neighbour better
        near = project(found + 0.05 * rng.standard_normal(found.shape))
        assert cost(near) >= cost(found) - 1e-6


@pytest.mark.parametrize("regimes", [2, 3, 6])
@pytest.mark.parametrize("steps", [1, 7])
def test_without_evidence_all_regimes_are_equal(steps, regimes):
    problem = program(0, series=2, steps=steps, regimes=regimes, holes=2.0)
    assert not problem.A.any()
    found = problem.solve(0.01)
    np.testing.assert_allclose(found.alpha, 1 / regimes, atol=1e-12)


def test_one_step_with_certain_evidence_is_that_corner():
    means = np.eye(3)[None, None]
    values = np.array([[[0.0, 1.0, 0.0]]])
    found = Program(means, values, np.full((1, 1), 1e8), np.ones((1, 1))).solve(0.1)
    np.testing.assert_allclose(found.alpha[:, 0, 0], [0, 1, 0], atol=1e-4)


@pytest.mark.parametrize("strength", [1e-6, 1.0, 1e6, 1e10])
def test_extremes_of_evidence_next_to_each_other_are_solved(way, strength):
    rng = np.random.default_rng(1)
    means = np.broadcast_to(np.eye(4), (40, 2, 4, 4))
    values = rng.dirichlet(np.full(4, 0.2), size=(40, 2)) + 0.1 * rng.standard_normal((40, 2, 4))
    values[10:30, 0] = np.nan
    precision = np.where(np.arange(40) % 2, 1.0, strength)[:, None] * np.ones(2)
    problem = Program(means, values, precision, np.ones((2, 40)))
    q = np.array([1e-5, 0.3])
    check_optimal(problem, q, problem.solve(q))


@pytest.mark.parametrize("far", [0.0, 0.1, 10.0])
def test_the_guess_does_not_matter(far):
    problem = program(6, series=5, steps=20, regimes=4, off=0.8)
    guess = problem.weights(far * np.random.default_rng(0).standard_normal((3, 20, 5)))
    found = problem.solve(0.03, guess)
    check_optimal(problem, np.full(5, 0.03), found)
    np.testing.assert_allclose(found.alpha, problem.solve(0.03).alpha, atol=1e-7)


def test_series_are_solved_as_if_alone():
    problem = program(4, series=6, steps=14, regimes=4, off=0.5, holes=0.2)
    coupling = problem.coupling(np.geomspace(1e-4, 0.3, 6))
    together = simplex_qp.solve(problem.A, problem.b, coupling, problem.basis).alpha
    for s in range(6):
        parts = (part[..., [s]] for part in (problem.A, problem.b, coupling))
        alone = simplex_qp.solve(*parts, problem.basis).alpha
        np.testing.assert_allclose(together[..., [s]], alone, rtol=0, atol=1e-9)


@pytest.mark.parametrize("series", [1, 3])
def test_long_series_start_from_a_coarser_chain_and_end_at_the_same_optimum(monkeypatch, series):
    problem = program(3, series=series, steps=6000, noise=0.3, off=0.3, holes=0.1)
    sizes = []
    improve = simplex_qp._ActiveSet.improve

    def counted(guess, **options):
        sizes.append(guess.b.shape[1])
        improve(guess, **options)

    monkeypatch.setattr(simplex_qp._ActiveSet, "improve", counted)
    found = problem.solve(1e-7)
    assert min(sizes) <= 2000, "no coarser chain was solved"
    monkeypatch.setattr(simplex_qp, "LONG", 10**9)
    whole = problem.solve(1e-7)
    np.testing.assert_allclose(found.alpha, whole.alpha, rtol=0, atol=1e-9)


def test_more_start_precision_pulls_the_first_step_to_the_middle():
    problem = program(5, steps=6, off=0.5)
    distance = [
        np.abs(problem.solve(0.01, start=p).alpha[:, 0, 0] - 1 / 3).max()
        for p in (0.1, 100.0, 1e5)
    ]
    assert distance[0] > distance[1] > distance[2]
    assert distance[2] < 0.01


def test_what_cannot_be_solved_is_said_in_a_sentence(monkeypatch):
    monkeypatch.setattr(simplex_qp, "MAX_ROUNDS", 0)
    monkeypatch.setattr(simplex_qp, "MAX_ITERATIONS", 1)
    problem = program(0, off=1.0)
    with pytest.raises(DataError, match="of 1 of 1 recordings is ill-conditioned"):
        problem.solve(0.01)
