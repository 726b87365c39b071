"""Fetching of real recordings, and the gait study on made-up people."""

from __future__ import annotations

import pytest
from motions import bvh

from mechtrace.errors import DataError
from mechtrace_lab.datasets import sources
from mechtrace_lab.reproduction.gait import gait_study


def test_datasets_are_fetched_only_when_asked(command, tmp_path, monkeypatch):
    monkeypatch.delenv("MECHTRACE_DATA", raising=False)
    fetched = []
    monkeypatch.setattr(sources, "_fetch", lambda url: fetched.append(url) or b"changed")
    code, said, _ = command("datasets")
    assert code == 0
    assert "mocap.cs.cmu.edu" in said
    assert "research purposes only" in said
    assert command("datasets", "cmu", "--download")[0] == 2
    code, _, err = command("datasets", "cmu", "--folder", tmp_path, "--download")
    assert code == 2
    assert "were not accepted" in err
    assert not fetched
    code, _, err = command("datasets", "cmu", "--folder", tmp_path, "--download", "--accept")
    assert code == 2
    assert "has changed since it was checked" in err
    assert len(fetched) == 1
    assert not list(tmp_path.rglob("*.bvh"))
    assert "no data set" in command("datasets", "other")[2]


def test_what_was_fetched_is_kept_and_checked(tmp_path, monkeypatch):
    content = b"HIERARCHY"
    wanted = sources.SOURCES["cmu"]
    files = [sources.File("walk/1_1.bvh", "https://x/1", sources._checksum(content)),
             sources.File("run/1_2.bvh", "https://x/2", sources._checksum(b"other"))]  # fmt: skip
    monkeypatch.setattr(sources, "files_of", lambda _: files)
    monkeypatch.setattr(sources, "_fetch", lambda url: content if url.endswith("1") else b"other")
    assert sources.download(wanted, tmp_path) == 2
    assert sources.download(wanted, tmp_path) == 0
    (tmp_path / "run" / "1_2.bvh").write_bytes(b"damaged")
    found = sources.state(wanted, tmp_path)
    assert (found["good"], found["other"]) == (["walk/1_1.bvh"], ["run/1_2.bvh"])


def test_no_network_is_one_sentence():
    with pytest.raises(DataError, match="cannot be fetched"):
        sources._fetch("http://127.0.0.1:1/nothing")


@pytest.mark.filterwarnings("ignore::mechtrace.errors.FitWarning")
def test_the_gait_study_on_made_up_people(tmp_path):
    pytest.importorskip("sklearn")
    for subject in ("01", "02", "03"):
        for trial in (1, 2):
            bvh(tmp_path / "walk" / f"{subject}_0{trial}.bvh", 1.1 + 0.1 * trial, 1.6)
            bvh(tmp_path / "run" / f"{subject}_1{trial}.bvh", 3.0 + 0.1 * trial, 1.6, swing=45.0)
    bvh(tmp_path / "transition" / "04_01.bvh", 2.0, 1.6)
    result = gait_study(
        tmp_path, features=["legs"], seeds=1, methods=["lda", "algorithm1", "mechtrace"],
        steps=120, hidden=16, batch=8,
    )  # fmt: skip
    assert len(result["rows"]) == 3 * 13
    assert {row["trial"] for row in result["rows"]} == {
        *(f"{s}_{t}" for s in ("01", "02", "03") for t in ("01", "02", "11", "12")), "04_01",
    }  # fmt: skip
    by_method = {row["method"]: row for row in result["summary"]}
    assert by_method["lda"]["pure_walk"] > 0.9
    assert by_method["mechtrace"]["pure_run"] > 0.7
    assert result["settings"]["steps"] == 120
    assert "numpy" in result["versions"]
