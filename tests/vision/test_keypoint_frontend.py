"""Key points: what they follow, how they are remembered, and the way from pictures to axes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import mechtrace as mt
from mechtrace.align.additive import ADDITIVE, additive_view
from mechtrace.align.rows import Rows
from mechtrace.batches import on_device
from mechtrace.config import RunConfig
from mechtrace.eye import FADING, MEMORY, Eye, Glance, learn_eye
from mechtrace.frames import Stored
from mechtrace.keypoints import KeyPoints
from mechtrace.metrics import linear_r2
from mechtrace.studies.cartpole import cartpole_study
from mechtrace.training import MOST_PIXELS, Run, _default_batch
from mechtrace.windows import training_runs

TINY = {"latents": 4, "hidden": 16, "steps": 8, "batch": 6, "evaluations": 2, "align": False}


@pytest.fixture(scope="module")
def world():
    return mt.worlds.make("cartpole", size=24, length=40)


@pytest.fixture(scope="module")
def eye(world) -> Eye:
    panel = world.simulate(12).panel
    config = RunConfig.from_options(latents=4, steps=300)
    return learn_eye(panel, training_runs(panel, 2), config, torch.device("cpu"))


@pytest.mark.parametrize("size", [(8, 8), (16, 32), (33, 20), (128, 128)])
def test_points_of_pictures_of_any_size(size) -> None:
    points = KeyPoints(size)
    pictures = torch.randint(0, 255, (2, 3, *size), dtype=torch.uint8)
    found = points(pictures)
    assert found.shape == (2, 3, 2 * points.points)
    assert found.abs().max() <= 1
    assert points.draw(found).shape == pictures.shape
    assert torch.isfinite(points.unexplained(pictures.flatten(0, 1)))


def test_points_follow_what_moves(world, eye) -> None:
    new = world.simulate(4, seed=3)
    seen = eye.see(new.panel)
    assert seen.channels == eye.channels
    assert len(eye.channels) == eye.shown + 2  # half of the latents are for what was of late
    truth = new.latents.reshape(-1, 4)
    now = seen.values[:, : eye.shown]
    assert linear_r2(truth[:, [0]], now) > 0.97
    assert linear_r2(truth[:, [2]], now) > 0.9
    drawn = eye.draw(torch.from_numpy(seen.values[:50]))
    pictures = new.panel.values[:50].astype(float)
    left = ((drawn.numpy() - pictures) ** 2).mean()
    assert left < 0.5 * ((pictures - eye.points.centre.numpy()) ** 2).mean()


def test_row_by_row_the_same_is_seen_also_after_a_gap(world, eye) -> None:
    film = world.simulate(1, seed=4).panel.values[:30].astype(np.float32)
    film[12] = np.nan
    panel = mt.Panel(Stored(film), np.array([0, 30]), np.array(["film"]))
    whole, glance = eye.see(panel).values, Glance(eye)
    rows = np.stack([glance.see(picture) for picture in film])
    assert np.isnan(whole[12]).all()
    np.testing.assert_allclose(rows, whole, atol=1e-5)
    np.testing.assert_allclose(  # after the gap there is no past: the first row stands for it
        whole[13, eye.shown :], whole[13, : eye.shown] @ eye.directions.T, atol=1e-5
    )
    past = whole[11 - MEMORY : 11, : eye.shown] @ eye.directions.T
    shares = FADING ** np.arange(MEMORY)[::-1]
    np.testing.assert_allclose(whole[11, eye.shown :], shares @ past / shares.sum(), atol=1e-5)


@pytest.mark.filterwarnings("ignore::mechtrace.errors.FitWarning")
def test_an_eye_is_stored_resumed_and_streamed(world, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("mechtrace.training.check_model", lambda *_: {})  # too few steps to learn
    panel, new = world.simulate(6).panel, world.transition(series=1, seed=9).panel
    whole = mt.Trace(**TINY).fit(panel, progress=False, checkpoint=tmp_path / "run.ckpt")
    again = mt.Trace(**TINY).fit(
        panel, progress=False, checkpoint=tmp_path / "run.ckpt", resume=True
    )
    np.testing.assert_array_equal(whole.encode(new)[0], again.encode(new)[0])
    whole.save(tmp_path / "film.mechtrace")
    loaded = mt.load(tmp_path / "film.mechtrace")
    assert loaded.shape_ == (24, 24)
    np.testing.assert_array_equal(whole.encode(new)[0], loaded.encode(new)[0])
    assert whole.decode(whole.encode(new)[0]).shape == (40, 24, 24)
    assert "key points tell" in whole.card_
    path, stream = loaded.recover(new, causal=True), loaded.stream()
    now = [stream.push(picture) for picture in new.values[:]]
    np.testing.assert_allclose(np.stack([n.alpha for n in now]), path.alpha, atol=2e-3)
    with pytest.raises(mt.errors.DataError, match=r"the model reads \(24, 24\)"):
        stream.push(np.zeros(10))


def test_a_network_that_reads_pixels_gets_smaller_batches() -> None:
    device = torch.device("cpu")
    small, large = (
        mt.worlds.make("cartpole", size=size, length=50).simulate(1).panel for size in (16, 128)
    )
    assert on_device(small, device) is None
    assert _default_batch(small, 50, device) == 40
    assert _default_batch(large, 50, device) * 50 * 128**2 <= MOST_PIXELS["cpu"]
    run = Run.prepare(small, RunConfig.from_options(encoder="image", steps=2, latents=2))
    assert (run.eye, run.model.shape) == (None, (16, 16))


def rows_of_view(bent: bool) -> tuple[Rows, np.ndarray]:
    """White latents, turned at random; two of four are seen, one of them in a bow."""
    random = np.random.default_rng(0)
    u = random.standard_normal((8000, 4))
    turned = np.linalg.qr(random.standard_normal((4, 4)))[0]
    bow = np.sin(0.8 * u[:, 1]) if bent else 0.8 * u[:, 1]
    lift = np.cos(0.8 * u[:, 1]) if bent else 0.3 * u[:, 1] - u[:, 0]
    shown = np.column_stack([u[:, 0], u[:, 0] + bow, lift])
    shown = shown + 0.02 * random.standard_normal(shown.shape)
    z, unit = u @ turned.T, np.arange(8000) // 40
    return Rows(z, z[None], z[:, None], np.zeros(8000, int), unit, shown), turned


def test_axes_whose_effects_add_up_are_found_and_straight_ones_are_not_claimed() -> None:
    rows, turned = rows_of_view(bent=True)
    clue = additive_view(*rows.halves())
    assert (clue.kind, clue.facts["visible"]) == (ADDITIVE, 2.0)
    assert clue.identified == [0, 1]
    match = np.abs(clue.rotation[:2] @ turned)
    assert sorted(match.argmax(axis=1)) == [0, 1]
    assert match.max(axis=1).min() > 0.995
    assert clue.blocks == [[0], [1], [2, 3]]  # what is not seen stays a plane
    rows, _ = rows_of_view(bent=False)
    assert additive_view(*rows.halves()).identified == []


@pytest.mark.filterwarnings("ignore::mechtrace.errors.FitWarning")
def test_from_pixels_to_axes() -> None:
    """A small cart: of the four latents the visible two are found one by one."""
    kept: list[dict] = []
    result = cartpole_study(
        series=40, size=32, length=50, active=(3,), trials=10, seeds=1, device="cpu",
        steps=1200, hidden=64, say=lambda text: None, keep=kept.append,
    )  # fmt: skip
    assert kept == [result]
    (row,) = result["rows"]
    assert row["mcc"] > 0.95
    assert row["mcc"] > row["mcc_before"]
    assert min(row["r2"]["x"], row["r2"]["theta"]) > 0.9
    # no picture shows a speed, and pictures of the past tell little of it
    assert max(row["r2_possible"].values()) < 0.6
    assert row["r2"]["v"] < row["r2_possible"]["v"] + 0.1
    assert "2 of 4 axes are identified by additive view" in row["verdict"]
    (part,) = row["recovery"]
    assert part["oracle_pooled"] > 0.7
    assert all(-1 <= part[name] <= 1 for name in ("pooled", "single", "algorithm1_pooled"))
    assert {"machine", "versions", "settings", "means"} <= set(result)


@pytest.mark.slow
def test_from_pixels_to_weights() -> None:
    result = cartpole_study(series=100, active=(3,), seeds=1, device="cpu", say=lambda text: None)
    assert result["rows"][0]["mcc"] > 0.97
    assert result["rows"][0]["recovery"][0]["pooled"] > 0.85
