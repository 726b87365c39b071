"""The zoo: laws, regimes that differ, sensors, machines and faults."""

from __future__ import annotations

import numpy as np
import pytest

import mechtrace as mt
from mechtrace.errors import ConfigError
from mechtrace.worlds import EmergentEdge, make, oracle, write_truth
from mechtrace.worlds.zoo import FAULTS, SYSTEMS

NAMES = list(SYSTEMS)


def zoo(name, seed=0, **options):
    return make(f"zoo/{name}", seed=seed, **options)


@pytest.mark.parametrize("name", NAMES)
def test_states_stay_where_they_usually_are(name):
    world = zoo(name)
    run = world.simulate(6, length=200)
    spread = (run.latents - world.system.start) / world.system.scale
    assert np.abs(spread).max() < 12
    assert 0.3 < spread.std() < 2.5
    assert run.panel.regimes == tuple(sorted(world.system.regimes)) == world.regimes


@pytest.mark.parametrize("name", NAMES)
def test_true_states_tell_the_shares(name):
    made = zoo(name, seed=5).transition("simple", series=5, seed=1)
    found = oracle(made).alpha
    assert np.corrcoef(found.ravel(), made.alpha.ravel())[0, 1] > 0.93
    assert np.abs(found - made.alpha).mean() < 0.1


@pytest.mark.parametrize("name", NAMES)
def test_predictions_of_a_regime_are_right_up_to_the_noise(name):
    world = zoo(name)
    run = world.simulate(4, length=100)
    for k in range(len(world.regimes)):
        mine = run.latents[run.label == k].astype(float)
        error = (mine - world.conditional_mean(mine, k))[:, 1:] / world.scales[k]
        assert np.abs(error.mean(axis=(0, 1))).max() < 0.3
        assert error.std() == pytest.approx(1, abs=0.1)


def test_levels_of_tanks_obey_torricelli():
    world = zoo("tanks")
    rest = world.simulate(20, length=100).latents
    inflow, valve = world.parameters[:, 0], world.parameters[:, 1]
    level = rest.reshape(3, 20, 100, 4)[..., 0].mean(axis=(1, 2))
    np.testing.assert_allclose(level, (inflow / valve) ** 2, rtol=0.05)


def test_an_undamped_pendulum_keeps_its_energy():
    system = SYSTEMS["arm"]
    z, theta = np.array([[0.3, -0.2, 0.5, 0.1]]), np.array([[0.7, 0.0, 0.0]])

    def energy(state):
        (a, b, u, v), load = state.T, 0.7
        return (
            0.5 * (1 + load) * u**2 + 0.5 * load * v**2 + load * u * v * np.cos(a - b)
            - 6 * (1 + load) * np.cos(a) - 6 * load * np.cos(b)
        )  # fmt: skip

    before = energy(z)
    for _ in range(100):
        z = system.advance(z, theta)
    np.testing.assert_allclose(energy(z), before, rtol=1e-4)


def test_matrices_are_derivatives_of_a_step(tmp_path):
    world = zoo("motor")
    found = world.mixture_matrix(np.array([0.2, 0.3, 0.5]), None)
    theta = np.array([[0.2, 0.3, 0.5]]) @ world.parameters
    start = np.array([world.system.start])
    moved = start + np.array([[0.0, 1e-4, 0.0, 0.0]])
    change = (world.system.advance(moved, theta) - world.system.advance(start, theta))[0] / 1e-4
    np.testing.assert_allclose(found[1], change, rtol=1e-2, atol=1e-4)
    write_truth(world.transition("linear", length=20), tmp_path / "truth.npz")
    assert np.load(tmp_path / "truth.npz")["conditional_means"].shape == (1, 20, 3, 4)


def test_sensors_have_names_units_and_a_rate():
    panel = zoo("battery").simulate(2).panel
    assert panel.shape == (7,)
    assert all(name.startswith(f"s{i + 1}_") for i, name in enumerate(panel.channels))
    assert panel.usual_step == SYSTEMS["battery"].step
    assert panel.groups is None


def test_a_recorded_input_is_shown_as_it_is():
    run = zoo("battery").simulate(3)
    current = run.latents[..., -1].ravel()
    assert np.corrcoef(current, run.observations[..., 0].ravel())[0, 1] > 0.999


