"""`mechtrace bench`: what it measures and writes."""

from __future__ import annotations

import json

import pytest


def test_bench_train_writes_its_configuration(command, tmp_path):
    result = tmp_path / "train.json"
    code, out, _ = command(
        "bench", "train", "--seconds", "0.2", "--hidden", "16", "--latents", "4",
        "--channels", "6", "--json", result,
    )  # fmt: skip
    assert code == 0
    measured = json.loads(result.read_text())
    assert measured["transitions_per_second"] > 0
    assert measured["configuration"]["hidden"] == 16
    assert "transitions/s" in out


def test_bench_recover_shows_where_the_time_goes_and_how_it_grows(command, tmp_path):
    result = tmp_path / "recover.json"
    code, out, _ = command(
        "bench", "recover", "--series", "6", "--length", "20", "--regimes", "2", "--repeats", "1",
        "--lengths", "40", "--json", result,
    )  # fmt: skip
    assert code == 0
    assert "1 series of 40" in out
    found = json.loads(result.read_text())
    seconds = 120 / found["steps_per_second"]
    parts = found["microseconds_per_step"]
    assert set(parts) == {"encode", "predict", "evidence", "engine", "rest"}
    assert sum(parts.values()) * 120 / 1e6 == pytest.approx(seconds)
    assert found["scaling"][0]["length"] == 40
    assert found["scaling"][0]["peak_memory_mb"] > 0


@pytest.mark.slow
def test_bench_memory_tells_the_peak_of_each_stage(command, tmp_path):
    result = tmp_path / "memory.json"
    code, out, _ = command(
        "bench", "memory", "--rows", "2000", "--length", "500", "--kind", ".csv", "--json", result
    )
    assert code == 0
    assert "4 recordings of 500 rows: peak memory" in out
    found = json.loads(result.read_text())
    assert list(found["stages"]) == ["start", "read", "recover", "table", "diagnose", "report"]
    for stage in found["stages"].values():
        assert 0 < stage["after_mb"] <= 1.01 * stage["peak_mb"] <= 1.01 * found["peak_memory_mb"]


def test_bench_scaling_writes_its_configuration(command, tmp_path):
    result = tmp_path / "scaling.json"
    code, out, _ = command(
        "bench", "scaling", "--seeds", "1", "--active", "2", "--trials", "5", "--json", result
    )
    assert code == 0
    assert "sigma_min" in out
    written = json.loads(result.read_text())
    assert written["regimes"] == 10
    assert written["versions"]["mechtrace"]


@pytest.mark.slow
def test_bench_scale_and_latents(command, tmp_path):
    code, out, _ = command("bench", "scale", "--series", "4,8", "--steps", "5")
    assert code == 0
    assert "8 series per regime" in out
    result = tmp_path / "latents.json"
    code, _, _ = command(
        "bench", "latents", "--series", "60", "--seeds", "1", "--steps", "250", "--json", result
    )
    assert code == 0
    measured = json.loads(result.read_text())
    assert 0.5 < measured["r2_mean"] <= 1
    assert measured["rows"][0]["seed"] == 0
