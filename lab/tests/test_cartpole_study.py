"""The study of cart-pole pictures: from pixels to axes and weights."""

from __future__ import annotations

import pytest

from mechtrace_lab.studies.cartpole import cartpole_study


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::mechtrace.errors.FitWarning")
def test_from_pixels_to_axes() -> None:
    """A small cart: of the four latents the visible two are found one by one."""
    kept: list[dict] = []
    result = cartpole_study(
        series=40, size=32, length=50, active=(3,), trials=10, seeds=1, first=1, device="cpu",
        steps=1200, hidden=64, on_result=kept.append,
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
    result = cartpole_study(series=100, active=(3,), seeds=1, device="cpu")
    assert result["rows"][0]["mcc"] > 0.97
    assert result["rows"][0]["recovery"][0]["pooled"] > 0.85
