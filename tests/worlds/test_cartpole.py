"""The two carts: drawing, edges, physics, and the way through fit, encode and recover."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import mechtrace as mt
from mechtrace.errors import ConfigError, DataError
from mechtrace.metrics import weight_correlation
from mechtrace.worlds import EmergentEdge, make, oracle, write_truth
from mechtrace.worlds.drawing import companion_radius
from mechtrace.worlds.physics import BASELINE, PARAMETERS, TAU, _euler
from mechtrace.worlds.rendering import CartPoleScene, Rendered

WORLDS = ("cartpole", "cartpole-physics")
#: v -> theta, theta -> omega, omega -> v, x -> omega
EDGES = [[], [(1, 2)], [(2, 3)], [(3, 1)], [(0, 3)]]


# --- drawing -----------------------------------------------------------------------------------


def states(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1.1, 1.1, (count, 2))


@pytest.mark.parametrize("size", [16, 64, 128])
def test_drawing_is_the_same_whoever_asks(size: int) -> None:
    state = states(40)
    render, again = Rendered(state, CartPoleScene(size)), Rendered(state, CartPoleScene(size))
    whole = render[:]
    assert (whole.dtype, whole.shape) == (np.uint8, (40, size, size))
    np.testing.assert_array_equal(whole, again[:])
    np.testing.assert_array_equal(render[[7, 31]], whole[[7, 31]])
    np.testing.assert_array_equal(render.subset([7, 31])[:], whole[[7, 31]])
    there = render.on(torch.device("cpu"))
    np.testing.assert_array_equal(there.take(torch.tensor([7, 31])).numpy(), whole[[7, 31]])
    out = torch.zeros(2, size, size, dtype=torch.uint8)
    there.take(torch.tensor([3, 4]), out=out)
    np.testing.assert_array_equal(out.numpy(), whole[3:5])
    assert list(render.hash_bytes()) == list(again.hash_bytes())
    assert list(render.hash_bytes()) != list(Rendered(state, CartPoleScene(2 * size)).hash_bytes())


@pytest.mark.cuda
@pytest.mark.parametrize("size", [32, 64, 128])
def test_a_gpu_draws_the_same_pixels(size: int) -> None:
    render, index = Rendered(states(2000), CartPoleScene(size)), torch.arange(2000)
    there = render.on(torch.device("cuda")).take(index)
    assert there.device.type == "cuda"
    np.testing.assert_array_equal(there.cpu().numpy(), render[:])


def test_a_picture_shows_rail_cart_and_pole_and_nothing_is_cut() -> None:
    scene = CartPoleScene(64)
    upright, left, tilted = Rendered(np.array([[0, 0], [-1, 0], [0, 1]]), scene)[:]
    np.testing.assert_array_equal(upright, upright[:, ::-1])  # symmetric
    assert set(np.unique(upright)) >= {0, 140, 255}
    assert 40 < upright[:, 0].max() <= 60  # the rail, which the pixels cut where they like
    cart = int(64 * scene.rail) - 3
    for picture, place in ((upright, 0.5), (left, 0.5 - scene.travel), (tilted, 0.5)):
        seen = np.flatnonzero(picture[cart] > 100)
        assert abs(seen.mean() + 0.5 - 64 * place) < 0.6
        assert abs(len(seen) - 64 * scene.cart[0]) <= 1
    tip = np.argwhere(tilted == 255)[0]
    pivot = np.array([64 * (scene.rail - scene.cart[1]), 32])
    angle = np.arctan2(tip[1] + 0.5 - pivot[1], pivot[0] - tip[0] - 0.5)
    assert angle == pytest.approx(scene.swing, abs=0.06)


@pytest.mark.parametrize("size", [32, 64])
@pytest.mark.parametrize("axis", [0, 1])
def test_pictures_change_smoothly(size: int, axis: int) -> None:
    """Equal small steps change the picture by about the same, wherever the cart is."""
    state = np.full((801, 2), 0.13)
    state[:, axis] = np.linspace(-1, 1, 801)
    render = Rendered(state, CartPoleScene(size))[:].astype(float)
    change = np.abs(np.diff(render, axis=0)).mean(axis=(1, 2))
    far = np.abs(render[20:] - render[:-20]).mean(axis=(1, 2))
    assert change.max() < 4 * change.mean()  # no jump
    assert change.min() > 0.1 * change.mean()  # no standstill
    assert far.min() > 0.5 * far.mean()  # no saturation
    assert np.abs(np.diff(render, axis=0)).max() < 255 * 0.3  # no pixel flips at once


@pytest.mark.parametrize("name", WORLDS)
def test_almost_all_steps_are_in_the_picture(name: str) -> None:
    for seed in range(3):
        world = make(name, size=16, seed=seed)
        pure = world.simulate(40, seed=4)
        glide = world.transition("complex", series=100, seed=5)
        for run in (pure, glide):
            assert world.view.outside(run.latents) < 1e-3
        place = world.view.place(pure.latents)
        assert place.std(axis=(0, 1)).min() > 0.1  # and it uses the room that it has
    far = np.zeros((2, 4))
    far[1] = 1e6
    assert world.view.outside(far) == 0.5
    assert 1 < world.view.place(far).max() < 1.2


# --- the paper's dynamics ----------------------------------------------------------------------


def test_the_named_edges_and_nothing_else_differ() -> None:
    for seed in range(10):
        world = make("cartpole", seed=seed)
        change = world.mechanisms - world.mechanisms[0]
        assert [[(int(i), int(j)) for i, j in np.argwhere(c)] for c in change] == EDGES
        assert change[change != 0] == pytest.approx(0.3)
        assert world.mechanisms.shape == (5, 4, 4)
        assert world.lagged.shape == (1, 4, 4)
        np.testing.assert_array_equal(world.scales, np.full((5, 4), 0.05))
        weights = np.random.default_rng(seed).dirichlet(np.ones(5), 50)
        mixtures = np.einsum("nk,kij->nij", np.concatenate([weights, np.eye(5)]), world.mechanisms)
        radius = companion_radius(mixtures, world.lagged)
        assert radius.min() > 0.5
        assert radius.max() < 1


def test_a_recording_has_the_length_and_the_start_that_were_asked_for() -> None:
    world = make("cartpole", size=16)
    run = world.simulate(200)
    assert run.latents.shape == (1000, 100, 4)
    first, last = (run.latents[:, rows].std() for rows in (slice(0, 5), slice(-5, None)))
    assert first == pytest.approx(last, rel=0.1)  # settled: no memory of how it began
    assert repr(run.panel) == (
        "Panel: 1000 series x 100 rows x 16x16 pixels, regimes: R0, R1, R2, R3, R4 (simulation)"
    )
    short = world.transition("step", series=3, length=20, active=[1, 4])
    assert (short.panel.lengths.tolist(), short.panel.labelled) == ([20] * 3, False)
    np.testing.assert_array_equal(
        short.panel.values[45],
        Rendered(world.view.place(short.latents[2, 5:6]), CartPoleScene(16))[0],
    )


# --- physics -----------------------------------------------------------------------------------


def test_physics_obeys_the_equations_of_motion() -> None:
    """Lagrange's equations, written another way: both must hold for what one step changes."""
    z = np.random.default_rng(0).normal(0, 0.5, (20, 4))
    force = np.random.default_rng(1).normal(0, 5, 20)
    after = _euler(z, force, BASELINE[None])
    x_acc, turn_acc = (after - z)[:, 1] / TAU, (after - z)[:, 3] / TAU
    length, mass, friction, gravity, _ = BASELINE
    m, (_, v, theta, omega) = 0.1, z.T
    np.testing.assert_allclose((after - z)[:, [0, 2]] / TAU, z[:, [1, 3]])
    along = (mass + m) * x_acc + m * length * (turn_acc * np.cos(theta) - omega**2 * np.sin(theta))
    np.testing.assert_allclose(along, force - friction * v)
    around = 4 / 3 * length * turn_acc + x_acc * np.cos(theta)
    np.testing.assert_allclose(around, gravity * np.sin(theta), atol=1e-12)


