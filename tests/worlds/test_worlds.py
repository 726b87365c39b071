"""Worlds: the drawn matrices, the equation that is simulated, schedules, truth files, errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from scipy.stats import kurtosis

from mechtrace.errors import ConfigError
from mechtrace.worlds import (
    PRESETS,
    SCHEDULES,
    EmergentEdge,
    Simulation,
    World,
    WorldConfig,
    make,
    make_schedule,
    oracle,
    write_truth,
)
from mechtrace.worlds.drawing import companion_radius
from mechtrace.worlds.synthetic import OTHERS

few = settings(max_examples=40, deadline=None)


# --- the truth, computed here a second time ----------------------------------------------------


def leaky(x: np.ndarray, slope: float) -> np.ndarray:
    return np.where(x > 0, x, slope * x)


def unleaky(x: np.ndarray, slope: float) -> np.ndarray:
    return np.where(x > 0, x, x / slope)


def mixed(world: World, alpha: np.ndarray) -> np.ndarray:
    """W(t) of every series and step."""
    return np.einsum("ntk,kij->ntij", alpha, world.mechanisms)


def before_activation(world: World, z: np.ndarray, matrices: np.ndarray) -> np.ndarray:
    """The argument of the outer activation from step `lags` on, (N, T - L, d)."""
    lags, leak, steps = world.config.lags, world.config.leak, z.shape[1]
    z = z.astype(float)
    total = leaky(np.einsum("nti,ntij->ntj", z[:, lags - 1 : -1], matrices[:, lags:]), leak)
    for lag, later in enumerate(world.lagged, start=2):
        total += leaky(z[:, lags - lag : steps - lag] @ later, leak)
    return total


def residuals(simulation: Simulation) -> np.ndarray:
    """z_t minus its conditional mean, which must be the noise: (N, T - L, d)."""
    world = simulation.world
    drive = before_activation(world, simulation.latents, mixed(world, simulation.alpha))
    return simulation.latents[:, world.config.lags :] - leaky(drive, world.config.leak)


def radius_of(matrix: np.ndarray, lagged: np.ndarray) -> float:
    """Growth rate of z_t = z_{t-1} W + z_{t-2} V_2 + ..., from a block matrix of row vectors."""
    blocks = [matrix, *lagged]
    d = len(matrix)
    step = np.zeros((len(blocks) * d, len(blocks) * d))
    step[:, :d] = np.vstack(blocks)
    for lag in range(1, len(blocks)):
        step[(lag - 1) * d : lag * d, lag * d : (lag + 1) * d] = np.eye(d)
    return float(np.abs(np.linalg.eigvals(step)).max())


def changed_edges(world: World) -> list[list[tuple[int, int]]]:
    """Edges of each regime that the majority of regimes does not have."""
    change = world.mechanisms - np.median(world.mechanisms, axis=0)
    return [[(int(i), int(j)) for i, j in np.argwhere(c)] for c in change]


# --- drawing -----------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", sorted(set(PRESETS) - {"cartpole", *OTHERS}))
def test_every_preset_is_stable_and_alive(preset: str) -> None:
    for seed in range(30):
        world = make(preset, seed=seed)
        w = world.mechanisms
        assert w.shape == (5, 8, 8)
        assert world.lagged.shape == (1, 8, 8)
        for a in range(len(w)):
            for b in range(a + 1):
                assert 0.5 < radius_of(0.5 * (w[a] + w[b]), world.lagged) < 1


@pytest.mark.parametrize("lags", [1, 2, 3])
def test_companion_radius_agrees_with_the_growth_of_a_linear_rollout(lags: int) -> None:
    world = make(lags=lags, regimes=2, seed=4)
    for k, radius in enumerate(companion_radius(world.mechanisms, world.lagged)):
        history = [np.ones(8)] * lags
        norms = []
        for _ in range(400):
            row = history[-1] @ world.mechanisms[k]
            for lag, later in enumerate(world.lagged, start=2):
                row = row + history[-lag] @ later
            history = [*history[1:], row] if lags > 1 else [row]
            norms.append(np.linalg.norm(row))
        assert radius == pytest.approx(norms[-1] / norms[-2], rel=1e-6)
        assert radius == pytest.approx(radius_of(world.mechanisms[k], world.lagged))


def test_the_base_has_the_wanted_radius_and_mechanisms_stay_below_the_limit() -> None:
    world = make(seed=2, radius=0.8, edge=0.05)
    base = np.median(world.mechanisms, axis=0)
    assert radius_of(base, world.lagged) == pytest.approx(0.8)
    for seed in range(5):
        world = make(seed=seed, radius=0.97, edge=0.6)
        assert companion_radius(world.mechanisms, world.lagged).max() <= 0.99 + 1e-9


def test_base_is_positive_and_ruled_by_its_diagonal() -> None:
    for seed in range(5):
        base = np.median(make(seed=seed).mechanisms, axis=0)
        assert (base >= 0).all()
        off = base - np.diag(np.diag(base))
        assert np.diag(base).min() > off.max()


def test_later_lags_matter_less() -> None:
    world = make(lags=3, seed=1)
    base = np.median(world.mechanisms, axis=0)
    diagonals = np.array([np.diag(m) for m in (base, *world.lagged)])
    np.testing.assert_allclose(diagonals[1:] / diagonals[:-1], 0.5, rtol=0.12)


def test_paper_changes_exactly_one_edge_per_regime() -> None:
    for seed in range(10):
        world = make(seed=seed)
        base = np.median(world.mechanisms, axis=0)
        edges = changed_edges(world)
        assert [len(one) for one in edges] == [1] * 5
        for k, ((i, j),) in enumerate(edges):
            assert i != j
            assert world.mechanisms[k, i, j] - base[i, j] == pytest.approx(0.3)
        assert len({j for ((_, j),) in edges}) == 5


def test_first_targets_are_distinct_and_later_ones_shared() -> None:
    for seed in range(10):
        edges = [one[0] for one in changed_edges(make(regimes=10, latents=8, seed=seed))]
        targets = [j for _, j in edges]
        assert len(set(edges)) == 10
        assert len(set(targets[:6])) == 6
        assert set(targets[6:]) <= set(targets[:6])


def test_the_number_of_distinct_targets_can_be_chosen() -> None:
    for seed in range(5):
        edges = changed_edges(make(distinct_targets=2, seed=seed))
        targets = [j for ((_, j),) in edges]
        assert len(set(targets[:2])) == 2
        assert set(targets) == set(targets[:2])


def test_two_edges_and_dense_changes() -> None:
    edges = changed_edges(make(change="two-edges", regimes=3, seed=1))
    assert [len(one) for one in edges] == [2, 2, 2]
    flat = [edge for one in edges for edge in one]
    assert len({j for _, j in flat}) == 6
    many = changed_edges(make(change="two-edges", regimes=6, seed=1))
    assert len({edge for one in many for edge in one}) == 12
    assert len({j for one in many[:3] for _, j in one}) == 6
    assert {j for one in many[3:] for _, j in one} <= {j for one in many[:3] for _, j in one}

    dense = make(change="dense", edge=0.3, regimes=12, latents=8, seed=1).mechanisms
    difference = dense[1:] - dense[:1]
    assert (difference != 0).all()
    assert difference.std() == pytest.approx(0.3 / np.sqrt(8) * np.sqrt(2), rel=0.1)


@pytest.mark.parametrize("share", [0.1, 0.4])
def test_impurity_mixes_in_the_mean_of_the_other_changes(share: float) -> None:
    pure = make(seed=3, radius=0.7, regimes=4)
    impure = make(seed=3, radius=0.7, regimes=4, impurity=share)
    np.testing.assert_allclose(pure.lagged, impure.lagged)  # the same draw of the same base
    base = np.median(pure.mechanisms, axis=0)
    change = pure.mechanisms - base
    for k in range(4):
        others = sum(change[j] for j in range(4) if j != k) / 3
        expected = base + (1 - share) * change[k] + share * others
        np.testing.assert_allclose(impure.mechanisms[k], expected, atol=1e-12)


def test_impurity_of_all_regimes_alike_leaves_no_difference() -> None:
    w = make(seed=3, regimes=4, impurity=0.75).mechanisms
    np.testing.assert_allclose(w - w[:1], 0, atol=1e-12)


def test_duplicate_and_average_regimes() -> None:
    world = make(regimes=3, duplicate=(1, 0), average=((0, 2),), seed=5)
    w = world.mechanisms
    assert world.regimes == ("R0", "R1", "R2", "R3", "R4", "R5")
    np.testing.assert_array_equal(w[3], w[1])
    np.testing.assert_array_equal(w[4], w[0])
    np.testing.assert_allclose(w[5], (w[0] + w[2]) / 2)
    assert not np.array_equal(w[0], w[1])
    assert world.scales.shape == (6, 8)
    simulation = world.simulate(2)
    assert simulation.alpha.shape == (12, 50, 6)
    assert simulation.panel.regimes == world.regimes


# --- the equation ------------------------------------------------------------------------------


@pytest.mark.parametrize("lags", [1, 2, 3])
@pytest.mark.parametrize("preset", ["paper", "linear-gaussian"])
def test_without_noise_the_latents_follow_the_recursion(preset: str, lags: int) -> None:
    world = make(preset, lags=lags, noise=1e-12, seed=1)
    assert len(world.lagged) == lags - 1
    for simulation in (world.simulate(3), world.transition("simple", series=3)):
        z = simulation.latents.astype(float)
        roll = z[:, :lags].copy()
        matrices = mixed(world, simulation.alpha)
        for t in range(lags, z.shape[1]):
            block = np.concatenate([roll[:, -lags:], np.zeros_like(roll[:, :1])], axis=1)
            last = matrices[:, t - lags : t + 1]
            row = leaky(before_activation(world, block, last), world.config.leak)
            roll = np.concatenate([roll, row], axis=1)
        np.testing.assert_allclose(z, roll, atol=1e-5)
        assert np.abs(z[:, lags:]).max() > 0.1


def test_the_noise_is_gaussian_white_and_of_the_right_scale() -> None:
    simulation = make(seed=1, noise=0.2).simulate(200)
    rest = residuals(simulation)
    assert rest.shape == (1000, 48, 8)
    np.testing.assert_allclose(rest.std(axis=(0, 1)), 0.2, rtol=0.02)
    np.testing.assert_allclose(rest.mean(axis=(0, 1)), 0, atol=0.004)
    assert kurtosis(rest, axis=None) == pytest.approx(0, abs=0.05)
    assert np.abs(np.corrcoef(rest.reshape(-1, 8).T) - np.eye(8)).max() < 0.02
    assert abs((rest[:, 1:] * rest[:, :-1]).mean()) < 0.01 * 0.2**2


def test_laplace_noise_has_heavy_tails_and_the_same_variance() -> None:
    rest = residuals(make("laplace", seed=1).simulate(200))
    np.testing.assert_allclose(rest.std(axis=(0, 1)), 0.1, rtol=0.03)
    assert kurtosis(rest, axis=None) == pytest.approx(3, abs=0.3)


def test_component_scales_are_relative_to_the_noise() -> None:
    scales = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 0.25, 1.0)
    world = make(component_scales=scales, seed=1)
    np.testing.assert_allclose(world.scales, 0.1 * np.tile(scales, (5, 1)))
    rest = residuals(world.simulate(100))
    np.testing.assert_allclose(rest.std(axis=(0, 1)), 0.1 * np.array(scales), rtol=0.03)


def test_component_scales_can_be_drawn_from_a_range() -> None:
    world = make(component_scales=(0.5, 2.0), seed=1)
    relative = world.scales / 0.1
    assert (relative >= 0.5).all()
    assert (relative <= 2.0).all()
    assert len(np.unique(relative[0])) == 8
    np.testing.assert_array_equal(relative, np.tile(relative[0], (5, 1)))


def test_noise_scales_can_differ_between_regimes() -> None:
    world = make(regime_scale_spread=3.0, seed=1)
    relative = world.scales / 0.1
    assert (relative > 1 / 3).all()
    assert (relative < 3).all()
    assert (relative > 1).any()
    assert (relative < 1).any()
    rest = residuals(world.simulate(100)).reshape(5, -1, 8)
    np.testing.assert_allclose(rest.std(axis=1), world.scales, rtol=0.06)
    blend = residuals(world.transition("constant", series=400))
    np.testing.assert_allclose(blend.std(axis=(0, 1)), world.scales.mean(axis=0), rtol=0.04)


def test_noise_inside_enters_before_the_outer_activation() -> None:
    world = make(noise_inside=True, seed=1)
    simulation = world.simulate(100)
    drive = before_activation(world, simulation.latents, mixed(world, simulation.alpha))
    rest = unleaky(simulation.latents[:, 2:].astype(float), 0.2) - drive
    np.testing.assert_allclose(rest.std(axis=(0, 1)), 0.1, rtol=0.03)
    np.testing.assert_allclose(rest.mean(axis=(0, 1)), 0, atol=0.003)
    assert kurtosis(rest, axis=None) == pytest.approx(0, abs=0.1)
    assert residuals(simulation).std() < 0.098  # the activation shrinks what is below zero


def test_start_rows_are_standard_normal_or_its_size() -> None:
    start = make(lags=3).simulate(400).latents[:, :3]
    assert start.mean() == pytest.approx(0, abs=0.02)
    assert start.std() == pytest.approx(1, abs=0.02)
    positive = make("paper-positive").simulate(400).latents[:, :2]
    assert positive.min() >= 0
    assert positive.mean() == pytest.approx(np.sqrt(2 / np.pi), abs=0.02)


def test_linear_gaussian_is_linear() -> None:
    world = make("linear-gaussian", seed=2)
    simulation = world.simulate(60)
    z = simulation.latents.astype(float).reshape(5, -1, 50, 8)
    for k in range(5):
        mean = z[k, :, 1:-1] @ world.mechanisms[k] + z[k, :, :-2] @ world.lagged[0]
        rest = z[k, :, 2:] - mean
        assert rest.std() == pytest.approx(0.1, rel=0.03)
        # least squares finds the very matrices, because nothing is bent
        past = np.concatenate([z[k, :, 1:-1], z[k, :, :-2]], axis=-1).reshape(-1, 16)
        found = np.linalg.lstsq(past, z[k, :, 2:].reshape(-1, 8), rcond=None)[0]
        np.testing.assert_allclose(found[:8], world.mechanisms[k], atol=0.12)
    a, b = np.random.default_rng(0).standard_normal((2, 20, 8)).astype(np.float32)
    np.testing.assert_allclose(world.mix(a - b), world.mix(a) - world.mix(b), atol=1e-5)
    bent = make("paper", seed=2)
    assert np.abs(bent.mix(a - b) - bent.mix(a) + bent.mix(b)).max() > 0.1


def test_each_series_may_have_its_own_schedule() -> None:
    world = make(seed=1, noise=1e-12, regimes=3)
    rng = np.random.default_rng(0)
    alpha = rng.dirichlet(np.ones(3), (4, 20))
    alpha[2] = alpha[1]
    simulation = Simulation.run(world, alpha, rng, length=20)
    assert np.abs(residuals(simulation)).max() < 1e-5
    np.testing.assert_allclose(simulation.transition_matrices, mixed(world, alpha))


# --- observations ------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("channels", [8, 16])
def test_the_mixing_can_be_undone(depth: int, channels: int) -> None:
    world = make(depth=depth, channels=channels, seed=1)
    assert len(world.mixing) == depth
    for layer in world.mixing:
        np.testing.assert_allclose(layer @ layer.T, np.eye(len(layer)), atol=1e-5)
    z = np.random.default_rng(0).standard_normal((50, 8)).astype(np.float32)
    x = world.mix(z).astype(float)
    assert x.shape == (50, channels)
    if depth == 1:
        distances = np.linalg.norm(x[:, None] - x, axis=-1)
        np.testing.assert_allclose(distances, np.linalg.norm(z[:, None] - z, axis=-1), atol=1e-4)
    for layer in world.mixing[:0:-1]:
        x = unleaky(x @ layer.T, world.config.leak)
    np.testing.assert_allclose(x @ world.mixing[0].T, z, atol=1e-4)


def test_observations_are_the_mixed_latents_plus_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mechtrace.worlds.synthetic.CHUNK_ROWS", 77)
    clean = make(seed=1).simulate(20)
    np.testing.assert_allclose(
        clean.observations, clean.world.mix(clean.latents), rtol=1e-4, atol=1e-5
    )
    noisy = make(seed=1, observation_noise=0.3).simulate(20)
    np.testing.assert_array_equal(noisy.latents, clean.latents)
    rest = noisy.observations - noisy.world.mix(noisy.latents)
    np.testing.assert_allclose(rest.std(axis=(0, 1)), 0.3, rtol=0.06)


# --- truth -------------------------------------------------------------------------------------


def test_transition_matrices_mix_the_mechanisms_and_add_the_emergent_edge() -> None:
    edge = EmergentEdge(source=2, target=5, strength=0.4, regime=1, low=0.3, high=0.7)
    share = np.array([0.0, 0.0, 0.3, 0.31, 0.5, 0.69, 0.7, 0.71, 1.0])
    schedule = np.column_stack([1 - share, share])
    world = make(seed=1, regimes=3, noise=1e-12)
    simulation = world.transition(
        schedule, active=[0, 1], series=2, length=len(share), emergent=edge
    )
    expected = np.einsum("tk,kij->tij", np.column_stack([schedule, 0 * share]), world.mechanisms)
    plain = world.transition(schedule, active=[0, 1], series=2, length=len(share))
    np.testing.assert_allclose(plain.transition_matrices, expected, atol=1e-12)
    expected[3:6, 2, 5] += 0.4
    np.testing.assert_allclose(simulation.transition_matrices, expected, atol=1e-12)
    assert simulation.transition_matrices.shape == (9, 8, 8)
    # and the latents really follow these matrices
    drive = before_activation(world, simulation.latents, np.stack([expected, expected]))
    np.testing.assert_allclose(simulation.latents[:, 2:], leaky(drive, 0.2), atol=1e-5)
    assert np.abs(residuals(simulation)[:, 1:4]).max() > 1e-3


def test_conditional_means_of_pure_data_leave_only_noise() -> None:
    world = make(seed=1)
    simulation = world.simulate(60, length=20)
    means = simulation.conditional_means()
    assert means.shape == (300, 20, 5, 8)
    assert np.isnan(means[:, :2]).all()
    assert np.isfinite(means[:, 2:]).all()
    spread = np.empty((5, 5))
    for k in range(5):
        rows = slice(60 * k, 60 * (k + 1))
        rest = simulation.latents[rows, 2:, None] - means[rows, 2:]
        assert np.abs(rest[:, :, k].mean(axis=(0, 1))).max() < 0.015
        np.testing.assert_allclose(rest[:, :, k].std(axis=(0, 1)), 0.1, rtol=0.08)
        spread[k] = rest.std(axis=(0, 1, 3))
    # no other regime explains the data as well as its own
    assert (spread.argmin(axis=1) == np.arange(5)).all()
    np.testing.assert_array_equal(simulation.conditional_means(slice(7, 9)), means[7:9])


def test_write_truth_round_trip_without_pickle(tmp_path: Path) -> None:
    simulation = make(seed=1, regimes=3).transition("medium", series=2, emergent=EmergentEdge())
    path = tmp_path / "truth.npz"
    write_truth(simulation, path)
    assert [p.name for p in tmp_path.iterdir()] == ["truth.npz"]
    with np.load(path, allow_pickle=False) as back:
        assert set(back.files) == {
            "latents", "alpha", "transition_matrices", "conditional_means", "regimes",
        }  # fmt: skip
        np.testing.assert_array_equal(back["latents"], simulation.latents)
        np.testing.assert_array_equal(back["alpha"], simulation.alpha)
        np.testing.assert_array_equal(back["transition_matrices"], simulation.transition_matrices)
        means = simulation.conditional_means()
        np.testing.assert_allclose(back["conditional_means"], means, rtol=1e-6, atol=1e-6)
        assert back["regimes"].tolist() == ["R0", "R1", "R2"]


def test_oracle_is_good_and_pooling_helps() -> None:
    world = make("paper-positive")
    glide = world.transition("simple", active=[0, 2, 4], series=40, seed=1)
    truth = glide.alpha[0][2:]

    def error(alpha: np.ndarray) -> float:
        return np.abs(alpha[2:] - truth).mean()

    single = np.mean([error(alpha) for alpha in oracle(glide).alpha])
    pooled = error(oracle(glide, pool=True).alpha[0])
    assert pooled < 0.06 < single < 0.25


# --- labels and seeds --------------------------------------------------------------------------


def test_pure_runs_are_labelled_and_transitions_are_not() -> None:
    world = make(regimes=3, seed=1)
    simulation = world.simulate(2, length=7)
    panel = simulation.panel
    assert panel.source == "simulation"
    assert panel.lengths.tolist() == [7] * 6
    assert panel.regimes == ("R0", "R1", "R2")
    assert [series.regime[0] for series in panel] == ["R0", "R0", "R1", "R1", "R2", "R2"]
    np.testing.assert_array_equal(panel.values, simulation.observations.reshape(-1, 16))
    transition = world.transition("step", series=2, length=9)
    assert transition.label is None
    assert not transition.panel.labelled
    np.testing.assert_array_equal(transition.alpha[0], SCHEDULES["step"](9, 3))
    np.testing.assert_array_equal(transition.alpha[1], transition.alpha[0])


def test_label_noise_gives_wrong_names_but_true_data() -> None:
    simulation = make(seed=1).simulate(800, length=4, label_noise=0.3)
    assert simulation.label is not None
    true = simulation.alpha[:, 0].argmax(axis=1)
    np.testing.assert_array_equal(true, np.repeat(np.arange(5), 800))
    wrong = simulation.label != true
    assert wrong.mean() == pytest.approx(0.3, abs=0.03)
    shift = (simulation.label - true)[wrong] % 5
    counts = np.bincount(shift, minlength=5)
    assert counts[0] == 0
    np.testing.assert_allclose(counts[1:] / wrong.sum(), 0.25, atol=0.06)
    names = np.array([series.regime[0] for series in simulation.panel])
    np.testing.assert_array_equal(names, [f"R{k}" for k in simulation.label])
    clean = make(seed=1).simulate(800, length=4).label
    np.testing.assert_array_equal(clean, true)


def test_the_seeds_decide_everything() -> None:
    def parts(world_seed: int, seed: int) -> list[np.ndarray]:
        world = make(seed=world_seed)
        first, second = world.simulate(2, seed=seed), world.transition(series=2, seed=seed)
        return [world.mechanisms, first.observations, second.observations]

    once, again, other, elsewhere = parts(1, 0), parts(1, 0), parts(1, 1), parts(2, 0)
    for a, b in zip(once, again, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(once[0], other[0])
    assert (once[1][:, 0] != other[1][:, 0]).all()
    assert (once[2][:, 0] != other[2][:, 0]).all()
    assert (once[0] != elsewhere[0]).all()
    assert (once[1][:2, 0] != once[2][:, 0]).all()  # training and test data share no noise
    # the first series of a larger simulation of the same world are not copies of each other
    assert len(np.unique(once[1][:, 0, 0])) == 10


# --- schedules ---------------------------------------------------------------------------------


def test_own_schedules_and_active_regimes() -> None:
    mine = np.array([[0.2, 0.8], [1.0, 0.0], [0.5, 0.5]])
    full = make_schedule(mine, 3, regimes=4, active=[3, 1])
    np.testing.assert_array_equal(full[:, [3, 1]], mine)
    assert (full[:, [0, 2]] == 0).all()


# --- errors ------------------------------------------------------------------------------------

BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "unknown world": (lambda: make("papper"), "unknown world 'papper'; use one of"),
    "unknown option": (lambda: make(latent=3), "no option 'latent'; use .*'latents'"),
    "few channels": (lambda: make(channels=7), "7 channels cannot show 8 latents"),
    "zero": (lambda: make(regimes=0), "regimes = 0"),
    "negative radius": (lambda: make(radius=-1.0), "radius = -1.0"),
    "nan radius": (lambda: make(radius=float("nan")), "radius = nan"),
    "one latent": (lambda: make(latents=1), "latents = 1"),
    "short": (lambda: make(length=2), "length = 2"),
    "too many edges": (lambda: make(latents=3, regimes=7), "3 latents have too few edges for 7"),
    "too many pairs": (
        lambda: make(latents=3, regimes=16, change="two-edges"),
        "3 latents have too few edges for 16",
    ),
    "explosive": (lambda: make(edge=50.0, change="dense"), "no stable world found"),
    "short run": (lambda: make().simulate(1, length=2), "length 2 is not longer than 2 lags"),
    "unknown schedule": (
        lambda: make().transition("smple"),
        "unknown schedule 'smple'; use one of .*'simple'",
    ),
    "wrong shape": (
        lambda: make().transition(np.full((50, 4), 0.25)),
        r"shape \(50, 4\), expected \(50, 5\)",
    ),
    "wrong length": (
        lambda: make().transition(np.full((9, 5), 0.2), length=10),
        r"shape \(9, 5\), expected \(10, 5\)",
    ),
    "wrong sum": (lambda: make().transition(np.full((50, 5), 0.25)), "leaves the simplex"),
    "negative": (
        lambda: make_schedule(np.array([[1.5, -0.5]]), 1, 2),
        "leaves the simplex",
    ),
    "nan": (lambda: make_schedule(np.array([[np.nan, 1.0]]), 1, 2), "leaves the simplex"),
    "active twice": (lambda: make().transition(active=[1, 1]), r"active regimes \[1, 1\]"),
    "active unknown": (lambda: make().transition(active=[0, 5]), "numbers from 0 to 4"),
    "none active": (lambda: make().transition(active=[]), r"active regimes \[\]"),
}


def test_more_regimes_than_pairs_of_own_edges_share_edges_but_no_pair():
    changes = make(latents=4, regimes=20, change="two-edges", edge=0.2, radius=0.9)
    pattern = np.abs(changes.mechanisms - np.median(changes.mechanisms, axis=0)) > 0.1
    assert len({tuple(np.flatnonzero(one)) for one in pattern}) == 20
    assert (pattern.reshape(20, -1).sum(axis=1) == 2).all()


@pytest.mark.parametrize("case", sorted(BAD))
def test_bad_options_are_refused_in_one_line(case: str) -> None:
    act, message = BAD[case]
    with pytest.raises(ConfigError, match=message) as caught:
        act()
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


def test_the_largest_number_of_edges_is_accepted() -> None:
    world = make(latents=3, channels=3, regimes=6, edge=0.1, seed=0)
    assert len({edge for one in changed_edges(world) for edge in one}) == 6
    assert WorldConfig(latents=3, regimes=7, change="dense").regimes == 7


@pytest.mark.parametrize(
    "act",
    [
        lambda: make(noise_kind="cauchy"),
        lambda: make(start="zero"),
        lambda: make(change="edges"),
        lambda: make(duplicate=(7,)),
        lambda: make(average=((0, 9),)),
        lambda: make(component_scales=(1.0, 2.0, 3.0)),
        lambda: make(regime_scale_spread=0.0),
        lambda: make(noise=-1.0),
        lambda: make(regimes=1).simulate(2, label_noise=0.5),
        lambda: make().simulate(2, length=0),
        lambda: make().simulate(0),
        lambda: make(latents=4, regimes=2).transition(emergent=EmergentEdge()),
    ],
    ids=[
        "noise_kind", "start", "change", "duplicate", "average", "component_scales", "spread",
        "noise", "label_noise", "length", "series", "emergent",
    ],
)  # fmt: skip
def test_options_that_should_be_refused(act: Callable[[], Any]) -> None:
    with pytest.raises(ConfigError):
        act()
