"""Stored models: round trip, refusal of anything damaged, and the first format for ever."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

import mechtrace as mt
from mechtrace.errors import StoreError
from mechtrace.io.model_file import SCHEMA, Archive, read_archive, write_archive

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture
def stored(trained, tmp_path):
    path = tmp_path / "model.mechtrace"
    trained.save(path)
    return path


def test_round_trip(trained, panel, stored):
    loaded = mt.load(stored)
    assert loaded.get_params() == trained.get_params()
    assert loaded.regimes_ == trained.regimes_
    assert loaded.history_ == trained.history_
    assert loaded.card_ == trained.card_
    for a, b in zip(trained.encode(panel), loaded.encode(panel), strict=True):
        assert np.array_equal(a, b)


def test_the_same_model_gives_the_same_bytes(trained, stored, tmp_path):
    again = tmp_path / "again.mechtrace"
    trained.save(again)
    assert again.read_bytes() == stored.read_bytes()


def test_a_stored_model_says_what_it_is(stored):
    archive = read_archive(stored)
    assert archive.kind == "model"
    for key in ("settings", "regimes", "channels", "fingerprint", "versions", "training"):
        assert key in archive.meta
    assert archive.meta["settings"]["seed"] == 0
    assert "# A mechtrace model" in archive.card
    with zipfile.ZipFile(stored) as file:
        assert not [n for n in file.namelist() if n.endswith((".pkl", ".pt", ".py"))]


def rewrite(path, change):
    """Write the archive again with some members changed."""
    with zipfile.ZipFile(path) as file:
        comment = file.comment
        members = {name: file.read(name) for name in file.namelist()}
    members = change(members) or members
    with zipfile.ZipFile(path, "w") as file:
        file.comment = comment
        for name, data in members.items():
            file.writestr(name, data)


def flip_a_weight(members):
    data = bytearray(members["weights.safetensors"])
    data[-3] ^= 0xFF
    members["weights.safetensors"] = bytes(data)


def edit_settings(members):
    manifest = json.loads(members["manifest.json"])
    manifest["meta"]["settings"]["latents"] = 5
    members["manifest.json"] = json.dumps(manifest).encode()


def newer_schema(members):
    manifest = json.loads(members["manifest.json"])
    manifest["schema"] = SCHEMA + 1
    members["manifest.json"] = json.dumps(manifest).encode()


DAMAGE = {
    "altered weights": (flip_a_weight, "altered.*weights.safetensors"),
    "altered settings": (edit_settings, "altered.*manifest.json"),
    "newer version": (newer_schema, "newer mechtrace.*upgrade"),
    "extra member": (lambda m: m.update({"extra.py": b"print(1)"}), "altered.*list of members"),
    "missing member": (lambda m: m.pop("card.md") and None, "altered.*list of members"),
    "foreign zip": (lambda m: {"a.txt": b"hello"}, "not a mechtrace file"),
    "foreign manifest": (lambda m: {"manifest.json": b'{"format": "other"}'}, "not a mechtrace"),
    "manifest is no JSON": (lambda m: {"manifest.json": b"\x00"}, "not a mechtrace file"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damaged_files_are_refused(stored, case):
    change, message = DAMAGE[case]
    rewrite(stored, change)
    with pytest.raises(StoreError, match=message) as error:
        mt.load(stored)
    assert str(stored) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("keep", [0.0, 0.01, 0.5, 0.99])
def test_truncated_files_are_refused(stored, keep):
    data = stored.read_bytes()
    stored.write_bytes(data[: int(keep * len(data))])
    with pytest.raises(StoreError, match="truncated or damaged"):
        mt.load(stored)


def test_every_flipped_byte_is_noticed_or_harmless(stored, trained, panel):
    """Flip single bytes all over the file: either it is refused or the model is the same."""
    data = stored.read_bytes()
    expected = trained.encode(panel)[0]
    refused = 0
    for position in range(0, len(data), max(1, len(data) // 60)):
        changed = bytearray(data)
        changed[position] ^= 0x55
        stored.write_bytes(bytes(changed))
        try:
            loaded = mt.load(stored)
        except StoreError:
            refused += 1
        else:
            assert np.array_equal(loaded.encode(panel)[0], expected)
    assert refused > 50


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(StoreError, match="no such file"):
        mt.load(tmp_path / "nowhere.mechtrace")
    with pytest.raises(StoreError, match="folder"):
        mt.load(tmp_path)


def test_a_failed_save_leaves_the_old_file(trained, stored, monkeypatch):
    before = stored.read_bytes()

    def fail(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", fail)
    with pytest.raises(OSError, match="disk full"):
        trained.save(stored)
    assert stored.read_bytes() == before
    assert [p.name for p in stored.parent.iterdir()] == [stored.name]


def test_archive_keeps_dtypes_and_names(tmp_path):
    path = tmp_path / "x"
    tensors = {"g": {"a/b": torch.arange(3, dtype=torch.int64), "c": torch.ones(2, 2).double()}}
    arrays = {"names": np.array(["ä", "<b>"]), "n": np.arange(4)}
    write_archive(path, Archive("model", {"k": [1, None]}, tensors, arrays, "card"))
    back = read_archive(path)
    assert back.meta == {"k": [1, None]}
    assert torch.equal(back.tensors["g"]["a/b"], tensors["g"]["a/b"])
    assert back.tensors["g"]["c"].dtype == torch.float64
    assert back.arrays["names"].tolist() == ["ä", "<b>"]


def test_the_first_format_stays_readable(tmp_path):
    """A model stored by version 0.1.0, with its answer on fixed input."""
    path = tmp_path / "copy.mechtrace"
    shutil.copy(FIXTURES / "model-v1.mechtrace", path)
    with np.load(FIXTURES / "model-v1-latents.npz", allow_pickle=False) as expected:
        trace = mt.load(path)
        panel = mt.Panel.from_arrays(expected["values"])
        latents = np.stack(trace.encode(panel))
        assert np.allclose(latents, expected["latents"], atol=1e-5)
    assert trace.regimes_ == ("R0", "R1", "R2")
