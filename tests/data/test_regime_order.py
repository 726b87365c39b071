"""The order of regimes: by appearance, unless their names have one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from mechtrace.data.panel import Panel
from mechtrace.data.regime_order import by_appearance, with_regimes


def panel_of(*regimes):
    rng = np.random.default_rng(0)
    return Panel.from_arrays(rng.normal(size=(len(regimes), 4, 2)), regime=list(regimes))


@pytest.mark.parametrize(
    ("regimes", "expected"),
    [
        (("normal", "leak", "clogged", "leak"), ("normal", "leak", "clogged")),
        (("mode 10", "mode 2"), ("mode 2", "mode 10")),
        (("C", "A", "B"), ("A", "B", "C")),
        (("", "walk", "run"), ("walk", "run")),
    ],
)
def test_regimes_are_in_the_order_of_the_recordings(regimes, expected):
    panel = panel_of(*regimes)
    found = by_appearance(panel)
    assert found.regimes == expected
    for i in range(len(panel)):
        assert found[i].regime is None or found[i].regime.tolist() == panel[i].regime.tolist()


def test_an_order_of_the_user_stays():
    kinds = pd.CategoricalDtype(["low", "high", "mid"], ordered=True)
    frame = pd.DataFrame({"g": pd.Series(["mid", "low", "high"], dtype=kinds), "x": [1.0, 2, 3]})
    panel = Panel.from_frame(frame, regime="g")
    assert by_appearance(panel).regimes == ("low", "high", "mid")
    other = with_regimes(panel, ["mid", "high", "low"])
    assert other.regimes == ("mid", "high", "low")
    assert other.codes.tolist() == [0, 2, 1]


def test_the_command_line_keeps_the_order_of_the_file(command, tmp_path):
    names = ["normal"] * 6 + ["clogged"] * 6
    panel = panel_of(*names)
    panel.to_csv(tmp_path / "runs.csv")
    small = ["--set=align=false", "--hidden=8", "--steps=20", "--latents=2", "--set=evaluations=2"]
    out = tmp_path / "m.mechtrace"
    code, said, err = command("fit", tmp_path / "runs.csv", *small, "--out", out, "--dry-run")
    assert code == 0, err
    assert "regimes: normal, clogged" in said