def test_machines_differ_in_offset_and_gain_and_stay_the_same():
    world = zoo("tanks", machines=4, spread=0.5)
    panel = world.simulate(8).panel
    assert sorted(set(panel.groups)) == [f"machine {m}" for m in range(1, 5)]
    alone = zoo("tanks", machines=1, first=3, spread=0.5)
    for world_of_three in (world, alone):
        gain, offset = world_of_three._machine(3)
        np.testing.assert_array_equal(offset, world._machine(3)[1])
        assert np.abs(gain - 1).max() > 0.01
    assert not zoo("tanks")._machine(1)[1].any()


def test_seeds_draw_other_systems_of_the_same_kind():
    one, other = zoo("reactor", seed=1), zoo("reactor", seed=2)
    assert not np.allclose(one.parameters, other.parameters)
    np.testing.assert_allclose(one.parameters, other.parameters, rtol=0.6)
    assert not np.allclose(one.sensors["linear"], other.sensors["linear"])
    again = zoo("reactor", seed=1).simulate(2, seed=4).observations
    np.testing.assert_array_equal(again, one.simulate(2, seed=4).observations)


@pytest.mark.parametrize("kind", FAULTS)
def test_faults_touch_what_they_say(kind):
    world = zoo("tanks", machines=3)
    made = world.faulty(kind, series=3, seed=2)
    fault = made.fault
    assert (fault.kind, made.alpha.shape) == (kind, (3, 300, 3))
    np.testing.assert_allclose(made.alpha.sum(axis=-1), 1)
    values = np.stack(made.panel.to_arrays())
    if kind == "stuck":
        still = values[:, fault.start :, fault.sensors[0]]
        assert (np.ptp(still, axis=1) == 0).all()
    elif kind == "machine":
        assert set(made.panel.groups) == {"machine 4"}
    elif kind in ("units", "swapped"):
        read = world.observe(made.latents, np.random.default_rng(0))
        off = np.abs(values - read).mean(axis=(0, 1)) / world.sensors["range"] > 0.3
        assert set(np.flatnonzero(off)) == set(fault.sensors)


@pytest.mark.parametrize("name", NAMES)
def test_no_mixture_predicts_what_a_foreign_setting_does(name):
    world = zoo(name, seed=3)
    made = world.faulty("foreign", series=4)
    inside = slice(made.fault.start, made.fault.stop)
    assert world._effect(made.latents[:, inside].astype(float), world.foreign) > 0.5


def test_a_mixture_is_not_foreign():
    world = zoo("reactor", seed=3)
    states = world.simulate(2, length=50).latents.astype(float)
    assert world._effect(states, world.parameters.mean(axis=0)) < 0.5
    assert world._effect(states, world.parameters[1]) < 1e-6


def test_another_rate_takes_two_steps_at_once():
    world = zoo("oscillator")
    slow, usual = world.faulty("rate", "constant"), world.transition("constant", length=300)
    one, two = (np.abs(np.diff(run.latents[0, :, 0])).mean() for run in (usual, slow))
    assert two / one > 1.5


def test_what_is_not_possible_is_said():
    with pytest.raises(ConfigError, match="unknown fault"):
        zoo("tanks").faulty("flood")
    with pytest.raises(ConfigError, match="unknown world"):
        make("zoo/unicorn")
    with pytest.raises(ConfigError, match="at least 1 machine"):
        zoo("tanks", machines=0)
    with pytest.raises(ConfigError, match="noise positive"):
        zoo("tanks", noise=0.0)
    with pytest.raises(ConfigError, match="leave out emergent"):
        zoo("tanks").transition(emergent=EmergentEdge(source=0, target=1))


def test_the_command_writes_a_system_of_the_zoo(command, tmp_path):
    out = tmp_path / "motor.csv"
    words = ["simulate", "--world", "zoo/motor", "--series", 2, "--set", "machines=2"]
    code, _, err = command(*words, "--out", out)
    assert code == 0, err
    panel = mt.Panel.from_csv(out, series="series", time="time", regime="regime", group="group")
    assert panel.regimes == ("loaded", "normal", "worn")
    assert set(panel.groups) == {"machine 1", "machine 2"}
