"""Frames: they behave like an array and are never asked for all at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import mechtrace as mt
from mechtrace.config import RunConfig
from mechtrace.data import segments, standardise
from mechtrace.data.join import join_panels
from mechtrace.errors import DataError
from mechtrace.io import frames as frames_module
from mechtrace.io.frames import (
    ArrayFrames,
    ConcatenatedFrames,
    Frames,
    FrameSubset,
    concatenate_rows,
    take_rows,
)
from mechtrace.stage1 import encoding as latents
from mechtrace.stage1 import trainer
from mechtrace.stage1.fit_run import FitRun

FILM = np.random.default_rng(0).integers(0, 256, (30, 4, 6), dtype=np.uint8)


class Watched(Frames):
    """Frames that refuse to be read in bulk, and count what was read."""

    def __init__(self, array: np.ndarray, limit: int) -> None:
        super().__init__(array.shape)
        self.array, self.limit, self.count = array, limit, 0

    def _read(self, rows: np.ndarray) -> np.ndarray:
        assert len(rows) <= self.limit, f"{len(rows)} frames at once"
        self.count += len(rows)
        return self.array[rows]


KINDS = {
    "stored": lambda: ArrayFrames(FILM),
    "picked": lambda: FrameSubset(ArrayFrames(FILM[::-1]), np.arange(30)[::-1]),
    "joined": lambda: ConcatenatedFrames([FILM[:7], ArrayFrames(FILM[7:8]), FILM[8:]]),
    "watched": lambda: Watched(FILM, 30),
}


@pytest.mark.parametrize("kind", KINDS)
def test_frames_behave_like_an_array(kind: str) -> None:
    film = KINDS[kind]()
    assert (film.shape, film.ndim, film.dtype) == (FILM.shape, 3, np.uint8)
    assert (len(film), film.size, film.nbytes) == (30, FILM.size, FILM.nbytes)
    mask = np.arange(30) % 3 == 0
    for key in (3, -1, slice(2, 9), slice(None, None, -4), [5, 5, -2], np.array([7, 6]), mask, []):
        found = film[key]
        expected = FILM[np.zeros(0, int)] if isinstance(key, list) and not key else FILM[key]
        np.testing.assert_array_equal(found, expected)
        if not isinstance(key, int):
            np.testing.assert_array_equal(film.subset(key)[:], expected)
    np.testing.assert_array_equal(np.take(film, [3, 1], axis=0), FILM[[3, 1]])
    np.testing.assert_array_equal(np.asarray(film), FILM)
    np.testing.assert_array_equal(np.stack(list(film)), FILM)
    np.testing.assert_array_equal(film.subset(slice(4, 20)).subset([3, 0])[:], FILM[[7, 4]])
    assert b"".join(film.hash_bytes()) == FILM.tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_frames_on_a_device_are_the_same(kind: str) -> None:
    there = KINDS[kind]().on(torch.device("cpu"))
    index = torch.tensor([4, 29, 4])
    np.testing.assert_array_equal(there.take(index).numpy(), FILM[[4, 29, 4]])
    out = torch.zeros(3, 4, 6, dtype=torch.uint8)
    assert there.take(index, out=out) is out
    np.testing.assert_array_equal(out.numpy(), FILM[[4, 29, 4]])


def test_what_frames_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    film = ArrayFrames(FILM)
    for key in (30, [-31], [3, 99]):
        with pytest.raises(IndexError):
            film[key]
    for key in ([0.5], np.zeros((2, 2), int), np.ones(7, bool)):
        with pytest.raises(DataError, match="frames cannot be chosen by"):
            film[key]
    with pytest.raises(DataError, match="taken by rows"):
        np.take(film, [0], axis=1)
    with pytest.raises(DataError, match=r"4 x 5 uint8 cannot follow frames of 4 x 6 uint8"):
        ConcatenatedFrames([FILM, FILM[:, :, :5]])
    monkeypatch.setattr(frames_module, "MAX_BYTES", 100)
    with pytest.raises(DataError, match=r"30 frames would take .* GB of memory; take some rows"):
        np.asarray(film)


def test_only_frames_and_mapped_pictures_stay_where_they_are(tmp_path) -> None:
    np.save(tmp_path / "film.npy", FILM)
    mapped = np.load(tmp_path / "film.npy", mmap_mode="r")
    assert isinstance(take_rows(mapped, [1, 5]), Frames)
    assert isinstance(take_rows(mapped, slice(1, 5)), np.memmap)
    assert isinstance(concatenate_rows([mapped, FILM]), ConcatenatedFrames)
    assert type(concatenate_rows([FILM, FILM])) is np.ndarray
    assert type(take_rows(FILM, [1, 5])) is np.ndarray
    assert concatenate_rows([FILM]) is FILM


# --- in a panel --------------------------------------------------------------------------------


@pytest.fixture
def panel() -> mt.Panel:
    return mt.Panel.from_pictures(
        Watched(FILM, 10), lengths=[12, 8, 10], regime=["B", "A", "B"], names=["p", "q", "r"]
    )


def test_a_panel_of_frames_is_like_one_of_arrays(panel, monkeypatch) -> None:
    monkeypatch.setattr(frames_module, "CHUNK_CELLS", 5 * 24)
    arrays = [FILM[:12], FILM[12:20], FILM[20:]]
    same = mt.Panel.from_arrays(arrays, regime=["B", "A", "B"], names=["p", "q", "r"])
    assert repr(panel) == repr(same).replace("(arrays)", "(frames)")
    assert panel.fingerprint() == same.fingerprint()
    np.testing.assert_array_equal(panel["q"].values[:], FILM[12:20])
    np.testing.assert_array_equal(panel.select(["A"]).values[:], FILM[12:20])
    np.testing.assert_array_equal(panel[["r", "q"]].values[:10], FILM[20:])
    np.testing.assert_array_equal(panel.to_arrays()[2][:], FILM[20:])
    assert panel["q"].observed.all()
    assert panel.observed().all()
    both = join_panels([panel, same], ["a", "b"], "two")
    np.testing.assert_array_equal(both.values[28:33], np.concatenate([FILM[28:], FILM[:3]]))
    assert both.names.tolist()[-1] == "b/r"
    with pytest.raises(DataError, match=r"images do not fit a table; use to_npz"):
        panel.to_frame()


def test_looking_at_a_panel_reads_nothing(panel) -> None:
    for view in (panel, panel[1:], panel.without_labels(), panel.select(["B"]), panel[0]):
        repr(view)
    panel._repr_html_()
    segments.runs_as_series(panel, segments.find_runs(panel, by_regime=True))
    assert panel.values.count == 0


def test_npz_is_written_in_pieces_and_mapped_back(panel, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(frames_module, "CHUNK_CELLS", 4 * 24)
    panel.to_npz(tmp_path / "film.npz")
    back = mt.Panel.from_npz(tmp_path / "film.npz")
    assert isinstance(back.values, np.memmap)
    np.testing.assert_array_equal(back.values, FILM)
    assert back.names.tolist() == ["p", "q", "r"]
    assert isinstance(back[[2, 0]].values, Frames)  # not read, though not neighbours
    assert back[[2, 0]].fingerprint() == panel[[2, 0]].fingerprint()


def test_units_of_pictures_are_measured_on_some_of_them(panel, monkeypatch) -> None:
    monkeypatch.setattr(frames_module, "CHUNK_CELLS", 5 * 24)
    runs = segments.training_runs(panel, 2)
    units = standardise.Standardiser.fit(panel, runs)
    np.testing.assert_allclose(units.centre, FILM.mean(axis=0))
    np.testing.assert_allclose(units.scale, np.sqrt(FILM.var(axis=0).mean()))
    monkeypatch.setattr(standardise, "MEASURED_FRAMES", 9)
    panel.values.count = 0
    some = standardise.Standardiser.fit(panel, runs)
    assert panel.values.count == 9
    assert np.abs(some.centre - units.centre).max() < 3 * FILM.std() / np.sqrt(9) * 2


# --- end to end --------------------------------------------------------------------------------


SETTINGS = {
    "latents": 4, "lags": 2, "hidden": 16, "steps": 6, "batch": 4, "evaluations": 2,
    "align": False,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::mechtrace.errors.FitWarning")
def test_frames_are_never_asked_for_in_bulk(monkeypatch) -> None:
    world = mt.worlds.make("cartpole", size=16, length=24, seed=1)
    made = world.simulate(40).panel.select(["R0", "R1"])
    film = Watched(made.values[:], limit=300)
    watched = replace(made, values=film)
    monkeypatch.setattr(frames_module, "CHUNK_CELLS", 250 * 256)
    monkeypatch.setattr(latents, "CHUNK_PIXELS", 250 * 256)
    monkeypatch.setattr(frames_module, "MAX_BYTES", 0)  # and never turned into one array
    monkeypatch.setattr(
        "mechtrace.stage1.fit_run.validate_model", lambda *_: None
    )  # too few steps to learn
    model = mt.Trace(**SETTINGS).fit(watched, progress=False)
    encoded = model.encode(watched)
    path = model.recover(watched[[3, 50]])
    assert film.count > len(film)
    assert len(encoded) == 80
    assert len(path) == 2
    again = mt.Trace(**SETTINGS).fit(made, progress=False)  # drawn when asked for
    np.testing.assert_array_equal(encoded[7], again.encode(made)[7])
    assert model.record_.data.fingerprint != again.record_.data.fingerprint


def test_evaluation_in_pieces_says_the_same(monkeypatch) -> None:
    made = mt.worlds.make("cartpole", size=16, length=24).simulate(12).panel
    uneven = made.values.subset(np.r_[: len(made.values) - 10])
    panel = replace(
        made, values=uneven, offsets=np.append(made.offsets[:-1], len(uneven)),
        codes=made.codes[: len(uneven)],
    )  # fmt: skip
    run = FitRun.prepare(panel, RunConfig.from_options(**SETTINGS, encoder="image"))
    held = run.trainer.held_out
    held.load(0, noise_seed=-1)
    whole, (one,) = run.trainer.evaluate(), list(held.pieces())
    assert one[0].shape == held.x.shape
    monkeypatch.setattr(trainer, "PIECE_PIXELS", 5 * 3 * 24 * 256)
    assert {piece[0].shape[1] for piece in held.pieces()} == {3, 64 % 3}
    assert run.trainer.evaluate() == pytest.approx(whole, rel=1e-5)
