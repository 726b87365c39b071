"""Methods in their authors' own worlds: a short try of each part."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mechtrace.errors import ConfigError
from mechtrace_lab.baselines.own_benchmarks import OWN_BENCHMARKS, OwnBenchmarkJob

pytestmark = pytest.mark.filterwarnings("ignore::mechtrace.errors.FitWarning")


def test_a_method_learns_and_is_judged_at_home(tmp_path):
    job = OwnBenchmarkJob("ivae", OWN_BENCHMARKS["ivae"], 3, 0.004, "cpu")
    row = job.run(tmp_path)
    assert row["status"] == "finished"
    assert 0.2 < row["mcc"] <= 1
    assert row["mcc_oracle"] <= 1
    assert row["accuracy"] is None  # it knows no states
    steps, scores = zip(*row["training"]["matches"], strict=True)
    assert steps[-1] == row["training"]["steps"]
    assert np.isfinite(scores).all()
    job.store(tmp_path, row)
    assert job.stored_row(tmp_path) == json.loads(json.dumps(row))
    assert "MCC" in job.line(row)


def test_what_a_row_rests_on_is_in_its_name():
    job = OwnBenchmarkJob("tdrl", OWN_BENCHMARKS["tdrl"], 0, 1.0, "cpu")
    others = (
        OwnBenchmarkJob("tdrl", OWN_BENCHMARKS["tdrl"], 1, 1.0, "cpu"),
        OwnBenchmarkJob("tdrl", OWN_BENCHMARKS["tdrl"], 0, 0.5, "cpu"),
        OwnBenchmarkJob("tdrl", OWN_BENCHMARKS["tdrl"], 0, 1.0, "cuda"),
        OwnBenchmarkJob("tdrl", OWN_BENCHMARKS["leap"], 0, 1.0, "cpu"),
    )
    assert len({job.stem, *(other.stem for other in others)}) == 5


def test_command_keeps_rows_and_goes_on(command, tmp_path):
    words = ["bench", "homes", "--methods", "pcl", "--seeds", 1, "--share", 0.0005]
    words += ["--device", "cpu", "--out", tmp_path / "homes"]
    code, said, _ = command(*words, "--json", tmp_path / "homes.json")
    assert code == 0
    assert "pcl seed 0: MCC" in said
    (row,) = json.loads((tmp_path / "homes.json").read_text())["rows"]
    (kept,) = (tmp_path / "homes").glob("pcl-seed0-*.json")
    assert json.loads(kept.read_text()) == row
    before = kept.stat().st_mtime_ns
    assert command(*words)[0] == 0
    assert kept.stat().st_mtime_ns == before


def test_an_unknown_method_has_no_home(tmp_path):
    from mechtrace_lab.baselines.own_benchmarks import own_benchmark_study

    with pytest.raises(ConfigError, match="no world is known as the home of 'hmm'"):
        own_benchmark_study(["hmm"], tmp_path)
