"""The most probable curve on the simplex: optimality conditions, and other solvers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, minimize

from mechtrace.errors import DataError
from mechtrace.recover import chain, constrained, interior
from mechtrace.recover.constrained import Optimum, solve
from mechtrace.recover.evidence import Evidence, Plane
from mechtrace.recover.statespace import START_SCALE


def problem(
    seed: int,
    series: int = 1,
    steps: int = 5,
    regimes: int = 3,
    noise: float = 0.3,
    d: int = 3,
    holes: float = 0.0,
    off: float = 0.0,
) -> tuple[Plane, np.ndarray]:
    """Evidence on the plane and waiting times; `off` pushes the values out of the simplex."""
    rng = np.random.default_rng(seed)
    means = rng.standard_normal((series, steps, regimes, d))
    weights = rng.dirichlet(np.full(regimes, 0.5), size=(series, steps))
    values = np.einsum("stk,stkd->std", weights, means)
    values += (noise + off) * rng.standard_normal(values.shape)
    values[rng.random((series, steps)) < holes] = np.nan
    plane = Evidence.of_block(means, values, np.eye(d) / noise**2).on_plane()
    return plane, rng.uniform(0.05, 5.0, (series, steps))


def smoothed(plane: Plane, drift: float, elapsed: np.ndarray) -> np.ndarray:
    """The optimum without the simplex, (S, T, m)."""
    bond = chain.bonds(np.full(len(elapsed), drift), elapsed, START_SCALE**-2)
    return chain.solution(*plane.by_step(), bond).transpose(2, 1, 0)


def hessian(plane: Plane, drift: float, elapsed: np.ndarray, s: int) -> np.ndarray:
    """The dense matrix of one series."""
    steps, m = plane.b.shape[1:]
    chain = np.zeros((steps, steps))
    chain[0, 0] = START_SCALE**-2
    for t in range(1, steps):
        weight = 1 / (drift * elapsed[s, t])
        chain[t - 1 : t + 1, t - 1 : t + 1] += weight * np.array([[1, -1], [-1, 1]])
    full = np.kron(chain, np.eye(m))
    for t in range(steps):
        full[t * m : (t + 1) * m, t * m : (t + 1) * m] += plane.A[s, t]
    return full


def check_optimal(plane: Plane, drift: np.ndarray, elapsed: np.ndarray, found: Optimum) -> None:
    for s in range(len(plane.b)):
        alpha, dual = found.alpha[s], found.multipliers[s]
        size = 1 + np.abs(plane.b[s]).max()
        assert alpha.min() >= 0
        np.testing.assert_allclose(alpha.sum(-1), 1, rtol=0, atol=1e-12)
        assert dual.min() >= 0
        beta = (alpha - 1 / alpha.shape[-1]) @ plane.basis
        gradient = hessian(plane, float(drift[s]), elapsed, s) @ beta.ravel() - plane.b[s].ravel()
        stationarity = gradient - (dual @ plane.basis).ravel()
        assert np.abs(stationarity).max() <= 1e-8 * size
        assert (alpha * dual).max() <= 1e-8 * size
        assert found.gap[s] == pytest.approx((alpha * dual).max(), abs=1e-12 * size)


@pytest.fixture(params=["step by step", "banded", "interior point"])
def way(request, monkeypatch):
    """Many chains, few chains, and what is left to the interior-point method."""
    monkeypatch.setattr(chain, "MANY", 0 if request.param == "step by step" else 10**9)
    if request.param == "interior point":
        monkeypatch.setattr(constrained, "MAX_ROUNDS", 0)


@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    seed=st.integers(0, 2**31),
    steps=st.integers(1, 30),
    regimes=st.integers(2, 6),
    log_drift=st.floats(-5, -0.52),
    log_noise=st.floats(-3, 1),
    holes=st.sampled_from([0.0, 0.3, 0.9]),
    off=st.sampled_from([0.0, 1.0]),
)
def test_the_answer_meets_the_optimality_conditions(
    way, seed, steps, regimes, log_drift, log_noise, holes, off
):
    plane, elapsed = problem(
        seed,
        series=3,
        steps=steps,
        regimes=regimes,
        noise=10**log_noise,
        d=1 + seed % 6,
        holes=holes,
        off=off,
    )
    drift = 10**log_drift * np.array([1.0, 0.1, 1.0])
    drift = np.clip(drift, 1e-5, 0.3)
    check_optimal(plane, drift, elapsed, solve(plane, drift, elapsed))


@pytest.mark.parametrize("seed", range(6))
def test_tiny_problems_equal_a_general_solver(seed):
    regimes, steps = 2 + seed % 3, 1 + seed // 2
    plane, elapsed = problem(seed, steps=steps, regimes=regimes, off=0.8)
    H, g = hessian(plane, 0.05, elapsed, 0), plane.b[0].ravel()
    lift = np.kron(np.eye(steps), plane.basis)
    other = minimize(
        lambda x: 0.5 * x @ H @ x - g @ x,
        np.zeros(len(g)),
        jac=lambda x: H @ x - g,
        constraints=LinearConstraint(lift, -1 / regimes, np.inf),
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    found = solve(plane, 0.05, elapsed).alpha[0]
    expected = plane.weights(other.x.reshape(steps, -1))
    np.testing.assert_allclose(found, expected, atol=2e-6)
    if plane.weights(np.linalg.solve(H, g).reshape(steps, -1)).min() < -0.01:
        assert found.min() < 1e-4  # the constraint matters


def test_tiny_problems_equal_the_best_active_set():
    for seed in range(8):
        plane, elapsed = problem(seed, steps=2, regimes=3, off=0.8)
        H, g = hessian(plane, 0.05, elapsed, 0), plane.b[0].ravel()
        lift = np.kron(np.eye(2), plane.basis)
        best, value = None, np.inf
        for code in range(2**6):
            on = np.array([bool(code >> i & 1) for i in range(6)])
            if on.sum() > 4 or on[:3].all() or on[3:].all():
                continue
            rows = lift[on]
            system = np.block([[H, rows.T], [rows, np.zeros((on.sum(), on.sum()))]])
            right = np.concatenate([g, np.full(on.sum(), -1 / 3)])
            x = np.linalg.solve(system, right)[: len(g)]
            cost = 0.5 * x @ H @ x - g @ x
            if (lift @ x >= -1 / 3 - 1e-9).all() and cost < value:
                best, value = x, cost
        found = solve(plane, 0.05, elapsed).alpha[0]
        np.testing.assert_allclose(found.ravel(), lift @ best + 1 / 3, atol=1e-6)


def test_an_interior_optimum_is_the_smoothed_mean():
    rng = np.random.default_rng(0)
    means = rng.standard_normal((2, 12, 3, 4))
    values = means.mean(axis=2) + 0.02 * rng.standard_normal((2, 12, 4))
    plane = Evidence.of_block(means, values, np.eye(4) / 0.02**2).on_plane()
    elapsed = rng.uniform(0.5, 2.0, (2, 12))
    unconstrained = plane.weights(smoothed(plane, 0.01, elapsed))
    assert unconstrained.min() > 0.05
    found = solve(plane, 0.01, elapsed)
    np.testing.assert_allclose(found.alpha, unconstrained, atol=1e-6)
    assert found.multipliers.max() <= 1e-6 * (1 + np.abs(plane.b).max())


def test_the_constrained_answer_is_better_than_the_projected_one():
    from mechtrace.recover.simplex import project

    plane, elapsed = problem(3, steps=10, regimes=4, off=1.0)
    H, g = hessian(plane, 0.02, elapsed, 0), plane.b[0].ravel()

    def cost(alpha: np.ndarray) -> float:
        x = ((alpha - 0.25) @ plane.basis).ravel()
        return float(0.5 * x @ H @ x - g @ x)

    projected = project(plane.weights(smoothed(plane, 0.02, elapsed)))[0]
    found = solve(plane, 0.02, elapsed).alpha[0]
    assert cost(found) < cost(projected) - 1e-3
    rng = np.random.default_rng(0)
    for _ in range(50):  # nor is any neighbour better
        near = project(found + 0.05 * rng.standard_normal(found.shape))
        assert cost(near) >= cost(found) - 1e-6


@pytest.mark.parametrize("regimes", [2, 3, 6])
@pytest.mark.parametrize("steps", [1, 7])
def test_without_evidence_all_regimes_are_equal(steps, regimes):
    plane, elapsed = problem(0, series=2, steps=steps, regimes=regimes, holes=2.0)
    assert not plane.A.any()
    found = solve(plane, 0.01, elapsed)
    np.testing.assert_allclose(found.alpha, 1 / regimes, atol=1e-12)


def test_one_step_with_certain_evidence_is_that_corner():
    means = np.eye(3)[None, None]
    values = np.array([[[0.0, 1.0, 0.0]]])
    plane = Evidence.of_block(means, values, 1e8 * np.eye(3)).on_plane()
    found = solve(plane, 0.1, np.ones((1, 1)))
    np.testing.assert_allclose(found.alpha, [[[0, 1, 0]]], atol=1e-4)


@pytest.mark.parametrize("strength", [1e-6, 1.0, 1e6, 1e10])
def test_extremes_of_evidence_next_to_each_other_are_solved(way, strength):
    rng = np.random.default_rng(1)
    means = np.broadcast_to(np.eye(4), (2, 40, 4, 4)).copy()
    values = rng.dirichlet(np.full(4, 0.2), size=(2, 40)) + 0.1 * rng.standard_normal((2, 40, 4))
    values[0, 10:30] = np.nan
    precision = np.where(np.arange(40) % 2, 1.0, strength)[None, :, None, None] * np.eye(4)
    plane = Evidence.of_block(means, values, np.broadcast_to(precision, (2, 40, 4, 4))).on_plane()
    drift = np.array([1e-5, 0.3])
    elapsed = np.ones((2, 40))
    check_optimal(plane, drift, elapsed, solve(plane, drift, elapsed))


@pytest.mark.parametrize("far", [0.0, 0.1, 10.0])
def test_the_guess_does_not_matter(far):
    plane, elapsed = problem(6, series=5, steps=20, regimes=4, off=0.8)
    guess = np.full((5, 20, 4), 0.25)
    guess += far * np.random.default_rng(0).standard_normal((5, 20, 3)) @ plane.basis.T
    found = solve(plane, 0.03, elapsed, guess=guess)
    check_optimal(plane, np.full(5, 0.03), elapsed, found)
    np.testing.assert_allclose(found.alpha, solve(plane, 0.03, elapsed).alpha, atol=1e-7)


def test_series_are_solved_as_if_alone():
    plane, elapsed = problem(4, series=6, steps=14, regimes=4, off=0.5, holes=0.2)
    drift = np.geomspace(1e-4, 0.3, 6)
    together = solve(plane, drift, elapsed)
    for s in range(6):
        part = Plane(plane.A[[s]], plane.b[[s]], plane.offset[[s]], plane.dims[[s]], plane.basis)
        alone = solve(part, drift[s], elapsed[[s]])
        np.testing.assert_allclose(together.alpha[s], alone.alpha[0], rtol=0, atol=1e-9)


def test_more_start_precision_pulls_the_first_step_to_the_middle():
    plane, elapsed = problem(5, steps=6, off=0.5)
    distance = [
        np.abs(solve(plane, 0.01, elapsed, start_precision=p).alpha[0, 0] - 1 / 3).max()
        for p in (0.1, 100.0, 1e5)
    ]
    assert distance[0] > distance[1] > distance[2]
    assert distance[2] < 0.01


def test_what_cannot_be_solved_is_said_in_a_sentence(monkeypatch):
    monkeypatch.setattr(constrained, "MAX_ROUNDS", 0)
    monkeypatch.setattr(interior, "MAX_ITERATIONS", 1)
    plane, elapsed = problem(0, off=1.0)
    with pytest.raises(DataError, match=r"the curves of 1 of 1 recordings .* without bias"):
        solve(plane, np.array([0.01]), elapsed)