def test_each_regime_of_physics_changes_one_parameter_and_no_pole_falls() -> None:
    world = make("cartpole-physics", size=16)
    assert len(world.regimes) == 1 + len(PARAMETERS)
    changed = [np.flatnonzero(row != BASELINE).tolist() for row in world.parameters]
    assert changed == [[], [0], [1], [2], [3], [4]]
    for run in (world.simulate(50), world.transition("complex", series=100, seed=1)):
        angle = run.latents[..., 2]
        assert np.abs(angle).max() < 0.4
        assert angle.std(axis=1).min() > 0.005  # nor does one stand still
    same = make("cartpole-physics", strength=0.0)
    np.testing.assert_array_equal(same.parameters, np.tile(BASELINE, (6, 1)))


def test_conditional_means_and_matrices_of_physics() -> None:
    world = make("cartpole-physics", size=16)
    run = world.simulate(200, seed=2)
    means = run.conditional_means()
    assert means.shape == (1200, 100, 6, 4)
    own = means[np.arange(1200), :, run.label]
    rest = (run.latents - own)[:, 1:]
    assert np.isnan(own[:, 0]).all()
    by_regime = rest.reshape(6, -1, 4)
    np.testing.assert_allclose(by_regime.std(axis=1), world.scales, rtol=0.05)
    assert np.abs(by_regime.mean(axis=1) / world.scales).max() < 0.03
    matrices = world.transition("linear", length=7).transition_matrices
    assert matrices.shape == (7, 4, 4)
    assert np.abs(np.linalg.eigvals(matrices)).max() < 1  # the controller balances all mixtures
    assert matrices[0, 1, 0] == pytest.approx(TAU)  # speed moves the cart: causes are in rows


# --- both --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "active"), [(WORLDS[0], None), (WORLDS[1], [0, 2, 4])])
def test_the_oracle_recovers_a_pooled_transition(name: str, active: list[int] | None) -> None:
    world = make(name, size=16, seed=2)
    glide = world.transition("simple", series=200, active=active, seed=1)
    found, lags = oracle(glide, pool=True).alpha.reshape(-1, glide.alpha.shape[-1]), 2
    chosen = slice(None) if active is None else active
    truth = glide.alpha[0][lags:, chosen]
    assert weight_correlation(truth, found[lags:, chosen]) > 0.9


