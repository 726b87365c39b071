"""The pump: laws, regimes, machines, truth, and a short fit that recovers a glide."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import mechtrace as mt
from mechtrace.data.read import read_inputs
from mechtrace.errors import ConfigError
from mechtrace.metrics import weight_correlation, weight_error
from mechtrace.worlds import EmergentEdge, make, oracle, write_truth
from mechtrace.worlds.pump import CHANNELS, COEFFICIENTS, REGIMES, REST, TAU

CLOGGED, HEALTHY, WORN = range(3)
SPEED, _, _, INLET, OUTLET, FLOW, VIBRATION, WARMTH = range(8)


@pytest.fixture(scope="module")
def world():
    return make("pump")


@pytest.fixture(scope="module")
def pure(world):
    return world.simulate(60, seed=5)


def targets(world, regime: int, **change: float) -> np.ndarray:
    """What each part of the state is drawn to, near the rated point."""
    state = REST.copy()
    for name, value in change.items():
        state[globals()[name]] = value
    after = world.conditional_mean(np.stack([state, state])[None], regime)[0, 1]
    return state + TAU * (after - state)


# --- the laws --------------------------------------------------------------------------------


def test_a_healthy_pump_rests_at_the_rated_point(world) -> None:
    np.testing.assert_allclose(targets(world, HEALTHY), REST, atol=0.01)


def test_head_grows_as_speed_squared_and_suction_falls_as_flow_squared(world) -> None:
    def head(n: float) -> float:
        return targets(world, HEALTHY, SPEED=n)[OUTLET]

    shut_off = COEFFICIENTS[HEALTHY, 1]
    assert head(1.2) - head(1.0) == pytest.approx(shut_off * (1.2**2 - 1))
    for regime, resistance in ((HEALTHY, 0.1), (CLOGGED, 0.2)):
        fall = [targets(world, regime, FLOW=q)[INLET] for q in (0.0, 1.0, 2.0)]
        np.testing.assert_allclose(np.diff(fall), [-resistance, -3 * resistance])


def test_regimes_differ_in_the_mechanisms_that_their_names_say(world) -> None:
    healthy, worn, clogged = (targets(world, k) for k in (HEALTHY, WORN, CLOGGED))
    assert np.flatnonzero(worn - healthy).tolist() == [OUTLET, WARMTH]
    assert worn[OUTLET] < healthy[OUTLET] - 0.1
    assert worn[WARMTH] > healthy[WARMTH]
    assert np.flatnonzero(clogged - healthy).tolist() == [INLET]
    w = world.mixture_matrix(
        np.eye(3), None
    )  # not only levels: other effects of one part on another
    assert w[CLOGGED, FLOW, INLET] == pytest.approx(2 * w[HEALTHY, FLOW, INLET])
    assert w[WORN, FLOW, OUTLET] < w[HEALTHY, FLOW, OUTLET] - 0.01
    assert w[WORN, VIBRATION, WARMTH] == pytest.approx(1.5 * w[HEALTHY, VIBRATION, WARMTH])
    assert np.abs(np.linalg.eigvals(w)).max() < 1
    ratio = world.scales[CLOGGED] / world.scales[HEALTHY]
    assert np.flatnonzero(ratio - 1).tolist() == [VIBRATION]


def test_readings_are_possible_and_no_threshold_on_one_sensor_does(pure) -> None:
    x = pure.observations.reshape(3, -1, len(CHANNELS))
    assert x.min() > 0
    for regime in (WORN, CLOGGED):
        for channel in range(len(CHANNELS)):
            both = np.concatenate([x[HEALTHY, :, channel], x[regime, :, channel]])
            sign = np.repeat([-1, 1], len(both) // 2)[np.argsort(both)]
            right = 0.5 + np.abs(np.cumsum(sign)).max() / len(both)
            assert right < 0.82, CHANNELS[channel]


# --- truth -----------------------------------------------------------------------------------


def test_conditional_means_leave_only_noise(world, pure) -> None:
    rest = pure.latents[:, 1:, None] - pure.conditional_means()[:, 1:]
    rest = rest.reshape(3, -1, 3, 8)
    for k in range(3):
        np.testing.assert_allclose(rest[k, :, k].std(axis=0), world.scales[k], rtol=0.04)
        assert np.abs(rest[k, :, k].mean(axis=0) / world.scales[k]).max() < 0.05
        sizes = (rest[k] / world.scales[k]).std(axis=0).sum(axis=-1)
        assert sizes.argmin() == k


def test_a_transition_mixes_the_next_step_means(tmp_path) -> None:
    quiet = make("pump", noise=1e-9)
    glide = quiet.transition("linear", series=2, active=[HEALTHY, WORN], length=50)
    assert (glide.alpha[0, 0].tolist(), glide.alpha[0, -1].tolist()) == ([0, 1, 0], [0, 0, 1])
    means = np.einsum("ntk,ntkd->ntd", glide.alpha, glide.conditional_means())
    np.testing.assert_allclose(glide.latents[:, 1:], means[:, 1:], atol=1e-6)
    write_truth(glide, tmp_path / "truth.npz")
    with np.load(tmp_path / "truth.npz") as truth:
        assert truth["transition_matrices"].shape == (50, 8, 8)
        assert truth["regimes"].tolist() == list(REGIMES)


@pytest.mark.parametrize("active", [[HEALTHY, WORN], [HEALTHY, CLOGGED]])
def test_the_oracle_recovers_single_recordings(world, active: list[int]) -> None:
    glide = world.transition("simple", series=4, active=active, length=400, seed=1)
    for truth, found in zip(glide.alpha, oracle(glide).alpha, strict=True):
        assert weight_correlation(truth[1:, active], found[1:, active]) > 0.97
        assert weight_error(truth[1:], found[1:]) < 0.07


# --- machines --------------------------------------------------------------------------------


def test_machines_take_turns_and_keep_their_sensors(world) -> None:
    panel = world.simulate(7).panel
    assert panel.channels == CHANNELS
    assert panel.regimes == world.regimes == REGIMES
    assert panel.groups[:8].tolist() == [f"pump {k}" for k in (1, 2, 3, 4, 5, 6, 1, 2)]
    assert panel.time[:3].tolist() == [0.0, 1.0, 2.0]
    alone = make("pump", first=3, machines=1, sensor_noise=0.0)
    assert set(alone.simulate(2).panel.groups) == {"pump 3"}
    for one, other in zip(alone.sensors(3), world.sensors(3), strict=True):
        np.testing.assert_array_equal(one, other)
    state = np.broadcast_to(REST, (2, 4, 8))
    first, second = make("pump", machines=2).observe(state, np.random.default_rng(0))
    exact = make("pump", spread=0.0, sensor_noise=0.0).observe(state, np.random.default_rng(0))
    assert np.abs((first - second).mean(axis=0) / exact[0, 0]).max() > 0.01
    np.testing.assert_array_equal(exact[0], exact[1])


def test_seeds_decide_everything(world) -> None:
    def made(seed: int, world_seed: int = 0) -> str:
        drawn = make("pump", seed=world_seed)
        return drawn.transition("medium", series=2, seed=seed).panel.fingerprint()

    assert made(3) == made(3)
    assert len({made(3), made(4), made(3, world_seed=1)}) == 3


def test_the_command_writes_machines_and_seconds(tmp_path, command) -> None:
    file = tmp_path / "runs.csv"
    code, _, error = command("simulate", "--world", "pump", "--series", 2, "--out", file)
    assert code == 0, error
    table = pd.read_csv(file)
    assert list(table) == ["series", "time", "regime", "group", *CHANNELS]
    found = read_inputs([file], group="group").panel
    direct = make("pump").simulate(2).panel
    np.testing.assert_allclose(found.values, direct.values, rtol=1e-6)
    assert found.groups.tolist() == direct.groups.tolist()
    assert read_inputs([file]).panel.channels == CHANNELS  # names of machines are no measurement


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: make("pump", machines=0), "at least 1 machine"),
        (lambda: make("pump", first=0), "a first one from 1 on"),
        (lambda: make("pump", noise=0.0), "make the noise positive"),
        (lambda: make("pump", regimes=3), "a world has no option 'regimes'"),
        (lambda: make("pump").transition(emergent=EmergentEdge(0, 1)), "no edges to add"),
    ],
)
def test_what_cannot_be_is_refused(act, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        act()


# --- learned ---------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::mechtrace.errors.FitWarning")
def test_a_short_fit_follows_pumps_that_it_has_not_seen(world) -> None:
    model = mt.Trace(latents=8, lags=2, hidden=32, steps=400, align=False, seed=0)
    model.fit(world.simulate(24).panel, progress=False)
    assert model.regimes_ == REGIMES
    new = make("pump", first=7, machines=3)
    for active in ([HEALTHY, WORN], [HEALTHY, CLOGGED]):
        glide = new.transition("simple", series=3, active=active, length=300, seed=1)
        paths = model.recover(glide.panel)
        alphas = [path.alpha[2:] for path in paths]
        truth = glide.alpha[0, 2:]
        assert min(weight_correlation(truth, one) for one in alphas) > 0.8
        assert np.mean([weight_error(truth, one) for one in alphas]) < 0.15  # always equal: 0.30
