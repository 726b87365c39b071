"""Hostile model files: whatever they hold, one sentence comes out, and soon, and in little memory.

`make fuzz` runs the same generators for longer.
"""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest
from fuzz import models
from fuzz.guard import cases, guarded

import mechtrace as mt
from mechtrace.diagnose import dependence
from mechtrace.errors import StoreError

pytestmark = pytest.mark.fuzz


@pytest.fixture(scope="module")
def data(trained, tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("fuzz") / "model.mechtrace"
    trained.save(path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def recording(panel) -> mt.Panel:
    return mt.Panel.from_arrays(panel.to_arrays()[:1])


@pytest.fixture
def path(tmp_path, monkeypatch) -> Path:
    # the null distribution of a test, which is no part of a file: most of the time of a diagnosis
    monkeypatch.setattr(dependence, "DRAWS", 100)
    monkeypatch.setattr(dependence, "FEWER_DRAWS", 100)
    return tmp_path / "forged.mechtrace"


def test_an_untouched_file_works(data, path, recording, tmp_path) -> None:
    path.write_bytes(models.sealed(models.members(data)))
    assert models.exercise(path, recording, tmp_path / "report.html") == "works"


def test_damage_without_new_checksums_is_refused(data, path) -> None:
    refused, seeds = 0, cases(1000, at_least=120)
    for seed in seeds:
        path.write_bytes(models.mutated(data, seed))
        try:
            with guarded():
                mt.load(path)
        except StoreError:
            refused += 1
    assert refused > 0.9 * len(seeds)  # a flipped date of a member, say, does no harm


@pytest.mark.parametrize("flag", [0x1, 0x40])
def test_members_that_claim_to_be_encrypted_are_refused(data, path, flag) -> None:
    forged = bytearray(data)
    place = data.index(b"PK\x01\x02")
    forged[place + 8 : place + 10] = flag.to_bytes(2, "little")
    path.write_bytes(forged)
    with pytest.raises(StoreError, match=r"usable model|damaged"):
        mt.load(path)


@pytest.mark.parametrize("seed", range(6))
def test_swapped_members_are_refused(data, path, seed) -> None:
    path.write_bytes(models.swapped(data, seed))
    with pytest.raises(StoreError, match="usable model" if seed % 2 else "altered"):
        mt.load(path)


def test_damage_with_new_checksums_is_refused_or_harmless(data, path, recording) -> None:
    answers = []
    for seed in cases(1000, at_least=30):
        path.write_bytes(models.resealed(data, seed))
        with guarded():
            answers.append(models.exercise(path, recording))
    refused = sum("usable model" in answer or "damaged" in answer for answer in answers)
    assert refused > 0.4 * len(answers)
    assert "works" in answers


@pytest.mark.parametrize("seed", cases(3))
def test_every_forged_field_is_refused_or_harmless(data, path, recording, seed) -> None:
    """Each field takes one of the nasty values; which, depends on the seed."""
    answers = {}
    for number, (label, forged) in enumerate(models.forgeries(data, seed)):
        path.write_bytes(forged)
        if number % 8:  # seven of eight are only loaded and described
            try:
                with guarded():
                    answers[label] = mt.load(path).card_
            except StoreError as error:
                answers[label] = str(error)
        else:
            with guarded():
                answers[label] = models.exercise(path, recording)
    refused = [answer for answer in answers.values() if "usable model" in answer]
    assert len(answers) > 150
    assert len(refused) > 0.7 * len(answers)


FORGED = {
    "regimes twice": ({"regimes": ["R0", "R0", "R1"]}, "regimes does not agree"),
    "a channel too few": ({"channels": ["x0"]}, "channels does not agree"),
    "rows that are no rows": ({"shape": [2, 2, 2]}, "shape does not agree"),
    "another count": ({"training_series": {"R9": 1}}, "training_series does not agree"),
    "no finite number": ({"step": 1e999}, "is not a mechtrace file"),
    "400 digits": ({"training_rows": 10**400}, "training_rows is"),
    "a lone surrogate": ({"source": "\ud800"}, "source is"),
    "other evidence": (
        {"evidence": {"selected": ["static"], "tried": ["static"], "errors": {}}},
        "evidence does not agree",
    ),
}


@pytest.mark.parametrize("case", FORGED)
def test_fields_must_agree_with_each_other(data, path, case) -> None:
    change, message = FORGED[case]
    content = models.members(data)
    manifest = json.loads(content["manifest.json"])
    manifest["meta"] |= change
    content["manifest.json"] = json.dumps(manifest).encode()
    path.write_bytes(models.sealed(content))
    with pytest.raises(StoreError, match=message):
        mt.load(path)


def test_an_older_format_with_foreign_fields_is_one_sentence(data, path) -> None:
    content = models.members(data)
    manifest = json.loads(content["manifest.json"]) | {"schema": 1}
    manifest["meta"]["settings"] = 7
    content["manifest.json"] = json.dumps(manifest).encode()
    path.write_bytes(models.sealed(content))
    with pytest.raises(StoreError, match="does not hold a usable model"):
        mt.load(path)


LOAD_ALL = """
import resource, sys, time
from pathlib import Path
import torch
import mechtrace as mt
from mechtrace.errors import StoreError
torch.set_num_threads(1)
files = sorted(Path(sys.argv[1]).iterdir())
mt.load(files.pop(0))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for file in files:
    try:
        mt.load(file)
    except StoreError:
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
        assert grown < 60, f"{file.name}: {grown} MiB"
    else:
        raise AssertionError(file.name)
print(len(files))
"""


def test_bombs_are_refused_before_they_go_off(data, tmp_path) -> None:
    """Small files that claim 160 MB, or layers without end: loaded in 60 MiB, and soon."""
    (tmp_path / "00 good").write_bytes(data)
    for number, (label, bomb) in enumerate(models.bombs(data, 160_000_000), 1):
        assert len(bomb) < 2_000_000
        (tmp_path / f"{number:02} {label}").write_bytes(bomb)
    command = [sys.executable, "-W", "ignore", "-c", LOAD_ALL, str(tmp_path)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == 0, found.stderr
    assert int(found.stdout) > 30


def test_the_generators_are_seeded(data) -> None:
    for change in (models.mutated, models.resealed, models.swapped):
        assert change(data, 3) == change(data, 3) != change(data, 4)
    first, again = (list(islice(models.forgeries(data, 1), 9)) for _ in range(2))
    assert first == again
