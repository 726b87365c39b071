"""FitRecord: strict in what it reads, and the upgrade of older files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mechtrace as mt
from mechtrace.errors import StoreError
from mechtrace.io import model_file
from mechtrace.stage1.fit_record import FitRecord

FIXTURES = Path(__file__).parents[1] / "io" / "fixtures"


def test_a_record_survives_json(trained) -> None:
    stored = json.loads(json.dumps(trained.facts_, allow_nan=False))
    again = FitRecord.from_dict(stored)
    assert again == trained.record_
    assert again.to_dict() == stored
    assert stored["regimes"] == list(trained.regimes_)
    assert stored["training"]["history"] == trained.history_
    assert again.validation is not None
    assert stored["health"]["unused_latents"] == again.validation.unused_latents


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("training"), "no field training"),
        (lambda d: d["training"].pop("steps"), r"no field training\.steps"),
        (lambda d: d.update(odd=1), "unknown field odd"),
        (lambda d: d["axes"].update(odd=1), r"unknown field axes\.odd"),
        (lambda d: d["training"].update(steps="3"), r"training\.steps is '3'"),
        (lambda d: d["training"]["history"][0].update(step=True), r"history\[0\]\.step is 'True'"),
        (lambda d: d["settings"].update(latents=0), "latents = 0"),
        (lambda d: d["settings"].pop("lags"), r"no field settings\.lags"),
        (lambda d: d.update(settings=3), "no field settings"),
        (lambda d: d["preparation"].update(detrend="cubic"), r"preparation\.detrend is 'cubic'"),
        (lambda d: d.pop("regimes"), "no field regimes"),
        (lambda d: d.update(regimes="ab"), "regimes is 'ab'"),
        (lambda d: d["versions"].update(numpy=2), r"versions\.numpy is '2'"),
    ],
)
def test_anything_but_the_schema_is_one_sentence(
    trained, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    stored = json.loads(json.dumps(trained.facts_))
    change(stored)
    with pytest.raises(StoreError, match=message) as error:
        FitRecord.from_dict(stored, "m.mechtrace")
    assert str(error.value).startswith("m.mechtrace: does not hold a usable model")
    assert "\n" not in str(error.value)


def test_the_first_schema_is_upgraded() -> None:
    record = mt.load(FIXTURES / "model-v1.mechtrace").record_
    assert (record.data.step, record.axes, record.evidence) == (None, None, None)
    assert record.settings.fit.align  # a setting that the file does not have
    assert set(record.to_dict()) >= {"preparation", "health", "training"}


def test_the_third_schema_is_upgraded(trained, tmp_path, monkeypatch) -> None:
    trained.save(tmp_path / "new")
    archive = model_file.read_archive(tmp_path / "new")
    del archive.meta["preparation"]["zone"]
    with monkeypatch.context() as patch:
        patch.setattr(model_file, "SCHEMA", 3)
        model_file.write_archive(tmp_path / "old", archive)
    assert mt.load(tmp_path / "old").record_ == trained.record_


@pytest.mark.filterwarnings("ignore::mechtrace.errors.FitWarning")
def test_the_second_schema_is_upgraded(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("mechtrace.stage1.fit_run.validate_model", lambda *_: None)
    panel = mt.worlds.make("cartpole", size=16, length=30).simulate(3).panel
    model = mt.Trace(latents=4, lags=2, hidden=16, steps=4, batch=6, evaluations=2, align=False)
    model.fit(panel, progress=False).save(tmp_path / "new")
    archive = model_file.read_archive(tmp_path / "new")
    archive.tensors["eye"] = archive.tensors.pop("frontend")
    archive.arrays["visible"] = archive.arrays.pop("observable_subspace")
    names = [name.replace("moving average", "of late") for name in archive.meta["channels"]]
    archive.meta["channels"] = names
    assert names[-1] == "of late 1"
    with monkeypatch.context() as patch:
        patch.setattr(model_file, "SCHEMA", 2)
        model_file.write_archive(tmp_path / "old", archive)
    old = mt.load(tmp_path / "old")
    assert old.record_ == model.record_
    assert (old.model_.observable_subspace == model.model_.observable_subspace).all()
    assert old.shape_ == (16, 16)
