"""Key points: what they follow, how they are remembered, and the way from pictures to axes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import mechtrace as mt
from mechtrace.config import RunConfig
from mechtrace.data.device import on_device
from mechtrace.data.segments import training_runs
from mechtrace.identifiability.additive_decoder import ADDITIVE_DECODER, additive_decoder
from mechtrace.identifiability.transitions import Transitions, TransitionSplit
from mechtrace.io.frames import ArrayFrames
from mechtrace.io.model_file import read_archive, write_archive
from mechtrace.io.typed_json import Mismatch
from mechtrace.metrics import linear_r2
from mechtrace.stage1.fit_run import MOST_PIXELS, FitRun, _default_batch
from mechtrace.vision.keypoint_frontend import (
    AVERAGED_FRAMES,
    DECAY,
    KeypointFrontend,
    KeyPoints,
    OnlineFrontend,
    learn_frontend,
)

TINY = {
    "latents": 4, "lags": 2, "hidden": 16, "steps": 8, "batch": 6, "evaluations": 2,
    "align": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def world():
    return mt.worlds.make("cartpole", size=24, length=40)


@pytest.fixture(scope="module")
def frontend(world) -> KeypointFrontend:
    panel = world.simulate(12).panel
    config = RunConfig.from_options(latents=4, lags=2, steps=300)
    return learn_frontend(panel, training_runs(panel, 2), config, torch.device("cpu"))


@pytest.mark.parametrize("size", [(8, 8), (16, 32), (33, 20), (128, 128)])
def test_points_of_pictures_of_any_size(size) -> None:
    points = KeyPoints(size)
    pictures = torch.randint(0, 255, (2, 3, *size), dtype=torch.uint8)
    found = points(pictures)
    assert found.shape == (2, 3, 2 * points.points)
    assert found.abs().max() <= 1
    assert points.decode(found).shape == pictures.shape
    assert torch.isfinite(points.unexplained(pictures.flatten(0, 1)))


def test_points_follow_what_moves(world, frontend) -> None:
    new = world.simulate(4, seed=3)
    seen = frontend.transform(new.panel)
    assert seen.channels == frontend.channels
    assert (
        len(frontend.channels) == frontend.keypoint_channels + 2
    )  # half of the latents: moving averages
    truth = new.latents.reshape(-1, 4)
    now = seen.values[:, : frontend.keypoint_channels]
    assert linear_r2(truth[:, [0]], now) > 0.97
    assert linear_r2(truth[:, [2]], now) > 0.9
    drawn = frontend.decode(torch.from_numpy(seen.values[:50]))
    pictures = new.panel.values[:50].astype(float)
    left = ((drawn.numpy() - pictures) ** 2).mean()
    assert left < 0.5 * ((pictures - frontend.points.centre.numpy()) ** 2).mean()


def test_row_by_row_the_same_is_seen_also_after_a_gap(world, frontend) -> None:
    film = world.simulate(1, seed=4).panel.values[:30].astype(np.float32)
    film[12] = np.nan
    panel = mt.Panel(ArrayFrames(film), np.array([0, 30]), np.array(["film"]))
    whole, online = frontend.transform(panel).values, OnlineFrontend(frontend)
    rows = np.stack([online.update(picture) for picture in film])
    assert np.isnan(whole[12]).all()
    np.testing.assert_allclose(rows, whole, atol=1e-5)
    np.testing.assert_allclose(  # after the gap there is no past: the first row stands for it
        whole[13, frontend.keypoint_channels :],
        whole[13, : frontend.keypoint_channels] @ frontend.directions.T,
        atol=1e-5,
    )
    past = whole[11 - AVERAGED_FRAMES : 11, : frontend.keypoint_channels] @ frontend.directions.T
    shares = DECAY ** np.arange(AVERAGED_FRAMES)[::-1]
    np.testing.assert_allclose(
        whole[11, frontend.keypoint_channels :], shares @ past / shares.sum(), atol=1e-5
    )


@pytest.mark.filterwarnings("ignore::mechtrace.errors.FitWarning")
def test_an_eye_is_stored_resumed_and_streamed(world, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(
        "mechtrace.stage1.fit_run.validate_model", lambda *_: None
    )  # too few steps to learn
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
    assert "key points explain" in whole.card_
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
    run = FitRun.prepare(small, RunConfig.from_options(encoder="image", steps=2, latents=2))
    assert (run.frontend, run.model.shape) == (None, (16, 16))


def rows_of_view(bent: bool) -> tuple[TransitionSplit, np.ndarray]:
    """White latents, turned at random; two of four are seen, one of them in a bow."""
    random = np.random.default_rng(0)
    u = random.standard_normal((8000, 4))
    turned = np.linalg.qr(random.standard_normal((4, 4)))[0]
    bow = np.sin(0.8 * u[:, 1]) if bent else 0.8 * u[:, 1]
    lift = np.cos(0.8 * u[:, 1]) if bent else 0.3 * u[:, 1] - u[:, 0]
    shown = np.column_stack([u[:, 0], u[:, 0] + bow, lift])
    shown = shown + 0.02 * random.standard_normal(shown.shape)
    z, unit = u @ turned.T, np.arange(8000) // 40
    rows = Transitions(z, z[None], z[:, None], np.zeros(8000, int), unit, shown)
    return TransitionSplit(*(rows.where(unit % 3 == part) for part in range(3))), turned


def test_axes_whose_effects_add_up_are_found_and_straight_ones_are_not_claimed() -> None:
    rows, turned = rows_of_view(bent=True)
    found = additive_decoder(rows)
    assert (found.kind, found.facts["visible"]) == (ADDITIVE_DECODER, 2.0)
    assert found.identified == [0, 1]
    match = np.abs(found.rotation[:2] @ turned)
    assert sorted(match.argmax(axis=1)) == [0, 1]
    assert match.max(axis=1).min() > 0.995
    assert found.subspaces == [[0], [1], [2, 3]]  # what is not seen stays a plane
    rows, _ = rows_of_view(bent=False)
    assert additive_decoder(rows).identified == []


@pytest.mark.filterwarnings("ignore::mechtrace.errors.FitWarning")
def test_a_stored_model_keeps_the_projection_that_its_noise_was_measured_with(
    world, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(
        "mechtrace.stage1.fit_run.validate_model", lambda *_: None
    )  # too few steps to learn
    model = mt.Trace(**TINY).fit(world.simulate(6).panel, progress=False)
    model.save(tmp_path / "film.mechtrace")
    monkeypatch.setattr(
        "mechtrace.vision.observable_subspace.LEAST_EFFECT", 1.0
    )  # another machine cuts elsewhere
    loaded = mt.load(tmp_path / "film.mechtrace")
    assert np.linalg.matrix_rank(model.model_.observable_subspace) > 1
    assert np.array_equal(loaded.model_.observable_subspace, model.model_.observable_subspace)
    # models stored before projections were
    archive = read_archive(tmp_path / "film.mechtrace")
    del archive.arrays["observable_subspace"]
    write_archive(tmp_path / "older.mechtrace", archive)
    assert (
        np.linalg.matrix_rank(mt.load(tmp_path / "older.mechtrace").model_.observable_subspace)
        == 1
    )


FORGED_FRONTENDS = {
    "pictures.size": lambda t: t.update(centre=torch.zeros(4, 4)),
    "no tensor frontend/weigh.bias": lambda t: t.pop("weigh.bias"),
    r"frontend/directions is torch.float32 \(2, 3\)": lambda t: t.update(
        directions=torch.zeros(2, 3)
    ),
    "directions are not orthonormal": lambda t: t.update(directions=torch.ones(2, 8)),
    "frontend/scale is not positive": lambda t: t.update(scale=torch.zeros(())),
    "give no key points": lambda t: t["look.0.weight"].fill_(3e38),
}


@pytest.mark.parametrize("message", FORGED_FRONTENDS)
def test_forged_frontends_are_named(message) -> None:
    frontend = KeypointFrontend(KeyPoints((16, 12)), np.eye(8, dtype=np.float32)[:2])
    tensors = {name: tensor.clone() for name, tensor in frontend.tensors().items()}
    assert KeypointFrontend.from_tensors((16, 12), tensors).channels == frontend.channels
    FORGED_FRONTENDS[message](tensors)
    with pytest.raises(Mismatch, match=message):
        KeypointFrontend.from_tensors((16, 12), tensors)