@pytest.mark.parametrize("name", WORLDS)
def test_seeds_decide_everything(name: str, tmp_path) -> None:
    def made(seed: int, world_seed: int = 0) -> tuple[np.ndarray, str]:
        run = make(name, seed=world_seed, size=16).transition("medium", series=2, seed=seed)
        return run.latents, run.panel.fingerprint()

    np.testing.assert_array_equal(made(3)[0], made(3)[0])
    assert made(3)[1] == made(3)[1]
    assert made(3)[1] != made(4)[1]
    assert made(3)[1] != made(3, world_seed=1)[1]
    run = make(name, size=16).transition("medium", series=2)
    write_truth(run, tmp_path / "truth.npz")
    with np.load(tmp_path / "truth.npz") as truth:
        assert truth["transition_matrices"].shape == (100, 4, 4)


def test_emergent_edges_are_added_where_there_are_edges() -> None:
    edge = EmergentEdge(source=0, target=1, strength=0.5)
    glide = make("cartpole", size=16).transition(active=[0, 1], emergent=edge)
    plain = make("cartpole", size=16).transition(active=[0, 1])
    extra = glide.transition_matrices - plain.transition_matrices
    assert extra.max() == pytest.approx(0.5)
    assert set(map(tuple, np.argwhere(extra)[:, 1:])) == {(0, 1)}


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: make("cartpole", size=4), "use at least 8 pixels"),
        (lambda: make("cartpole", observation_noise=0.1), "no observation noise"),
        (lambda: make("cartpole", latents=2, channels=2), "3 latents"),
        (lambda: make("cartpole", regimes=3), "list the changed edges of each regime"),
        (lambda: make("cartpole", edges=((), ((0, 9),)), regimes=2), "as pairs of latents"),
        (lambda: make("cartpole-physics", size=4), "use at least 8 pixels"),
        (lambda: make("cartpole-physics", noise=0.0), "make the noise positive"),
        (lambda: make("cartpole-physics", strength=2.0), "the strength at most 1"),
        (lambda: make("cartpole-physics", regimes=3), "a world has no option 'regimes'"),
        (
            lambda: make("cartpole-physics", size=16).transition(emergent=EmergentEdge(0, 1)),
            "physics has no edges to add",
        ),
    ],
)
def test_what_cannot_be_is_refused(act, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        act()
    assert "\n" not in str(caught.value)


@pytest.mark.filterwarnings("ignore::mechtrace.errors.FitWarning")
@pytest.mark.parametrize("name", WORLDS)
def test_from_pictures_to_a_curve(name: str, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(
        "mechtrace.stage1.fit_run.validate_model", lambda *_: None
    )  # too few steps to learn
    world = make(name, size=16, length=30)
    panel = world.simulate(8).panel
    new = world.transition("simple", series=2, seed=9).panel
    model = mt.Trace(latents=4, lags=2, hidden=16, steps=8, batch=6, evaluations=2)
    model.fit(panel, progress=False)
    assert [one.shape for one in model.encode(new)] == [(30, 4)] * 2
    path = model.recover(new, pool=True)
    np.testing.assert_allclose(path.alpha[2:].sum(axis=1), 1)
    panel.to_npz(tmp_path / "render.npz")
    mapped = mt.Panel.from_npz(tmp_path / "render.npz")
    np.testing.assert_array_equal(model.encode(mapped)[3], model.encode(panel)[3])
    model.save(tmp_path / "render.mechtrace")
    again = mt.load(tmp_path / "render.mechtrace").recover(new, pool=True)
    np.testing.assert_array_equal(again.alpha, path.alpha)
    mt.report(model, path, tmp_path / "report.html", panel=new)
    model.diagnose(path)


def test_the_command_writes_pictures_as_arrays(tmp_path, command) -> None:
    small = ["--world", "cartpole", "--set", "size=16", "--series", 2]
    code, said, error = command("simulate", "--out", tmp_path / "render.npz", *small)
    assert code == 0, error
    assert "10 series x 100 rows x 16x16 pixels" in said
    panel = mt.Panel.from_npz(tmp_path / "render.npz")
    direct = make("cartpole", size=16).simulate(2).panel
    np.testing.assert_array_equal(panel.values, direct.values[:])
    assert panel.regimes == direct.regimes
    code, _, error = command("simulate", "--out", tmp_path / "render.csv", *small)
    assert (code, "images do not fit a table; use to_npz (a .npz file)" in error) == (2, True)
    large = ["--world", "cartpole", "--series", 400]
    code, _, error = command("simulate", "--out", tmp_path / "large.npz", *large)
    assert (code, "would take 3.3 GB; use fewer --series" in error) == (2, True)
    assert not (tmp_path / "large.npz").exists()


def test_pictures_do_not_fit_a_table() -> None:
    with pytest.raises(DataError, match="do not fit a table"):
        make("cartpole", size=16).simulate(1).panel.to_frame()
